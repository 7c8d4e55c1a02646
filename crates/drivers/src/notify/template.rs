//! How notices read: minijinja templates, each as text and as HTML.
//!
//! A family brings its templates ([`TemplateSet`]): `<name>.txt` and `<name>.html` for each. The
//! layouts `layout.txt` and `layout.html`, which they extend, are here. All of these are built in; a
//! file of the same name in the folder of the operator wins. All of them are compiled and rendered
//! once, with every fact and with none, when they are loaded: a broken one is an error then and there,
//! not when somebody has to be warned.
//!
//! The text begins with a line `Subject: …`. A template can use these values. Text is empty when
//! there is none; what may be absent is tested with `{% if … %}`. Values are on one line each
//! (`detail` may have more) and are escaped in HTML.
//!
//! | value | meaning |
//! |---|---|
//! | `kind` | the name of the template |
//! | `name`, `email` | the person |
//! | `title` | what people call the object, else its name, else the family's word for any ("your environment") |
//! | `namespace` | the object's |
//! | `object.kind`, `object.namespace`, `object.name` | which object it is |
//! | `reason` | why, in words |
//! | `deadline` | when it happens: "Tuesday 17 November 2026, 09:00 Europe/Rome" |
//! | `remaining` | how long that is: "1 day and 5 hours" |
//! | `alert.number`, `alert.of` | which warning of how many |
//! | `url` | where the object is |
//! | `zone` | the name of the time zone that times are shown in |
//! | `detail` | more about what went wrong, in lines |
//! | `links` | the signed links that are offered, each with `name`, `label` and `url` |
//! | `texts` | the texts of the family that have a label and are not empty, each with `name`, `label` and `text` |
//! | `sent_because` | why this person gets mail, in words |
//!
//! Beside these there are the family's own, which stand where it registers them: the object's name
//! under the family's word for it, each of its texts, and each of its signed links.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, UndefinedBehavior, Value, context, escape_formatter};

use super::moment::{Zone, span_in_words};
use super::plain::{lines, one_line, web_link};
use super::{Facts, Notice, ObjectName, Recipient, Summary, TemplateSet};

/// No template is larger; a larger file is something else.
const MAX_FILE_BYTES: u64 = 256 * 1024;
const MAX_NAME_CHARS: usize = 200;
const MAX_REASON_CHARS: usize = 500;
const MAX_SUBJECT_CHARS: usize = 250;
const MAX_DETAIL_LINES: usize = 50;
const SUBJECT: &str = "Subject:";

/// What the templates of every family extend.
const LAYOUTS: [(&str, &str); 2] = [
    ("layout.txt", include_str!("templates/layout.txt")),
    ("layout.html", include_str!("templates/layout.html")),
];

/// All templates of a family, and the time zone in which they show times.
#[derive(Debug)]
pub struct Templates {
    set: &'static TemplateSet,
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
    #[error("{} is no mail template of ours; they are {known}", file.display())]
    UnknownFile { file: PathBuf, known: String },
    #[error("the mail template {file} does not compile: {why}")]
    Compile { file: String, why: String },
    #[error("the mail template {file} cannot be rendered with {facts}: {why}")]
    Render { file: String, facts: &'static str, why: RenderError },
    #[error("the mail template {file} gives a mail that does not name the {object}")]
    NamesNothing { file: String, object: &'static str },
    #[error("the built-in mail templates are registered with {name} {how}, which is a bug")]
    Registration { name: &'static str, how: &'static str },
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
    #[error("the notice has {name}, which its family has not registered")]
    Unregistered { template: String, name: &'static str },
}

impl RenderError {
    fn template(&self) -> &str {
        match self {
            Self::Run { template, .. }
            | Self::NoSubject { template }
            | Self::Unregistered { template, .. } => template,
        }
    }
}

impl Templates {
    /// The built-in templates of a family, with those of `folder` in their place, all of them checked.
    pub fn load(
        set: &'static TemplateSet,
        folder: Option<&Path>,
        zone: Zone,
    ) -> Result<Self, TemplateError> {
        check_registration(set, &zone)?;
        let replaced = folder.map_or_else(|| Ok(BTreeMap::new()), |dir| read_folder(set, dir))?;
        let origin = |name: &str| match folder {
            Some(folder) if replaced.contains_key(name) => folder.join(name).display().to_string(),
            _ => format!("{name} (built in)"),
        };
        let mut environment = environment();
        for (name, built_in) in built_in(set) {
            let source = replaced.get(&name).map_or(built_in, String::as_str);
            environment.add_template_owned(name.clone(), source.to_owned()).map_err(|error| {
                TemplateError::Compile { file: origin(&name), why: chain(&error) }
            })?;
        }
        let templates = Self { set, environment, zone };
        templates.check(origin)?;
        Ok(templates)
    }

    /// The files that the templates of a family in `folder` are read from, and the folder, which
    /// changes when one comes or goes.
    pub fn files(set: &TemplateSet, folder: &Path) -> Vec<PathBuf> {
        let templates = built_in(set).map(|(name, _)| folder.join(name));
        std::iter::once(folder.to_owned()).chain(templates).collect()
    }

    pub fn zone(&self) -> &Zone {
        &self.zone
    }

    pub(super) const fn set(&self) -> &'static TemplateSet {
        self.set
    }

    pub fn render(&self, notice: &Notice) -> Result<Rendered, RenderError> {
        let text = format!("{}.txt", notice.template);
        let html = format!("{}.html", notice.template);
        // A fact that no template and no program can find would be lost silently.
        if let Some(name) = unregistered(self.set, &notice.facts) {
            return Err(RenderError::Unregistered { template: text, name });
        }
        let values = values(self.set, notice, &self.zone);
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
        for template in self.set.templates {
            let full = sample(self.set, template.name);
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
            let Facts { title, object: ObjectName { name, .. }, .. } = &full.facts;
            for (body, ending) in [(&sent.text, "txt"), (&sent.html, "html")] {
                if template.names_object && !body.contains(title) && !body.contains(name) {
                    let file = origin(&format!("{}.{ending}", template.name));
                    return Err(TemplateError::NamesNothing { file, object: self.set.object });
                }
            }
        }
        Ok(())
    }
}

/// The files of a family by name, with what is built in.
fn built_in(set: &TemplateSet) -> impl Iterator<Item = (String, &'static str)> {
    let layouts = LAYOUTS.into_iter().map(|(name, source)| (name.to_owned(), source));
    layouts.chain(set.templates.iter().flat_map(|template| {
        [
            (format!("{}.txt", template.name), template.text),
            (format!("{}.html", template.name), template.html),
        ]
    }))
}

/// Whether every name means one thing, and the sample is one of every fact: else a template would be
/// checked with less than it gets.
fn check_registration(set: &TemplateSet, zone: &Zone) -> Result<(), TemplateError> {
    let sample = sample(set, "");
    let wrong = |name, how| Err(TemplateError::Registration { name, how });
    let mut taken = general_values(set, &sample, zone);
    for (name, _) in family_values(set, &sample.facts) {
        if taken.insert(name, Value::from(())).is_some() {
            return wrong(name, "twice");
        }
    }
    if let Some(name) = unregistered(set, &sample.facts) {
        return wrong(name, "only in the sample");
    }
    let texts = set.texts.iter().map(|text| text.name);
    let mut texts = texts.filter(|name| sample.facts.text(name).is_empty());
    let links = set.links.iter().map(|link| link.name);
    let mut links = links.filter(|name| sample.facts.link(name).is_none());
    match texts.next().or_else(|| links.next()) {
        Some(name) => wrong(name, "not in the sample"),
        None => Ok(()),
    }
}

/// The name of a text or a link that the family has not registered.
fn unregistered(set: &TemplateSet, facts: &Facts) -> Option<&'static str> {
    let mut texts = facts.texts.iter().map(|(name, _)| *name);
    let mut links = facts.links.iter().map(|link| link.name);
    texts
        .find(|name| !set.texts.iter().any(|text| text.name == *name))
        .or_else(|| links.find(|name| !set.links.iter().any(|link| link.name == *name)))
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

/// What templates can use, as the tables above have it.
fn values(set: &TemplateSet, notice: &Notice, zone: &Zone) -> Value {
    let mut values = general_values(set, notice, zone);
    values.extend(family_values(set, &notice.facts));
    Value::from(values)
}

/// What is the same for every family.
fn general_values(
    set: &TemplateSet,
    notice: &Notice,
    zone: &Zone,
) -> BTreeMap<&'static str, Value> {
    let facts = &notice.facts;
    let name = one_line(&facts.object.name, MAX_NAME_CHARS);
    let namespace = one_line(&facts.object.namespace, MAX_NAME_CHARS);
    let title = one_line(&facts.title, MAX_NAME_CHARS);
    let title = [title.as_str(), &name].into_iter().find(|name| !name.is_empty());
    let detail =
        facts.detail.as_deref().map(|text| lines(text, MAX_REASON_CHARS, MAX_DETAIL_LINES));
    BTreeMap::from([
        ("kind", Value::from(notice.template)),
        ("name", Value::from(one_line(&notice.to.name, MAX_NAME_CHARS))),
        ("email", Value::from(one_line(&notice.to.email, MAX_NAME_CHARS))),
        ("title", Value::from(title.unwrap_or(set.untitled))),
        ("namespace", Value::from(namespace.as_str())),
        ("object", context! { kind => facts.object.kind, namespace, name }),
        ("reason", Value::from(one_line(&facts.reason(|at| zone.show(at)), MAX_REASON_CHARS))),
        ("zone", Value::from(zone.name())),
        ("deadline", optional(facts.deadline.map(|at| zone.show(at)))),
        ("remaining", optional(facts.remaining.map(span_in_words))),
        ("alert", facts.alert.map_or(Value::from(()), |(number, of)| context! { number, of })),
        ("url", optional(web_link(facts.url.as_deref()))),
        ("detail", optional(detail.filter(|detail| !detail.is_empty()))),
        ("links", links(set, facts, zone)),
        ("texts", labelled_texts(set, facts)),
        ("sent_because", Value::from(set.sent_because)),
    ])
}

/// What the family has registered: all of it, told by this notice or not.
fn family_values(set: &TemplateSet, facts: &Facts) -> impl Iterator<Item = (&'static str, Value)> {
    let text = |text: &str| Value::from(one_line(text, MAX_NAME_CHARS));
    let object = (set.object, text(&facts.object.name));
    let texts = set.texts.iter().map(move |known| (known.name, text(facts.text(known.name))));
    let links = set.links.iter().map(|known| {
        let link = web_link(facts.link(known.name));
        (known.name, optional(link))
    });
    std::iter::once(object).chain(texts).chain(links)
}

/// The links that can be clicked, with what they do.
fn links(set: &TemplateSet, facts: &Facts, zone: &Zone) -> Value {
    let offered = set.links.iter().filter_map(|known| {
        let url = web_link(facts.link(known.name))?;
        let label = known.label.replace("{zone}", zone.name());
        Some(context! { name => known.name, label, url })
    });
    offered.collect()
}

fn labelled_texts(set: &TemplateSet, facts: &Facts) -> Value {
    let told = set.texts.iter().filter_map(|known| {
        let label = known.label?;
        let text = one_line(facts.text(known.name), MAX_NAME_CHARS);
        (!text.is_empty()).then(|| context! { name => known.name, label, text })
    });
    told.collect()
}

/// Absent is `none`, which is defined, unlike a misspelt name.
fn optional(text: Option<String>) -> Value {
    text.map_or(Value::from(()), Value::from)
}

/// A notice with every fact.
fn sample(set: &TemplateSet, template: &'static str) -> Notice {
    Notice {
        copies: Vec::new(),
        id: "sample".to_owned(),
        template,
        to: Recipient { name: "Ada Lovelace".to_owned(), email: "ada@example.org".to_owned() },
        facts: (set.sample)(),
        summary: Summary::default(),
    }
}

/// The files of `folder` that replace built-in ones. What is neither text nor HTML is left alone, so
/// are hidden files, among which Kubernetes keeps the versions of a mounted ConfigMap.
fn read_folder(
    set: &TemplateSet,
    folder: &Path,
) -> Result<BTreeMap<String, String>, TemplateError> {
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
        if !built_in(set).any(|(known, _)| known == name) {
            let known: Vec<_> = built_in(set).map(|(name, _)| name).collect();
            return Err(TemplateError::UnknownFile { file, known: known.join(", ") });
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
