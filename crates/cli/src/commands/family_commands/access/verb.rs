//! `sojourn request|approve|reject|withdraw|drop|cancel|sessions`, and `extend` for a session: people ask the
//! operator, which knows them by their token and is the only one who writes sessions.

use anyhow::anyhow;
use http::{Method, StatusCode};
use jiff::Timestamp;
use serde_json::{Value, json};
use sojourn_core::access::{self, State};
use sojourn_core::term::words;

use super::super::super::people::PeopleClient;
use super::super::super::{connect, request, table};
use crate::args::{Connection, Extend, Output, People};
use crate::exit::{Exit, Failure};
use crate::printer::Printer;

/// Where the operator serves people's requests.
const SESSIONS: &str = "/api/access/sessions";
/// What the names of sessions begin with, where the kind is said.
const KIND: &str = "breakglasssession";

// Without a comment for the help: clap would take it for what the whole program is about.
#[derive(Debug, clap::Subcommand)]
pub(super) enum Verb {
    Request(Request),
    Approve(Approve),
    Reject(Reject),
    Withdraw(Withdraw),
    Drop(Drop),
    Cancel(Cancel),
    Sessions(Sessions),
}

/// Ask for the rights of a group, for a while.
///
/// Somebody who may has to approve it (`sojourn approve`). Then you have the rights until the session ends:
/// at its time, when you drop it, or when you do not use it.
#[derive(Debug, clap::Args)]
pub(super) struct Request {
    /// The cluster on which the rights are wanted
    #[arg(long, value_name = "CLUSTER", default_value = "local")]
    cluster: String,

    /// The group whose rights are wanted
    #[arg(long, value_name = "GROUP")]
    group: String,

    /// Why, for whoever approves it
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,

    /// For how long, e.g. 30m [default: as long as the escalation allows]
    #[arg(long = "for", value_name = "SPAN")]
    span: Option<String>,

    /// From when on, e.g. 2026-11-17T09:00:00Z [default: from the approval on]
    #[arg(long, value_name = "TIME")]
    at: Option<String>,

    /// The escalation to use, where several offer the group
    #[arg(long, value_name = "NAME")]
    escalation: Option<String>,

    #[command(flatten)]
    place: Place,
}

/// Approve a session that somebody asks for.
#[derive(Debug, clap::Args)]
pub(super) struct Approve {
    /// Why, for the record
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,

    #[command(flatten)]
    act: Act,
}

/// Reject a session that somebody asks for.
///
/// One rejection ends it, however many approvals it has.
#[derive(Debug, clap::Args)]
pub(super) struct Reject {
    /// Why, for whoever asked
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,

    #[command(flatten)]
    act: Act,
}

/// Take back what you asked for, before anybody approved it.
#[derive(Debug, clap::Args)]
pub(super) struct Withdraw {
    #[command(flatten)]
    act: Act,
}

/// End a session of yours: its rights end at once.
#[derive(Debug, clap::Args)]
pub(super) struct Drop {
    #[command(flatten)]
    act: Act,
}

/// End somebody's session, as one who may approve it: its rights end at once.
#[derive(Debug, clap::Args)]
pub(super) struct Cancel {
    #[command(flatten)]
    act: Act,
}

/// What all of them need to know.
#[derive(Debug, clap::Args)]
struct Act {
    /// The session, such as admins-local-1, or bgs/admins-local-1
    #[arg(value_name = "SESSION", value_parser = session_name)]
    session: String,

    #[command(flatten)]
    place: Place,
}

/// List the sessions that are yours or that you may approve.
#[derive(Debug, clap::Args)]
pub(super) struct Sessions {
    /// Those in this state alone, e.g. Pending or IdleExpired
    #[arg(long, value_name = "STATE", value_parser = state)]
    state: Option<State>,

    /// Look in every namespace
    #[arg(short = 'A', long)]
    all_namespaces: bool,

    #[command(flatten)]
    place: Place,
}

/// Where the operator is asked, and how its answer is written.
#[derive(Debug, clap::Args)]
struct Place {
    /// How to write the answer
    #[arg(short, long, default_value = "table")]
    output: Output,

    #[command(flatten)]
    people: People,

    #[command(flatten)]
    connection: Connection,
}

impl Place {
    async fn client(&self) -> Result<PeopleClient, Failure> {
        PeopleClient::find(&self.connection, &self.people).await
    }
}

impl Verb {
    pub(super) fn run(self, printer: Printer) -> Result<(), Failure> {
        connect::run(async move {
            let (verb, act, reason) = match self {
                Self::Request(asked) => return ask(asked, printer).await,
                Self::Sessions(asked) => return list(asked).await,
                Self::Approve(Approve { act, reason }) => (access::Verb::Approve, act, reason),
                Self::Reject(Reject { act, reason }) => (access::Verb::Reject, act, reason),
                Self::Withdraw(Withdraw { act }) => (access::Verb::Withdraw, act, None),
                Self::Drop(Drop { act }) => (access::Verb::Drop, act, None),
                Self::Cancel(Cancel { act }) => (access::Verb::Cancel, act, None),
            };
            let client = act.place.client().await?;
            let session = post(&client, verb, &act.session, reason.as_deref()).await?;
            printer.good(outcome(&act.session, &session));
            show(&[session], act.place.output, false)
        })
    }
}

/// A session by its name, with or without its kind.
fn session_name(text: &str) -> Result<String, String> {
    let name = match text.split_once('/') {
        None => text,
        Some((kind, name)) if super::is_session_kind(kind) => name,
        Some((kind, _)) => return Err(format!("{kind} is no session: write NAME or bgs/NAME")),
    };
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
    match !name.is_empty() && name.bytes().all(inner) {
        true => Ok(name.to_owned()),
        false => Err("this cannot be the name of a session".to_owned()),
    }
}

fn state(text: &str) -> Result<State, String> {
    let found = State::ALL.into_iter().find(|state| state.as_str().eq_ignore_ascii_case(text));
    found.ok_or_else(|| format!("the states are {}", State::ALL.map(State::as_str).join(", ")))
}

async fn ask(asked: Request, printer: Printer) -> Result<(), Failure> {
    let duration = asked.span.as_deref().map(request::span).transpose()?;
    let start = asked.at.as_deref().map(moment).transpose()?;
    let client = asked.place.client().await?;
    let body = json!({
        "namespace": client.namespace, "cluster": asked.cluster, "group": asked.group,
        "reason": asked.reason, "duration": duration.map(words),
        "scheduledStartTime": start.map(|at| format!("{at:.0}")), "escalation": asked.escalation,
    });
    let what = format!("cannot ask for the group {} on {}", asked.group, asked.cluster);
    let session = answered(&client, Method::POST, SESSIONS, Some(&body), &what).await?;
    let name = text(&session, "/metadata/name");
    printer.good(format_args!(
        "Asked for the group {} on {}, as {name}. It waits for approval: sojourn approve {name}.",
        asked.group, asked.cluster
    ));
    show(&[session], asked.place.output, false)
}

fn moment(text: &str) -> Result<Timestamp, Failure> {
    text.parse().map_err(|_| {
        let error = anyhow!("{text:?} is no time");
        Failure::new(Exit::Usage, error, "Write it as 2026-11-17T09:00:00Z.")
    })
}

/// `sojourn extend` for a session.
pub(super) async fn extend(asked: &Extend, printer: Printer) -> Result<(), Failure> {
    let named = &asked.object;
    if asked.by.is_some() {
        let error = anyhow!("how much later {named} ends is said by its escalation");
        return Err(Failure::new(Exit::Usage, error, format!("Use: sojourn extend {named}.")));
    }
    let name = session_name(&named.to_string())
        .map_err(|error| Failure::new(Exit::Usage, anyhow!("{named}: {error}"), ""))?;
    let client = PeopleClient::find(&asked.connection, &asked.people).await?;
    let session = post(&client, access::Verb::Extend, &name, None).await?;
    printer.good(outcome(&name, &session));
    Ok(())
}

async fn post(
    client: &PeopleClient,
    verb: access::Verb,
    name: &str,
    reason: Option<&str>,
) -> Result<Value, Failure> {
    let path = format!("{SESSIONS}/{}/{name}/{}", client.namespace, verb.as_str());
    let body = reason.map(|reason| json!({ "reason": reason }));
    let what = format!("cannot {} {name}", verb.as_str());
    answered(client, Method::POST, &path, body.as_ref(), &what).await
}

/// How a session is after somebody acted, in one sentence.
fn outcome(name: &str, session: &Value) -> String {
    let state = text(session, "/status/state");
    let approvals =
        session.pointer("/status/approvals").and_then(Value::as_array).map_or(0, Vec::len);
    match (state, text(session, "/status/expiresAt"), text(session, "/status/reasonEnded")) {
        ("Pending", _, _) => format!("{name} needs more approvals; it has {approvals}."),
        ("Approved", until, _) => format!("{name} is Approved until {until}."),
        (state, _, "") => format!("{name} is {state}."),
        (state, _, reason) => format!("{name} is {state}: {reason}."),
    }
}

async fn list(asked: Sessions) -> Result<(), Failure> {
    let client = asked.place.client().await?;
    let mut query = Vec::new();
    if let Some(state) = asked.state {
        query.push(format!("state={}", state.as_str()));
    }
    if !asked.all_namespaces {
        query.push(format!("namespace={}", client.namespace));
    }
    let path = match query.is_empty() {
        true => SESSIONS.to_owned(),
        false => format!("{SESSIONS}?{}", query.join("&")),
    };
    let list = answered(&client, Method::GET, &path, None, "cannot list sessions").await?;
    let items = list.get("items").and_then(Value::as_array).cloned().unwrap_or_default();
    if items.is_empty() && asked.place.output == Output::Table {
        table::write("There is no session of yours, and none that you may approve.\n");
        return Ok(());
    }
    match asked.place.output {
        Output::Json => table::json(&Value::Array(items)),
        Output::Yaml => table::yaml(&Value::Array(items)),
        Output::Table | Output::Name => show(&items, asked.place.output, asked.all_namespaces),
    }
}

/// Asks, and says in words why not.
async fn answered(
    client: &PeopleClient,
    method: Method,
    path: &str,
    body: Option<&Value>,
    what: &str,
) -> Result<Value, Failure> {
    let answer = client.ask(method, path, body).await?;
    if answer.status.is_success() && answer.body.is_object() {
        return Ok(answer.body);
    }
    let said = text(&answer.body, "/error");
    let said = match said.is_empty() {
        true => format!("{} answers {}", client.web(), answer.status),
        false => said.to_owned(),
    };
    let namespace = &client.namespace;
    let (exit, advice) = match answer.status {
        status if status.is_server_error() => (Exit::Unavailable, "Try again in a moment.".into()),
        StatusCode::UNAUTHORIZED => (Exit::Negative, "Is the token of that API?".into()),
        StatusCode::NOT_FOUND => {
            (Exit::Negative, format!("Looked in namespace {namespace}; another one: -n NAMESPACE."))
        }
        status if status.is_success() => {
            (Exit::Negative, "Does the operator serve people there (--web URL)?".into())
        }
        _ => (Exit::Negative, String::new()),
    };
    Err(Failure::new(exit, anyhow!(said).context(what.to_owned()), advice))
}

fn show(sessions: &[Value], output: Output, namespaces: bool) -> Result<(), Failure> {
    match (output, sessions) {
        (Output::Json, [session]) => table::json(session),
        (Output::Yaml, [session]) => table::yaml(session),
        (Output::Json, all) => table::json(&Value::Array(all.to_vec())),
        (Output::Yaml, all) => table::yaml(&Value::Array(all.to_vec())),
        (Output::Name, all) => {
            for session in all {
                table::write(&format!("{KIND}/{}\n", text(session, "/metadata/name")));
            }
            Ok(())
        }
        (Output::Table, all) => {
            let head: &[&str] = &COLUMNS.map(|(head, _)| head);
            let head = if namespaces { head } else { &head[1..] };
            let rows: Vec<_> = all.iter().map(|session| row(session, namespaces)).collect();
            table::table(head, &rows);
            Ok(())
        }
    }
}

/// What a table of sessions shows, and from where; the first only where several namespaces are looked in.
const COLUMNS: [(&str, &str); 8] = [
    ("NAMESPACE", "/metadata/namespace"),
    ("NAME", "/metadata/name"),
    ("STATE", "/status/state"),
    ("USER", "/spec/user"),
    ("GROUP", "/spec/grantedGroup"),
    ("CLUSTER", "/spec/cluster"),
    ("IDLE DEADLINE", "/status/idleDeadline"),
    ("EXPIRES", "/status/expiresAt"),
];

fn row(session: &Value, namespaces: bool) -> Vec<String> {
    let shown = COLUMNS.iter().skip(usize::from(!namespaces));
    shown.map(|(_, pointer)| text(session, pointer).to_owned()).collect()
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_named_with_its_kind_or_without() {
        for (typed, name) in [("a-1", "a-1"), ("bgs/a-1", "a-1"), ("breakglasssession/a", "a")] {
            assert_eq!(session_name(typed).as_deref(), Ok(name), "{typed}");
        }
        for typed in ["", "bgs/", "bge/a", "a/b/c", "bgs/a/b", "a?b", "..%2f", "a b"] {
            session_name(typed).expect_err(typed);
        }
    }

    #[test]
    fn states_are_known_by_name_in_any_case() {
        assert_eq!(state("idleexpired"), Ok(State::IdleExpired));
        let refused = state("Gone").expect_err("there is none");
        assert!(refused.starts_with("the states are Pending, Waiting"), "{refused}");
    }

    #[test]
    fn what_came_of_an_act_is_said_in_a_sentence() {
        for (status, said) in [
            (json!({"state": "Pending", "approvals": [{}]}), "a needs more approvals; it has 1."),
            (json!({"state": "Approved", "expiresAt": "then"}), "a is Approved until then."),
            (json!({"state": "Expired", "reasonEnded": "dropped"}), "a is Expired: dropped."),
            (json!({"state": "WaitingForScheduledTime"}), "a is WaitingForScheduledTime."),
        ] {
            assert_eq!(outcome("a", &json!({ "status": status })), said);
        }
    }

    #[test]
    fn the_namespace_is_a_column_where_there_are_several() {
        let session = json!({
            "metadata": {"namespace": "ops", "name": "a-1"},
            "spec": {"user": "ada", "grantedGroup": "admins", "cluster": "local"},
            "status": {"state": "Pending"},
        });
        assert_eq!(row(&session, true)[..3], ["ops", "a-1", "Pending"]);
        assert_eq!(row(&session, false), ["a-1", "Pending", "ada", "admins", "local", "", ""]);
    }
}
