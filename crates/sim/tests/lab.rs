//! The family `lab` as a whole, on a virtual clock.

#[path = "lab/change.rs"]
mod change;
#[path = "lab/definition.rs"]
mod definition;
#[path = "lab/end.rs"]
mod end;
#[path = "lab/exam.rs"]
mod exam;
#[path = "lab/expiry.rs"]
mod expiry;
#[path = "lab/fixture.rs"]
mod fixture;
#[path = "lab/kill.rs"]
mod kill;
#[path = "lab/ladder.rs"]
mod ladder;
#[path = "lab/name.rs"]
mod name;
#[path = "lab/repair.rs"]
mod repair;
#[path = "lab/replicas.rs"]
mod replicas;
