//! `sojourn sdk`: a game server's SDK within its Pod.

mod upstream;

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use anyhow::{Context as _, anyhow};
use sojourn_core::key::Key;
use sojourn_operator::game::sdk::sidecar::Sidecar;
use sojourn_operator::game::sdk::{SdkCode, ServerIdentity, serve};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use self::upstream::HttpUpstream;
use super::signals::Signals;
use crate::args;
use crate::exit::{Exit, Failure};
use crate::printer::Printer;

const ADVICE: &str = "The operator starts it so: see `sdk` in game.yaml.";

pub(super) fn run(args: &args::Sdk, printer: Printer) -> Result<(), Failure> {
    // One thread is enough for one server, and there is one of these for each.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start")
        .map_err(|error| Failure::unavailable(error, ""))?;
    runtime.block_on(serve_pod(args, printer))
}

async fn serve_pod(args: &args::Sdk, printer: Printer) -> Result<(), Failure> {
    let mut signals = Signals::listen()?;
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let usage = |error: anyhow::Error| Failure::new(Exit::Usage, error, ADVICE);
    let place = Place::find(variable).map_err(usage)?;
    let ca_bundle = variable("SOJOURN_SDK_CA");
    let key = &place.identity.key;
    let upstream = HttpUpstream::new(&args.url, key, args.token_file.clone(), ca_bundle.as_deref())
        .map_err(usage)?;
    let listeners = place.listen().await?;
    let (sidecar, work) = Sidecar::new(&place.identity, Arc::new(upstream));
    let stop = CancellationToken::new();
    let mut serving = JoinSet::new();
    for listener in listeners {
        let (identity, code) = (place.identity.clone(), place.code.clone());
        let stopped = stop.clone().cancelled_owned();
        serving.spawn(serve(listener, identity, code, sidecar.clone(), stopped));
    }
    printer.good(format_args!("The SDK of {} is up.", key.name));
    for port in &place.ports {
        printer.field("port", port);
    }
    tokio::select! {
        () = signals.requested() => {}
        () = work => {}
    }
    stop.cancel();
    while serving.join_next().await.is_some() {}
    Ok(())
}

/// Which server it is for, and where that looks for its SDK.
#[derive(Debug)]
struct Place {
    identity: ServerIdentity,
    code: SdkCode,
    /// One of them, if both protocols have the same.
    ports: BTreeSet<u16>,
}

impl Place {
    fn find(variable: impl Fn(&str) -> Option<String>) -> anyhow::Result<Self> {
        let text = |name: &str| variable(name).ok_or_else(|| anyhow!("{name} is not set"));
        let port = |name: &str| -> anyhow::Result<u16> {
            let text = text(name)?;
            let port = text.parse().ok().filter(|port| *port > 0);
            port.with_context(|| format!("{name}={text} is not a port"))
        };
        let key = Key::new(text("SERVER_NAMESPACE")?, text("SERVER_NAME")?);
        Ok(Self {
            // The operator knows by the token which of that name it is.
            identity: ServerIdentity { key, uid: String::new() },
            // Without one nothing equals it, and Agones' routes need none.
            code: SdkCode::new(&variable("API_SERVER_CODE").unwrap_or_default()),
            ports: [port("AGONES_SDK_HTTP_PORT")?, port("AGONES_SDK_GRPC_PORT")?].into(),
        })
    }

    async fn listen(&self) -> Result<Vec<TcpListener>, Failure> {
        let mut listeners = Vec::new();
        for port in &self.ports {
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, *port));
            let listener = TcpListener::bind(address)
                .await
                .with_context(|| format!("cannot listen on {address}"))
                .map_err(|error| {
                    let advice = "A container of the Pod that listens there declares the port: then \
                                  another is taken.";
                    Failure::unavailable(error, advice)
                })?;
            listeners.push(listener);
        }
        Ok(listeners)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_for_the_server_that_the_environment_names() {
        let find = |http: &str, grpc: &str, name: &str| {
            let (http, grpc, name) = (http.to_owned(), grpc.to_owned(), name.to_owned());
            Place::find(move |variable| match variable {
                "SERVER_NAME" => Some(name.clone()).filter(|name| !name.is_empty()),
                "SERVER_NAMESPACE" => Some("play".to_owned()),
                "AGONES_SDK_HTTP_PORT" => Some(http.clone()),
                "AGONES_SDK_GRPC_PORT" => Some(grpc.clone()),
                _ => None,
            })
        };
        let place = find("9358", "9357", "arena-1").expect("all is there");
        assert_eq!(place.identity.key, Key::new("play", "arena-1"));
        assert_eq!(place.ports, BTreeSet::from([9_357, 9_358]));
        assert_eq!(find("9358", "9358", "arena-1").expect("all is there").ports.len(), 1);
        find("9358", "0", "arena-1").expect_err("no port");
        find("9358", "grpc", "arena-1").expect_err("no port");
        find("9358", "9357", "").expect_err("no name");
    }
}
