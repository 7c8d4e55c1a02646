//! The built-in mails, and files of operators in their place.

use std::path::Path;

use proptest::prelude::*;
use sojourn_drivers::notify::template::TemplateError;

use super::folder::Folder;
use super::*;
use crate::lab::notice::template_set::sample;

/// No subject has more characters.
const MAX_SUBJECT_CHARS: usize = 250;
/// No file has more bytes.
const MAX_FILE_BYTES: usize = 256 * 1024;

fn load(files: &[(&str, &str)]) -> Result<Templates, TemplateError> {
    let folder = Folder::with(files);
    Templates::load(&TEMPLATES, Some(folder.path()), Zone::utc())
}

fn notice(template: NoticeTemplate) -> Notice {
    let mut notice = Notice {
        id: "sample".to_owned(),
        to: Recipient { name: "Ada Lovelace".to_owned(), email: "ada@example.org".to_owned() },
        facts: sample(),
        ..empty(template)
    };
    notice.facts.deadline = Some("2026-11-17T08:00:00Z".parse().unwrap());
    set_pretty_name(&mut notice, "Operating systems");
    notice
}

fn set_pretty_name(notice: &mut Notice, name: &str) {
    name.clone_into(&mut notice.facts.title);
    notice.facts.texts.retain(|(known, _)| *known != PRETTY_NAME);
    notice.facts.texts.push((PRETTY_NAME, name.to_owned()));
}

#[test]
fn every_kind_has_a_text_and_an_html_template() {
    let files = Templates::files(&TEMPLATES, Path::new("/mail"));
    for template in ALL {
        for ending in ["txt", "html"] {
            let name = format!("{}.{ending}", template.name());
            assert!(files.contains(&Path::new("/mail").join(&name)), "{name}");
        }
    }
}

// case: lab M4
#[test]
fn layout_and_content_make_one_message() {
    let sent = rome().render(&notice(NoticeTemplate::InactivityWarning)).unwrap();
    assert_eq!(sent.subject, "Operating systems will be stopped in 1 day");
    assert_eq!(
        sent.text,
        "\
Hello Ada Lovelace,

Operating systems will be stopped on Tuesday 17 November 2026, 09:00 Europe/Rome, in 1 day, \
because it has not been used for 14 days.

To keep it running, just use it before then. If you do nothing it is stopped; your data stays, \
and you can start it again.

This is warning 1 of 3.

With one click (each link opens a page that asks you once more):
- keep it for one more hour: https://sojourn.example.org/keep-hour
- keep it until tomorrow, 09:00 Europe/Rome: https://sojourn.example.org/keep-tomorrow
- stop it now, I am done: https://sojourn.example.org/stop

--\x20
Operating systems (sample-namespace/sample-7f3a)
Template: sample-template
Address: https://sojourn.example.org/access
You get this mail because this environment was lent to you. Nobody reads answers to it.
"
    );
    for part in [
        "<!DOCTYPE html>",
        "Hello Ada Lovelace,",
        "<strong>Tuesday 17 November 2026, 09:00 Europe&#x2f;Rome</strong>",
        "This is warning 1 of 3.",
        "<a href=\"https:&#x2f;&#x2f;sojourn.example.org&#x2f;keep-hour\">",
        "</html>",
    ] {
        assert!(sent.html.contains(part), "{part} is not in\n{}", sent.html);
    }
}

#[test]
fn the_time_of_a_reason_is_shown_in_the_zone_too() {
    let mut told = notice(NoticeTemplate::Stopped);
    told.facts.reason = "it had not been used since".to_owned();
    told.facts.reason_time = Some("2026-11-17T08:00:00Z".parse().unwrap());
    let sent = rome().render(&told).unwrap();
    let because = "because it had not been used since Tuesday 17 November 2026, 09:00 Europe/Rome.";
    assert!(sent.text.contains(because), "{}", sent.text);
}

#[test]
fn every_kind_says_what_it_is_about() {
    let expected = [
        (
            NoticeTemplate::InactivityWarning,
            "Operating systems will be stopped in 1 day",
            "will be stopped on Tue",
        ),
        (NoticeTemplate::Stopped, "Operating systems was stopped", "Your data is kept."),
        (
            NoticeTemplate::DeletionWarning,
            "Operating systems will be deleted in 1 day",
            "in it on Tuesday 17",
        ),
        (NoticeTemplate::Deleted, "Operating systems was deleted", "was deleted, because it has"),
        (
            NoticeTemplate::ExpiryWarning,
            "The time of Operating systems ends in 1 day",
            "in it on Tuesday 17",
        ),
        (NoticeTemplate::Expired, "Operating systems has ended", "is over and it was deleted"),
        (
            NoticeTemplate::SubmissionFailed,
            "The work in Operating systems could not be handed in",
            "What went wrong:\nthe server answered 500",
        ),
    ];
    let templates = rome();
    for (kind, subject, text) in expected {
        let sent = templates.render(&notice(kind)).unwrap();
        assert_eq!(sent.subject, subject);
        assert!(sent.text.contains(text), "{text} is not in\n{}", sent.text);
        assert!(sent.text.starts_with("Hello Ada Lovelace,\n\n"));
        let offers = sent.text.contains("/stop") && sent.html.contains("stop\">");
        let acts = matches!(
            kind,
            NoticeTemplate::InactivityWarning
                | NoticeTemplate::Stopped
                | NoticeTemplate::DeletionWarning
                | NoticeTemplate::ExpiryWarning
        );
        assert_eq!(offers, acts, "{kind:?}");
    }
}

// case: lab M6
#[test]
fn empty_values_still_render() {
    let templates = rome();
    for kind in ALL {
        let sent = templates.render(&empty(kind)).unwrap();
        assert!(sent.subject.contains("your environment"), "{}", sent.subject);
        assert!(sent.text.starts_with("Hello,\n\n"), "{}", sent.text);
        for body in [&sent.text, &sent.html] {
            for left_over in ["none", "undefined", "{{", "{%", " ,", " .", "()", "in  "] {
                assert!(!body.contains(left_over), "{kind:?}: {left_over:?} in\n{body}");
            }
        }
    }
}

// case: lab M8
#[test]
fn line_breaks_in_names_cannot_add_headers_or_lines() {
    for breaks in ["\r\n", "\n", "\r", "\u{2028}", "\u{85}"] {
        let mut sent = notice(NoticeTemplate::InactivityWarning);
        let name = format!("Lab{breaks}Bcc: all@example.org{breaks}{breaks}x");
        set_pretty_name(&mut sent, &name);
        sent.to.name = format!("Ada{breaks}Cc: y");
        let rendered = rome().render(&sent).unwrap();
        let subject = "Lab Bcc: all@example.org x will be stopped in 1 day";
        assert_eq!(rendered.subject, subject);
        assert!(rendered.text.starts_with("Hello Ada Cc: y,\n\nLab Bcc: all@example.org x will"));
        assert!(!rendered.text.lines().any(|line| line.starts_with("Bcc:")));
    }
}

// case: lab M9
#[test]
fn markup_and_template_signs_in_names_come_out_as_text() {
    let mut sent = notice(NoticeTemplate::Stopped);
    let whole = "$1 ${x} {{ stop }} {% raw %} <script>alert('x')</script> \"&";
    set_pretty_name(&mut sent, whole);
    let rendered = rome().render(&sent).unwrap();
    assert_eq!(rendered.subject, format!("{whole} was stopped"));
    assert!(rendered.text.contains(&format!("\n{whole} was stopped")), "{}", rendered.text);
    assert!(!rendered.html.contains("<script"), "{}", rendered.html);
    let escaped = "$1 ${x} {{ stop }} {% raw %} &lt;script&gt;alert(&#x27;x&#x27;)&lt;&#x2f;script&gt; \
                   &quot;&amp;";
    assert!(rendered.html.contains(escaped), "{}", rendered.html);
}

#[test]
fn a_link_that_is_no_web_address_is_left_out() {
    let mut sent = notice(NoticeTemplate::Stopped);
    sent.facts.url = Some("javascript:alert(1)".into());
    let bad = Some("https://x/\" onclick=\"alert(1)".to_owned());
    sent.facts.links = vec![SignedLink { name: STOP, url: bad }];
    let rendered = rome().render(&sent).unwrap();
    for body in [rendered.text, rendered.html] {
        assert!(!body.contains("alert"), "{body}");
    }
}

#[test]
fn names_without_end_are_cut() {
    let mut sent = notice(NoticeTemplate::SubmissionFailed);
    set_pretty_name(&mut sent, &"x".repeat(1_000_000));
    sent.facts.detail = Some("line\n".repeat(100_000));
    let rendered = rome().render(&sent).unwrap();
    assert!(rendered.subject.chars().count() <= MAX_SUBJECT_CHARS);
    assert!(rendered.text.len() < 5_000, "{}", rendered.text.len());
}

#[test]
fn a_file_of_the_folder_wins() {
    let templates = load(&[
        ("stopped.txt", "\n  Subject: {{ title }} schläft\n\n\n\n{{ title }}: {{ url }}"),
        (".hidden.txt", "{{"),
        ("README.md", "{{"),
    ])
    .unwrap();
    let sent = templates.render(&notice(NoticeTemplate::Stopped)).unwrap();
    assert_eq!(sent.subject, "Operating systems schläft");
    assert_eq!(sent.text, "Operating systems: https://sojourn.example.org/access\n");
    assert!(sent.html.contains("Your data is kept."), "the built-in HTML stays");
    let other = templates.render(&notice(NoticeTemplate::Deleted)).unwrap();
    assert_eq!(other.subject, "Operating systems was deleted");
}

#[test]
fn a_layout_of_the_folder_frames_every_kind() {
    let layout =
        "Subject: [lab] {% block subject %}{% endblock +%}\n{% block body %}{% endblock %}";
    let templates = load(&[("layout.txt", layout)]).unwrap();
    for kind in ALL {
        let sent = templates.render(&notice(kind)).unwrap();
        assert!(sent.subject.starts_with("[lab] "), "{}", sent.subject);
        assert!(!sent.text.contains("Hello"));
    }
}

// case: lab M5
#[test]
fn a_template_without_its_layout_is_an_error_at_loading() {
    let error = load(&[("stopped.html", "{% extends \"skeleton.html\" %}")]).unwrap_err();
    let words = error.to_string();
    assert!(words.contains("/stopped.html cannot be rendered"), "{words}");
    assert!(words.contains("skeleton.html"), "{words}");
}

#[test]
fn a_broken_template_is_an_error_at_loading_that_names_the_file() {
    let cases = [
        ("expired.txt", "Subject: {% if %}", "does not compile"),
        ("expired.txt", "Subject: x\n{{ titel }}", "cannot be rendered with all facts"),
        (
            "expired.txt",
            "Subject: x\n{{ title }} {{ alert.number }}",
            "cannot be rendered with no facts",
        ),
        ("expired.txt", "{{ title }}", "its first line is not `Subject: …`"),
        ("expired.txt", "Subject:  \n{{ title }}", "its first line is not `Subject: …`"),
        ("expired.txt", "", "its first line is not `Subject: …`"),
        ("expired.html", "", "does not name the instance"),
        ("expired.txt", "Subject: {{ title }}\nHello {{ name }}", "does not name the instance"),
        ("layout.html", "<p>Hello</p>", "does not name the instance"),
        (
            "layout.txt",
            "Subject: x\n{% block body %}{% endblock %}{{ oops }}",
            "layout.txt cannot be",
        ),
        ("expired.html", "{% include \"expired.html\" %}", "cannot be rendered"),
        ("expierd.txt", "Subject: x", "is no mail template of ours"),
    ];
    for (name, text, words) in cases {
        let error = load(&[(name, text)]).unwrap_err().to_string();
        assert!(error.contains(words), "{name}: {error}");
        let stem = name.rsplit_once('.').unwrap().0;
        assert!(error.contains(&format!("/{stem}.")) || name == "layout.html", "{name}: {error}");
        assert!(!error.contains('\n'), "{error}");
    }
}

#[test]
fn a_folder_that_is_not_there_and_a_file_that_is_too_large_are_errors() {
    let gone = Templates::load(&TEMPLATES, Some(Path::new("/nonexistent/x")), Zone::utc());
    let gone = gone.unwrap_err();
    assert!(
        gone.to_string().starts_with("cannot list the folder of mail templates /nonexistent/x")
    );
    let large = "x".repeat(MAX_FILE_BYTES + 1);
    let error = load(&[("stopped.txt", &large)]).unwrap_err();
    assert!(matches!(error, TemplateError::TooLarge { .. }), "{error}");
}

proptest! {
    /// Whatever people call themselves and their environments.
    #[test]
    fn any_names_make_a_mail_with_one_subject_and_no_markup_of_theirs(
        name in any::<String>(),
        pretty in "(\r|\n|[A-Z][a-z]+: |<|>|\\{\\{|\\$|\\PC){0,60}",
    ) {
        let templates = rome();
        for template in ALL {
            let mut told = empty(template);
            told.to.name.clone_from(&name);
            told.facts.reason.clone_from(&name);
            told.facts.detail = Some(pretty.clone());
            set_pretty_name(&mut told, &pretty);
            let rendered = templates.render(&told).unwrap();
            prop_assert!(!rendered.subject.contains(char::is_control));
            prop_assert_eq!(
                rendered.html.matches('<').count(),
                rendered.html.matches('>').count()
            );
        }
    }
}
