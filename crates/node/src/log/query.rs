//! What is asked for: the options of a Pod's log, as the API server hands them on.

use std::time::Duration;

use jiff::Timestamp;

/// Which of a container's streams.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Stream {
    #[default]
    All,
    Stdout,
    Stderr,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Query {
    pub follow: bool,
    pub previous: bool,
    pub timestamps: bool,
    pub tail_lines: Option<u64>,
    pub limit_bytes: Option<u64>,
    pub since: Option<Timestamp>,
    pub stream: Stream,
}

/// Why a query is refused, in a kubelet's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum QueryError {
    #[error("{{\"message\": \"Unable to decode query.\"}}")]
    Undecodable,
    #[error("{{\"message\": \"Invalid request.\"}}")]
    Invalid,
}

impl Query {
    /// Reads a query string. Of a parameter that is given twice, the first counts.
    pub(crate) fn parse(text: &str, now: Timestamp) -> Result<Self, QueryError> {
        let get = |wanted: &str| {
            let mut pairs = form_urlencoded::parse(text.as_bytes());
            pairs.find(|(name, _)| name == wanted).map(|(_, value)| value)
        };
        let flag = |name| {
            get(name).is_some_and(|value| !value.eq_ignore_ascii_case("false") && value != "0")
        };
        let number = |name| match get(name) {
            None => Ok(None),
            Some(value) => value.parse::<i64>().map(Some).map_err(|_| QueryError::Undecodable),
        };
        let at_least = |least: i64, number: Option<i64>| match number {
            Some(number) if number < least => Err(QueryError::Invalid),
            other => Ok(other.map(i64::unsigned_abs)),
        };
        // `tail` is what `tailLines` was called once; kubelets still know it.
        let tail_lines = match get("tail").as_deref() {
            None | Some("") => number("tailLines")?,
            Some("all") => None,
            Some(_) => number("tail")?,
        };
        let limit_bytes = number("limitBytes")?;
        let since_seconds = number("sinceSeconds")?;
        let since_time = get("sinceTime");
        let stream = match get("stream").as_deref() {
            None => Ok(Stream::All),
            Some("All") => Ok(Stream::All),
            Some("Stdout") => Ok(Stream::Stdout),
            Some("Stderr") => Ok(Stream::Stderr),
            Some(_) => Err(QueryError::Invalid),
        };
        let since = match (since_time.as_deref(), since_seconds) {
            (None, None) => None,
            (Some(_), Some(_)) => return Err(QueryError::Invalid),
            (Some("" | "null"), None) => None,
            (Some(time), None) => Some(time.parse().map_err(|_| QueryError::Undecodable)?),
            (None, Some(_)) => {
                let seconds = at_least(1, since_seconds)?.unwrap_or_default();
                // Before all time is the beginning.
                now.checked_sub(Duration::from_secs(seconds)).ok()
            }
        };
        let query = Self {
            follow: flag("follow"),
            previous: flag("previous"),
            timestamps: flag("timestamps"),
            tail_lines: at_least(0, tail_lines)?,
            limit_bytes: at_least(1, limit_bytes)?,
            since,
            stream: stream?,
        };
        // As upstream: which lines of one stream are the last ones is not kept count of.
        if query.stream != Stream::All && query.tail_lines.is_some() {
            return Err(QueryError::Invalid);
        }
        Ok(query)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_read_as_by_a_kubelet() {
        let now: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
        let plain = Query::default();
        let cases = [
            ("", Ok(plain.clone())),
            ("follow=true", Ok(Query { follow: true, ..plain.clone() })),
            ("follow", Ok(Query { follow: true, ..plain.clone() })),
            ("follow=false&follow=true", Ok(plain.clone())),
            ("follow=0&previous=False", Ok(plain.clone())),
            ("previous=1&timestamps=yes", {
                Ok(Query { previous: true, timestamps: true, ..plain.clone() })
            }),
            ("tailLines=0", Ok(Query { tail_lines: Some(0), ..plain.clone() })),
            ("tail=7", Ok(Query { tail_lines: Some(7), ..plain.clone() })),
            ("tail=all&tailLines=3", Ok(plain.clone())),
            ("tailLines=-1", Err(QueryError::Invalid)),
            ("tailLines=x", Err(QueryError::Undecodable)),
            ("tailLines=", Err(QueryError::Undecodable)),
            ("tailLines=9223372036854775808", Err(QueryError::Undecodable)),
            ("limitBytes=1", Ok(Query { limit_bytes: Some(1), ..plain.clone() })),
            ("limitBytes=0", Err(QueryError::Invalid)),
            ("sinceSeconds=65", {
                let since = Some("2026-01-02T03:03:00Z".parse().unwrap());
                Ok(Query { since, ..plain.clone() })
            }),
            ("sinceSeconds=0", Err(QueryError::Invalid)),
            ("sinceSeconds=9223372036854775807", Ok(plain.clone())),
            ("sinceTime=2026-01-02T05%3A03%3A00%2B02%3A00", {
                let since = Some("2026-01-02T03:03:00Z".parse().unwrap());
                Ok(Query { since, ..plain.clone() })
            }),
            ("sinceTime=", Ok(plain.clone())),
            ("sinceTime=yesterday", Err(QueryError::Undecodable)),
            ("sinceTime=2026-01-02T03:03:00Z&sinceSeconds=1", Err(QueryError::Invalid)),
            ("stream=Stderr", Ok(Query { stream: Stream::Stderr, ..plain.clone() })),
            ("stream=All&tailLines=1", Ok(Query { tail_lines: Some(1), ..plain.clone() })),
            ("stream=Stdout&tailLines=1", Err(QueryError::Invalid)),
            ("stream=stdout", Err(QueryError::Invalid)),
            ("stream=", Err(QueryError::Invalid)),
            ("%ff=%zz&&==&follow=%00", Ok(Query { follow: true, ..plain })),
        ];
        for (text, expected) in cases {
            assert_eq!(Query::parse(text, now), expected, "{text}");
        }
        assert_eq!(QueryError::Invalid.to_string(), r#"{"message": "Invalid request."}"#);
    }
}
