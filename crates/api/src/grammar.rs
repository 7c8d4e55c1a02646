//! The texts that fields may hold, each said once: the same pattern becomes a rule of the schema,
//! which both engines evaluate, and a check here, so that the two cannot disagree.

use std::sync::OnceLock;

use jiff::SignedDuration;
use regex::Regex;
use serde_json::{Value, json};
use sojourn_core::term::{Term, TermError};

mod go_duration;

pub(crate) use go_duration::{go_age, go_age_rules};

/// A form that a text must have. Patterns are in the syntax that RE2 and `regex` share and are put
/// into raw CEL literals as they are, so they hold no quote.
#[derive(Debug)]
pub(crate) struct Grammar {
    pattern: &'static str,
    /// What must not be in it, in spite of the pattern.
    except: Option<&'static str>,
    /// In characters, as `maxLength` counts.
    pub(crate) longest: usize,
    /// What it must be, as the end of "… must be".
    form: &'static str,
    compiled: OnceLock<(Regex, Option<Regex>)>,
}

impl Grammar {
    const fn new(pattern: &'static str, longest: usize, form: &'static str) -> Self {
        Self { pattern, except: None, longest, form, compiled: OnceLock::new() }
    }

    const fn except(mut self, pattern: &'static str) -> Self {
        self.except = Some(pattern);
        self
    }

    pub(crate) fn message(&self) -> String {
        format!("must be {}", self.form)
    }

    pub(crate) fn check(&self, text: &str) -> Result<(), String> {
        let (shape, except) = self.compiled.get_or_init(|| {
            let compile = |pattern: &str| Regex::new(pattern).expect("patterns are tested");
            (compile(self.pattern), self.except.map(compile))
        });
        let fits = text.chars().count() <= self.longest
            && shape.is_match(text)
            && !except.as_ref().is_some_and(|except| except.is_match(text));
        if fits { Ok(()) } else { Err(self.message()) }
    }

    /// The same check as a CEL expression over `it`.
    pub(crate) fn expression(&self, it: &str) -> String {
        let shape = format!("{it}.matches(r'{}')", self.pattern);
        match self.except {
            Some(except) => format!("{shape} && !{it}.matches(r'{except}')"),
            None => shape,
        }
    }

    /// The same for the name of an object, as a rule over the whole object: metadata has no rules of
    /// its own, and no path leads there.
    pub(crate) fn name_expression(&self) -> String {
        let it = "self.metadata.name";
        format!("{it}.size() <= {} && {}", self.longest, self.expression(it))
    }

    /// The value of `x-kubernetes-validations` for a field of this form.
    pub(crate) fn rules(&self) -> Value {
        json!([{ "rule": self.expression("self"), "message": self.message() }])
    }
}

/// An address that mail servers accept; quoted local parts and bare host names are not for people.
pub(crate) static EMAIL: Grammar = Grammar::new(
    r"^[A-Za-z0-9!#$%&\x27*+/=?^_{|}~-]+([.][A-Za-z0-9!#$%&\x27*+/=?^_{|}~-]+)*@([A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?[.])+[A-Za-z]([A-Za-z0-9-]{0,61}[A-Za-z0-9])$",
    254,
    "an e-mail address such as ada@example.org",
)
.except("^[^@]{65,}@");

/// An Instance's name begins the names of its Pods, claims, Services and Jobs.
pub(crate) static INSTANCE_NAME: Grammar = Grammar::new(
    "^[a-z]([-a-z0-9]*[a-z0-9])?$",
    32,
    "at most 32 lower-case letters, digits and dashes, beginning with a letter: names of Pods, claims and Services are made from it",
);

pub(crate) static ENVIRONMENT_NAME: Grammar = Grammar::new(
    "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
    20,
    "1 to 20 lower-case letters, digits and dashes, not beginning or ending with a dash",
);

/// The name of another object.
pub(crate) static REFERENCE: Grammar = Grammar::new(
    "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$",
    253,
    "the name of an object: lower-case letters, digits, dashes and dots",
);

pub(crate) static NAMESPACE: Grammar = Grammar::new(
    "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
    63,
    "the name of a namespace: lower-case letters, digits and dashes",
);

pub(crate) static MOUNT_PATH: Grammar = Grammar::new(
    "^(/[^/:[:cntrl:]]+)+/?$",
    512,
    "an absolute path below /, without a colon and without ..",
)
.except("/[.][.](/|$)");

/// User names and passwords do not belong in a URL: they would be shown to everybody who reads it.
pub(crate) static URL: Grammar = Grammar::new(
    r"^https?://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?)(:[0-9]{1,5})?([/?][!-~]*)?$",
    2048,
    "a URL that begins with http:// or https:// and carries no user name or password",
);

pub(crate) static SIZE: Grammar = Grammar::new(
    "^[0-9]*[1-9][0-9]*([.][0-9]+)?([KMGTPE]i|[kMGTPE])?$",
    20,
    "a size such as 1Gi or 500M",
);

/// An amount of cpu, memory or the like.
pub(crate) static QUANTITY: Grammar = Grammar::new(
    "^([0-9]+([.][0-9]*)?|[.][0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,2})?$",
    32,
    "an amount such as 500m, 2 or 1Gi",
);

/// `404`, `2xx` or `200-299`.
pub(crate) static CODES: Grammar = Grammar::new(
    "^([1-5]xx|[1-5][0-9][0-9](-[1-5][0-9][0-9])?)$",
    7,
    "an HTTP status such as 404, a class such as 2xx or a range such as 200-299",
);

pub(crate) static PORT_NAME: Grammar = Grammar::new(
    "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
    15,
    "at most 15 lower-case letters, digits and single dashes, with at least one letter",
)
.except("^[0-9-]+$|--");

pub(crate) static VARIABLE: Grammar = Grammar::new(
    "^[A-Za-z_][A-Za-z0-9_.-]*$",
    128,
    "the name of a variable: letters, digits, _, - and ., not beginning with a digit",
);

/// An InstanceGroup's name begins the names of its Machines, which are names of Pods and hosts.
pub(crate) static GROUP_NAME: Grammar = Grammar::new(
    "^[a-z]([-a-z0-9]*[a-z0-9])?$",
    57,
    "at most 57 lower-case letters, digits and dashes, beginning with a letter: names of Machines are made from it",
);

pub(crate) static MACHINE_NAME: Grammar = Grammar::new(
    "^[a-z]([-a-z0-9]*[a-z0-9])?$",
    63,
    "at most 63 lower-case letters, digits and dashes, beginning with a letter: a host is called so",
);

/// A collection's name begins the names of its servers, which are names of Pods and hosts, and is a label of them.
pub(crate) static COLLECTION_NAME: Grammar = Grammar::new(
    "^[a-z]([-a-z0-9]*[a-z0-9])?$",
    57,
    "at most 57 lower-case letters, digits and dashes, beginning with a letter: names of servers are made from it",
);

pub(crate) static SERVER_NAME: Grammar = Grammar::new(
    "^[a-z]([-a-z0-9]*[a-z0-9])?$",
    63,
    "at most 63 lower-case letters, digits and dashes, beginning with a letter: a Pod is called so",
);

/// A user or a group, as the API knows them.
pub(crate) static PRINCIPAL: Grammar = Grammar::new(
    "^[^[:space:][:cntrl:]]([^[:cntrl:]]*[^[:space:][:cntrl:]])?$",
    512,
    "the name of a user or a group: at most 512 characters, none of them a control character, no blank at either end",
);

pub(crate) static CLUSTER: Grammar = Grammar::new(
    "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
    63,
    "the name of a cluster: at most 63 lower-case letters, digits and dashes",
);

pub(crate) static PROVIDER: Grammar = Grammar::new(
    "^[a-z]([-a-z0-9]*[a-z0-9])?$",
    63,
    "the name of a provider: lower-case letters, digits and dashes",
);

/// What machines are known by at their provider: a label of them, or what their names begin with.
pub(crate) static INFRA_ID: Grammar = Grammar::new(
    "^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$",
    63,
    "at most 63 letters, digits, dashes, dots and underscores, beginning and ending with a letter or digit: machines are labelled with it",
);

/// The pattern of one field of a cron line: a list of values, ranges and stars, each with a step.
macro_rules! cron_field {
    ($value:literal) => {
        concat!(cron_item!($value), "(,", cron_item!($value), ")*")
    };
}

macro_rules! cron_item {
    ($value:literal) => {
        concat!("([*]|(", $value, ")(-(", $value, "))?)(/0{0,2}[1-9][0-9]{0,2})?")
    };
}

/// A cron line. Whether its ranges run forwards is found out where it is read.
pub(crate) static CRON: Grammar = Grammar::new(
    concat!(
        "^(@(yearly|annually|monthly|weekly|daily|midnight|hourly)|",
        cron_field!("0{0,2}[0-9]|0?[1-5][0-9]"),
        " +",
        cron_field!("0{0,2}[0-9]|0?1[0-9]|0?2[0-3]"),
        " +",
        cron_field!("0{0,2}[1-9]|0?[12][0-9]|0?3[01]"),
        " +",
        cron_field!("0{0,2}[1-9]|0?1[0-2]|(?i:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)"),
        " +",
        cron_field!("0{0,2}[0-7]|(?i:sun|mon|tue|wed|thu|fri|sat)"),
        ")$"
    ),
    100,
    "minute, hour, day of the month, month and day of the week, such as `0 22 * * 1-5`, or @daily",
);

pub(crate) static TIME_ZONE: Grammar = Grammar::new(
    "^[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9][A-Za-z0-9_+-]*){0,2}$",
    64,
    "the name of a time zone such as UTC or Europe/Rome",
);

/// A share of a group.
pub(crate) static PERCENT: Grammar =
    Grammar::new("^(100|[1-9]?[0-9])%$", 4, "a number from 0 on or a percentage from 0% to 100%");

/// A class of codes, or a range whose end does not come before its beginning.
pub(crate) fn check_codes(text: &str) -> Result<(), String> {
    CODES.check(text)?;
    match text.split_once('-') {
        Some((from, to)) if from > to => Err(CODES.message()),
        _ => Ok(()),
    }
}

pub(crate) fn codes_rules() -> Value {
    let ordered = "!self.contains('-') || self.split('-')[0] <= self.split('-')[1]";
    let shape = CODES.expression("self");
    json!([{ "rule": format!("{shape} && ({ordered})"), "message": CODES.message() }])
}

/// What a term looks like in an expression.
const TERM_SHAPE: &str = "^([0-9]+(w|d|ms)|[0-9]+([.][0-9]+)?(h|m|s))+$";
const TERM_TWICE: &str =
    "w.*w|d.*d|h.*h|ms.*ms|[0-9]s.*[0-9]s|[0-9]m([0-9]|[0-9].*[0-9])m([0-9]|$)";
const TERM_MESSAGE: &str = "must be `never` or a span such as 90s, 12h or 1d12h: each of w, d, h, m, s and ms at most once, decimals on h, m and s only, at most a hundred years";
/// The longest term, in seconds.
const MAX_TERM_SECONDS: &str = "3162240000.0";
/// The same of a term that is limited.
const YEAR_SECONDS: &str = "31536000.0";
const YEAR: SignedDuration = SignedDuration::from_hours(365 * 24);

/// A CEL expression: the seconds of the span `it`.
pub(crate) fn seconds_expression(it: &str) -> String {
    // The number before a unit; none is 0. `m` is minutes only where no `s` follows.
    let amount = |unit: &str| format!("double('0' + {it}.find('[0-9.]+{unit}').find('[0-9.]+'))");
    [
        ("w", "604800.0"),
        ("d", "86400.0"),
        ("h", "3600.0"),
        ("m([0-9]|$)", "60.0"),
        ("s", "1.0"),
        ("ms", "0.001"),
    ]
    .map(|(unit, seconds)| format!("{} * {seconds}", amount(unit)))
    .join(" + ")
}

/// A CEL expression: `it` reads as a term of at most so many seconds.
fn term_expression(it: &str, longest: &str) -> String {
    let total = seconds_expression(it);
    format!(
        "{it} == 'never' || ({it}.matches('{TERM_SHAPE}') && !{it}.matches('{TERM_TWICE}') && {total} <= {longest})"
    )
}

fn term_rule() -> Value {
    json!({ "rule": term_expression("self", MAX_TERM_SECONDS), "message": TERM_MESSAGE })
}

fn year_rule() -> Value {
    json!({ "rule": term_expression("self", YEAR_SECONDS), "message": YEAR_TERM_MESSAGE })
}

pub(crate) fn term_rules() -> Value {
    json!([term_rule()])
}

/// Rules of a span that must be longer than nothing and must end.
pub(crate) fn span_rules() -> Value {
    json!([
        term_rule(),
        { "rule": "self != 'never' && self.matches('[1-9]')", "message": SPAN_MESSAGE },
    ])
}

/// Rules of a span that must end and may be nothing.
pub(crate) fn pause_rules() -> Value {
    json!([
        term_rule(),
        { "rule": "self != 'never'", "message": PAUSE_MESSAGE },
    ])
}

/// Rules of a term that must be longer than nothing.
pub(crate) fn age_rules() -> Value {
    json!([
        term_rule(),
        { "rule": "self == 'never' || self.matches('[1-9]')", "message": AGE_MESSAGE },
    ])
}

/// Rules of a span of at most 365 days that must be longer than nothing and must end.
pub(crate) fn year_span_rules() -> Value {
    json!([
        year_rule(),
        { "rule": "self != 'never' && self.matches('[1-9]')", "message": SPAN_MESSAGE },
    ])
}

/// Rules of a term of at most 365 days, or `never`, that must be longer than nothing.
pub(crate) fn year_age_rules() -> Value {
    json!([
        year_rule(),
        { "rule": "self == 'never' || self.matches('[1-9]')", "message": AGE_MESSAGE },
    ])
}

const YEAR_TERM_MESSAGE: &str = "must be a span such as 90s, 12h or 1d12h: each of w, d, h, m, s and ms at most once, decimals on h, m and s only, at most 365 days";
const YEAR_MESSAGE: &str = "must not be longer than 365 days";
pub(crate) const AGE_MESSAGE: &str =
    "must be longer than zero; write `never` where nothing should expire";
const PAUSE_MESSAGE: &str = "must be a span that ends; `never` is not one";
const SPAN_MESSAGE: &str = "must be a span longer than zero; `never` is not one";

/// A term that must be longer than nothing and must end.
pub(crate) fn span(text: &str) -> Result<SignedDuration, String> {
    match text.parse::<Term>() {
        Ok(Term::Span(span)) if !span.is_zero() => Ok(span),
        Ok(Term::Span(_) | Term::Never) => Err(SPAN_MESSAGE.to_owned()),
        Err(error) => Err(term_problem(&error)),
    }
}

/// A term that must end and may be nothing.
pub(crate) fn pause(text: &str) -> Result<SignedDuration, String> {
    term(text)?.span().ok_or_else(|| PAUSE_MESSAGE.to_owned())
}

/// A term that must be longer than nothing.
pub(crate) fn age(text: &str) -> Result<Term, String> {
    let term = term(text)?;
    if term == Term::ZERO { Err(AGE_MESSAGE.to_owned()) } else { Ok(term) }
}

pub(crate) fn term(text: &str) -> Result<Term, String> {
    text.parse().map_err(|error| term_problem(&error))
}

/// A span of at most 365 days that must be longer than nothing and must end.
pub(crate) fn year_span(text: &str) -> Result<SignedDuration, String> {
    span(text).and_then(|span| if span > YEAR { Err(YEAR_MESSAGE.to_owned()) } else { Ok(span) })
}

/// A term of at most 365 days, or `never`, that must be longer than nothing.
pub(crate) fn year_age(text: &str) -> Result<Term, String> {
    let term = age(text)?;
    if term.span() > Some(YEAR) { Err(YEAR_MESSAGE.to_owned()) } else { Ok(term) }
}

fn term_problem(error: &TermError) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests;
