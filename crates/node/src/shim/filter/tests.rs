use super::calls::{NEW_NAMESPACES, NEW_TIME_NAMESPACE};
use super::*;

/// What the kernel would do with the program.
fn run(machine: u32, call: u32, arguments: [u64; 3]) -> u32 {
    let program = program();
    let (mut at, mut value) = (0, 0_u32);
    loop {
        let step = program[at];
        at += 1;
        let code = u32::from(step.code);
        match code & 0x07 {
            libc::BPF_LD => {
                value = match step.k {
                    CALL => call,
                    MACHINE => machine,
                    offset => {
                        let index = (offset - FIRST_ARGUMENT) / ARGUMENT_BYTES;
                        let argument = arguments[usize::try_from(index).unwrap()];
                        u32::try_from(argument & 0xFFFF_FFFF).unwrap()
                    }
                }
            }
            libc::BPF_RET => return step.k,
            libc::BPF_JMP => {
                let holds = match code & 0xF0 {
                    libc::BPF_JA => {
                        at += usize::try_from(step.k).unwrap();
                        continue;
                    }
                    libc::BPF_JEQ => value == step.k,
                    libc::BPF_JGE => value >= step.k,
                    libc::BPF_JGT => value > step.k,
                    libc::BPF_JSET => value & step.k != 0,
                    other => panic!("nothing is compared by {other}"),
                };
                at += usize::from(if holds { step.jt } else { step.jf });
            }
            other => panic!("nothing else is done: {other}"),
        }
    }
}

fn number(machine: &Machine, name: &str) -> Option<u32> {
    let call = CALLS.iter().find(|call| call.name == name).expect(name);
    call.numbers[machine.column]
}

#[test]
fn the_numbers_are_those_of_this_machine() {
    let table = [
        ("acct", libc::SYS_acct),
        ("add_key", libc::SYS_add_key),
        ("adjtimex", libc::SYS_adjtimex),
        ("bpf", libc::SYS_bpf),
        ("chroot", libc::SYS_chroot),
        ("clock_adjtime", libc::SYS_clock_adjtime),
        ("clock_settime", libc::SYS_clock_settime),
        ("clone", libc::SYS_clone),
        ("clone3", libc::SYS_clone3),
        ("delete_module", libc::SYS_delete_module),
        ("fanotify_init", libc::SYS_fanotify_init),
        ("fanotify_mark", libc::SYS_fanotify_mark),
        ("finit_module", libc::SYS_finit_module),
        ("fsconfig", libc::SYS_fsconfig),
        ("fsmount", libc::SYS_fsmount),
        ("fsopen", libc::SYS_fsopen),
        ("fspick", libc::SYS_fspick),
        ("init_module", libc::SYS_init_module),
        ("io_uring_enter", libc::SYS_io_uring_enter),
        ("io_uring_register", libc::SYS_io_uring_register),
        ("io_uring_setup", libc::SYS_io_uring_setup),
        ("ioctl", libc::SYS_ioctl),
        ("ioprio_set", libc::SYS_ioprio_set),
        ("kcmp", libc::SYS_kcmp),
        ("kexec_file_load", libc::SYS_kexec_file_load),
        ("kexec_load", libc::SYS_kexec_load),
        ("keyctl", libc::SYS_keyctl),
        ("memfd_secret", libc::SYS_memfd_secret),
        ("migrate_pages", libc::SYS_migrate_pages),
        ("mount", libc::SYS_mount),
        ("mount_setattr", libc::SYS_mount_setattr),
        ("move_mount", libc::SYS_move_mount),
        ("move_pages", libc::SYS_move_pages),
        ("open_by_handle_at", libc::SYS_open_by_handle_at),
        ("open_tree", libc::SYS_open_tree),
        ("perf_event_open", libc::SYS_perf_event_open),
        ("personality", libc::SYS_personality),
        ("pivot_root", libc::SYS_pivot_root),
        ("prlimit64", libc::SYS_prlimit64),
        ("quotactl", libc::SYS_quotactl),
        ("quotactl_fd", libc::SYS_quotactl_fd),
        ("reboot", libc::SYS_reboot),
        ("request_key", libc::SYS_request_key),
        ("sched_setaffinity", libc::SYS_sched_setaffinity),
        ("sched_setattr", libc::SYS_sched_setattr),
        ("sched_setparam", libc::SYS_sched_setparam),
        ("sched_setscheduler", libc::SYS_sched_setscheduler),
        ("setdomainname", libc::SYS_setdomainname),
        ("sethostname", libc::SYS_sethostname),
        ("setns", libc::SYS_setns),
        ("setpriority", libc::SYS_setpriority),
        ("settimeofday", libc::SYS_settimeofday),
        ("socket", libc::SYS_socket),
        ("socketpair", libc::SYS_socketpair),
        ("swapoff", libc::SYS_swapoff),
        ("swapon", libc::SYS_swapon),
        ("syslog", libc::SYS_syslog),
        ("umount2", libc::SYS_umount2),
        ("unshare", libc::SYS_unshare),
        ("userfaultfd", libc::SYS_userfaultfd),
        ("vhangup", libc::SYS_vhangup),
    ];
    for (name, expected) in table {
        let expected = u32::try_from(expected).ok();
        assert_eq!(number(&MACHINES[0], name), expected, "{name}");
    }
    let namespaces = libc::CLONE_NEWNS
        | libc::CLONE_NEWCGROUP
        | libc::CLONE_NEWUTS
        | libc::CLONE_NEWIPC
        | libc::CLONE_NEWUSER
        | libc::CLONE_NEWPID
        | libc::CLONE_NEWNET;
    assert_eq!(NEW_NAMESPACES, u32::try_from(namespaces).unwrap());
    assert_eq!(NEW_TIME_NAMESPACE, u32::try_from(libc::CLONE_NEWTIME).unwrap());
}

#[test]
fn a_number_stands_for_one_call() {
    for machine in &MACHINES {
        let mut numbers: Vec<u32> =
            CALLS.iter().filter_map(|call| call.numbers[machine.column]).collect();
        assert!(numbers.iter().all(|number| *number <= LAST));
        let count = numbers.len();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), count, "{:x}", machine.audit);
    }
    assert!(CALLS.is_sorted_by_key(|call| call.name));
}

#[test]
fn every_call_of_the_table_is_refused_and_no_other() {
    for machine in &MACHINES {
        for call in 0..=LAST {
            let entry = CALLS.iter().find(|entry| entry.numbers[machine.column] == Some(call));
            let expected = match entry.map(|entry| entry.rule) {
                Some(Rule::Never(refusal)) => refusal,
                // By its arguments: below.
                Some(Rule::Unless(_)) => continue,
                None => ALLOWED,
            };
            assert_eq!(run(machine.audit, call, [0; 3]), expected, "{:x}: {call}", machine.audit);
        }
        for younger in [LAST + 1, 500, 0x4000_0000, 0x4000_0000 | 16, u32::MAX] {
            assert_eq!(run(machine.audit, younger, [0; 3]), UNKNOWN);
        }
        let own = machine.own.map_or(UNKNOWN, |_| ALLOWED);
        assert_eq!(run(machine.audit, 0xF_0002, [0; 3]), own);
        assert_eq!(run(machine.audit, 0xF_0006, [0; 3]), UNKNOWN);
    }
    assert_eq!(run(0x1234, 0, [0; 3]), UNKNOWN);
}

#[test]
fn some_calls_are_refused_by_their_arguments() {
    let fork = 0x0120_0011;
    let user = 0x1000_0000;
    let high = 1 << 32;
    for machine in &MACHINES {
        for (name, arguments, expected) in [
            ("clone", [fork, 0, 0], ALLOWED),
            ("clone", [fork | user, 0, 0], FORBIDDEN),
            ("clone", [high | user, 0, 0], FORBIDDEN),
            ("clone", [0x0002_0000, 0, 0], FORBIDDEN),
            ("unshare", [0x0000_0600, 0, 0], ALLOWED),
            ("unshare", [user, 0, 0], FORBIDDEN),
            ("unshare", [0x0002_0000, 0, 0], FORBIDDEN),
            ("unshare", [0x80, 0, 0], FORBIDDEN),
            ("prlimit64", [0, 7, 0], ALLOWED),
            ("prlimit64", [2, 7, 0], ALLOWED),
            ("prlimit64", [1, 7, 0], FORBIDDEN),
            ("prlimit64", [high | 1, 7, 0], FORBIDDEN),
            ("sched_setaffinity", [0, 8, 0], ALLOWED),
            ("sched_setaffinity", [1, 8, 0], FORBIDDEN),
            ("sched_setscheduler", [1, 5, 0], FORBIDDEN),
            ("sched_setparam", [1, 5, 0], FORBIDDEN),
            ("sched_setattr", [1, 5, 0], FORBIDDEN),
            ("setpriority", [0, 0, 19], ALLOWED),
            ("setpriority", [0, 1, 19], FORBIDDEN),
            ("setpriority", [1, 1, 19], FORBIDDEN),
            ("setpriority", [2, 0, 19], FORBIDDEN),
            ("ioprio_set", [1, 0, 3], ALLOWED),
            ("ioprio_set", [1, 1, 3], FORBIDDEN),
            ("ioprio_set", [3, 0, 3], FORBIDDEN),
            ("personality", [0xFFFF_FFFF, 0, 0], ALLOWED),
            ("personality", [0x4_0000, 0, 0], ALLOWED),
            ("personality", [0x40_0000, 0, 0], FORBIDDEN),
            ("socket", [1, 1, 0], ALLOWED),
            ("socket", [2, 1, 6], ALLOWED),
            ("socket", [10, 2, 17], ALLOWED),
            ("socket", [16, 3, 0], ALLOWED),
            ("socket", [16, 3, 12], FOREIGN_PROTOCOL),
            ("socket", [17, 3, 0], FOREIGN_FAMILY),
            ("socket", [38, 5, 0], FOREIGN_FAMILY),
            ("socket", [40, 1, 0], FOREIGN_FAMILY),
            ("socketpair", [1, 1, 0], ALLOWED),
            ("socketpair", [30, 1, 0], FOREIGN_FAMILY),
            ("ioctl", [0, 0x5401, 0], ALLOWED),
            ("ioctl", [0, 0x5412, 0], FORBIDDEN),
            ("ioctl", [0, high | 0x5412, 0], FORBIDDEN),
            ("ioctl", [0, 0x541C, 0], FORBIDDEN),
        ] {
            let call = number(machine, name).expect("every machine has it");
            assert_eq!(run(machine.audit, call, arguments), expected, "{name} {arguments:x?}");
        }
    }
}

/// Whoever reads what is refused reads it there.
#[test]
fn the_documentation_names_what_is_refused() {
    let page = include_str!("../../../../../docs/node.md");
    for call in CALLS {
        assert!(page.contains(&format!("`{}`", call.name)), "{} is not named", call.name);
    }
}

/// The kernel translates every instruction whenever a container starts.
#[test]
fn the_program_is_short() {
    let length = program().len();
    assert!(length <= 520, "{length} instructions");
}
