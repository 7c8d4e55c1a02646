//! The configuration: ConfigMap `sojourn-system/sojourn`, one key per family.
//!
//! A family's options are a plain struct with defaults. From that alone follow reading it with
//! every problem at once, refusing names that are not options, and listing what is in force and
//! where it comes from. Which families there are is in [`FAMILIES`].

pub(crate) mod check;
mod suggest;
pub mod value;

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::config::value::SecretKey;
use crate::family::{FAMILIES, Family};
use crate::problem::{Problem, Problems};
use suggest::nearest;

/// A longer text is nobody's configuration.
pub const MAX_TEXT_BYTES: usize = 256 * 1024;

/// The options of one family. Every field is written, also when it is `null`, so that the names
/// of all options are known.
pub trait FamilyConfig: Default + Serialize + DeserializeOwned {
    /// The key in the ConfigMap.
    const KEY: &'static str;

    /// What is wrong with values that are each of the right form; paths begin at the option.
    fn check(&self) -> Vec<Problem>;

    /// The Secrets of the installation's namespace that options name, each with the option.
    fn secrets(&self) -> Vec<(String, SecretKey)> {
        Vec::new()
    }
}

/// What can be done with a family's configuration without knowing its type.
#[derive(Debug, Clone, Copy)]
pub struct ConfigKey {
    pub key: &'static str,
    /// What is wrong with a text; paths begin at the ConfigMap.
    pub check: fn(&str) -> Vec<Problem>,
    list: fn(Option<&str>) -> Result<Vec<Setting>, Problems>,
    secrets: fn(&str) -> Vec<(String, SecretKey)>,
}

impl ConfigKey {
    pub const fn of<T: FamilyConfig>() -> Self {
        Self {
            key: T::KEY,
            check: |text| read::<T>(text).err().map_or_else(Vec::new, |problems| problems.0),
            list: list::<T>,
            // One that cannot be read is refused, and names nothing.
            secrets: |text| read::<T>(text).map_or_else(|_| Vec::new(), |config| config.secrets()),
        }
    }
}

/// A family's options: what the ConfigMap's data says, and the defaults for the rest.
pub fn parse<T: FamilyConfig>(data: &BTreeMap<String, String>) -> Result<T, Problems> {
    data.get(T::KEY).map_or_else(|| Ok(T::default()), |text| read(text))
}

/// Everything that is wrong with the ConfigMap's data.
pub fn check(data: &BTreeMap<String, String>) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (key, text) in data {
        match FAMILIES.iter().find(|family| family.config.key == key) {
            Some(family) => problems.extend((family.config.check)(text)),
            None => {
                let keys = FAMILIES.iter().map(|family| family.config.key);
                problems.push(unknown(&format!("data[{key}]"), key, keys, "family"));
            }
        }
    }
    problems
}

/// A Secret that the configuration names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedSecret {
    /// The family's key and the option.
    pub key: &'static str,
    pub option: String,
    pub secret: SecretKey,
}

impl NamedSecret {
    /// Where its name stands; paths begin at the ConfigMap.
    pub fn path(&self) -> String {
        format!("data[{}].{}.name", self.key, self.option)
    }
}

/// The Secrets that the ConfigMap's data names, of all families.
pub fn secrets(data: &BTreeMap<String, String>) -> Vec<NamedSecret> {
    let of_family = |family: &Family| {
        let key = family.config.key;
        let named = data.get(key).map(|text| (family.config.secrets)(text)).unwrap_or_default();
        named.into_iter().map(move |(option, secret)| NamedSecret { key, option, secret })
    };
    FAMILIES.iter().flat_map(of_family).collect()
}

/// One option as it is in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// The family's key and the option, as in `lab.yaml: margin`.
    pub key: &'static str,
    pub option: String,
    /// As it would be written.
    pub value: String,
    pub origin: Origin,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    Default,
    ConfigMap,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Default => "default",
            Self::ConfigMap => "ConfigMap",
        })
    }
}

/// Every option of every family, with its value and where that comes from.
pub fn effective(data: &BTreeMap<String, String>) -> Result<Vec<Setting>, Problems> {
    let mut settings = Vec::new();
    for family in FAMILIES {
        settings.extend((family.config.list)(data.get(family.config.key).map(String::as_str))?);
    }
    Ok(settings)
}

fn list<T: FamilyConfig>(text: Option<&str>) -> Result<Vec<Setting>, Problems> {
    let written = text.map(|text| fields::<T>(text)).transpose()?.unwrap_or_default();
    let config = text.map_or_else(|| Ok(T::default()), |text| read::<T>(text))?;
    let setting = |(option, value): (String, Value)| Setting {
        key: T::KEY,
        origin: if written.contains_key(&option) { Origin::ConfigMap } else { Origin::Default },
        value: match value {
            Value::String(text) => text,
            Value::Null => String::new(),
            other => other.to_string(),
        },
        option,
    };
    Ok(options(&config).into_iter().map(setting).collect())
}

fn read<T: FamilyConfig>(text: &str) -> Result<T, Problems> {
    let written = fields::<T>(text)?;
    let known = options(&T::default());
    let mut problems = Vec::new();
    for (option, value) in &written {
        let path = format!("{}.{option}", place::<T>());
        if !known.contains_key(option) {
            let names = known.keys().map(String::as_str);
            problems.push(unknown(&path, option, names, "option"));
            continue;
        }
        // Read alone, so that each bad option is told.
        let alone = Map::from_iter([(option.clone(), value.clone())]);
        if let Err(error) = serde_json::from_value::<T>(Value::Object(alone)) {
            problems.push(Problem::new(path, error.to_string()));
        }
    }
    if !problems.is_empty() {
        return Err(Problems(problems));
    }
    let config: T = serde_json::from_value(Value::Object(written.clone()))
        .map_err(|error| Problems(vec![Problem::new(place::<T>(), error.to_string())]))?;
    lost(&Value::Object(written), &Value::Object(options(&config)), "", &mut problems);
    problems.extend(config.check());
    let problems: Vec<_> =
        problems.into_iter().map(|problem| problem.beneath(&place::<T>())).collect();
    if problems.is_empty() { Ok(config) } else { Err(Problems(problems)) }
}

/// Names within an option's value that reading has passed over.
fn lost(written: &Value, read: &Value, path: &str, problems: &mut Vec<Problem>) {
    match (written, read) {
        (Value::Object(written), Value::Object(read)) => {
            for (name, value) in written.iter().filter(|(_, value)| !value.is_null()) {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                match read.get(name) {
                    Some(read) => lost(value, read, &path, problems),
                    None => problems.push(unknown(&path, name, std::iter::empty(), "name")),
                }
            }
        }
        (Value::Array(written), Value::Array(read)) => {
            for (index, (written, read)) in written.iter().zip(read).enumerate() {
                lost(written, read, &format!("{path}[{index}]"), problems);
            }
        }
        _ => {}
    }
}

/// Where a family's text is in the ConfigMap.
fn place<T: FamilyConfig>() -> String {
    format!("data[{}]", T::KEY)
}

/// The options that a text sets. An option that is there without a value is left to its default.
fn fields<T: FamilyConfig>(text: &str) -> Result<Map<String, Value>, Problems> {
    let refuse = |message: String| Problems(vec![Problem::new(place::<T>(), message)]);
    if text.len() > MAX_TEXT_BYTES {
        return Err(refuse(format!("must not be longer than {MAX_TEXT_BYTES} bytes")));
    }
    if text.trim().is_empty() {
        return Ok(Map::new());
    }
    let value: Value = serde_saphyr::from_str(text)
        .map_err(|error| refuse(format!("is not YAML: {}", first_line(&error.to_string()))))?;
    match value {
        Value::Null => Ok(Map::new()),
        Value::Object(fields) => Ok(fields.into_iter().filter(|(_, v)| !v.is_null()).collect()),
        _ => Err(refuse("must be a mapping of options to values".to_owned())),
    }
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

fn options<T: FamilyConfig>(config: &T) -> Map<String, Value> {
    match serde_json::to_value(config) {
        Ok(Value::Object(options)) => options,
        _ => Map::new(),
    }
}

fn unknown<'a>(
    path: &str,
    name: &str,
    known: impl Iterator<Item = &'a str>,
    what: &str,
) -> Problem {
    let mut message = format!("is no {what} that Sojourn knows");
    if let Some(meant) = nearest(name, known) {
        message.push_str(&format!("; {meant} is one"));
    }
    Problem::new(path, message)
}

#[cfg(test)]
mod tests;
