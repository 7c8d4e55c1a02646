use sojourn_core::access::session::State;
use sojourn_core::term::Term;
use sojourn_rbac::{Attributes, Policy};

use super::fixture::{
    CLUSTER, Fixture, TestSession, allowed, at, canary_key, issuers, options, policy, reason,
    user_named,
};
use super::*;

fn with_session(session: &TestSession) -> Fixture {
    let fixture = Fixture::new(options(), &["ops"]);
    fixture.put(session);
    fixture
}

// case: access 52, 66, 67
#[test]
fn an_approved_session_allows_what_its_group_may_and_the_use_is_its_own() {
    let session = TestSession::approved("s");
    let fixture = with_session(&session);
    let answer = fixture.list_pods("alice", 61);
    assert_eq!(
        answer,
        Answer::Allowed {
            reason: "sojourn: allowed by BreakglassSession team/s (uid uid-s)".to_owned(),
            // The first use is on record before it is answered.
            near_deadline: vec![Key::new("team", "s")],
        }
    );
    let uses = fixture.told.take_uses();
    assert_eq!(uses, [("s".to_owned(), "uid-s".to_owned(), at(61))]);
    // What is written when it is flushed.
    let usage = session.usage.with_report("r1", uses[0].2, uses[0].2, 1);
    assert_eq!((usage.last, usage.count), (Some(at(61)), 1));

    // What the group may not do, and other people, are refused, and nothing is recorded.
    let alice = user_named("alice");
    let delete = Attributes::on_resource(&alice, "delete", "", "pods");
    let refused = fixture.authorizer.authorize(CLUSTER, &delete, at(62));
    assert!(!allowed(&refused));
    let why = "sojourn: BreakglassSession team/s (uid uid-s) does not allow this";
    assert_eq!(reason(&refused), why);
    assert_eq!(fixture.list_pods("bob", 62), Answer::no_opinion(""));
    assert_eq!(fixture.told.take_uses(), []);
    assert_eq!(fixture.authorizer.metrics().totals(), (1, 2));
}

// case: access 54, 56
#[test]
fn a_session_in_any_other_state_allows_nothing() {
    for state in State::ALL.into_iter().filter(|state| *state != State::Approved) {
        let mut session = TestSession::approved("s");
        let fixture = with_session(&session);
        assert!(allowed(&fixture.list_pods("alice", 60)));
        session.state.state = Some(state);
        fixture.put(&session);
        assert_eq!(session.state.expires_at, Some(at(3600)), "its end is ahead");
        assert!(!allowed(&fixture.list_pods("alice", 61)), "{state:?}");
    }
    let mut session = TestSession::approved("s");
    session.state.state = None;
    assert!(!allowed(&with_session(&session).list_pods("alice", 60)));
    session.state.state = Some(State::Approved);
    session.session.deleting = true;
    assert!(!allowed(&with_session(&session).list_pods("alice", 60)), "somebody deletes it");
}

// case: access 55
#[test]
fn a_session_allows_nothing_from_the_instant_of_its_expiry() {
    let mut session = TestSession::approved("s");
    session.session.terms.idle_timeout = Term::Never;
    session.state.idle_deadline = None;
    let fixture = with_session(&session);
    assert!(allowed(&fixture.list_pods("alice", 3599)));
    let answer = fixture.list_pods("alice", 3600);
    assert!(!allowed(&answer), "the state still says Approved");
    assert_eq!(reason(&answer), "sojourn: BreakglassSession team/s (uid uid-s) has ended");
}

// case: access 101
#[test]
fn a_session_allows_nothing_from_the_instant_of_its_idle_deadline() {
    let fixture = with_session(&TestSession::approved("s"));
    assert!(!allowed(&fixture.list_pods("alice", 600)), "nobody has written that it ended");
    assert!(allowed(&fixture.list_pods("alice", 599)));
    // That use moves the deadline here at once, though nobody has written it.
    assert!(allowed(&fixture.list_pods("alice", 1198)));
    assert!(!allowed(&fixture.list_pods("alice", 1798)));
}

#[test]
fn use_that_another_replica_wrote_counts_and_an_older_one_takes_nothing_back() {
    let mut session = TestSession::approved("s");
    let fixture = with_session(&session);
    session.usage = session.usage.with_report("other", at(500), at(500), 1);
    fixture.put(&session);
    assert!(allowed(&fixture.list_pods("alice", 1000)), "this replica uses it at 1000");
    session.usage = session.usage.with_report("other", at(550), at(550), 1);
    fixture.put(&session);
    assert!(allowed(&fixture.list_pods("alice", 1599)), "its own use still counts");
    // A session of that name that is another one begins without use.
    let mut recreated = TestSession::approved("s");
    recreated.session.uid = "uid-other".to_owned();
    fixture.put(&recreated);
    assert!(!allowed(&fixture.list_pods("alice", 1600)));
}

#[test]
fn a_session_that_is_gone_or_of_somebody_else_now_allows_nothing() {
    let mut session = TestSession::approved("s");
    let fixture = with_session(&session);
    session.session.user = "bob".to_owned();
    fixture.put(&session);
    assert!(!allowed(&fixture.list_pods("alice", 60)));
    assert!(allowed(&fixture.list_pods("bob", 60)));
    fixture.authorizer.upsert(&session.key, None);
    assert!(!allowed(&fixture.list_pods("bob", 61)));
    assert_eq!(fixture.authorizer.unfinished_sessions().borrow().total(), 0);
}

// case: access 60
#[test]
fn a_path_is_judged_by_the_group() {
    let fixture = with_session(&TestSession::approved("s"));
    let alice = user_named("alice");
    let ask = |path| {
        let request = Attributes::on_path(&alice, "get", path);
        allowed(&fixture.authorizer.authorize(CLUSTER, &request, at(60)))
    };
    assert!(ask("/metrics"));
    assert!(!ask("/logs"));
    assert_eq!(fixture.told.take_uses().len(), 1);
}

// case: access 64
#[test]
fn a_pinned_session_needs_exactly_its_issuer() {
    let mut session = TestSession::approved("s");
    session.session.issuer = Some("https://a.example".to_owned());
    let fixture = with_session(&session);
    let of = |extra| sojourn_rbac::User { extra, ..user_named("alice") };
    let cases = [
        (issuers(&["https://a.example"]), true),
        (std::collections::BTreeMap::new(), false),
        (issuers(&[]), false),
        (issuers(&["https://b.example"]), false),
        // Whoever adds the right one to a wrong one has no issuer.
        (issuers(&["https://b.example", "https://a.example"]), false),
        ([("other/issuer".to_owned(), vec!["https://a.example".to_owned()])].into(), false),
    ];
    for (extra, expected) in cases {
        let answer = fixture.list_pods_of(&of(extra.clone()), 60);
        assert_eq!(allowed(&answer), expected, "{extra:?}");
        if !expected {
            assert_eq!(reason(&answer), "", "nothing is told of a session that is not theirs");
        }
    }
    // Where no key is configured, nothing vouches for anybody.
    fixture.authorizer.set_options(AuthorizerOptions { issuer: None, ..options() });
    assert!(!allowed(&fixture.list_pods_of(&of(issuers(&["https://a.example"])), 60)));
}

// case: access 65
#[test]
fn a_binding_may_name_the_group_with_a_prefix() {
    let prefixes = |prefixes: &[&str]| AuthorizerOptions {
        group_prefixes: prefixes.iter().map(|&prefix| prefix.to_owned()).collect(),
        ..options()
    };
    let fixture = Fixture::new(prefixes(&["oidc:"]), &["oidc:ops"]);
    fixture.put(&TestSession::approved("s"));
    assert!(allowed(&fixture.list_pods("alice", 60)));
    // Another configuration reaches sessions that are there, and the use stays theirs.
    fixture.authorizer.set_options(prefixes(&["ldap:"]));
    assert!(!allowed(&fixture.list_pods("alice", 61)));
    fixture.authorizer.set_options(prefixes(&["ldap:", "oidc:"]));
    assert!(allowed(&fixture.list_pods("alice", 659)), "the use at 60 counts");
}

// case: access 102
#[test]
fn all_sessions_that_allow_a_request_stay_fresh_or_the_first_does() {
    let mut sessions: Vec<_> = ["b", "a", "c"].map(TestSession::approved).into();
    sessions[2].state.activated_at = Some(at(-5));
    let mut other = TestSession::approved("other");
    other.session.granted_group = "unbound".to_owned();
    sessions.push(other);
    let names = |fixture: &Fixture| -> Vec<String> {
        fixture.told.take_uses().into_iter().map(|(name, ..)| name).collect()
    };

    let all = Fixture::new(options(), &["ops"]);
    sessions.iter().for_each(|session| all.put(session));
    for second in [100, 500, 1000] {
        let answer = all.list_pods("alice", second);
        assert_eq!(
            reason(&answer),
            "sojourn: allowed by BreakglassSession team/c (uid uid-c), BreakglassSession team/a \
             (uid uid-a), BreakglassSession team/b (uid uid-b)"
        );
        assert_eq!(names(&all), ["c", "a", "b"]);
    }

    let first = AuthorizerOptions { attribution: Attribution::First, ..options() };
    let first = Fixture::new(first, &["ops"]);
    sessions.iter().rev().for_each(|session| first.put(session));
    for second in [100, 500, 1000] {
        assert!(allowed(&first.list_pods("alice", second)));
        assert_eq!(names(&first), ["c"], "the oldest activation");
    }
    // The others were not used for ten minutes, and have ended.
    first.authorizer.upsert(&sessions[2].key, None);
    assert!(!allowed(&first.list_pods("alice", 1001)));
    let of_two = AuthorizerOptions { attribution: Attribution::First, ..options() };
    let of_two = Fixture::new(of_two, &["ops"]);
    sessions[..2].iter().for_each(|session| of_two.put(session));
    assert!(allowed(&of_two.list_pods("alice", 100)));
    assert_eq!(names(&of_two), ["a"], "of two at the same time, the lesser uid");
}

#[test]
fn a_session_of_another_cluster_allows_nothing_and_callers_of_others_get_no_opinion() {
    let mut session = TestSession::approved("s");
    let fixture = with_session(&session);
    let alice = user_named("alice");
    let request = Attributes::on_resource(&alice, "list", "", "pods");
    for cluster in ["stage", "", "PROD"] {
        let answer = fixture.authorizer.authorize(cluster, &request, at(60));
        assert_eq!(answer, Answer::no_opinion(""), "{cluster}");
    }
    session.session.cluster = "stage".to_owned();
    fixture.put(&session);
    assert_eq!(fixture.list_pods("alice", 60), Answer::no_opinion(""));
    let answer = fixture.authorizer.authorize("stage", &request, at(60));
    assert_eq!(answer, Answer::no_opinion(""), "its roles and bindings are not watched");
    assert_eq!(fixture.told.take_uses(), []);
}

/// Clusters beside `prod`, on which `dev` may list Pods: on `stage` it is `ops`, `late` has not been listed yet, and
/// `lost` cannot be reached.
fn several_clusters() -> Fixture {
    use crate::access::cluster::{ClusterProblem, ReachedCluster};

    let clusters = Clusters::new(PolicyCache::of(policy(&["dev"])));
    let nobody = tower::service_fn(|_: http::Request<kube::client::Body>| async {
        Err::<http::Response<kube::client::Body>, _>(std::io::Error::other("nobody is there"))
    });
    let client = kube::Client::new(nobody, "default");
    let reached = |policy| Ok(ReachedCluster { client: client.clone(), policy });
    clusters.add("stage", reached(PolicyCache::of(policy(&["ops"]))));
    clusters.add("late", reached(PolicyCache::default()));
    clusters.add("lost", Err(ClusterProblem::NoSecret));
    Fixture::among(clusters, options())
}

#[tokio::test]
async fn each_cluster_is_answered_by_its_own_bindings() {
    let fixture = several_clusters();
    let alice = user_named("alice");
    let request = Attributes::on_resource(&alice, "list", "", "pods");
    let ask = |cluster: &str| fixture.authorizer.authorize(cluster, &request, at(60));
    // A session on prod for a group that only the bindings of stage allow anything.
    fixture.put(&TestSession::approved("on-prod"));
    let why = "sojourn: BreakglassSession team/on-prod (uid uid-on-prod) does not allow this";
    assert_eq!(ask(CLUSTER), Answer::no_opinion(why));
    assert_eq!(ask("stage"), Answer::no_opinion(""), "it is not for this cluster");
    let mut session = TestSession::approved("on-stage");
    session.session.cluster = "stage".to_owned();
    fixture.put(&session);
    assert_eq!(ask(CLUSTER), Answer::no_opinion(why), "neither is that for prod");
    assert!(allowed(&ask("stage")));
    let uses = fixture.told.take_uses();
    assert_eq!(uses, [("on-stage".to_owned(), "uid-on-stage".to_owned(), at(60))]);
    // The other way round.
    session.session.granted_group = "dev".to_owned();
    fixture.put(&session);
    assert!(!allowed(&ask("stage")), "prod's bindings are not looked at");
    // Another name of our own cluster is answered by our own bindings, for sessions under that name.
    let mut session = TestSession::approved("at-home");
    session.session.cluster = "home".to_owned();
    session.session.granted_group = "dev".to_owned();
    assert!(!allowed(&ask("home")));
    fixture.put(&session);
    assert!(allowed(&ask("home")));
    fixture.authorizer.upsert(&session.key, None);
    let counts = fixture.authorizer.unfinished_sessions().borrow().clone();
    assert_eq!((counts.of(CLUSTER), counts.of("stage"), counts.total()), (1, 1, 2));
}

#[tokio::test]
async fn there_is_no_opinion_on_a_cluster_of_which_nothing_is_known() {
    let fixture = several_clusters();
    let alice = user_named("alice");
    let request = Attributes::on_resource(&alice, "list", "", "pods");
    for (cluster, group, why) in [
        ("late", "ops", "sojourn: roles and bindings have not been listed yet"),
        (
            "lost",
            "dev",
            "sojourn: nothing is known of cluster lost: the Secret of its kubeconfig is not there, or \
             does not have that key",
        ),
    ] {
        let mut session = TestSession::approved(cluster);
        session.session.cluster = cluster.to_owned();
        session.session.granted_group = group.to_owned();
        fixture.put(&session);
        let answer = fixture.authorizer.authorize(cluster, &request, at(60));
        assert_eq!(answer, Answer::no_opinion(why));
    }
    assert_eq!(fixture.told.take_uses(), []);
}

#[tokio::test]
async fn a_canary_comes_back_from_the_cluster_that_it_was_sent_to_alone() {
    let fixture = several_clusters();
    let user = user_named(canary::USER);
    let answered = |key: &CanaryKey| {
        let path = key.path("nonce");
        let request = Attributes::on_path(&user, "get", &path);
        let answers = |cluster: &&str| {
            let answer = fixture.authorizer.authorize(cluster, &request, at(0));
            assert!(!allowed(&answer));
            reason(&answer) == key.answer(&path).expect("it is ours")
        };
        [CLUSTER, "stage", "late", "lost", "other"].into_iter().filter(answers).collect::<Vec<_>>()
    };
    assert_eq!(answered(&canary_key()), [CLUSTER]);
    assert_eq!(answered(&canary_key().of_cluster("stage")), ["stage"]);
    for unseen in ["late", "lost", "other", CLUSTER] {
        assert!(answered(&canary_key().of_cluster(unseen)).is_empty(), "{unseen}");
    }
}

/// Whoever asks may put anything into a review; only what is stored grants.
#[test]
fn groups_of_the_request_grant_nothing() {
    let fixture = Fixture::new(options(), &["ops", "system:masters"]);
    let mut session = TestSession::approved("s");
    session.session.granted_group = "unbound".to_owned();
    fixture.put(&session);
    let forged = sojourn_rbac::User {
        groups: vec!["ops".to_owned(), "system:masters".to_owned()],
        ..user_named("alice")
    };
    assert!(!allowed(&fixture.list_pods_of(&forged, 60)));
    let named = user_named("sojourn:session:uid-s");
    assert!(!allowed(&fixture.list_pods_of(&named, 60)));
}

#[test]
fn before_roles_and_bindings_are_listed_there_is_no_opinion() {
    let fixture = Fixture::on(PolicyCache::default(), options());
    fixture.put(&TestSession::approved("s"));
    let answer = fixture.list_pods("alice", 60);
    assert!(!allowed(&answer));
    assert_eq!(reason(&answer), "sojourn: roles and bindings have not been listed yet");
}

#[test]
fn discovery_and_self_reviews_are_allowed_without_being_use() {
    let fixture = with_session(&TestSession::approved("s"));
    let alice = user_named("alice");
    let discovery = Attributes::on_path(&alice, "get", "/api/v1");
    let review = Attributes::on_resource(
        &alice,
        "create",
        "authorization.k8s.io",
        "selfsubjectaccessreviews",
    );
    let list = Attributes::on_resource(&alice, "list", "", "pods");
    let ask_all = |second| {
        assert!(allowed(&fixture.authorizer.authorize(CLUSTER, &discovery, at(second))));
        assert!(allowed(&fixture.authorizer.authorize(CLUSTER, &review, at(second))));
        assert!(allowed(&fixture.authorizer.self_review(CLUSTER, &list, at(second))));
        fixture.told.take_uses().len()
    };
    assert_eq!(ask_all(599), 0);
    assert!(!allowed(&fixture.authorizer.authorize(CLUSTER, &discovery, at(600))));
    fixture.put(&TestSession::approved("s"));
    let counting =
        AuthorizerOptions { discovery_counts: true, self_reviews_count: true, ..options() };
    fixture.authorizer.set_options(counting);
    assert_eq!(ask_all(599), 3);
}

#[test]
fn use_near_the_stored_deadline_is_to_be_stored_first() {
    let near = |fixture: &Fixture, second| match fixture.list_pods("alice", second) {
        Answer::Allowed { near_deadline, .. } => near_deadline.len(),
        Answer::NoOpinion { reason } => panic!("{reason}"),
    };
    let mut session = TestSession::approved("s");
    assert_eq!(near(&with_session(&session), 61), 1, "nothing is on record yet");
    // A tenth of ten minutes.
    session.usage = session.usage.with_report("r1", at(0), at(0), 1);
    let fixture = with_session(&session);
    assert_eq!(near(&fixture, 539), 0);
    assert_eq!(near(&fixture, 540), 1);
    // Stored, the deadline is far away again, whether or not the controller has written it.
    session.usage = session.usage.with_report("r1", at(540), at(540), 1);
    fixture.put(&session);
    assert_eq!(near(&fixture, 600), 0);
    // Half a minute at least. A deadline that is stored for another span does not put it off.
    session.session.terms.idle_timeout = Term::Span(jiff::SignedDuration::from_mins(1));
    session.state.idle_deadline = Some(at(3000));
    let short = with_session(&session);
    assert_eq!(near(&short, 569), 0);
    assert_eq!(near(&short, 570), 1);
    // Nobody ends a session that is never idle.
    session.session.terms.idle_timeout = Term::Never;
    session.state.idle_deadline = None;
    assert_eq!(near(&with_session(&session), 3599), 0);
}

#[tokio::test(start_paused = true)]
async fn storing_takes_a_second_at_most() {
    let mut fixture = Fixture::new(options(), &[]);
    let keys = vec![Key::new("team", "a"), Key::new("team", "b")];
    fixture.authorizer.stored(keys.clone()).await;
    assert_eq!(fixture.told.take_stored(), keys);
    let hooks = Hooks {
        store_now: Arc::new(|_| std::future::pending().boxed()),
        ..fixture.authorizer.0.hooks.clone()
    };
    fixture.authorizer = AccessAuthorizer::new(
        Clusters::new(PolicyCache::of(Policy::default())),
        canary_key(),
        options(),
        hooks,
        fixture.authorizer.metrics().clone(),
    );
    let started = tokio::time::Instant::now();
    fixture.authorizer.stored(keys).await;
    assert_eq!(started.elapsed(), STORE_TIMEOUT);
}

/// Decisions go on while sessions and roles change, on other threads.
#[test]
fn decisions_and_changes_at_the_same_time_lose_no_use() {
    const ROUNDS: usize = 2_000;
    let fixture = Fixture::on(PolicyCache::of(policy(&["ops"])), options());
    let session = TestSession::approved("s");
    fixture.put(&session);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..ROUNDS {
                fixture.put(&session);
            }
        });
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..ROUNDS {
                    assert!(allowed(&fixture.list_pods("alice", 60)));
                }
            });
        }
    });
    assert_eq!(fixture.told.take_uses().len(), 2 * ROUNDS);
    assert!(allowed(&fixture.list_pods("alice", 659)), "the last use is remembered");
}
