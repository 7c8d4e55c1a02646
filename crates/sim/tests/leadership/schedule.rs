//! Many things go wrong, in any order.

use std::time::Duration;

use jiff::SignedDuration;
use proptest::prelude::*;
use serde_json::{Value, json};
use sojourn_operator::leadership::{LEASE_DURATION, RENEW_DEADLINE};

use crate::fixture::Fixture;
use crate::network::Weather;

const REPLICAS: usize = 3;
/// What is on its way for longer may arrive when another acts.
const SLOWEST: u64 = (LEASE_DURATION.as_secs() - RENEW_DEADLINE.as_secs()) * 1000 - 1;
/// The longest that a lease may be, and then some.
const RECOVERY: Duration = Duration::from_secs(360);

#[derive(Debug, Clone)]
enum Happening {
    Weather(usize, Weather),
    Kill(usize),
    Stop(usize),
    Start(usize),
    Clock(usize, i64),
    Edit(Value),
    Delete,
}

fn weather() -> impl Strategy<Value = Weather> {
    let slow = (0..=SLOWEST, 0_u64..8000).prop_map(|(there, back)| Weather::Slow {
        there: Duration::from_millis(there),
        back: Duration::from_millis(back),
    });
    prop_oneof![
        3 => Just(Weather::Fair),
        2 => Just(Weather::Cut),
        2 => Just(Weather::Silent),
        1 => Just(Weather::Deaf),
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
        6 => (0..REPLICAS, weather()).prop_map(|(number, weather)| Happening::Weather(number, weather)),
        2 => (0..REPLICAS).prop_map(Happening::Kill),
        2 => (0..REPLICAS).prop_map(Happening::Stop),
        4 => (0..REPLICAS).prop_map(Happening::Start),
        1 => (0..REPLICAS, -100_000_i64..100_000).prop_map(|(number, by)| Happening::Clock(number, by)),
        1 => edit().prop_map(Happening::Edit),
        1 => Just(Happening::Delete),
    ]
}

async fn happen(stage: &mut Fixture, what: &Happening) {
    match what {
        Happening::Weather(number, weather) => stage.replicas[*number].wire.set(*weather),
        Happening::Kill(number) => stage.replicas[*number].kill(),
        Happening::Stop(number) => stage.replicas[*number].stop().await,
        Happening::Start(number) => {
            stage.replicas[*number].wire.set(Weather::Fair);
            stage.start(*number);
        }
        Happening::Clock(number, by) => {
            stage.replicas[*number].clock.shift(SignedDuration::from_secs(*by));
        }
        Happening::Edit(change) => stage.edit(change).await,
        Happening::Delete => stage.delete_lease().await,
    }
}

async fn run(schedule: &[(u64, Happening)]) {
    let mut stage = Fixture::new(REPLICAS).await;
    stage.start_all();
    for (wait, what) in schedule {
        tokio::time::sleep(Duration::from_millis(*wait)).await;
        happen(&mut stage, what).await;
    }
    for number in 0..REPLICAS {
        happen(&mut stage, &Happening::Start(number)).await;
    }
    stage.leader_within(RECOVERY, None).await;
    tokio::time::sleep(2 * LEASE_DURATION).await;
    assert!(stage.leader().is_some(), "it does not last: {:?}", stage.lease().await);
    stage.assert_one_at_a_time();
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
