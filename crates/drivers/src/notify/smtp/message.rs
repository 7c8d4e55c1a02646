//! A notice as a mail: headers, and the body as text and as HTML.

use lettre::message::header::{HeaderName, HeaderValue};
use lettre::message::{Mailbox, MultiPart};
use lettre::{Address, Message};

use super::super::plain::one_line;
use super::super::template::Rendered;
use super::super::{Notice, SendError};

const MAX_NAME_BYTES: usize = 100;
/// A header's line ends at 998 bytes; an id of ours has about a hundred.
const MAX_ID_BYTES: usize = 500;

/// The mail, ready to be sent from `from`.
pub(super) fn compose(
    from: &Mailbox,
    notice: &Notice,
    rendered: Rendered,
) -> Result<Message, SendError> {
    let to = recipient(notice)?;
    let id = message_id(&notice.id, from.email.domain())?;
    Message::builder()
        .from(from.clone())
        .to(to)
        .subject(rendered.subject)
        .message_id(Some(id))
        // Holiday answers and mailing lists leave it alone (RFC 3834).
        .raw_header(HeaderValue::new(
            HeaderName::new_from_ascii_str("Auto-Submitted"),
            "auto-generated".to_owned(),
        ))
        .multipart(MultiPart::alternative_plain_html(rendered.text, rendered.html))
        .map_err(|error| SendError::Refused(format!("the mail cannot be composed: {error}")))
}

fn recipient(notice: &Notice) -> Result<Mailbox, SendError> {
    let email = notice.to.email.trim();
    if email.is_empty() {
        return Err(SendError::Refused("the notice has no recipient".to_owned()));
    }
    let address: Address = email.parse().map_err(|error| {
        let shown = one_line(email, MAX_NAME_BYTES);
        SendError::Refused(format!("{shown:?} is no mail address: {error}"))
    })?;
    let name = one_line(&notice.to.name, MAX_NAME_BYTES);
    Ok(Mailbox::new((!name.is_empty()).then_some(name), address))
}

/// `<id@domain>`. What cannot stand in a Message-ID is written as `=` and two hexadecimal digits, so
/// that different ids stay different.
fn message_id(id: &str, domain: &str) -> Result<String, SendError> {
    let mut left = String::new();
    for byte in id.bytes() {
        if byte.is_ascii_alphanumeric() || b"!#$%&'*+-/?^_`{|}~.".contains(&byte) {
            left.push(char::from(byte));
        } else {
            left.push_str(&format!("={byte:02X}"));
        }
    }
    if left.is_empty() || left.len() > MAX_ID_BYTES {
        let length = id.len();
        return Err(SendError::Refused(format!("an id of {length} bytes cannot be a Message-ID")));
    }
    Ok(format!("<{left}@{domain}>"))
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use proptest::prelude::*;

    use super::*;
    use crate::notify::template::Templates;
    use crate::notify::test_family::{self, BOOKS, DUE};
    use crate::notify::{Facts, Recipient, Zone};

    fn compose_for(name: &str, email: &str, subject: &str) -> Result<String, SendError> {
        let notice = Notice {
            id: "0e1f.inactivity-1.1794906000".to_owned(),
            to: Recipient { name: name.to_owned(), email: email.to_owned() },
            ..test_family::notice(DUE)
        };
        let rendered = Rendered {
            subject: subject.to_owned(),
            text: "Grüße\n.\n".to_owned(),
            html: "<p>Grüße</p>".to_owned(),
        };
        let mail = compose(&"Lab <lab@example.org>".parse().unwrap(), &notice, rendered)?;
        Ok(String::from_utf8(mail.formatted()).unwrap())
    }

    fn headers(mail: &str) -> Vec<&str> {
        let (head, _) = mail.split_once("\r\n\r\n").unwrap();
        head.split("\r\n").collect()
    }

    #[test]
    fn a_mail_has_an_id_says_that_it_is_automatic_and_has_both_parts() {
        let mail = compose_for("Ada", "ada@example.org", "Hello").unwrap();
        let headers = headers(&mail);
        for header in [
            "From: Lab <lab@example.org>",
            "To: Ada <ada@example.org>",
            "Subject: Hello",
            "Message-ID: <0e1f.inactivity-1.1794906000@example.org>",
            "Auto-Submitted: auto-generated",
            "MIME-Version: 1.0",
        ] {
            assert!(headers.contains(&header), "{header} is not in {headers:#?}");
        }
        assert!(headers.iter().any(|line| line.starts_with("Date: ")));
        assert!(
            headers.iter().any(|line| line.starts_with("Content-Type: multipart/alternative;"))
        );
        let text = mail.find("Content-Type: text/plain; charset=utf-8").unwrap();
        let html = mail.find("Content-Type: text/html; charset=utf-8").unwrap();
        assert!(text < html, "the best form comes last");
        assert!(mail.is_ascii());
    }

    /// The names of all headers, in the order of the alphabet.
    fn header_names(mail: &str) -> Vec<&str> {
        let lines = headers(mail).into_iter().filter(|line| !line.starts_with([' ', '\t']));
        let mut names: Vec<_> = lines.map(|line| line.split_once(':').unwrap().0).collect();
        names.sort_unstable();
        names
    }

    const HEADERS: [&str; 8] = [
        "Auto-Submitted",
        "Content-Type",
        "Date",
        "From",
        "MIME-Version",
        "Message-ID",
        "Subject",
        "To",
    ];

    // case: lab M8, M9
    #[test]
    fn names_cannot_add_headers_or_recipients() {
        let wild = "Ada\r\nBcc: all@example.org\r\n\r\n<script>, Eve <eve@example.org> \"\\ $1 é";
        let mail = compose_for(wild, "ada@example.org", &one_line(wild, 250)).unwrap();
        assert_eq!(header_names(&mail), HEADERS);
        let to = headers(&mail).into_iter().skip_while(|line| !line.starts_with("To:"));
        let to: Vec<_> = to.take_while(|line| !line.starts_with("Subject:")).collect();
        assert!(to.concat().ends_with("<ada@example.org>"), "{to:?}");
        assert!(!to.concat().contains("eve@example.org"), "the name is encoded as a whole: {to:?}");
    }

    proptest! {
        /// Whatever a notice holds, what comes out is one mail to one person.
        #[test]
        fn any_notice_is_one_mail_or_refused(
            id in "\\PC{0,20}|[\\x00-\\x7f]{0,20}",
            name in any::<String>(),
            pretty in "(\r|\n|[A-Z][a-z]+: |<|>|\\{\\{|\\$|\\PC){0,60}",
            email in "[a-zé]{1,5}@[a-z]{1,5}\\.org|any|[\\x00-\\x7f]{0,20}",
        ) {
            static TEMPLATES: LazyLock<Templates> =
                LazyLock::new(|| Templates::load(&BOOKS, None, Zone::utc()).unwrap());
            for template in BOOKS.templates {
                let notice = Notice {
                    id: id.clone(),
                    to: Recipient { name: name.clone(), email: email.clone() },
                    facts: Facts {
                        title: pretty.clone(),
                        texts: vec![("shelf", pretty.clone())],
                        detail: Some(pretty.clone()),
                        reason: name.clone(),
                        ..Facts::default()
                    },
                    ..test_family::notice(template.name)
                };
                let rendered = TEMPLATES.render(&notice).unwrap();
                prop_assert!(!rendered.subject.contains(char::is_control));
                prop_assert_eq!(
                    rendered.html.matches('<').count(),
                    rendered.html.matches('>').count()
                );
                let from = "lab@example.org".parse().unwrap();
                let Ok(mail) = compose(&from, &notice, rendered) else { continue };
                prop_assert_eq!(mail.envelope().to().len(), 1);
                let mail = String::from_utf8(mail.formatted()).unwrap();
                prop_assert_eq!(header_names(&mail), HEADERS);
            }
        }
    }

    #[test]
    fn bad_recipients_are_refused_in_words() {
        for (email, words) in [
            ("", "the notice has no recipient"),
            ("  ", "the notice has no recipient"),
            ("ada", "\"ada\" is no mail address"),
            ("ada@example.org\r\nBcc: eve@example.org", "is no mail address"),
            ("ada@example.org, eve@example.org", "is no mail address"),
            ("<ada@example.org>", "is no mail address"),
        ] {
            let error = compose_for("Ada", email, "x").unwrap_err();
            assert!(error.is_permanent());
            assert!(error.to_string().contains(words), "{email:?}: {error}");
            assert!(!error.to_string().contains('\n'));
        }
    }

    #[test]
    fn every_id_is_a_message_id_of_its_own() {
        let id = |id: &str| message_id(id, "example.org").unwrap();
        assert_eq!(id("a/b.c-1"), "<a/b.c-1@example.org>");
        assert_eq!(id("a b>\r\nBcc: x"), "<a=20b=3E=0D=0ABcc=3A=20x@example.org>");
        assert_ne!(id("a=20b"), id("a b"));
        assert_eq!(id("é@"), "<=C3=A9=40@example.org>");
        assert!(message_id("", "x").is_err());
        assert!(message_id(&" ".repeat(1000), "x").is_err());
    }
}
