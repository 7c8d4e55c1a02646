use super::*;

#[test]
fn stat_lines_of_hostile_names() {
    let pid = |number| Pid::from_raw(number).expect("not 0");
    let rest = "0 0 0 0 0 0 0 0 0 0 20 0";
    let process = |parent, session, started, dead| {
        Some(Process { pid: pid(12), parent, session, started, dead })
    };
    for (stat, expected) in [
        (format!("12 (sh) S 1 12 11 0 {rest} X 0 777 1 2"), None),
        (format!("12 (sh) S 1 12 11 0 {rest} 1 0 777 1 2"), process(1, 11, 777, false)),
        (format!("12 (a) S 9 (b) R 5 12 11 0 {rest} 1 0 777 1 2"), process(5, 11, 777, false)),
        (format!("12 (sh) Z 1 12 11 0 {rest} 1 0 777 1 2"), process(1, 11, 777, true)),
        (format!("12 (sh) Z 1 12 11 0 {rest} 4 0 777 1 2"), process(1, 11, 777, false)),
        ("12 (sh".to_owned(), None),
        (String::new(), None),
    ] {
        assert_eq!(parse_stat(&stat), expected, "{stat}");
    }
}

#[test]
fn our_own_stat_is_understood() {
    let us = Process::read(rustix::process::getpid().as_raw_nonzero().get()).expect("we live");
    assert_eq!(us.pid, rustix::process::getpid());
    assert!(!us.dead && us.started > 0);
    let parent = rustix::process::getppid().map(|parent| parent.as_raw_nonzero().get());
    assert_eq!(Some(us.parent), parent);
}

#[test]
fn descent_is_followed_and_never_for_ever() {
    let process = |number: i32, parent| {
        let pid = Pid::from_raw(number).expect("not 0");
        Process { pid, parent, session: number, started: 1, dead: false }
    };
    let everyone = [process(2, 1), process(3, 2), process(4, 3), process(8, 9), process(9, 8)];
    for (index, ancestor, expected) in
        [(2, 2, true), (2, 1, true), (0, 3, false), (2, 4, true), (3, 9, true), (3, 1, false)]
    {
        assert_eq!(
            descends(&everyone, everyone[index], ancestor),
            expected,
            "{index} of {ancestor}"
        );
    }
}
