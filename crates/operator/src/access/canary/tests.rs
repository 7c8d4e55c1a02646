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
use crate::access::policy::PolicyCache;
use crate::clock::VirtualClock;

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
    mode: Mutex<Mode>,
    authorizer: AccessAuthorizer,
    reviews: AtomicU64,
    cached: Mutex<Option<String>>,
    config_map: Mutex<Option<Value>>,
}

impl FakeApi {
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
        let answer = self.authorizer.authorize(CLUSTER, &request, at(0));
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
    registry: Arc<CoverageRegistry>,
    changes: Arc<AtomicU64>,
}

impl World {
    fn new() -> Self {
        Self::on(PolicyCache::of(Policy::default()))
    }

    fn on(policy: PolicyCache) -> Self {
        let fixture = Fixture::on(policy, options());
        fixture.put(&TestSession::approved("s"));
        let api = Arc::new(FakeApi {
            mode: Mutex::new(Mode::Asks),
            authorizer: fixture.authorizer.clone(),
            reviews: AtomicU64::new(0),
            cached: Mutex::default(),
            config_map: Mutex::default(),
        });
        let clock = Arc::new(VirtualClock::starting_at(at(0)));
        Self { fixture, api, clock, registry: Arc::default(), changes: Arc::default() }
    }

    fn canary(&self) -> Canary {
        let changes = self.changes.clone();
        Canary::new(CanarySetup {
            client: self.api.client(),
            clock: self.clock.clone(),
            key: canary_key(),
            authorizer: self.fixture.authorizer.clone(),
            coverage_registry: self.registry.clone(),
            tracker: Tracker::new(SignedDuration::from_secs(30), Arc::new(|_: &Key| {})),
            interval: Box::new(|| INTERVAL),
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

    fn coverage(&self) -> Coverage {
        self.registry.read().coverage(SOURCE).clone()
    }

    fn observed(&self, from: i64, to: i64) -> i64 {
        self.coverage().observed(at(from), at(to)).as_secs()
    }

    fn blind(&self) -> bool {
        self.coverage().blind_since(self.clock.now()).is_some()
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
    assert_eq!(world.registry.read().trouble(SOURCE), None);
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
            assert!(world.registry.read().trouble(SOURCE).is_some(), "{mode:?}");
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
        assert!(world.observed(95, 155) >= 30, "{mode:?}: {:?}", world.coverage());
        // It was found to be blind at first, to see, to be blind, and to see.
        assert_eq!(world.changes.load(Ordering::Relaxed), 4, "{mode:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_restart_is_blind_for_as_long_as_nobody_was_there() {
    let world = World::new();
    let first = world.canary();
    world.run_until(&first, 61).await;
    first.store().await.expect("it is written down");
    drop(first);
    tokio::time::sleep(Duration::from_secs(100)).await;
    // A process that knows nothing.
    let next = World { registry: Arc::default(), ..world };
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
    let next = World { registry: Arc::default(), ..world };
    next.canary().restore().await.expect("it is there");
    assert!(next.observed(0, 91) >= 60, "{:?}", next.coverage());
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
    assert_eq!(world.registry.read().trouble(SOURCE), Some(Lost::NotAsked.to_string().as_str()));
}

#[test]
fn nothing_of_the_key_is_shown() {
    let shown = format!("{:?}", CanaryKey::of(&[7; 32]));
    assert_eq!(shown, "CanaryKey");
    let paths: BTreeMap<_, _> =
        (0..100).map(|count| (canary_key().path(&count.to_string()), count)).collect();
    assert_eq!(paths.len(), 100);
}
