//! `sojourn drain-agent`: empties the Nodes of a cluster whose machines are being drained.

use std::sync::Arc;

use axum::Router;
use sojourn_operator::clock::SystemClock;
use sojourn_operator::drain::{self, Selection, Start, StartError};
use sojourn_operator::frame::{Tasks, WatchSettings};
use sojourn_operator::metrics::Metrics;

use super::connect;
use super::operator::{client, config, reach, serve_metrics};
use super::signals::Signals;
use crate::args;
use crate::exit::{Exit, Failure};
use crate::printer::Printer;

pub(super) fn run(args: args::DrainAgent, printer: Printer) -> Result<(), Failure> {
    connect::run(serve(args, printer))
}

async fn serve(args: args::DrainAgent, printer: Printer) -> Result<(), Failure> {
    let mut signals = Signals::listen()?;
    let target = config(Some(&args.kubeconfig)).await?;
    let machines = match &args.machines_kubeconfig {
        Some(path) => config(Some(path)).await?,
        None => target.clone(),
    };
    let clients = (client(&target)?, client(&machines)?);
    reach(&target, &clients.0).await?;
    reach(&machines, &clients.1).await?;
    let metrics = Metrics::default();
    let start = Start {
        target: clients.0,
        machines: clients.1,
        selection: Selection { namespace: args.namespace, labels: args.selector },
        clock: Arc::new(SystemClock),
        watching: WatchSettings::default(),
        metrics: metrics.clone(),
    };
    let mut tasks = Tasks::default();
    drain::start(start, &mut tasks).await.map_err(refused)?;
    let serving = match args.metrics {
        Some(address) => Some(serve_metrics(address, metrics, Router::new(), printer).await?),
        None => None,
    };
    printer.good("The drain agent is up.");
    printer.field("nodes", &target.cluster_url);
    printer.field("machines", &machines.cluster_url);
    let broken = tokio::select! {
        () = signals.requested() => None,
        ended = tasks.any_ended() => Some(ended),
    };
    tasks.stop().await;
    if let Some(serving) = serving {
        serving.abort();
    }
    printer.line("Stopped. What is being drained is gone on with at the next start.");
    match broken {
        Some(ended) => Err(Failure::new(Exit::Bug, ended, "Please report it.")),
        None => Ok(()),
    }
}

fn refused(error: StartError) -> Failure {
    let advice = match &error {
        StartError::Machines(_) => {
            "Are the kinds there (sojourn crds), and may it read Machines? The ClusterRole \
             sojourn-group-drainer is made for it. Machines of another cluster: \
             --machines-kubeconfig FILE."
        }
        StartError::Nodes(_) | StartError::Volumes(_) => {
            "It needs the ClusterRole sojourn-drain-agent in the cluster with the Nodes."
        }
    };
    Failure::unavailable(error, advice)
}
