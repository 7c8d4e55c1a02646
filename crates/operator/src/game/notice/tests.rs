use std::sync::{Arc, Mutex};

use futures::future::BoxFuture;
use sojourn_core::notice::{Delivery, Notice as Recorded, NoticeId};
use sojourn_drivers::notify::fake::{Effect, Script, ScriptedAttempt};
use sojourn_drivers::notify::template::Templates;
use sojourn_drivers::notify::{Channel, SendError, Zone};

use super::*;
use crate::outbox::Channels as _;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_900_000_000 + seconds).unwrap()
}

fn failure(number: u32, reason: &str) -> Failure {
    Failure {
        at: at(i64::from(number) * 60),
        life: format!("u-{number}/0"),
        server: format!("arena-{number}"),
        reason: reason.to_owned(),
    }
}

/// So many failures that count, and one more.
fn failed(count: u32) -> FailureRecord {
    FailureRecord {
        failures: (0..count).map(|number| failure(number, "Error: exit code 1")).collect(),
        tripped_at: Some(at(i64::from(count) * 60)),
        tripped_by: Some(failure(count, "Pings <lost>")),
        acknowledged: None,
    }
}

fn made(failures: &FailureRecord, recipient: NoticeRecipient) -> Notice {
    let kind = NoticeKind::NeedsIntervention;
    let recorded = Recorded {
        id: NoticeId::new("u-1", template(kind), at(900)),
        kind,
        alert: None,
        deadline: None,
        recorded_at: at(0),
        attempts: 1,
        delivery: Delivery::Waiting { next: at(30) },
        error: None,
    };
    let context = NoticeContext {
        key: &Key::new("play", "arena"),
        failures,
        window: SignedDuration::from_hours(1),
        max_failures: failures.times_failed(),
        available: 3,
        replicas: 5,
        public_url: Some("https://sojourn.example.org/".to_owned()),
        now: at(600),
    };
    notice(&DueNotice { notice: recorded, recipient }, &context)
}

fn to_ada() -> NoticeRecipient {
    NoticeRecipient::Address("ada@example.org".to_owned())
}

#[test]
fn it_says_what_failed_how_often_and_what_to_do() {
    let templates = Templates::load(&TEMPLATES, None, Zone::utc()).unwrap();
    let mail = templates.render(&made(&failed(7), to_ada())).unwrap();
    assert_eq!(mail.subject, "Somebody has to look at arena in play");
    for body in [&mail.text, &mail.html] {
        for words in ["8 servers", "within 1h", "sojourn acknowledge dgsc/arena -n play"] {
            assert!(body.contains(words), "{words} is not in {body}");
        }
        let told = [2, 3, 4, 5, 6, 7].map(|number| body.contains(&format!("arena-{number}:")));
        assert_eq!(told, [false, true, true, true, true, true], "the last five: {body}");
    }
    assert!(mail.text.contains("Pings <lost>") && !mail.html.contains("<lost>"), "{mail:?}");
    let one = templates.render(&made(&failed(0), to_ada())).unwrap();
    assert!(one.text.starts_with("Hello,\n\n1 server of arena failed"), "{}", one.text);
}

#[test]
fn a_failure_of_which_little_is_on_record_is_told_all_the_same() {
    let bare = Failure { server: String::new(), reason: String::new(), ..failure(1, "") };
    assert_eq!(told(&bare), "2030-03-17T17:47:40Z u-1/0: nobody knows why");
    let none = FailureRecord { tripped_at: Some(at(0)), ..FailureRecord::default() };
    assert_eq!(made(&none, to_ada()).facts.detail, None);
}

/// What is sent, as it was recorded: operators and programs rely on it. Whoever changes a mail on purpose changes the
/// recording with it.
#[test]
fn mails_are_as_recorded() {
    let templates = Templates::load(&TEMPLATES, None, Zone::utc()).unwrap();
    let mut sent = String::new();
    for (failures, recipient) in
        [(failed(2), to_ada()), (failed(0), to_ada()), (failed(2), NoticeRecipient::Webhooks)]
    {
        let notice = made(&failures, recipient);
        let mail = templates.render(&notice).unwrap();
        let Summary { reason, warning, sentence } = &notice.summary;
        let severity = if *warning { "Warning" } else { "Normal" };
        sent.push_str(&format!(
            "=== {}, to {}\nSubject: {}\n{}--- HTML\n{}\n--- Event\n{severity} {reason}: {sentence}\n",
            notice.template, notice.to.email, mail.subject, mail.text, mail.html
        ));
    }
    let recorded = include_str!("golden/sent.txt");
    for (number, (recorded, now)) in recorded.split('\n').zip(sent.split('\n')).enumerate() {
        assert_eq!(now, recorded, "line {} of golden/sent.txt", number + 1);
    }
    assert_eq!(sent.len(), recorded.len(), "golden/sent.txt is longer or shorter\n{sent}");
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

fn routed(channels: Vec<Arc<dyn Channel>>) -> Arc<dyn Channel> {
    GameChannels::new(Arc::new(channels)).current().remove(0)
}

#[tokio::test]
async fn mail_goes_to_addresses_and_chats_are_told_once() {
    let (mail, chat) = (script(vec![]), script(vec![]));
    let both: Vec<Arc<dyn Channel>> = vec![Arc::new(mail.clone()), Arc::new(Chat(chat.clone()))];
    let channel = routed(both);
    for recipient in [to_ada(), NoticeRecipient::Webhooks] {
        assert_eq!(channel.send(&made(&failed(2), recipient)).await, Ok(()));
    }
    let received = |script: &Script| -> Vec<String> {
        script.received().into_iter().map(|one| one.notice.to.email).collect()
    };
    assert_eq!(
        (received(&mail), received(&chat)),
        (vec!["ada@example.org".into()], vec![String::new()])
    );
    let alone = routed(vec![Arc::new(mail.clone())]);
    let nobody = alone.send(&made(&failed(2), NoticeRecipient::Webhooks)).await;
    assert!(matches!(nobody, Err(SendError::Transient(_))), "{nobody:?}");
    assert_eq!(mail.received().len(), 1, "mail is for whoever has an address");
}

#[tokio::test]
async fn of_two_webhooks_one_that_accepts_is_enough_and_refusals_are_told() {
    let first = vec![Effect::FailBefore("down".into()), Effect::Refuse("no".into())];
    let second = vec![Effect::Accept, Effect::Refuse("never".into())];
    let all: Vec<Arc<dyn Channel>> =
        vec![Arc::new(Chat(script(first))), Arc::new(Chat(script(second)))];
    let (channel, notice) = (routed(all), made(&failed(2), NoticeRecipient::Webhooks));
    assert_eq!(channel.send(&notice).await, Ok(()));
    let refused = channel.send(&notice).await;
    assert_eq!(refused, Err(SendError::Refused("slack: no; slack: never".to_owned())));
}
