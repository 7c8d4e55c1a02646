//! The key that signs links in mails, tokens of reports and records of Pods: one Secret, made once.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::PostParams;
use kube::{Api, Client};
use ring::hmac;
use sojourn_api::name::shared;
use sojourn_core::key::Key;

use crate::random::{NoRandomness, system_random};

const SECRET: &str = "sojourn-keys";
const DATA_KEY: &str = "master";
const KEY_BYTES: usize = 32;
/// Bytes of a name that is not to be guessed.
const SUFFIX_BYTES: usize = 10;

/// Why there is no key to sign with.
#[derive(Debug, thiserror::Error)]
pub enum InstallationKeyError {
    #[error("cannot read or make the Secret {}/{SECRET} with the signing key", shared::NAMESPACE)]
    Api(#[from] kube::Error),
    #[error("cannot make a signing key for the Secret {}/{SECRET}", shared::NAMESPACE)]
    NoRandomness(#[from] NoRandomness),
    #[error("the Secret {}/{SECRET} holds no signing key", shared::NAMESPACE)]
    Unusable(#[from] UnusableKey),
}

/// What is wrong with the key in the Secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UnusableKey {
    #[error("there is nothing under `{DATA_KEY}`")]
    Missing,
    #[error("what is under `{DATA_KEY}` has {0} bytes, and a key has {KEY_BYTES} or more")]
    Short(usize),
    #[error("what is under `{DATA_KEY}` is nothing but zero bytes, which anybody can guess")]
    Zero,
}

/// The key of the installation, from which keys are derived, each for one purpose. It outlives restarts.
#[derive(Debug, Clone)]
pub(crate) struct InstallationKey(hmac::Key);

impl InstallationKey {
    /// The key that the API holds; a new one, if there is no Secret for it yet.
    pub(crate) async fn load(client: &Client) -> Result<Self, InstallationKeyError> {
        Self::load_or_create(client, system_random).await
    }

    /// Nothing stands in for a key that is missing or could not be made: whoever knows the substitute
    /// could sign in as anybody who ever gets a link.
    async fn load_or_create(
        client: &Client,
        fill: impl FnOnce(&mut [u8]) -> Result<(), NoRandomness>,
    ) -> Result<Self, InstallationKeyError> {
        ensure_namespace(client).await?;
        let api: Api<Secret> = Api::namespaced(client.clone(), shared::NAMESPACE);
        let secret = match api.get_opt(SECRET).await? {
            Some(there) => there,
            None => match api.create(&PostParams::default(), &new_secret(fill)?).await {
                // Another process created it in between; its key is used.
                Err(kube::Error::Api(status)) if status.is_already_exists() => {
                    api.get(SECRET).await?
                }
                other => other?,
            },
        };
        let found = secret.data.and_then(|mut data| data.remove(DATA_KEY)).map(|bytes| bytes.0);
        let key = usable(found.as_deref())?;
        Ok(Self(hmac::Key::new(hmac::HMAC_SHA256, key)))
    }

    /// One that everybody knows.
    #[cfg(test)]
    pub(crate) fn for_tests() -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, &[7; KEY_BYTES]))
    }

    /// The key of links in mails.
    pub(crate) fn links(&self) -> [u8; KEY_BYTES] {
        self.derived(b"links")
    }

    /// The key of the reviews by which it is found out whether use is seen.
    pub(crate) fn canaries(&self) -> [u8; KEY_BYTES] {
        self.derived(b"canaries")
    }

    /// The key of what Pods are made again from.
    pub(crate) fn records(&self) -> [u8; KEY_BYTES] {
        self.derived(b"records")
    }

    fn derived(&self, purpose: &[u8]) -> [u8; KEY_BYTES] {
        let mut key = [0; KEY_BYTES];
        key.copy_from_slice(hmac::sign(&self.0, purpose).as_ref());
        key
    }

    fn report(&self, key: &Key, uid: &str) -> hmac::Tag {
        hmac::sign(&self.0, format!("report\n{key}\n{uid}").as_bytes())
    }

    /// The token with which the programs of one instance report their use.
    pub(crate) fn report_token(&self, key: &Key, uid: &str) -> String {
        URL_SAFE_NO_PAD.encode(self.report(key, uid))
    }

    /// What the name of the Secret with that token ends with: the same again and again, and nobody
    /// else can tell before it is there.
    pub(crate) fn report_secret_suffix(&self, key: &Key, uid: &str) -> String {
        let tag = hmac::sign(&self.0, format!("report secret\n{key}\n{uid}").as_bytes());
        tag.as_ref().iter().take(SUFFIX_BYTES).map(|byte| format!("{byte:02x}")).collect()
    }

    /// Whether it is that token; takes as long whatever is wrong with it.
    pub(crate) fn is_report_token(&self, key: &Key, uid: &str, token: &str) -> bool {
        let Ok(given) = URL_SAFE_NO_PAD.decode(token) else { return false };
        hmac::verify(&self.0, format!("report\n{key}\n{uid}").as_bytes(), &given).is_ok()
    }
}

/// The Secret of a new installation, with a key that nobody else has.
fn new_secret(
    fill: impl FnOnce(&mut [u8]) -> Result<(), NoRandomness>,
) -> Result<Secret, InstallationKeyError> {
    let mut bytes = [0; KEY_BYTES];
    fill(&mut bytes)?;
    if usable(Some(&bytes)).is_err() {
        return Err(NoRandomness.into());
    }
    Ok(Secret {
        metadata: ObjectMeta { name: Some(SECRET.to_owned()), ..ObjectMeta::default() },
        data: Some(BTreeMap::from([(DATA_KEY.to_owned(), ByteString(bytes.to_vec()))])),
        ..Secret::default()
    })
}

/// What a Secret holds, if it is a key.
fn usable(found: Option<&[u8]>) -> Result<&[u8], UnusableKey> {
    match found {
        None => Err(UnusableKey::Missing),
        Some(bytes) if bytes.len() < KEY_BYTES => Err(UnusableKey::Short(bytes.len())),
        Some(bytes) if bytes.iter().all(|byte| *byte == 0) => Err(UnusableKey::Zero),
        Some(bytes) => Ok(bytes),
    }
}

async fn ensure_namespace(client: &Client) -> Result<(), kube::Error> {
    let api: Api<Namespace> = Api::all(client.clone());
    if api.get_opt(shared::NAMESPACE).await?.is_some() {
        return Ok(());
    }
    let metadata = ObjectMeta { name: Some(shared::NAMESPACE.to_owned()), ..ObjectMeta::default() };
    let namespace = Namespace { metadata, ..Namespace::default() };
    match api.create(&PostParams::default(), &namespace).await {
        Err(kube::Error::Api(status)) if !status.is_already_exists() => {
            Err(kube::Error::Api(status))
        }
        Err(kube::Error::Api(_)) | Ok(_) => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use http::{Method, Request, Response};
    use kube::client::Body;
    use serde_json::{Value, json};

    use super::*;

    /// An API that has the namespace and, perhaps, the Secret. What is posted to it is kept.
    fn api(secret: Option<Value>) -> (Client, Arc<Mutex<Vec<Value>>>) {
        let posted = Arc::new(Mutex::new(Vec::new()));
        let kept = posted.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let (secret, kept) = (secret.clone(), kept.clone());
            async move {
                let (parts, body) = request.into_parts();
                let absent = json!({
                    "kind": "Status", "status": "Failure", "code": 404, "reason": "NotFound",
                });
                let (code, answer) = match (parts.method, parts.uri.path()) {
                    (Method::POST, _) => {
                        let body = body.collect_bytes().await.expect("a whole body");
                        let object: Value = serde_json::from_slice(&body).expect("JSON");
                        kept.lock().expect("unpoisoned").push(object.clone());
                        (201, object)
                    }
                    (_, path) if path.ends_with("/secrets/sojourn-keys") => {
                        secret.map_or((404, absent), |secret| (200, secret))
                    }
                    _ => (200, json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {}})),
                };
                let answer = Response::builder()
                    .status(code)
                    .body(Body::from(answer.to_string().into_bytes()));
                Ok::<_, std::convert::Infallible>(answer.expect("an answer"))
            }
        });
        (Client::new(service, "default"), posted)
    }

    fn holding(entry: &str, key: &[u8]) -> Value {
        let key = base64::engine::general_purpose::STANDARD.encode(key);
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {}, "data": {entry: key}})
    }

    fn never(_: &mut [u8]) -> Result<(), NoRandomness> {
        Err(NoRandomness)
    }

    #[tokio::test]
    async fn without_random_numbers_the_first_start_fails_and_no_key_is_kept() {
        let (client, posted) = api(None);
        let refused = InstallationKey::load_or_create(&client, never).await;
        assert!(matches!(refused, Err(InstallationKeyError::NoRandomness(_))), "{refused:?}");
        // A source that says that it worked and gave nothing is no better.
        let refused = InstallationKey::load_or_create(&client, |_| Ok(())).await;
        assert!(matches!(refused, Err(InstallationKeyError::NoRandomness(_))), "{refused:?}");
        assert!(posted.lock().expect("unpoisoned").is_empty());
    }

    #[tokio::test]
    async fn a_first_start_keeps_the_key_that_it_signs_with() {
        let (client, posted) = api(None);
        let made = InstallationKey::load(&client).await.expect("a key");
        let kept = posted.lock().expect("unpoisoned").pop().expect("a Secret");
        let (client, _) = api(Some(kept));
        // A key that is there needs no random numbers.
        let found = InstallationKey::load_or_create(&client, never).await.expect("the same key");
        assert_eq!(made.links(), found.links());
    }

    #[tokio::test]
    async fn a_secret_without_a_key_fails_the_start() {
        let empty = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {}});
        for (secret, why) in [
            (empty, UnusableKey::Missing),
            (holding("other", &[7; KEY_BYTES]), UnusableKey::Missing),
            (holding(DATA_KEY, &[]), UnusableKey::Short(0)),
            (holding(DATA_KEY, &[7; KEY_BYTES - 1]), UnusableKey::Short(KEY_BYTES - 1)),
            (holding(DATA_KEY, &[0; KEY_BYTES]), UnusableKey::Zero),
        ] {
            let (client, posted) = api(Some(secret));
            let refused = InstallationKey::load(&client).await;
            assert!(
                matches!(refused, Err(InstallationKeyError::Unusable(found)) if found == why),
                "{why}: {refused:?}"
            );
            assert!(posted.lock().expect("unpoisoned").is_empty());
        }
    }

    fn key(seed: u8) -> InstallationKey {
        InstallationKey(hmac::Key::new(hmac::HMAC_SHA256, &[seed; KEY_BYTES]))
    }

    /// Somebody's Secret `ada-report` must not be what Ada's programs are given.
    #[test]
    fn the_secret_of_reports_has_a_name_that_nobody_else_can_find() {
        let ada = Key::new("course", "ada");
        let suffix = key(1).report_secret_suffix(&ada, "u-1");
        assert_eq!(suffix, key(1).report_secret_suffix(&ada, "u-1"), "it is found again");
        assert_eq!((suffix.len(), suffix.bytes().all(|byte| byte.is_ascii_hexdigit())), (20, true));
        assert_ne!(
            suffix,
            key(1).report_secret_suffix(&ada, "u-2"),
            "another Instance of that name"
        );
        assert_ne!(suffix, key(2).report_secret_suffix(&ada, "u-1"), "another key");
        assert!(!key(1).is_report_token(&ada, "u-1", &suffix), "it shows nothing of the token");
    }
}
