//! The messages of the protocol: what is sent to a program, and what it answers.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use sojourn_core::cluster::{ErrorClass, MachineState};

use crate::actuator::Account;

/// The version that is spoken here.
pub const PROTOCOL: u32 = 1;
/// No line is longer, in either direction.
pub const MAX_LINE_BYTES: usize = 1 << 20;
/// Room for what is written before a request: its id.
const ID_BYTES: usize = 32;
/// Of a program's error, so much is kept.
const MAX_MESSAGE_CHARS: usize = 1024;
/// Names of machines, their uids and the like.
const MAX_NAME_BYTES: usize = 512;
const MAX_ADDRESSES: usize = 64;
/// No program keeps anybody waiting for longer.
const MAX_RETRY_AFTER: Duration = Duration::from_hours(1);

/// What a program may be able to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Operation {
    Create,
    Delete,
    List,
    Watch,
    Stop,
    Start,
}

impl Operation {
    pub const ALL: [Self; 6] =
        [Self::Create, Self::Delete, Self::List, Self::Watch, Self::Stop, Self::Start];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Delete => "delete",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Stop => "stop",
            Self::Start => "start",
        }
    }

    fn of(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|operation| operation.as_str() == word)
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The first line that a program is sent.
pub(super) fn hello() -> String {
    format!("{{\"protocol\":{PROTOCOL}}}\n")
}

/// Why a line of a program cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum MessageError {
    #[error("it wrote what is no message ({problem}): {start}")]
    Garbage { problem: String, start: String },
    #[error("it speaks version {0} of the protocol, and this is version {PROTOCOL}")]
    Version(u64),
}

fn garbage(problem: impl fmt::Display, line: &[u8]) -> MessageError {
    let start: String = String::from_utf8_lossy(line).chars().take(80).collect();
    MessageError::Garbage { problem: problem.to_string(), start: printable(&start) }
}

/// Without characters that change what a terminal shows.
pub(super) fn printable(text: &str) -> String {
    text.chars().map(|char| if char.is_control() { '\u{fffd}' } else { char }).collect()
}

/// The first line of a program.
#[derive(Debug, Deserialize)]
pub(super) struct Hello {
    protocol: u64,
    #[serde(default)]
    can: Vec<String>,
    #[serde(default)]
    pub(super) schema: Value,
}

impl Hello {
    pub(super) fn read(line: &[u8]) -> Result<Self, MessageError> {
        let hello: Self = serde_json::from_slice(line).map_err(|error| garbage(error, line))?;
        if hello.protocol == u64::from(PROTOCOL) {
            Ok(hello)
        } else {
            Err(MessageError::Version(hello.protocol))
        }
    }

    /// What it can do, as far as that is known here.
    pub(super) fn can(&self) -> impl Iterator<Item = Operation> {
        self.can.iter().filter_map(|word| Operation::of(word))
    }
}

/// A request without its id. What an operation does not need is left out.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Request<'a> {
    pub(crate) op: Operation,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) uid: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) machine: Option<&'a str>,
    #[serde(rename = "infraID", skip_serializing_if = "Option::is_none")]
    pub(crate) infra_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) namespace: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) group: Option<&'a str>,
    #[serde(serialize_with = "reveal")]
    pub(crate) account: Option<&'a Account>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) config: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next: Option<&'a str>,
}

impl<'a> Request<'a> {
    pub(crate) const fn new(op: Operation) -> Self {
        Self {
            op,
            uid: None,
            machine: None,
            infra_id: None,
            namespace: None,
            name: None,
            group: None,
            account: None,
            config: None,
            next: None,
        }
    }

    /// The line without its id; nothing if it is too long.
    pub(super) fn text(&self) -> Option<RequestText> {
        // A request has text for keys, and numbers that JSON has: it can always be written.
        let text = serde_json::to_vec(self).ok()?;
        (text.len() + ID_BYTES <= MAX_LINE_BYTES).then_some(RequestText(text))
    }
}

fn reveal<S: Serializer>(account: &Option<&Account>, serializer: S) -> Result<S::Ok, S::Error> {
    let fields = account.map(|account| account.reveal().iter());
    serializer.collect_map(fields.into_iter().flatten())
}

/// A request as text, which gets its id when it is sent. Not in any log: it holds an account.
pub(super) struct RequestText(Vec<u8>);

impl RequestText {
    pub(super) fn with_id(&self, id: u64) -> Vec<u8> {
        let mut line = format!("{{\"id\":{id},").into_bytes();
        line.extend_from_slice(&self.0[1..]);
        line.push(b'\n');
        line
    }
}

impl fmt::Debug for RequestText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RequestText({} bytes)", self.0.len())
    }
}

/// A line of a program after its first.
#[derive(Debug)]
pub(super) enum Message {
    Answer { id: u64, result: Result<Value, Answered> },
    Event(Event),
}

/// An answer that is not `ok`.
#[derive(Debug)]
pub(super) enum Answered {
    Error(ProgramError),
    /// What it means is not known here.
    Unclear(String),
}

/// What a program said about a request that it did not carry out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramError {
    pub class: ErrorClass,
    pub message: String,
    pub retry_after: Option<Duration>,
}

impl fmt::Display for ProgramError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.class.as_str(), self.message)
    }
}

#[derive(Debug, Clone)]
pub(crate) enum Event {
    Machine(MachineReport),
    /// Events were lost, or never there: everything has to be listed anew.
    Relist,
}

#[derive(Deserialize)]
struct RawLine {
    id: Option<u64>,
    #[serde(default, deserialize_with = "present")]
    ok: Option<Value>,
    error: Option<RawError>,
    event: Option<Value>,
}

/// Whatever stands there, even `null`.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawError {
    #[serde(default)]
    class: String,
    #[serde(default)]
    message: String,
    retry_after: Option<f64>,
}

impl RawError {
    fn read(self) -> Answered {
        let message: String = printable(&self.message).chars().take(MAX_MESSAGE_CHARS).collect();
        let Some(class) = ErrorClass::of(&self.class) else {
            let class: String = printable(&self.class).chars().take(40).collect();
            return Answered::Unclear(format!("it failed with the class {class:?}: {message}"));
        };
        let seconds =
            self.retry_after.unwrap_or_default().clamp(0.0, MAX_RETRY_AFTER.as_secs_f64());
        let retry_after = Duration::try_from_secs_f64(seconds).ok().filter(|span| !span.is_zero());
        Answered::Error(ProgramError { class, message, retry_after })
    }
}

impl Message {
    pub(super) fn read(line: &[u8]) -> Result<Self, MessageError> {
        let raw: RawLine = serde_json::from_slice(line).map_err(|error| garbage(error, line))?;
        match raw {
            RawLine { id: None, ok: None, error: None, event: Some(event) } => {
                Event::read(event).map(Self::Event).map_err(|problem| garbage(problem, line))
            }
            RawLine { id: Some(id), ok: Some(ok), error: None, event: None } => {
                Ok(Self::Answer { id, result: Ok(ok) })
            }
            RawLine { id: Some(id), ok: None, error: Some(error), event: None } => {
                Ok(Self::Answer { id, result: Err(error.read()) })
            }
            _ => Err(garbage("neither an answer nor an event", line)),
        }
    }
}

impl Event {
    fn read(value: Value) -> Result<Self, String> {
        if value.as_str() == Some("relist") {
            return Ok(Self::Relist);
        }
        MachineReport::read(value).map(Self::Machine)
    }
}

/// What a program says of one machine.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct MachineReport {
    pub(crate) machine: String,
    /// The object that it was made for, if it was made by a request of ours.
    pub(crate) uid: Option<String>,
    pub(crate) infra_id: Option<String>,
    pub(crate) state: MachineState,
    pub(crate) ready: Option<bool>,
    pub(crate) spot: bool,
    pub(crate) node_name: Option<String>,
    pub(crate) addresses: Vec<String>,
    /// When it will be taken away, if that was announced.
    pub(crate) interruption: Option<Timestamp>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawReport {
    machine: String,
    uid: Option<String>,
    #[serde(rename = "infraID")]
    infra_id: Option<String>,
    state: String,
    ready: Option<bool>,
    spot: Option<bool>,
    node_name: Option<String>,
    addresses: Option<Vec<String>>,
    interruption: Option<Timestamp>,
}

impl MachineReport {
    pub(crate) fn read(value: Value) -> Result<Self, String> {
        let raw = RawReport::deserialize(value).map_err(|error| error.to_string())?;
        check_name("machine", Some(&raw.machine))?;
        check_name("uid", raw.uid.as_ref())?;
        check_name("infraID", raw.infra_id.as_ref())?;
        check_name("state", Some(&raw.state))?;
        let addresses = raw.addresses.unwrap_or_default();
        if addresses.len() > MAX_ADDRESSES {
            return Err(format!("addresses: more than {MAX_ADDRESSES}"));
        }
        Ok(Self {
            machine: raw.machine,
            uid: raw.uid,
            infra_id: raw.infra_id,
            state: MachineState::of(&raw.state),
            ready: raw.ready,
            spot: raw.spot.unwrap_or_default(),
            node_name: raw.node_name,
            addresses,
            interruption: raw.interruption,
        })
    }
}

fn check_name(field: &str, name: Option<&String>) -> Result<(), String> {
    match name {
        Some(name) if name.is_empty() || name.len() > MAX_NAME_BYTES => {
            Err(format!("{field}: it has from 1 to {MAX_NAME_BYTES} bytes"))
        }
        Some(name) if name.chars().any(char::is_control) => {
            Err(format!("{field}: it has a control character"))
        }
        Some(_) | None => Ok(()),
    }
}

/// The name of the machine in the answer to a `create`.
pub(crate) fn created(ok: &Value) -> Result<String, String> {
    let machine = ok["machine"].as_str().map(str::to_owned);
    let machine = machine.ok_or("it did not say which machine it made")?;
    check_name("machine", Some(&machine))?;
    Ok(machine)
}

/// A part of a list.
#[derive(Debug)]
pub(crate) struct ListPage {
    pub(crate) machines: Vec<MachineReport>,
    /// Where the list goes on, if it does.
    pub(crate) next: Option<String>,
}

impl ListPage {
    pub(crate) fn read(ok: Value) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct RawPage {
            machines: Vec<Value>,
            next: Option<String>,
        }
        let raw = RawPage::deserialize(ok).map_err(|error| format!("a list: {error}"))?;
        let read = raw.machines.into_iter().map(MachineReport::read);
        let machines =
            read.collect::<Result<_, _>>().map_err(|error| format!("a list: {error}"))?;
        Ok(Self { machines, next: raw.next.filter(|next| !next.is_empty()) })
    }
}

/// A config that names a program.
#[derive(Debug)]
pub(crate) struct NamedConfig<'a> {
    pub(crate) name: &'a str,
    pub(crate) config: &'a Value,
}

impl<'a> NamedConfig<'a> {
    pub(crate) fn read(config: &'a Value) -> Result<Self, String> {
        const NOTHING: &Value = &Value::Null;
        let fields = config.as_object().ok_or("it is an object with name and config")?;
        if let Some(other) =
            fields.keys().find(|field| !["name", "config"].contains(&field.as_str()))
        {
            return Err(format!("{other}: there is no such field; there are name and config"));
        }
        let name = fields.get("name").and_then(Value::as_str);
        let name = name.ok_or("name: the name of a program is needed")?;
        Ok(Self { name, config: fields.get("config").unwrap_or(NOTHING) })
    }
}

#[cfg(test)]
mod tests;
