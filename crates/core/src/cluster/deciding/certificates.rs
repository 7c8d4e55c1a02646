//! CSRs of a cluster that comes back, for as long as they are approved.

use super::super::csr::{Identities, Identity, Refusal, Review, review};
use super::super::effect::{Approval, Effect};
use super::super::needs::{are_csrs_open, csrs_close_at};
use super::super::observed::{ObservedTarget, Target};
use super::super::reason::Reason;
use super::builder::Builder;
use crate::known::Known;

pub(super) fn approve(builder: &mut Builder<'_>) {
    let settings = builder.settings;
    if !builder.intent.has_kubeconfig
        || builder.intent.fake
        || builder.intent.observe
        || !are_csrs_open(&builder.next, builder.intent, settings, builder.now)
    {
        return;
    }
    if builder.next.operation_carried_out(builder.intent.on_drift).is_none() {
        // After a resume they are looked for until the window closes.
        let since = builder.next.running_since.unwrap_or(builder.now);
        let until = csrs_close_at(&builder.next, settings).unwrap_or(builder.now);
        let next = settings.node_poll.next(since, builder.now);
        if next < until {
            builder.wake_at(next);
        }
        if !builder.next.reachability.allows_remote_work() {
            return;
        }
    }
    let Target::Read(target) = builder.seen.target else { return };
    let Known::Is(csrs) = &target.csrs else { return };
    match review(csrs, &identities(builder, target)) {
        Review::TooMany { pending, limit } => {
            builder.because(Reason::TooManyCsrs { pending, limit });
        }
        Review::Each(each) => {
            let mut approvals = Vec::new();
            let mut refused = Vec::new();
            for (index, result) in each {
                let csr = &csrs[index];
                match result {
                    Ok(()) => {
                        approvals.push(Approval { name: csr.name.clone(), uid: csr.uid.clone() });
                    }
                    Err(Refusal::Signer) => {}
                    Err(
                        Refusal::Unreadable
                        | Refusal::Usages
                        | Refusal::Requester
                        | Refusal::Subject
                        | Refusal::UnknownNode
                        | Refusal::Names,
                    ) => refused.push(csr.name.clone()),
                }
            }
            if !refused.is_empty() {
                builder.because(Reason::CsrsRefused { names: refused });
            }
            if !approvals.is_empty() {
                let names = approvals.iter().map(|approval| approval.name.clone()).collect();
                builder.because(Reason::CsrsApproved { names });
                builder.effects.push(Effect::Approve { csrs: approvals });
            }
        }
    }
}

fn identities(builder: &Builder<'_>, target: &ObservedTarget) -> Identities {
    let identity = |node_name: &Option<String>, addresses: &[String]| Identity {
        node_name: node_name.clone(),
        addresses: addresses.to_vec(),
    };
    let inventory = builder.next.inventory.machines.iter();
    let machines = match &target.machines {
        Known::Is(machines) => Some(machines.as_slice()),
        Known::Absent => None,
        // Without knowing them, nobody is taken for a node only because its name is one.
        Known::Unknown => Some([].as_slice()),
    };
    let machines = machines.map(|machines| {
        machines.iter().map(|one| identity(&one.node_name, &one.addresses)).collect()
    });
    let nodes = target.nodes.iter();
    Identities {
        inventory: inventory.map(|one| identity(&one.node_name, &one.addresses)).collect(),
        machines,
        nodes: nodes.map(|one| identity(&Some(one.name.clone()), &one.addresses)).collect(),
    }
}
