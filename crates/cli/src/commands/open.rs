//! `sojourn open`: a link that signs a browser in.

use anyhow::anyhow;
use http::Method;
use serde_json::Value;

use super::people::PeopleClient;
use super::{connect, table};
use crate::args::Open;
use crate::exit::{Exit, Failure};

pub(super) fn run(open: Open) -> Result<(), Failure> {
    connect::run(async move {
        let client = PeopleClient::find(&open.connection, open.web.as_deref()).await?;
        let answer = client.ask(Method::POST, "/open", None).await?;
        if !answer.status.is_success() {
            let error = anyhow!("{} answers {}", client.web(), answer.status);
            return Err(Failure::new(Exit::Negative, error, "Is the token of that API?"));
        }
        let url = answer.body.get("url").and_then(Value::as_str).unwrap_or_default();
        table::write(&format!("{url}\n"));
        Ok(())
    })
}
