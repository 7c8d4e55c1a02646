//! A family of its own for tests: books that are lent.

use jiff::{SignedDuration, Timestamp};

use super::{
    BuiltIn, Facts, LinkValue, Notice, ObjectName, Recipient, SignedLink, Summary, TemplateSet,
    TextValue,
};

pub(super) const DUE: &str = "due-soon";
pub(super) const NEWS: &str = "news";

pub(super) const BOOKS: TemplateSet = TemplateSet {
    object: "book_copy",
    untitled: "your book",
    sent_because: "you have a card of this library",
    texts: &[
        TextValue { name: "long_title", label: None },
        TextValue { name: "shelf", label: Some("Shelf") },
    ],
    links: &[
        LinkValue { name: "keep_week", label: "keep it for one more week" },
        LinkValue { name: "fetch", label: "have it fetched tomorrow, 09:00 {zone}" },
    ],
    templates: &[
        BuiltIn {
            name: DUE,
            text: "{% extends \"layout.txt\" %}
{% block subject %}{{ title }} is due{% if remaining %} in {{ remaining }}{% endif %}{% endblock %}
{% block body %}
Bring {{ title }} back{% if deadline %} on {{ deadline }}{% endif %}{% if reason %}, because {{ reason }}{% endif %}.
{% if alert %}

This is letter {{ alert.number }} of {{ alert.of }}.
{% endif %}
{% if detail %}

{{ detail }}
{% endif %}
{% endblock %}
",
            html: "{% extends \"layout.html\" %}
{% block body %}
<p>Bring <strong>{{ title }}</strong> back{% if reason %}, because {{ reason }}{% endif %}.</p>
<p>{{ detail }}</p>
{% endblock %}
",
            names_object: true,
        },
        BuiltIn {
            name: NEWS,
            text: "Subject: News\nWe have moved.\n",
            html: "<p>We have moved.</p>",
            names_object: false,
        },
    ],
    sample: facts,
};

/// Every fact.
pub(super) fn facts() -> Facts {
    let link = |name| SignedLink { name, url: Some(format!("https://books.example.org/{name}")) };
    Facts {
        object: ObjectName {
            kind: "BookCopy",
            namespace: "city".to_owned(),
            name: "copy-7f3a".to_owned(),
        },
        title: "Emma".to_owned(),
        texts: vec![
            ("long_title", "Emma: A Novel in Three Volumes".to_owned()),
            ("shelf", "A3".to_owned()),
        ],
        reason: "somebody waits for it".to_owned(),
        reason_time: None,
        deadline: Some(Timestamp::UNIX_EPOCH),
        remaining: Some(SignedDuration::from_hours(24)),
        alert: Some((1, 3)),
        url: Some("https://books.example.org/emma".to_owned()),
        links: vec![link("keep_week"), link("fetch")],
        detail: Some("It has a stain.".to_owned()),
    }
}

/// With every fact.
pub(super) fn notice(template: &'static str) -> Notice {
    Notice {
        copies: Vec::new(),
        id: "0e1f.due-1.1794906000".to_owned(),
        template,
        to: Recipient { name: "Ada Lovelace".to_owned(), email: "ada@example.org".to_owned() },
        facts: facts(),
        summary: Summary::default(),
    }
}
