//! Whatever fails, it is tried again, and nothing is forgotten.

use serde_json::json;
use sojourn_api::cluster::status::{ErrorClass, Trigger};
use sojourn_core::cluster::MachineState;
use sojourn_drivers::actuator::ActuatorError;
use sojourn_drivers::actuator::fake::{Operation, Script};

use crate::fixture::{
    Failing, HOUR, MINUTE, Program, SECOND, Stage, condition, is_hibernating, is_running, says,
    status,
};

/// So many requests a whole story has at most.
const MAX_REQUESTS: u64 = 60;

#[tokio::test(start_paused = true)]
async fn any_single_request_to_the_provider_may_fail() {
    for how in [Failing::Before, Failing::After] {
        let mut failed = 0;
        for request in 1..=MAX_REQUESTS {
            let mut stage = Stage::new().await;
            stage.make("blue", 3, json!({})).await;
            stage.world.fail(request, how);
            stage.want("blue", "Hibernating").await;
            stage.until_hibernating("blue").await;
            let machines = stage.machines("blue").await;
            let off = machines.values().all(|state| *state == MachineState::Stopped);
            assert!(off, "request {request}, {how:?}: {machines:?}");
            stage.want("blue", "Running").await;
            stage.until_running("blue").await;
            let machines = stage.machines("blue").await;
            let on = machines.values().all(|state| *state == MachineState::Running);
            assert!(on && machines.len() == 3, "request {request}, {how:?}: {machines:?}");
            if stage.world.failure_is_pending() {
                break;
            }
            failed += 1;
        }
        assert!(failed >= 10, "only {failed} requests failed");
        assert!(failed < MAX_REQUESTS, "there are more requests than {MAX_REQUESTS}");
    }
}

// case: cluster S22
#[tokio::test(start_paused = true)]
async fn a_stop_that_fails_is_said_and_tried_again_ever_later() {
    let mut stage = Stage::new().await;
    stage.make("blue", 2, json!({})).await;
    stage.fake.script(|script| {
        script.failures = u32::MAX;
        script.failure =
            Some(ActuatorError::failed(sojourn_core::cluster::ErrorClass::Quota, "no more today"));
    });
    stage.want("blue", "Hibernating").await;
    stage.pass(MINUTE).await;
    // Lists fail alike, so that nothing is on record and nothing was stopped.
    let cluster = stage.cluster("blue").await;
    assert_eq!(says(&cluster, "Hibernating"), ("False".into(), "FailedToStop".into()));
    let message = condition(&cluster, "Hibernating").expect("a condition").message;
    assert!(message.contains("no more today"), "{message}");
    let asked = || stage.fake.requests().len();
    let before = asked();
    stage.pass(HOUR).await;
    let requests = stage.fake.requests().len() - before;
    assert!((10..=30).contains(&requests), "{requests} within the hour");
    stage.fake.script(|script| script.failures = 0);
    stage.until_hibernating("blue").await;
}

#[tokio::test(start_paused = true)]
async fn one_machine_that_fails_keeps_no_other_from_being_stopped() {
    let mut stage = Stage::new().await;
    stage.make("blue", 3, json!({})).await;
    // Machines are listed, then once more while they are called.
    stage.world.fail(3, Failing::Before);
    stage.want("blue", "Hibernating").await;
    let cluster = stage
        .until("blue", MINUTE, "a machine that failed", |cluster| {
            let operation = status(cluster).operation;
            operation
                .is_some_and(|operation| operation.machines.iter().any(|one| one.error.is_some()))
        })
        .await;
    let machines = status(&cluster).operation.expect("an operation").machines;
    let failed: Vec<_> = machines.iter().filter(|machine| machine.error.is_some()).collect();
    assert_eq!(failed.len(), 1);
    let class = failed[0].error.as_ref().and_then(|error| error.class);
    assert_eq!(class, Some(ErrorClass::Transient));
    assert_eq!(says(&cluster, "Hibernating").1, "FailedToStop");
    stage.until_hibernating("blue").await;
}

#[tokio::test(start_paused = true)]
async fn credentials_that_are_not_there_are_named() {
    let mut stage = Stage::new().await;
    stage.add_machines("blue", 1);
    let platform = json!({"platform": {"fake": {"credentialsSecretRef": {"name": "cloud"}}}});
    stage.create("blue", platform, json!({})).await;
    stage.pass(MINUTE).await;
    let cluster = stage.cluster("blue").await;
    let error = status(&cluster).operation.and_then(|one| one.last_error).expect("an error");
    assert!(error.message.contains("the Secret cloud"), "{}", error.message);
    assert!(stage.fake.requests().is_empty(), "nobody is asked without them");
    let secrets: kube::Api<k8s_openapi::api::core::v1::Secret> =
        kube::Api::namespaced(stage.client.clone(), crate::fixture::NAMESPACE);
    let secret = json!({"metadata": {"name": "cloud"}, "stringData": {"token": "t"}});
    let secret = serde_json::from_value(secret).expect("a Secret");
    secrets.create(&kube::api::PostParams::default(), &secret).await.expect("it is made");
    stage.until_running("blue").await;
}

#[tokio::test(start_paused = true)]
async fn what_takes_too_long_is_taken_back_once() {
    let script = Script { stop: SECOND, start: 10 * HOUR, ..Script::default() };
    let mut stage = Stage::with(script, "{}").await;
    let spec = json!({"onTimeout": "RollBack", "timeouts": {"resume": "5m", "stop": "5m"}});
    stage.make("blue", 2, spec).await;
    stage.want("blue", "Hibernating").await;
    stage.until_hibernating("blue").await;
    stage.want("blue", "Running").await;
    stage.pass(4 * MINUTE).await;
    let resuming = stage.cluster("blue").await;
    let next = status(&resuming).next.expect("something comes");
    assert_eq!(format!("{:?}", next.action), "Some(RollBack)");
    let asleep = stage.until_hibernating("blue").await;
    assert_eq!(json!(asleep.spec.power_state), "Hibernating", "the spec says so");
    let operation = status(&asleep).operation.expect("an operation");
    assert_eq!(operation.trigger, Some(Trigger::RollBack));
    assert_eq!(stage.events("RolledBack").await.len(), 1);
    stage.pass(5 * HOUR).await;
    let later = stage.cluster("blue").await;
    assert!(is_hibernating(&later));
    assert_eq!(status(&later).operation, Some(operation), "and it is left at that");
}

#[tokio::test(start_paused = true)]
async fn what_takes_too_long_is_begun_anew() {
    let script = Script { stop: 12 * MINUTE, start: SECOND, ..Script::default() };
    let mut stage = Stage::with(script, "{}").await;
    stage.make("blue", 2, json!({"onTimeout": "Retry", "timeouts": {"stop": "5m"}})).await;
    stage.want("blue", "Hibernating").await;
    let asleep = stage.until_hibernating("blue").await;
    let attempt = status(&asleep).operation.expect("an operation").attempt;
    assert_eq!(attempt, 3, "two times five minutes were not enough");
    assert_eq!(stage.events("Retried").await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_outage_of_the_provider_is_waited_for() {
    let mut stage = Stage::new().await;
    stage.make("blue", 2, json!({})).await;
    stage.want("blue", "Hibernating").await;
    stage.pass(5 * SECOND).await;
    stage.fake.script(|script| script.outage = true);
    stage.pass(2 * HOUR).await;
    let cluster = stage.cluster("blue").await;
    assert!(!is_hibernating(&cluster) && !is_running(&cluster), "nobody knows");
    stage.fake.script(|script| script.outage = false);
    stage.until_hibernating("blue").await;
    let stops = stage.fake.requests();
    let stops = stops.iter().filter(|one| one.operation == Operation::Stop && one.succeeded);
    assert!(stops.count() >= 2);
}

/// Neither a restart without its program nor a program that wants more by now makes a cluster that sleeps one that runs.
#[tokio::test(start_paused = true)]
async fn a_program_that_is_away_or_refuses_is_an_outage_that_is_said() {
    let mut stage = Stage::new().await;
    stage.add_machines("blue", 2);
    stage.create("blue", json!({"platform": {"exec": {"name": "rack"}}}), json!({})).await;
    stage.until_running("blue").await;
    stage.want("blue", "Hibernating").await;
    stage.until_hibernating("blue").await;
    for (program, words) in
        [(Program::Away, "no program is run here"), (Program::Refuses, "config.room: it is needed")]
    {
        stage.world.set_program(program);
        stage.restart().await;
        stage.pass(15 * MINUTE).await;
        let out = stage.cluster("blue").await;
        assert!(is_hibernating(&out), "{:#}", json!(status(&out)));
        assert_eq!(says(&out, "Accepted"), ("False".into(), "ActuatorUnavailable".into()));
        let message = condition(&out, "Accepted").expect("a condition").message;
        assert!(message.contains(words), "{message}");
        let told = stage.events("ActuatorUnavailable").await;
        assert_eq!(told.iter().filter(|told| told.contains(words)).count(), 1, "{told:?}");
        stage.want("blue", "Running").await;
        stage.pass(15 * MINUTE).await;
        let out = stage.cluster("blue").await;
        assert_eq!(says(&out, "Ready"), ("False".into(), "FailedToStartMachines".into()));
        let message = condition(&out, "Ready").expect("a condition").message;
        assert!(message.contains(words), "{message}");
        stage.world.set_program(Program::Runs);
        stage.restart().await;
        let runs = stage.until_running("blue").await;
        assert_eq!(says(&runs, "Accepted").0, "True");
        stage.want("blue", "Hibernating").await;
        stage.until_hibernating("blue").await;
    }
}
