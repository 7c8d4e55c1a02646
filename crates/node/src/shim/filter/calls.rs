//! The calls that are refused, by name: which numbers they have on each kind of machine, and when.
//!
//! What is not in this table is allowed as far as it is no younger than [`LAST`], the last call that
//! somebody has looked at; whatever a kernel learns after it is refused until somebody has.

use super::{ALLOWED, FORBIDDEN, FOREIGN_FAMILY, FOREIGN_PROTOCOL, SHIM, UNKNOWN};

/// `file_setattr` of Linux 6.17. The newer calls have one number on every kind of machine.
pub(super) const LAST: u32 = 469;

/// A call that is refused, always or at times.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call {
    #[cfg_attr(not(test), expect(dead_code, reason = "people and tests read it"))]
    pub(super) name: &'static str,
    /// Its number on `x86_64`, `i386`, `aarch64` and `arm`, as far as they have it.
    pub(super) numbers: [Option<u32>; 4],
    pub(super) rule: Rule,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Rule {
    /// It is answered so.
    Never(u32),
    /// It is allowed unless one of the checks says otherwise; the first that does counts.
    Unless(&'static [Check]),
}

/// One look at one argument, and the answer if the look finds something. Arguments are the low
/// halves: the kernel does not look at the high ones of what is checked here either.
#[derive(Debug, Clone, Copy)]
pub(super) struct Check {
    pub(super) argument: u32,
    pub(super) test: Test,
    pub(super) answer: u32,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Test {
    Is(u32),
    /// It has one of these bits.
    Has(u32),
    IsNoneOf(&'static [u32]),
}

/// Mount, control group, UTS, IPC, user, PID and network namespaces.
pub(super) const NEW_NAMESPACES: u32 = 0x7E02_0000;
/// And time; the bit is part of a signal's number for `clone`.
pub(super) const NEW_TIME_NAMESPACE: u32 = 0x80;

const MAKES_NAMESPACES: &[Check] = &[check(0, Test::Has(NEW_NAMESPACES), FORBIDDEN)];
const LEAVES_NAMESPACES: &[Check] =
    &[check(0, Test::Has(NEW_NAMESPACES | NEW_TIME_NAMESPACE), FORBIDDEN)];

/// Limits, scheduling and priority of the process that holds the Pod to its limits: as an ordinary
/// user it has the same user as its containers, and the kernel would not mind.
const OF_THE_SHIM: &[Check] = &[check(0, Test::Is(SHIM), FORBIDDEN)];
/// Which kind of number, then the number. All processes of a user are the shim as well.
const PRIORITY_OF_THE_SHIM: &[Check] =
    &[check(0, Test::Is(2), FORBIDDEN), check(1, Test::Is(SHIM), FORBIDDEN)];
const IO_PRIORITY_OF_THE_SHIM: &[Check] =
    &[check(0, Test::Is(3), FORBIDDEN), check(1, Test::Is(SHIM), FORBIDDEN)];

/// Linux, of 32 bits too, of an old number too, without random addresses (for debuggers), and the
/// question which it is. Others map pages at 0 or make all memory executable.
const STRANGE_PERSONALITY: &[Check] =
    &[check(0, Test::IsNoneOf(&[0, 0x8, 0x2_0000, 0x2_0008, 0x4_0000, u32::MAX]), FORBIDDEN)];

const UNIX: u32 = 1;
const INET: u32 = 2;
const INET6: u32 = 10;
const NETLINK: u32 = 16;
/// Which addresses the machine has, as every resolver asks.
const NETLINK_ROUTE: u32 = 0;
/// All others, `vsock` to the hypervisor and `packet` among them, and most of netlink.
const STRANGE_SOCKET: &[Check] = &[
    check(0, Test::IsNoneOf(&[UNIX, INET, INET6, NETLINK]), FOREIGN_FAMILY),
    check(0, Test::IsNoneOf(&[NETLINK]), ALLOWED),
    check(2, Test::IsNoneOf(&[NETLINK_ROUTE]), FOREIGN_PROTOCOL),
];
const STRANGE_PAIR: &[Check] = &[check(0, Test::IsNoneOf(&[UNIX]), FOREIGN_FAMILY)];

/// `TIOCSTI` and `TIOCLINUX` put words into the mouth of whoever sits at a terminal.
const TYPES_INTO_TERMINALS: &[Check] =
    &[check(1, Test::Is(0x5412), FORBIDDEN), check(1, Test::Is(0x541C), FORBIDDEN)];

const fn check(argument: u32, test: Test, answer: u32) -> Check {
    Check { argument, test, answer }
}

/// In the table below: the machine does not have it.
const NONE: u32 = u32::MAX;

const fn call(name: &'static str, [a, b, c, d]: [u32; 4], rule: Rule) -> Call {
    Call { name, numbers: [number(a), number(b), number(c), number(d)], rule }
}

const fn number(number: u32) -> Option<u32> {
    if number == NONE { None } else { Some(number) }
}

/// - `FORBIDDEN`: what only root may, or what reaches other processes; programs take no for an
///   answer.
/// - `UNKNOWN`: what programs know how to do without, because many a kernel does not have it. The
///   flags of `clone3` and what `socketcall` asks for are in memory, where a filter does not look;
///   the C library then uses the calls that say it in their arguments.
pub(super) const CALLS: &[Call] = &[
    call("acct", [163, 51, 89, 51], Rule::Never(FORBIDDEN)),
    call("add_key", [248, 286, 217, 309], Rule::Never(UNKNOWN)),
    call("adjtimex", [159, 124, 171, 124], Rule::Never(FORBIDDEN)),
    call("bpf", [321, 357, 280, 386], Rule::Never(FORBIDDEN)),
    call("chroot", [161, 61, 51, 61], Rule::Never(FORBIDDEN)),
    call("clock_adjtime", [305, 343, 266, 372], Rule::Never(FORBIDDEN)),
    call("clock_adjtime64", [NONE, 405, NONE, 405], Rule::Never(FORBIDDEN)),
    call("clock_settime", [227, 264, 112, 262], Rule::Never(FORBIDDEN)),
    call("clock_settime64", [NONE, 404, NONE, 404], Rule::Never(FORBIDDEN)),
    call("clone", [56, 120, 220, 120], Rule::Unless(MAKES_NAMESPACES)),
    call("clone3", [435, 435, 435, 435], Rule::Never(UNKNOWN)),
    call("delete_module", [176, 129, 106, 129], Rule::Never(FORBIDDEN)),
    call("fanotify_init", [300, 338, 262, 367], Rule::Never(FORBIDDEN)),
    call("fanotify_mark", [301, 339, 263, 368], Rule::Never(FORBIDDEN)),
    call("finit_module", [313, 350, 273, 379], Rule::Never(FORBIDDEN)),
    call("fsconfig", [431, 431, 431, 431], Rule::Never(FORBIDDEN)),
    call("fsmount", [432, 432, 432, 432], Rule::Never(FORBIDDEN)),
    call("fsopen", [430, 430, 430, 430], Rule::Never(FORBIDDEN)),
    call("fspick", [433, 433, 433, 433], Rule::Never(FORBIDDEN)),
    call("init_module", [175, 128, 105, 128], Rule::Never(FORBIDDEN)),
    call("io_uring_enter", [426, 426, 426, 426], Rule::Never(UNKNOWN)),
    call("io_uring_register", [427, 427, 427, 427], Rule::Never(UNKNOWN)),
    call("io_uring_setup", [425, 425, 425, 425], Rule::Never(UNKNOWN)),
    call("ioctl", [16, 54, 29, 54], Rule::Unless(TYPES_INTO_TERMINALS)),
    call("ioperm", [173, 101, NONE, NONE], Rule::Never(FORBIDDEN)),
    call("iopl", [172, 110, NONE, NONE], Rule::Never(FORBIDDEN)),
    call("ioprio_set", [251, 289, 30, 314], Rule::Unless(IO_PRIORITY_OF_THE_SHIM)),
    call("kcmp", [312, 349, 272, 378], Rule::Never(FORBIDDEN)),
    call("kexec_file_load", [320, NONE, 294, 401], Rule::Never(FORBIDDEN)),
    call("kexec_load", [246, 283, 104, 347], Rule::Never(FORBIDDEN)),
    call("keyctl", [250, 288, 219, 311], Rule::Never(UNKNOWN)),
    call("listmount", [458, 458, 458, 458], Rule::Never(UNKNOWN)),
    call("lsm_get_self_attr", [459, 459, 459, 459], Rule::Never(UNKNOWN)),
    call("lsm_list_modules", [461, 461, 461, 461], Rule::Never(UNKNOWN)),
    call("lsm_set_self_attr", [460, 460, 460, 460], Rule::Never(UNKNOWN)),
    call("memfd_secret", [447, 447, 447, 447], Rule::Never(UNKNOWN)),
    call("migrate_pages", [256, 294, 238, 400], Rule::Never(FORBIDDEN)),
    call("modify_ldt", [154, 123, NONE, NONE], Rule::Never(UNKNOWN)),
    call("mount", [165, 21, 40, 21], Rule::Never(FORBIDDEN)),
    call("mount_setattr", [442, 442, 442, 442], Rule::Never(FORBIDDEN)),
    call("move_mount", [429, 429, 429, 429], Rule::Never(FORBIDDEN)),
    call("move_pages", [279, 317, 239, 344], Rule::Never(FORBIDDEN)),
    call("open_by_handle_at", [304, 342, 265, 371], Rule::Never(FORBIDDEN)),
    call("open_tree", [428, 428, 428, 428], Rule::Never(FORBIDDEN)),
    call("open_tree_attr", [467, 467, 467, 467], Rule::Never(FORBIDDEN)),
    call("perf_event_open", [298, 336, 241, 364], Rule::Never(FORBIDDEN)),
    call("personality", [135, 136, 92, 136], Rule::Unless(STRANGE_PERSONALITY)),
    call("pivot_root", [155, 217, 41, 218], Rule::Never(FORBIDDEN)),
    call("prlimit64", [302, 340, 261, 369], Rule::Unless(OF_THE_SHIM)),
    call("quotactl", [179, 131, 60, 131], Rule::Never(FORBIDDEN)),
    call("quotactl_fd", [443, 443, 443, 443], Rule::Never(FORBIDDEN)),
    call("reboot", [169, 88, 142, 88], Rule::Never(FORBIDDEN)),
    call("request_key", [249, 287, 218, 310], Rule::Never(UNKNOWN)),
    call("sched_setaffinity", [203, 241, 122, 241], Rule::Unless(OF_THE_SHIM)),
    call("sched_setattr", [314, 351, 274, 380], Rule::Unless(OF_THE_SHIM)),
    call("sched_setparam", [142, 154, 118, 154], Rule::Unless(OF_THE_SHIM)),
    call("sched_setscheduler", [144, 156, 119, 156], Rule::Unless(OF_THE_SHIM)),
    call("setdomainname", [171, 121, 162, 121], Rule::Never(FORBIDDEN)),
    call("sethostname", [170, 74, 161, 74], Rule::Never(FORBIDDEN)),
    call("setns", [308, 346, 268, 375], Rule::Never(FORBIDDEN)),
    call("setpriority", [141, 97, 140, 97], Rule::Unless(PRIORITY_OF_THE_SHIM)),
    call("settimeofday", [164, 79, 170, 79], Rule::Never(FORBIDDEN)),
    call("socket", [41, 359, 198, 281], Rule::Unless(STRANGE_SOCKET)),
    call("socketcall", [NONE, 102, NONE, 102], Rule::Never(UNKNOWN)),
    call("socketpair", [53, 360, 199, 288], Rule::Unless(STRANGE_PAIR)),
    call("statmount", [457, 457, 457, 457], Rule::Never(UNKNOWN)),
    call("stime", [NONE, 25, NONE, 25], Rule::Never(FORBIDDEN)),
    call("swapoff", [168, 115, 225, 115], Rule::Never(FORBIDDEN)),
    call("swapon", [167, 87, 224, 87], Rule::Never(FORBIDDEN)),
    call("sysfs", [139, 135, NONE, 135], Rule::Never(FORBIDDEN)),
    call("syslog", [103, 103, 116, 103], Rule::Never(FORBIDDEN)),
    call("umount", [NONE, 22, NONE, 22], Rule::Never(FORBIDDEN)),
    call("umount2", [166, 52, 39, 52], Rule::Never(FORBIDDEN)),
    call("unshare", [272, 310, 97, 337], Rule::Unless(LEAVES_NAMESPACES)),
    call("uselib", [134, 86, NONE, 86], Rule::Never(FORBIDDEN)),
    call("userfaultfd", [323, 374, 282, 388], Rule::Never(UNKNOWN)),
    call("ustat", [136, 62, NONE, 62], Rule::Never(FORBIDDEN)),
    call("vhangup", [153, 111, 58, 111], Rule::Never(FORBIDDEN)),
];
