//! `/livez`, `/readyz` and `/healthz`, worded as upstream words them.
//!
//! Readiness says whether the store writes. Liveness does not: a full disk is not mended by starting
//! anew, and reads go on meanwhile.

use std::sync::Arc;

use axum::body::Body;
use http::{HeaderValue, Response, StatusCode, header};

use crate::engine::Shared;
use crate::request::Query;

/// What is found out for an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Check {
    /// Whoever answers is there.
    Ping,
    /// Writes reach the disk.
    Store,
}

impl Check {
    const fn name(self) -> &'static str {
        match self {
            Self::Ping => "ping",
            Self::Store => "store",
        }
    }

    async fn run(self, engine: &Shared) -> Result<(), String> {
        match self {
            Self::Ping => Ok(()),
            Self::Store => engine.store.check_writes().await,
        }
    }
}

fn checks_of(endpoint: &str) -> Option<&'static [Check]> {
    match endpoint {
        "livez" | "healthz" => Some(&[Check::Ping]),
        "readyz" => Some(&[Check::Ping, Check::Store]),
        _ => None,
    }
}

/// Nothing, if the path is not one of these.
pub(super) async fn answer(
    engine: &Arc<Shared>,
    path: &str,
    query: Option<&str>,
) -> Option<Response<Body>> {
    let path = path.trim_matches('/');
    let (endpoint, single) = path.split_once('/').map_or((path, None), |(e, s)| (e, Some(s)));
    let checks = checks_of(endpoint)?;
    if let Some(single) = single {
        let check = checks.iter().find(|check| check.name() == single)?;
        return Some(match check.run(engine).await {
            Ok(()) => text(StatusCode::OK, "ok".to_owned()),
            Err(why) => failed(format!("internal server error: {why}\n")),
        });
    }
    let mut results = Vec::with_capacity(checks.len());
    for check in checks {
        results.push((check.name(), check.run(engine).await));
    }
    let is_verbose = Query::parse(query).get("verbose").is_some();
    let is_well = results.iter().all(|(_, result)| result.is_ok());
    if is_well && !is_verbose {
        return Some(text(StatusCode::OK, "ok".to_owned()));
    }
    let report = report(endpoint, &results);
    Some(if is_well { text(StatusCode::OK, report) } else { failed(report) })
}

/// One line for each check, and what follows from them.
fn report(endpoint: &str, results: &[(&str, Result<(), String>)]) -> String {
    let mut report = String::new();
    for (name, result) in results {
        match result {
            Ok(()) => report.push_str(&format!("[+]{name} ok\n")),
            Err(why) => report.push_str(&format!("[-]{name} failed: {why}\n")),
        }
    }
    let passed = if results.iter().all(|(_, result)| result.is_ok()) { "passed" } else { "failed" };
    report.push_str(&format!("{endpoint} check {passed}\n"));
    report
}

fn failed(report: String) -> Response<Body> {
    tracing::warn!(report, "a health check failed");
    text(StatusCode::INTERNAL_SERVER_ERROR, report)
}

pub(super) fn text(status: StatusCode, body: String) -> Response<Body> {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, plain);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_names_every_check_and_why_it_failed() {
        let ok = ("ping", Ok(()));
        assert_eq!(report("livez", std::slice::from_ref(&ok)), "[+]ping ok\nlivez check passed\n");
        let failed = ("store", Err("the disk is full".to_owned()));
        assert_eq!(
            report("readyz", &[ok, failed]),
            "[+]ping ok\n[-]store failed: the disk is full\nreadyz check failed\n"
        );
    }
}
