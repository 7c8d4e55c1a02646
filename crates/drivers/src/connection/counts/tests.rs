use super::*;

const RETENTION: Duration = Duration::from_hours(2);

fn counts(max_destinations: usize) -> ConnectionCounts {
    let options = Options { max_destinations, keep_unused: RETENTION, ..Options::default() };
    ConnectionCounts::new(options)
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
fn shown(counts: &ConnectionCounts, now: Instant) -> Vec<String> {
    let line = |series: Series| {
        let Series { destination: Destination { ip, port }, opened, open } = series;
        format!("{} {opened} {open}", SocketAddr::new(ip, port))
    };
    counts.series(now).into_iter().map(line).collect()
}

#[test]
fn a_connection_is_counted_once_while_it_is_seen() {
    let (mut counts, now) = (counts(10), Instant::now());
    for _ in 0..3 {
        counts.observe(snapshot([open(1, "10.1.0.1:22"), open(2, "10.1.0.1:22")]), now);
        assert_eq!(shown(&counts, now), ["10.1.0.1:22 2 2"]);
    }
    counts.observe(snapshot([open(2, "10.1.0.1:22"), open(3, "10.1.0.2:22")]), now);
    assert_eq!(shown(&counts, now), ["10.1.0.1:22 2 1", "10.1.0.2:22 1 1"]);
    counts.observe(snapshot([]), now);
    assert_eq!(shown(&counts, now), ["10.1.0.1:22 2 0", "10.1.0.2:22 1 0"]);
}

#[test]
fn the_same_ports_again_are_another_connection_if_the_number_differs() {
    let (mut counts, now) = (counts(10), Instant::now());
    counts.observe(snapshot([open(1, "10.1.0.1:22")]), now);
    counts.observe(snapshot([Socket { id: 9, ..open(1, "10.1.0.1:22") }]), now);
    assert_eq!(shown(&counts, now), ["10.1.0.1:22 2 1"]);
    // And the same number is another connection if it leads elsewhere.
    counts.observe(snapshot([Socket { id: 9, ..open(5, "10.1.0.1:22") }]), now);
    assert_eq!(shown(&counts, now), ["10.1.0.1:22 3 1"]);
}

#[test]
fn other_ports_and_connections_that_came_in_do_not_count() {
    let (mut counts, now) = (counts(10), Instant::now());
    let incoming = open(1, "10.1.0.1:22");
    let listening = HashSet::from([incoming.local.port()]);
    let sockets = vec![incoming, open(2, "10.1.0.2:443")];
    counts.observe(Snapshot { sockets, listening }, now);
    counts.closed(&closed(incoming, true), now);
    counts.closed(&closed(open(2, "10.1.0.2:443"), true), now);
    assert_eq!(shown(&counts, now), Vec::<String>::new());
}

#[test]
fn a_connection_between_two_looks_is_counted_when_it_closes() {
    let (mut counts, now) = (counts(10), Instant::now());
    counts.observe(snapshot([]), now);
    counts.closed(&closed(open(1, "10.1.0.1:22"), true), now);
    assert_eq!(shown(&counts, now), ["10.1.0.1:22 1 0"]);
    // An attempt that nobody answered is none.
    counts.closed(&closed(open(2, "10.1.0.1:22"), false), now);
    assert_eq!(shown(&counts, now), ["10.1.0.1:22 1 0"]);
}

#[test]
fn a_connection_that_was_seen_and_closes_is_not_counted_again() {
    let (mut counts, now) = (counts(10), Instant::now());
    counts.observe(snapshot([open(1, "10.1.0.1:22")]), now);
    counts.closed(&closed(open(1, "10.1.0.1:22"), true), now);
    assert_eq!(shown(&counts, now), ["10.1.0.1:22 1 0"]);

    for stage in [Stage::Open, Stage::Closing, Stage::Fading] {
        counts.observe(snapshot([socket(2, "10.1.0.1:22", stage)]), now);
    }
    assert_eq!(shown(&counts, now), ["10.1.0.1:22 2 0"], "closing is not open");
    counts.closed(&closed(open(2, "10.1.0.1:22"), true), now);
    assert_eq!(shown(&counts, now), ["10.1.0.1:22 2 0"]);
    // An aborted socket no longer says where it led.
    counts.observe(snapshot([open(3, "10.1.0.1:22")]), now);
    counts.closed(&closed(open(3, "10.1.0.1:0"), true), now);
    assert_eq!(shown(&counts, now), ["10.1.0.1:22 3 0"]);
}

#[test]
fn a_connection_that_was_reset_is_not_counted_again_when_its_process_lets_go() {
    let (mut counts, now) = (counts(10), Instant::now());
    counts.observe(snapshot([open(1, "10.1.0.1:22")]), now);
    counts.observe(snapshot([]), now);
    assert_eq!(shown(&counts, now), ["10.1.0.1:22 1 0"]);
    let later = now + Duration::from_mins(5);
    counts.observe(snapshot([]), later);
    counts.closed(&closed(open(1, "10.1.0.1:22"), true), later);
    assert_eq!(shown(&counts, later), ["10.1.0.1:22 1 0"]);
    assert!(counts.known.is_empty());

    counts.observe(snapshot([open(2, "10.1.0.1:22")]), later);
    counts.observe(snapshot([]), later + VANISHED_RETENTION);
    assert!(counts.known.is_empty(), "what vanished is not remembered for ever");
}

#[test]
fn what_was_first_seen_closing_counts_but_the_memory_of_a_connection_does_not() {
    let (mut counts, now) = (counts(10), Instant::now());
    counts.observe(snapshot([socket(1, "10.1.0.1:22", Stage::Closing)]), now);
    counts.observe(snapshot([socket(2, "10.1.0.2:22", Stage::Fading)]), now);
    assert_eq!(shown(&counts, now), ["10.1.0.1:22 1 0"]);
}

#[test]
fn destinations_beyond_the_bound_are_left_out_and_counted() {
    let (mut counts, now) = (counts(2), Instant::now());
    let sockets = (1..=4).map(|id| open(id, &format!("10.1.0.{id}:22")));
    for _ in 0..2 {
        counts.observe(snapshot(sockets.clone()), now);
        assert_eq!(shown(&counts, now), ["10.1.0.1:22 1 1", "10.1.0.2:22 1 1"]);
        assert_eq!(counts.left_out(), 2);
    }
    counts.closed(&closed(open(4, "10.1.0.4:22"), true), now);
    counts.closed(&closed(open(5, "10.1.0.5:22"), true), now);
    assert_eq!(counts.left_out(), 3);
    // A destination that is known goes on.
    counts.closed(&closed(open(6, "10.1.0.1:22"), true), now);
    assert_eq!(shown(&counts, now), ["10.1.0.1:22 2 1", "10.1.0.2:22 1 1"]);
}

#[test]
fn a_left_out_connection_stays_so_and_disturbs_no_gauge() {
    let (mut counts, now) = (counts(1), Instant::now());
    counts.observe(snapshot([open(1, "10.1.0.1:22"), open(2, "10.1.0.2:22")]), now);
    // The first is gone for so long that its place is free.
    let later = now + RETENTION;
    counts.observe(snapshot([open(2, "10.1.0.2:22"), open(3, "10.1.0.2:22")]), later);
    assert_eq!(shown(&counts, later), ["10.1.0.2:22 1 1"]);
    counts.closed(&closed(open(2, "10.1.0.2:22"), true), later);
    assert_eq!(shown(&counts, later), ["10.1.0.2:22 1 1"]);
    counts.closed(&closed(open(3, "10.1.0.2:22"), true), later);
    assert_eq!(shown(&counts, later), ["10.1.0.2:22 1 0"]);
    assert_eq!(counts.left_out(), 1);
}

#[test]
fn an_unused_series_goes_comes_back_where_it_was_and_is_forgotten_in_the_end() {
    let (mut counts, start) = (counts(10), Instant::now());
    counts.observe(snapshot([open(1, "10.1.0.1:22")]), start);
    counts.observe(snapshot([]), start);
    let moment = Duration::from_secs(1);
    for (at, expected) in [
        (start + RETENTION - moment, vec!["10.1.0.1:22 1 0"]),
        (start + RETENTION, vec![]),
        (start + 2 * RETENTION - moment, vec![]),
    ] {
        counts.observe(snapshot([]), at);
        assert_eq!(shown(&counts, at), expected);
    }
    let back = start + 2 * RETENTION - moment;
    counts.closed(&closed(open(2, "10.1.0.1:22"), true), back);
    assert_eq!(shown(&counts, back), ["10.1.0.1:22 2 0"], "it goes on counting");
    counts.observe(snapshot([]), back + 2 * RETENTION);
    assert!(counts.tallies.is_empty());
    counts.closed(&closed(open(3, "10.1.0.1:22"), true), back + 2 * RETENTION);
    assert_eq!(shown(&counts, back + 2 * RETENTION), ["10.1.0.1:22 1 0"]);
}

#[test]
fn a_long_connection_keeps_its_series() {
    let (mut counts, start) = (counts(10), Instant::now());
    counts.observe(snapshot([open(1, "10.1.0.1:22")]), start);
    let end = start + 9 * RETENTION;
    counts.observe(snapshot([open(1, "10.1.0.1:22")]), end);
    assert_eq!(shown(&counts, end), ["10.1.0.1:22 1 1"]);
    counts.closed(&closed(open(1, "10.1.0.1:22"), true), end);
    assert_eq!(shown(&counts, end + RETENTION - Duration::from_secs(1)), ["10.1.0.1:22 1 0"]);
}

#[test]
fn series_are_kept_for_an_hour_at_least() {
    let options = Options { keep_unused: Duration::ZERO, ..Options::default() };
    let (mut counts, now) = (ConnectionCounts::new(options), Instant::now());
    counts.closed(&closed(open(1, "10.1.0.1:22"), true), now);
    assert_eq!(shown(&counts, now + Duration::from_mins(59)), ["10.1.0.1:22 1 0"]);
    assert!(shown(&counts, now + Duration::from_mins(60)).is_empty());
}
