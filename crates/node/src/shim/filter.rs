//! System calls that a container has no business with, and that reach past its namespaces.
//!
//! - User namespaces: as root of another one a process can use all those parts of the kernel that
//!   only root may, where most of its faults are found.
//! - Keyrings: they belong to users and sessions, not to namespaces, so a container would find
//!   those of whoever started the node. That every Pod had one of its own does not go: a user may
//!   have only a few.
//!
//! Everything else is left to the kernel's own checks, for a process without any privilege.

use std::io;

/// What the kernel calls a kind of machine, and its numbers of the calls.
struct Machine {
    audit: u32,
    keyrings: [u32; 3],
    clone: u32,
    unshare: u32,
    clone3: u32,
    /// From here on numbers mean the calls of yet another kind of machine.
    foreign: Option<u32>,
}

/// The kinds of machine of which this one runs programs.
#[cfg(target_arch = "x86_64")]
const MACHINES: [Machine; 2] = [
    Machine {
        audit: 0xC000_003E,
        keyrings: [248, 249, 250],
        clone: 56,
        unshare: 272,
        clone3: 435,
        foreign: Some(0x4000_0000),
    },
    Machine {
        audit: 0x4000_0003,
        keyrings: [286, 287, 288],
        clone: 120,
        unshare: 310,
        clone3: 435,
        foreign: None,
    },
];
#[cfg(target_arch = "aarch64")]
const MACHINES: [Machine; 2] = [
    Machine {
        audit: 0xC000_00B7,
        keyrings: [217, 218, 219],
        clone: 220,
        unshare: 97,
        clone3: 435,
        foreign: None,
    },
    Machine {
        audit: 0x4000_0028,
        keyrings: [309, 310, 311],
        clone: 120,
        unshare: 337,
        clone3: 435,
        foreign: None,
    },
];
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("the numbers of this machine's system calls are not known to the filter");

/// Where the kernel puts what it asks about: the call, the machine, and the low half of the first
/// argument. Both machines above have that half first.
const CALL: u32 = 0;
const MACHINE: u32 = 4;
const FIRST_ARGUMENT: u32 = 16;

const NEW_USER_NAMESPACE: u32 = 0x1000_0000;

/// As on a kernel that does not have the call: programs know how to do without.
const UNKNOWN: u32 = libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32;
const FORBIDDEN: u32 = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
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

fn program() -> Vec<libc::sock_filter> {
    let mut program = vec![load(MACHINE)];
    for machine in &MACHINES {
        let rules = rules(machine);
        program.push(unless(libc::BPF_JEQ, machine.audit, rules.len()));
        program.extend(rules);
    }
    program.push(answer(UNKNOWN));
    program
}

/// Ends with an answer in any case.
fn rules(machine: &Machine) -> Vec<libc::sock_filter> {
    let mut rules = vec![load(CALL)];
    if let Some(foreign) = machine.foreign {
        rules.extend([unless(libc::BPF_JGE, foreign, 1), answer(UNKNOWN)]);
    }
    // The flags of `clone3` are in memory, where a filter does not look.
    for call in machine.keyrings.into_iter().chain([machine.clone3]) {
        rules.extend([unless(libc::BPF_JEQ, call, 1), answer(UNKNOWN)]);
    }
    for call in [machine.clone, machine.unshare] {
        rules.extend([
            unless(libc::BPF_JEQ, call, 4),
            load(FIRST_ARGUMENT),
            unless(libc::BPF_JSET, NEW_USER_NAMESPACE, 1),
            answer(FORBIDDEN),
            answer(ALLOWED),
        ]);
    }
    rules.push(answer(ALLOWED));
    rules
}

fn load(what: u32) -> libc::sock_filter {
    instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, what, 0)
}

fn answer(what: u32) -> libc::sock_filter {
    instruction(libc::BPF_RET | libc::BPF_K, what, 0)
}

/// Leaves out the next instructions unless the comparison holds.
fn unless(comparison: u32, value: u32, left_out: usize) -> libc::sock_filter {
    let left_out = u8::try_from(left_out).expect("a rule has a handful of instructions");
    instruction(libc::BPF_JMP | comparison | libc::BPF_K, value, left_out)
}

fn instruction(code: u32, k: u32, jf: u8) -> libc::sock_filter {
    let code = u16::try_from(code).expect("codes of instructions are small");
    libc::sock_filter { code, jt: 0, jf, k }
}

#[cfg(test)]
mod tests;
