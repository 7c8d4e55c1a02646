//! What is measured, one after the other.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::affinity::{self, Role};
use super::api::BenchApi;
use super::connection::Protocol;
use super::load::{Answered, Pace, Reviews, post};
use super::plan::Plan;
use super::review::{self, Review};
use super::server::{Place, Server};
use crate::command::print_line;
use crate::machine::Machine;
use crate::number::{count, percentile};
use crate::report::{Goal, Report, Unit};
use crate::up::Home;

const REVIEWS: &str = "reviews over HTTPS";
const DECISIONS: &str = "one decision, without the network";
const COSTS: &str = "what sessions cost";
const COMPARED: &str = "beside telekom/k8s-breakglass";
const MEGABYTE: f64 = 1e6;
/// What a replica should be able to answer, with what latency, and in how many bytes per session.
const RATE_GOAL: f64 = 10_000.0;
const LATENCY_GOAL_MS: f64 = 2.0;
const BYTES_GOAL: f64 = 4_096.0;
/// One write every 30 seconds, and the one of the first use.
const WRITES_GOAL: f64 = 121.0;
/// Requests per second that it takes from one address, ahead of its limit for reviews.
const LIMIT_THERE: f64 = 20.0;
/// Its remote calls for one refused review of a user with three sessions and two prefixes of groups.
const CALLS_THERE: f64 = 12.0;

pub(crate) async fn measure(
    home: &Home,
    folder: &Path,
    plan: &Plan,
    report: &mut Report,
    machine: &mut Machine,
) -> Result<()> {
    let (processor, own) = (Place::processor()?, Role::Generator.processor()?);
    print_line("the API and its objects");
    let api = BenchApi::start(home).await?;
    api.make_rbac_objects(plan).await?;
    affinity::pin(own)?;
    let url = api.url();
    let place = Place { url: &url, folder, processor };

    print_line("a replica without sessions");
    let server = Server::start(place, plan).await?;
    let none = server.resident()?;
    server.stop().await?;
    print_line(&format!("a replica with {} sessions", plan.sessions));
    api.make_sessions(plan).await?;
    let mut server = Server::start(place, plan).await?;
    let all = server.resident()?;
    machine.note_load();

    let per_second = reviews(&mut server, plan, report, machine).await?;
    decisions(&server, report).await?;
    report.note(COSTS, "resident, none", Unit::Megabytes, none / MEGABYTE);
    let name = format!("resident, {} sessions", plan.sessions);
    report.note(COSTS, name, Unit::Megabytes, all / MEGABYTE);
    let each = (all - none) / count(plan.sessions);
    report.note(COSTS, "resident per session", Unit::Bytes, each);
    report.goal(Goal::AtMost(BYTES_GOAL));
    let after = (server.resident()? - none) / count(plan.sessions);
    report.note(COSTS, "resident per session, after all were used", Unit::Bytes, after);
    print_line("sessions that are used once a second");
    writes(&server, plan, report).await?;
    machine.note_load();

    report.note(COMPARED, "its limit for one address", Unit::PerSecond, LIMIT_THERE);
    let times = per_second / LIMIT_THERE;
    report.note(COMPARED, "times as many are answered here", Unit::Number, times);
    let name = "its remote calls for a refusal, three sessions and two prefixes";
    report.note(COMPARED, name, Unit::Number, CALLS_THERE);
    server.stop().await?;
    api.close().await;
    Ok(())
}

/// Says how many were answered per second.
async fn reviews(
    server: &mut Server,
    plan: &Plan,
    report: &mut Report,
    machine: &mut Machine,
) -> Result<f64> {
    let reviews = Reviews::new(review::all(plan));
    let target = server.target.clone();
    print_line("every session is used once");
    post(&target, Protocol::Http1, &reviews, Pace::Times(reviews.len())).await?;
    server.until_at_rest().await?;
    let before = server.requests().await?;
    let mut decided = 0;

    print_line("reviews, as fast as they are answered");
    let used = server.processor()?;
    let answered = post(&target, Protocol::Http1, &reviews, Pace::Closed(plan.closed)).await?;
    let used = server.processor()?.saturating_sub(used);
    decided += answered.reviews;
    let per_second = answered.per_second();
    report.note(REVIEWS, "answered, 32 connections", Unit::PerSecond, per_second);
    report.goal(Goal::AtLeast(RATE_GOAL));
    note_processor(report, "32 connections", used, &answered);

    let used = server.processor()?;
    let answered = post(&target, Protocol::Http2, &reviews, Pace::Closed(plan.closed)).await?;
    let used = server.processor()?.saturating_sub(used);
    decided += answered.reviews;
    let figure = answered.per_second();
    report.note(REVIEWS, "answered, 32 at once on one HTTP/2 connection", Unit::PerSecond, figure);
    note_processor(report, "on one HTTP/2 connection", used, &answered);
    machine.note_load();

    print_line(&format!("{} reviews a second", plan.rate));
    let pace = Pace::Open { rate: plan.rate, during: plan.open };
    let answered = post(&target, Protocol::Http1, &reviews, pace).await?;
    decided += answered.reviews;
    let name = |what| format!("at {} a second, {what}", plan.rate);
    report.note(REVIEWS, name("answered"), Unit::PerSecond, answered.per_second());
    for (what, share) in [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)] {
        let figure = percentile(&answered.latencies, share);
        report.note(REVIEWS, name(what), Unit::Milliseconds, figure);
        if share < 0.999 {
            report.goal(Goal::AtMost(LATENCY_GOAL_MS));
        }
    }
    machine.note_load();

    let after = server.requests().await?;
    let each = |requests: u64| Ok::<_, anyhow::Error>(count(requests.try_into()?) / count(decided));
    let calls = each(after.others - before.others)?;
    report.note(REVIEWS, "remote calls per decision", Unit::Number, calls);
    report.goal(Goal::AtMost(0.0));
    let calls = each(after.uses - before.uses)?;
    report.note(REVIEWS, "writes of use per decision, meanwhile", Unit::Number, calls);
    Ok(per_second)
}

/// What the server itself needs, whoever else uses its processor.
fn note_processor(report: &mut Report, name: &str, used: Duration, answered: &Answered) {
    let each = used.as_secs_f64() * 1e6 / count(answered.reviews);
    let name = format!("processor time of the server per review, {name}");
    report.note(REVIEWS, name, Unit::Microseconds, each);
}

async fn decisions(server: &Server, report: &mut Report) -> Result<()> {
    let costs = server.costs().await?;
    let mut note = |name: &str, figure| report.note(DECISIONS, name, Unit::Nanoseconds, figure);
    note("of somebody without a session", costs.stranger);
    note("that a session does not allow", costs.refused);
    note("allowed, and not counted as use", costs.allowed);
    note("allowed, and counted as use", costs.used);
    note("of it, the tracker's cost of a use", (costs.used - costs.allowed).max(0.0));
    Ok(())
}

/// Uses some sessions once a second, and counts what is written of them.
async fn writes(server: &Server, plan: &Plan, report: &mut Report) -> Result<()> {
    let reviews = Reviews::new((0..plan.steady).map(Review::allowed).collect());
    let mut connection = server.target.connect(Protocol::Http1).await?;
    let before = server.requests().await?.steady;
    let started = Instant::now();
    let mut due = started;
    let mut uses = 0;
    while started.elapsed() < plan.steadily {
        for _ in 0..plan.steady {
            connection.ask(reviews.next()).await?;
        }
        uses += 1;
        due += Duration::from_secs(1);
        tokio::time::sleep_until(due.into()).await;
    }
    let took = started.elapsed();
    let written = server.requests().await?.steady - before;
    let each = count(usize::try_from(written)?) / count(plan.steady);
    ensure!(each > 0.0, "of {uses} uses none was written");
    let name = format!("writes per session, used once a second for {} s", took.as_secs());
    report.note(COSTS, name, Unit::Number, each);
    // The first use is written at once, and comes but once.
    let hourly = (each - 1.0).max(0.0) * 3_600.0 / took.as_secs_f64() + 1.0;
    report.note(COSTS, "which in an hour is", Unit::Number, hourly);
    report.goal(Goal::AtMost(WRITES_GOAL));
    Ok(())
}
