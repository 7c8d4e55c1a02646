//! How volatile texts look.

use jiff::{SignedDuration, Timestamp};
use regex::{Captures, Regex};

/// Times further from now than this were written by the scenario itself.
const MAX_DISTANCE_FROM_NOW: SignedDuration = SignedDuration::from_hours(48);

pub(super) struct Patterns {
    uid: Regex,
    time: Regex,
    age: Regex,
    replaced: Vec<(Regex, &'static str)>,
}

impl Patterns {
    pub(super) fn new() -> Self {
        let regex = |pattern: &str| Regex::new(pattern).expect("the pattern is valid");
        Self {
            uid: regex("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"),
            time: regex(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"),
            age: regex(r"(^|\()([0-9]+[ydhms])+($| ago\)$)"),
            replaced: [
                // The service network of the control plane.
                (r"\b10\.0\.0\.\d{1,3}\b", "<ip>"),
                (r"\b127\.0\.0\.1:\d+", "127.0.0.1:<port>"),
                (r"\bkube-api-access-[a-z0-9]{5}\b", "kube-api-access-<suffix>"),
                (r"\beyJ[\w-]+\.[\w-]+\.[\w-]+", "<jwt>"),
                (r"(?s)-----BEGIN CERTIFICATE-----.*", "<pem>"),
                // Versions in messages, whose other numbers stay.
                (
                    r"(?i)(resource ?version(?: in precondition| in object meta)?: |current: )\d+\b",
                    "${1}<rv>",
                ),
                (r"(ResourceVersion in (?:the precondition|record) )\(\d+\)", "${1}(<rv>)"),
                (r#"(resourceVersion\\*":\\*")\d+"#, "${1}<rv>"),
                (r"(too old resource version: )\S+ \(\d+\)", "${1}<rv> (<rv>)"),
                (r#"(resourceVersion: )"\d+""#, "${1}<rv>"),
            ]
            .map(|(pattern, replacement)| (regex(pattern), replacement))
            .into(),
        }
    }

    /// A cell of a Table without the age that it may hold, such as `2d` or `3 (2d ago)`.
    pub(super) fn without_age(&self, cell: &str) -> String {
        self.age.replace(cell, "${1}<age>${3}").into_owned()
    }

    pub(super) fn uids(&self, text: &str) -> Vec<String> {
        self.uid.find_iter(text).map(|found| found.as_str().to_owned()).collect()
    }

    pub(super) fn replace_volatile(&self, text: &str) -> String {
        let now = Timestamp::now();
        let mut text = self
            .time
            .replace_all(text, |found: &Captures<'_>| {
                let near = found[0]
                    .parse::<Timestamp>()
                    .is_ok_and(|time| time.duration_since(now).abs() < MAX_DISTANCE_FROM_NOW);
                match (near, found.get(1)) {
                    (false, _) => found[0].to_owned(),
                    (true, None) => "<time>".to_owned(),
                    (true, Some(_)) => "<microtime>".to_owned(),
                }
            })
            .into_owned();
        for (pattern, replacement) in &self.replaced {
            if pattern.is_match(&text) {
                text = pattern.replace_all(&text, *replacement).into_owned();
            }
        }
        text
    }
}
