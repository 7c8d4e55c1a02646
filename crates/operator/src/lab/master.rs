//! The key that signs links in mails and tokens of reports: one Secret, made once.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::PostParams;
use kube::{Api, Client};
use ring::hmac;
use ring::rand::{SecureRandom as _, SystemRandom};
use sojourn_api::name::shared;
use sojourn_core::key::Key;

const SECRET: &str = "sojourn-keys";
const ENTRY: &str = "master";
const LENGTH: usize = 32;

/// Keys that outlive restarts, each for one purpose.
#[derive(Debug, Clone)]
pub(crate) struct Master(hmac::Key);

impl Master {
    /// The key that the API holds; a new one, if it holds none.
    pub(crate) async fn load(client: &Client) -> Result<Self, kube::Error> {
        make_namespace(client).await?;
        let api: Api<Secret> = Api::namespaced(client.clone(), shared::NAMESPACE);
        let mut bytes = [0; LENGTH];
        if SystemRandom::new().fill(&mut bytes).is_err() {
            tracing::error!("the operating system gives no random numbers; links will not hold");
        }
        let secret = Secret {
            metadata: ObjectMeta { name: Some(SECRET.to_owned()), ..ObjectMeta::default() },
            data: Some(BTreeMap::from([(ENTRY.to_owned(), ByteString(bytes.to_vec()))])),
            ..Secret::default()
        };
        let secret = match api.get_opt(SECRET).await? {
            Some(there) => there,
            None => match api.create(&PostParams::default(), &secret).await {
                // Another process was faster: its key is as good.
                Err(kube::Error::Api(status)) if status.is_already_exists() => {
                    api.get(SECRET).await?
                }
                other => other?,
            },
        };
        let found = secret.data.and_then(|mut data| data.remove(ENTRY));
        let found = found.map(|bytes| bytes.0).filter(|bytes| bytes.len() >= LENGTH);
        if found.is_none() {
            tracing::warn!(
                secret = SECRET,
                "it holds no key; links and tokens end with this process"
            );
        }
        Ok(Self(hmac::Key::new(hmac::HMAC_SHA256, found.as_deref().unwrap_or(&bytes))))
    }

    /// The key of links in mails.
    pub(crate) fn links(&self) -> [u8; LENGTH] {
        let mut key = [0; LENGTH];
        key.copy_from_slice(hmac::sign(&self.0, b"links").as_ref());
        key
    }

    fn report(&self, key: &Key, uid: &str) -> hmac::Tag {
        hmac::sign(&self.0, format!("report\n{key}\n{uid}").as_bytes())
    }

    /// The token with which the programs of one instance report their use.
    pub(crate) fn report_token(&self, key: &Key, uid: &str) -> String {
        URL_SAFE_NO_PAD.encode(self.report(key, uid))
    }

    /// Whether it is that token; takes as long whatever is wrong with it.
    pub(crate) fn is_report_token(&self, key: &Key, uid: &str, token: &str) -> bool {
        let Ok(given) = URL_SAFE_NO_PAD.decode(token) else { return false };
        hmac::verify(&self.0, format!("report\n{key}\n{uid}").as_bytes(), &given).is_ok()
    }
}

async fn make_namespace(client: &Client) -> Result<(), kube::Error> {
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
