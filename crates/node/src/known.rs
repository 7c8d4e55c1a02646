//! What a Pod refers to, as far as it is known.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Secret};

/// Something remote: that it could not be read is not that it is not there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Known<T> {
    Absent,
    /// It could not be read yet; in words, why.
    Unknown(String),
    Is(T),
}

/// Objects of a Pod's namespace.
pub(crate) trait Lookup {
    fn config_map(&self, namespace: &str, name: &str) -> Known<Arc<ConfigMap>>;
    fn secret(&self, namespace: &str, name: &str) -> Known<Arc<Secret>>;
    fn claim(&self, namespace: &str, name: &str) -> Known<Arc<PersistentVolumeClaim>>;
}
