//! The system calls of a container: what ordinary programs need is allowed, the rest is refused by
//! name (`calls`), and what the kernel learns tomorrow is refused until somebody has looked at it.
//!
//! - What only root may do is refused although the kernel would refuse it too: so none of the code
//!   that would have to refuse it runs.
//! - Namespaces: as root of another user namespace a process can use all those parts of the kernel
//!   that only root may, where most of its faults are found.
//! - Keyrings: they belong to users and sessions, not to namespaces, so a container would find
//!   those of whoever started the node. That every Pod had one of its own does not go: a user may
//!   have only a few.
//! - `io_uring`, `userfaultfd`, `bpf`, `perf_event_open` and socket families such as `vsock`: rarely
//!   needed, and often the way into the kernel; `io_uring` also goes round this very filter.
//! - Limits and priorities of the shim, which holds the Pod to its own.
//!
//! A refused call answers an error, as in other container runtimes; it never ends the process.

mod calls;

use std::io;

use self::calls::{CALLS, Call, Check, LAST, Rule, Test};

/// What the kernel calls a kind of machine, and where in the table its numbers are.
struct Machine {
    audit: u32,
    column: usize,
    /// Calls of that machine alone, far beyond the last one: the first and the last.
    own: Option<(u32, u32)>,
}

/// The kinds of machine of which this one runs programs. The numbers of a third, x32, are beyond
/// the last that is allowed.
#[cfg(target_arch = "x86_64")]
const MACHINES: [Machine; 2] = [
    Machine { audit: 0xC000_003E, column: 0, own: None },
    Machine { audit: 0x4000_0003, column: 1, own: None },
];
/// The second needs calls of its own for threads and caches.
#[cfg(target_arch = "aarch64")]
const MACHINES: [Machine; 2] = [
    Machine { audit: 0xC000_00B7, column: 2, own: None },
    Machine { audit: 0x4000_0028, column: 3, own: Some((0xF_0001, 0xF_0005)) },
];
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("the numbers of this machine's system calls are not known to the filter");

/// Init of the Pod's PID namespace, which no container can leave.
const SHIM: u32 = 1;

/// Where the kernel puts what it asks about: the call, the machine, and the low half of the first
/// argument. Both machines above have that half first.
const CALL: u32 = 0;
const MACHINE: u32 = 4;
const FIRST_ARGUMENT: u32 = 16;
const ARGUMENT_BYTES: u32 = 8;

/// As on a kernel that does not have the call: programs know how to do without.
const UNKNOWN: u32 = libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32;
const FORBIDDEN: u32 = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
/// As on a kernel without that kind of socket.
const FOREIGN_FAMILY: u32 = libc::SECCOMP_RET_ERRNO | libc::EAFNOSUPPORT as u32;
const FOREIGN_PROTOCOL: u32 = libc::SECCOMP_RET_ERRNO | libc::EPROTONOSUPPORT as u32;
const ALLOWED: u32 = libc::SECCOMP_RET_ALLOW;

/// Filters the system calls of this process and all that come from it, for ever.
pub(super) fn install() -> io::Result<()> {
    let mut program = program();
    let length = u16::try_from(program.len()).map_err(io::Error::other)?;
    let program = libc::sock_fprog { len: length, filter: program.as_mut_ptr() };
    #[expect(unsafe_code, reason = "no safe face exists")]
    // SAFETY: the program lives until the call returns, which copies it; its length is its own.
    let result =
        unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

type Program = Vec<libc::sock_filter>;

fn program() -> Program {
    let mut program = vec![load(MACHINE)];
    for machine in &MACHINES {
        let rules = rules(machine);
        program.extend(skip_unless(libc::BPF_JEQ, machine.audit, rules.len()));
        program.extend(rules);
    }
    program.push(answer(UNKNOWN));
    program
}

/// Ends with an answer in any case.
fn rules(machine: &Machine) -> Program {
    let mut rules = vec![load(CALL)];
    rules.extend(choose(&ranges(machine)));
    rules
}

/// What becomes of all calls of a machine: each rule is for the numbers from its own to the next.
/// Neighbours that are answered alike are one range, since every instruction costs time when a
/// container starts.
fn ranges(machine: &Machine) -> Vec<(u32, Rule)> {
    let (allowed, unknown) = (Rule::Never(ALLOWED), Rule::Never(UNKNOWN));
    let numbered = |call: &'static Call| Some((call.numbers[machine.column]?, call.rule));
    let mut refused: Vec<(u32, Rule)> = CALLS.iter().filter_map(numbered).collect();
    refused.sort_by_key(|(number, _)| *number);
    let refused = refused.into_iter().flat_map(|(at, rule)| [(at, rule), (at + 1, allowed)]);
    let own = machine.own.map(|(first, last)| [(first, allowed), (last + 1, unknown)]);
    let beyond = [(LAST + 1, unknown)].into_iter().chain(own.into_iter().flatten());
    let mut ranges = vec![(0, allowed)];
    for (start, rule) in refused.chain(beyond) {
        // What was allowed from here on is the next one that is refused.
        ranges.pop_if(|(before, _)| *before == start);
        let is_the_same = match (ranges.last(), rule) {
            (Some((_, Rule::Never(before))), Rule::Never(now)) => *before == now,
            _ => false,
        };
        if !is_the_same {
            ranges.push((start, rule));
        }
    }
    ranges
}

/// Finds the range of the number by halves: this runs at every call.
fn choose(ranges: &[(u32, Rule)]) -> Program {
    let (below, above) = ranges.split_at(ranges.len() / 2);
    let Some((middle, rule)) = above.first() else { return vec![answer(UNKNOWN)] };
    if below.is_empty() {
        return rule_program(*rule);
    }
    let below = choose(below);
    let mut program = skip_if(libc::BPF_JGE, *middle, below.len());
    program.extend(below);
    program.extend(choose(above));
    program
}

/// Ends with an answer in any case.
fn rule_program(rule: Rule) -> Program {
    match rule {
        Rule::Never(refusal) => vec![answer(refusal)],
        Rule::Unless(checks) => {
            let mut program: Program = checks.iter().flat_map(check_program).collect();
            program.push(answer(ALLOWED));
            program
        }
    }
}

/// Answers if the check finds something, and goes on after it otherwise.
fn check_program(check: &Check) -> Program {
    let mut program = vec![load(FIRST_ARGUMENT + ARGUMENT_BYTES * check.argument)];
    match check.test {
        Test::Is(value) => program.push(compare(libc::BPF_JEQ, value, 0, 1)),
        Test::Has(bits) => program.push(compare(libc::BPF_JSET, bits, 0, 1)),
        Test::IsNoneOf(values) => {
            for (value, left) in values.iter().zip((1..=values.len()).rev()) {
                program.push(compare(libc::BPF_JEQ, *value, left, 0));
            }
        }
    }
    program.push(answer(check.answer));
    program
}

fn load(what: u32) -> libc::sock_filter {
    instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, what, 0, 0)
}

fn answer(what: u32) -> libc::sock_filter {
    instruction(libc::BPF_RET | libc::BPF_K, what, 0, 0)
}

/// Leaves out so many instructions if the comparison holds, and so many if not.
fn compare(comparison: u32, value: u32, if_it_holds: usize, if_not: usize) -> libc::sock_filter {
    instruction(libc::BPF_JMP | comparison | libc::BPF_K, value, if_it_holds, if_not)
}

/// Leaves out as many instructions as there are; a comparison itself can leave out only some.
fn skip_if(comparison: u32, value: u32, left_out: usize) -> Program {
    if left_out <= usize::from(u8::MAX) {
        return vec![compare(comparison, value, left_out, 0)];
    }
    vec![compare(comparison, value, 0, 1), skip(left_out)]
}

fn skip_unless(comparison: u32, value: u32, left_out: usize) -> [libc::sock_filter; 2] {
    [compare(comparison, value, 1, 0), skip(left_out)]
}

fn skip(left_out: usize) -> libc::sock_filter {
    let left_out = u32::try_from(left_out).expect("a program has some hundred instructions");
    instruction(libc::BPF_JMP | libc::BPF_JA, left_out, 0, 0)
}

fn instruction(code: u32, k: u32, jt: usize, jf: usize) -> libc::sock_filter {
    let code = u16::try_from(code).expect("codes of instructions are small");
    let short = |distance| u8::try_from(distance).expect("a check has a handful of instructions");
    libc::sock_filter { code, jt: short(jt), jf: short(jf), k }
}

#[cfg(test)]
mod tests;
