//! One look at the use of all objects: how many queries, and how long.

use sojourn_core::lab::source;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Result, ensure};
use jiff::{SignedDuration, Timestamp};
use sojourn_core::key::Key;
use sojourn_drivers::metrics::Prometheus;
use sojourn_drivers::metrics::prometheus::Address;
use sojourn_operator::collector::{
    Collector, CoverageRegistry, Directory, Identity, Options, Polled,
};
use sojourn_operator::tracker::{FLUSH_INTERVAL, Tracker};

use super::plan::Plan;
use super::prometheus::{self, AVAILABLE, BY_ADDRESS, BY_SERVICE, NAMESPACE, PORT, STEP, Server};
use crate::number::{count, median};
use crate::report::{Report, Unit};

const SECTION: &str = "one look at the use of all instances";

pub(crate) async fn measure(plan: &Plan, report: &mut Report) -> Result<()> {
    for objects in plan.collected {
        let server = Server::start(objects).await?;
        let mut looking = CollectorHarness::at(&server, objects)?;
        let first = looking.look().await?;
        let mut looks = Vec::new();
        for _ in 0..plan.ticks {
            looks.push(looking.look().await?);
        }
        let queries = looks[0].queries;
        ensure!(looks.iter().all(|look| look.queries == queries), "the number of queries varies");
        let took: Vec<f64> = looks.iter().map(|look| look.milliseconds).collect();
        report.note(SECTION, format!("{objects}: queries"), Unit::Number, count(queries));
        report.note(SECTION, format!("{objects}: time"), Unit::Milliseconds, median(&took));
        let name = |what| format!("{objects}: the first look, at six hours: {what}");
        report.note(SECTION, name("queries"), Unit::Number, count(first.queries));
        report.note(SECTION, name("time"), Unit::Milliseconds, first.milliseconds);
    }
    Ok(())
}

/// What a look took.
struct Look {
    queries: usize,
    milliseconds: f64,
}

/// A collector with three sources, whose looks come one interval after the other.
struct CollectorHarness {
    collector: Collector,
    tracker: Tracker,
    objects: usize,
    now: Timestamp,
}

impl CollectorHarness {
    fn at(server: &Server, objects: usize) -> Result<Self> {
        let by = |source, data: &str, identity| Polled {
            source,
            available: AVAILABLE.to_owned(),
            data: data.to_owned(),
            identity,
        };
        let polled = vec![
            by(
                source::NGINX,
                BY_SERVICE,
                Identity::service("exported_namespace", "exported_service"),
            ),
            by(
                source::BASTION_SSH,
                BY_ADDRESS,
                Identity::address("destination_ip", "destination_port"),
            ),
            by(
                source::WEB_SSH,
                BY_ADDRESS,
                Identity::address("destination_ip", "destination_port"),
            ),
        ];
        let step = SignedDuration::from_secs(STEP.into());
        let options = Options { interval: step, step, polled, ..Options::default() };
        let address = Address { url: server.url(), token_file: None, ca_file: None };
        let tracker = Tracker::new(FLUSH_INTERVAL, Arc::new(|_| {}));
        let collector = Collector::new(
            options,
            Some(Arc::new(Prometheus::new(address)?)),
            Arc::new(Names::of(objects)?),
            tracker.clone(),
            Arc::new(CoverageRegistry::default()),
            Arc::new(|_| {}),
        );
        Ok(Self { collector, tracker, objects, now: "2026-01-01T00:00:00Z".parse()? })
    }

    async fn look(&mut self) -> Result<Look> {
        self.now += SignedDuration::from_secs(STEP.into());
        let started = Instant::now();
        let tally = self.collector.tick(self.now).await;
        let milliseconds = started.elapsed().as_secs_f64() * 1e3;
        ensure!(tally.failed == 0 && tally.unmatched == 0, "a look failed: {tally:?}");
        ensure!(self.tracker.kept() == self.objects, "{} were used", self.tracker.kept());
        Ok(Look { queries: tally.queries, milliseconds })
    }
}

/// The objects by what metrics call them.
struct Names {
    services: HashMap<String, Key>,
    addresses: HashMap<Ipv4Addr, Key>,
}

impl Names {
    fn of(objects: usize) -> Result<Self> {
        let key = |n| Key::new(NAMESPACE, format!("object-{n}"));
        let services = (0..objects).map(|n| (format!("object-{n}"), key(n))).collect();
        let address = |n| Ok((prometheus::address(n)?, key(n)));
        let addresses = (0..objects).map(address).collect::<Result<_>>()?;
        Ok(Self { services, addresses })
    }
}

impl Directory for Names {
    fn by_service(&self, namespace: &str, service: &str) -> Option<Key> {
        if namespace == NAMESPACE { self.services.get(service).cloned() } else { None }
    }

    fn by_address(&self, ip: IpAddr, port: Option<u16>) -> Option<Key> {
        match ip {
            IpAddr::V4(ip) if port == Some(PORT) => self.addresses.get(&ip).cloned(),
            _ => None,
        }
    }
}
