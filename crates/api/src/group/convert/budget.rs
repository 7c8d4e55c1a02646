//! Budgets and their windows.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use sojourn_core::group::intent;
use sojourn_core::schedule;

use crate::grammar::{self, PERCENT};
use crate::group::budget::{Budget, Window};
use crate::problem::{Problem, Report};
use crate::window::window;

/// Budgets beyond this are no budgets any more.
pub(super) const MAX_BUDGETS: usize = 20;
const MAX_WINDOWS: usize = 10;
/// As many starts as a budget per span counts; a group remembers each.
const MAX_STARTS: u32 = 1000;

/// A budget, and what is wrong with it. One that is bad lets nothing through.
pub(super) fn budget(budget: &Budget, index: usize, size: u32) -> (intent::Budget, Vec<Problem>) {
    let path = format!("budgets[{index}]");
    let mut report = Report::default();
    let max = report.take("max", share(&budget.max, size));
    let per = budget.per.as_ref().and_then(|per| report.take("per", grammar::span(per)));
    let allow = windows("allow", &budget.allow, &mut report);
    let deny = windows("deny", &budget.deny, &mut report);
    let problems: Vec<_> =
        report.into_problems().into_iter().map(|problem| problem.beneath(&path)).collect();
    let causes = budget.reasons.iter().map(|&reason| reason.into()).collect();
    let good = problems.is_empty();
    let most = if per.is_some() { MAX_STARTS } else { u32::MAX };
    let resolved = intent::Budget {
        max: if good { max.unwrap_or_default().min(most) } else { 0 },
        per: per.filter(|_| good),
        causes,
        allow: if good { allow } else { Vec::new() },
        deny: if good { deny } else { Vec::new() },
        path,
    };
    (resolved, problems)
}

/// So many of `size`, rounded up.
pub(super) fn share(of: &IntOrString, size: u32) -> Result<u32, String> {
    let count = match of {
        IntOrString::Int(count) => u32::try_from(*count).ok(),
        IntOrString::String(text) => {
            let percent = PERCENT.check(text).ok().and_then(|()| text.strip_suffix('%'));
            percent
                .and_then(|text| text.parse::<u64>().ok())
                .and_then(|percent| u32::try_from((u64::from(size) * percent).div_ceil(100)).ok())
        }
    };
    count.ok_or_else(|| PERCENT.message())
}

fn windows(field: &str, windows: &[Window], report: &mut Report) -> Vec<schedule::Window> {
    if windows.len() > MAX_WINDOWS {
        report.note(field, format!("must have at most {MAX_WINDOWS} items"));
    }
    let read = windows.iter().take(MAX_WINDOWS).enumerate().filter_map(|(index, wire)| {
        let mut own = Report::default();
        let read = window(&wire.cron, &wire.duration, &wire.time_zone, &mut own);
        let path = format!("{field}[{index}]");
        report.add(own.into_problems().into_iter().map(|problem| problem.beneath(&path)));
        read
    });
    read.collect()
}
