//! The whole status of a Pod, as a kubelet would publish it.

use k8s_openapi::api::core::v1::{HostIP, PodIP, PodStatus};

use super::condition::conditions;
use super::container::{seal, statuses};
use super::decide::View;
use super::history::{Member, Role};
use super::moment::whole;
use super::phase::{Phase, Shown, phase};
use super::stopping::Verdict;

/// The phase with the words that belong to it.
#[derive(Debug)]
struct Headline {
    phase: Phase,
    reason: Option<String>,
    message: Option<String>,
}

pub(super) fn status(view: &View<'_>) -> PodStatus {
    let mut status = PodStatus {
        host_ip: Some(view.seen.host_ip.to_owned()),
        host_ips: Some(vec![HostIP { ip: view.seen.host_ip.to_owned() }]),
        start_time: view.published.start_time.clone().or_else(|| Some(whole(view.now))),
        observed_generation: view.seen.pod.metadata.generation,
        // Whatever others wrote stays.
        ..view.published.clone()
    };
    if view.shim_lives() {
        status.pod_ip = status.host_ip.clone();
        status.pod_ips = Some(vec![PodIP { ip: view.seen.host_ip.to_owned() }]);
    }
    if let Some((reason, message)) = view.refusal() {
        status.phase = Some(Phase::Failed.to_string());
        status.reason = Some(reason.to_owned());
        status.message = Some(format!("Pod was rejected: {message}"));
        return status;
    }

    // A Pod that was rejected never had containers, and gets none afterwards.
    let is_terminal = Phase::of(view.published).is_terminal();
    if is_terminal && view.published.container_statuses.is_none() && view.seen.runs.is_empty() {
        return status;
    }

    let mut shown = statuses(view);
    let natural = headline(view, &shown);
    status.conditions = Some(conditions(view, &shown, natural.phase));
    let headline = held_back(view, natural);
    status.phase = Some(headline.phase.to_string());
    status.reason = headline.reason;
    status.message = headline.message;
    if view.is_over() {
        seal(&mut shown);
    }
    let (inits, mut mains): (Vec<_>, Vec<_>) =
        shown.into_iter().partition(|container| container.role != Role::Main);
    mains.sort_by(|one, other| one.status.name.cmp(&other.status.name));
    status.init_container_statuses = listed(inits);
    status.container_statuses = listed(mains);
    status
}

fn listed(shown: Vec<Shown<'_>>) -> Option<Vec<k8s_openapi::api::core::v1::ContainerStatus>> {
    let statuses: Vec<_> = shown.into_iter().map(|container| container.status).collect();
    (!statuses.is_empty()).then_some(statuses)
}

/// The phase that is true, whether or not it may be published yet.
fn headline(view: &View<'_>, shown: &[Shown<'_>]) -> Headline {
    let published = Phase::of(view.published);
    // Nothing leads out of an end.
    if published.is_terminal() {
        return kept(view, published);
    }
    match view.stopping.and_then(|stopping| stopping.verdict) {
        Some(Verdict::DeadlineExceeded) => Headline {
            phase: Phase::Failed,
            reason: Some("DeadlineExceeded".to_owned()),
            message: Some(
                "Pod was active on the node longer than the specified deadline".to_owned(),
            ),
        },
        Some(Verdict::Ended(ending)) if view.is_over() => Headline {
            phase: Phase::Failed,
            reason: Some(ending.reason.to_owned()),
            message: Some(ending.message.clone()),
        },
        Some(Verdict::Ended(_)) | None => {
            let over = view.is_over();
            let mut mains = view.members.iter().filter(|member| member.role == Role::Main);
            let begun = mains.any(|main| {
                if view.shim_lives() { Member::is_current(main) } else { main.latest().is_some() }
            });
            match phase(shown, view.spec, over, begun) {
                // What never came to run has not succeeded.
                Phase::Pending | Phase::Running if over => {
                    Headline { phase: Phase::Failed, reason: None, message: None }
                }
                phase if phase == published => kept(view, phase),
                phase => Headline { phase, reason: None, message: None },
            }
        }
    }
}

/// An end is told only when no process is left: until then what was said before holds.
fn held_back(view: &View<'_>, headline: Headline) -> Headline {
    let published = Phase::of(view.published);
    if headline.phase.is_terminal() && !published.is_terminal() && view.any_runs() {
        kept(view, published)
    } else {
        headline
    }
}

fn kept(view: &View<'_>, phase: Phase) -> Headline {
    Headline {
        phase,
        reason: view.published.reason.clone(),
        message: view.published.message.clone(),
    }
}
