//! What is measured of a server, and in which order.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use sojourn_apiserver::auth::identity::Identity;
use sojourn_apiserver::{Config, Engine};
use sojourn_rbac::{SUPERUSER_GROUP, User};

use super::client::Client;
use super::load::{self, Done, Until};
use super::plan::Plan;
use super::report::{Column, Figure, Goal, Report, Unit};
use super::server::Server;
use super::workload::{self, LISTED, NAMESPACE};
use crate::number::{count, percentile};
use crate::process::{Processes, own_processor};

const START: &str = "start and memory";
const WRITES: &str = "writes of 1.4 KB objects";
const READS: &str = "reads";
const MEGABYTE: f64 = 1e6;
const PAGE: usize = 500;
/// Objects that the clients of an update take turns with: enough that no two meet.
const UPDATED: usize = 1_000;
/// Clients that fill a store.
const FILLERS: usize = 32;

/// Somebody to measure.
struct Subject<'a> {
    column: Column,
    admin: Client,
    /// Bound by RBAC, unlike the administrator.
    account: Client,
    /// None in process: there the clients are part of the same one.
    processes: Option<&'a Processes>,
}

/// A server that has just been started on an empty folder.
pub(crate) async fn fresh(
    server: &Server,
    column: Column,
    plan: &Plan,
    report: &mut Report,
) -> Result<()> {
    let ready = Figure::new(START, "ready, on an empty folder", Unit::Milliseconds);
    report.note(&ready.goal(Goal::AtMost(50.0)), column, milliseconds(server.ready));
    note_start(server, "on an empty folder", column, report);
    tokio::time::sleep(plan.settle).await;
    note_idle(server, "", column, report);
    let (admin, account) = prepared(server).await?;
    let subject = Subject { column, admin, account, processes: Some(&server.processes) };
    subject.work(plan, report).await
}

/// A server that has just been started on what the last one stored.
pub(crate) async fn started_again(
    server: &Server,
    column: Column,
    plan: &Plan,
    report: &mut Report,
) {
    let ready = Figure::new(START, "ready, a second start", Unit::Milliseconds);
    report.note(&ready.goal(Goal::AtMost(50.0)), column, milliseconds(server.ready));
    note_start(server, "a second start", column, report);
    tokio::time::sleep(plan.settle).await;
    note_idle(server, ", a second start", column, report);
}

fn note_start(server: &Server, which: &str, column: Column, report: &mut Report) {
    let name = format!("processor time until ready, {which}");
    let figure = Figure::new(START, name, Unit::Milliseconds);
    report.note_if_known(&figure, column, server.processes.processor().map(milliseconds));
}

fn note_idle(server: &Server, which: &str, column: Column, report: &mut Report) {
    let megabytes = |bytes: Option<f64>| bytes.map(|bytes| bytes / MEGABYTE);
    let resident = Figure::new(START, format!("resident, idle{which}"), Unit::Megabytes);
    let resident = resident.goal(Goal::AtMost(30.0));
    report.note_if_known(&resident, column, megabytes(server.processes.resident()));
    let name = format!("of it no pages of the program's file{which}");
    let anonymous = Figure::new(START, name, Unit::Megabytes);
    report.note_if_known(&anonymous, column, megabytes(server.processes.anonymous()));
}

/// The engine inside of this process, on an empty folder.
pub(crate) async fn in_process(folder: &Path, plan: &Plan, report: &mut Report) -> Result<()> {
    let column = Column::InProcess;
    let started = Instant::now();
    let engine = Engine::open(Config::at(folder.join("data"))).await?;
    let ready = Figure::new(START, "ready, on an empty folder", Unit::Milliseconds);
    report.note(&ready.goal(Goal::AtMost(50.0)), column, milliseconds(started.elapsed()));
    let client = |name: &str, groups: &[&str]| {
        let groups = groups.iter().copied().map(str::to_owned).collect();
        let user = User { name: name.to_owned(), groups, ..User::default() };
        Client::in_process(engine.client(Identity::authenticated(user)))
    };
    let admin = client("admin", &[SUPERUSER_GROUP]);
    let account = client(workload::USER, &workload::GROUPS);
    workload::prepare(&admin).await?;
    workload::settled(&account).await?;
    Subject { column, admin, account, processes: None }.work(plan, report).await?;
    engine.close().await;
    Ok(())
}

/// The administrator and the account of a server, with everything in effect.
async fn prepared(server: &Server) -> Result<(Client, Client)> {
    let admin = server.admin().await?;
    workload::prepare(&admin).await?;
    let token = workload::token(&admin).await?;
    let account = Client::connect(&server.address, &token).await?;
    workload::settled(&account).await?;
    Ok((admin, account))
}

impl Subject<'_> {
    async fn work(&self, plan: &Plan, report: &mut Report) -> Result<()> {
        self.creates(plan, report).await?;
        self.changes(plan, report).await?;
        self.custom(plan, report).await?;
        fill(&self.account, LISTED, plan.some).await?;
        self.lists(LISTED, plan.some, plan.lists, report).await?;
        self.watches(plan, report).await
    }

    async fn creates(&self, plan: &Plan, report: &mut Report) -> Result<()> {
        let until = Until::Elapsed(plan.burst);
        for clients in [1, 16, 64] {
            let before = (self.processor(), own_processor());
            let done = load::run(&self.account, clients, until, move |number| {
                workload::create_config_map(NAMESPACE, &format!("created-{clients}-{number}"))
            })
            .await?;
            let s = if clients == 1 { "" } else { "s" };
            let rate = writes(format!("create ConfigMaps, {clients} client{s}"));
            if clients == 16 {
                let rate = rate.goal(Goal::Times { tls: 5.0, in_process: 4.0 });
                report.note(&rate, self.column, done.per_second());
                self.note_processor(before, done, report);
            } else {
                report.note(&rate, self.column, done.per_second());
            }
        }
        let as_admin = writes("create ConfigMaps, 16 clients, system:masters");
        let done = load::run(&self.admin, 16, until, |number| {
            workload::create_config_map(NAMESPACE, &format!("by-admin-{number}"))
        })
        .await?;
        report.note(&as_admin, self.column, done.per_second());
        Ok(())
    }

    /// To be asked for late: kube-apiserver lets requests wait when they create objects of a kind
    /// that it has only known for two seconds.
    async fn custom(&self, plan: &Plan, report: &mut Report) -> Result<()> {
        let figure = writes("create custom resources, 16 clients");
        let done = load::run(&self.account, 16, Until::Elapsed(plan.burst), |number| {
            workload::create_widget(&format!("widget-{number}"))
        })
        .await?;
        report.note(&figure, self.column, done.per_second());
        Ok(())
    }

    fn processor(&self) -> Option<Duration> {
        self.processes?.processor()
    }

    fn note_processor(
        &self,
        before: (Option<Duration>, Option<Duration>),
        done: Done,
        report: &mut Report,
    ) {
        let each = |after: Option<Duration>, before: Option<Duration>| {
            let used = after.zip(before).map(|(after, before)| after.saturating_sub(before));
            used.map(|used| used.as_secs_f64() * 1e6 / count(done.requests.max(1)))
        };
        let of_server = "processor time per create, server";
        let of_server = Figure::new(WRITES, of_server, Unit::Microseconds);
        report.note_if_known(&of_server, self.column, each(self.processor(), before.0));
        let of_clients = "processor time per create, clients (in process: both)";
        let of_clients = Figure::new(WRITES, of_clients, Unit::Microseconds).alone();
        report.note_if_known(&of_clients, self.column, each(own_processor(), before.1));
    }

    async fn changes(&self, plan: &Plan, report: &mut Report) -> Result<()> {
        let until = Until::Elapsed(plan.burst);
        let name = |number: usize| format!("changed-{}", number % UPDATED);
        load::run(&self.account, FILLERS, Until::Count(UPDATED), move |number| {
            workload::create_config_map(NAMESPACE, &name(number))
        })
        .await?;
        let updated = load::run(&self.account, 16, until, move |number| {
            workload::update_config_map(NAMESPACE, &name(number), &format!("updated {number}"))
        });
        report.note(&writes("update (PUT), 16 clients"), self.column, updated.await?.per_second());
        let patched = load::run(&self.account, 16, until, move |number| {
            workload::patch_config_map(NAMESPACE, &name(number), &format!("patched {number}"))
        });
        report.note(&writes("merge patch, 16 clients"), self.column, patched.await?.per_second());
        Ok(())
    }

    async fn lists(
        &self,
        namespace: &str,
        objects: usize,
        times: usize,
        report: &mut Report,
    ) -> Result<()> {
        let whole = Figure::new(READS, format!("list {objects} ConfigMaps"), Unit::Milliseconds);
        let paged = format!("list {objects} ConfigMaps in pages of {PAGE}");
        let paged = Figure::new(READS, paged, Unit::Milliseconds);
        let before = self.processor();
        for _ in 0..times {
            let started = Instant::now();
            let length = load::list(&self.account, namespace).await?;
            report.note(&whole, self.column, milliseconds(started.elapsed()));
            ensure!(length > objects * 1_400, "a list of {objects} objects has {length} bytes");
        }
        let used = self.processor().zip(before).map(|(after, before)| after.saturating_sub(before));
        let each = used.map(|used| milliseconds(used) / count(times));
        let of_server = format!("list {objects} ConfigMaps, processor time of the server");
        let of_server = Figure::new(READS, of_server, Unit::Milliseconds);
        report.note_if_known(&of_server, self.column, each);
        for _ in 0..times {
            let started = Instant::now();
            let pages = load::list_paged(&self.account, namespace, PAGE).await?;
            report.note(&paged, self.column, milliseconds(started.elapsed()));
            // Controllers may have put a ConfigMap of their own there.
            ensure!(pages >= objects.div_ceil(PAGE), "{objects} objects came in {pages} pages");
        }
        Ok(())
    }

    async fn watches(&self, plan: &Plan, report: &mut Report) -> Result<()> {
        let Plan { watchers, events, .. } = *plan;
        let took = load::fan_out(&self.account, watchers, events, "event").await?;
        let took: Vec<f64> = took.into_iter().map(milliseconds).collect();
        for (name, share) in [("p50", 0.5), ("p99", 0.99)] {
            let name = format!("create to the last of {watchers} watches, {name}");
            let figure = Figure::new(READS, name, Unit::Milliseconds);
            report.note_if_known(&figure, self.column, percentile(&took, share));
        }
        Ok(())
    }
}

/// A server with so many objects that their memory and the start with them can be told; it is
/// stopped and, by `restart`, started again on what it has stored.
pub(crate) async fn with_many(
    server: Server,
    restart: impl AsyncFnOnce() -> Result<Server>,
    column: Column,
    plan: &Plan,
    report: &mut Report,
) -> Result<()> {
    let many = plan.many;
    let (admin, account) = prepared(&server).await?;
    tokio::time::sleep(plan.settle).await;
    let before = server.processes.resident();
    let filled = fill(&account, LISTED, many).await?;
    let filling = writes(format!("create the first {many} ConfigMaps, {FILLERS} clients"));
    report.note(&filling, column, filled.per_second());
    tokio::time::sleep(plan.settle).await;
    let each = |bytes: f64, before: f64| (bytes - before) / count(many);
    let created = Figure::new(START, format!("resident per object, {many} created"), Unit::Bytes);
    let after = server.processes.resident();
    let grown = after.zip(before).map(|(after, before)| each(after, before));
    report.note_if_known(&created.goal(Goal::AtMost(3_000.0)), column, grown);

    let subject = Subject { column, admin, account, processes: Some(&server.processes) };
    subject.lists(LISTED, many, plan.lists.min(3), report).await?;
    let peak = Figure::new(START, format!("peak resident, after lists of {many}"), Unit::Megabytes);
    report.note_if_known(&peak, column, server.processes.peak().map(|bytes| bytes / MEGABYTE));
    drop(subject);
    server.processes.stop().await?;

    let server = restart().await.context("cannot start it again")?;
    let ready = Figure::new(START, format!("ready, with {many} objects"), Unit::Milliseconds);
    report.note(&ready, column, milliseconds(server.ready));
    tokio::time::sleep(plan.settle).await;
    let loaded = Figure::new(START, format!("resident per object, {many} loaded"), Unit::Bytes);
    let grown = server.processes.resident().zip(before).map(|(after, before)| each(after, before));
    report.note_if_known(&loaded.goal(Goal::AtMost(3_000.0)), column, grown);
    server.processes.stop().await
}

async fn fill(client: &Client, namespace: &'static str, objects: usize) -> Result<Done> {
    load::run(client, FILLERS, Until::Count(objects), move |number| {
        workload::create_config_map(namespace, &format!("object-{number:06}"))
    })
    .await
}

fn writes(name: impl Into<String>) -> Figure {
    Figure::new(WRITES, name, Unit::PerSecond)
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}
