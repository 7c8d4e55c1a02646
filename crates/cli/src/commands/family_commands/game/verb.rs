//! `sojourn allocate|acknowledge`, and `drain` for a server.

use anyhow::anyhow;
use http::{Method, StatusCode};
use jiff::Timestamp;
use kube::api::DynamicObject;
use serde_json::{Value, json};
use sojourn_api::game::name::{ACKNOWLEDGE, MARKED};
use sojourn_api::game::{DedicatedGameServer, DedicatedGameServerCollection};
use sojourn_apiserver::{Entropy as _, SystemEntropy};

use super::super::super::connect::{self, ApiContext};
use super::super::super::kubeconfig::no_randomness;
use super::super::super::people::PeopleClient;
use super::super::super::request::annotate;
use super::super::super::table;
use super::super::of_kind;
use crate::args::{Connection, Named, Output, People};
use crate::exit::{Exit, Failure};
use crate::printer::Printer;

/// Where the operator gives servers.
const ALLOCATE: &str = "/v1/allocate";

// Without a comment for the help: clap would take it for what the whole program is about.
#[derive(Debug, clap::Subcommand)]
pub(super) enum Verb {
    Allocate(Allocate),
    Acknowledge(Acknowledge),
}

impl Verb {
    pub(super) fn run(self, printer: Printer) -> Result<(), Failure> {
        match self {
            Self::Allocate(args) => connect::run(allocate(args)),
            Self::Acknowledge(args) => connect::run(acknowledge(args, printer)),
        }
    }
}

/// Be given a game server, or seats of one.
///
/// Asked again with the same request id, it is the same server. Whoever does not come within a minute gives it back.
#[derive(Debug, clap::Args)]
pub(super) struct Allocate {
    /// The collection, such as dgsc/arena [default: any of the namespace]
    #[arg(value_name = "COLLECTION", value_parser = collection_name)]
    collection: Option<String>,

    /// Names the request: asked again, it has the same answer [default: a new one]
    #[arg(long, value_name = "ID")]
    request_id: Option<String>,

    /// So many seats of a server [default: a whole server]
    #[arg(long, value_name = "N")]
    seats: Option<u32>,

    /// A label that the server must have, e.g. map=de; may be repeated
    #[arg(long = "selector", short = 'l', value_name = "NAME=VALUE", value_parser = label)]
    labels: Vec<(String, String)>,

    /// Wait so many seconds for one to become free
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    wait: u64,

    #[command(flatten)]
    people: People,

    /// How to write it
    #[arg(short, long, default_value = "table")]
    output: Output,

    #[command(flatten)]
    connection: Connection,
}

/// Say that somebody has looked at a collection whose servers fail: it goes on, and failures count from none.
#[derive(Debug, clap::Args)]
pub(super) struct Acknowledge {
    /// The collection, such as dgsc/arena
    #[arg(value_name = "KIND/NAME")]
    object: Named,

    #[command(flatten)]
    connection: Connection,
}

fn collection_name(text: &str) -> Result<String, String> {
    let name = match text.split_once('/') {
        Some((kind, name)) if is_collection(kind) => name,
        Some((kind, _)) => return Err(format!("{kind} is no collection; name one as dgsc/arena")),
        None => text,
    };
    if name.is_empty() {
        Err("name a collection, such as dgsc/arena".to_owned())
    } else {
        Ok(name.to_owned())
    }
}

fn is_collection(kind: &str) -> bool {
    let kind = kind.to_ascii_lowercase();
    ["dgsc", "dedicatedgameservercollection", "dedicatedgameservercollections"]
        .contains(&kind.as_str())
}

fn label(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("give a name and a value, such as map=de")?;
    Ok((name.to_owned(), value.to_owned()))
}

async fn allocate(args: Allocate) -> Result<(), Failure> {
    let people = PeopleClient::find(&args.connection, &args.people).await?;
    let request_id = match args.request_id {
        Some(id) => id,
        None => new_request_id()?,
    };
    let mut body = json!({
        "requestId": request_id, "namespace": people.namespace, "waitSeconds": args.wait,
    });
    if let Some(collection) = &args.collection {
        body["collection"] = json!(collection);
    }
    if let Some(seats) = args.seats {
        body["seats"] = json!(seats);
    }
    if !args.labels.is_empty() {
        let labels: serde_json::Map<String, Value> =
            args.labels.into_iter().map(|(name, value)| (name, json!(value))).collect();
        body["selectors"] = json!([{ "matchLabels": labels }]);
    }
    let answer = people.ask(Method::POST, ALLOCATE, Some(&body)).await?;
    if answer.status == StatusCode::OK {
        return match args.output {
            Output::Json => table::json(&answer.body),
            Output::Yaml => table::yaml(&answer.body),
            Output::Name => {
                table::write(&format!(
                    "dgs/{}\n",
                    answer.body["server"].as_str().unwrap_or_default()
                ));
                Ok(())
            }
            Output::Table => {
                table::write(&format!("{}\n", lines(&answer.body).join("\n")));
                Ok(())
            }
        };
    }
    Err(refused(answer.status, &answer.body))
}

/// What was given, for people.
fn lines(body: &Value) -> Vec<String> {
    let text = |field: &str| body[field].as_str().unwrap_or_default();
    let ports = body["ports"].as_array().into_iter().flatten().map(|port| {
        let protocol = port["protocol"].as_str().unwrap_or_default();
        format!("{}:{} {protocol}", text("address"), port["hostPort"].as_i64().unwrap_or_default())
    });
    let mut lines = vec![format!("dgs/{}", text("server"))];
    lines.extend(ports.map(|port| format!("  {port}")));
    lines.push(format!(
        "  grant {}, to be claimed until {}",
        text("grantId"),
        text("leaseExpires")
    ));
    lines
}

fn refused(status: StatusCode, body: &Value) -> Failure {
    let words = body["error"].as_str().unwrap_or("it was refused").to_owned();
    let error = anyhow!("{words}");
    match status {
        StatusCode::TOO_MANY_REQUESTS => {
            Failure::new(Exit::Negative, error, "Wait for one: --wait SECONDS.")
        }
        StatusCode::FORBIDDEN | StatusCode::UNAUTHORIZED => Failure::new(
            Exit::Negative,
            error,
            "It takes `create` on dedicatedgameservers/allocate: the role sojourn-game-matchmaker.",
        ),
        StatusCode::UNPROCESSABLE_ENTITY => Failure::new(Exit::Usage, error, "Say it otherwise."),
        _ => Failure::unavailable(error, "Try again."),
    }
}

fn new_request_id() -> Result<String, Failure> {
    SystemEntropy::default().uid().map_err(no_randomness)
}

async fn acknowledge(args: Acknowledge, printer: Printer) -> Result<(), Failure> {
    let api_context = ApiContext::find(&args.connection).await?;
    let named = args.object;
    let (api, object) = api_context.get(&named).await?;
    let _: DedicatedGameServerCollection = of_kind(&named, object, "dgsc/arena", "acknowledged")?;
    let word = format!("{}", Timestamp::now());
    annotate(&api_context, &api, &named, ACKNOWLEDGE, &word).await?;
    printer.good(format_args!("{named} goes on; failures are counted from none."));
    Ok(())
}

/// Has a server take nobody new, and go when it is empty.
pub(in super::super) async fn drain(
    api_context: &ApiContext,
    api: &kube::Api<DynamicObject>,
    named: &Named,
    printer: Printer,
) -> Result<(), Failure> {
    annotate(api_context, api, named, MARKED, "Requested").await?;
    printer.good(format_args!("{named} takes nobody new, and goes when it is empty."));
    Ok(())
}

/// Whether an object is a server.
pub(in super::super) fn is_server(object: &DynamicObject) -> bool {
    let kind = object.types.as_ref().map(|types| types.kind.as_str());
    kind == Some(&*<DedicatedGameServer as kube::Resource>::kind(&()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collection_is_named_with_or_without_its_kind() {
        assert_eq!(collection_name("dgsc/arena").as_deref(), Ok("arena"));
        assert_eq!(collection_name("arena").as_deref(), Ok("arena"));
        for wrong in ["dgs/arena-x", "dgsc/", ""] {
            collection_name(wrong).expect_err(wrong);
        }
        assert_eq!(label("map=de"), Ok(("map".to_owned(), "de".to_owned())));
        label("map").expect_err("no value");
    }
}
