use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

struct Stage {
    lookups: Lookups<&'static str>,
    woken: Arc<AtomicUsize>,
    _work: JoinSet<()>,
}

fn stage(limits: LookupLimits) -> Stage {
    let woken = Arc::new(AtomicUsize::new(0));
    let counted = woken.clone();
    let (lookups, work) = Lookups::new(limits, move |_: &Key| {
        counted.fetch_add(1, Ordering::Relaxed);
    });
    let mut running = JoinSet::new();
    running.spawn(work);
    Stage { lookups, woken, _work: running }
}

fn key() -> Key {
    Key::new("team", "one")
}

/// One that nobody else's questions count with.
fn of<'a>(uid: &'a str, key: &'a Key) -> Asker<'a> {
    Asker { key, uid, account: uid }
}

async fn after(seconds: u64, answer: &'static str) -> &'static str {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    answer
}

fn nobody() -> &'static str {
    "nobody"
}

async fn seconds(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

#[tokio::test(start_paused = true)]
async fn an_object_has_one_question_at_a_time_and_its_answer_is_taken_once() {
    let Stage { lookups, woken, _work } = stage(LookupLimits::default());
    lookups.ask(of("u1", &key()), after(10, "first"), nobody);
    lookups.ask(of("u1", &key()), after(1, "second"), nobody);
    assert!(lookups.is_asked("u1") && !lookups.is_asked("u2"));
    seconds(5).await;
    assert_eq!(lookups.take("u1"), None);
    seconds(6).await;
    assert!(!lookups.is_asked("u1"));
    assert_eq!((lookups.take("u1"), lookups.take("u1")), (Some("first"), None));
    assert_eq!(woken.load(Ordering::Relaxed), 1);
    assert!(lookups.is_empty());
    lookups.ask(of("u1", &key()), after(0, "third"), nobody);
    seconds(1).await;
    lookups.ask(of("u1", &key()), after(0, "fourth"), nobody);
    seconds(1).await;
    assert_eq!(lookups.take("u1"), Some("fourth"), "what nobody took is forgotten");
}

#[tokio::test(start_paused = true)]
async fn what_takes_too_long_or_breaks_is_answered_otherwise() {
    let limits = LookupLimits { timeout: Duration::from_secs(5), ..LookupLimits::default() };
    let Stage { lookups, _work, .. } = stage(limits);
    lookups.ask(of("slow", &key()), std::future::pending(), nobody);
    lookups.ask(of("broken", &key()), async { panic!("it breaks") }, nobody);
    lookups.ask(of("good", &key()), after(1, "good"), nobody);
    seconds(6).await;
    assert_eq!(lookups.take("slow"), Some("nobody"));
    assert_eq!(lookups.take("broken"), Some("nobody"));
    assert_eq!(lookups.take("good"), Some("good"));
}

#[tokio::test(start_paused = true)]
async fn no_more_are_asked_at_once_than_may_be() {
    let limits = LookupLimits { concurrent: 2, ..LookupLimits::default() };
    let Stage { lookups, _work, .. } = stage(limits);
    let uids: Vec<String> = (0..6).map(|number| number.to_string()).collect();
    for uid in &uids {
        lookups.ask(of(uid, &key()), after(10, "answer"), nobody);
    }
    let answered = || uids.iter().filter(|uid| !lookups.is_asked(uid)).count();
    for expected in [2, 4, 6] {
        seconds(10).await;
        tokio::task::yield_now().await;
        assert_eq!(answered(), expected);
    }
}

/// A slow account has no more asked at once than may be, and keeps nobody else waiting.
#[tokio::test(start_paused = true)]
async fn questions_of_an_account_are_bounded_and_no_other_waits_for_them() {
    let limits = LookupLimits { concurrent: 6, per_account: 2, ..LookupLimits::default() };
    let Stage { lookups, _work, .. } = stage(limits);
    let key = key();
    let uids: Vec<String> = (0..8).map(|number| format!("slow-{number}")).collect();
    for uid in &uids {
        let asker = Asker { key: &key, uid, account: "slow" };
        lookups.ask(asker, after(10, "answer"), nobody);
    }
    let quick = Asker { key: &key, uid: "quick", account: "quick" };
    lookups.ask(quick, after(1, "answer"), nobody);
    let answered = || uids.iter().filter(|uid| !lookups.is_asked(uid)).count();
    seconds(2).await;
    assert_eq!((answered(), lookups.take("quick")), (0, Some("answer")));
    seconds(9).await;
    assert_eq!(answered(), 2);
    // More may be asked at once from now on.
    lookups.limit_accounts(4);
    seconds(20).await;
    assert_eq!(answered(), 8);
    uids.iter().for_each(|uid| lookups.forget(uid));
    assert!(lookups.is_empty());
}

#[tokio::test(start_paused = true)]
async fn of_what_is_gone_nothing_is_left() {
    let limits = LookupLimits { concurrent: 1, ..LookupLimits::default() };
    let Stage { lookups, woken, _work } = stage(limits);
    for uid in ["under way", "waiting"] {
        lookups.ask(of(uid, &key()), after(10, "answer"), nobody);
    }
    seconds(1).await;
    lookups.forget("under way");
    lookups.forget("waiting");
    lookups.forget("never asked");
    seconds(20).await;
    assert_eq!(woken.load(Ordering::Relaxed), 0);
    lookups.ask(of("answered", &key()), after(0, "answer"), nobody);
    seconds(1).await;
    lookups.forget("answered");
    assert!(lookups.is_empty());
}
