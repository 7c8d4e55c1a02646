//! The cases, as data: what a case can say.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::expectation::Expected;

/// What every Pod of a case has that does not say otherwise: tests have no half minutes to spare.
const GRACE: i64 = 3;

/// Where cases run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Side {
    Embedded,
    Real,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Case {
    pub(crate) name: String,
    /// What it shows.
    pub(crate) about: String,
    /// Why it runs in one place only.
    #[serde(default)]
    pub(crate) only: Option<Only>,
    /// Whole manifests, created before the Pods.
    #[serde(default)]
    pub(crate) objects: Vec<Value>,
    /// Pods by name, in short: see [`pod`].
    #[serde(default)]
    pub(crate) pods: BTreeMap<String, Value>,
    pub(crate) steps: Vec<Step>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Only {
    pub(crate) on: Side,
    #[serde(rename = "because")]
    _because: String,
}

/// What objects are expected to be, by `collection/name`.
pub(crate) type Expectations = BTreeMap<String, Expected>;

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) enum Step {
    /// Waits until objects are so.
    Until(Expectations),
    /// Objects went through these states, in this order, perhaps with others between.
    Went(BTreeMap<String, Vec<Expected>>),
    /// Objects were never so.
    Never(Expectations),
    /// Waits until objects are no more.
    Gone(Vec<String>),
    /// Waits until what a container wrote is so.
    Logs(Logs),
    /// Waits for an Event about an object.
    Event(Event),
    /// There was no such Event so far.
    Unsaid(Unsaid),
    Delete(Delete),
    /// A merge patch.
    Patch(Patch),
    Create(Created),
    Kubectl(Kubectl),
    /// Waits until so many processes of the machine have this word among their arguments.
    Processes(Processes),
    /// How long it is since the last step that changed something.
    Took(Took),
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Logs {
    pub(crate) of: String,
    #[serde(default)]
    pub(crate) container: Option<String>,
    /// Further parameters of the request, such as `previous=true`.
    #[serde(default)]
    pub(crate) query: Option<String>,
    pub(crate) are: Value,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Event {
    pub(crate) about: String,
    pub(crate) reason: String,
    pub(crate) message: Value,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Unsaid {
    pub(crate) about: String,
    pub(crate) reason: String,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Delete {
    pub(crate) object: String,
    #[serde(default)]
    pub(crate) grace: Option<u32>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Patch {
    pub(crate) object: String,
    pub(crate) with: Value,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Created {
    #[serde(default)]
    pub(crate) objects: Vec<Value>,
    #[serde(default)]
    pub(crate) pods: BTreeMap<String, Value>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Kubectl {
    pub(crate) run: Vec<String>,
    /// Patterns, each of which its stdout must show.
    #[serde(default)]
    pub(crate) prints: Vec<String>,
    #[serde(default)]
    pub(crate) fails: bool,
    /// It never ends by itself: it is stopped once it has printed all that.
    #[serde(default)]
    pub(crate) endless: bool,
    /// What happens while it runs, after it has printed the first pattern.
    #[serde(default)]
    pub(crate) during: Vec<Step>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Processes {
    pub(crate) with: String,
    pub(crate) are: usize,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Took {
    /// Seconds.
    #[serde(default)]
    pub(crate) at_least: u64,
    #[serde(default)]
    pub(crate) at_most: Option<u64>,
}

impl Case {
    /// Every case, in the order of the files; no two have the same name.
    pub(crate) fn all() -> Vec<Value> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pods/cases");
        let files = std::fs::read_dir(&folder).expect("the folder of cases");
        let mut files: Vec<_> = files.map(|file| file.expect("an entry").path()).collect();
        files.sort();
        let mut cases: Vec<Value> = Vec::new();
        for path in files {
            let shown = path.display();
            let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{shown}: {e}"));
            let read: Vec<Value> =
                serde_saphyr::from_str(&text).unwrap_or_else(|e| panic!("{shown}: {e}"));
            cases.extend(read);
        }
        let mut names: Vec<_> = cases.iter().map(|case| case["name"].to_string()).collect();
        names.sort_unstable();
        let twice = names.windows(2).find(|pair| pair[0] == pair[1]);
        assert!(twice.is_none(), "two cases have the name {twice:?}");
        cases
    }

    /// Reads a case after `${…}` was replaced by what it stands for in this run.
    pub(crate) fn read(mut value: Value, names: &[(&str, &str)]) -> Self {
        replace(&mut value, names);
        let name = value["name"].to_string();
        serde_json::from_value(value).unwrap_or_else(|e| panic!("case {name}: {e}"))
    }

    pub(crate) fn runs_on(&self, side: Side) -> bool {
        self.only.as_ref().is_none_or(|only| only.on == side)
    }

    pub(crate) fn needs_kubectl(&self) -> bool {
        self.steps.iter().any(|step| matches!(step, Step::Kubectl(_)))
    }
}

fn replace(value: &mut Value, names: &[(&str, &str)]) {
    match value {
        Value::String(text) if text.contains("${") => {
            for (name, with) in names {
                *text = text.replace(&format!("${{{name}}}"), with);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| replace(item, names)),
        Value::Object(map) => {
            let old = std::mem::take(map);
            for (key, mut value) in old {
                let mut key = Value::String(key);
                replace(&mut key, names);
                replace(&mut value, names);
                map.insert(key.as_str().unwrap_or_default().to_owned(), value);
            }
        }
        _ => {}
    }
}

/// A Pod from what a case says of it: its spec, and perhaps `metadata`. In short,
/// - `script` is a container's command, run by `sh`;
/// - a container without a name is `main`, and its image, which nobody pulls, is `none`;
/// - the grace period is short.
pub(crate) fn pod(name: &str, short: &Value) -> Value {
    let mut spec = short.as_object().cloned().unwrap_or_default();
    let mut metadata = match spec.remove("metadata") {
        Some(Value::Object(metadata)) => metadata,
        _ => Map::new(),
    };
    metadata.insert("name".to_owned(), json!(name));
    let mut spec = Value::Object(spec);
    lengthen(&mut spec);
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
}

/// The same for the Pods of a template.
pub(crate) fn lengthen(spec: &mut Value) {
    let Some(spec) = spec.as_object_mut() else { return };
    spec.entry("terminationGracePeriodSeconds").or_insert(json!(GRACE));
    for list in ["initContainers", "containers"] {
        for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            let Some(container) = container.as_object_mut() else { continue };
            container.entry("name").or_insert(json!("main"));
            container.entry("image").or_insert(json!("none"));
            if let Some(script) = container.remove("script") {
                container.insert("command".to_owned(), json!(["sh", "-c", script]));
            }
        }
    }
}

#[test]
fn a_pod_can_be_said_in_short() {
    let short = json!({
        "metadata": {"labels": {"a": "b"}},
        "containers": [{"script": "exit 3"}, {"name": "other", "command": ["true"]}],
    });
    let expected = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "one", "labels": {"a": "b"}},
        "spec": {
            "terminationGracePeriodSeconds": 3,
            "containers": [
                {"name": "main", "image": "none", "command": ["sh", "-c", "exit 3"]},
                {"name": "other", "image": "none", "command": ["true"]},
            ],
        },
    });
    assert_eq!(pod("one", &short), expected);
}

#[test]
fn every_case_can_be_read() {
    for case in Case::all() {
        Case::read(case, &[]);
    }
}
