//! Commands of probes and hooks are run by the Pod's shim.

use std::time::Duration;

use crate::probe::{Exec, ExecError};
use crate::shim::handle::Handle;
use crate::shim::protocol::Executed;

impl Exec for Handle {
    async fn exec(
        &self,
        container: &str,
        argv: Vec<String>,
        timeout: Duration,
    ) -> Result<Executed, ExecError> {
        Self::exec(self, container, argv, timeout)
            .await
            .map_err(|error| ExecError(error.to_string()))
    }
}
