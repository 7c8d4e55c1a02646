//! What each kind of volume that is made from the API holds.

use jiff::Timestamp;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, KeyToPath, Pod, Secret, Volume, VolumeProjection};

use super::content::{ContentError, Contents, DEFAULT_MODE, Kind, ObjectRequest};
use super::downward;
use super::token::{self, Tokens};
use crate::known::{Known, Lookup};
use crate::plan::resource::Requests;

/// Where contents come from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Origin<'a, L> {
    pub(super) pod: &'a Pod,
    pub(super) lookup: &'a L,
    pub(super) tokens: &'a Tokens,
    pub(super) allocatable: Requests,
    pub(super) now: Timestamp,
}

/// The files of a volume, and when a token among them is to be renewed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Collected {
    pub(super) contents: Contents,
    pub(super) refresh: Option<Timestamp>,
}

/// Whether a volume's files are made from objects of the API.
pub(super) fn is_made_from_api(volume: &Volume) -> bool {
    volume.config_map.is_some()
        || volume.secret.is_some()
        || volume.projected.is_some()
        || volume.downward_api.is_some()
}

impl<L: Lookup> Origin<'_, L> {
    pub(super) async fn collect(&self, volume: &Volume) -> Result<Collected, ContentError> {
        let mut contents = Contents::default();
        let mut refresh = None;
        if let Some(source) = &volume.config_map {
            let wanted =
                wanted(&source.name, source.items.as_deref(), source.default_mode, source.optional);
            contents.put_config_map(&wanted, self.config_map(&source.name))?;
        } else if let Some(source) = &volume.secret {
            let name = source.secret_name.as_deref().unwrap_or_default();
            let items = source.items.as_deref();
            let wanted = wanted(name, items, source.default_mode, source.optional);
            contents.put_secret(&wanted, self.secret(name))?;
        } else if let Some(source) = &volume.downward_api {
            let items = source.items.as_deref().unwrap_or_default();
            let mode = source.default_mode.unwrap_or(DEFAULT_MODE);
            downward::collect(&mut contents, items, mode, self.pod, self.allocatable)?;
        } else if let Some(source) = &volume.projected {
            let mut errors = Vec::new();
            for part in source.sources.iter().flatten() {
                match self.project(&mut contents, part, source.default_mode).await {
                    Ok(None) => {}
                    Ok(Some(time)) => {
                        refresh = Some(refresh.map_or(time, |first: Timestamp| first.min(time)));
                    }
                    Err(error) => errors.push(error),
                }
            }
            ContentError::combine(errors)?;
        }
        Ok(Collected { contents: contents.finish()?, refresh })
    }

    /// Adds one source of a projected volume; a token says when it is to be renewed.
    async fn project(
        &self,
        contents: &mut Contents,
        part: &VolumeProjection,
        mode: Option<i32>,
    ) -> Result<Option<Timestamp>, ContentError> {
        if let Some(source) = &part.secret {
            let wanted = wanted(&source.name, source.items.as_deref(), mode, source.optional);
            contents.put_secret(&wanted, self.secret(&source.name))?;
        } else if let Some(source) = &part.config_map {
            let wanted = wanted(&source.name, source.items.as_deref(), mode, source.optional);
            contents.put_config_map(&wanted, self.config_map(&source.name))?;
        } else if let Some(source) = &part.downward_api {
            let items = source.items.as_deref().unwrap_or_default();
            let mode = mode.unwrap_or(DEFAULT_MODE);
            downward::collect(contents, items, mode, self.pod, self.allocatable)?;
        } else if let Some(source) = &part.service_account_token {
            let token =
                self.tokens.get(&token::TokenRequestKey::new(self.pod, source), self.now).await?;
            let mode = mode.unwrap_or(DEFAULT_MODE);
            contents.put(&source.path, token.text.into_bytes(), mode, Kind::Secret)?;
            return Ok(Some(token.refresh));
        } else if part.cluster_trust_bundle.is_some() {
            return Err(ContentError::Unsupported("a clusterTrustBundle"));
        } else if part.pod_certificate.is_some() {
            return Err(ContentError::Unsupported("a podCertificate"));
        }
        Ok(None)
    }

    fn config_map(&self, name: &str) -> Known<Arc<ConfigMap>> {
        self.lookup.config_map(self.namespace(), name)
    }

    fn secret(&self, name: &str) -> Known<Arc<Secret>> {
        self.lookup.secret(self.namespace(), name)
    }

    fn namespace(&self) -> &str {
        self.pod.metadata.namespace.as_deref().unwrap_or_default()
    }
}

fn wanted<'a>(
    name: &'a str,
    items: Option<&'a [KeyToPath]>,
    mode: Option<i32>,
    optional: Option<bool>,
) -> ObjectRequest<'a> {
    ObjectRequest {
        name,
        items: items.unwrap_or_default(),
        mode: mode.unwrap_or(DEFAULT_MODE),
        optional: optional.unwrap_or(false),
    }
}
