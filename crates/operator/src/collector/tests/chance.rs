//! Any order of use, outages, failures and restarts: no use is missed in time that is claimed.

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone)]
enum Step {
    /// So many seconds later the object is used.
    Use(i64),
    /// So many seconds later the source goes down, or comes back.
    Flip(i64),
    /// So many seconds later there is a look, and some of its queries fail.
    Look(i64, Failing),
    /// The status is written.
    Take,
    /// The process ends after storing what it observed, and what waits is lost.
    Restart(i64),
}

#[derive(Debug, Clone, Copy)]
enum Failing {
    Nothing,
    Available,
    Data,
    Large(usize),
    /// Every second query.
    Some,
}

fn step() -> impl Strategy<Value = Step> {
    let failing = prop_oneof![
        4 => Just(Failing::Nothing),
        1 => Just(Failing::Available),
        1 => Just(Failing::Data),
        1 => (0..6_usize).prop_map(Failing::Large),
        1 => Just(Failing::Some),
    ];
    prop_oneof![
        3 => (0..40_i64).prop_map(Step::Use),
        2 => (0..90_i64).prop_map(Step::Flip),
        6 => (1..70_i64, failing).prop_map(|(later, failing)| Step::Look(later, failing)),
        2 => Just(Step::Take),
        1 => (0..400_i64).prop_map(Step::Restart),
    ]
}

fn arrange(test: &CollectorTest, failing: Failing) {
    let asked = Mutex::new(0_u32);
    test.fake.script(move |question| {
        let number = {
            let mut asked = asked.lock().unwrap();
            *asked += 1;
            *asked
        };
        let server = || "fake".to_owned();
        let away = || Fault::Fail(QueryError::TimedOut { server: server(), seconds: 1 });
        let points = question.window.points().count();
        match failing {
            Failing::Available if question.query == "web up" => vec![away()],
            Failing::Data if question.query == "web" => vec![away()],
            Failing::Some if number % 2 == 0 => vec![away()],
            Failing::Large(most) if question.query == "web" && points > most => {
                let reason = "too many".to_owned();
                vec![Fault::Fail(QueryError::TooMuch { server: server(), reason })]
            }
            _ => Vec::new(),
        }
    });
}

/// What is true, and what the object's status says.
struct World {
    test: CollectorTest,
    now: i64,
    up: bool,
    uses: Vec<i64>,
    written: Option<i64>,
}

impl World {
    fn use_it(&mut self) {
        self.uses.push(self.now);
        self.show();
    }

    /// What a scrape would find: the counter goes on while nobody can see it.
    fn show(&self) {
        self.test.up("web up", self.now, f64::from(u8::from(self.up)));
        let uses = u32::try_from(self.uses.len()).unwrap();
        match (self.up, uses) {
            (true, 0) => {}
            (true, uses) => self.test.fake.set("web", &service("vm-1"), at(self.now), uses.into()),
            (false, _) => self.test.fake.end("web", &service("vm-1"), at(self.now)),
        }
    }

    fn known(&self) -> Option<i64> {
        self.test.seen("vm-1").map(|seen| seen.0).max(self.written)
    }

    /// A use that is not known lies in time that nobody claims to have observed.
    fn check(&self) -> Result<(), TestCaseError> {
        let snapshot = self.test.coverage_registry.read();
        let coverage = snapshot.coverage(source::NGINX);
        for &moment in &self.uses {
            let known = self.known().is_some_and(|known| known >= moment);
            // A use in the dark that shows later is known then; one that never shows was blind.
            prop_assert!(
                known || coverage.is_blind_at(at(moment)),
                "use at {moment} is missed, now {}: known {:?}, {coverage:?}",
                self.now,
                self.known()
            );
        }
        if let Some(known) = self.known() {
            prop_assert!(known <= self.now, "{known} is in the future");
        }
        Ok(())
    }
}

async fn live(steps: Vec<Step>) -> Result<(), TestCaseError> {
    let mut world =
        World { test: CollectorTest::new(), now: 1, up: true, uses: Vec::new(), written: None };
    world.test.tick(0).await;
    for step in steps {
        match step {
            Step::Use(later) => {
                world.now += later;
                world.use_it();
            }
            Step::Flip(later) => {
                world.now += later;
                world.up = !world.up;
                world.show();
            }
            Step::Look(later, failing) => {
                world.now += later;
                arrange(&world.test, failing);
                world.test.tick(world.now).await;
            }
            Step::Take => {
                world.written = world.test.take("vm-1").map(|seen| seen.0).max(world.written);
            }
            Step::Restart(later) => {
                world.test = world.test.restart(world.now);
                world.now += later;
            }
        }
        world.check()?;
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]
    #[test]
    fn no_use_is_missed_in_time_that_is_claimed(
        steps in prop::collection::vec(step(), 0..60),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(live(steps))?;
    }
}

const fn quiet(later: i64) -> Step {
    Step::Look(later, Failing::Nothing)
}

/// Stories that chance found: use that shows after the look at its time, and an end before it was
/// written.
#[tokio::test(start_paused = true)]
async fn use_that_shows_after_the_look_at_its_time_is_not_lost_with_the_process() {
    use Step::{Flip, Look, Restart, Take, Use};
    let another_one_later =
        vec![quiet(44), quiet(45), Use(0), Flip(45), Flip(14), Use(2), quiet(29), Restart(0)];
    let one_that_was_written_before = vec![
        quiet(1),
        Flip(16),
        Flip(56),
        Use(17),
        quiet(29),
        Use(1),
        Look(57, Failing::Some),
        Take,
        Use(3),
        quiet(29),
        Restart(0),
    ];
    for story in [another_one_later, one_that_was_written_before] {
        live(story).await.expect("no use is missed");
    }
}
