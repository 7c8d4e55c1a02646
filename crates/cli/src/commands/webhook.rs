//! Admission on a cluster: served by every replica, with one certificate, and registered with the API
//! server.

use std::collections::BTreeMap;

use anyhow::{Context as _, anyhow};
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use sojourn_api::name::shared;
use sojourn_operator::admission::{Admission, Target, configuration};
use sojourn_web::{Listener, Serving};

use super::operator::self_signed;
use super::people;
use crate::args;
use crate::exit::{Exit, Failure};

const TLS_SECRET: &str = "kubernetes.io/tls";
const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";

/// Serves admission and tells the API server where.
pub(super) async fn serve(
    args: &args::Operator,
    client: &Client,
) -> Result<Option<Serving>, Failure> {
    let (Some(address), Some(url)) = (args.webhook, &args.webhook_url) else { return Ok(None) };
    let host = url.strip_prefix("https://").and_then(|rest| rest.split(['/', ':']).next());
    let host = host.filter(|host| !host.is_empty()).ok_or_else(|| {
        let error = anyhow!("{url} is no URL that begins with https:// and names a host");
        Failure::new(Exit::Usage, error, "API servers reach webhooks by HTTPS only.")
    })?;
    let (certificate, key) = certificate(client, host).await.map_err(|error| {
        let advice = "May the operator read and make Secrets in sojourn-system? What the Secret \
                      holds can be made anew: delete it and start again.";
        Failure::unavailable(error, advice)
    })?;
    let tls = people::tls(&certificate, &key)
        .map_err(|error| Failure::new(Exit::Bug, error, "Please report it."))?;
    let admission = Admission::default();
    admission.connect(client.clone());
    let bound = Listener::bind(address, Some(tls))
        .await
        .map_err(|error| Failure::unavailable(error, "Choose another: --webhook ADDR."))?;
    let serving = bound.serve(admission.router());
    let target = configuration(&Target::Url(url.clone()), certificate.as_bytes());
    let api: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    let name = target.metadata.name.clone().unwrap_or_default();
    api.patch(&name, &PatchParams::apply(shared::MANAGER).force(), &Patch::Apply(&target))
        .await
        .context("cannot register the admission webhook")
        .map_err(|error| Failure::unavailable(error, "The operator needs the right to do it."))?;
    Ok(Some(serving))
}

/// The certificate for a host and its key, in PEM. Every replica behind one address shows the same
/// one, because the API server is told of one; so it is kept in a Secret, made by whoever is first.
async fn certificate(client: &Client, host: &str) -> anyhow::Result<(String, String)> {
    let name = format!("sojourn-webhook-{}", host.to_lowercase());
    let api: Api<Secret> = Api::namespaced(client.clone(), shared::NAMESPACE);
    let reading = || format!("cannot read the Secret {name}");
    let there = match api.get_opt(&name).await.with_context(reading)? {
        Some(there) => there,
        None => match api.create(&PostParams::default(), &secret(&name, host)?).await {
            // Another replica was faster.
            Err(kube::Error::Api(status)) if status.is_already_exists() => {
                api.get(&name).await.with_context(reading)?
            }
            made => made.with_context(|| format!("cannot make the Secret {name}"))?,
        },
    };
    let mut data = there.data.unwrap_or_default();
    let mut text = |entry| {
        let bytes = data.remove(entry).with_context(|| format!("{name} has no {entry}"))?;
        String::from_utf8(bytes.0).with_context(|| format!("{entry} of {name} is no text"))
    };
    Ok((text(CERTIFICATE)?, text(KEY)?))
}

fn secret(name: &str, host: &str) -> anyhow::Result<Secret> {
    let (certificate, key) = self_signed(vec![host.to_owned()])?;
    let entries = [(CERTIFICATE, certificate), (KEY, key)];
    let data = entries.map(|(entry, text)| (entry.to_owned(), ByteString(text.into_bytes())));
    Ok(Secret {
        metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
        type_: Some(TLS_SECRET.to_owned()),
        data: Some(BTreeMap::from(data)),
        ..Secret::default()
    })
}
