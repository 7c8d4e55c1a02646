//! Where the use of Instances is seen, and what is asked about it, as the configuration says.

use std::net::IpAddr;

use sojourn_api::lab::LabConfig;
use sojourn_core::activity::Source;
use sojourn_core::key::Key;
use sojourn_core::lab::source;

use super::caches::LabCaches;
use crate::collector::{CollectorConfig, Directory, FamilySources, Identity, Options, Polled};
use crate::driver::DriverOptions as _;
use crate::family::WebService;

pub(super) const SOURCES: FamilySources = FamilySources { family: "lab", sources: &source::ALL };

impl Directory for LabCaches {
    fn by_service(&self, namespace: &str, service: &str) -> Option<Key> {
        Self::by_service(self, namespace, service)
    }

    fn by_address(&self, ip: IpAddr, port: Option<u16>) -> Option<Key> {
        Self::by_address(self, ip, port)
    }
}

/// The sources that report by themselves, as far as this process serves them.
pub(super) fn pushed_sources(web: &WebService) -> Vec<Source> {
    let served = [(source::GATEWAY, web.gateway), (source::REPORT, web.reports)];
    served.into_iter().filter(|(_, served)| *served).map(|(source, _)| source).collect()
}

/// The sources that the configuration and this process have.
pub(super) fn configured_sources(config: &LabConfig, pushed: &[Source]) -> Vec<Source> {
    source::ALL
        .into_iter()
        .filter(|source| config.queries(*source).is_some() || pushed.contains(source))
        .collect()
}

/// What is asked of a metrics server about a source, if anything is.
pub(crate) fn polled(config: &LabConfig, source: Source) -> Option<Polled> {
    let (available, data) = config.queries(source)?;
    let labels = &config.activity_labels;
    let identity = if source == source::NGINX {
        Identity::service(&labels.service_namespace, &labels.service)
    } else {
        Identity::address(&labels.ip, &labels.port)
    };
    Some(Polled { source, available: available.to_owned(), data: data.to_owned(), identity })
}

/// How use is collected.
pub(super) fn collector_config(config: &LabConfig, pushed: Vec<Source>) -> CollectorConfig {
    let polled = source::ALL.into_iter().filter_map(|source| polled(config, source));
    let options = Options {
        interval: config.activity_interval,
        step: config.query_step,
        look_back: config.look_back,
        polled: polled.collect(),
        pushed,
    };
    CollectorConfig { options, drivers: config.driver_config() }
}
