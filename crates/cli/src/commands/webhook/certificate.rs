//! The certificate of admission: one for all replicas, kept in a Secret, made by whoever is first and
//! renewed by whoever is first.
//!
//! The API server is told of the authorities in `ca.crt`: the certificate itself and the one before it.
//! While replicas change from one to the other at different moments, both are believed.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use anyhow::{Context as _, anyhow};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client, ResourceExt as _};
use rcgen::{CertificateParams, KeyPair, date_time_ymd};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use sojourn_api::name::shared;
use sojourn_operator::clock::Clock;

use super::Host;

const TLS_SECRET: &str = "kubernetes.io/tls";
const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";
const AUTHORITIES: &str = "ca.crt";
/// Annotation of the Secret: when another certificate is made. One that has none was put there by
/// somebody who sees to it.
const RENEW_AT: &str = "sojourn.dev/renew-at";

const VALID_FOR: SignedDuration = SignedDuration::from_hours(365 * 24);
/// Long enough for somebody to notice that it did not work.
const RENEW_AFTER: SignedDuration = SignedDuration::from_hours(245 * 24);
/// Clocks of other machines may be behind.
const VALID_BEFORE: SignedDuration = SignedDuration::from_hours(24);

/// A certificate with its key, in PEM.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Pair {
    pub(super) certificate: String,
    key: String,
    pub(super) authorities: String,
    renew_at: Option<Timestamp>,
}

impl std::fmt::Debug for Pair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pair").field("renew_at", &self.renew_at).finish_non_exhaustive()
    }
}

impl Pair {
    /// A new one, after `before` if there is one.
    fn make(host: &Host, now: Timestamp, before: Option<&Self>) -> anyhow::Result<Self> {
        let day = |at: Timestamp| {
            let date = at.to_zoned(TimeZone::UTC).date();
            let part = |number: i8| u8::try_from(number).unwrap_or(1);
            date_time_ymd(date.year().into(), part(date.month()), part(date.day()))
        };
        let key = KeyPair::generate().context("cannot make a key")?;
        let mut params =
            CertificateParams::new(vec![host.as_subject()]).context("cannot make a certificate")?;
        params.not_before = day(now.saturating_sub(VALID_BEFORE)?);
        params.not_after = day(now.saturating_add(VALID_FOR)?);
        let certificate = params.self_signed(&key).context("cannot make a certificate")?.pem();
        let earlier = before.map_or("", |before| before.certificate.as_str());
        Ok(Self {
            authorities: format!("{certificate}{earlier}"),
            certificate,
            key: key.serialize_pem(),
            // Whole seconds, as it is written down.
            renew_at: Some(Timestamp::from_second(now.saturating_add(RENEW_AFTER)?.as_second())?),
        })
    }

    pub(super) fn is_due(&self, now: Timestamp) -> bool {
        self.renew_at.is_some_and(|at| at <= now)
    }

    fn certified(&self) -> anyhow::Result<CertifiedKey> {
        let chain = CertificateDer::pem_slice_iter(self.certificate.as_bytes())
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| anyhow!("cannot read the certificate: {error}"))?;
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes())
            .map_err(|error| anyhow!("cannot read the key: {error}"))?;
        let provider = rustls::crypto::ring::default_provider();
        CertifiedKey::from_der(chain, key, &provider).context("cannot use the certificate")
    }

    fn of(secret: Secret) -> anyhow::Result<Self> {
        let name = secret.name_any();
        let renew_at = secret.annotations().get(RENEW_AT).and_then(|at| at.parse().ok());
        let mut data = secret.data.unwrap_or_default();
        let mut text = |entry| {
            let bytes = data.remove(entry).with_context(|| format!("{name} has no {entry}"))?;
            String::from_utf8(bytes.0).with_context(|| format!("{entry} of {name} is no text"))
        };
        let (certificate, key) = (text(CERTIFICATE)?, text(KEY)?);
        // Secrets of earlier versions have no such entry.
        let authorities = text(AUTHORITIES).unwrap_or_else(|_| certificate.clone());
        let pair = Self { certificate, key, authorities, renew_at };
        pair.certified().with_context(|| format!("the Secret {name} is of no use"))?;
        Ok(pair)
    }

    fn secret(&self, name: &str, version: Option<String>) -> Secret {
        let entries =
            [(CERTIFICATE, &self.certificate), (KEY, &self.key), (AUTHORITIES, &self.authorities)];
        let data = entries.map(|(entry, text)| (entry.to_owned(), ByteString(text.clone().into())));
        let annotations = self.renew_at.map(|at| (RENEW_AT.to_owned(), format!("{at:.0}")));
        Secret {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                annotations: Some(annotations.into_iter().collect()),
                resource_version: version,
                ..ObjectMeta::default()
            },
            type_: Some(TLS_SECRET.to_owned()),
            data: Some(BTreeMap::from(data)),
            ..Secret::default()
        }
    }
}

/// The Secret.
#[derive(Clone)]
pub(super) struct Store {
    pub(super) api: Api<Secret>,
    pub(super) name: String,
    host: Host,
}

impl Store {
    pub(super) fn new(client: Client, host: &Host) -> Self {
        let api = Api::namespaced(client, shared::NAMESPACE);
        Self { api, name: format!("sojourn-webhook-{}", host.as_label()), host: host.clone() }
    }

    pub(super) async fn load_or_make(&self, clock: &dyn Clock) -> anyhow::Result<Pair> {
        match self.read().await? {
            Some((pair, _)) => Ok(pair),
            None => self.create(&Pair::make(&self.host, clock.now(), None)?).await,
        }
    }

    /// What it holds, and in which version.
    pub(super) async fn read(&self) -> anyhow::Result<Option<(Pair, Option<String>)>> {
        let name = &self.name;
        let found = self.api.get_opt(name).await;
        let found = found.with_context(|| format!("cannot read the Secret {name}"))?;
        found
            .map(|secret| {
                let version = secret.resource_version();
                Ok((Pair::of(secret)?, version))
            })
            .transpose()
    }

    /// Writes it where there is none; answers what there is then.
    pub(super) async fn create(&self, pair: &Pair) -> anyhow::Result<Pair> {
        let name = &self.name;
        match self.api.create(&PostParams::default(), &pair.secret(name, None)).await {
            Ok(_) => Ok(pair.clone()),
            // Another replica was faster.
            Err(kube::Error::Api(status)) if status.is_already_exists() => {
                let there = self.read().await?;
                there.map(|(pair, _)| pair).with_context(|| format!("{name} came and went"))
            }
            Err(error) => {
                Err(anyhow::Error::from(error).context(format!("cannot make the Secret {name}")))
            }
        }
    }

    /// Makes another one after `before`, unless somebody has; answers what there is then.
    pub(super) async fn renew(
        &self,
        before: &Pair,
        version: Option<String>,
        now: Timestamp,
    ) -> anyhow::Result<Pair> {
        let name = &self.name;
        let pair = Pair::make(&self.host, now, Some(before))?;
        let secret = pair.secret(name, version);
        match self.api.replace(name, &PostParams::default(), &secret).await {
            Ok(_) => Ok(pair),
            // Another replica was faster.
            Err(kube::Error::Api(status)) if status.is_conflict() => {
                let there = self.read().await?;
                there.map(|(pair, _)| pair).with_context(|| format!("{name} is gone"))
            }
            Err(error) => {
                Err(anyhow::Error::from(error).context(format!("cannot renew the Secret {name}")))
            }
        }
    }
}

/// The certificate that is shown to whoever connects; it can be another from one moment to the next.
#[derive(Debug)]
pub(super) struct CertificateResolver(RwLock<Arc<CertifiedKey>>);

impl CertificateResolver {
    pub(super) fn new(pair: &Pair) -> anyhow::Result<Self> {
        Ok(Self(RwLock::new(Arc::new(pair.certified()?))))
    }

    pub(super) fn set(&self, pair: &Pair) -> anyhow::Result<()> {
        let certified = Arc::new(pair.certified()?);
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = certified;
        Ok(())
    }
}

impl ResolvesServerCert for CertificateResolver {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.read().unwrap_or_else(PoisonError::into_inner).clone())
    }
}
