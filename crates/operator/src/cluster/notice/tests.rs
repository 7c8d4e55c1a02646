use std::sync::Mutex;

use futures::future::BoxFuture;
use sojourn_core::cluster::{Action, Reason};
use sojourn_core::notice::{Delivery, NoticeId};
use sojourn_drivers::notify::fake::{Effect, Script, ScriptedAttempt};
use sojourn_drivers::notify::template::Templates;
use sojourn_drivers::notify::{Channel, SendError, Zone};

use super::*;
use crate::outbox::Channels as _;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_900_000_000 + seconds).unwrap()
}

fn contacts(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| format!("{name}@example.org")).collect()
}

fn made(contacts: &[String]) -> Notice {
    let recorded = Recorded {
        id: NoticeId::new("u-1", "hibernation", at(900)),
        kind: NoticeKind::Hibernation,
        alert: Some((1, 1)),
        deadline: Some(at(900)),
        recorded_at: at(0),
        attempts: 1,
        delivery: Delivery::Waiting { next: at(30) },
        error: None,
    };
    let span = jiff::SignedDuration::from_hours(8);
    let upcoming = UpcomingAction {
        action: Action::Hibernate,
        at: at(900),
        why: Reason::RanFor { span, since: at(-27_900) },
    };
    let context = NoticeContext {
        key: &Key::new("clusters", "blue"),
        contacts,
        upcoming: Some(&upcoming),
        public_url: None,
        now: at(0),
    };
    notice(&recorded, &context)
}

#[test]
fn it_says_when_it_hibernates_why_and_how_that_is_put_off() {
    let templates = Templates::load(&TEMPLATES, None, Zone::utc()).unwrap();
    let notice = made(&contacts(&["ada", "grace"]));
    let mail = templates.render(&notice).unwrap();
    assert!(mail.subject.starts_with("blue hibernates in 15 minutes"), "{}", mail.subject);
    for body in [&mail.text, &mail.html] {
        for words in [
            "sojourn keep cd/blue -n clusters",
            "sojourn resume cd/blue -n clusters",
            "because it has run for 8h since",
        ] {
            assert!(body.contains(words), "{words} is not in {body}");
        }
    }
    assert_eq!(notice.to.email, "ada@example.org");
    assert_eq!(notice.copies.len(), 1);
    let Summary { reason, warning, sentence } = notice.summary;
    assert_eq!((reason, warning), ("HibernationAnnounced", true));
    assert_eq!(
        sentence,
        "It hibernates at 2030-03-17T18:01:40Z, because it has run for 8h since 2030-03-17T10:01:40Z."
    );
}

#[test]
fn without_contacts_nobody_is_named() {
    let notice = made(&[]);
    assert_eq!((notice.to.email.as_str(), notice.copies.len()), ("", 0));
}

/// A chat, which takes what goes to everybody.
#[derive(Debug)]
struct Chat(Script);

impl Channel for Chat {
    fn name(&self) -> &'static str {
        "slack"
    }

    fn is_addressed(&self) -> bool {
        false
    }

    fn send<'a>(&'a self, notice: &'a Notice) -> BoxFuture<'a, Result<(), SendError>> {
        self.0.send(notice)
    }
}

/// One whose attempts go so.
fn script(effects: Vec<Effect>) -> Script {
    let effects = Mutex::new(effects.into_iter());
    Script::new(
        || at(0),
        move |_| {
            let next = effects.lock().unwrap().next();
            ScriptedAttempt::from(next.unwrap_or_default())
        },
    )
}

fn all(channels: Vec<Arc<dyn Channel>>) -> Vec<Arc<dyn Channel>> {
    ClusterChannels::new(Arc::new(channels)).current()
}

#[tokio::test]
async fn every_contact_gets_a_mail_and_a_chat_is_told_once() {
    let (mail, chat) = (script(vec![]), script(vec![]));
    let channels = all(vec![Arc::new(mail.clone()), Arc::new(Chat(chat.clone()))]);
    let notice = made(&contacts(&["ada", "grace", "edsger"]));
    for channel in &channels {
        assert_eq!(channel.send(&notice).await, Ok(()));
    }
    let to: Vec<_> = mail.received().into_iter().map(|one| one.notice.to.email).collect();
    assert_eq!(to, contacts(&["ada", "grace", "edsger"]));
    assert_eq!(chat.received().len(), 1);
}

#[tokio::test]
async fn one_contact_who_was_told_is_not_told_again_because_of_another() {
    let partly = vec![Effect::Accept, Effect::Refuse("unknown".into())];
    let channel = all(vec![Arc::new(script(partly))]).remove(0);
    let notice = made(&contacts(&["ada", "grace"]));
    assert_eq!(channel.send(&notice).await, Ok(()));
    let none = vec![Effect::FailBefore("down".into()), Effect::FailBefore("down".into())];
    let channel = all(vec![Arc::new(script(none))]).remove(0);
    assert!(matches!(channel.send(&notice).await, Err(SendError::Transient(_))));
}
