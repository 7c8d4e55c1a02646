//! What lab sends, as it was recorded: operators and programs rely on every byte of it.
//!
//! The recordings are in `golden/`. Whoever changes a mail on purpose changes them with it.

use std::path::Path;
use std::sync::Arc;

use sojourn_drivers::notify::Channel as _;
use sojourn_drivers::notify::webhook::{Form, Webhook};
use sojourn_drivers::trust::trust;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::folder::Folder;
use super::*;

/// A notice with every fact, some of which need escaping.
fn full(template: NoticeTemplate) -> Notice {
    let link = |path: &str| Some(format!("https://sojourn.example.org/{path}?a=1&b=2"));
    let title = "Operating <systems> & \"co\"";
    let facts = Facts {
        object: ObjectName {
            kind: "Instance",
            namespace: "course".to_owned(),
            name: "sample-7f3a".to_owned(),
        },
        title: title.to_owned(),
        texts: vec![(PRETTY_NAME, title.to_owned()), (TEMPLATE, "os/2026".to_owned())],
        reason: "it has not been used since".to_owned(),
        reason_time: Some(at(0)),
        deadline: Some(at(900)),
        remaining: Some(SignedDuration::from_hours(29)),
        alert: Some((2, 3)),
        url: link("access"),
        links: vec![
            SignedLink { name: KEEP_HOUR, url: link("keep-hour") },
            SignedLink { name: KEEP_TOMORROW, url: link("keep-tomorrow") },
            SignedLink { name: STOP, url: link("stop") },
        ],
        detail: Some("web: answered 500\ndb: <none>".to_owned()),
    };
    Notice {
        copies: Vec::new(),
        id: format!("u-1.{}.1800000900", template.name()),
        template: template.name(),
        to: Recipient { name: "Ada Lovelace".to_owned(), email: "ada@example.org".to_owned() },
        summary: summary(template, &facts),
        facts,
    }
}

/// Notices as the family makes them, and one of each kind with every fact and with none.
fn all() -> Vec<(String, Notice)> {
    let mut expired = used();
    expired.expiration.expires_at = Some(at(300));
    let made = [
        ("idle", made(NoticeKind::InactivityWarning, Some(at(900)), &used(), true)),
        ("idle without data", made(NoticeKind::InactivityWarning, Some(at(900)), &used(), false)),
        ("stopped", made(NoticeKind::Stopped, None, &stopped(), true)),
        ("to be deleted", made(NoticeKind::DeletionWarning, Some(at(900)), &stopped(), true)),
        ("deleted", made(NoticeKind::Deleted, None, &stopped(), true)),
        ("to expire", made(NoticeKind::ExpiryWarning, Some(at(900)), &expired, true)),
        ("expired", made(NoticeKind::Expired, None, &expired, true)),
        ("not handed in", made(NoticeKind::SubmissionFailed, None, &stopped(), true)),
    ];
    let made = made.map(|(what, notice)| (what.to_owned(), notice));
    let fulls = ALL.map(|one| (format!("{}, every fact", one.name()), full(one)));
    let empties = ALL.map(|one| (format!("{}, no fact", one.name()), empty(one)));
    made.into_iter().chain(fulls).chain(empties).collect()
}

/// Line by line, for an answer to what has changed.
fn assert_recorded(name: &str, recorded: &str, now: &str) {
    let lines = recorded.split('\n').zip(now.split('\n')).enumerate();
    for (number, (recorded, now)) in lines {
        assert_eq!(now, recorded, "line {} of golden/{name}", number + 1);
    }
    assert_eq!(now.len(), recorded.len(), "golden/{name} is longer or shorter");
}

#[test]
fn mails_are_as_recorded() {
    let templates = rome();
    let mut mails = String::new();
    for (what, notice) in all() {
        let sent = templates.render(&notice).unwrap();
        let (subject, text, html) = (sent.subject, sent.text, sent.html);
        mails.push_str(&format!("=== {what}\nSubject: {subject}\n{text}--- HTML\n{html}\n"));
    }
    assert_recorded("mails.txt", include_str!("../golden/mails.txt"), &mails);
}

#[test]
fn events_are_as_recorded() {
    let mut lines = String::new();
    for (what, notice) in all() {
        let Summary { reason, warning, sentence } = notice.summary;
        let severity = if warning { "Warning" } else { "Normal" };
        lines.push_str(&format!("{what}: {severity} {reason}: {sentence}\n"));
    }
    assert_recorded("events.txt", include_str!("../golden/events.txt"), &lines);
}

/// The bodies that are posted in this form, one after the other.
async fn posted(form: Form) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let hook = Webhook::new(form, &url, trust(None).unwrap(), Arc::new(rome())).unwrap();
    let mut bodies = String::new();
    for (_, notice) in all() {
        let (sent, body) = tokio::join!(hook.send(&notice), body(&listener));
        sent.unwrap();
        bodies.push_str(&body);
        bodies.push('\n');
    }
    bodies
}

/// Takes one request and gives its body.
async fn body(listener: &TcpListener) -> String {
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut request = Vec::new();
    loop {
        request.push(stream.read_u8().await.unwrap());
        let text = String::from_utf8_lossy(&request);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        if body.len() < length.unwrap().parse().unwrap() {
            continue;
        }
        let answer = "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n";
        stream.write_all(answer.as_bytes()).await.unwrap();
        return body.to_owned();
    }
}

#[tokio::test]
async fn webhooks_are_as_recorded() {
    let recorded = include_str!("../golden/webhook.jsonl");
    assert_recorded("webhook.jsonl", recorded, &posted(Form::Json).await);
    let recorded = include_str!("../golden/slack.jsonl");
    assert_recorded("slack.jsonl", recorded, &posted(Form::Slack).await);
}

/// A mail that shows every value that the files of operators can use.
const EVERY_VALUE: &str = "Subject: {{ title }}
kind={{ kind }} name={{ name }} email={{ email }} title={{ title }} instance={{ instance }}
namespace={{ namespace }} pretty_name={{ pretty_name }} template={{ template }} reason={{ reason }}
deadline={{ deadline }} remaining={{ remaining }} url={{ url }} keep_hour={{ keep_hour }}
keep_tomorrow={{ keep_tomorrow }} stop={{ stop }} zone={{ zone }}
{% if alert %}alert={{ alert.number }}/{{ alert.of }}{% endif +%}
detail={{ detail }}
";

/// One whose blocks go around those of the layout.
const AROUND: &str = "{% extends \"layout.txt\" %}
{% block subject %}[lab] {{ title }}{% endblock %}
{% block body %}{{ title }}{% endblock %}
{% block actions %}<{{ super() }}>{% endblock %}
{% block about %}<{{ super() }}>{% endblock %}
";

#[test]
fn template_files_of_operators_work_as_recorded() {
    let cases = [
        ("stopped.txt", EVERY_VALUE),
        ("stopped.txt", AROUND),
        ("expired.txt", "Subject: {% if %}"),
        ("expired.txt", "Subject: x\n{{ titel }}"),
        ("expired.txt", "Subject: x\n{{ title }} {{ alert.number }}"),
        ("expired.txt", "{{ title }}"),
        ("expired.html", "{{ name }}"),
        ("expired.html", "{% extends \"skeleton.html\" %}"),
        ("layout.html", "<p>Hello</p>"),
        ("layout.txt", "Subject: x\n{% block body %}{% endblock %}{{ oops }}"),
        ("expierd.txt", "Subject: x"),
    ];
    let mut lines = String::new();
    for (name, text) in cases {
        let folder = Folder::with(&[(name, text)]);
        lines.push_str(&format!("=== {name}\n{text}\n---\n"));
        match Templates::load(&TEMPLATES, Some(folder.path()), Zone::utc()) {
            Ok(templates) => {
                for notice in [full(NoticeTemplate::Stopped), empty(NoticeTemplate::Stopped)] {
                    let sent = templates.render(&notice).unwrap();
                    lines.push_str(&format!("Subject: {}\n{}---\n", sent.subject, sent.text));
                }
            }
            Err(error) => {
                let words =
                    error.to_string().replace(&folder.path().display().to_string(), "FOLDER");
                lines.push_str(&format!("{words}\n"));
            }
        }
    }
    assert_recorded("files.txt", include_str!("../golden/files.txt"), &lines);
    let files = Templates::files(&TEMPLATES, Path::new("/mail"));
    let files: Vec<_> = files.iter().map(|file| file.display().to_string()).collect();
    assert_recorded("watched.txt", include_str!("../golden/watched.txt"), &files.join("\n"));
}
