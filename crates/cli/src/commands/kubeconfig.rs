//! The kubeconfig that `sojourn up` hands out: the one place where the administrator's token is kept
//! in the clear, so it is for its owner's eyes only.

use std::path::{Path, PathBuf};

use serde_json::Value;
use sojourn_apiserver::auth::kubeconfig::{Credential, Kubeconfig};
use sojourn_apiserver::auth::token::Token;
use sojourn_apiserver::folder::SafeFolder;
use sojourn_apiserver::{NoRandomness, SystemEntropy};

use super::data::folder_failure;
use crate::exit::Failure;

const FILE: &str = "kubeconfig";
/// What the cluster, the user and the context are called.
const NAME: &str = "sojourn";

/// A kubeconfig in a folder of its own choosing, and what it held before.
#[derive(Debug)]
pub(super) struct KubeconfigFile {
    folder: SafeFolder,
    path: PathBuf,
    token: Token,
    namespace: Option<String>,
    /// Whether the folder was made for the file alone, and goes with it.
    is_temporary: bool,
}

impl KubeconfigFile {
    /// The file in `data`. Clients that have a copy of it go on working after a restart, so its
    /// token stays; so does the namespace that the user set with `kubectl config`.
    pub(super) fn in_folder(data: &Path) -> Result<Self, Failure> {
        let folder = SafeFolder::open(data).map_err(folder_failure)?;
        let path = data.join(FILE);
        let text = folder.read(FILE).map_err(folder_failure)?;
        let (token, namespace) = text.map_or((None, None), |text| {
            let kept = read(&text);
            if kept.0.is_none() {
                tracing::warn!(path = %path.display(), "no token of ours in it; it gets a new one");
            }
            kept
        });
        let token = match token {
            Some(token) => token,
            None => Token::generate(&SystemEntropy::default()).map_err(no_randomness)?,
        };
        Ok(Self { folder, path, token, namespace, is_temporary: false })
    }

    /// A file that is gone when this is dropped.
    pub(super) fn temporary() -> Result<Self, Failure> {
        let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
        let runtime = runtime.and_then(|path| SafeFolder::open_shared(&path).ok());
        let parent = match runtime {
            Some(parent) => Ok(parent),
            None => SafeFolder::open_shared(&std::env::temp_dir()),
        };
        // The name cannot be guessed, so nobody can be there first.
        let folder =
            parent.and_then(|parent| parent.new_subfolder("sojourn-")).map_err(|error| {
                let error = anyhow::Error::new(error).context("cannot make a temporary folder");
                let advice = "The kubeconfig goes there. Set XDG_RUNTIME_DIR or TMPDIR to a folder \
                          that can be written, and in which nobody else can touch what is ours.";
                Failure::unavailable(error, advice)
            })?;
        let path = folder.path().join(FILE);
        let token = Token::generate(&SystemEntropy::default()).map_err(no_randomness)?;
        Ok(Self { folder, path, token, namespace: None, is_temporary: true })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The folder that it is in.
    pub(super) const fn folder(&self) -> &SafeFolder {
        &self.folder
    }

    pub(super) const fn token(&self) -> &Token {
        &self.token
    }

    /// Writes the file, whole or not at all.
    pub(super) fn write(&self, server: &str, authority_pem: &str) -> Result<(), Failure> {
        let config = Kubeconfig {
            name: NAME,
            server,
            authority_pem,
            credential: Credential::Token(&self.token),
            namespace: self.namespace.as_deref(),
        };
        self.folder.replace(FILE, config.render().as_bytes()).map_err(folder_failure)
    }
}

impl Drop for KubeconfigFile {
    fn drop(&mut self) {
        let folder = self.folder.path();
        if self.is_temporary
            && let Err(error) = std::fs::remove_dir_all(folder)
        {
            tracing::warn!(%error, folder = %folder.display(), "cannot remove the temporary folder");
        }
    }
}

pub(super) fn no_randomness(error: NoRandomness) -> Failure {
    let error = anyhow::Error::new(error).context("cannot make the administrator's token");
    Failure::unavailable(error, "See that /dev/urandom and getrandom(2) work here, then try again.")
}

/// Our token and the context's namespace, as far as the text has them. kubectl writes the file anew
/// as YAML when it changes something, with the rest as it was.
fn read(text: &str) -> (Option<Token>, Option<String>) {
    let Ok(config) = serde_saphyr::from_str::<Value>(text) else { return (None, None) };
    let named = |list: &str| {
        let entries = config[list].as_array().into_iter().flatten();
        entries.into_iter().find(|entry| entry["name"] == NAME).cloned().unwrap_or_default()
    };
    let token = named("users")["user"]["token"].as_str().and_then(Token::recognize);
    let namespace = named("contexts")["context"]["namespace"].as_str().map(str::to_owned);
    (token, namespace)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(token: &Token, namespace: Option<&str>) -> String {
        Kubeconfig {
            name: NAME,
            server: "https://127.0.0.1:7443",
            authority_pem: "ca",
            credential: Credential::Token(token),
            namespace,
        }
        .render()
    }

    #[test]
    fn what_was_written_is_read_again() {
        let token = Token::generate(&SystemEntropy::default()).expect("random numbers");
        let text = rendered(&token, Some("lab"));
        assert_eq!(read(&text), (Some(token), Some("lab".to_owned())));
    }

    #[test]
    fn what_kubectl_rewrote_is_read_too() {
        let token = Token::generate(&SystemEntropy::default()).expect("random numbers");
        let text = format!(
            "apiVersion: v1\ncontexts:\n- context:\n    cluster: sojourn\n    namespace: lab\n    \
             user: sojourn\n  name: sojourn\nkind: Config\nusers:\n- name: other\n  user:\n    \
             token: x\n- name: sojourn\n  user:\n    token: {}\n",
            token.reveal()
        );
        assert_eq!(read(&text), (Some(token), Some("lab".to_owned())));
    }

    #[test]
    fn anything_else_gives_a_new_token() {
        for text in
            ["", "[]", "{", "users: 3", r#"{"users":[{"name":"sojourn","user":{"token":"x"}}]}"#]
        {
            assert_eq!(read(text), (None, None), "{text}");
        }
    }

    #[test]
    fn a_temporary_file_takes_its_folder_with_it() {
        let file = KubeconfigFile::temporary().expect("a folder");
        file.write("https://127.0.0.1:1", "ca").expect("written");
        let folder = file.path().parent().expect("a folder").to_owned();
        assert!(file.path().is_file());
        drop(file);
        assert!(!folder.exists());
    }
}
