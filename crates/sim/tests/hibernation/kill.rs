//! Killed after any effect, the next process does what the first would have done.

use serde_json::json;
use sojourn_core::cluster::MachineState;
use sojourn_drivers::actuator::fake::Operation;

use crate::deletion::{numbers, records, with_pods};
use crate::fixture::{MINUTE, SECOND, Stage, is_running, status};
use crate::target::SpotCluster;

/// So many effects a whole story has at most.
const MAX_EFFECTS: u64 = 80;

// case: cluster X11
#[tokio::test(start_paused = true)]
async fn killed_after_any_effect_it_sleeps_and_wakes_all_the_same() {
    let mut kills = 0;
    for effect in 1..=MAX_EFFECTS {
        let mut stage = Stage::new().await;
        stage.make("blue", 3, json!({})).await;
        stage.world.kill_after(effect);
        stage.want("blue", "Hibernating").await;
        let asleep = stage.until_hibernating("blue").await;
        let machines = stage.machines("blue").await;
        let off = machines.values().all(|state| *state == MachineState::Stopped);
        assert!(off && machines.len() == 3, "killed after {effect}: {machines:?}");
        let first = status(&asleep).operation.and_then(|operation| operation.id);
        stage.want("blue", "Running").await;
        let running = stage.until_running("blue").await;
        let machines = stage.machines("blue").await;
        let on = machines.values().all(|state| *state == MachineState::Running);
        assert!(on && machines.len() == 3, "killed after {effect}: {machines:?}");
        assert!(status(&running).operation.and_then(|operation| operation.id) > first);
        for (operation, most) in [(Operation::Stop, 6), (Operation::Start, 6)] {
            let requests = stage.fake.requests();
            let calls = requests.iter().filter(|one| one.operation == operation).count();
            assert!((3..=most).contains(&calls), "killed after {effect}: {calls} {operation:?}");
        }
        stage.pass(2 * SECOND).await;
        if stage.world.kill_is_pending() {
            break;
        }
        kills += 1;
        assert_eq!(stage.starts, 2, "killed after {effect}");
    }
    assert!(kills >= 12, "only {kills} kills");
    assert!(kills < MAX_EFFECTS, "there are more effects than {MAX_EFFECTS}");
}

#[tokio::test(start_paused = true)]
async fn killed_after_any_effect_a_power_state_is_written_once() {
    let mut kills = 0;
    for effect in 1..=MAX_EFFECTS {
        let mut stage = Stage::new().await;
        stage.make("blue", 1, json!({"hibernateAfter": "2m"})).await;
        stage.world.kill_after(effect);
        stage.until_hibernating("blue").await;
        // Somebody wants it to run: what was written before does not come back.
        stage.want("blue", "Running").await;
        stage.until_running("blue").await;
        stage.pass(MINUTE).await;
        assert!(is_running(&stage.cluster("blue").await), "killed after {effect}");
        if stage.world.kill_is_pending() {
            break;
        }
        kills += 1;
    }
    assert!(kills >= 10, "only {kills} kills");
}

// case: cluster X11
#[tokio::test(start_paused = true)]
async fn killed_after_any_effect_each_pod_comes_back_as_it_was() {
    let mut kills = 0;
    for effect in 1..=MAX_EFFECTS {
        let mut stage = Stage::new().await;
        with_pods(&mut stage, "blue", json!({})).await;
        stage.world.kill_after(effect);
        stage.want("blue", "Hibernating").await;
        stage.until_hibernating("blue").await;
        let left = (numbers(&stage, "blue").await.len(), records(&stage).await);
        assert_eq!(left, (0, 2), "killed after {effect}");
        stage.want("blue", "Running").await;
        stage.until_running("blue").await;
        let mut found = numbers(&stage, "blue").await;
        found.sort_unstable();
        assert_eq!(found, ["0", "1"], "killed after {effect}");
        stage.pass(2 * MINUTE).await;
        assert_eq!(records(&stage).await, 0, "killed after {effect}");
        assert!(is_running(&stage.cluster("blue").await), "killed after {effect}");
        if stage.world.kill_is_pending() {
            break;
        }
        kills += 1;
        assert_eq!(stage.starts, 2, "killed after {effect}");
    }
    assert!(kills >= 12, "only {kills} kills");
    assert!(kills < MAX_EFFECTS, "there are more effects than {MAX_EFFECTS}");
}

// case: cluster X11
#[tokio::test(start_paused = true)]
async fn killed_after_any_effect_a_spot_machine_is_made_anew_once() {
    let mut kills = 0;
    for effect in 1..=MAX_EFFECTS {
        let mut stage = Stage::new().await;
        let cluster = SpotCluster::new(&stage).await;
        stage.until_running("blue").await;
        stage.world.kill_after(effect);
        stage.want("blue", "Hibernating").await;
        stage.until_hibernating("blue").await;
        let names = cluster.names().await;
        assert_eq!(names, ["spot-1", "worker"], "killed after {effect}");
        stage.want("blue", "Running").await;
        stage.until_running("blue").await;
        stage.pass(MINUTE).await;
        assert!(is_running(&stage.cluster("blue").await), "killed after {effect}");
        let names = cluster.names().await;
        assert_eq!(names, ["spot-2", "worker"], "killed after {effect}");
        let machines = stage.machines("blue").await;
        let on = |id: &str| machines.get(id) == Some(&MachineState::Running);
        assert!(on("m-0") && on("m-2"), "killed after {effect}: {machines:?}");
        let requests = stage.fake.requests();
        for (operation, most) in [(Operation::Stop, 2), (Operation::End, 2), (Operation::Start, 2)]
        {
            let calls = requests.iter().filter(|one| one.operation == operation).count();
            assert!((1..=most).contains(&calls), "killed after {effect}: {calls} {operation:?}");
        }
        if stage.world.kill_is_pending() {
            break;
        }
        kills += 1;
        assert_eq!(stage.starts, 2, "killed after {effect}");
    }
    assert!(kills >= 12, "only {kills} kills");
    assert!(kills < MAX_EFFECTS, "there are more effects than {MAX_EFFECTS}");
}

#[tokio::test(start_paused = true)]
async fn another_replica_takes_over_at_any_moment() {
    for seconds in [0, 1, 2, 5, 15, 21, 25] {
        let mut stage = Stage::new().await;
        stage.make("blue", 3, json!({})).await;
        stage.want("blue", "Hibernating").await;
        stage.pass(SECOND * seconds).await;
        stage.stop();
        tokio::time::sleep(15 * SECOND).await;
        stage.restart().await;
        stage.until_hibernating("blue").await;
        let machines = stage.machines("blue").await;
        assert!(machines.values().all(|state| *state == MachineState::Stopped), "{machines:?}");
    }
}
