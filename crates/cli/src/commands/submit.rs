//! `sojourn submit`: what the Job of a submission runs, and `sojourn ssh-tracker`.

use std::time::Duration;

use anyhow::{Context as _, anyhow};
use sojourn_drivers::connection::{self, Ports};
use sojourn_drivers::guard::Allow;
use sojourn_drivers::submission::{Progress, SubmissionRequest, submit};
use tokio::net::TcpListener;

use super::connect;
use super::signals::Signals;
use crate::args::{SshTracker, Submit};
use crate::exit::{Exit, Failure};
use crate::printer::Printer;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// A server that takes nothing for so long has failed.
const STALL_TIMEOUT: Duration = Duration::from_secs(120);

pub(super) fn run(args: Submit, printer: Printer) -> Result<(), Failure> {
    connect::run(async move {
        let usage = |error: anyhow::Error| Failure::new(Exit::Usage, error, "");
        let allow = Allow::parse(&args.allow_address).map_err(|e| usage(e.into()))?;
        let block = args.device.is_some();
        let root = args.device.or(args.root);
        let root = root.ok_or_else(|| usage(anyhow!("neither --root nor --device")))?;
        let submission = SubmissionRequest {
            root,
            block,
            filename: args.filename,
            url: args.url,
            method: args.method.parse().map_err(|e| usage(anyhow::Error::from(e)))?,
            secret_dir: args.secret_dir,
            ca_file: args.ca_file,
            idempotency_key: args.idempotency_key,
            connect_timeout: CONNECT_TIMEOUT,
            stall_timeout: STALL_TIMEOUT,
        };
        let allowed = move |address| allow.allows(address);
        let done = submit(submission, &allowed, |progress| print_progress(printer, progress)).await;
        let message = match &done {
            Ok(receipt) => receipt.to_termination_message(),
            Err(error) => format!("{:#}", anyhow!("{error}")),
        };
        // Without it the operator does not learn the receipt; the data is there all the same.
        if let Err(error) = std::fs::write(&args.receipt, message) {
            printer.warning(format_args!("cannot write {}: {error}", args.receipt.display()));
        }
        let receipt = done.map_err(|error| Failure::unavailable(error, ""))?;
        printer.good(format_args!("Submitted {} bytes: {}", receipt.size, receipt.receipt));
        Ok(())
    })
}

fn print_progress(printer: Printer, progress: Progress) {
    match progress {
        Progress::Measured { bytes } => {
            printer.line(format_args!("The archive will have {bytes} bytes."));
        }
        Progress::Sent { bytes } => printer.line(format_args!("Sent {bytes} bytes.")),
    }
}

pub(super) fn track(args: SshTracker, printer: Printer) -> Result<(), Failure> {
    connect::run(async move {
        let mut signals = Signals::listen()?;
        let ports = Ports::parse(&args.port)
            .map_err(|error| Failure::new(Exit::Usage, error, "Write 22 or 2200-2299."))?;
        let listener = TcpListener::bind(args.listen)
            .await
            .with_context(|| format!("cannot listen on {}", args.listen))
            .map_err(|error| Failure::unavailable(error, "Choose another: --listen ADDR."))?;
        let address = listener.local_addr().unwrap_or(args.listen);
        printer.good(format_args!("Metrics are at http://{address}/metrics."));
        let options = connection::Options { ports, ..connection::Options::default() };
        tokio::select! {
            ended = connection::track(options, listener) => {
                ended.map_err(|error| Failure::unavailable(error, "See that /proc is readable."))
            }
            () = signals.requested() => Ok(()),
        }
    })
}
