//! Which kubeconfig a command uses, and what to tell people when it cannot be used.

use std::io;
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use kube::Config;
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig, KubeconfigError, LoadDataError};

use super::data;
use crate::args::Connection;
use crate::exit::{Exit, Failure};

/// The kubeconfig of one command.
pub(super) struct SelectedKubeconfig {
    /// What it is called in messages: its path, or the variable that names several.
    name: String,
    read: Kubeconfig,
}

/// Where a kubeconfig is taken from.
enum Source {
    /// Asked for, or left by `sojourn up`.
    File(PathBuf),
    /// The files that the environment names, or the user's own: kubectl's rules hold.
    Kubectl(String),
}

impl SelectedKubeconfig {
    /// The one that was asked for, else what `$KUBECONFIG` names, else that of `sojourn up`, else
    /// kubectl's.
    pub(super) fn find(connection: &Connection) -> Result<Self, Failure> {
        match source(connection) {
            Source::File(path) => {
                let name = path.display().to_string();
                let read =
                    Kubeconfig::read_from(&path).map_err(|error| unreadable(&name, &error))?;
                Ok(Self { name, read })
            }
            Source::Kubectl(name) => {
                let read = Kubeconfig::read().map_err(|error| unreadable(&name, &error))?;
                Ok(Self { name, read })
            }
        }
    }

    /// What it says, for a context or the one that is current in it.
    pub(super) async fn config(&self, context: Option<&str>) -> Result<Config, Failure> {
        let options = KubeConfigOptions {
            context: context.map(str::to_owned),
            ..KubeConfigOptions::default()
        };
        let mut config = Config::from_custom_kubeconfig(self.read.clone(), &options)
            .await
            .map_err(|error| self.unfit(error))?;
        trim_token_file(&mut config.auth_info);
        Ok(config)
    }

    /// No client can be made with it.
    pub(super) fn unusable(&self, error: anyhow::Error) -> Failure {
        let error = error.context(format!("the kubeconfig {} cannot be used", self.name));
        Failure::new(Exit::Usage, error, "Mend it, or use another: --kubeconfig FILE.")
    }

    fn unfit(&self, error: KubeconfigError) -> Failure {
        let name = &self.name;
        let error = match error {
            KubeconfigError::CurrentContextNotSet => {
                anyhow!("the kubeconfig {name} does not say which of its contexts is current")
            }
            KubeconfigError::LoadContext(context) => {
                anyhow!("the kubeconfig {name} has no context {context}")
            }
            KubeconfigError::LoadClusterOfContext(cluster) => {
                anyhow!("the kubeconfig {name} has no cluster {cluster}, which its context names")
            }
            other => return self.unusable(anyhow!(words(&other))),
        };
        let contexts: Vec<_> =
            self.read.contexts.iter().map(|context| context.name.as_str()).collect();
        let advice = match contexts.as_slice() {
            [] => "It has no context: use another, --kubeconfig FILE.".to_owned(),
            some => format!("Choose one with --context NAME; it has: {}.", some.join(", ")),
        };
        Failure::new(Exit::Usage, error, advice)
    }
}

/// Takes the token out of a file that has more than it, such as the end of a line: kube's client would show all
/// of that, which is no header. Any other file is left to the client, which reads it again now and then.
fn trim_token_file(auth_info: &mut AuthInfo) {
    let Some(file) = auth_info.token_file.as_deref().map(Path::new) else { return };
    // What is no plain file can perhaps be read only once.
    if auth_info.token.is_some() || !file.is_file() {
        return;
    }
    if let Ok(text) = std::fs::read_to_string(file)
        && text.trim() != text
    {
        auth_info.token = Some(text.trim().to_owned().into());
    }
}

fn source(connection: &Connection) -> Source {
    if let Some(path) = &connection.kubeconfig {
        return Source::File(path.clone());
    }
    if let Some(named) = std::env::var_os("KUBECONFIG").filter(|value| !value.is_empty()) {
        return Source::Kubectl(Path::new(&named).display().to_string());
    }
    let ours = data::directory(None).ok().map(|folder| folder.join("kubeconfig"));
    match ours.filter(|path| path.exists()) {
        Some(path) => Source::File(path),
        None => Source::Kubectl("~/.kube/config".to_owned()),
    }
}

/// Nothing was read from it.
fn unreadable(name: &str, error: &KubeconfigError) -> Failure {
    let advice = match error {
        KubeconfigError::ReadConfig(source, _) if source.kind() == io::ErrorKind::NotFound => {
            "Start `sojourn up`, which leaves one, or say which to use: --kubeconfig FILE."
        }
        _ => "Say which one to use: --kubeconfig FILE.",
    };
    let error = anyhow!("cannot read the kubeconfig {name}: {}", words(error));
    Failure::new(Exit::Usage, error, advice)
}

/// One line that says what is wrong.
fn words(error: &KubeconfigError) -> String {
    let io_words = |error: &io::Error| match error.kind() {
        io::ErrorKind::NotFound => "there is no such file".to_owned(),
        io::ErrorKind::PermissionDenied => "this user may not read it".to_owned(),
        kind => kind.to_string(),
    };
    let data_words = |what: &str, error: &LoadDataError| match error {
        LoadDataError::ReadFile(error, path) => {
            format!("its {what} {}: {}", path.display(), io_words(error))
        }
        LoadDataError::DecodeBase64(_) => format!("its {what} is no base64"),
        LoadDataError::NoBase64DataOrFile => format!("it has no {what}"),
    };
    match error {
        KubeconfigError::ReadConfig(error, _) => io_words(error),
        KubeconfigError::FindPath => "there is no home directory to look in".to_owned(),
        // What was expected instead is told in Rust's words.
        KubeconfigError::Parse(error) => match error.location() {
            Some(place) => format!("it is no kubeconfig (line {})", place.line()),
            None => "it is no kubeconfig".to_owned(),
        },
        KubeconfigError::LoadCertificateAuthority(error) => {
            data_words("certificate authority", error)
        }
        KubeconfigError::LoadClientCertificate(error) => data_words("client certificate", error),
        KubeconfigError::LoadClientKey(error) => data_words("client key", error),
        KubeconfigError::ParseCertificates(_) => "its certificates are no PEM".to_owned(),
        KubeconfigError::ParseClusterUrl(_) => "its server is no URL".to_owned(),
        other => other.to_string().lines().next().unwrap_or_default().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret as _;

    use super::*;

    fn selected(text: &str) -> SelectedKubeconfig {
        let read = Kubeconfig::from_yaml(text).expect("a kubeconfig");
        SelectedKubeconfig { name: "FILE".to_owned(), read }
    }

    const TEXT: &str = "apiVersion: v1\nkind: Config\n\
        clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\n\
        users: [{name: u, user: {}}]\n\
        contexts:\n\
        - {name: good, context: {cluster: c, user: u, namespace: lab}}\n\
        - {name: bad, context: {cluster: gone, user: u}}\n";

    #[tokio::test]
    async fn a_context_is_the_one_that_was_asked_for() {
        let config = selected(TEXT).config(Some("good")).await.expect("usable");
        assert_eq!(config.default_namespace, "lab");
    }

    #[test]
    fn a_token_file_may_end_with_its_line() {
        let file = std::env::temp_dir().join(format!("sojourn-token-{}", std::process::id()));
        let shown = |text: &str, token: Option<&str>| {
            std::fs::write(&file, text).expect("written");
            let mut auth_info = AuthInfo {
                token: token.map(|token| token.to_owned().into()),
                token_file: Some(file.display().to_string()),
                ..AuthInfo::default()
            };
            trim_token_file(&mut auth_info);
            auth_info.token.map(|token| token.expose_secret().to_owned())
        };
        assert_eq!(shown("ada's\n", None).as_deref(), Some("ada's"));
        assert_eq!(shown("ada's", None), None, "the client reads it");
        assert_eq!(shown("ada's\n", Some("another")).as_deref(), Some("another"));
        std::fs::remove_file(&file).expect("removed");
        let mut gone =
            AuthInfo { token_file: Some(file.display().to_string()), ..AuthInfo::default() };
        trim_token_file(&mut gone);
        assert!(gone.token.is_none(), "the client says why");
    }

    #[tokio::test]
    async fn what_a_kubeconfig_lacks_is_named_with_what_it_has() {
        for (context, words) in [
            (None, "does not say which of its contexts is current"),
            (Some("other"), "has no context other"),
            (Some("bad"), "has no cluster gone, which its context names"),
        ] {
            let refused = selected(TEXT).config(context).await.expect_err("it cannot be used");
            let told = refused.error.to_string();
            assert_eq!(refused.exit, Exit::Usage);
            assert!(told.contains(words), "{told}");
            assert!(refused.advice.contains("it has: good, bad."), "{}", refused.advice);
        }
    }
}
