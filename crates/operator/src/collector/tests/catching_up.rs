//! Looks always cover the time since the last one that worked.

use super::*;

const HOUR: i64 = 3600;

/// How many points each data question about Nginx was for.
fn data_points(test: &CollectorTest) -> Vec<usize> {
    let asked = test.fake.asked();
    asked.iter().filter(|a| a.query == "web").map(|a| a.window.points().count()).collect()
}

fn too_much(more_than: usize) -> impl Fn(&Asked) -> Vec<Fault> + Send + Sync {
    move |asked| {
        let error = QueryError::TooMuch { server: "fake".into(), reason: "too many".into() };
        let refused = asked.query == "web" && asked.window.points().count() > more_than;
        if refused { vec![Fault::Fail(error)] } else { Vec::new() }
    }
}

// case: lab I21
#[tokio::test(start_paused = true)]
async fn use_an_hour_after_the_last_look_is_found_a_day_later() {
    let mut test = CollectorTest::new();
    test.fake.set("web", &service("vm-1"), at(-5000), 3.0);
    test.tick(0).await;
    test.fake.set("web", &service("vm-1"), at(HOUR), 4.0);
    test.tick(24 * HOUR).await;
    assert_eq!(test.seen("vm-1"), Some((HOUR, source::NGINX, 1)));
    assert_eq!(test.observed(BOTH, 0, 24 * HOUR), 24 * HOUR - STEP);
}

#[tokio::test(start_paused = true)]
async fn a_long_time_is_asked_for_in_parts_that_a_server_accepts() {
    let mut test = CollectorTest::new();
    test.fake.set("web", &service("vm-1"), at(-5000), 3.0);
    test.tick(0).await;
    test.fake.set("web", &service("vm-1"), at(2 * 24 * HOUR), 4.0);
    let stats = test.tick(10 * 24 * HOUR).await;
    let points = data_points(&test);
    assert_eq!(points.len(), 4, "the first look, and 28,800 points in three parts: {points:?}");
    assert!(points.iter().all(|&points| points < 11_000), "{points:?}");
    assert_eq!(stats.queries, 2 * 2 * 3);
    assert_eq!(test.seen("vm-1"), Some((2 * 24 * HOUR, source::NGINX, 1)));
    assert_eq!(test.observed(BOTH, 0, 10 * 24 * HOUR), 10 * 24 * HOUR - STEP);
}

#[tokio::test(start_paused = true)]
async fn what_is_older_than_a_month_stays_unseen() {
    let mut test = CollectorTest::new();
    test.tick(0).await;
    test.tick(60 * 24 * HOUR).await;
    let month = 31 * 24 * HOUR;
    assert_eq!(test.observed(BOTH, 0, 60 * 24 * HOUR), month - STEP);
}

#[tokio::test(start_paused = true)]
async fn a_question_that_is_too_large_is_halved() {
    let mut test = CollectorTest::new();
    test.tick(0).await;
    test.fake.script(too_much(50));
    test.fake.set("web", &service("vm-1"), at(HOUR), 1.0);
    test.tick(2 * HOUR).await;
    assert_eq!(test.seen("vm-1"), Some((HOUR, source::NGINX, 1)));
    assert_eq!(test.observed(BOTH, 0, 2 * HOUR), 2 * HOUR - STEP);
    let points = data_points(&test);
    assert_eq!(points[1..5], [242, 121, 61, 31], "halved until it was accepted");
    assert!(points[5..].iter().all(|&points| points <= 31), "{points:?}");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_finds_everything_too_large_is_not_asked_for_ever() {
    let mut test = CollectorTest::new();
    test.tick(0).await;
    test.fake.script(too_much(0));
    let stats = test.tick(24 * HOUR).await;
    assert!(stats.queries < 20, "{stats:?}");
    assert_eq!((stats.failed, test.observed(WEB, 0, 24 * HOUR)), (1, 0));
    let snapshot = test.coverage_registry.read();
    assert!(snapshot.trouble(source::NGINX).unwrap().contains("finds the query too large"));
    test.fake.script(too_much(2));
    let stats = test.tick(24 * HOUR + 30).await;
    let trouble = test.coverage_registry.read().trouble(source::NGINX).map(ToOwned::to_owned);
    assert!(trouble.unwrap().contains("the next look goes on"));
    assert!(stats.queries < 60 && test.observed(WEB, 0, 24 * HOUR) > 600, "{stats:?}");
}

#[tokio::test(start_paused = true)]
async fn a_part_that_was_answered_is_kept_when_the_next_is_not() {
    let mut test = CollectorTest::new();
    test.tick(0).await;
    test.fake.set("web", &service("vm-1"), at(HOUR), 1.0);
    test.fake.set("web", &service("vm-2"), at(9 * 24 * HOUR), 1.0);
    let error = QueryError::TimedOut { server: "fake".into(), seconds: 1 };
    test.fake.script(move |asked| {
        let late = asked.window.end > at(5 * 24 * HOUR) && asked.query == "web";
        if late { vec![Fault::Fail(error.clone())] } else { Vec::new() }
    });
    test.tick(10 * 24 * HOUR).await;
    assert_eq!(test.seen("vm-1"), Some((HOUR, source::NGINX, 1)));
    let kept = test.observed(WEB, 0, 10 * 24 * HOUR);
    assert_eq!(kept, 9_999 * 30 - 30, "the first part, which began a step before");
    test.fake.heal();
    let stats = test.tick(10 * 24 * HOUR + 30).await;
    assert_eq!(test.observed(WEB, 0, 10 * 24 * HOUR + 30), 10 * 24 * HOUR);
    assert_eq!(test.seen("vm-2"), Some((9 * 24 * HOUR, source::NGINX, 1)));
    assert_eq!(stats.failed, 0);
}

#[tokio::test(start_paused = true)]
async fn after_a_restart_the_time_in_between_is_looked_at() {
    let mut test = CollectorTest::new();
    test.fake.set("web", &service("vm-1"), at(-5000), 1.0);
    test.run(0, 300).await;
    let mut test = test.restart(310);
    assert_eq!(test.observed(BOTH, 0, 310), 270);
    test.fake.set("web", &service("vm-1"), at(2000), 2.0);
    test.tick(HOUR).await;
    assert_eq!(test.seen("vm-1"), Some((2010, source::NGINX, 1)));
    assert_eq!(test.observed(BOTH, 0, HOUR), HOUR - STEP);
}

#[tokio::test(start_paused = true)]
async fn use_that_was_found_but_not_written_is_found_again_after_a_restart() {
    let mut test = CollectorTest::new();
    test.fake.set("web", &service("vm-1"), at(-5000), 1.0);
    test.run(0, 300).await;
    test.fake.set("web", &service("vm-1"), at(310), 2.0);
    test.run(330, 900).await;
    assert_eq!(test.seen("vm-1").map(|seen| seen.0), Some(330), "it waits; no status is written");
    let mut test = test.restart(910);
    assert_eq!(test.observed(WEB, 0, 910), 329 - 62, "no time is claimed whose use may be lost");
    assert_eq!(test.seen("vm-1"), None);
    test.tick(930).await;
    assert_eq!(test.seen("vm-1"), Some((330, source::NGINX, 1)), "counted once");
}

#[tokio::test(start_paused = true)]
async fn a_restart_in_the_dark_still_finds_what_moved_meanwhile() {
    let mut test = CollectorTest::new();
    let series = service("vm-1");
    test.fake.set("web", &series, at(-5000), 4.0);
    test.fake.end("web", &series, at(70));
    test.up("web up", 70, 0.0);
    test.run(0, 600).await;
    let mut test = test.restart(600);
    test.run(630, 900).await;
    test.up("web up", 905, 1.0);
    test.fake.set("web", &series, at(905), 5.0);
    test.run(930, 1200).await;
    assert_eq!(test.seen("vm-1"), Some((930, source::NGINX, 1)));
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_back_costs_nothing() {
    let mut test = CollectorTest::new();
    test.run(0, 600).await;
    let asked = test.fake.times_asked();
    let stats = test.tick(100).await;
    assert_eq!((stats, test.fake.times_asked()), (TickStats::default(), asked));
    assert_eq!(test.observed(BOTH, 0, 100), 100, "not more than the clock says");
    test.tick(630).await;
    assert_eq!(test.observed(BOTH, 0, 630), 600);
}

#[tokio::test(start_paused = true)]
async fn odd_intervals_and_steps_cover_all_time_too() {
    for (interval, step) in [(7, 30), (30, 7), (100, 30), (31, 31)] {
        let fake = CollectorTest::new().fake;
        let options = Options { interval: secs(interval), step: secs(step), ..options() };
        let mut test =
            CollectorTest::with(fake, options, Objects::default(), CoverageRegistry::default());
        test.fake.set("web", &service("vm-1"), at(-5000), 0.0);
        let (mut uses, mut counted) = (0_u32, 0_u64);
        for tick in 0..200 {
            let now = tick * interval;
            if tick % 3 == 1 {
                uses += 1;
                test.fake.set("web", &service("vm-1"), at(now - 1), f64::from(uses));
            }
            test.tick(now).await;
            if let Some((last, _, count)) = test.take("vm-1") {
                assert!(last <= now && last > now - 2 * step - interval, "{interval}/{step}");
                counted += count;
            }
            assert_eq!(test.observed(BOTH, 0, now), (now - step).max(0), "{interval}/{step}");
        }
        test.tick(200 * interval + 2 * step).await;
        counted += test.take("vm-1").map_or(0, |seen| seen.2);
        assert_eq!(counted, u64::from(uses), "{interval}/{step}");
    }
}
