//! The scenarios as data: what one YAML file under `scenarios/` may say.
//!
//! A scenario is a list of steps against one API server. It lives in a namespace and an API group
//! of its own, so all scenarios can run side by side on one server. Texts may use `${name}`:
//!
//! | variable    | value                                                                     |
//! |-------------|---------------------------------------------------------------------------|
//! | `${ns}`     | the scenario's namespace, also the prefix for its cluster-scoped names    |
//! | `${core}`   | `/api/v1/namespaces/${ns}`                                                |
//! | `${group}`  | the scenario's API group                                                  |
//! | `${cr}`     | `/apis/${group}/v1/namespaces/${ns}`                                      |
//! | `${item}`   | the current element of `each`                                             |
//! | `${case}`   | the current key of `cases`                                                |
//! | others      | whatever an earlier step put under that name by `capture`                 |

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use crate::crd::CrdFixture;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Scenario {
    /// Unique over all files, a DNS label: namespace and API group are made from it.
    pub(crate) name: String,
    /// What the scenario is there to prove, where the name does not say it.
    #[serde(default)]
    #[expect(dead_code, reason = "read by people, in the file")]
    about: Option<String>,
    /// Custom resources that exist and are served before the first step.
    #[serde(default)]
    pub(crate) crds: Vec<CrdFixture>,
    /// Steps that must succeed (2xx) and are not part of the transcript.
    #[serde(default)]
    pub(crate) setup: Vec<Step>,
    pub(crate) steps: Vec<Step>,
}

/// A request, the opening of a watch, or the reading of a watch's events.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Step {
    /// Names the step in transcripts and reports; the request's text if absent.
    #[serde(default)]
    name: Option<String>,
    /// `METHOD path[?query]`.
    #[serde(default, rename = "do")]
    pub(crate) request: Option<String>,
    /// A user of `identity.rs`, or `token:TEXT` for any other bearer token. Default: `admin`.
    #[serde(default, rename = "as")]
    pub(crate) identity: Option<String>,
    /// Query parameters; percent-encoded by the runner, added to those in `do`.
    #[serde(default)]
    pub(crate) query: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) headers: BTreeMap<String, String>,
    /// Sets the content type of a patch.
    #[serde(default)]
    pub(crate) patch: Option<PatchType>,
    /// Sent as JSON.
    #[serde(default)]
    pub(crate) body: Option<Value>,
    /// Sent as it is.
    #[serde(default)]
    pub(crate) raw: Option<String>,
    /// Sent decoded.
    #[serde(default)]
    pub(crate) base64: Option<String>,
    /// Runs the step once per element, with `${item}`.
    #[serde(default)]
    pub(crate) each: Vec<String>,
    /// Runs the step once per key, with `${case}` and with the value as a merge patch on `body`.
    #[serde(default)]
    pub(crate) cases: BTreeMap<String, Value>,
    /// Variable to JSON pointer into the answer.
    #[serde(default)]
    pub(crate) capture: BTreeMap<String, String>,
    /// Keeps only these parts of the answer (see `pick.rs`).
    #[serde(default)]
    pub(crate) pick: Vec<String>,
    /// Repeats the request until this holds.
    #[serde(default)]
    pub(crate) until: Option<Condition>,
    /// Leaves the answer open as a watch with this name.
    #[serde(default)]
    pub(crate) watch: Option<String>,
    /// Reads events of the watch with this name.
    #[serde(default)]
    pub(crate) events: Option<String>,
    /// How many events to read. Without it: all until the server ends the watch, or until `until`
    /// holds for an event.
    #[serde(default)]
    pub(crate) count: Option<usize>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum PatchType {
    Json,
    Merge,
    Strategic,
    Apply,
}

impl PatchType {
    pub(crate) const fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json-patch+json",
            Self::Merge => "application/merge-patch+json",
            Self::Strategic => "application/strategic-merge-patch+json",
            Self::Apply => "application/apply-patch+yaml",
        }
    }
}

/// All given parts must hold.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Condition {
    #[serde(default)]
    pub(crate) status: Option<u16>,
    /// A pick expression; with neither `equals` nor `length` its value must exist.
    #[serde(default)]
    pub(crate) path: Option<String>,
    #[serde(default)]
    pub(crate) equals: Option<Value>,
    /// The length of the array at `path`.
    #[serde(default)]
    pub(crate) length: Option<usize>,
}

/// The scenarios of one file.
#[derive(Debug)]
pub(crate) struct Topic {
    pub(crate) name: String,
    pub(crate) scenarios: Vec<Scenario>,
}

impl Scenario {
    pub(crate) fn namespace(&self) -> String {
        format!("c-{}", self.name)
    }

    pub(crate) fn group(&self) -> String {
        format!("{}.example.com", self.name)
    }

    /// One label per step, made unique by counting repeats, so that adding a step does not rename
    /// the ones after it.
    pub(crate) fn labels(&self) -> Vec<String> {
        let mut seen = BTreeMap::<String, usize>::new();
        self.steps
            .iter()
            .map(|step| {
                let label = step.label();
                let count = seen.entry(label.clone()).or_default();
                *count += 1;
                if *count == 1 { label } else { format!("{label} #{count}") }
            })
            .collect()
    }
}

impl Step {
    fn label(&self) -> String {
        if let Some(name) = &self.name {
            return name.clone();
        }
        match (&self.request, &self.events) {
            (Some(request), _) => request.clone(),
            (None, Some(watch)) => format!("events of {watch}"),
            (None, None) => "empty step".to_owned(),
        }
    }

    /// Whether the fields fit together; a mistake in a scenario must not look like an answer.
    fn check(&self) -> Result<(), &'static str> {
        let bodies = [self.body.is_some(), self.raw.is_some(), self.base64.is_some()]
            .into_iter()
            .filter(|given| *given)
            .count();
        match (&self.request, &self.events) {
            (Some(_), Some(_)) => Err("`do` and `events` in one step"),
            (None, None) => Err("neither `do` nor `events`"),
            (None, Some(_)) if self.body.is_some() || self.watch.is_some() => {
                Err("`events` takes only `count`, `until`, `pick` and `capture`")
            }
            (Some(_), None) if self.count.is_some() => Err("`count` belongs to `events`"),
            _ if bodies > 1 => Err("more than one of `body`, `raw` and `base64`"),
            _ if self.watch.is_some() && self.until.is_some() => Err("`until` on a watch"),
            _ => Ok(()),
        }
    }
}

pub(crate) fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance")
}

/// Reads every file under `scenarios/`, in order of name.
pub(crate) fn load() -> Vec<Topic> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(directory().join("scenarios"))
        .expect("the scenarios are beside this file")
        .map(|entry| entry.expect("readable directory").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        .collect();
    paths.sort();
    let topics: Vec<Topic> = paths.iter().map(|path| load_topic(path)).collect();
    check(&topics);
    topics
}

fn load_topic(path: &Path) -> Topic {
    let text = std::fs::read_to_string(path).expect("readable scenario file");
    let scenarios = parse_yaml(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let stem = path.file_stem().expect("a file has a name");
    Topic { name: stem.to_string_lossy().into_owned(), scenarios }
}

/// YAML 1.2 booleans only: `on` and `n` stay texts.
pub(crate) fn parse_yaml<T: serde::de::DeserializeOwned>(
    text: &str,
) -> Result<T, serde_saphyr::Error> {
    serde_saphyr::from_str_with_options(text, serde_saphyr::options! { strict_booleans: true })
}

fn check(topics: &[Topic]) {
    let mut names = BTreeSet::new();
    for scenario in topics.iter().flat_map(|topic| &topic.scenarios) {
        let name = &scenario.name;
        assert!(names.insert(name), "two scenarios are called {name}");
        assert!(name.len() <= 40, "the name {name} is too long for what is made from it");
        for step in scenario.setup.iter().chain(&scenario.steps) {
            if let Err(problem) = step.check() {
                panic!("scenario {name}, step {}: {problem}", step.label());
            }
        }
    }
}
