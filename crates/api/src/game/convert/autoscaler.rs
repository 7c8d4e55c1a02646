//! What the autoscaler goes by.

use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use sojourn_core::game::autoscaler::{AutoscalerIntent, Buffer, ClassicTerm, ScalingTerm};

use crate::game::autoscaler::{
    AutoScalerTerm, BOTH_THRESHOLDS, MAX_TERMS, MINIMUM_ABOVE_MAXIMUM, ONE_TERM,
    PodAutoScalerDetails, ScheduleTerm, THRESHOLDS_CROSS,
};
use crate::grammar::{self, PERCENT, URL};
use crate::problem::Report;
use crate::window::window;

/// What is asked for, and what is wrong with it; paths begin at the details.
pub(super) fn autoscaler(
    details: &PodAutoScalerDetails,
    report: &mut Report,
) -> Option<AutoscalerIntent> {
    if details.minimum_replicas > details.maximum_replicas {
        report.note("minimumReplicas", MINIMUM_ABOVE_MAXIMUM);
    }
    let classic = classic(details, report);
    if details.terms.len() > MAX_TERMS {
        report.note("terms", format!("must have at most {MAX_TERMS} items"));
    }
    let terms = details.terms.iter().enumerate().filter_map(|(index, wire)| {
        let mut own = Report::default();
        let read = term(wire, &mut own);
        let path = format!("terms[{index}]");
        report.add(own.into_problems().into_iter().map(|problem| problem.beneath(&path)));
        read
    });
    let terms: Vec<ScalingTerm> = terms.collect();
    let up_window = report.take("scaleUpWindow", grammar::pause(&details.scale_up_window));
    let down_window = report.take("scaleDownWindow", grammar::pause(&details.scale_down_window));
    Some(AutoscalerIntent {
        enabled: details.enabled,
        min: count(details.minimum_replicas),
        max: count(details.maximum_replicas),
        classic,
        terms,
        up_window: up_window?,
        down_window: down_window?,
    })
}

fn classic(details: &PodAutoScalerDetails, report: &mut Report) -> Option<ClassicTerm> {
    let (scale_in, scale_out) = (details.scale_in_threshold, details.scale_out_threshold);
    if scale_in.is_some() != scale_out.is_some() {
        report.note("scaleOutThreshold", BOTH_THRESHOLDS);
    }
    let (scale_in, scale_out) = (scale_in?, scale_out?);
    if scale_in >= scale_out {
        report.note("scaleInThreshold", THRESHOLDS_CROSS);
    }
    Some(ClassicTerm {
        scale_in_percent: u8::try_from(scale_in).ok()?,
        scale_out_percent: u8::try_from(scale_out).ok()?,
        cool_down: SignedDuration::from_mins(i64::from(details.cool_down_in_minutes)),
    })
}

fn term(wire: &AutoScalerTerm, report: &mut Report) -> Option<ScalingTerm> {
    let AutoScalerTerm { ready_buffer, free_seats, schedule, pending_demand, counter, webhook } =
        wire;
    let there = [
        ready_buffer.is_some(),
        free_seats.is_some(),
        schedule.is_some(),
        pending_demand.is_some(),
        counter.is_some(),
        webhook.is_some(),
    ];
    if there.into_iter().filter(|there| *there).count() != 1 {
        report.note("", ONE_TERM);
        return None;
    }
    if let Some(buffer) = ready_buffer {
        return report.take("readyBuffer", self::buffer(buffer)).map(ScalingTerm::ReadyBuffer);
    }
    if let Some(seats) = free_seats {
        return Some(ScalingTerm::FreeSeats(count(*seats)));
    }
    if let Some(ScheduleTerm { cron, duration, time_zone, replicas }) = schedule {
        let mut own = Report::default();
        let window = window(cron, duration, time_zone, &mut own);
        report.add(own.into_problems().into_iter().map(|problem| problem.beneath("schedule")));
        return Some(ScalingTerm::Schedule { window: window?, replicas: count(*replicas) });
    }
    if let Some(counter) = counter {
        if counter.name.is_empty() {
            report.note("counter.name", "must not be empty");
        }
        let (name, free) = (counter.name.clone(), count(counter.free));
        return Some(ScalingTerm::Counter { name, free });
    }
    if let Some(webhook) = webhook {
        report.take("webhook.url", URL.check(&webhook.url));
        report.take("webhook.interval", grammar::span(&webhook.interval));
        return Some(ScalingTerm::Webhook);
    }
    Some(ScalingTerm::PendingDemand)
}

fn buffer(buffer: &IntOrString) -> Result<Buffer, String> {
    match buffer {
        IntOrString::Int(number) => {
            u32::try_from(*number).map(Buffer::Count).map_err(|_| PERCENT.message())
        }
        IntOrString::String(text) => {
            PERCENT.check(text)?;
            let percent = text.strip_suffix('%').and_then(|text| text.parse::<u8>().ok());
            let percent = percent.ok_or_else(|| PERCENT.message())?;
            if percent >= 100 {
                return Err("must be below 100%: all of them cannot be free".to_owned());
            }
            Ok(Buffer::Percent(percent))
        }
    }
}

fn count(number: i32) -> u32 {
    u32::try_from(number).unwrap_or_default()
}
