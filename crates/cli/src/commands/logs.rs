//! `sojourn logs`: what a Pod has written, as it is.

use std::pin::pin;

use anyhow::anyhow;
use futures::AsyncReadExt as _;

use super::connect::{self, ApiContext};
use super::exchange::reading;
use super::request::span;
use super::resource::Resources;
use super::table;
use crate::args::Logs;
use crate::exit::{Exit, Failure};

/// So much is passed on at a time.
const CHUNK_BYTES: usize = 32 << 10;

pub(super) fn run(logs: Logs) -> Result<(), Failure> {
    let query = query(&logs)?;
    connect::run(async move {
        let api_context = ApiContext::find(&logs.connection).await?;
        let name = pod_name(&logs.pod)?;
        let resources = Resources::discover(&api_context).await?;
        let pods = resources.one("pods")?;
        let path = format!("{}/log", pods.path(&api_context.namespace, name)?);
        let query: Vec<_> = query.iter().map(|(key, value)| (*key, value.as_str())).collect();
        let failed = |error: kube::Error| {
            let lacks_container = matches!(&error, kube::Error::Api(status) if status.code == 400 && logs.container.is_none());
            let what = format!("cannot read the logs of pod/{name}");
            let mut failure = api_context.failed(error, &what);
            if lacks_container {
                "If it has several containers, say which: -c NAME.".clone_into(&mut failure.advice);
            }
            failure
        };
        let request = reading(&path, &query, "*/*").request().map_err(failed)?;
        let stream = api_context.streaming_client()?.request_stream(request).await;
        let mut stream = pin!(stream.map_err(failed)?);
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            let read = stream.read(&mut chunk).await.map_err(|error| {
                let error = anyhow!("the logs of pod/{name} broke off: {error}");
                Failure::unavailable(error, "See whether the API is still there, and ask again.")
            })?;
            // A reader that went away wants no more.
            if read == 0 || table::try_write(&chunk[..read]).is_err() {
                return Ok(());
            }
        }
    })
}

/// The name in `web` or `pod/web`.
fn pod_name(typed: &str) -> Result<&str, Failure> {
    match typed.split_once('/') {
        None => Ok(typed),
        Some(("pod" | "pods" | "po", name)) => Ok(name),
        Some((kind, _)) => {
            let error = anyhow!("only Pods have logs, and {kind} is none");
            let advice = "Name one: sojourn get pods tells which there are.";
            Err(Failure::new(Exit::Usage, error, advice))
        }
    }
}

fn query(logs: &Logs) -> Result<Vec<(&'static str, String)>, Failure> {
    let mut query = Vec::new();
    if let Some(container) = &logs.container {
        query.push(("container", container.clone()));
    }
    for (key, wanted) in [("follow", logs.follow), ("previous", logs.previous)] {
        if wanted {
            query.push((key, "true".to_owned()));
        }
    }
    if let Some(lines) = logs.tail {
        query.push(("tailLines", lines.to_string()));
    }
    if let Some(since) = &logs.since {
        // The API counts in whole seconds, and none is no answer.
        let since = span(since)?;
        let up = i64::from(since.subsec_nanos() > 0);
        query.push(("sinceSeconds", (since.as_secs() + up).max(1).to_string()));
    }
    Ok(query)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::super::resource::encoded;
    use super::*;
    use crate::args::{Args, Command};

    fn asked(typed: &[&str]) -> Result<Vec<String>, Exit> {
        let all = [&["sojourn", "logs", "web"], typed].concat();
        let Command::Logs(logs) = Args::parse_from(all).command else { panic!("not logs") };
        let query = query(&logs).map_err(|failure| failure.exit)?;
        Ok(query.iter().map(|(key, value)| format!("{key}={}", encoded(value))).collect())
    }

    #[test]
    fn what_is_wanted_of_the_logs_is_asked_for() {
        assert_eq!(asked(&[]), Ok(vec![]));
        assert_eq!(
            asked(&["-c", "a", "-f", "--tail", "0", "--since", "1500ms"]).expect("a query"),
            ["container=a", "follow=true", "tailLines=0", "sinceSeconds=2"]
        );
        assert_eq!(
            asked(&["-p", "--since", "0s"]).expect("a query"),
            ["previous=true", "sinceSeconds=1"]
        );
        assert_eq!(asked(&["--since", "soon"]), Err(Exit::Usage));
    }

    #[test]
    fn a_pod_may_be_named_with_its_kind() {
        assert_eq!(pod_name("web").ok(), Some("web"));
        assert_eq!(pod_name("pod/web").ok(), Some("web"));
        assert!(pod_name("job/web").is_err());
    }
}
