//! What somebody writes is what comes to be, whoever moves machines meanwhile.

use serde_json::json;
use sojourn_api::cluster::name::{INFRA_DISABLED, POWERSTATE_PAUSE};
use sojourn_api::cluster::status::{Action, PowerState, Trigger};
use sojourn_core::cluster::MachineState;
use sojourn_drivers::actuator::fake::{Operation, Script};

use crate::fixture::{
    HOUR, MINUTE, SECOND, Stage, TRANSITION, condition, is_running, machine, says, status,
};

fn count(stage: &Stage, operation: Operation) -> usize {
    let requests = stage.fake.requests();
    requests.iter().filter(|request| request.operation == operation).count()
}

// case: cluster S21
// case: cluster S24
#[tokio::test(start_paused = true)]
async fn a_cluster_sleeps_and_wakes_and_each_machine_is_called_once() {
    let mut stage = Stage::new().await;
    stage.make("blue", 3, json!({})).await;
    stage.want("blue", "Hibernating").await;
    let stopping = stage
        .until("blue", MINUTE, "a cluster that stops", |one| {
            ["Stopping", "WaitingForMachinesToStop"].contains(&says(one, "Hibernating").1.as_str())
        })
        .await;
    assert_eq!(says(&stopping, "Ready"), ("False".into(), "StoppingOrHibernating".into()));
    let recorded = status(&stopping).inventory.expect("an inventory");
    assert_eq!(recorded.machines.len(), 3, "on record before anything is called");
    let asleep = stage.until_hibernating("blue").await;
    assert_eq!(status(&asleep).power_state, Some(PowerState::Hibernating));
    assert_eq!(says(&asleep, "Ready"), ("False".into(), "StoppingOrHibernating".into()));
    let machines = stage.machines("blue").await;
    assert!(machines.values().all(|state| *state == MachineState::Stopped), "{machines:?}");
    assert_eq!(count(&stage, Operation::Stop), 3);
    let operation = status(&asleep).operation.expect("an operation");
    assert_eq!(operation.trigger, Some(Trigger::User));

    stage.want("blue", "Running").await;
    stage.until_running("blue").await;
    let machines = stage.machines("blue").await;
    assert!(machines.values().all(|state| *state == MachineState::Running), "{machines:?}");
    assert_eq!(count(&stage, Operation::Start), 3);
    for reason in ["Stopping", "Hibernating", "StartingMachines", "Running"] {
        assert!(!stage.events(reason).await.is_empty(), "nobody was told of {reason}");
    }
}

// case: cluster X01
// case: cluster X02
#[tokio::test(start_paused = true)]
async fn whoever_changes_their_mind_midway_gets_what_they_wrote_last() {
    let mut stage = Stage::new().await;
    stage.make("blue", 3, json!({})).await;
    for (seconds, last) in [(1, "Running"), (5, "Hibernating"), (25, "Running"), (3, "Hibernating")]
    {
        let first = if last == "Running" { "Hibernating" } else { "Running" };
        stage.want("blue", first).await;
        stage.pass(SECOND * seconds).await;
        stage.want("blue", last).await;
        let (state, machines) = if last == "Running" {
            (stage.until_running("blue").await, MachineState::Running)
        } else {
            (stage.until_hibernating("blue").await, MachineState::Stopped)
        };
        stage.pass(5 * MINUTE).await;
        let found = stage.machines("blue").await;
        assert!(found.values().all(|state| *state == machines), "{found:?}");
        let later = stage.cluster("blue").await;
        assert_eq!(status(&later).operation, status(&state).operation, "it stays so");
    }
}

#[tokio::test(start_paused = true)]
async fn machines_that_somebody_else_moves_are_put_back() {
    let mut stage = Stage::new().await;
    stage.make("blue", 2, json!({})).await;
    stage.want("blue", "Hibernating").await;
    stage.until_hibernating("blue").await;
    stage.put("blue", &machine(1), MachineState::Running);
    stage.pass(2 * SECOND).await;
    let moving = stage.cluster("blue").await;
    let trigger = status(&moving).operation.expect("an operation").trigger;
    assert_eq!(trigger, Some(Trigger::Drift), "the provider told of it");
    stage.until_hibernating("blue").await;
    let machines = stage.machines("blue").await;
    assert!(machines.values().all(|state| *state == MachineState::Stopped), "{machines:?}");
    assert_eq!(stage.events("Drifted").await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn machines_that_somebody_else_moves_may_only_be_reported() {
    let mut stage = Stage::new().await;
    stage.make("blue", 2, json!({"onDrift": "Report"})).await;
    stage.put("blue", &machine(1), MachineState::Stopped);
    stage.pass(30 * MINUTE).await;
    assert_eq!(stage.machines("blue").await[&machine(1)], MachineState::Stopped);
    assert_eq!(count(&stage, Operation::Start), 0);
    let cluster = stage.cluster("blue").await;
    assert!(!is_running(&cluster));
    let message = condition(&cluster, "Ready").expect("a condition").message;
    assert!(message.contains(&machine(1)), "{message}");
}

#[tokio::test(start_paused = true)]
async fn what_is_only_reported_is_looked_at_seldom_and_its_timer_runs_on() {
    let mut stage = Stage::new().await;
    stage.make("blue", 2, json!({"onDrift": "Report", "hibernateAfter": "3h"})).await;
    stage.pass(15 * MINUTE).await;
    let since = status(&stage.cluster("blue").await).running_since;
    stage.put("blue", &machine(1), MachineState::Stopped);
    stage.pass(MINUTE).await;
    assert!(!is_running(&stage.cluster("blue").await));
    let before = count(&stage, Operation::List);
    stage.pass(HOUR).await;
    let listed = count(&stage, Operation::List) - before;
    assert!((5..=7).contains(&listed), "{listed} lists within an hour");
    let reported = stage.cluster("blue").await;
    assert_eq!(status(&reported).running_since, since);
    assert_eq!(status(&reported).next.expect("something comes").action, Some(Action::Hibernate));
    stage.pass(HOUR).await;
    let asleep = stage.until_hibernating("blue").await;
    let trigger = status(&asleep).operation.expect("an operation").trigger;
    assert_eq!(trigger, Some(Trigger::Timer));
    assert_eq!(count(&stage, Operation::Start), 0);
}

// case: cluster S09
// case: cluster S12
// case: cluster X08
#[tokio::test(start_paused = true)]
async fn a_cluster_that_is_paused_is_left_alone() {
    let mut stage = Stage::new().await;
    stage.make("blue", 2, json!({"hibernateAfter": "1h"})).await;
    stage.annotate("blue", POWERSTATE_PAUSE, Some("true")).await;
    stage.pass(SECOND).await;
    let paused = stage.cluster("blue").await;
    let unknown = ("Unknown".to_owned(), "PowerStatePaused".to_owned());
    assert_eq!((says(&paused, "Hibernating"), says(&paused, "Ready")), (unknown.clone(), unknown));
    assert_eq!(status(&paused).power_state, Some(PowerState::Unknown));
    let before = stage.fake.requests().len();
    stage.want("blue", "Hibernating").await;
    stage.pass(5 * HOUR).await;
    stage.want("blue", "Running").await;
    assert_eq!(stage.fake.requests().len(), before, "nobody is asked");
    stage.annotate("blue", POWERSTATE_PAUSE, None).await;
    let running = stage.until_running("blue").await;
    let trigger = status(&running).operation.expect("an operation").trigger;
    assert_eq!(trigger, Some(Trigger::Unpaused));
    stage.pass(55 * MINUTE).await;
    assert!(is_running(&stage.cluster("blue").await), "the timer counts anew");
    stage.until_hibernating("blue").await;
}

// case: cluster X03
#[tokio::test(start_paused = true)]
async fn without_machines_it_is_neither_running_nor_hibernating() {
    let mut stage = Stage::new().await;
    stage.create("blue", json!({"platform": {"fake": {}}}), json!({})).await;
    stage.pass(MINUTE).await;
    for wanted in ["Running", "Hibernating"] {
        stage.want("blue", wanted).await;
        stage.pass(5 * MINUTE).await;
        let cluster = stage.cluster("blue").await;
        assert_eq!(says(&cluster, "NoMachinesFound").0, "True");
        assert_eq!(says(&cluster, "Hibernating").0, "False");
        assert_eq!(says(&cluster, "Ready").0, "False");
    }
    stage.add_machines("blue", 1);
    stage.until_hibernating("blue").await;
}

// case: cluster S05
// case: cluster S06
// case: cluster S07
#[tokio::test(start_paused = true)]
async fn what_nobody_can_stop_is_taken_for_running_until_somebody_can() {
    let mut stage = Stage::new().await;
    stage.make("blue", 1, json!({})).await;
    stage.annotate("blue", INFRA_DISABLED, Some("true")).await;
    stage.want("blue", "Hibernating").await;
    stage.pass(10 * MINUTE).await;
    let cluster = stage.cluster("blue").await;
    assert_eq!(says(&cluster, "Hibernating"), ("False".into(), "Unsupported".into()));
    assert_eq!(says(&cluster, "Ready"), ("True".into(), "Running".into()));
    assert_eq!(count(&stage, Operation::Stop), 0);
    stage.annotate("blue", INFRA_DISABLED, None).await;
    stage.until_hibernating("blue").await;
    stage.create("none", json!({"platform": {"none": {}}}), json!({})).await;
    stage.pass(SECOND).await;
    assert_eq!(says(&stage.cluster("none").await, "Hibernating").1, "Unsupported");
}

// case: cluster X06
#[tokio::test(start_paused = true)]
async fn a_cluster_that_is_off_when_it_is_adopted_is_started() {
    let mut stage = Stage::new().await;
    for number in 0..3 {
        stage.put("blue", &machine(number), MachineState::Stopped);
    }
    stage.create("blue", json!({"platform": {"fake": {}}}), json!({})).await;
    let running = stage.until_running("blue").await;
    let trigger = status(&running).operation.expect("an operation").trigger;
    assert_eq!(trigger, Some(Trigger::Adopted));
    assert_eq!(count(&stage, Operation::Start), 3);
}

#[tokio::test(start_paused = true)]
async fn what_is_known_may_be_lost_and_is_found_out_again() {
    let mut stage = Stage::new().await;
    stage.make("blue", 2, json!({})).await;
    stage.want("blue", "Hibernating").await;
    stage.until_hibernating("blue").await;
    let api = stage.clusters();
    let lost = kube::api::Patch::Merge(json!({"status": null}));
    let params = kube::api::PatchParams::default();
    api.patch_status("blue", &params, &lost).await.expect("people's requests work");
    stage.pass(SECOND).await;
    stage.until_hibernating("blue").await;
    assert_eq!(count(&stage, Operation::Start), 0, "nothing moved");
    stage.want("blue", "Running").await;
    stage.until_running("blue").await;
}

#[tokio::test(start_paused = true)]
async fn each_way_takes_as_long_as_its_machines_do() {
    let script =
        Script { latency: SECOND, stop: TRANSITION, start: TRANSITION, ..Script::default() };
    let mut stage = Stage::with(script, "{}").await;
    stage.make("blue", 3, json!({})).await;
    let since = tokio::time::Instant::now();
    stage.want("blue", "Hibernating").await;
    stage.until_hibernating("blue").await;
    let took = since.elapsed();
    // Machines are listed before, and once more after they have gone off.
    assert!(took <= SECOND + TRANSITION + 4 * SECOND, "{took:?}");
}
