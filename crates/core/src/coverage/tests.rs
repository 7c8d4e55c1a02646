use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn secs(seconds: i64) -> SignedDuration {
    SignedDuration::from_secs(seconds)
}

fn gaps(coverage: &Coverage) -> Vec<(i64, i64)> {
    coverage.gaps().map(|gap| (gap.from.as_second(), gap.to.as_second())).collect()
}

#[test]
fn what_was_seen_counts_and_nothing_else_does() {
    let mut coverage = Coverage::starting(at(100));
    coverage.mark_observed(at(100), at(200));
    coverage.mark_blind(at(200), at(260));
    coverage.mark_observed(at(260), at(300));
    assert_eq!(coverage.observed(at(150), at(280)), secs(70), "50 before the gap, 20 after it");
    assert_eq!(coverage.observed(at(210), at(250)), secs(0), "inside the gap");
    assert_eq!(coverage.observed(at(0), at(150)), secs(50), "before the start nobody looked");
    assert_eq!(coverage.observed(at(290), at(900)), secs(10), "the future is not observed yet");
    assert_eq!(coverage.observed(at(280), at(150)), secs(0), "backwards");
    assert_eq!((coverage.since(), coverage.until()), (at(100), at(300)));
}

#[test]
fn time_that_nobody_reported_is_blind_until_somebody_does() {
    let mut coverage = Coverage::starting(at(0));
    coverage.mark_observed(at(0), at(10));
    coverage.mark_observed(at(50), at(60));
    assert_eq!(gaps(&coverage), [(10, 50)]);
    coverage.mark_observed(at(20), at(30));
    assert_eq!(gaps(&coverage), [(10, 20), (30, 50)]);
    coverage.mark_observed(at(5), at(55));
    assert_eq!(gaps(&coverage), []);
    coverage.mark_blind(at(70), at(80));
    assert_eq!(gaps(&coverage), [(60, 80)], "from where it was seen last");
}

#[test]
fn the_moments_of_a_gap_are_blind_with_its_end_and_without_its_beginning() {
    let mut coverage = Coverage::starting(at(0));
    coverage.mark_observed(at(0), at(100));
    coverage.mark_blind(at(40), at(50));
    let blind: Vec<i64> = (0..=101).filter(|&s| coverage.is_blind_at(at(s))).collect();
    assert_eq!(blind, [0, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 101]);
}

#[test]
fn a_source_is_blind_when_it_says_so_when_it_never_saw_and_when_it_is_overdue() {
    let mut coverage = Coverage::starting(at(0)).lagging(secs(60));
    assert_eq!(coverage.blind_since(at(0)), Some(at(0)), "nothing seen yet");
    coverage.mark_observed(at(0), at(100));
    assert_eq!(coverage.blind_since(at(100)), None);
    assert_eq!(coverage.blind_since(at(220)), None, "a look may be late");
    assert_eq!(coverage.blind_since(at(221)), Some(at(100)), "too late");
    coverage.mark_blind(at(100), at(130));
    assert_eq!(coverage.blind_since(at(130)), Some(at(100)));
    assert_eq!(coverage.last_seen(), at(100));
    coverage.mark_observed(at(130), at(160));
    assert_eq!(coverage.blind_since(at(160)), None);
    assert_eq!(coverage.last_seen(), at(160));
}

#[test]
fn every_source_must_have_seen_the_time() {
    let mut web = Coverage::starting(at(0));
    web.mark_observed(at(0), at(100));
    web.mark_blind(at(20), at(40));
    let mut ssh = Coverage::starting(at(10));
    ssh.mark_observed(at(10), at(90));
    ssh.mark_blind(at(30), at(50));
    assert_eq!(observed_by_all(&[&web], at(0), at(100)), secs(80));
    assert_eq!(observed_by_all(&[&web, &ssh], at(0), at(100)), secs(10 + 40), "10..20 and 50..90");
    assert_eq!(observed_by_all(&[&web, &ssh], at(60), at(80)), secs(20), "no gap after that");
    assert_eq!(observed_by_all(&[], at(0), at(100)), secs(0), "nobody looks: nothing is idle");
}

#[test]
fn a_forecast_goes_around_the_gaps_and_waits_for_the_next_look() {
    let mut coverage = Coverage::starting(at(0)).lagging(secs(60));
    coverage.mark_observed(at(0), at(100));
    coverage.mark_blind(at(20), at(40));
    let reach = |span, now| reaches(&[&coverage], at(0), secs(span), at(now));
    assert_eq!(reach(10, 100), Some(Reach { at: at(10), known: at(10) }));
    assert_eq!(reach(20, 100), Some(Reach { at: at(20), known: at(20) }));
    assert_eq!(reach(30, 100), Some(Reach { at: at(50), known: at(50) }));
    assert_eq!(reach(200, 100), Some(Reach { at: at(220), known: at(280) }));
    assert_eq!(reach(90, 180), Some(Reach { at: at(110), known: at(185) }), "the look is late");
    assert_eq!(reach(200, 300), None, "overdue: nobody knows");
    assert_eq!(reaches(&[], at(0), secs(1), at(2)), None);
    let far = reaches(&[&coverage], at(0), SignedDuration::MAX, at(100));
    assert_eq!(far.map(|reach| reach.at), Some(Timestamp::MAX), "never, but no panic");
}

#[test]
fn with_too_many_gaps_the_closest_become_one() {
    let mut coverage = Coverage::starting(at(0));
    let many = i64::try_from(MAX_GAPS).unwrap();
    for gap in 0..many {
        coverage.mark_observed(at(gap * 100), at(gap * 100 + 90));
        coverage.mark_blind(at(gap * 100 + 90), at(gap * 100 + 100));
    }
    let end = many * 100;
    assert_eq!(coverage.gaps().len(), MAX_GAPS);
    let before = coverage.observed(at(0), at(end));
    coverage.mark_blind(at(480), at(485));
    assert_eq!(coverage.gaps().len(), MAX_GAPS);
    assert!(coverage.is_blind_at(at(487)), "what lies between the closest counts as blind");
    assert_eq!(coverage.observed(at(0), at(end)), before - secs(10));
}

#[test]
fn anything_stored_can_be_restored() {
    let gap = |from, to| Gap { from: at(from), to: at(to) };
    let coverage = Coverage::restore(
        at(10),
        at(100),
        [gap(90, 400), gap(20, 30), gap(25, 40), gap(60, 50), gap(0, 12)],
    );
    assert_eq!(gaps(&coverage), [(10, 12), (20, 40), (90, 100)]);
    assert_eq!(coverage.until(), at(100));
    let again = Coverage::restore(coverage.since(), coverage.until(), coverage.gaps());
    assert_eq!(again, coverage);
    assert_eq!(Coverage::restore(at(10), at(0), []), Coverage::starting(at(10)));
}

/// The naive model: a set of the seconds that were seen.
#[derive(Debug, Clone, Default)]
struct Model {
    seen: BTreeSet<i64>,
    until: i64,
}

impl Model {
    fn report(&mut self, Report { from, to, seen }: Report) {
        for second in from + 1..=to {
            if seen {
                self.seen.insert(second)
            } else {
                self.seen.remove(&second)
            };
        }
        if to > from {
            self.until = self.until.max(to);
        }
    }

    fn observed(&self, from: i64, to: i64) -> i64 {
        i64::try_from((from + 1..=to).filter(|second| self.seen.contains(second)).count()).unwrap()
    }
}

#[derive(Debug, Clone, Copy)]
struct Report {
    from: i64,
    to: i64,
    seen: bool,
}

fn report() -> impl Strategy<Value = Report> {
    (0..300_i64, -5..60_i64, any::<bool>()).prop_map(|(from, length, seen)| Report {
        from,
        to: from + length,
        seen,
    })
}

fn reports() -> impl Strategy<Value = Vec<Report>> {
    prop::collection::vec(report(), 0..40)
}

fn told(reports: &[Report]) -> (Coverage, Model) {
    let (mut coverage, mut model) = (Coverage::starting(at(0)), Model::default());
    for report in reports {
        if report.seen {
            coverage.mark_observed(at(report.from), at(report.to));
        } else {
            coverage.mark_blind(at(report.from), at(report.to));
        }
        model.report(*report);
    }
    (coverage, model)
}

proptest! {
    #[test]
    fn observed_time_is_that_of_the_model(
        reports in reports(),
        (from, to) in (-10..400_i64, -10..400_i64),
    ) {
        let (coverage, model) = told(&reports);
        let observed = coverage.observed(at(from), at(to));
        prop_assert_eq!(observed, secs(model.observed(from, to)));
        prop_assert!(observed <= secs((to - from).max(0)), "never more than wall time");
        prop_assert_eq!(coverage.until(), at(model.until));
        for second in 1..=model.until {
            prop_assert_eq!(coverage.is_blind_at(at(second)), !model.seen.contains(&second));
        }
    }

    #[test]
    fn gaps_are_in_order_apart_and_inside(reports in reports()) {
        let (coverage, _) = told(&reports);
        let gaps: Vec<_> = coverage.gaps().collect();
        prop_assert!(gaps.iter().all(|gap| gap.from < gap.to));
        prop_assert!(gaps.is_sorted_by(|a, b| a.to < b.from), "{:?}", gaps);
        prop_assert!(gaps.iter().all(|gap| coverage.since() <= gap.from));
        prop_assert!(gaps.iter().all(|gap| gap.to <= coverage.until()));
        let again = Coverage::restore(coverage.since(), coverage.until(), gaps);
        prop_assert_eq!(again, coverage);
    }

    #[test]
    fn the_order_of_reports_that_agree_does_not_matter(
        reports in reports().prop_map(|mut reports| {
            reports.iter_mut().for_each(|report| report.seen = true);
            reports
        }),
        seed in any::<u64>(),
    ) {
        let mut shuffled = reports.clone();
        shuffled.sort_by_key(|r| (u64::try_from(r.from).unwrap() + 1).wrapping_mul(seed | 1));
        prop_assert_eq!(told(&reports).0, told(&shuffled).0);
    }

    #[test]
    fn all_sources_together_see_what_each_of_them_sees(
        each in prop::collection::vec(reports(), 1..4),
        (from, to) in (-10..400_i64, -10..400_i64),
    ) {
        let (coverages, models): (Vec<_>, Vec<_>) = each.iter().map(|r| told(r)).unzip();
        let sources: Vec<&Coverage> = coverages.iter().collect();
        let all = |second: &i64| models.iter().all(|model| model.seen.contains(second));
        let expected = i64::try_from((from + 1..=to).filter(all).count()).unwrap();
        prop_assert_eq!(observed_by_all(&sources, at(from), at(to)), secs(expected));
    }

    #[test]
    fn a_forecast_comes_true_if_all_stay_healthy(
        each in prop::collection::vec(reports(), 1..4),
        from in 0..400_i64,
        span in 0..300_i64,
    ) {
        let mut coverages: Vec<_> = each.iter().map(|reports| told(reports).0).collect();
        let now = coverages.iter().map(Coverage::until).max().unwrap();
        for coverage in &mut coverages {
            let until = coverage.until();
            coverage.mark_observed(until, at(1 + now.as_second()));
        }
        let now = at(1 + now.as_second());
        let sources: Vec<&Coverage> = coverages.iter().collect();
        let reach = reaches(&sources, at(from), secs(span), now).expect("all of them see");
        let mut later = coverages.clone();
        for coverage in &mut later {
            coverage.mark_observed(now, reach.at);
        }
        let sources: Vec<&Coverage> = later.iter().collect();
        prop_assert_eq!(observed_by_all(&sources, at(from), reach.at), secs(span));
        if span > 0 {
            let short = observed_by_all(&sources, at(from), at(reach.at.as_second() - 1));
            prop_assert_eq!(short, secs(span - 1), "not a moment earlier");
        }
    }

    #[test]
    fn merging_only_ever_shrinks_what_was_observed(
        lengths in prop::collection::vec((1..20_i64, 1..20_i64), MAX_GAPS..MAX_GAPS + 60),
    ) {
        let mut coverage = Coverage::starting(at(0));
        let (mut now, mut wall) = (0, 0);
        for (seen, blind) in lengths {
            coverage.mark_observed(at(now), at(now + seen));
            coverage.mark_blind(at(now + seen), at(now + seen + blind));
            now += seen + blind;
            wall += seen;
            let observed = coverage.observed(at(0), at(now));
            prop_assert!(observed <= secs(wall), "{} of {}", observed, wall);
            prop_assert!(coverage.gaps().len() <= MAX_GAPS);
        }
    }
}
