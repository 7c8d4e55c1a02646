use super::*;

const KEEP: Duration = Duration::from_hours(2);

fn ledger(max_destinations: usize) -> Ledger {
    let options = Options { max_destinations, keep_unused: KEEP, ..Options::default() };
    Ledger::new(options)
}

fn socket(id: u64, remote: &str, stage: Stage) -> Socket {
    let port = 40_000 + u16::try_from(id).expect("numbers are small");
    let local = SocketAddr::from(([10, 0, 0, 1], port));
    Socket { id, local, remote: remote.parse().expect(remote), stage }
}

fn open(id: u64, remote: &str) -> Socket {
    socket(id, remote, Stage::Open)
}

fn snapshot(sockets: impl IntoIterator<Item = Socket>) -> Snapshot {
    Snapshot { sockets: sockets.into_iter().collect(), listening: HashSet::new() }
}

fn closed(socket: Socket, was_open: bool) -> Closed {
    let Socket { id, local, remote, .. } = socket;
    Closed { id, local, remote, was_open }
}

/// Every series as `address opened open`.
fn shown(ledger: &Ledger, now: Instant) -> Vec<String> {
    let line = |series: Series| {
        let Series { destination: Destination { ip, port }, opened, open } = series;
        format!("{} {opened} {open}", SocketAddr::new(ip, port))
    };
    ledger.series(now).into_iter().map(line).collect()
}

#[test]
fn a_connection_is_counted_once_while_it_is_seen() {
    let (mut ledger, now) = (ledger(10), Instant::now());
    for _ in 0..3 {
        ledger.observe(snapshot([open(1, "10.1.0.1:22"), open(2, "10.1.0.1:22")]), now);
        assert_eq!(shown(&ledger, now), ["10.1.0.1:22 2 2"]);
    }
    ledger.observe(snapshot([open(2, "10.1.0.1:22"), open(3, "10.1.0.2:22")]), now);
    assert_eq!(shown(&ledger, now), ["10.1.0.1:22 2 1", "10.1.0.2:22 1 1"]);
    ledger.observe(snapshot([]), now);
    assert_eq!(shown(&ledger, now), ["10.1.0.1:22 2 0", "10.1.0.2:22 1 0"]);
}

#[test]
fn the_same_ports_again_are_another_connection_if_the_number_differs() {
    let (mut ledger, now) = (ledger(10), Instant::now());
    ledger.observe(snapshot([open(1, "10.1.0.1:22")]), now);
    ledger.observe(snapshot([Socket { id: 9, ..open(1, "10.1.0.1:22") }]), now);
    assert_eq!(shown(&ledger, now), ["10.1.0.1:22 2 1"]);
    // And the same number is another connection if it leads elsewhere.
    ledger.observe(snapshot([Socket { id: 9, ..open(5, "10.1.0.1:22") }]), now);
    assert_eq!(shown(&ledger, now), ["10.1.0.1:22 3 1"]);
}

#[test]
fn other_ports_and_connections_that_came_in_do_not_count() {
    let (mut ledger, now) = (ledger(10), Instant::now());
    let incoming = open(1, "10.1.0.1:22");
    let listening = HashSet::from([incoming.local.port()]);
    let sockets = vec![incoming, open(2, "10.1.0.2:443")];
    ledger.observe(Snapshot { sockets, listening }, now);
    ledger.closed(&closed(incoming, true), now);
    ledger.closed(&closed(open(2, "10.1.0.2:443"), true), now);
    assert_eq!(shown(&ledger, now), Vec::<String>::new());
}

#[test]
fn a_connection_between_two_looks_is_counted_when_it_closes() {
    let (mut ledger, now) = (ledger(10), Instant::now());
    ledger.observe(snapshot([]), now);
    ledger.closed(&closed(open(1, "10.1.0.1:22"), true), now);
    assert_eq!(shown(&ledger, now), ["10.1.0.1:22 1 0"]);
    // An attempt that nobody answered is none.
    ledger.closed(&closed(open(2, "10.1.0.1:22"), false), now);
    assert_eq!(shown(&ledger, now), ["10.1.0.1:22 1 0"]);
}

#[test]
fn a_connection_that_was_seen_and_closes_is_not_counted_again() {
    let (mut ledger, now) = (ledger(10), Instant::now());
    ledger.observe(snapshot([open(1, "10.1.0.1:22")]), now);
    ledger.closed(&closed(open(1, "10.1.0.1:22"), true), now);
    assert_eq!(shown(&ledger, now), ["10.1.0.1:22 1 0"]);

    for stage in [Stage::Open, Stage::Closing, Stage::Fading] {
        ledger.observe(snapshot([socket(2, "10.1.0.1:22", stage)]), now);
    }
    assert_eq!(shown(&ledger, now), ["10.1.0.1:22 2 0"], "closing is not open");
    ledger.closed(&closed(open(2, "10.1.0.1:22"), true), now);
    assert_eq!(shown(&ledger, now), ["10.1.0.1:22 2 0"]);
    // An aborted socket no longer says where it led.
    ledger.observe(snapshot([open(3, "10.1.0.1:22")]), now);
    ledger.closed(&closed(open(3, "10.1.0.1:0"), true), now);
    assert_eq!(shown(&ledger, now), ["10.1.0.1:22 3 0"]);
}

#[test]
fn a_connection_that_was_reset_is_not_counted_again_when_its_process_lets_go() {
    let (mut ledger, now) = (ledger(10), Instant::now());
    ledger.observe(snapshot([open(1, "10.1.0.1:22")]), now);
    ledger.observe(snapshot([]), now);
    assert_eq!(shown(&ledger, now), ["10.1.0.1:22 1 0"]);
    let later = now + Duration::from_mins(5);
    ledger.observe(snapshot([]), later);
    ledger.closed(&closed(open(1, "10.1.0.1:22"), true), later);
    assert_eq!(shown(&ledger, later), ["10.1.0.1:22 1 0"]);
    assert!(ledger.known.is_empty());

    ledger.observe(snapshot([open(2, "10.1.0.1:22")]), later);
    ledger.observe(snapshot([]), later + REMEMBER_VANISHED);
    assert!(ledger.known.is_empty(), "what vanished is not remembered for ever");
}

#[test]
fn what_was_first_seen_closing_counts_but_the_memory_of_a_connection_does_not() {
    let (mut ledger, now) = (ledger(10), Instant::now());
    ledger.observe(snapshot([socket(1, "10.1.0.1:22", Stage::Closing)]), now);
    ledger.observe(snapshot([socket(2, "10.1.0.2:22", Stage::Fading)]), now);
    assert_eq!(shown(&ledger, now), ["10.1.0.1:22 1 0"]);
}

#[test]
fn destinations_beyond_the_bound_are_left_out_and_counted() {
    let (mut ledger, now) = (ledger(2), Instant::now());
    let sockets = (1..=4).map(|id| open(id, &format!("10.1.0.{id}:22")));
    for _ in 0..2 {
        ledger.observe(snapshot(sockets.clone()), now);
        assert_eq!(shown(&ledger, now), ["10.1.0.1:22 1 1", "10.1.0.2:22 1 1"]);
        assert_eq!(ledger.left_out(), 2);
    }
    ledger.closed(&closed(open(4, "10.1.0.4:22"), true), now);
    ledger.closed(&closed(open(5, "10.1.0.5:22"), true), now);
    assert_eq!(ledger.left_out(), 3);
    // A destination that is known goes on.
    ledger.closed(&closed(open(6, "10.1.0.1:22"), true), now);
    assert_eq!(shown(&ledger, now), ["10.1.0.1:22 2 1", "10.1.0.2:22 1 1"]);
}

#[test]
fn a_left_out_connection_stays_so_and_disturbs_no_gauge() {
    let (mut ledger, now) = (ledger(1), Instant::now());
    ledger.observe(snapshot([open(1, "10.1.0.1:22"), open(2, "10.1.0.2:22")]), now);
    // The first is gone for so long that its place is free.
    let later = now + KEEP;
    ledger.observe(snapshot([open(2, "10.1.0.2:22"), open(3, "10.1.0.2:22")]), later);
    assert_eq!(shown(&ledger, later), ["10.1.0.2:22 1 1"]);
    ledger.closed(&closed(open(2, "10.1.0.2:22"), true), later);
    assert_eq!(shown(&ledger, later), ["10.1.0.2:22 1 1"]);
    ledger.closed(&closed(open(3, "10.1.0.2:22"), true), later);
    assert_eq!(shown(&ledger, later), ["10.1.0.2:22 1 0"]);
    assert_eq!(ledger.left_out(), 1);
}

#[test]
fn an_unused_series_goes_comes_back_where_it_was_and_is_forgotten_in_the_end() {
    let (mut ledger, start) = (ledger(10), Instant::now());
    ledger.observe(snapshot([open(1, "10.1.0.1:22")]), start);
    ledger.observe(snapshot([]), start);
    let moment = Duration::from_secs(1);
    for (at, expected) in [
        (start + KEEP - moment, vec!["10.1.0.1:22 1 0"]),
        (start + KEEP, vec![]),
        (start + 2 * KEEP - moment, vec![]),
    ] {
        ledger.observe(snapshot([]), at);
        assert_eq!(shown(&ledger, at), expected);
    }
    let back = start + 2 * KEEP - moment;
    ledger.closed(&closed(open(2, "10.1.0.1:22"), true), back);
    assert_eq!(shown(&ledger, back), ["10.1.0.1:22 2 0"], "it goes on counting");
    ledger.observe(snapshot([]), back + 2 * KEEP);
    assert!(ledger.tallies.is_empty());
    ledger.closed(&closed(open(3, "10.1.0.1:22"), true), back + 2 * KEEP);
    assert_eq!(shown(&ledger, back + 2 * KEEP), ["10.1.0.1:22 1 0"]);
}

#[test]
fn a_long_connection_keeps_its_series() {
    let (mut ledger, start) = (ledger(10), Instant::now());
    ledger.observe(snapshot([open(1, "10.1.0.1:22")]), start);
    let end = start + 9 * KEEP;
    ledger.observe(snapshot([open(1, "10.1.0.1:22")]), end);
    assert_eq!(shown(&ledger, end), ["10.1.0.1:22 1 1"]);
    ledger.closed(&closed(open(1, "10.1.0.1:22"), true), end);
    assert_eq!(shown(&ledger, end + KEEP - Duration::from_secs(1)), ["10.1.0.1:22 1 0"]);
}

#[test]
fn series_are_kept_for_an_hour_at_least() {
    let options = Options { keep_unused: Duration::ZERO, ..Options::default() };
    let (mut ledger, now) = (Ledger::new(options), Instant::now());
    ledger.closed(&closed(open(1, "10.1.0.1:22"), true), now);
    assert_eq!(shown(&ledger, now + Duration::from_mins(59)), ["10.1.0.1:22 1 0"]);
    assert!(shown(&ledger, now + Duration::from_mins(60)).is_empty());
}
