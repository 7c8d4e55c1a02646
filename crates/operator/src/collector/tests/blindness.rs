//! Unknown is not idle.

use super::*;

// case: lab A4
#[tokio::test(start_paused = true)]
async fn a_source_that_fails_keeps_the_others_from_nothing_and_is_blind() {
    let mut test = CollectorTest::new();
    test.run(0, 60).await;
    test.fail("ssh");
    test.fake.set("web", &service("vm-1"), at(70), 1.0);
    let stats = test.tick(90).await;
    assert_eq!(stats.failed, 1);
    assert_eq!(test.seen("vm-1"), Some((90, source::NGINX, 1)), "what web found is kept");
    assert_eq!(test.observed(WEB, 0, 90), 60);
    assert_eq!(test.observed(BOTH, 0, 90), 30, "where the last look of SSH ended");
    let trouble = test.coverage_registry.read().trouble(source::BASTION_SSH).map(ToOwned::to_owned);
    assert_eq!(
        trouble.as_deref(),
        Some(
            "cannot ask whether BastionSSH can see: cannot ask the metrics server fake: it is away"
        )
    );
}

// case: lab A6
#[tokio::test(start_paused = true)]
async fn while_the_server_is_away_no_time_passes_and_afterwards_nothing_was_missed() {
    let mut test = CollectorTest::new();
    test.run(0, 60).await;
    assert_eq!(test.changed(), BOTH, "they see, which nobody knew");
    test.fail("");
    test.fake.set("web", &service("vm-1"), at(500), 1.0);
    test.run(90, 3600).await;
    assert_eq!(test.observed(BOTH, 0, 3600), 30, "the clock of idleness stands still");
    assert_eq!(test.blind(source::NGINX, 3600), Some(30));
    assert_eq!(test.changed(), BOTH, "told once, when they turned blind");
    test.fake.heal();
    test.tick(3630).await;
    assert_eq!(test.seen("vm-1"), Some((510, source::NGINX, 1)), "the server remembers");
    assert_eq!(test.observed(BOTH, 0, 3630), 3600);
    assert_eq!(test.changed(), BOTH, "told once, when they saw again");
}

// case: lab A7
#[tokio::test(start_paused = true)]
async fn a_source_without_targets_or_with_none_that_answers_sees_nothing() {
    let fake = Fake::default();
    fake.set("ssh up", &Labels::default(), at(-5000), 0.0);
    let mut test =
        CollectorTest::with(fake, options(), Objects::default(), CoverageRegistry::default());
    test.run(0, 600).await;
    assert_eq!((test.observed(WEB, -600, 600), test.observed(SSH, -600, 600)), (0, 0));
    assert_eq!(test.blind(source::NGINX, 600), Some(-600), "since it was first looked at");
    assert_eq!(test.blind(source::BASTION_SSH, 600), Some(-600));
    assert_eq!(
        test.coverage_registry.read().trouble(source::NGINX),
        None,
        "the server itself is well"
    );
}

// case: lab A8
#[tokio::test(start_paused = true)]
async fn one_healthy_source_does_not_vouch_for_another() {
    let mut test = CollectorTest::new();
    test.run(0, 300).await;
    test.fake.end("web up", &Labels::default(), at(310));
    test.fake.end("web", &service("vm-1"), at(310));
    test.run(330, 3600).await;
    assert_eq!(test.observed(SSH, 0, 3600), 3570);
    assert_eq!(test.observed(BOTH, 0, 3600), 300, "idle only while both could see");
    assert_eq!(test.blind(source::NGINX, 3600), Some(300));
    assert_eq!(test.blind(source::BASTION_SSH, 3600), None);
    assert_eq!(test.changed(), [source::NGINX, source::BASTION_SSH, source::NGINX]);
}

// case: lab A9
#[tokio::test(start_paused = true)]
async fn a_target_that_is_down_does_not_count() {
    let mut test = CollectorTest::new();
    test.run(0, 60).await;
    test.up("web up", 65, 0.0);
    test.tick(90).await;
    assert_eq!(test.blind(source::NGINX, 90), Some(60), "said at once");
    test.up("web up", 200, 1.0);
    test.run(120, 300).await;
    assert_eq!(test.blind(source::NGINX, 300), None);
    assert_eq!(test.observed(WEB, 0, 300), 60 + (270 - 210), "not while it was down");
    for source in [source::NGINX, source::BASTION_SSH, source::WEB_SSH] {
        let usual = default_query(source).available;
        assert!(usual.starts_with("min(min_over_time(up{"), "{usual}");
    }
}

#[tokio::test(start_paused = true)]
async fn of_several_series_of_availability_all_must_be_above_zero() {
    let mut test = CollectorTest::new();
    let other = labels(&[("pod", "b")]);
    test.fake.set("web up", &other, at(-5000), 1.0);
    test.run(0, 60).await;
    assert_eq!(test.observed(WEB, 0, 60), 30);
    test.fake.set("web up", &other, at(70), f64::NAN);
    test.run(90, 300).await;
    assert_eq!(test.observed(WEB, 0, 300), 60);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_not_whole_reports_use_but_proves_no_idleness() {
    let mut test = CollectorTest::new();
    test.run(0, 60).await;
    test.fake.set("web", &service("vm-1"), at(70), 1.0);
    test.fake.script(|asked| match asked.query.as_str() {
        "web" => vec![Fault::Partial("a store is away".into())],
        _ => Vec::new(),
    });
    test.run(90, 300).await;
    assert_eq!(test.seen("vm-1").map(|seen| seen.0), Some(90));
    assert_eq!(test.observed(WEB, 0, 300), 30);
    let snapshot = test.coverage_registry.read();
    let trouble = snapshot.trouble(source::NGINX);
    assert_eq!(trouble, Some("the answer about Nginx is not whole: a store is away"));
    test.fake.heal();
    test.tick(330).await;
    assert_eq!(test.observed(WEB, 0, 330), 300);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_hangs_does_not_stop_the_tick() {
    let mut test = CollectorTest::new();
    test.tick(0).await;
    test.fake.script(|asked| match asked.query.starts_with("ssh") {
        true => vec![Fault::Slow(std::time::Duration::from_secs(86_400))],
        false => Vec::new(),
    });
    let started = Instant::now();
    test.tick(30).await;
    assert_eq!(started.elapsed(), std::time::Duration::from_secs(30));
    assert_eq!((test.observed(WEB, -30, 30), test.observed(SSH, -30, 30)), (30, 0));
}

#[tokio::test(start_paused = true)]
async fn who_found_a_source_overdue_is_told_when_it_is_not() {
    let mut test = CollectorTest::new();
    test.run(0, 60).await;
    test.changed();
    // No tick for an hour: a reader finds both blind, although no tick ever did.
    assert_eq!(test.blind(source::NGINX, 3600), Some(30));
    test.tick(3600).await;
    assert_eq!((test.changed(), test.blind(source::NGINX, 3600)), (BOTH.to_vec(), None));
}

#[tokio::test(start_paused = true)]
async fn use_while_the_source_was_blind_shows_when_it_sees_again() {
    let mut test = CollectorTest::new();
    let (used, unused) = (service("vm-1"), service("vm-2"));
    for series in [&used, &unused] {
        test.fake.set("web", series, at(-5000), 4.0);
        test.fake.end("web", series, at(70));
    }
    test.up("web up", 70, 0.0);
    test.run(0, 600).await;
    test.up("web up", 605, 1.0);
    test.fake.set("web", &used, at(605), 6.0);
    test.fake.set("web", &unused, at(605), 4.0);
    test.run(630, 900).await;
    assert_eq!(test.seen("vm-1"), Some((630, source::NGINX, 2)));
    assert_eq!(test.seen("vm-2"), None, "it is only back");
}

#[tokio::test(start_paused = true)]
async fn garbage_is_no_use_and_no_proof() {
    let mut test = CollectorTest::new();
    test.run(0, 60).await;
    let year_3000 = Timestamp::from_second(32_503_680_000).unwrap();
    let odd = sojourn_drivers::metrics::Series {
        labels: service("vm-1"),
        samples: vec![(at(-90_000), 1.0), (at(60), f64::NAN), (year_3000, 99.0)],
    };
    let answer = sojourn_drivers::metrics::Answer { series: vec![odd], warnings: Vec::new() };
    test.fake.script(move |_| vec![Fault::Instead(answer.clone())]);
    test.run(90, 300).await;
    assert_eq!(test.seen("vm-1"), None);
    assert_eq!(test.observed(BOTH, 0, 300), 30, "and nothing that was asked about was available");
}
