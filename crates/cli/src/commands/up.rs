//! `sojourn up`: the embedded API, served until somebody asks it to stop.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Instant;

use anyhow::Context as _;
use sojourn_apiserver::auth::identity::Identity;
use sojourn_apiserver::{Config, Engine, ServeError, Server};
use sojourn_node::Leaving;
use sojourn_rbac::{SUPERUSER_GROUP, User};
use tokio::runtime::Runtime;

use super::data::{self, open_failure, quoted};
use super::kubeconfig::KubeconfigFile;
use super::node::LocalNode;
use super::signals::Signals;
use crate::args::Up;
use crate::exit::{Exit, Failure};
use crate::printer::Printer;

pub(super) fn run(up: Up, printer: Printer) -> Result<(), Failure> {
    let started = Instant::now();
    let runtime = Runtime::new().context("cannot start the threads that serve requests").map_err(
        |error| {
            Failure::unavailable(error, "See whether this user may have more of them (ulimit -u).")
        },
    )?;
    let served = runtime.block_on(serve(up, started, printer));
    // By now either everything has ended or nobody wants to wait for what has not.
    runtime.shutdown_background();
    served
}

async fn serve(up: Up, started: Instant, printer: Printer) -> Result<(), Failure> {
    let in_memory = up.in_memory;
    let leaving = if up.keep_pods { Leaving::Keep } else { Leaving::End };
    // Signals that come while things are being started must find somebody who listens.
    let mut signals = Signals::listen()?;
    let data = if in_memory { None } else { Some(data::directory(up.data.clone())?) };
    let config = data.clone().map_or_else(Config::in_memory, Config::at).names(up.tls_san.clone());
    let engine = Engine::open(config).await.map_err(open_failure)?;
    let server = engine.serve_tls(up.listen).await.map_err(serve_failure)?;
    let address = reachable(server.address());
    engine.note_holder(&format!("process {}, serving https://{address}", std::process::id()));

    let kubeconfig = match &data {
        Some(data) => KubeconfigFile::in_folder(data),
        None => KubeconfigFile::temporary()?,
    };
    engine.add_token(kubeconfig.token().reveal(), administrator());
    kubeconfig.write(&format!("https://{address}"), server.authority_pem())?;

    printer.good(format_args!("Sojourn is up, ready in {} ms.", started.elapsed().as_millis()));
    welcome(printer, data, server.address(), &kubeconfig);
    let node = if up.no_pods {
        None
    } else {
        let folder = kubeconfig.folder();
        let node = LocalNode::start(&engine, &up.pods, folder, address, in_memory).await?;
        node.describe(printer);
        Some(node)
    };
    try_it(printer, &kubeconfig);
    signals.wanted().await;
    printer.line("Stopping: Pods and open requests may end; Ctrl-C again stops at once.");
    tokio::select! {
        () = stop(engine, server, node, leaving) => printer.line(if in_memory {
            "Stopped. Nothing is kept."
        } else {
            "Stopped. Everything that was acknowledged is on disk."
        }),
        () = signals.wanted() => printer.line("Stopped at once."),
    }
    Ok(())
}

/// Ends Pods first, which need the API to say how they ended; then watches, since they would not end
/// by themselves; then the rest.
async fn stop(engine: Engine, server: Server, node: Option<LocalNode>, leaving: Leaving) {
    if let Some(node) = node {
        node.stop(leaving).await;
    }
    engine.end_watches();
    server.stop().await;
    engine.close().await;
}

fn administrator() -> Identity {
    Identity::authenticated(User {
        name: "admin".to_owned(),
        groups: vec![SUPERUSER_GROUP.to_owned()],
        ..User::default()
    })
}

fn welcome(
    printer: Printer,
    data: Option<PathBuf>,
    listening: SocketAddr,
    kubeconfig: &KubeconfigFile,
) {
    printer.field("API", format_args!("https://{}", reachable(listening)));
    match data {
        Some(data) => printer.field("data", data.display()),
        None => printer.field("data", "in memory, gone when this ends"),
    }
    printer.field("kubeconfig", kubeconfig.path().display());
    if !listening.ip().is_loopback() {
        printer.warning(format_args!(
            "{listening} can be reached from other machines; whoever has the kubeconfig may do \
             anything"
        ));
    }
}

fn try_it(printer: Printer, kubeconfig: &KubeconfigFile) {
    printer.line("Try it:");
    printer.line(format_args!("  export KUBECONFIG={}", quoted(kubeconfig.path())));
    printer.line("  kubectl get namespaces");
    printer.line("Ctrl-C stops it.");
}

/// The address under which a client on this machine reaches the listener.
fn reachable(listening: SocketAddr) -> SocketAddr {
    let ip = match listening.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listening.port())
}

fn serve_failure(error: ServeError) -> Failure {
    let ServeError::Listen { address, source } = &error else {
        return Failure::new(Exit::Bug, error, "Please report it. No data was lost.");
    };
    let elsewhere = SocketAddr::new(address.ip(), 0);
    let advice = match source.kind() {
        ErrorKind::AddrInUse => format!(
            "Something else uses that port. Stop it, or choose another port: --listen {elsewhere} \
             takes any free one."
        ),
        ErrorKind::PermissionDenied => {
            "Ports below 1024 are for the superuser. Choose another: --listen ADDR.".to_owned()
        }
        ErrorKind::AddrNotAvailable => {
            "This machine does not have that address. Choose another: --listen ADDR.".to_owned()
        }
        _ => "Choose another address: --listen ADDR.".to_owned(),
    };
    Failure::unavailable(error, advice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_given_an_address_that_works() {
        for (listening, expected) in [
            ("127.0.0.1:7443", "127.0.0.1:7443"),
            ("0.0.0.0:7443", "127.0.0.1:7443"),
            ("[::]:1", "[::1]:1"),
            ("192.0.2.1:5", "192.0.2.1:5"),
        ] {
            let listening = listening.parse().expect("an address");
            assert_eq!(reachable(listening).to_string(), expected);
        }
    }
}
