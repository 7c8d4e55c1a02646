//! Controllers of a cluster that serve admission.

use crate::fixture::{Fixture, LOG};
use crate::process::Running;
use crate::tool::free_port;

/// On a cluster, controllers that serve admission, too; `up` always does.
pub(crate) fn with_admission(stage: &mut Fixture) -> Option<Running> {
    stage.cluster.as_ref()?;
    stage.kill();
    let cluster = stage.cluster.as_ref()?;
    let webhook = format!("127.0.0.1:{}", free_port());
    let url = format!("https://{webhook}");
    let options = ["--leader-elect", "false", "--webhook", &webhook, "--webhook-url", &url];
    let operator = cluster.replica(&stage.web.to_string(), LOG, &options);
    operator.stderr_line("The operator is up.");
    Some(operator)
}
