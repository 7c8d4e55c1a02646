//! `kill -9` of `sojourn up` while Pods come, run, fail, fork and go: no orphan, no double, no lost
//! Pod, no wrong exit code.
//!
//! Whatever runs keeps a journal of its own (`journal.rs`), written before anybody else can know of
//! it, and carries a mark in its environment (`processes.rs`). What the API says is held against
//! both: all the while by what a watch shows (`observer.rs`), and to the letter at the end
//! (`settled.rs`).
//!
//! | variable of the environment | meaning                                                     |
//! |-----------------------------|-------------------------------------------------------------|
//! | `SOJOURN_CHURN_ROUNDS`      | how often the server is killed (10)                         |
//! | `SOJOURN_CHURN_SEED`        | repeats the choices of a run that printed this number       |

#![expect(
    clippy::disallowed_methods,
    reason = "real time, and what the environment says about the machine that the tests run on"
)]

mod churn_test;
#[path = "../it/client.rs"]
#[allow(dead_code, reason = "the tests of the binary, whose it is, use all of it")]
mod client;
#[path = "../it/folder.rs"]
mod folder;
mod journal;
mod long_lived;
mod observer;
#[path = "../it/process.rs"]
#[allow(dead_code, reason = "the tests of the binary, whose it is, use all of it")]
mod process;
mod processes;
mod rng;
mod settled;
mod shape;
#[path = "../../../../xtask/skip.rs"]
mod skip;
mod slot;

use std::time::Duration;

use crate::churn_test::ChurnTest;
use crate::rng::Rng;

const ROUNDS: u64 = 10;

/// When the server is killed.
#[derive(Debug)]
enum Moment {
    /// So long after its start: perhaps before it serves, perhaps while it adopts Pods.
    Starting(Duration),
    /// After so many changes of Pods: whatever the machine's speed, much is going on.
    Busy(usize),
}

impl Moment {
    fn draw(rng: &mut Rng) -> Self {
        match rng.below(4) {
            0 => Self::Starting(Duration::from_millis(rng.below(1000))),
            _ => Self::Busy(1 + usize::try_from(rng.below(400)).expect("small")),
        }
    }
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is a number")))
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_outlive_whoever_runs_them() {
    let rounds = number("SOJOURN_CHURN_ROUNDS").unwrap_or(ROUNDS);
    let seed = number("SOJOURN_CHURN_SEED").unwrap_or_else(rng::seed);
    println!("SOJOURN_CHURN_SEED={seed}");
    let mut rng = Rng::new(seed);
    let mut test = ChurnTest::new(&mut rng);
    let server = test.start();
    if let Err(why) = test.begin(&server).await {
        return skip::whole(why);
    }
    test.churn(server, 1 + usize::try_from(rng.below(100)).expect("small")).await;
    for round in 1..rounds {
        test.stay_down(&mut rng).await;
        let moment = Moment::draw(&mut rng);
        println!("round {round}: {moment:?}; {test}");
        let server = test.start();
        match moment {
            Moment::Starting(after) => {
                tokio::time::sleep(after).await;
                test.kill(server);
            }
            Moment::Busy(changes) => test.churn(server, changes).await,
        }
    }
    println!("after {rounds} rounds: {test}");
    let server = test.start();
    test.settle(server).await;
    println!("at the end: {test}");
}
