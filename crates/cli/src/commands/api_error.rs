//! What went wrong between a command and the API, in one sentence, and what to do next.

use std::error::Error;
use std::io::{self, ErrorKind};

use anyhow::anyhow;
use http::{StatusCode, Uri};
use kube::core::Status;

use crate::exit::{Exit, Failure};

/// Libraries nest a handful of errors; one that nests itself ends here.
const MAX_CAUSES: usize = 16;

/// The words for a request that failed. `what` is what was tried, such as `cannot list pods`.
pub(super) fn failure(error: kube::Error, what: &str, server: &Uri, namespace: &str) -> Failure {
    let (exit, words, advice) = match error {
        kube::Error::Api(status) => refusal(&status, server, namespace),
        other => {
            let (words, advice) = no_answer(&other, &server.to_string());
            (Exit::Unavailable, words, advice)
        }
    };
    Failure::new(exit, anyhow!(words).context(what.to_owned()), advice)
}

/// The API has answered, and refuses.
fn refusal(status: &Status, server: &Uri, namespace: &str) -> (Exit, String, String) {
    let words = message(status);
    let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    match code {
        StatusCode::UNAUTHORIZED => (
            Exit::Negative,
            format!("{server} does not accept the credentials of the kubeconfig"),
            "They are of another server or have ended: use those that hold now (--kubeconfig FILE, \
             --context NAME)."
                .to_owned(),
        ),
        StatusCode::FORBIDDEN => (
            Exit::Negative,
            words,
            "Ask whoever runs the platform for the right to do it.".to_owned(),
        ),
        StatusCode::NOT_FOUND => (
            Exit::Negative,
            words,
            format!("Looked in namespace {namespace}; another one: -n NAMESPACE."),
        ),
        StatusCode::TOO_MANY_REQUESTS => {
            (Exit::Unavailable, words, format!("{server} is busy: try again in a moment."))
        }
        code if code.is_server_error() => (
            // A server that fails at one request is still there for others.
            match code {
                StatusCode::INTERNAL_SERVER_ERROR => Exit::Negative,
                _ => Exit::Unavailable,
            },
            words,
            format!("Try again; if it goes on, see how {server} is (/readyz?verbose)."),
        ),
        _ => (Exit::Negative, words, String::new()),
    }
}

/// What a Status says to people.
fn message(status: &Status) -> String {
    let said = status.message.trim();
    // An answer that is no Status is made into one that holds its whole text, such as a page of a proxy.
    let is_text = !said.is_empty() && !said.starts_with('<');
    if is_text {
        return said.lines().map(str::trim).collect::<Vec<_>>().join(" ");
    }
    let code = StatusCode::from_u16(status.code).ok();
    let reason = code.and_then(|code| code.canonical_reason()).unwrap_or("an error");
    format!("the server answers {} {reason}", status.code)
}

/// Nothing that can be used came back from a server: why, and what to do.
pub(super) fn no_answer(error: &(dyn Error + 'static), server: &str) -> (String, String) {
    let other = "or use another kubeconfig (--kubeconfig FILE).";
    match Trouble::of(error) {
        Trouble::Refused => (
            format!("nobody listens at {server}"),
            format!("Start it, such as with `sojourn up`, {other}"),
        ),
        Trouble::Silent => (
            format!("{server} does not answer in time"),
            format!("See whether it is up and reachable from here, {other}"),
        ),
        Trouble::NoSuchHost => (
            format!("nobody knows the host of {server}"),
            format!("See whether names are resolved here, {other}"),
        ),
        Trouble::NotTrusted(why) => (
            format!("the certificate of {server} is not trusted: {why}"),
            "The kubeconfig is of another server, or of an earlier one at this address: use that of \
             the one which runs there (--kubeconfig FILE)."
                .to_owned(),
        ),
        Trouble::NotTls => (
            format!("{server} does not speak TLS"),
            format!("See whether that is the address of a Kubernetes API, {other}"),
        ),
        Trouble::NotKubernetes => (
            format!("{server} does not answer as a Kubernetes API does"),
            format!("See whether that is the address of one, {other}"),
        ),
        Trouble::Credentials(why) => (
            format!("the credentials of the kubeconfig cannot be used: {why}"),
            "Sign in anew with the program that made them, or use another kubeconfig \
             (--kubeconfig FILE)."
                .to_owned(),
        ),
        Trouble::Other(why) => (
            format!("{server} cannot be asked: {why}"),
            format!("See whether it is up and reachable from here, {other}"),
        ),
    }
}

/// Whether an answer is missing because the certificate of the server is of nobody that is trusted.
pub(super) fn is_untrusted(error: &(dyn Error + 'static)) -> bool {
    matches!(Trouble::of(error), Trouble::NotTrusted(_))
}

/// The kinds of trouble that people do different things about.
#[derive(Debug, PartialEq, Eq)]
enum Trouble {
    Refused,
    Silent,
    NoSuchHost,
    NotTrusted(String),
    NotTls,
    NotKubernetes,
    Credentials(String),
    Other(String),
}

impl Trouble {
    fn of(error: &(dyn Error + 'static)) -> Self {
        let causes = causes(error);
        let innermost = || causes.last().map(|cause| plain(*cause)).unwrap_or_default();
        match error.downcast_ref() {
            Some(kube::Error::SerdeError(_) | kube::Error::FromUtf8(_)) => {
                return Self::NotKubernetes;
            }
            Some(kube::Error::Auth(_)) => return Self::Credentials(innermost()),
            _ => {}
        }
        for cause in &causes {
            if let Some(tls) = cause.downcast_ref::<rustls::Error>() {
                return match tls {
                    rustls::Error::InvalidCertificate(why) => {
                        Self::NotTrusted(untrusted(why).to_owned())
                    }
                    _ => Self::NotTls,
                };
            }
            match cause.to_string().as_str() {
                text if text.starts_with("dns error") => return Self::NoSuchHost,
                // It ended the connection rather than shake hands.
                "tls handshake eof" => return Self::NotTls,
                _ => {}
            }
        }
        for cause in &causes {
            match cause.downcast_ref::<io::Error>().map(io::Error::kind) {
                Some(ErrorKind::ConnectionRefused) => return Self::Refused,
                Some(ErrorKind::TimedOut) => return Self::Silent,
                _ => {}
            }
        }
        Self::Other(innermost())
    }
}

fn untrusted(why: &rustls::CertificateError) -> &'static str {
    use rustls::CertificateError as Why;
    match why {
        Why::UnknownIssuer | Why::BadSignature => "another authority has signed it",
        Why::Expired | Why::ExpiredContext { .. } => "it has expired",
        Why::NotValidYet | Why::NotValidYetContext { .. } => "it is not valid yet",
        Why::NotValidForName | Why::NotValidForNameContext { .. } => "it is for another name",
        _ => "it cannot be verified",
    }
}

/// An error and all that caused it, the innermost last.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> Vec<&'a (dyn Error + 'static)> {
    let mut all = Vec::new();
    let mut current = Some(error);
    while let Some(cause) = current.filter(|_| all.len() < MAX_CAUSES) {
        all.push(cause);
        // The source of an I/O error is the source of what is in it: that would be passed over.
        let inner = cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        current = match inner {
            Some(inner) => Some(inner),
            None => cause.source(),
        };
    }
    all
}

/// One error in words, without what is for programmers.
fn plain(error: &(dyn Error + 'static)) -> String {
    if let Some(kube::Error::Api(status)) = error.downcast_ref() {
        return message(status);
    }
    let text = error.to_string();
    let text = text.split(" (os error ").next().unwrap_or_default();
    text.lines().next().unwrap_or_default().trim().to_owned()
}

/// A chain of errors in one line, for whatever was not put in words before: each cause once, and none
/// as programmers see it.
pub(crate) fn in_one_line(error: &anyhow::Error) -> String {
    let mut line = String::new();
    for cause in error.chain() {
        let words = plain(cause);
        // Many errors repeat their cause.
        if !words.is_empty() && !line.contains(&words) {
            if !line.is_empty() {
                line.push_str(": ");
            }
            line.push_str(&words);
        }
        // What the client wraps is its own, told by its words or by `failure`.
        if let Some(kube::Error::Api(_)) = cause.downcast_ref::<kube::Error>() {
            break;
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server() -> Uri {
        Uri::from_static("https://127.0.0.1:7443/")
    }

    fn told(error: kube::Error) -> (Exit, String, String) {
        let failure = failure(error, "cannot list pods", &server(), "shop");
        (failure.exit, in_one_line(&failure.error), failure.advice)
    }

    fn refused(code: u16, message: &str) -> kube::Error {
        kube::Error::Api(Status::failure(message, "Because").with_code(code).boxed())
    }

    fn service(error: impl Error + Send + Sync + 'static) -> kube::Error {
        kube::Error::Service(Box::new(error))
    }

    #[test]
    fn each_refusal_is_one_sentence_with_what_to_do_next() {
        for (code, message, exit, words, advice) in [
            (401, "Unauthorized", Exit::Negative, "does not accept the credentials", "--context"),
            (403, "pods is forbidden", Exit::Negative, "pods is forbidden", "Ask whoever runs"),
            (404, "pods \"a\" not found", Exit::Negative, "not found", "namespace shop"),
            (409, "1 conflict:\n - .a", Exit::Negative, "1 conflict: - .a", ""),
            (500, "no such field", Exit::Negative, "no such field", "Try again"),
            (429, "too many", Exit::Unavailable, "too many", "try again"),
            (503, "<html>no</html>", Exit::Unavailable, "answers 503 Service Unavailable", "Try"),
        ] {
            let told = told(refused(code, message));
            assert_eq!(told.0, exit, "{code}");
            assert!(told.1.starts_with("cannot list pods: "), "{code}: {}", told.1);
            assert!(told.1.contains(words) && !told.1.contains('<'), "{code}: {}", told.1);
            assert!(told.2.contains(advice), "{code}: {}", told.2);
            assert_eq!(told.1.lines().count(), 1, "{}", told.1);
        }
    }

    #[test]
    fn what_keeps_an_answer_away_is_named() {
        let certificate =
            rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer);
        let other = rustls::Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType);
        for (error, words) in [
            (
                service(io::Error::from(ErrorKind::ConnectionRefused)),
                "nobody listens at https://127.0.0.1:7443/",
            ),
            (service(io::Error::from(ErrorKind::TimedOut)), "does not answer in time"),
            (
                service(io::Error::other(io::Error::new(ErrorKind::InvalidData, certificate))),
                "is not trusted: another authority has signed it",
            ),
            (service(io::Error::new(ErrorKind::InvalidData, other)), "does not speak TLS"),
            (
                service(io::Error::other("dns error: failed to look it up")),
                "nobody knows the host of",
            ),
            (
                kube::Error::SerdeError(serde_json::from_str::<u8>("{").expect_err("no number")),
                "does not answer as a Kubernetes API does",
            ),
            (service(io::Error::other("the cable (os error 3)")), "cannot be asked: the cable"),
        ] {
            let (exit, line, advice) = told(error);
            assert_eq!(exit, Exit::Unavailable, "{line}");
            assert!(line.contains(words), "{words} is not in {line}");
            assert!(!line.contains("os error") && !advice.is_empty(), "{line} {advice}");
        }
    }

    /// `kube::Error` prints a Status as Rust sees it.
    #[test]
    fn nothing_that_is_for_programmers_is_told() {
        let error = anyhow::Error::new(refused(422, "spec.size: too large"))
            .context("cannot start the controllers");
        assert_eq!(in_one_line(&error), "cannot start the controllers: spec.size: too large");
        let repeated = anyhow::Error::new(io::Error::other(io::Error::other("the disk is full")))
            .context("cannot write");
        assert_eq!(in_one_line(&repeated), "cannot write: the disk is full");
    }
}
