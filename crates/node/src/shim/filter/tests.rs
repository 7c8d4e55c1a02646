use super::*;

/// What the kernel would do with the program.
fn run(machine: u32, call: u32, argument: u64) -> u32 {
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
                    FIRST_ARGUMENT => u32::try_from(argument & 0xFFFF_FFFF).unwrap(),
                    other => panic!("nothing is read from {other}"),
                }
            }
            libc::BPF_RET => return step.k,
            libc::BPF_JMP => {
                let holds = match code & 0xF0 {
                    libc::BPF_JEQ => value == step.k,
                    libc::BPF_JGE => value >= step.k,
                    libc::BPF_JSET => value & step.k != 0,
                    other => panic!("nothing is compared by {other}"),
                };
                at += usize::from(if holds { step.jt } else { step.jf });
            }
            other => panic!("nothing else is done: {other}"),
        }
    }
}

#[test]
fn the_numbers_are_those_of_this_machine() {
    let number = |call: libc::c_long| u32::try_from(call).unwrap();
    let ours = &MACHINES[0];
    assert_eq!(
        ours.keyrings,
        [libc::SYS_add_key, libc::SYS_request_key, libc::SYS_keyctl].map(number)
    );
    assert_eq!([ours.clone, ours.unshare], [libc::SYS_clone, libc::SYS_unshare].map(number));
    assert_eq!(ours.clone3, number(libc::SYS_clone3));
    assert_eq!(NEW_USER_NAMESPACE, u32::try_from(libc::CLONE_NEWUSER).unwrap());
}

#[test]
fn verdicts() {
    let fork = 0x0120_0011;
    let user = u64::from(NEW_USER_NAMESPACE);
    for machine in &MACHINES {
        let Machine { audit, keyrings, clone, unshare, clone3, .. } = *machine;
        for (call, argument, expected) in [
            (keyrings[0], 0, UNKNOWN),
            (keyrings[1], 0, UNKNOWN),
            (keyrings[2], 1, UNKNOWN),
            (clone3, 0, UNKNOWN),
            (clone, fork, ALLOWED),
            (clone, fork | user, FORBIDDEN),
            (clone, 1 << 32 | user, FORBIDDEN),
            (unshare, 0x0002_0000, ALLOWED),
            (unshare, 0x0002_0000 | user, FORBIDDEN),
            (0, user, ALLOWED),
            (400, user, ALLOWED),
        ] {
            assert_eq!(run(audit, call, argument), expected, "{audit:x}: {call} {argument:x}");
        }
        if let Some(foreign) = machine.foreign {
            assert_eq!(run(audit, foreign | unshare, user), UNKNOWN);
        }
    }
    assert_eq!(run(0x1234, 0, 0), UNKNOWN);
}
