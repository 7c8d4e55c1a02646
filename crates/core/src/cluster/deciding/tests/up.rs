//! The way up: machines, nodes that beat again, operators that have settled.

use crate::cluster::call::{CallFailure, ErrorClass};
use crate::cluster::csr::{CertificateRequest, Csr, Usage};
use crate::cluster::effect::Effect;
use crate::cluster::intent::OnDrift;
use crate::cluster::machine::{MachineState, Stopped};
use crate::cluster::message::messages;
use crate::cluster::observed::{ObservedOperator, ObservedWorkloads};
use crate::cluster::operation::{ErrorKind, Step};
use crate::cluster::power::{
    ConditionStatus, Conditions, HibernatingReason, PowerState, ReadyReason, Wanted,
};
use crate::cluster::reason::Reason;
use crate::cluster::spot::{MachinePhase, TargetMachine};
use crate::cluster::test_cluster::{MINUTE, SECOND, TestCluster, Vm, says};
use crate::known::Known;

fn operator(degraded: bool) -> ObservedOperator {
    ObservedOperator { name: "dns".to_owned(), available: true, progressing: false, degraded }
}

/// It hibernates, serves ClusterOperators, and is wanted again.
fn resuming(change: impl FnOnce(&mut TestCluster)) -> TestCluster {
    let mut cluster = TestCluster::hibernating_with(|cluster| {
        cluster.operators = Known::Is(vec![operator(false)]);
    });
    change(&mut cluster);
    cluster.want(Wanted::Running);
    cluster
}

fn csr(node: &str) -> Csr {
    Csr {
        name: format!("csr-{node}"),
        uid: format!("uid-{node}"),
        signer: "kubernetes.io/kube-apiserver-client-kubelet".to_owned(),
        requester: "system:bootstrap:abcdef".to_owned(),
        groups: vec!["system:bootstrappers".to_owned()],
        usages: vec![Usage::DigitalSignature, Usage::ClientAuth],
        decided: false,
        request: Some(CertificateRequest {
            common_name: format!("system:node:{node}"),
            organizations: vec!["system:nodes".to_owned()],
            ..CertificateRequest::default()
        }),
    }
}

/// What the cluster itself says of a spot machine.
fn spot_machine(name: &str) -> TargetMachine {
    TargetMachine {
        name: format!("machine-{name}"),
        uid: format!("uid-{name}"),
        instance: Some(format!("id-{name}")),
        interruptible: true,
        deleting: false,
        phase: MachinePhase::Live,
        updated_at: None,
        node_name: Some(format!("node-{name}")),
        addresses: Vec::new(),
    }
}

#[test]
fn it_goes_through_every_step_in_order() {
    let mut cluster = resuming(|_| {});
    let mut steps = Vec::new();
    for _ in 0..400 {
        cluster.advance(SECOND);
        if steps.last() != Some(&cluster.power()) {
            steps.push(cluster.power());
        }
    }
    assert_eq!(
        steps,
        [
            PowerState::WaitingForMachines,
            PowerState::WaitingForNodes,
            PowerState::PausingForClusterOperatorsToSettle,
            PowerState::Running,
        ]
    );
}

// case: cluster S29
#[test]
fn a_start_that_fails_is_shown_and_made_again() {
    let mut cluster = resuming(|cluster| {
        let failure = CallFailure::new(ErrorClass::Capacity, "none left");
        cluster.vm("a").refuses = Some(failure);
    });
    cluster.settle();
    assert_eq!(cluster.power(), PowerState::FailedToStartMachines);
    let hibernating = cluster.state.conditions.unwrap().hibernating;
    assert_eq!(hibernating, HibernatingReason::ResumingOrRunning);
    let said = messages(&cluster.state, Stopped::Kept, cluster.now).ready;
    assert!(said.contains("a: Capacity: none left"), "{said}");
    cluster.advance(MINUTE);
    cluster.vm("a").refuses = None;
    cluster.advance(MINUTE * 10);
    assert_eq!(cluster.power(), PowerState::Running);
}

// case: cluster S30
#[test]
fn what_does_not_start_is_named_and_started_again() {
    let mut cluster = resuming(|cluster| {
        cluster.vm("c").deaf = true;
        cluster.vm("a").deaf = true;
    });
    cluster.advance(MINUTE);
    assert_eq!(cluster.power(), PowerState::WaitingForMachines);
    assert_eq!(cluster.starts.len(), 2);
    assert_eq!(cluster.starts[1].2, ["a", "c"]);
    let said = messages(&cluster.state, Stopped::Kept, cluster.now).ready;
    assert_eq!(said, "Waiting for machines to start (step 1 of 4): a, c");
    let wake = cluster.settle().wake.at().unwrap();
    assert_eq!(wake.duration_since(cluster.now), MINUTE);
}

// case: cluster S31
#[test]
fn a_node_that_is_not_ready_is_waited_for() {
    let mut cluster = resuming(|cluster| cluster.vm("b").node_ready = false);
    cluster.csrs = vec![csr("node-b")];
    cluster.advance(MINUTE * 5);
    assert_eq!(cluster.power(), PowerState::WaitingForNodes);
    assert_eq!(cluster.approved, ["csr-node-b"]);
    let decision = cluster.settle();
    let names = vec!["node-b".to_owned()];
    assert!(
        says(&decision, |why| *why == Reason::WaitsFor { step: Step::Nodes, names: names.clone() })
    );
    let wake = decision.wake.at().unwrap();
    assert_eq!(wake.duration_since(cluster.now), SECOND * 30);
    let said = messages(&cluster.state, Stopped::Kept, cluster.now).ready;
    assert_eq!(said, "Waiting for nodes to be ready (step 2 of 4): node-b");
    // Its name stays between two looks at the nodes.
    let writes = cluster.state_writes;
    cluster.advance(MINUTE * 5);
    assert_eq!(cluster.state_writes, writes);
    assert_eq!(messages(&cluster.state, Stopped::Kept, cluster.now).ready, said);
}

// case: cluster S32
#[test]
fn valid_csrs_are_approved_each_once() {
    let mut cluster = resuming(|cluster| cluster.vm("b").node_ready = false);
    cluster.advance(MINUTE);
    cluster.csrs = ["node-a", "node-b", "node-c", "node-b", "node-a", "node-x"].map(csr).to_vec();
    for (index, csr) in cluster.csrs.iter_mut().enumerate() {
        csr.name = format!("csr-{index}");
    }
    cluster.advance(MINUTE);
    assert_eq!(cluster.approved, ["csr-0", "csr-1", "csr-2", "csr-3", "csr-4"]);
}

#[test]
fn csrs_are_approved_until_ten_minutes_after_it_is_ready() {
    let mut cluster = resuming(|_| {});
    cluster.advance(MINUTE * 10);
    let ready_at = cluster.state.running_since.unwrap();
    cluster.csrs.push(csr("node-a"));
    cluster.advance(SECOND * 40);
    assert_eq!(cluster.approved.len(), 1);
    cluster.sleep_until(ready_at + MINUTE * 10);
    cluster.csrs.push(csr("node-b"));
    cluster.advance(MINUTE * 30);
    assert_eq!(cluster.approved.len(), 1);
    assert!(!cluster.last_needs.csrs && !cluster.last_needs.target);
}

// case: cluster S34, S35
#[test]
fn once_nodes_are_ready_operators_settle() {
    for already in [ReadyReason::StartingMachines, ReadyReason::WaitingForMachines] {
        let mut cluster = resuming(|_| {});
        cluster.settle();
        cluster.state.conditions = Some(Conditions::resuming(already));
        let mut seen = Vec::new();
        while cluster.power() != PowerState::PausingForClusterOperatorsToSettle {
            cluster.advance(SECOND);
            seen.push(cluster.power());
            assert!(seen.len() < 300);
        }
        assert!(!seen.contains(&PowerState::WaitingForClusterOperators));
    }
}

// case: cluster S19
#[test]
fn that_the_first_sync_came_does_not_keep_operators_from_settling() {
    let mut cluster = resuming(|_| {});
    cluster.advance(SECOND * 40);
    let hibernating = HibernatingReason::SyncSetsApplied;
    let ready = ReadyReason::StartingMachines;
    cluster.state.conditions = Some(Conditions { hibernating, ready });
    cluster.advance(MINUTE);
    assert_eq!(cluster.power(), PowerState::PausingForClusterOperatorsToSettle);
    let since = cluster.state.operation.as_ref().unwrap().step_since;
    let wake = cluster.settle().wake.at().unwrap();
    assert_eq!(wake, since + MINUTE * 2);
}

// case: cluster S36, S37
#[test]
fn operators_have_to_be_well_once_they_have_settled() {
    let mut cluster = resuming(|cluster| cluster.operators = Known::Is(vec![operator(true)]));
    cluster.advance(MINUTE * 6);
    assert_eq!(cluster.power(), PowerState::WaitingForClusterOperators);
    let wake = cluster.settle().wake.at().unwrap();
    assert_eq!(wake.duration_since(cluster.now), SECOND * 30);
    let said = messages(&cluster.state, Stopped::Kept, cluster.now).ready;
    assert_eq!(said, "Waiting for operators and workloads (step 4 of 4): dns");
    cluster.operators = Known::Is(vec![operator(false)]);
    let settled_at = cluster.now;
    cluster.advance(SECOND * 30);
    assert_eq!(cluster.power(), PowerState::Running);
    assert_eq!(cluster.state.running_since, Some(settled_at));
}

#[test]
fn an_operator_is_well_if_it_is_available_and_neither_changes_nor_is_degraded() {
    for (available, progressing, degraded) in
        [(false, false, false), (true, true, false), (true, false, true)]
    {
        let name = "dns".to_owned();
        let operator = ObservedOperator { name, available, progressing, degraded };
        let mut cluster = resuming(|cluster| cluster.operators = Known::Is(vec![operator]));
        cluster.advance(MINUTE * 10);
        assert_eq!(cluster.power(), PowerState::WaitingForClusterOperators);
    }
}

// case: cluster S39
#[test]
fn a_label_says_not_to_wait_for_operators() {
    let mut cluster = resuming(|cluster| {
        cluster.operators = Known::Is(vec![operator(true)]);
        cluster.intent.skips_cluster_operators = true;
    });
    cluster.advance(MINUTE * 2);
    assert_eq!(cluster.power(), PowerState::Running);
}

// case: cluster S40
#[test]
fn a_cluster_whose_api_does_not_answer_is_waited_for() {
    let mut cluster = resuming(|cluster| cluster.api_fails = Some("no route".to_owned()));
    cluster.advance(MINUTE * 2);
    assert_eq!(cluster.power(), PowerState::WaitingForNodes);
    let error = cluster.state.operation.as_ref().unwrap().last_error.clone().unwrap();
    assert_eq!(error.kind, ErrorKind::Target);
    assert!(messages(&cluster.state, Stopped::Kept, cluster.now).ready.contains("no route"));
    cluster.api_fails = None;
    cluster.advance(MINUTE * 5);
    assert_eq!(cluster.power(), PowerState::Running);
}

/// Whoever the kubeconfig is of may read the cluster, and not approve in it.
#[test]
fn what_could_not_be_written_into_the_cluster_is_on_record_until_it_could() {
    let mut cluster = resuming(|cluster| {
        cluster.write_fails = Some("CSRs cannot be approved: forbidden".to_owned());
        cluster.csrs = vec![csr("node-b")];
        cluster.vm("b").mute = true;
    });
    cluster.advance(MINUTE * 3);
    let error =
        |cluster: &TestCluster| cluster.state.operation.as_ref().unwrap().last_error.clone();
    let failing = error(&cluster).expect("it is on record");
    assert_eq!(failing.kind, ErrorKind::Target);
    assert!(failing.count > 1, "{failing:?}");
    assert!(messages(&cluster.state, Stopped::Kept, cluster.now).ready.contains("forbidden"));
    assert_eq!(cluster.approved, [""; 0]);
    let mut allowed = cluster.clone();
    allowed.write_fails = None;
    allowed.advance(MINUTE * 2);
    assert_eq!(allowed.approved, ["csr-node-b"]);
    assert_eq!(error(&allowed), None);
    // Somebody else has approved it.
    cluster.csrs[0].decided = true;
    cluster.advance(MINUTE * 2);
    assert_eq!(error(&cluster), None);
}

// case: cluster S41
#[test]
fn a_cluster_without_nodes_is_not_ready() {
    let mut cluster = resuming(|cluster| {
        for vm in &mut cluster.vms {
            vm.machine.node_name = None;
        }
    });
    cluster.advance(MINUTE * 5);
    assert_eq!(cluster.power(), PowerState::WaitingForNodes);
    assert!(says(&cluster.settle(), |why| *why == Reason::NoNodes));
    let said = messages(&cluster.state, Stopped::Kept, cluster.now).ready;
    assert!(said.ends_with("(step 2 of 4): it has no nodes yet"), "{said}");
}

// case: cluster S42
#[test]
fn a_node_counts_once_its_heartbeat_has_changed_since() {
    let mut cluster = resuming(|cluster| cluster.vm("b").mute = true);
    cluster.vm("b").heartbeat = Some(cluster.now + MINUTE * 20);
    cluster.advance(MINUTE * 10);
    assert_eq!(cluster.power(), PowerState::WaitingForNodes, "whatever its clock says");
    cluster.vm("b").mute = false;
    cluster.advance(MINUTE * 4);
    assert_eq!(cluster.power(), PowerState::Running);
}

#[test]
fn without_a_kubeconfig_machines_that_run_are_enough() {
    let mut cluster =
        TestCluster::hibernating_with(|cluster| cluster.intent.has_kubeconfig = false);
    cluster.want(Wanted::Running);
    cluster.advance(MINUTE);
    assert_eq!(cluster.power(), PowerState::Running);
    assert!(!cluster.last_needs.target);
}

#[test]
fn workloads_are_waited_for_where_they_are_asked_for() {
    let mut cluster = resuming(|cluster| {
        cluster.intent.gates.workloads = vec!["app=dns".to_owned()];
        let unready = (0..12).map(|index| format!("kube-system/dns-{index:02}"));
        let unready = Known::Is(unready.collect());
        cluster.workloads = vec![ObservedWorkloads { selector: "app=dns".to_owned(), unready }];
    });
    cluster.advance(MINUTE * 6);
    assert_eq!(cluster.step(), Step::Workloads);
    let said = messages(&cluster.state, Stopped::Kept, cluster.now).ready;
    assert!(said.contains(": kube-system/dns-00, "), "{said}");
    assert!(said.ends_with("kube-system/dns-09 and 2 more"), "{said}");
    assert_eq!(cluster.power(), PowerState::WaitingForClusterOperators);
    cluster.workloads[0].unready = Known::Is(Vec::new());
    cluster.advance(MINUTE);
    assert_eq!(cluster.power(), PowerState::Running);
}

#[test]
fn spot_machines_that_were_ended_are_replaced_and_not_waited_for() {
    let mut cluster = TestCluster::hibernating_with(|cluster| {
        cluster.vm("c").machine.spot = true;
        cluster.target_machines = Known::Is(vec![spot_machine("c")]);
    });
    assert!(cluster.replaced.is_empty());
    cluster.want(Wanted::Running);
    cluster.advance(MINUTE * 10);
    assert_eq!(cluster.power(), PowerState::Running);
    assert_eq!(cluster.replaced, ["machine-c"]);
    assert_eq!(cluster.starts[0].2, ["a", "b"]);
}

#[test]
fn a_resume_that_is_killed_before_it_asked_for_machines_asks_again() {
    let mut cluster = TestCluster::hibernating_with(|cluster| {
        cluster.intent.gates.nodes = false;
        cluster.vm("c").machine.spot = true;
        cluster.target_machines = Known::Is(vec![spot_machine("c")]);
    });
    cluster.want(Wanted::Running);
    let mut is_decided = false;
    for _ in 0..300 {
        let decision = cluster.decision();
        cluster.store(&decision);
        is_decided = decision.effects.iter().any(|one| matches!(one, Effect::Replace { .. }));
        if is_decided {
            break;
        }
        cluster.carry_out(&decision.effects);
        cluster.sleep(SECOND);
    }
    assert!(is_decided && cluster.replaced.is_empty());
    assert_eq!(cluster.power(), PowerState::WaitingForNodes);
    cluster.advance(MINUTE);
    assert_eq!(cluster.power(), PowerState::Running);
    assert_eq!(cluster.replaced, ["machine-c"]);
}

/// It hibernates, all its machines were spot machines, and its control plane is elsewhere.
fn without_machines(change: impl FnOnce(&mut TestCluster)) -> TestCluster {
    let cluster = TestCluster::hibernating_with(|cluster| {
        cluster.api_is_elsewhere = true;
        for vm in &mut cluster.vms {
            vm.machine.spot = true;
        }
        cluster.target_machines = Known::Is(["a", "b", "c"].map(spot_machine).to_vec());
        change(cluster);
    });
    assert_eq!(cluster.ended, ["a", "b", "c"]);
    assert!(cluster.vms.is_empty() && cluster.replaced.is_empty());
    cluster
}

#[test]
fn a_cluster_of_spot_machines_alone_wakes_with_others() {
    for nodes in [true, false] {
        let mut cluster = without_machines(|cluster| cluster.intent.gates.nodes = nodes);
        cluster.want(Wanted::Running);
        cluster.advance(MINUTE * 10);
        assert_eq!(cluster.replaced, ["machine-a", "machine-b", "machine-c"]);
        assert_eq!(cluster.power(), PowerState::WaitingForNodes, "nothing runs yet");
        assert_eq!(cluster.state.no_machines_found, ConditionStatus::True);
        assert!(cluster.starts.is_empty());
        for name in ["d", "e"] {
            let mut vm = Vm::new(name, MachineState::Running);
            vm.machine.spot = true;
            cluster.vms.push(vm);
        }
        cluster.advance(MINUTE * 2);
        assert_eq!(cluster.power(), PowerState::Running);
        assert_eq!(cluster.state.no_machines_found, ConditionStatus::False);
        assert_eq!(cluster.replaced.len(), 3);
    }
}

#[test]
fn machines_are_made_by_who_can_be_reached() {
    let mut cluster = without_machines(|cluster| cluster.intent.has_kubeconfig = false);
    cluster.want(Wanted::Running);
    cluster.advance(MINUTE * 10);
    assert!(cluster.replaced.is_empty() && cluster.power() != PowerState::Running);
    let mut cluster = without_machines(|_| {});
    cluster.api_fails = Some("no route".to_owned());
    cluster.want(Wanted::Running);
    cluster.advance(MINUTE * 10);
    assert!(cluster.replaced.is_empty());
    let said = messages(&cluster.state, Stopped::Kept, cluster.now).ready;
    assert!(said.contains("no machines were found") && said.contains("no route"), "{said}");
    cluster.api_fails = None;
    cluster.advance(MINUTE);
    assert_eq!(cluster.replaced.len(), 3);
}

#[test]
fn a_machine_that_stops_midway_is_started_again() {
    let mut cluster = resuming(|_| {});
    cluster.advance(MINUTE);
    cluster.set("a", MachineState::Stopped);
    cluster.advance(SECOND * 30);
    assert_eq!(cluster.starts.len(), 2);
    cluster.advance(MINUTE * 10);
    assert_eq!(cluster.power(), PowerState::Running);
}

#[test]
fn what_somebody_else_stopped_is_started_again() {
    let mut cluster = TestCluster::running();
    cluster.set("a", MachineState::Stopped);
    cluster.advance(MINUTE * 15);
    assert_eq!(cluster.starts.len(), 1);
    assert_eq!(cluster.starts[0].2, ["a"]);
    assert_eq!(cluster.power(), PowerState::Running);
}

#[test]
fn what_is_only_reported_lets_nobody_in() {
    let mut cluster = TestCluster::running_with(|cluster| {
        cluster.intent.on_drift = OnDrift::Report;
    });
    cluster.advance(MINUTE * 15);
    cluster.set("a", MachineState::Stopped);
    cluster.advance(MINUTE * 15);
    assert_eq!(cluster.power(), PowerState::WaitingForMachines);
    cluster.csrs.push(csr("node-b"));
    cluster.advance(MINUTE * 60);
    assert!(cluster.approved.is_empty() && cluster.starts.is_empty());
    assert!(!cluster.last_needs.csrs && !cluster.last_needs.target);
    // From when it is to be put back, it is a resume as any other.
    cluster.edit(|intent| intent.on_drift = OnDrift::Enforce);
    cluster.advance(MINUTE * 5);
    assert_eq!(cluster.power(), PowerState::Running);
    assert_eq!((cluster.starts.len(), cluster.approved.len()), (1, 1));
}

#[test]
fn what_is_only_reported_shortens_no_window() {
    let mut cluster = resuming(|cluster| cluster.intent.on_drift = OnDrift::Report);
    cluster.settings.drift_interval = MINUTE;
    while cluster.power() != PowerState::Running {
        cluster.advance(SECOND * 10);
    }
    cluster.set("a", MachineState::Stopped);
    cluster.advance(MINUTE * 2);
    assert_eq!(cluster.power(), PowerState::WaitingForMachines);
    cluster.csrs.push(csr("node-b"));
    cluster.advance(MINUTE);
    assert_eq!(cluster.approved, ["csr-node-b"]);
    cluster.csrs.push(csr("node-c"));
    cluster.sleep(MINUTE * 10);
    cluster.advance(MINUTE);
    assert_eq!(cluster.approved.len(), 1);
}

#[test]
fn what_is_only_reported_makes_no_machine_anew() {
    let mut cluster = TestCluster::running_with(|cluster| {
        cluster.intent.on_drift = OnDrift::Report;
        cluster.vm("c").machine.spot = true;
        cluster.target_machines = Known::Is(vec![spot_machine("c")]);
    });
    cluster.set("a", MachineState::Stopped);
    cluster.advance(MINUTE * 15);
    cluster.set("c", MachineState::Missing);
    cluster.set("a", MachineState::Running);
    cluster.advance(MINUTE * 30);
    assert_eq!(cluster.power(), PowerState::Running);
    assert!(cluster.replaced.is_empty());
}
