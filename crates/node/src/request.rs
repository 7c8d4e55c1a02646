//! Asking the API server: with a bound on the time, words for what it was about, and a wait before
//! it is asked again.

use std::time::Duration;

/// After this an answer is not worth waiting for.
const TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug, thiserror::Error)]
pub(crate) enum RequestError {
    #[error("cannot {doing}")]
    Refused { doing: &'static str, source: Box<kube::Error> },
    #[error("cannot {doing}: no answer within {TIMEOUT:?}")]
    Silent { doing: &'static str },
}

impl RequestError {
    /// The API server understood and said no: asking the same again gets the same answer.
    pub(crate) fn is_final(&self) -> bool {
        let code = self.code();
        code.is_some_and(|code| (400..500).contains(&code) && !matches!(code, 408 | 409 | 429))
    }

    /// No API group that is served has such a kind.
    pub(crate) fn is_unknown_kind(&self) -> bool {
        matches!(self, Self::Refused { source, .. } if matches!(**source, kube::Error::Discovery(_)))
    }

    /// The status code of the answer, if there was one.
    pub(crate) fn code(&self) -> Option<u16> {
        match self {
            Self::Refused { source, .. } => match &**source {
                kube::Error::Api(status) => Some(status.code),
                _ => None,
            },
            Self::Silent { .. } => None,
        }
    }
}

/// A request with a bound on its time and words on what it is for.
pub(crate) async fn ask<T>(
    doing: &'static str,
    request: impl Future<Output = kube::Result<T>>,
) -> Result<T, RequestError> {
    match tokio::time::timeout(TIMEOUT, request).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(RequestError::Refused { doing, source: Box::new(error) }),
        Err(_) => Err(RequestError::Silent { doing }),
    }
}

/// An error with what caused it.
pub(crate) fn in_full(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}

/// How long to wait after each failure in a row: doubling, bounded.
#[derive(Debug)]
pub(crate) struct Backoff(Duration);

impl Backoff {
    const MIN_DELAY: Duration = Duration::from_millis(200);
    /// As a kubelet's: an API server that came back is told soon enough to keep its Pods.
    const MAX_DELAY: Duration = Duration::from_secs(7);

    pub(crate) const fn new() -> Self {
        Self(Self::MIN_DELAY)
    }

    pub(crate) fn next(&mut self) -> Duration {
        let wait = self.0;
        self.0 = (wait * 2).min(Self::MAX_DELAY);
        wait
    }
}
