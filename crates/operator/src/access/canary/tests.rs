use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Mutex;

use http::{Method, Request, Response};
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};
use sojourn_core::key::Key;
use sojourn_rbac::{Policy, User};

use super::*;
use crate::access::authorizer::fixture::{CLUSTER, Fixture, TestSession, at, canary_key, options};
use crate::access::cluster::{Clusters, ReachedCluster};
use crate::access::policy::PolicyCache;
use crate::clock::VirtualClock;
use crate::tracker::Tracker;

const INTERVAL: SignedDuration = SignedDuration::from_secs(10);

/// How the API server treats a review.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// It asks the authorizer, after another one that has a reason of its own.
    Asks,
    /// It cannot be reached.
    Fails,
    Hangs,
    /// It has no webhook configured.
    AsksNobody,
    /// Another webhook repeats what is asked for.
    Repeats,
    /// It has the answer to the first review in its cache, and gives that to all.
    Caches,
}

struct FakeApi {
    /// As whose API server it asks.
    cluster: &'static str,
    mode: Mutex<Mode>,
    authorizer: AccessAuthorizer,
    reviews: AtomicU64,
    cached: Mutex<Option<String>>,
    config_map: Mutex<Option<Value>>,
}

impl FakeApi {
    fn new(cluster: &'static str, authorizer: &AccessAuthorizer) -> Arc<Self> {
        Arc::new(Self {
            cluster,
            mode: Mutex::new(Mode::Asks),
            authorizer: authorizer.clone(),
            reviews: AtomicU64::new(0),
            cached: Mutex::default(),
            config_map: Mutex::default(),
        })
    }

    fn set(&self, mode: Mode) {
        *self.mode.lock().expect("unpoisoned") = mode;
    }

    fn sent(&self) -> u64 {
        self.reviews.load(Ordering::Relaxed)
    }

    fn client(self: &Arc<Self>) -> Client {
        let api = self.clone();
        let service = tower::service_fn(move |request: Request<kube::client::Body>| {
            let api = api.clone();
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect().await.expect("a body").to_bytes();
                let body = serde_json::from_slice(&body).unwrap_or_default();
                let (code, answer) = if parts.uri.path().ends_with("/subjectaccessreviews") {
                    api.review(body).await
                } else {
                    api.config_map(&parts.method, body)
                };
                let answer = Full::from(answer.to_string());
                Ok::<_, Infallible>(
                    Response::builder().status(code).body(answer).expect("a response"),
                )
            }
        });
        Client::new(service, "default")
    }

    async fn review(&self, mut review: Value) -> (u16, Value) {
        self.reviews.fetch_add(1, Ordering::Relaxed);
        let mode = *self.mode.lock().expect("unpoisoned");
        let path = review["spec"]["nonResourceAttributes"]["path"].as_str().unwrap_or_default();
        let user = User {
            name: review["spec"]["user"].as_str().unwrap_or_default().to_owned(),
            ..User::default()
        };
        let reason = match mode {
            Mode::Asks => format!("RBAC: a role is missing\n{}", self.ask(&user, path)),
            Mode::Fails => {
                let status = json!({
                    "apiVersion": "v1", "kind": "Status", "status": "Failure", "code": 503,
                    "reason": "ServiceUnavailable", "message": "no",
                });
                return (503, status);
            }
            Mode::Hangs => return std::future::pending().await,
            Mode::AsksNobody => String::new(),
            Mode::Repeats => path.to_owned(),
            Mode::Caches => {
                let mut cached = self.cached.lock().expect("unpoisoned");
                cached.get_or_insert_with(|| self.ask(&user, path)).clone()
            }
        };
        review["status"] = json!({"allowed": false, "reason": reason});
        (201, review)
    }

    fn ask(&self, user: &User, path: &str) -> String {
        let request = Attributes::on_path(user, "get", path);
        let answer = self.authorizer.authorize(self.cluster, &request, at(0));
        crate::access::authorizer::fixture::reason(&answer).to_owned()
    }

    fn config_map(&self, method: &Method, body: Value) -> (u16, Value) {
        let mut stored = self.config_map.lock().expect("unpoisoned");
        if *method != Method::GET {
            *stored = Some(body);
        }
        let absent = json!({
            "apiVersion": "v1", "kind": "Status", "status": "Failure", "code": 404,
            "reason": "NotFound", "message": "no",
        });
        stored.clone().map_or((404, absent), |stored| (200, stored))
    }
}

struct World {
    fixture: Fixture,
    api: Arc<FakeApi>,
    clock: Arc<VirtualClock>,
    coverage: Arc<ClusterCoverage>,
    changes: Arc<AtomicU64>,
}

fn coverage_on(api: &Arc<FakeApi>, clock: &Arc<VirtualClock>) -> Arc<ClusterCoverage> {
    let tracker = Tracker::new(SignedDuration::from_secs(30), Arc::new(|_: &Key| {}));
    Arc::new(ClusterCoverage::new(api.client(), clock.clone(), tracker))
}

impl World {
    fn new() -> Self {
        Self::on(PolicyCache::of(Policy::default()))
    }

    fn on(policy: PolicyCache) -> Self {
        let fixture = Fixture::on(policy, options());
        fixture.put(&TestSession::approved("s"));
        let api = FakeApi::new(CLUSTER, &fixture.authorizer);
        let clock = Arc::new(VirtualClock::starting_at(at(0)));
        let coverage = coverage_on(&api, &clock);
        Self { fixture, api, clock, coverage, changes: Arc::default() }
    }

    /// A process that knows nothing takes over.
    async fn restarted(self) -> Self {
        let coverage = coverage_on(&self.api, &self.clock);
        coverage.restore(lag(INTERVAL)).await.expect("it is there");
        Self { coverage, ..self }
    }

    fn canary(&self) -> Canary {
        let changes = self.changes.clone();
        let client = self.api.client();
        Canary::new(CanarySetup {
            target: CanaryTarget {
                cluster: None,
                reviewer: Box::new(move || Ok(client.clone())),
                key: canary_key(),
                needed: Box::new(|sessions| sessions.total() > 0),
                coverage_registry: self.coverage.own().clone(),
            },
            clock: self.clock.clone(),
            authorizer: self.fixture.authorizer.clone(),
            coverage: self.coverage.clone(),
            interval: Arc::new(|| INTERVAL),
            changed: Arc::new(move |_| {
                changes.fetch_add(1, Ordering::Relaxed);
            }),
        })
    }

    /// Runs a canary until that second.
    async fn run_until(&self, canary: &Canary, second: i64) {
        let left = at(second).duration_since(self.clock.now()).unsigned_abs();
        let ended = tokio::time::timeout(left, canary.run()).await;
        assert!(ended.is_err(), "it runs for ever");
    }

    fn seen(&self) -> Coverage {
        self.coverage.own().read().coverage(SOURCE).clone()
    }

    fn observed(&self, from: i64, to: i64) -> i64 {
        self.seen().observed(at(from), at(to)).as_secs()
    }

    fn blind(&self) -> bool {
        self.seen().blind_since(self.clock.now()).is_some()
    }
}

#[tokio::test(start_paused = true)]
async fn time_between_canaries_that_come_back_is_observed_and_they_are_no_use() {
    let world = World::new();
    let canary = world.canary();
    world.run_until(&canary, 61).await;
    assert_eq!(world.api.sent(), 7);
    assert_eq!(world.observed(0, 60), 60);
    assert!(!world.blind());
    assert_eq!(world.coverage.own().read().trouble(SOURCE), None);
    assert_eq!(world.fixture.told.take_uses(), []);
    assert_eq!(world.fixture.authorizer.metrics().totals(), (0, 7));
}

#[tokio::test(start_paused = true)]
async fn an_interval_in_which_none_came_back_is_blind() {
    for mode in [Mode::Fails, Mode::Hangs, Mode::AsksNobody, Mode::Repeats, Mode::Caches] {
        let world = World::new();
        let canary = world.canary();
        let running = async {
            tokio::time::sleep(Duration::from_secs(35)).await;
            assert_eq!((world.observed(0, 30), world.blind()), (30, false), "{mode:?}");
            world.api.cached.lock().expect("unpoisoned").replace("sojourn: canary 1.x".to_owned());
            world.api.set(mode);
            tokio::time::sleep(Duration::from_secs(11)).await;
            assert!(world.blind(), "{mode:?}");
            assert!(world.coverage.own().read().trouble(SOURCE).is_some(), "{mode:?}");
            tokio::time::sleep(Duration::from_secs(49)).await;
            world.api.set(Mode::Asks);
            tokio::time::sleep(Duration::from_secs(60)).await;
        };
        tokio::select! {
            () = canary.run() => panic!("it runs for ever"),
            () = running => {}
        }
        assert!(!world.blind(), "{mode:?}");
        assert_eq!(world.observed(0, 30), 30, "{mode:?}");
        assert_eq!(world.observed(30, 95), 0, "{mode:?}");
        assert!(world.observed(95, 155) >= 30, "{mode:?}: {:?}", world.seen());
        // It was found to be blind at first, to see, to be blind, and to see.
        assert_eq!(world.changes.load(Ordering::Relaxed), 4, "{mode:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_is_lost_is_sent_again_before_anybody_is_told() {
    for (mode, seconds) in [(Mode::Fails, 0), (Mode::AsksNobody, 0), (Mode::Fails, 2)] {
        let world = World::new();
        let canary = world.canary();
        let running = async {
            tokio::time::sleep(Duration::from_millis(39_900)).await;
            world.api.set(mode);
            tokio::time::sleep(Duration::from_millis(200 + 1000 * seconds)).await;
            world.api.set(Mode::Asks);
            tokio::time::sleep(Duration::from_secs(20)).await;
        };
        tokio::select! {
            () = canary.run() => panic!("it runs for ever"),
            () = running => {}
        }
        // It was found to be blind at first, and to see.
        let told = 2 + if seconds == 0 { 0 } else { 2 };
        assert_eq!(world.changes.load(Ordering::Relaxed), told, "{mode:?} for {seconds} s");
        let blind = if seconds == 0 { 0 } else { 20 };
        assert_eq!(world.observed(0, 60), 60 - blind, "{mode:?}: {:?}", world.seen());
    }
}

#[tokio::test(start_paused = true)]
async fn a_restart_is_blind_for_as_long_as_nobody_was_there() {
    let world = World::new();
    let first = world.canary();
    world.run_until(&first, 61).await;
    world.coverage.store().await.expect("it is written down");
    drop(first);
    tokio::time::sleep(Duration::from_secs(100)).await;
    let next = world.restarted().await;
    let second = next.canary();
    next.run_until(&second, 200).await;
    assert_eq!(next.observed(0, 60), 60);
    assert_eq!(next.observed(60, 161), 0);
    assert_eq!(next.observed(161, 191), 30);
    assert!(!next.blind());
}

/// Without that, what is known would be as old as the last clean end.
#[tokio::test(start_paused = true)]
async fn what_was_observed_is_written_down_now_and_then() {
    let world = World::new();
    let canary = world.canary();
    world.run_until(&canary, 91).await;
    drop(canary);
    let next = world.restarted().await;
    assert!(next.observed(0, 91) >= 60, "{:?}", next.seen());
}

#[tokio::test(start_paused = true)]
async fn without_sessions_nothing_is_sent() {
    let world = World::new();
    let session = TestSession::approved("s");
    world.fixture.authorizer.upsert(&session.key, None);
    let canary = world.canary();
    let running = async {
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert_eq!(world.api.sent(), 0);
        // One that waits to be approved is enough: its time begins with the approval.
        let mut pending = session.clone();
        pending.state.state = Some(sojourn_core::access::session::State::Pending);
        world.fixture.put(&pending);
        tokio::time::sleep(Duration::from_secs(31)).await;
        assert_eq!(world.api.sent(), 4);
        assert_eq!(world.observed(3600, 3630), 30);
        world.fixture.authorizer.upsert(&session.key, None);
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert!(world.api.sent() <= 5);
    };
    tokio::select! {
        () = canary.run() => panic!("it runs for ever"),
        () = running => {}
    }
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_has_not_listed_everything_answers_no_canary() {
    let world = World::on(PolicyCache::default());
    let canary = world.canary();
    world.run_until(&canary, 31).await;
    assert!(world.blind());
    assert_eq!(world.observed(0, 31), 0);
    assert_eq!(
        world.coverage.own().read().trouble(SOURCE),
        Some(Lost::NotAsked.to_string().as_str())
    );
}

/// Two clusters, each with an API server of its own, and a third that cannot be asked.
struct Clustered {
    clusters: Clusters,
    fixture: Fixture,
    own: Arc<FakeApi>,
    stage: Arc<FakeApi>,
    clock: Arc<VirtualClock>,
}

impl Clustered {
    fn new() -> Self {
        let clusters = Clusters::new(PolicyCache::of(Policy::default()));
        let fixture = Fixture::among(clusters.clone(), options());
        let session = |name: &str, cluster: &str| {
            let mut session = TestSession::approved(name);
            session.session.cluster = cluster.to_owned();
            fixture.put(&session);
        };
        session("one", CLUSTER);
        session("two", "stage");
        session("three", "lost");
        let own = FakeApi::new(CLUSTER, &fixture.authorizer);
        let stage = FakeApi::new("stage", &fixture.authorizer);
        let clock = Arc::new(VirtualClock::starting_at(at(0)));
        let world = Self { clusters, fixture, own, stage, clock };
        let stage = world.stage.client();
        world.follow_stage(stage);
        world.clusters.add("lost", Err(ClusterProblem::NoSecret));
        world
    }

    fn follow_stage(&self, client: Client) {
        let policy = PolicyCache::of(Policy::default());
        self.clusters.add("stage", Ok(ReachedCluster { client, policy }));
    }

    fn senders(&self) -> CanarySenders {
        CanarySenders {
            client: self.own.client(),
            clock: self.clock.clone(),
            key: canary_key(),
            clusters: self.clusters.clone(),
            authorizer: self.fixture.authorizer.clone(),
            coverage: coverage_on(&self.own, &self.clock),
            interval: Arc::new(|| INTERVAL),
            changed: Arc::new(|_| {}),
        }
    }
}

fn observed_on(senders: &CanarySenders, cluster: &str, from: i64, to: i64) -> i64 {
    let seen = senders.coverage.read(cluster, cluster == CLUSTER);
    seen.coverage(SOURCE).observed(at(from), at(to)).as_secs()
}

#[tokio::test(start_paused = true)]
async fn each_cluster_is_seen_or_blind_by_itself() {
    let world = Clustered::new();
    let senders = world.senders();
    let blind = |cluster: &str| {
        let seen = senders.coverage.read(cluster, cluster == CLUSTER);
        seen.coverage(SOURCE).blind_since(world.clock.now()).is_some()
    };
    let steps = async {
        tokio::time::sleep(Duration::from_secs(61)).await;
        for cluster in [CLUSTER, "stage"] {
            assert_eq!((observed_on(&senders, cluster, 0, 60), blind(cluster)), (60, false));
        }
        assert!(blind("lost") && blind("elsewhere"));
        let why = senders.coverage.read("lost", false).trouble(SOURCE).map(str::to_owned);
        assert!(why.is_some_and(|why| why.contains("the Secret of its kubeconfig")));
        // Its API server asks nobody any more, and that is nothing to the other one.
        world.stage.set(Mode::AsksNobody);
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(blind("stage") && !blind(CLUSTER));
        world.stage.set(Mode::Asks);
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(!blind("stage"));
        // A client that leads to the API server of another cluster proves nothing.
        world.follow_stage(world.own.client());
        tokio::time::sleep(Duration::from_secs(30)).await;
        assert!(blind("stage") && !blind(CLUSTER));
    };
    tokio::select! {
        () = senders.run() => panic!("it runs for ever"),
        () = steps => {}
    }
    assert_eq!(observed_on(&senders, CLUSTER, 0, 210), 210);
    assert!(observed_on(&senders, "stage", 0, 210) <= 130);
    assert_eq!(observed_on(&senders, "elsewhere", 0, 210), 0);
}

#[tokio::test(start_paused = true)]
async fn what_was_seen_on_each_cluster_is_where_the_next_leader_begins() {
    let world = Clustered::new();
    let first = world.senders();
    let ended = tokio::time::timeout(Duration::from_secs(61), first.run()).await;
    assert!(ended.is_err(), "it runs for ever");
    first.coverage.store().await.expect("it is written down");
    let stored = world.own.config_map.lock().expect("unpoisoned").clone().expect("it is there");
    let text = stored["data"]["coverage.json"].as_str().expect("a text").to_owned();
    let stored: Value = serde_json::from_str(&text).expect("a list");
    let names = stored.as_array().expect("a list").iter().map(|one| one["source"].clone());
    // Our own cluster has the name that it always had.
    let expected = [json!("authorizer"), json!("authorizer/lost"), json!("authorizer/stage")];
    assert_eq!(names.collect::<Vec<_>>(), expected);
    // One that does not know yet which clusters there are forgets none.
    let second = Clustered { clusters: Clusters::new(PolicyCache::default()), ..world };
    let senders = second.senders();
    let _ = tokio::time::timeout(Duration::from_secs(5), senders.run()).await;
    assert_eq!(observed_on(&senders, CLUSTER, 0, 60), 60);
    assert_eq!(observed_on(&senders, "stage", 0, 60), 60);
    // And one that is not configured any more is forgotten.
    second.clusters.set(BTreeMap::new());
    let _ = tokio::time::timeout(Duration::from_secs(5), senders.run()).await;
    assert_eq!(observed_on(&senders, CLUSTER, 0, 60), 60);
    assert_eq!(observed_on(&senders, "stage", 0, 60), 0);
}

#[tokio::test(start_paused = true)]
async fn a_further_cluster_without_sessions_is_not_asked() {
    let world = Clustered::new();
    world.fixture.authorizer.upsert(&Key::new("team", "two"), None);
    let senders = world.senders();
    let _ = tokio::time::timeout(Duration::from_secs(61), senders.run()).await;
    assert_eq!((world.own.sent(), world.stage.sent()), (7, 0));
}

#[test]
fn nothing_of_the_key_is_shown() {
    let shown = format!("{:?}", CanaryKey::of(&[7; 32]));
    assert_eq!(shown, "CanaryKey");
    let paths: BTreeMap<_, _> =
        (0..100).map(|count| (canary_key().path(&count.to_string()), count)).collect();
    assert_eq!(paths.len(), 100);
}
