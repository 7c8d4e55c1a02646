//! The commands, as data.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde::de::DeserializeOwned;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Table {
    /// What is in the folder that the commands are run in.
    pub(crate) files: BTreeMap<String, String>,
    /// In the order in which they are run: each sees what those before it did.
    pub(crate) commands: Vec<Command>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Command {
    /// What is typed after `kubectl`. Single quotes keep words together.
    pub(crate) run: String,
    /// The file on stdin.
    #[serde(default)]
    pub(crate) stdin: Option<String>,
    /// What stands in for the editor, such as `sed -i s/a/b/`.
    #[serde(default)]
    pub(crate) editor: Option<String>,
    /// A real cluster does some things a little later: asked again until it works.
    #[serde(default)]
    pub(crate) eventually: bool,
    /// Lines come in any order.
    #[serde(default)]
    pub(crate) unordered: bool,
}

/// A command that may print something else, and why.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Allowed {
    pub(crate) run: String,
    #[serde(rename = "reason")]
    _reason: String,
}

impl Table {
    pub(crate) fn load() -> Self {
        read("commands.yaml")
    }

    pub(crate) fn allowed(&self) -> Vec<Allowed> {
        let allowed: Vec<Allowed> = read("allowed.yaml");
        for entry in &allowed {
            let known = self.commands.iter().any(|command| command.run == entry.run);
            assert!(known, "allowed.yaml: nobody runs `{}`", entry.run);
        }
        allowed
    }
}

impl Command {
    pub(crate) fn words(&self) -> Vec<String> {
        let mut words = vec![String::new()];
        let mut quoted = false;
        for char in self.run.chars() {
            match char {
                '\'' => quoted = !quoted,
                ' ' if !quoted => words.push(String::new()),
                other => words.last_mut().expect("there is one").push(other),
            }
        }
        assert!(!quoted, "a quote is open in `{}`", self.run);
        words
    }
}

fn read<T: DeserializeOwned>(name: &str) -> T {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kubectl").join(name);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{name}: {e}"));
    serde_saphyr::from_str(&text).unwrap_or_else(|e| panic!("{name}: {e}"))
}

#[test]
fn words_are_split_as_in_a_shell() {
    let command = |run: &str| Command {
        run: run.to_owned(),
        stdin: None,
        editor: None,
        eventually: false,
        unordered: false,
    };
    assert_eq!(command("get cm -o 'a b'").words(), ["get", "cm", "-o", "a b"]);
    assert_eq!(command("-o=jsonpath='{.a b}'").words(), ["-o=jsonpath={.a b}"]);
}
