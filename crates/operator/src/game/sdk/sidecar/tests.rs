//! A sidecar on a clock of its own, and an operator that does what it is told.

use std::collections::VecDeque;

use serde_json::json;
use sojourn_core::key::Key;

use super::super::{CounterChange, GameServerState, HealthView};
use super::*;

const SECOND: Duration = Duration::from_secs(1);

/// Keeps what it is asked, and answers what a test says, or else how the server is.
#[derive(Debug)]
struct ScriptedOperator {
    server: watch::Sender<GameServerView>,
    asked: Mutex<Vec<Call>>,
    answers: Mutex<VecDeque<CallError>>,
    /// Nothing is heard any more.
    cut_off: std::sync::atomic::AtomicBool,
}

impl Upstream for ScriptedOperator {
    fn call<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Result<GameServerView, CallError>> {
        async move {
            self.asked.lock().unwrap().push(call.clone());
            if self.cut_off.load(std::sync::atomic::Ordering::Relaxed) {
                return Err(CallError::Unheard("nobody listens".to_owned()));
            }
            if let Some(answer) = self.answers.lock().unwrap().pop_front() {
                return Err(answer);
            }
            match call {
                Call::Say(SdkRequest::Ready) => self.server.send_modify(|server| {
                    server.state = GameServerState::Ready;
                    server.pings_expected = true;
                    "2".clone_into(&mut server.resource_version);
                }),
                Call::Look(Look { after: Some(after), wait_seconds }) => {
                    let mut changed = self.server.subscribe();
                    let other = changed.wait_for(|server| server.resource_version != *after);
                    let limit = Duration::from_secs(u64::from(*wait_seconds));
                    drop(timeout(limit, other).await);
                }
                Call::Say(_) | Call::Look(_) => {}
            }
            Ok(self.server.borrow().clone())
        }
        .boxed()
    }
}

impl ScriptedOperator {
    /// What it was asked since it was asked last.
    fn asked(&self) -> Vec<Call> {
        std::mem::take(&mut *self.asked.lock().unwrap())
    }

    fn answer(&self, errors: impl IntoIterator<Item = CallError>) {
        self.answers.lock().unwrap().extend(errors);
    }

    fn cut_off(&self, cut_off: bool) {
        self.cut_off.store(cut_off, std::sync::atomic::Ordering::Relaxed);
    }

    fn silences(&self) -> Vec<Silence> {
        let told = self.asked().into_iter().filter_map(|call| match call {
            Call::Say(SdkRequest::Silence(silence)) => Some(silence),
            Call::Say(_) | Call::Look(_) => None,
        });
        told.collect()
    }
}

fn identity() -> ServerIdentity {
    ServerIdentity { key: Key::new("arena", "doom-x7"), uid: String::new() }
}

/// A sidecar whose work runs, and its operator.
async fn start() -> (Arc<Sidecar>, Arc<ScriptedOperator>) {
    let health = HealthView {
        disabled: false,
        period: SignedDuration::from_secs(5),
        failure_threshold: 3,
        initial_delay: SignedDuration::ZERO,
    };
    let server =
        GameServerView { resource_version: "1".to_owned(), health, ..GameServerView::default() };
    let operator = Arc::new(ScriptedOperator {
        server: watch::Sender::new(server),
        asked: Mutex::default(),
        answers: Mutex::default(),
        cut_off: std::sync::atomic::AtomicBool::default(),
    });
    let (sidecar, work) = Sidecar::new(&identity(), operator.clone());
    tokio::spawn(work);
    sleep(SECOND).await;
    assert_eq!(operator.asked(), [Call::Look(Look::default())], "how the server is, once");
    (sidecar, operator)
}

#[tokio::test(start_paused = true)]
async fn pings_stay_here_until_they_are_missing() {
    let (sidecar, operator) = start().await;
    sleep(SECOND * 600).await;
    assert_eq!(operator.asked(), [], "nobody expects any before Ready");
    sidecar.take(&identity(), SdkRequest::Ready).await.expect("it is heard");
    operator.asked();
    for _ in 0..100 {
        sleep(SECOND * 5).await;
        sidecar.take(&identity(), SdkRequest::Health).await.expect("it is heard");
    }
    assert_eq!(operator.asked(), [], "who is well says nothing");
    sleep(SECOND * 14).await;
    assert_eq!(operator.asked(), []);
    sleep(SECOND * 2).await;
    let [told] = operator.silences()[..] else { panic!("silence is told once") };
    assert_eq!(told.since_ping, Some(SignedDuration::from_secs(15)));
    assert!(told.listening_for > SignedDuration::from_secs(1_000), "{told:?}");
    sleep(SECOND * 15).await;
    assert_eq!(operator.silences().len(), 1, "and again, while pings are expected");
    operator.server.send_modify(|server| server.pings_expected = false);
    sleep(SECOND * 15).await;
    assert_eq!(operator.silences().len(), 1, "which is how it learns that they are not");
    sleep(SECOND * 600).await;
    assert_eq!(operator.asked(), []);
}

#[tokio::test(start_paused = true)]
async fn whoever_never_pings_after_ready_is_silent_from_then_on() {
    let (sidecar, operator) = start().await;
    sleep(SECOND * 600).await;
    sidecar.take(&identity(), SdkRequest::Ready).await.expect("it is heard");
    operator.asked();
    sleep(SECOND * 14).await;
    assert_eq!(operator.asked(), []);
    sleep(SECOND * 2).await;
    assert_eq!(operator.silences().first().map(|told| told.since_ping), Some(None));
}

#[tokio::test(start_paused = true)]
async fn what_a_server_says_is_said_until_it_is_heard() {
    let (sidecar, operator) = start().await;
    operator.cut_off(true);
    let saying = sidecar.clone();
    let said = tokio::spawn(async move { saying.take(&identity(), SdkRequest::Ready).await });
    sleep(SECOND * 12).await;
    let tries = operator.asked().len();
    assert!((3..20).contains(&tries), "{tries} tries");
    assert!(!said.is_finished());
    operator.cut_off(false);
    let view = said.await.expect("no panic").expect("it is heard in the end");
    assert_eq!(view.state, GameServerState::Ready);

    operator.cut_off(true);
    let begun = Instant::now();
    let given_up = sidecar.take(&identity(), SdkRequest::Allocate).await;
    assert_eq!(given_up, Err(SdkError::Unavailable("nobody listens".to_owned())));
    assert!(begun.elapsed() <= SAY_TIMEOUT, "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_told_at_once_and_a_difference_is_never_counted_twice() {
    let (sidecar, operator) = start().await;
    let change = CounterChange { diff: 1, ..CounterChange::default() };
    let count = || SdkRequest::UpdateCounter { name: "rooms".to_owned(), change };
    let unheard = || CallError::Unheard("starting".to_owned());
    let unsure = || CallError::Unsure("cut off".to_owned());

    operator.answer([CallError::Refused(SdkError::OutOfRange("full".to_owned()))]);
    let refused = sidecar.take(&identity(), count()).await;
    assert_eq!(refused, Err(SdkError::OutOfRange("full".to_owned())));
    assert_eq!(operator.asked().len(), 1);

    operator.answer([unheard(), CallError::Refused(SdkError::Conflict), unheard()]);
    sidecar.take(&identity(), count()).await.expect("nobody heard it before");
    assert_eq!(operator.asked().len(), 4);

    operator.answer([unsure()]);
    let unknown = sidecar.take(&identity(), count()).await;
    assert!(matches!(unknown, Err(SdkError::Unavailable(_))), "{unknown:?}");
    assert_eq!(operator.asked().len(), 1, "it may have been counted");

    operator.answer([unsure(), CallError::Refused(SdkError::Unavailable("etcd".to_owned()))]);
    sidecar.take(&identity(), SdkRequest::Ready).await.expect("Ready twice is Ready");
    assert_eq!(operator.asked().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn one_request_waits_for_all_who_watch_and_none_for_nobody() {
    let (sidecar, operator) = start().await;
    let mut watches = [sidecar.watch(&identity()), sidecar.watch(&identity())];
    for watch in &mut watches {
        assert_eq!(watch.next().await.expect("the server").resource_version, "1");
    }
    sleep(SECOND * 65).await;
    let looks = operator.asked().len();
    assert!((3..6).contains(&looks), "{looks} looks in a minute");
    operator.server.send_modify(|server| "7".clone_into(&mut server.resource_version));
    for watch in &mut watches {
        assert_eq!(watch.next().await.expect("the server").resource_version, "7");
    }
    operator.cut_off(true);
    operator.server.send_modify(|server| "8".clone_into(&mut server.resource_version));
    sleep(SECOND * 60).await;
    operator.cut_off(false);
    for watch in &mut watches {
        assert_eq!(watch.next().await.expect("the server").resource_version, "8");
    }
    let [first, mut second] = watches;
    drop(first);
    operator.server.send_modify(|server| "9".clone_into(&mut server.resource_version));
    assert_eq!(second.next().await.map(|server| server.resource_version).as_deref(), Some("9"));
    operator.answer([CallError::Refused(SdkError::UnknownServer)]);
    let end = async { while second.next().await.is_some() {} };
    timeout(SECOND * 60, end).await.expect("it is gone");
    drop(second);
    sleep(SECOND * 30).await;
    operator.asked();
    sleep(SECOND * 600).await;
    assert_eq!(operator.asked(), []);
    let mut again = sidecar.watch(&identity());
    assert_eq!(again.next().await.expect("the server").resource_version, "9");
}

#[tokio::test(start_paused = true)]
async fn a_server_is_shown_as_it_was_while_nobody_can_be_asked() {
    let (sidecar, operator) = start().await;
    operator.server.send_modify(|server| "3".clone_into(&mut server.resource_version));
    let view = sidecar.view(&identity()).await.expect("a view");
    assert_eq!(view.resource_version, "3");
    operator.cut_off(true);
    assert_eq!(sidecar.view(&identity()).await, Ok(view));
    operator.cut_off(false);
    operator.answer([CallError::Refused(SdkError::UnknownServer)]);
    assert_eq!(sidecar.view(&identity()).await, Err(SdkError::UnknownServer));
}

#[test]
fn what_was_refused_is_told_and_what_was_not_heard_is_said_again() {
    let of = |status: u16, body: serde_json::Value| {
        let status = StatusCode::from_u16(status).expect("a status");
        answered(status, body.to_string().as_bytes()).expect_err("no view")
    };
    let error = json!({"message": "conflict", "error": "conflict"});
    assert_eq!(of(409, error), CallError::Refused(SdkError::Conflict));
    let error = json!({"message": "later", "error": {"unavailable": "etcd"}});
    assert_eq!(of(503, error), CallError::Refused(SdkError::Unavailable("etcd".to_owned())));
    for status in [401, 403, 503] {
        let denied = of(status, json!({"message": "no"}));
        assert!(matches!(denied, CallError::Unheard(_)), "{status}: {denied:?}");
    }
    let unread = of(400, json!({"message": "the body: unknown variant"}));
    assert!(matches!(unread, CallError::Refused(SdkError::Invalid(_))), "{unread:?}");
    assert!(matches!(of(404, json!("a page")), CallError::Unheard(_)));
    assert!(matches!(of(502, json!("a page")), CallError::Unsure(_)));
}
