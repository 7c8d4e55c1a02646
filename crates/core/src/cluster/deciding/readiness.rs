//! A resume whose machines run: nodes that beat again, operators that have settled, workloads that are ready.

use super::super::effect::Effect;
use super::super::machine::Stopped;
use super::super::observed::{ObservedNode, ObservedOperator, ObservedTarget, Target};
use super::super::operation::{ErrorKind, Operation, StaleNode, Step};
use super::super::power::{Conditions, ReadyReason};
use super::super::reason::Reason;
use super::super::spot;
use super::builder::Builder;
use super::steering;
use crate::known::Known;
use crate::moment::saturating_add;

/// Takes a resume as far as it goes now. It does not ask whether the cluster counts as reachable: it is what makes
/// it so.
pub(super) fn advance(builder: &mut Builder<'_>, operation: &mut Operation, stopped: Stopped) {
    if !builder.intent.has_kubeconfig {
        return finish(builder, operation);
    }
    let Some(target) = read(builder, operation) else { return };
    let was_asked = operation.replaced_at.is_some();
    replace_spot(builder, operation, target, stopped);
    let is_asked_now = operation.replaced_at.is_some() && !was_asked;
    if builder.intent.gates.nodes
        && let Err(why) = check_nodes(builder, operation, target, stopped)
    {
        operation.wait_in(Step::Nodes, &why, builder.now);
        builder.because(why);
        show(builder, ReadyReason::WaitingForNodes);
        let replaced =
            operation.replaced_at.map(|at| saturating_add(at, builder.settings.replacement_wait));
        if let Some(at) = replaced.filter(|at| *at > builder.now) {
            builder.wake_at(at);
        }
        return builder.wake_poll(builder.settings.node_poll, operation.step_since);
    }
    if !are_operators_ready(builder, operation, target)
        || !are_workloads_ready(builder, operation, target)
    {
        return;
    }
    if is_asked_now {
        // That machines are made anew shows when the cluster is read again, and who has settled does not ask again.
        operation.enter(Step::Nodes, builder.now);
        show(builder, ReadyReason::WaitingForNodes);
        return builder.wake_poll(builder.settings.node_poll, operation.step_since);
    }
    finish(builder, operation);
}

/// A resume whose machines were all spot, and are gone: the cluster makes others. Until its provider has one of them
/// nothing runs, whatever the gates ask for.
pub(super) fn await_replacements(
    builder: &mut Builder<'_>,
    operation: &mut Operation,
    stopped: Stopped,
) {
    let Some(target) = read(builder, operation) else { return };
    replace_spot(builder, operation, target, stopped);
    operation.wait_in(Step::Nodes, &Reason::NoMachinesFound, builder.now);
    show(builder, ReadyReason::WaitingForNodes);
    builder.wake_poll(builder.settings.node_poll, operation.step_since);
}

/// What its API said. As long as it says nothing, it is waited for.
fn read<'a>(builder: &mut Builder<'a>, operation: &mut Operation) -> Option<&'a ObservedTarget> {
    match builder.seen.target {
        Target::NotRead => {
            builder.because(Reason::NodesNotRead);
            if operation.step == Step::Machines {
                operation.enter(Step::Nodes, builder.now);
                builder.wake_now();
                show(builder, ReadyReason::WaitingForNodes);
            }
            builder.wake_poll(builder.settings.node_poll, operation.step_since);
            None
        }
        Target::Unreadable(message) => {
            let why = Reason::CannotReach { message: message.clone() };
            operation.wait_in(Step::Nodes, &why, builder.now);
            builder.because(why);
            show(builder, ReadyReason::WaitingForNodes);
            let (poll, since, now) =
                (builder.settings.node_poll, operation.step_since, builder.now);
            let message = format!("its API does not answer: {message}");
            operation.failed(ErrorKind::Target, message, now, |_| poll.next(since, now));
            builder.wake_poll(poll, since);
            None
        }
        Target::Read(target) => Some(target),
    }
}

fn finish(builder: &mut Builder<'_>, operation: &mut Operation) {
    operation.enter(Step::Done, builder.now);
    operation.last_error = None;
    operation.stale_nodes = None;
    steering::arrive(builder, operation);
}

fn show(builder: &mut Builder<'_>, ready: ReadyReason) {
    builder.next.conditions = Some(Conditions::resuming(ready));
}

/// Has the cluster make others for spot machines that are gone.
fn replace_spot(
    builder: &mut Builder<'_>,
    operation: &mut Operation,
    target: &ObservedTarget,
    stopped: Stopped,
) {
    let Known::Is(machines) = &target.machines else { return };
    if builder.intent.observe || builder.reports(operation) {
        return;
    }
    let lost: Vec<&str> = operation
        .machines
        .iter()
        .filter(|machine| machine.is_lost_spot(stopped))
        .map(|machine| machine.id.as_str())
        .collect();
    let machines = spot::replacements(machines, &lost, operation.started_at);
    if machines.is_empty() {
        return;
    }
    let names = machines.iter().map(|machine| machine.name.clone()).collect();
    builder.because(Reason::Replaced { names });
    operation.replaced_at = Some(builder.now);
    builder.effects.push(Effect::Replace { operation: operation.id, machines });
    builder.wake_at(saturating_add(builder.now, builder.settings.replacement_wait));
}

/// Every node is ready, and its heartbeat has changed since this operation first read it: what a node said before
/// it slept proves nothing, and clocks are not compared. Nodes of spot machines that are gone are not waited for.
fn check_nodes(
    builder: &Builder<'_>,
    operation: &mut Operation,
    target: &ObservedTarget,
    stopped: Stopped,
) -> Result<(), Reason> {
    let lost = operation.machines.iter().filter(|machine| machine.is_lost_spot(stopped));
    let lost = lost.filter_map(|machine| builder.next.inventory.find(&machine.id));
    let lost: Vec<&str> = lost.filter_map(|machine| machine.node_name.as_deref()).collect();
    let expected = |node: &&ObservedNode| !lost.contains(&node.name.as_str());
    let nodes: Vec<&ObservedNode> = target.nodes.iter().filter(expected).collect();
    match &mut operation.stale_nodes {
        None => {
            let stale = |node: &&ObservedNode| StaleNode {
                name: node.name.clone(),
                heartbeat: node.heartbeat,
            };
            operation.stale_nodes = Some(nodes.iter().map(stale).collect());
        }
        Some(stale) => stale.retain(|before| {
            let node = nodes.iter().find(|node| node.name == before.name);
            node.is_some_and(|node| node.heartbeat == before.heartbeat)
        }),
    }
    if nodes.is_empty() {
        return Err(Reason::NoNodes);
    }
    let stale = operation.stale_nodes.as_deref().unwrap_or_default();
    let is_fresh = |node: &ObservedNode| !stale.iter().any(|before| before.name == node.name);
    let waiting = nodes.iter().filter(|node| !node.ready || !is_fresh(node));
    let mut names: Vec<String> = waiting.map(|node| node.name.clone()).collect();
    names.sort();
    if names.is_empty() { Ok(()) } else { Err(Reason::WaitsFor { step: Step::Nodes, names }) }
}

/// Whether operators have settled and are well, where the cluster has any and they are asked for.
fn are_operators_ready(
    builder: &mut Builder<'_>,
    operation: &mut Operation,
    target: &ObservedTarget,
) -> bool {
    let asked = builder.intent.gates.cluster_operators && !builder.intent.skips_cluster_operators;
    if !asked || target.cluster_operators.is_absent() {
        return true;
    }
    let now = builder.now;
    match operation.step {
        Step::Record | Step::Machines | Step::Nodes => operation.enter(Step::Settle, now),
        Step::Settle | Step::ClusterOperators | Step::Workloads | Step::Done => {}
    }
    if operation.step == Step::Settle {
        let until = saturating_add(operation.step_since, builder.settings.settle);
        if now < until {
            builder.because(Reason::SettlesUntil(until));
            builder.wake_at(until);
            show(builder, ReadyReason::PausingForClusterOperatorsToSettle);
            return false;
        }
    }
    let names = match &target.cluster_operators {
        Known::Absent => return true,
        Known::Unknown => vec!["clusteroperators could not be listed".to_owned()],
        Known::Is(operators) => {
            let unhealthy =
                operators.iter().filter(|operator| !ObservedOperator::is_healthy(operator));
            let mut names: Vec<String> = unhealthy.map(|operator| operator.name.clone()).collect();
            names.sort();
            names
        }
    };
    if names.is_empty() {
        return true;
    }
    let why = Reason::WaitsFor { step: Step::ClusterOperators, names };
    operation.wait_in(Step::ClusterOperators, &why, now);
    builder.because(why);
    show(builder, ReadyReason::WaitingForClusterOperators);
    builder.wake_poll(builder.settings.operator_poll, operation.step_since);
    false
}

/// Whether every workload that was asked for is ready. A selector that finds none asks for nothing.
fn are_workloads_ready(
    builder: &mut Builder<'_>,
    operation: &mut Operation,
    target: &ObservedTarget,
) -> bool {
    let mut names: Vec<String> = Vec::new();
    for selector in &builder.intent.gates.workloads {
        let found = target.workloads.iter().find(|workloads| workloads.selector == *selector);
        match found.map(|workloads| &workloads.unready) {
            None | Some(Known::Unknown) => names.push(selector.clone()),
            Some(Known::Absent) => {}
            Some(Known::Is(unready)) => names.extend(unready.iter().cloned()),
        }
    }
    if names.is_empty() {
        return true;
    }
    names.sort();
    let why = Reason::WaitsFor { step: Step::Workloads, names };
    operation.wait_in(Step::Workloads, &why, builder.now);
    builder.because(why);
    show(builder, ReadyReason::WaitingForClusterOperators);
    builder.wake_poll(builder.settings.operator_poll, operation.step_since);
    false
}
