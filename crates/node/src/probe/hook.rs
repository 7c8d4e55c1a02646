//! `postStart` and `preStop`: one run, within a time limit.

use std::time::Duration;

use k8s_openapi::api::core::v1::{LifecycleHandler, Pod};

use super::{Access, Exec, NotRun, bounded, execute, http};

/// A hook failed; in words, as a kubelet's Event says it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct HookError(String);

/// Runs a hook of a container. Dropped, it is given up.
pub(crate) async fn run<E: Exec>(
    handler: &LifecycleHandler,
    pod: &Pod,
    container: &str,
    access: &Access<E>,
    timeout: Duration,
) -> Result<(), HookError> {
    let whose = || {
        let metadata = &pod.metadata;
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let (name, namespace) = (text(&metadata.name), text(&metadata.namespace));
        let uid = text(&metadata.uid);
        format!("for Container {container:?} in Pod \"{name}_{namespace}({uid})\"")
    };
    let failed = |what: String, why: &str| {
        HookError(bounded(format!("{what} {} failed - error: {why}", whose())))
    };
    if let Some(action) = &handler.exec {
        let argv = action.command.clone().unwrap_or_default();
        let what = format!("Exec lifecycle hook ([{}])", argv.join(" "));
        command(access, container, argv, timeout).await.map_err(|why| failed(what, &why.0))
    } else if let Some(action) = &handler.http_get {
        let path = action.path.as_deref().unwrap_or_default();
        let what = format!("HTTP lifecycle hook ({path})");
        let host = action.host.as_deref();
        let result = match access.ports.address(access.pod_ip, container, host, &action.port) {
            Ok(address) => http::notify(action, &access.route, address, timeout).await,
            Err(error) => Err(error.into()),
        };
        result.map_err(|why| failed(what, &why.0))
    } else if let Some(action) = &handler.sleep {
        let wanted = Duration::from_secs(u64::try_from(action.seconds).unwrap_or(0));
        tokio::time::sleep(wanted.min(timeout)).await;
        if wanted <= timeout {
            return Ok(());
        }
        let what = format!("Sleep lifecycle hook ({})", action.seconds);
        Err(failed(what, "container terminated before sleep hook finished"))
    } else {
        Err(HookError(format!("Cannot run handler: the hook {} does not say what to do", whose())))
    }
}

async fn command<E: Exec>(
    access: &Access<E>,
    container: &str,
    argv: Vec<String>,
    timeout: Duration,
) -> Result<(), NotRun> {
    let command = argv.join(" ");
    let executed = execute(access, container, argv, timeout).await?;
    match executed.exit_code {
        Some(0) => Ok(()),
        Some(code) => {
            let output = executed.output;
            Err(NotRun::new(format!("command '{command}' exited with {code}, message: {output:?}")))
        }
        None => Err(NotRun::new(format!("command '{command}' did not end within {timeout:?}"))),
    }
}

#[cfg(test)]
mod tests;
