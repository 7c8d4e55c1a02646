//! What a program in a container may try, as system calls; each must answer this error.

/// An argument.
#[derive(Clone, Copy)]
pub(super) enum Value {
    Number(u64),
    /// The address of a text.
    Text(&'static str),
    /// The address of so many zeros.
    Zeros(usize),
}

use Value::{Number as N, Text as T, Zeros as Z};

pub(super) struct Probe {
    pub(super) name: &'static str,
    pub(super) call: libc::c_long,
    pub(super) arguments: &'static [Value],
    pub(super) error: i32,
}

const fn probe(
    name: &'static str,
    call: libc::c_long,
    arguments: &'static [Value],
    error: i32,
) -> Probe {
    Probe { name, call, arguments, error }
}

const PERM: i32 = libc::EPERM;
const NOSYS: i32 = libc::ENOSYS;
const FAMILY: i32 = libc::EAFNOSUPPORT;
const PROTOCOL: i32 = libc::EPROTONOSUPPORT;
/// Init of the Pod.
const SHIM: Value = N(1);

#[rustfmt::skip]
pub(super) const PROBES: &[Probe] = &[
    // What was refused for keyrings and user namespaces alone.
    probe("add_key", libc::SYS_add_key, &[T("user"), T("x"), T("y"), N(1), N(0xFFFF_FFFD)], NOSYS),
    probe("request_key", libc::SYS_request_key, &[T("user"), T("x"), N(0), N(0)], NOSYS),
    probe("keyctl: the session's", libc::SYS_keyctl, &[N(0), N(0xFFFF_FFFD), N(1)], NOSYS),
    probe("clone3", libc::SYS_clone3, &[Z(88), N(88)], NOSYS),
    probe("clone: user namespace", libc::SYS_clone, &[N(0x1000_0011), N(0)], PERM),
    probe("clone: mount namespace", libc::SYS_clone, &[N(0x0002_0011), N(0)], PERM),
    probe("clone: PID namespace", libc::SYS_clone, &[N(0x2000_0011), N(0)], PERM),
    probe("clone: network namespace", libc::SYS_clone, &[N(0x4000_0011), N(0)], PERM),
    probe("clone: all of them", libc::SYS_clone, &[N(0x7E02_0011), N(0)], PERM),
    probe("unshare: user namespace", libc::SYS_unshare, &[N(0x1000_0000)], PERM),
    probe("unshare: mount namespace", libc::SYS_unshare, &[N(0x0002_0000)], PERM),
    probe("unshare: control group namespace", libc::SYS_unshare, &[N(0x0200_0000)], PERM),
    probe("unshare: UTS namespace", libc::SYS_unshare, &[N(0x0400_0000)], PERM),
    probe("unshare: IPC namespace", libc::SYS_unshare, &[N(0x0800_0000)], PERM),
    probe("unshare: PID namespace", libc::SYS_unshare, &[N(0x2000_0000)], PERM),
    probe("unshare: network namespace", libc::SYS_unshare, &[N(0x4000_0000)], PERM),
    probe("unshare: time namespace", libc::SYS_unshare, &[N(0x80)], PERM),
    probe("setns", libc::SYS_setns, &[N(0), N(0)], PERM),
    // Ways into the kernel that few programs need.
    probe("io_uring_setup", libc::SYS_io_uring_setup, &[N(8), Z(120)], NOSYS),
    probe("io_uring_enter", libc::SYS_io_uring_enter, &[N(0), N(1), N(0), N(0), N(0)], NOSYS),
    probe("io_uring_register", libc::SYS_io_uring_register, &[N(0), N(0), N(0), N(0)], NOSYS),
    probe("userfaultfd", libc::SYS_userfaultfd, &[N(0)], NOSYS),
    probe("userfaultfd: user mode only", libc::SYS_userfaultfd, &[N(1)], NOSYS),
    probe("memfd_secret", libc::SYS_memfd_secret, &[N(0)], NOSYS),
    probe("bpf: map", libc::SYS_bpf, &[N(0), Z(120), N(120)], PERM),
    probe("bpf: program", libc::SYS_bpf, &[N(5), Z(120), N(120)], PERM),
    probe("perf_event_open", libc::SYS_perf_event_open, &[Z(128), N(0), N(0xFFFF_FFFF), N(0xFFFF_FFFF), N(0)], PERM),
    probe("fanotify_init", libc::SYS_fanotify_init, &[N(0x200), N(0)], PERM),
    probe("fanotify_mark", libc::SYS_fanotify_mark, &[N(0), N(1), N(1), N(0), T("/")], PERM),
    probe("kcmp", libc::SYS_kcmp, &[N(1), N(1), N(0), N(0), N(0)], PERM),
    probe("open_by_handle_at", libc::SYS_open_by_handle_at, &[N(0), Z(64), N(0)], PERM),
    probe("move_pages of the shim", libc::SYS_move_pages, &[SHIM, N(0), N(0), N(0), N(0), N(0)], PERM),
    probe("migrate_pages of the shim", libc::SYS_migrate_pages, &[SHIM, N(0), N(0), N(0)], PERM),
    probe("a call of tomorrow", 470, &[N(0)], NOSYS),
    probe("a call of the day after", 999, &[N(0)], NOSYS),
    // Sockets of other families.
    probe("socket: vsock", libc::SYS_socket, &[N(40), N(1), N(0)], FAMILY),
    probe("socket: vsock datagrams", libc::SYS_socket, &[N(40), N(2), N(0)], FAMILY),
    probe("socket: packet", libc::SYS_socket, &[N(17), N(3), N(0x300)], FAMILY),
    probe("socket: cryptography", libc::SYS_socket, &[N(38), N(5), N(0)], FAMILY),
    probe("socket: bluetooth", libc::SYS_socket, &[N(31), N(3), N(1)], FAMILY),
    probe("socket: CAN", libc::SYS_socket, &[N(29), N(3), N(1)], FAMILY),
    probe("socket: TIPC", libc::SYS_socket, &[N(30), N(4), N(0)], FAMILY),
    probe("socket: RDS", libc::SYS_socket, &[N(21), N(5), N(0)], FAMILY),
    probe("socket: SMC", libc::SYS_socket, &[N(43), N(1), N(0)], FAMILY),
    probe("socket: XDP", libc::SYS_socket, &[N(44), N(3), N(0)], FAMILY),
    probe("socket: KCM", libc::SYS_socket, &[N(41), N(2), N(0)], FAMILY),
    probe("socket: Qualcomm", libc::SYS_socket, &[N(42), N(2), N(0)], FAMILY),
    probe("socket: keys of IPsec", libc::SYS_socket, &[N(15), N(3), N(2)], FAMILY),
    probe("socket: X.25", libc::SYS_socket, &[N(9), N(5), N(0)], FAMILY),
    probe("socket: AX.25", libc::SYS_socket, &[N(3), N(5), N(0)], FAMILY),
    probe("socket: a family of tomorrow", libc::SYS_socket, &[N(99), N(1), N(0)], FAMILY),
    probe("socketpair: TIPC", libc::SYS_socketpair, &[N(30), N(1), N(0), Z(8)], FAMILY),
    probe("netlink: sockets of others", libc::SYS_socket, &[N(16), N(3), N(4)], PROTOCOL),
    probe("netlink: audit", libc::SYS_socket, &[N(16), N(3), N(9)], PROTOCOL),
    probe("netlink: firewall", libc::SYS_socket, &[N(16), N(3), N(12)], PROTOCOL),
    probe("netlink: IPsec", libc::SYS_socket, &[N(16), N(3), N(6)], PROTOCOL),
    probe("netlink: devices", libc::SYS_socket, &[N(16), N(3), N(15)], PROTOCOL),
    probe("netlink: generic", libc::SYS_socket, &[N(16), N(3), N(16)], PROTOCOL),
    // Mounts, by every interface.
    probe("mount", libc::SYS_mount, &[T("none"), T("/mnt"), T("tmpfs"), N(0), N(0)], PERM),
    probe("mount: bind", libc::SYS_mount, &[T("/"), T("/mnt"), N(0), N(0x1000), N(0)], PERM),
    probe("mount: remount", libc::SYS_mount, &[N(0), T("/usr"), N(0), N(0x1020), N(0)], PERM),
    probe("umount2", libc::SYS_umount2, &[T("/proc"), N(2)], PERM),
    probe("umount2: what hides the shim", libc::SYS_umount2, &[T("/proc/1"), N(2)], PERM),
    probe("pivot_root", libc::SYS_pivot_root, &[T("/"), T("/mnt")], PERM),
    probe("chroot", libc::SYS_chroot, &[T("/")], PERM),
    probe("open_tree", libc::SYS_open_tree, &[N(0xFFFF_FF9C), T("/"), N(1)], PERM),
    probe("open_tree_attr", 467, &[N(0xFFFF_FF9C), T("/"), N(1), Z(32), N(32)], PERM),
    probe("move_mount", libc::SYS_move_mount, &[N(0), T(""), N(0), T("/mnt"), N(4)], PERM),
    probe("fsopen", libc::SYS_fsopen, &[T("proc"), N(0)], PERM),
    probe("fsconfig", libc::SYS_fsconfig, &[N(0), N(6), N(0), N(0), N(0)], PERM),
    probe("fsmount", libc::SYS_fsmount, &[N(0), N(0), N(0)], PERM),
    probe("fspick", libc::SYS_fspick, &[N(0xFFFF_FF9C), T("/"), N(0)], PERM),
    probe("mount_setattr", libc::SYS_mount_setattr, &[N(0xFFFF_FF9C), T("/usr"), N(0), Z(32), N(32)], PERM),
    probe("statmount", 457, &[Z(32), Z(512), N(512), N(0)], NOSYS),
    probe("listmount", 458, &[Z(32), Z(512), N(8), N(0)], NOSYS),
    probe("lsm_set_self_attr", 460, &[N(100), Z(32), N(32), N(0)], NOSYS),
    probe("quotactl", libc::SYS_quotactl, &[N(0x80_0001), N(0), N(0), N(0)], PERM),
    probe("quotactl_fd", libc::SYS_quotactl_fd, &[N(0), N(0), N(0), N(0)], PERM),
    probe("swapon", libc::SYS_swapon, &[T("/tmp/x"), N(0)], PERM),
    probe("swapoff", libc::SYS_swapoff, &[T("/tmp/x")], PERM),
    probe("acct", libc::SYS_acct, &[T("/tmp/x")], PERM),
    // The machine.
    probe("reboot", libc::SYS_reboot, &[N(0xFEE1_DEAD), N(0x2812_1969), N(0), N(0)], PERM),
    probe("kexec_load", libc::SYS_kexec_load, &[N(0), N(0), N(0), N(0)], PERM),
    probe("kexec_file_load", libc::SYS_kexec_file_load, &[N(0), N(0), N(0), N(0), N(0)], PERM),
    probe("init_module", libc::SYS_init_module, &[Z(64), N(64), T("")], PERM),
    probe("finit_module", libc::SYS_finit_module, &[N(0), T(""), N(0)], PERM),
    probe("delete_module", libc::SYS_delete_module, &[T("dummy"), N(0)], PERM),
    probe("sethostname", libc::SYS_sethostname, &[T("x"), N(1)], PERM),
    probe("setdomainname", libc::SYS_setdomainname, &[T("x"), N(1)], PERM),
    probe("settimeofday", libc::SYS_settimeofday, &[Z(16), N(0)], PERM),
    probe("clock_settime", libc::SYS_clock_settime, &[N(0), Z(16)], PERM),
    probe("clock_adjtime", libc::SYS_clock_adjtime, &[N(0), Z(256)], PERM),
    probe("adjtimex", libc::SYS_adjtimex, &[Z(256)], PERM),
    probe("syslog: read all", libc::SYS_syslog, &[N(3), Z(512), N(512)], PERM),
    probe("syslog: size", libc::SYS_syslog, &[N(10), N(0), N(0)], PERM),
    probe("vhangup", libc::SYS_vhangup, &[], PERM),
    // The shim, which is process 1.
    probe("prlimit: files", libc::SYS_prlimit64, &[SHIM, N(7), Z(16), N(0)], PERM),
    probe("prlimit: memory", libc::SYS_prlimit64, &[SHIM, N(9), Z(16), N(0)], PERM),
    probe("prlimit: by a long number", libc::SYS_prlimit64, &[N(0x1_0000_0001), N(7), Z(16), N(0)], PERM),
    probe("prlimit: asked only", libc::SYS_prlimit64, &[SHIM, N(7), N(0), Z(16)], PERM),
    probe("sched_setaffinity", libc::SYS_sched_setaffinity, &[SHIM, N(8), T("\u{1}       ")], PERM),
    probe("sched_setscheduler", libc::SYS_sched_setscheduler, &[SHIM, N(5), Z(4)], PERM),
    probe("sched_setparam", libc::SYS_sched_setparam, &[SHIM, Z(4)], PERM),
    probe("sched_setattr", libc::SYS_sched_setattr, &[SHIM, Z(48), N(0)], PERM),
    probe("setpriority: its own", libc::SYS_setpriority, &[N(0), SHIM, N(19)], PERM),
    probe("setpriority: its group's", libc::SYS_setpriority, &[N(1), SHIM, N(19)], PERM),
    probe("setpriority: its user's", libc::SYS_setpriority, &[N(2), N(0), N(19)], PERM),
    probe("ioprio_set", libc::SYS_ioprio_set, &[N(1), SHIM, N(0x6000)], PERM),
    probe("ptrace: attach", libc::SYS_ptrace, &[N(16), SHIM, N(0), N(0)], PERM),
    probe("ptrace: seize", libc::SYS_ptrace, &[N(0x4206), SHIM, N(0), N(0)], PERM),
    probe("get_robust_list", libc::SYS_get_robust_list, &[SHIM, Z(8), Z(8)], PERM),
    // Privileges.
    probe("setgroups", libc::SYS_setgroups, &[N(1), Z(4)], PERM),
    probe("capset: all", libc::SYS_capset, &[T("\u{22}\u{5}\u{8} \u{0}\u{0}\u{0}\u{0}"), T("\u{7f}\u{7f}\u{7f}\u{7f}\u{7f}\u{7f}\u{7f}\u{7f}\u{7f}\u{7f}\u{7f}\u{7f}\u{7f}\u{7f}\u{7f}\u{7f}\u{7f}\u{7f}\u{7f}\u{7f}\u{7f}\u{7f}\u{7f}\u{7f}")], PERM),
    probe("mknodat: a disk", libc::SYS_mknodat, &[N(0xFFFF_FF9C), T("/tmp/d"), N(0o60666), N(0x800)], PERM),
    probe("mknodat: memory", libc::SYS_mknodat, &[N(0xFFFF_FF9C), T("/tmp/m"), N(0o20666), N(0x101)], PERM),
    probe("personality: pages at 0", libc::SYS_personality, &[N(0x10_0000)], PERM),
    probe("personality: executable memory", libc::SYS_personality, &[N(0x40_0000)], PERM),
    probe("personality: another system", libc::SYS_personality, &[N(0x06)], PERM),
    probe("ioctl: words into a terminal", libc::SYS_ioctl, &[N(0), N(0x5412), T("x")], PERM),
    probe("ioctl: the console's", libc::SYS_ioctl, &[N(0), N(0x541C), T("x")], PERM),
];
