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

#[path = "../it/client.rs"]
#[allow(dead_code, reason = "the tests of the binary, whose it is, use all of it")]
mod client;
mod dice;
#[path = "../it/folder.rs"]
mod folder;
mod journal;
mod observer;
#[path = "../it/process.rs"]
#[allow(dead_code, reason = "the tests of the binary, whose it is, use all of it")]
mod process;
mod processes;
mod settled;
mod shape;
#[path = "../../../../xtask/skip.rs"]
mod skip;
mod slot;
mod stayer;
mod world;

use std::time::Duration;

use crate::dice::Dice;
use crate::world::World;

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
    fn draw(dice: &mut Dice) -> Self {
        match dice.below(4) {
            0 => Self::Starting(Duration::from_millis(dice.below(1000))),
            _ => Self::Busy(1 + usize::try_from(dice.below(400)).expect("small")),
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
    let seed = number("SOJOURN_CHURN_SEED").unwrap_or_else(dice::seed);
    println!("SOJOURN_CHURN_SEED={seed}");
    let mut dice = Dice::new(seed);
    let mut world = World::new(&mut dice);
    let server = world.start();
    if let Err(why) = world.begin(&server).await {
        return skip::whole(why);
    }
    world.churn(server, 1 + usize::try_from(dice.below(100)).expect("small")).await;
    for round in 1..rounds {
        world.stay_down(&mut dice).await;
        let moment = Moment::draw(&mut dice);
        println!("round {round}: {moment:?}; {world}");
        let server = world.start();
        match moment {
            Moment::Starting(after) => {
                tokio::time::sleep(after).await;
                world.kill(server);
            }
            Moment::Busy(changes) => world.churn(server, changes).await,
        }
    }
    println!("after {rounds} rounds: {world}");
    let server = world.start();
    world.settle(server).await;
    println!("at the end: {world}");
}
