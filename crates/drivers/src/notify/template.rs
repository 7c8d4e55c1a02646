//! How notices read: minijinja templates, each as text and as HTML.
//!
//! The files are `<kind>.txt`, `<kind>.html` (see [`Kind::stem`]), `layout.txt` and `layout.html`.
//! Those of this program are built in; one of the same name in the folder of the operator wins. All
//! of them are compiled and rendered once, with every fact and with none, when they are loaded: a
//! broken one is an error then and there, not when somebody has to be warned.
//!
//! The text begins with a line `Subject: …`. A template can use these values. Text is empty when
//! there is none; what may be absent is tested with `{% if … %}`. Values are on one line each
//! (`detail` may have more) and are escaped in HTML.
//!
//! | value | meaning |
//! |---|---|
//! | `kind` | the stem of the template |
//! | `name`, `email` | the person |
//! | `title` | the pretty name, else the instance's name, else "your environment" |
//! | `instance`, `namespace`, `pretty_name`, `template` | names |
//! | `reason` | why, in words |
//! | `deadline` | when it happens: "Tuesday 17 November 2026, 09:00 Europe/Rome" |
//! | `remaining` | how long that is: "1 day and 5 hours" |
//! | `alert.number`, `alert.of` | which warning of how many |
//! | `url` | where the instance is |
//! | `keep_hour`, `keep_tomorrow`, `stop` | signed links |
//! | `zone` | the name of the time zone that times are shown in |
//! | `detail` | more about what went wrong, in lines |

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use jiff::{SignedDuration, Timestamp};
use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, UndefinedBehavior, Value, context, escape_formatter};

use super::moment::{Zone, span_in_words};
use super::plain::{lines, one_line, web_link};
use super::{Facts, Kind, Notice, Recipient};

/// No template is larger; a larger file is something else.
const MAX_FILE_BYTES: u64 = 256 * 1024;
const MAX_NAME_CHARS: usize = 200;
const MAX_REASON_CHARS: usize = 500;
const MAX_SUBJECT_CHARS: usize = 250;
const MAX_DETAIL_LINES: usize = 50;
const SUBJECT: &str = "Subject:";

macro_rules! built_in {
    ($($name:literal),* $(,)?) => { [$(($name, include_str!(concat!("templates/", $name)))),*] };
}

const BUILT_IN: [(&str, &str); 16] = built_in![
    "layout.txt",
    "layout.html",
    "inactivity-warning.txt",
    "inactivity-warning.html",
    "stopped.txt",
    "stopped.html",
    "deletion-warning.txt",
    "deletion-warning.html",
    "deleted.txt",
    "deleted.html",
    "expiry-warning.txt",
    "expiry-warning.html",
    "expired.txt",
    "expired.html",
    "submission-failed.txt",
    "submission-failed.html",
];

/// All templates, and the time zone in which they show times.
#[derive(Debug)]
pub struct Templates {
    environment: Environment<'static>,
    zone: Zone,
}

/// A notice as it is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendered {
    /// One line.
    pub subject: String,
    pub text: String,
    pub html: String,
}

#[derive(Debug, thiserror::Error)]
pub enum TemplateError {
    #[error("cannot list the folder of mail templates {}: {source}", folder.display())]
    ListFolder { folder: PathBuf, source: io::Error },
    #[error("cannot read the mail template {}: {source}", file.display())]
    ReadFile { file: PathBuf, source: io::Error },
    #[error("the mail template {} is larger than {MAX_FILE_BYTES} bytes", file.display())]
    TooLarge { file: PathBuf },
    #[error("{} is no mail template of ours; they are {}", file.display(), names())]
    UnknownFile { file: PathBuf },
    #[error("the mail template {file} does not compile: {why}")]
    Compile { file: String, why: String },
    #[error("the mail template {file} cannot be rendered with {facts}: {why}")]
    Render { file: String, facts: &'static str, why: RenderError },
    #[error("the mail template {file} gives a mail that does not name the instance")]
    NamesNothing { file: String },
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RenderError {
    #[error("{why}")]
    Run {
        /// The template in which it went wrong, which may be a layout.
        template: String,
        why: String,
    },
    #[error("its first line is not `{SUBJECT} …`")]
    NoSubject { template: String },
}

impl RenderError {
    fn template(&self) -> &str {
        match self {
            Self::Run { template, .. } | Self::NoSubject { template } => template,
        }
    }
}

impl Templates {
    /// The built-in templates, with those of `folder` in their place, all of them checked.
    pub fn load(folder: Option<&Path>, zone: Zone) -> Result<Self, TemplateError> {
        let replaced = folder.map_or_else(|| Ok(BTreeMap::new()), read_folder)?;
        let origin = |name: &str| match folder {
            Some(folder) if replaced.contains_key(name) => folder.join(name).display().to_string(),
            _ => format!("{name} (built in)"),
        };
        let mut environment = environment();
        for (name, built_in) in BUILT_IN {
            let source = replaced.get(name).map_or(built_in, String::as_str);
            environment.add_template_owned(name, source.to_owned()).map_err(|error| {
                TemplateError::Compile { file: origin(name), why: chain(&error) }
            })?;
        }
        let templates = Self { environment, zone };
        templates.check(origin)?;
        Ok(templates)
    }

    /// The files that the templates in `folder` are read from, and the folder, which changes when one
    /// comes or goes.
    pub fn files(folder: &Path) -> Vec<PathBuf> {
        let templates = BUILT_IN.iter().map(|(name, _)| folder.join(name));
        std::iter::once(folder.to_owned()).chain(templates).collect()
    }

    pub fn zone(&self) -> &Zone {
        &self.zone
    }

    pub fn render(&self, notice: &Notice) -> Result<Rendered, RenderError> {
        let values = values(notice, &self.zone);
        let text = format!("{}.txt", notice.kind.stem());
        let html = format!("{}.html", notice.kind.stem());
        let whole = self.run(&text, &values)?;
        let (subject, body) = whole.trim_start().split_once('\n').unwrap_or((whole.trim(), ""));
        let subject =
            subject.strip_prefix(SUBJECT).map(|subject| one_line(subject, MAX_SUBJECT_CHARS));
        let subject = subject.filter(|subject| !subject.is_empty());
        let subject = subject.ok_or(RenderError::NoSubject { template: text })?;
        Ok(Rendered { subject, text: tidy(body), html: self.run(&html, &values)? })
    }

    fn run(&self, name: &str, values: &Value) -> Result<String, RenderError> {
        self.environment
            .get_template(name)
            .and_then(|template| template.render(values.clone()))
            .map_err(|error| RenderError::Run {
                template: error.name().unwrap_or(name).to_owned(),
                why: chain(&error),
            })
    }

    /// Renders everything once with every fact and once with none.
    fn check(&self, origin: impl Fn(&str) -> String) -> Result<(), TemplateError> {
        for kind in Kind::ALL {
            let full = sample(kind);
            let facts = full.facts.clone();
            let empty =
                Notice { to: Recipient::default(), facts: Facts::default(), ..full.clone() };
            let rendered = |notice: &Notice, facts| {
                self.render(notice).map_err(|why| TemplateError::Render {
                    file: origin(why.template()),
                    facts,
                    why,
                })
            };
            let sent = rendered(&full, "all facts")?;
            rendered(&empty, "no facts")?;
            for (body, ending) in [(&sent.text, "txt"), (&sent.html, "html")] {
                if !body.contains(&facts.pretty_name) && !body.contains(&facts.instance) {
                    let file = origin(&format!("{}.{ending}", kind.stem()));
                    return Err(TemplateError::NamesNothing { file });
                }
            }
        }
        Ok(())
    }
}

fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    // Tags on lines of their own leave no empty lines behind.
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
    environment.set_syntax(syntax.expect("the delimiters are the usual ones"));
    // A misspelt name is an error at loading, not a gap in a mail.
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    // A fact that is not there is a gap, not the word "none".
    environment.set_formatter(|out, state, value| {
        if value.is_none() { Ok(()) } else { escape_formatter(out, state, value) }
    });
    environment
}

/// What templates can use, as the table above has it.
fn values(notice: &Notice, zone: &Zone) -> Value {
    let facts = &notice.facts;
    let instance = one_line(&facts.instance, MAX_NAME_CHARS);
    let pretty_name = one_line(&facts.pretty_name, MAX_NAME_CHARS);
    let title = [&pretty_name, &instance].into_iter().find(|name| !name.is_empty());
    let detail =
        facts.detail.as_deref().map(|text| lines(text, MAX_REASON_CHARS, MAX_DETAIL_LINES));
    context! {
        kind => notice.kind.stem(),
        name => one_line(&notice.to.name, MAX_NAME_CHARS),
        email => one_line(&notice.to.email, MAX_NAME_CHARS),
        title => title.map_or("your environment", String::as_str),
        instance => instance.as_str(),
        namespace => one_line(&facts.namespace, MAX_NAME_CHARS),
        pretty_name => pretty_name.as_str(),
        template => one_line(&facts.template, MAX_NAME_CHARS),
        reason => one_line(&facts.reason(|at| zone.show(at)), MAX_REASON_CHARS),
        zone => zone.name(),
        deadline => optional(facts.deadline.map(|at| zone.show(at))),
        remaining => optional(facts.remaining.map(span_in_words)),
        alert => facts.alert.map_or(Value::from(()), |(number, of)| context! { number, of }),
        url => optional(web_link(facts.url.as_deref())),
        keep_hour => optional(web_link(facts.keep_hour.as_deref())),
        keep_tomorrow => optional(web_link(facts.keep_tomorrow.as_deref())),
        stop => optional(web_link(facts.stop.as_deref())),
        detail => optional(detail.filter(|detail| !detail.is_empty())),
    }
}

/// Absent is `none`, which is defined, unlike a misspelt name.
fn optional(text: Option<String>) -> Value {
    text.map_or(Value::from(()), Value::from)
}

/// A notice with every fact.
fn sample(kind: Kind) -> Notice {
    let link = |path: &str| Some(format!("https://sojourn.example.org/{path}"));
    Notice {
        id: "sample".to_owned(),
        kind,
        to: Recipient { name: "Ada Lovelace".to_owned(), email: "ada@example.org".to_owned() },
        facts: Facts {
            instance: "sample-7f3a".to_owned(),
            namespace: "sample-namespace".to_owned(),
            pretty_name: "Sample environment".to_owned(),
            template: "sample-template".to_owned(),
            reason: "it has not been used for 14 days".to_owned(),
            reason_time: None,
            deadline: Some(Timestamp::UNIX_EPOCH),
            remaining: Some(SignedDuration::from_hours(24)),
            alert: Some((1, 3)),
            url: link("access"),
            keep_hour: link("keep-hour"),
            keep_tomorrow: link("keep-tomorrow"),
            stop: link("stop"),
            detail: Some("the server answered 500".to_owned()),
        },
    }
}

/// The files of `folder` that replace built-in ones. What is neither text nor HTML is left alone, so
/// are hidden files, among which Kubernetes keeps the versions of a mounted ConfigMap.
fn read_folder(folder: &Path) -> Result<BTreeMap<String, String>, TemplateError> {
    let listing = |source| TemplateError::ListFolder { folder: folder.to_owned(), source };
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).map_err(listing)? {
        let file = entry.map_err(listing)?.path();
        let Some(name) = file.file_name().and_then(|name| name.to_str()) else { continue };
        let ours = name.ends_with(".txt") || name.ends_with(".html");
        if name.starts_with('.') || !ours {
            continue;
        }
        // A misspelt name must not leave the built-in template in force silently.
        if !BUILT_IN.iter().any(|(known, _)| *known == name) {
            return Err(TemplateError::UnknownFile { file });
        }
        let name = name.to_owned();
        found.insert(name, read_template(&file)?);
    }
    Ok(found)
}

fn read_template(file: &Path) -> Result<String, TemplateError> {
    let reading = |source| TemplateError::ReadFile { file: file.to_owned(), source };
    let mut source = String::new();
    let opened = fs::File::open(file).map_err(reading)?;
    opened.take(MAX_FILE_BYTES + 1).read_to_string(&mut source).map_err(reading)?;
    if source.len() as u64 > MAX_FILE_BYTES {
        return Err(TemplateError::TooLarge { file: file.to_owned() });
    }
    Ok(source)
}

/// The text of a mail: no more than one empty line in a row, one line end at its end.
fn tidy(body: &str) -> String {
    let mut tidied = String::with_capacity(body.len());
    let mut empty_before = true;
    for line in body.trim().lines() {
        let empty = line.trim().is_empty();
        if empty && empty_before {
            continue;
        }
        tidied.push_str(if empty { "" } else { line });
        tidied.push('\n');
        empty_before = empty;
    }
    tidied
}

fn names() -> String {
    BUILT_IN.map(|(name, _)| name).join(", ")
}

/// An error and what it came from, on one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut words = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        words.push_str(": ");
        words.push_str(&cause.to_string());
        source = cause.source();
    }
    one_line(&words, MAX_REASON_CHARS)
}

#[cfg(test)]
mod tests;
