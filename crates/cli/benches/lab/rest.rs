//! Instances that only wait for their deadlines: what they cost, and how soon a restart has them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use sojourn_api::install;
use sojourn_api::name::shared;
use sojourn_apiserver::auth::identity::Identity;
use sojourn_apiserver::{Config, Engine};
use sojourn_drivers::dial::Direct;
use sojourn_operator::clock::SystemClock;
use sojourn_operator::cluster::actuators::Actuators;
use sojourn_operator::driver::SystemDriverFactory;
use sojourn_operator::family::{ProgramPath, Setup, WebService};
use sojourn_operator::frame::{Limits, Tasks, WatchSettings};
use sojourn_operator::game::GameSetup;
use sojourn_operator::group::Providers;
use sojourn_operator::lab::ServedLab;
use sojourn_operator::metrics::Metrics;
use sojourn_rbac::User;

use super::fleet::Fleet;
use super::plan::Plan;
use crate::command::print_line;
use crate::number::count;
use crate::process::own_processor;
use crate::report::{Report, Unit};
use crate::up::{Controllers, Home, Up};

const REST: &str = "instances at rest";
const RESTART: &str = "restart, in one process with the engine";
/// How long stopped instances are kept, long enough to sit through any benchmark.
const RETENTION: &str = "30d";
const MEGABYTE: f64 = 1e6;
/// How long it may take until every timer is armed.
const ARM_TIMEOUT: Duration = Duration::from_secs(600);
const POLL_INTERVAL: Duration = Duration::from_millis(2);

pub(crate) async fn measure(home: &Home, plan: &Plan, report: &mut Report) -> Result<()> {
    let mut up = Up::start(home, Controllers::Off).await?;
    up.at_rest().await?;
    let none_without = up.resident()?;
    up.stop().await?;
    let mut up = Up::start(home, Controllers::On).await?;
    up.at_rest().await?;
    let none = up.resident()?;
    note_memory(report, "resident, none", none);
    made(&mut up, plan, none, report).await?;
    up.stop().await?;

    print_line("restarts");
    let with = again(home, Controllers::On, plan, report).await? - none;
    let without = again(home, Controllers::Off, plan, report).await? - none_without;
    let each = |bytes: f64| bytes / count(plan.resting);
    report.note(REST, "resident per instance, after a restart", Unit::Bytes, each(with));
    report.note(REST, "of it, the API server's", Unit::Bytes, each(without));
    report.note(REST, "of it, the controllers'", Unit::Bytes, each(with - without));
    restart(home, plan, report).await
}

/// Makes them and lets them rest.
async fn made(up: &mut Up, plan: &Plan, empty: f64, report: &mut Report) -> Result<()> {
    let fleet = Fleet::prepare(up.client().await?, plan.resting, RETENTION).await?;
    up.at_rest().await?;
    let (started, before) = (Instant::now(), up.processor()?);
    fleet.create(Duration::ZERO).await?;
    let rested = up.at_rest().await?;
    let (took, used) = (rested.duration_since(started), up.processor()?.saturating_sub(before));
    let name = format!("{} instances, from the first create until all rest", plan.resting);
    report.note(REST, name, Unit::Seconds, took.as_secs_f64());
    let each = used.as_secs_f64() * 1e6 / count(plan.resting);
    report.note(REST, "processor time of it, per instance", Unit::Microseconds, each);
    let resident = up.resident()?;
    note_memory(report, "resident, all made", resident);
    let each = (resident - empty) / count(plan.resting);
    report.note(REST, "resident per instance, all made", Unit::Bytes, each);

    let before = up.processor()?;
    let watched = Instant::now();
    tokio::time::sleep(plan.rest).await;
    let used = up.processor()?.saturating_sub(before).as_secs_f64();
    let share = 100.0 * used / watched.elapsed().as_secs_f64();
    let name = format!("of one processor, over {} s", plan.rest.as_secs());
    report.note(REST, name, Unit::Percent, share);
    // Last, since answering takes memory.
    fleet.check().await
}

/// Starts it on what is there; says what it has in memory once it rests.
async fn again(
    home: &Home,
    controllers: Controllers,
    plan: &Plan,
    report: &mut Report,
) -> Result<f64> {
    let mut up = Up::start(home, controllers).await?;
    let ready = up.ready;
    up.at_rest().await?;
    let (resident, peak, used) = (up.resident()?, up.peak()?, up.processor()?);
    up.stop().await?;
    let what = match controllers {
        Controllers::On => "after a restart",
        Controllers::Off => "after a restart without controllers",
    };
    note_memory(report, &format!("resident, {what}"), resident);
    note_memory(report, &format!("the most that it was, {what}"), peak);
    report.note(REST, format!("ready, {what}"), Unit::Seconds, ready.as_secs_f64());
    let each = used.as_secs_f64() * 1e6 / count(plan.resting);
    report.note(REST, format!("processor time per instance, {what}"), Unit::Microseconds, each);
    Ok(resident)
}

fn note_memory(report: &mut Report, name: &str, bytes: f64) {
    report.note(REST, name, Unit::Megabytes, bytes / MEGABYTE);
}

/// Opens what is there in this process, where the queue can be asked.
async fn restart(home: &Home, plan: &Plan, report: &mut Report) -> Result<()> {
    let used = || own_processor().context("cannot tell what this process uses");
    let (started, before) = (Instant::now(), used()?);
    let engine = Engine::open(Config::at(home.data())).await?;
    let (opened, version) = (started.elapsed(), engine.version());
    let mut tasks = Tasks::default();
    let client = engine.client_named(operator(), "sojourn");
    let setup = Setup {
        clock: Arc::new(SystemClock),
        watching: WatchSettings::default(),
        driver_factory: Arc::new(SystemDriverFactory { dial: Arc::new(Direct) }),
        web: WebService { gateway: true, reports: true, public_url: Some(home.web_url()) },
        game: GameSetup::default(),
        own_program: ProgramPath("sojourn".to_owned()),
        limits: Limits::default(),
        metrics: Metrics::default(),
        providers: Providers::default(),
        actuators: Actuators::default(),
        replica: None,
    };
    let served = ServedLab::start(client.clone(), setup, &mut tasks).await?;
    let family = served.lead(client, &mut tasks).await?;
    let filled = started.elapsed();
    while family.queue.depth() != (0, plan.resting) || !family.is_idle() {
        if started.elapsed() > ARM_TIMEOUT {
            bail!("of {} timers, these are armed: {:?}", plan.resting, family.queue.depth());
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    let (armed, used) = (started.elapsed(), used()?.saturating_sub(before));
    let looks = family.reconciles.total();
    tasks.stop().await;
    let writes = engine.version() - version;
    engine.end_watches();
    engine.close().await;
    ensure!(writes <= 1, "a restart wrote {writes} times");

    let seconds = Unit::Seconds;
    report.note(RESTART, "until the engine is open", seconds, opened.as_secs_f64());
    report.note(RESTART, "until every cache is filled", seconds, filled.as_secs_f64());
    let name = format!("until {} timers are armed", plan.resting);
    report.note(RESTART, name, seconds, armed.as_secs_f64());
    report.note(RESTART, "processor time", seconds, used.as_secs_f64());
    let each = count(usize::try_from(looks)?) / count(plan.resting);
    report.note(RESTART, "looks at each instance", Unit::Number, each);
    Ok(())
}

/// The account of the controllers, as `sojourn up` has it.
fn operator() -> Identity {
    let of = format!("system:serviceaccounts:{}", shared::NAMESPACE);
    Identity::authenticated(User {
        name: format!("system:serviceaccount:{}:{}", shared::NAMESPACE, install::ACCOUNT),
        groups: vec!["system:serviceaccounts".to_owned(), of],
        ..User::default()
    })
}
