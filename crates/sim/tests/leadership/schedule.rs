//! Many things go wrong, in any order.

use std::time::Duration;

use jiff::SignedDuration;
use proptest::prelude::*;
use serde_json::{Value, json};
use sojourn_operator::leadership::{LEASE_DURATION, RENEW_DEADLINE};

use crate::fixture::Fixture;
use crate::network::NetworkState;

const REPLICAS: usize = 3;
/// What is on its way for longer may arrive when another acts.
const SLOWEST: u64 = (LEASE_DURATION.as_secs() - RENEW_DEADLINE.as_secs()) * 1000 - 1;
/// The longest that a lease may be, and then some.
const RECOVERY: Duration = Duration::from_secs(360);

#[derive(Debug, Clone)]
enum Happening {
    NetworkState(usize, NetworkState),
    Kill(usize),
    Stop(usize),
    Start(usize),
    Clock(usize, i64),
    Edit(Value),
    Delete,
}

fn state() -> impl Strategy<Value = NetworkState> {
    let slow = (0..=SLOWEST, 0_u64..8000).prop_map(|(there, back)| NetworkState::Slow {
        there: Duration::from_millis(there),
        back: Duration::from_millis(back),
    });
    prop_oneof![
        3 => Just(NetworkState::Healthy),
        2 => Just(NetworkState::Cut),
        2 => Just(NetworkState::Silent),
        1 => Just(NetworkState::AnswersLost),
        3 => slow,
    ]
}

fn edit() -> impl Strategy<Value = Value> {
    let holder = prop_oneof![
        Just(Value::Null),
        (0..REPLICAS).prop_map(|number| json!(format!("replica-{number}"))),
        Just(json!("somebody")),
    ];
    let duration = prop_oneof![Just(Value::Null), any::<i32>().prop_map(|seconds| json!(seconds))];
    let time =
        prop_oneof![Just("1970-01-01T00:00:00.000000Z"), Just("2999-01-01T00:00:00.000000Z")];
    prop_oneof![
        holder.prop_map(|holder| json!({"spec": {"holderIdentity": holder}})),
        duration.prop_map(|seconds| json!({"spec": {"leaseDurationSeconds": seconds}})),
        time.prop_map(|time| json!({"spec": {"renewTime": time}})),
        Just(json!({"spec": null})),
        Just(json!({"metadata": {"labels": {"a": "b"}}})),
    ]
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        6 => (0..REPLICAS, state()).prop_map(|(number, state)| Happening::NetworkState(number, state)),
        2 => (0..REPLICAS).prop_map(Happening::Kill),
        2 => (0..REPLICAS).prop_map(Happening::Stop),
        4 => (0..REPLICAS).prop_map(Happening::Start),
        1 => (0..REPLICAS, -100_000_i64..100_000).prop_map(|(number, by)| Happening::Clock(number, by)),
        1 => edit().prop_map(Happening::Edit),
        1 => Just(Happening::Delete),
    ]
}

async fn happen(fixture: &mut Fixture, what: &Happening) {
    match what {
        Happening::NetworkState(number, state) => fixture.replicas[*number].connection.set(*state),
        Happening::Kill(number) => fixture.replicas[*number].kill(),
        Happening::Stop(number) => fixture.replicas[*number].stop().await,
        Happening::Start(number) => {
            fixture.replicas[*number].connection.set(NetworkState::Healthy);
            fixture.start(*number);
        }
        Happening::Clock(number, by) => {
            fixture.replicas[*number].clock.shift(SignedDuration::from_secs(*by));
        }
        Happening::Edit(change) => fixture.edit(change).await,
        Happening::Delete => fixture.delete_lease().await,
    }
}

async fn run(schedule: &[(u64, Happening)]) {
    let mut fixture = Fixture::new(REPLICAS).await;
    fixture.start_all();
    for (wait, what) in schedule {
        tokio::time::sleep(Duration::from_millis(*wait)).await;
        happen(&mut fixture, what).await;
    }
    for number in 0..REPLICAS {
        happen(&mut fixture, &Happening::Start(number)).await;
    }
    fixture.leader_within(RECOVERY, None).await;
    tokio::time::sleep(2 * LEASE_DURATION).await;
    assert!(fixture.leader().is_some(), "it does not last: {:?}", fixture.lease().await);
    fixture.assert_one_at_a_time();
}

/// More of them with `PROPTEST_CASES`.
fn config() -> ProptestConfig {
    let config = ProptestConfig::default();
    let asked = std::env::var_os("PROPTEST_CASES").is_some();
    if asked { config } else { ProptestConfig { cases: 24, ..config } }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn never_do_two_act_and_in_the_end_one_does(
        schedule in prop::collection::vec((0_u64..20_000, happening()), 1..30)
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .expect("a runtime");
        runtime.block_on(run(&schedule));
    }
}
