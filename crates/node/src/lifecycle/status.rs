//! The whole status of a Pod, as a kubelet would publish it.

use k8s_openapi::api::core::v1::{HostIP, PodIP, PodStatus};

use super::condition::conditions;
use super::container::{close_waiting, statuses};
use super::decide::View;
use super::history::{Member, Role};
use super::moment::whole_seconds;
use super::phase::{ContainerView, Phase, phase};
use super::stopping::StopCause;

/// The phase with its reason and message.
#[derive(Debug)]
struct PhaseSummary {
    phase: Phase,
    reason: Option<String>,
    message: Option<String>,
}

pub(super) fn status(view: &View<'_>) -> PodStatus {
    let mut status = PodStatus {
        host_ip: Some(view.observation.host_ip.to_owned()),
        host_ips: Some(vec![HostIP { ip: view.observation.host_ip.to_owned() }]),
        start_time: view.published.start_time.clone().or_else(|| Some(whole_seconds(view.now))),
        observed_generation: view.observation.pod.metadata.generation,
        // Whatever others wrote stays.
        ..view.published.clone()
    };
    if view.shim_lives() {
        status.pod_ip = status.host_ip.clone();
        status.pod_ips = Some(vec![PodIP { ip: view.observation.host_ip.to_owned() }]);
    }
    if let Some((reason, message)) = view.refusal() {
        status.phase = Some(Phase::Failed.to_string());
        status.reason = Some(reason.to_owned());
        status.message = Some(format!("Pod was rejected: {message}"));
        return status;
    }

    // A Pod that was rejected never had containers, and gets none afterwards.
    let is_terminal = Phase::of(view.published).is_terminal();
    if is_terminal
        && view.published.container_statuses.is_none()
        && view.observation.runs.is_empty()
    {
        return status;
    }

    let mut shown = statuses(view);
    let natural = phase_summary(view, &shown);
    status.conditions = Some(conditions(view, &shown, natural.phase));
    let phase_summary = with_published_until_over(view, natural);
    status.phase = Some(phase_summary.phase.to_string());
    status.reason = phase_summary.reason;
    status.message = phase_summary.message;
    if view.is_over() {
        close_waiting(&mut shown);
    }
    let (inits, mut mains): (Vec<_>, Vec<_>) =
        shown.into_iter().partition(|container| container.role != Role::Main);
    mains.sort_by(|one, other| one.status.name.cmp(&other.status.name));
    status.init_container_statuses = listed(inits);
    status.container_statuses = listed(mains);
    status
}

fn listed(
    shown: Vec<ContainerView<'_>>,
) -> Option<Vec<k8s_openapi::api::core::v1::ContainerStatus>> {
    let statuses: Vec<_> = shown.into_iter().map(|container| container.status).collect();
    (!statuses.is_empty()).then_some(statuses)
}

/// The phase that is true, whether or not it may be published yet.
fn phase_summary(view: &View<'_>, shown: &[ContainerView<'_>]) -> PhaseSummary {
    let published = Phase::of(view.published);
    // A terminal phase never changes.
    if published.is_terminal() {
        return kept(view, published);
    }
    match view.stopping.and_then(|stopping| stopping.cause) {
        Some(StopCause::DeadlineExceeded) => PhaseSummary {
            phase: Phase::Failed,
            reason: Some("DeadlineExceeded".to_owned()),
            message: Some(
                "Pod was active on the node longer than the specified deadline".to_owned(),
            ),
        },
        Some(StopCause::Ended(node_termination)) if view.is_over() => PhaseSummary {
            phase: Phase::Failed,
            reason: Some(node_termination.reason.to_owned()),
            message: Some(node_termination.message.clone()),
        },
        Some(StopCause::Ended(_)) | None => {
            let over = view.is_over();
            let mut mains = view.members.iter().filter(|member| member.role == Role::Main);
            let begun = mains.any(|main| {
                if view.shim_lives() { Member::is_current(main) } else { main.latest().is_some() }
            });
            match phase(shown, view.spec, over, begun) {
                // What never came to run has not succeeded.
                Phase::Pending | Phase::Running if over => {
                    PhaseSummary { phase: Phase::Failed, reason: None, message: None }
                }
                phase if phase == published => kept(view, phase),
                phase => PhaseSummary { phase, reason: None, message: None },
            }
        }
    }
}

/// A terminal phase is published only when no process is left; until then the last one stays.
fn with_published_until_over(view: &View<'_>, phase_summary: PhaseSummary) -> PhaseSummary {
    let published = Phase::of(view.published);
    if phase_summary.phase.is_terminal() && !published.is_terminal() && view.any_runs() {
        kept(view, published)
    } else {
        phase_summary
    }
}

fn kept(view: &View<'_>, phase: Phase) -> PhaseSummary {
    PhaseSummary {
        phase,
        reason: view.published.reason.clone(),
        message: view.published.message.clone(),
    }
}
