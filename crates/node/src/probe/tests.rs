use std::collections::VecDeque;
use std::sync::Mutex;

use k8s_openapi::api::core::v1::{ContainerPort, ExecAction, Pod, PodSpec, TCPSocketAction};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::*;

/// Answers commands from a list, then goes on with its last answer; tells which were run when.
#[derive(Clone)]
pub(super) struct Script {
    answers: Arc<Mutex<VecDeque<Result<Executed, ExecError>>>>,
    runs: Arc<Mutex<Vec<(String, Instant)>>>,
}

impl Script {
    /// `s` succeeds, `f` fails, `t` takes too long, `?` cannot be run.
    pub(super) fn new(answers: &str) -> Self {
        let answer = |answer| match answer {
            's' => Ok(Executed { exit_code: Some(0), output: String::new() }),
            'f' => Ok(Executed { exit_code: Some(3), output: "sick".to_owned() }),
            't' => Ok(Executed { exit_code: None, output: String::new() }),
            _ => Err(ExecError("no such file".to_owned())),
        };
        let answers = answers.chars().map(answer).collect();
        Self { answers: Arc::new(Mutex::new(answers)), runs: Arc::default() }
    }

    fn runs(&self, of: &str, since: Instant) -> Vec<u64> {
        let runs = self.runs.lock().unwrap();
        runs.iter().filter(|run| run.0 == of).map(|run| (run.1 - since).as_secs()).collect()
    }
}

impl Exec for Script {
    async fn exec(
        &self,
        container: &str,
        argv: Vec<String>,
        _: Duration,
    ) -> Result<Executed, ExecError> {
        assert_eq!(container, "web");
        self.runs.lock().unwrap().push((argv.join(" "), Instant::now()));
        let mut answers = self.answers.lock().unwrap();
        if answers.len() > 1 { answers.pop_front().unwrap() } else { answers[0].clone() }
    }
}

fn probe(command: &str, delay: i32, period: i32) -> Probe {
    Probe {
        exec: Some(ExecAction { command: Some(vec![command.to_owned()]) }),
        initial_delay_seconds: Some(delay),
        period_seconds: Some(period),
        ..Probe::default()
    }
}

fn target(container: Container) -> ProbeTarget {
    ProbeTarget {
        pod_uid: "u".to_owned(),
        container: Container { name: "web".to_owned(), ..container },
        attempt: 4,
        age: Duration::ZERO,
        earlier: None,
    }
}

fn access<E>(exec: E) -> Access<E> {
    Access {
        pod_ip: IpAddr::from([127, 0, 0, 1]),
        ports: PodPorts::default(),
        exec,
        route: PodRoute::Machine,
    }
}

struct Fixture {
    watching: ContainerProbes,
    probed: watch::Receiver<Probed>,
    notices: mpsc::UnboundedReceiver<Notice>,
    since: Instant,
}

impl Fixture {
    fn new<E: Exec>(target: &ProbeTarget, access: &Access<E>) -> Self {
        let (sender, notices) = mpsc::unbounded_channel();
        let report: Report = Arc::new(move |notice| drop(sender.send(notice)));
        let watching = ContainerProbes::start(target, access, &report);
        let probed = watching.probed();
        Self { watching, probed, notices, since: Instant::now() }
    }

    /// Waits until this is known, and tells after how many seconds it was.
    async fn until(&mut self, wanted: impl Fn(&Probed) -> bool) -> u64 {
        let bound = Duration::from_secs(3600);
        let found = timeout(bound, self.probed.wait_for(|probed| wanted(probed))).await;
        drop(found.expect("it never happens").unwrap());
        self.since.elapsed().as_secs()
    }

    async fn notice(&mut self) -> (&'static str, String) {
        let notice = self.notices.recv().await.unwrap();
        assert_eq!(notice.container, "web");
        (notice.reason, notice.message)
    }
}

#[tokio::test(start_paused = true)]
async fn a_container_without_probes_is_nothing_to_know_of() {
    let fixture = Fixture::new(&target(Container::default()), &access(Script::new("s")));
    let expected = Probed { attempt: 4, started: None, ready: None, failed: None };
    assert_eq!(*fixture.probed.borrow(), expected);
    // Whoever waits for news waits, and hears of the end.
    let Fixture { watching, mut probed, .. } = fixture;
    assert!(timeout(Duration::from_secs(60), probed.changed()).await.is_err());
    drop(watching);
    assert!(probed.changed().await.is_err());
}

#[tokio::test(start_paused = true)]
async fn readiness_comes_and_goes() {
    let script = Script::new("ffsfffs");
    let container =
        Container { readiness_probe: Some(probe("ready", 5, 10)), ..Container::default() };
    let mut fixture = Fixture::new(&target(container), &access(script.clone()));
    assert_eq!(fixture.probed.borrow().ready, Some(false));
    assert_eq!(fixture.until(|probed| probed.ready == Some(true)).await, 25);
    assert_eq!(fixture.until(|probed| probed.ready == Some(false)).await, 55);
    assert_eq!(fixture.until(|probed| probed.ready == Some(true)).await, 65);
    assert_eq!(fixture.probed.borrow().failed, None);
    assert_eq!(script.runs("ready", fixture.since), [5, 15, 25, 35, 45, 55, 65]);
    assert_eq!(fixture.notice().await, ("Unhealthy", "Readiness probe failed: sick".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn startup_holds_the_others_back() {
    let script = Script::new("ffs");
    let container = Container {
        startup_probe: Some(probe("start", 0, 7)),
        liveness_probe: Some(probe("live", 1, 10)),
        readiness_probe: Some(probe("ready", 0, 10)),
        ..Container::default()
    };
    let mut fixture = Fixture::new(&target(container), &access(script.clone()));
    assert_eq!(fixture.probed.borrow().started, Some(false));
    assert_eq!(fixture.until(|probed| probed.started == Some(true)).await, 14);
    assert_eq!(fixture.until(|probed| probed.ready == Some(true)).await, 14);
    tokio::time::sleep(Duration::from_secs(25)).await;
    assert_eq!(script.runs("start", fixture.since), [0, 7, 14]);
    assert_eq!(script.runs("live", fixture.since), [14, 24, 34]);
    assert_eq!(script.runs("ready", fixture.since), [14, 24, 34]);
}

#[tokio::test(start_paused = true)]
async fn a_container_that_does_not_start_or_live_has_failed() {
    let mut slow = probe("x", 0, 1);
    slow.failure_threshold = Some(4);
    slow.termination_grace_period_seconds = Some(7);
    let cases = [
        (
            Container { startup_probe: Some(slow), ..Container::default() },
            Failed { message: "Container web failed startup probe".to_owned(), grace: Some(7) },
            vec![0, 1, 2, 3],
        ),
        (
            Container { liveness_probe: Some(probe("x", 2, 5)), ..Container::default() },
            Failed { message: "Container web failed liveness probe".to_owned(), grace: None },
            vec![2, 7, 12],
        ),
    ];
    for (container, failed, runs) in cases {
        let script = Script::new("f");
        let mut fixture = Fixture::new(&target(container), &access(script.clone()));
        fixture.until(|probed| probed.failed.as_ref() == Some(&failed)).await;
        // There is no more to find out.
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(script.runs("x", fixture.since), runs);
        // A Pod that goes anyway is not restarted.
        fixture.watching.stop_liveness();
        assert_eq!(fixture.probed.borrow().failed, None);
    }
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_run_says_nothing() {
    let script = Script::new("???????????tttt");
    let container = Container { liveness_probe: Some(probe("x", 0, 10)), ..Container::default() };
    let mut fixture = Fixture::new(&target(container), &access(script.clone()));
    // Each run is tried three times; the fourth run comes to the first that takes too long.
    assert_eq!(fixture.until(|probed| probed.failed.is_some()).await, 50);
    let errored = "Liveness probe errored and resulted in unknown state: no such file";
    for _ in 0..3 {
        assert_eq!(fixture.notice().await, ("Unhealthy", errored.to_owned()));
    }
    let late = "Liveness probe failed: command timed out: \"x\" timed out after 1s";
    assert_eq!(fixture.notice().await, ("Unhealthy", late.to_owned()));
}

#[tokio::test(start_paused = true)]
async fn an_adopted_container_stays_what_it_was() {
    let script = Script::new("s");
    let container = Container {
        startup_probe: Some(probe("start", 0, 10)),
        readiness_probe: Some(probe("ready", 600, 100)),
        ..Container::default()
    };
    let earlier = Some(PublishedState { started: true, ready: true });
    let age = Duration::from_secs(601);
    let fixture =
        Fixture::new(&ProbeTarget { age, earlier, ..target(container) }, &access(script.clone()));
    let expected = Probed { attempt: 4, started: Some(true), ready: Some(true), failed: None };
    assert_eq!(*fixture.probed.borrow(), expected);
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert_eq!(script.runs("start", fixture.since), [0; 0]);
    let runs = script.runs("ready", fixture.since);
    assert!(runs[0] > 0 && runs[0] < 100, "the first run is spread: {runs:?}");
    assert_eq!(runs[1] - runs[0], 100);
}

#[test]
fn first_runs_are_spread_over_the_period() {
    let period = Duration::from_secs(10);
    let mut halves = [0, 0];
    for number in 0..200 {
        let target = ProbeTarget { pod_uid: number.to_string(), ..target(Container::default()) };
        let spread = initial_delay(&target, Kind::Liveness, period);
        assert!(spread < period);
        halves[usize::from(spread > period / 2)] += 1;
    }
    assert!(halves.iter().all(|half| *half > 60), "{halves:?}");
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_leaving_is_asked_only_whether_it_is_ready() {
    let script = Script::new("f");
    let container = Container {
        liveness_probe: Some(probe("live", 0, 10)),
        readiness_probe: Some(probe("ready", 0, 10)),
        ..Container::default()
    };
    let mut fixture = Fixture::new(&target(container), &access(script.clone()));
    fixture.notice().await;
    fixture.watching.stop_liveness();
    tokio::time::sleep(Duration::from_secs(95)).await;
    assert_eq!(fixture.probed.borrow().failed, None);
    assert_eq!(script.runs("live", fixture.since), [0]);
    assert_eq!(script.runs("ready", fixture.since).len(), 10);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_probed_after_the_end() {
    let script = Script::new("s");
    let container =
        Container { readiness_probe: Some(probe("ready", 0, 1)), ..Container::default() };
    let mut fixture = Fixture::new(&target(container), &access(script.clone()));
    fixture.until(|probed| probed.ready == Some(true)).await;
    let since = fixture.since;
    drop(fixture);
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(script.runs("ready", since), [0]);
}

#[tokio::test]
async fn only_the_pods_own_ports_are_connected_to() {
    let own = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let foreign = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let foreign_port = foreign.local_addr().unwrap().port();
    let socket = |port: IntOrString| Probe {
        tcp_socket: Some(TCPSocketAction { port, host: None }),
        ..Probe::default()
    };
    let container = |port| Container {
        name: "web".to_owned(),
        readiness_probe: Some(socket(port)),
        ports: Some(vec![ContainerPort {
            name: Some("http".to_owned()),
            container_port: 80,
            ..ContainerPort::default()
        }]),
        ..Container::default()
    };
    let pod = Pod {
        spec: Some(PodSpec {
            containers: vec![container(IntOrString::Int(80))],
            ..PodSpec::default()
        }),
        ..Pod::default()
    };
    let actual = own.local_addr().unwrap().port();
    let ports = PodPorts::of(&pod, |_, _| Some(actual));
    let access = Access { ports, ..access(Script::new("s")) };
    for port in [IntOrString::Int(80), IntOrString::String("http".to_owned())] {
        let mut fixture = Fixture::new(&target(container(port)), &access);
        fixture.until(|probed| probed.ready == Some(true)).await;
    }
    let foreign_port = IntOrString::Int(i32::from(foreign_port));
    let mut fixture = Fixture::new(&target(container(foreign_port)), &access);
    let (reason, message) = fixture.notice().await;
    assert_eq!(reason, "Unhealthy");
    assert!(message.contains("is not one of the Pod's own TCP ports"), "{message}");
    let untouched = timeout(Duration::from_millis(1), foreign.accept()).await;
    assert!(untouched.is_err());
}

#[test]
fn messages_are_bounded() {
    assert_eq!(bounded("ü".repeat(600)).len(), 1024);
    assert_eq!(bounded(format!("x{}", "ü".repeat(600))).len(), 1023);
    assert_eq!(bounded("short".to_owned()), "short");
}
