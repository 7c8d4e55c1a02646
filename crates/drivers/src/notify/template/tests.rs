use super::*;
use crate::notify::folder::Folder;
use crate::notify::test_family::{BOOKS, DUE, NEWS, facts, notice};
use crate::notify::{SignedLink, TextValue};

fn load(files: &[(&str, &str)]) -> Result<Templates, TemplateError> {
    let folder = Folder::with(files);
    Templates::load(&BOOKS, Some(folder.path()), Zone::utc())
}

fn rome() -> Templates {
    Templates::load(&BOOKS, None, Zone::named("Europe/Rome").unwrap()).unwrap()
}

#[test]
fn the_layout_shows_what_the_family_has_registered() {
    let sent = rome().render(&notice(DUE)).unwrap();
    assert_eq!(sent.subject, "Emma is due in 1 day");
    assert_eq!(
        sent.text,
        "\
Hello Ada Lovelace,

Bring Emma back on Thursday 1 January 1970, 01:00 Europe/Rome, because somebody waits for it.

This is letter 1 of 3.

It has a stain.

With one click (each link opens a page that asks you once more):
- keep it for one more week: https://books.example.org/keep_week
- have it fetched tomorrow, 09:00 Europe/Rome: https://books.example.org/fetch

--\x20
Emma (city/copy-7f3a)
Shelf: A3
Address: https://books.example.org/emma
You get this mail because you have a card of this library. Nobody reads answers to it.
"
    );
    for part in [
        "<a href=\"https:&#x2f;&#x2f;books.example.org&#x2f;keep_week\">Keep it for one more week</a>",
        ">Have it fetched tomorrow, 09:00 Europe&#x2f;Rome</a>",
        "<br>Shelf: A3<br>You get this mail because you have a card",
    ] {
        assert!(sent.html.contains(part), "{part} is not in\n{}", sent.html);
    }
}

#[test]
fn what_is_not_told_leaves_no_gap() {
    let empty = Notice { to: Recipient::default(), facts: Facts::default(), ..notice(DUE) };
    let sent = rome().render(&empty).unwrap();
    assert_eq!(sent.subject, "your book is due");
    assert_eq!(
        sent.text,
        "\
Hello,

Bring your book back.

--\x20
your book
You get this mail because you have a card of this library. Nobody reads answers to it.
"
    );
    for left_over in ["none", "Shelf", "<ul>", "()"] {
        assert!(!sent.html.contains(left_over), "{left_over} in\n{}", sent.html);
    }
    let mut unoffered = notice(DUE);
    unoffered.facts.links = vec![SignedLink { name: "fetch", url: None }];
    assert!(!rome().render(&unoffered).unwrap().text.contains("With one click"));
}

#[test]
fn templates_find_every_value_of_the_family_by_its_name() {
    let text = "Subject: {{ title }}\n{{ book_copy }} {{ long_title }} {{ shelf }} {{ keep_week }} \
                {{ fetch }} {{ object.kind }} {{ object.namespace }} {{ object.name }} {{ kind }}";
    let templates = load(&[("due-soon.txt", text)]).unwrap();
    let sent = templates.render(&notice(DUE)).unwrap();
    assert_eq!(
        sent.text,
        "copy-7f3a Emma: A Novel in Three Volumes A3 https://books.example.org/keep_week \
         https://books.example.org/fetch BookCopy city copy-7f3a due-soon\n"
    );
}

#[test]
fn text_of_the_family_is_one_line_and_its_links_are_web_addresses() {
    let mut sent = notice(DUE);
    sent.facts.texts = vec![("shelf", "A3\r\nBcc: all@example.org".to_owned())];
    sent.facts.links =
        vec![SignedLink { name: "fetch", url: Some("javascript:alert(1)".to_owned()) }];
    let rendered = rome().render(&sent).unwrap();
    assert!(rendered.text.contains("\nShelf: A3 Bcc: all@example.org\n"), "{}", rendered.text);
    assert!(!rendered.text.contains("alert") && !rendered.html.contains("alert"));
}

#[test]
fn only_some_mails_have_to_name_the_object() {
    let hello = "Subject: Hello\nHello {{ name }}";
    let error = load(&[("due-soon.txt", hello)]).unwrap_err().to_string();
    assert!(error.ends_with("/due-soon.txt gives a mail that does not name the book_copy"));
    let sent = load(&[("news.txt", hello)]).unwrap().render(&notice(NEWS)).unwrap();
    assert_eq!((sent.subject.as_str(), sent.text.as_str()), ("Hello", "Hello Ada Lovelace\n"));
}

#[test]
fn files_are_those_of_the_family_and_the_layouts() {
    let names = ["layout.txt", "layout.html", "due-soon.txt", "due-soon.html", "news.txt"];
    let files = Templates::files(&BOOKS, Path::new("/mail"));
    assert_eq!(files.first().map(PathBuf::as_path), Some(Path::new("/mail")));
    assert_eq!(files.len(), 7);
    for name in names {
        assert!(files.contains(&Path::new("/mail").join(name)), "{name}");
    }
    let error = load(&[("stopped.txt", "Subject: x")]).unwrap_err().to_string();
    let known =
        "they are layout.txt, layout.html, due-soon.txt, due-soon.html, news.txt, news.html";
    assert!(error.ends_with(known), "{error}");
}

#[test]
fn a_broken_template_is_an_error_at_loading_that_names_the_file() {
    let cases = [
        ("due-soon.txt", "Subject: {% if %}", "does not compile"),
        ("due-soon.txt", "Subject: x\n{{ shelv }}", "cannot be rendered with all facts"),
        ("due-soon.txt", "Subject: x\n{{ title }}{{ alert.of }}", "rendered with no facts"),
        ("due-soon.txt", "{{ title }}", "its first line is not `Subject: …`"),
        ("layout.txt", "Subject: x\n{{ oops }}", "layout.txt cannot be rendered"),
    ];
    for (name, text, words) in cases {
        let error = load(&[(name, text)]).unwrap_err().to_string();
        assert!(error.contains(words) && error.contains(&format!("/{name} ")), "{name}: {error}");
        assert!(!error.contains('\n'), "{error}");
    }
}

#[test]
fn a_folder_that_is_not_there_and_a_file_that_is_too_large_are_errors() {
    let gone = Path::new("/nonexistent/x");
    let gone = Templates::load(&BOOKS, Some(gone), Zone::utc()).unwrap_err();
    assert!(
        gone.to_string().starts_with("cannot list the folder of mail templates /nonexistent/x")
    );
    let large = "x".repeat(usize::try_from(MAX_FILE_BYTES).unwrap() + 1);
    let error = load(&[("due-soon.txt", &large)]).unwrap_err();
    assert!(matches!(error, TemplateError::TooLarge { .. }), "{error}");
}

#[test]
fn a_notice_that_its_family_has_not_registered_is_not_sent_in_part() {
    let mut sent = notice(DUE);
    sent.facts.texts.push(("colour", "red".to_owned()));
    let error = rome().render(&sent).unwrap_err().to_string();
    assert_eq!(error, "the notice has colour, which its family has not registered");
    let mut sent = notice(DUE);
    sent.facts.links.push(SignedLink { name: "burn", url: None });
    assert!(rome().render(&sent).is_err());
    assert!(rome().render(&notice("due-late")).is_err());
}

#[test]
fn a_wrong_registration_is_an_error_at_loading() {
    const BOOKS_WITHOUT: TemplateSet = TemplateSet { texts: &[], links: &[], ..BOOKS };
    static TAKEN: TemplateSet =
        TemplateSet { texts: &[TextValue { name: "title", label: None }], ..BOOKS_WITHOUT };
    static TWICE: TemplateSet =
        TemplateSet { texts: &[TextValue { name: "book_copy", label: None }], ..BOOKS_WITHOUT };
    static UNKNOWN: TemplateSet = BOOKS_WITHOUT;
    static POOR: TemplateSet =
        TemplateSet { sample: || Facts { links: Vec::new(), ..facts() }, ..BOOKS };
    for (set, words) in [
        (&TAKEN, "title twice"),
        (&TWICE, "book_copy twice"),
        (&UNKNOWN, "long_title only in the sample"),
        (&POOR, "keep_week not in the sample"),
    ] {
        let error = Templates::load(set, None, Zone::utc()).unwrap_err().to_string();
        assert!(error.contains(&format!("with {words}, which is a bug")), "{error}");
    }
}
