//! The benchmarks: `cargo xtask bench NAME`.
//!
//! They are one program, since linking one takes minutes. The first argument says which one runs; each is
//! measured in a process of its own.

#![expect(
    clippy::disallowed_methods,
    reason = "figures are about real time, of a program that the environment may name"
)]

mod access;
mod allocator;
mod cluster;
mod command;
mod document;
mod engine;
mod game;
mod group;
mod lab;
mod machine;
mod node;
mod number;
mod process;
mod processor;
mod report;
mod scratch;
mod up;
mod virtual_time;

use anyhow::{Result, bail};

use crate::allocator::CountingJemalloc;

#[global_allocator]
static ALLOCATOR: CountingJemalloc = CountingJemalloc;

type Benchmark = fn(&[String]) -> Result<()>;

const BENCHMARKS: [(&str, Benchmark); 7] = [
    (engine::NAME, engine::main),
    (node::NAME, node::main),
    (lab::NAME, lab::main),
    (group::NAME, group::main),
    (access::NAME, access::main),
    (game::NAME, game::main),
    (cluster::NAME, cluster::main),
];

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // `cargo test --all-targets` starts this program as well, without arguments.
    let Some((name, rest)) = arguments.split_first() else { return Ok(()) };
    let Some((_, benchmark)) = BENCHMARKS.iter().find(|(known, _)| known == name) else {
        let names = BENCHMARKS.map(|(known, _)| known).join(", ");
        bail!("the first argument is the name of a benchmark: {names}; there is no `{name}`");
    };
    benchmark(rest)
}
