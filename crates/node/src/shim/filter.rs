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
    if let Some((first, last)) = machine.own {
        rules.push(compare(libc::BPF_JGE, first, 0, 2));
        rules.push(compare(libc::BPF_JGT, last, 1, 0));
        rules.push(answer(ALLOWED));
    }
    rules.push(compare(libc::BPF_JGT, LAST, 0, 1));
    rules.push(answer(UNKNOWN));
    let numbered = |call: &'static Call| Some((call.numbers[machine.column]?, call));
    let mut refused: Vec<(u32, &Call)> = CALLS.iter().filter_map(numbered).collect();
    refused.sort_by_key(|(number, _)| *number);
    rules.extend(choose(&refused));
    rules
}

/// Finds the number by halves: this runs at every call.
fn choose(refused: &[(u32, &Call)]) -> Program {
    let Some((middle, _)) = refused.get(refused.len() / 2) else { return vec![answer(ALLOWED)] };
    if let [(number, call)] = refused {
        let verdict = verdict(call.rule);
        let mut program = skip_unless(libc::BPF_JEQ, *number, verdict.len()).to_vec();
        program.extend(verdict);
        program.push(answer(ALLOWED));
        return program;
    }
    let (below, above) = refused.split_at(refused.len() / 2);
    let below = choose(below);
    let mut program = skip_if(libc::BPF_JGE, *middle, below.len()).to_vec();
    program.extend(below);
    program.extend(choose(above));
    program
}

/// Ends with an answer in any case.
fn verdict(rule: Rule) -> Program {
    match rule {
        Rule::Never(refusal) => vec![answer(refusal)],
        Rule::Unless(checks) => {
            let mut program: Program = checks.iter().flat_map(look).collect();
            program.push(answer(ALLOWED));
            program
        }
    }
}

/// Answers if the check finds something, and goes on after it otherwise.
fn look(check: &Check) -> Program {
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

/// Leaves out as many instructions as there are, which a comparison itself cannot.
fn skip_if(comparison: u32, value: u32, left_out: usize) -> [libc::sock_filter; 2] {
    [compare(comparison, value, 0, 1), skip(left_out)]
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
