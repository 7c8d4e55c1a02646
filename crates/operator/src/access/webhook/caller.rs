//! Who asks: the API servers of clusters, each known by a credential that names its cluster.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use http::header::{AUTHORIZATION, HeaderMap};
use ring::digest::{Digest, SHA256, digest};

/// The common name of the certificate that a client showed, in the extensions of its requests. Whoever puts
/// it there has verified the certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerCommonName(pub Arc<str>);

/// By what the API server of a cluster is known.
#[derive(Clone, PartialEq, Eq)]
pub enum Credential {
    /// The common name of its client certificate.
    CommonName(String),
    /// Its bearer token.
    Token(String),
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CommonName(name) => f.debug_tuple("CommonName").field(name).finish(),
            Self::Token(_) => f.write_str("Token"),
        }
    }
}

/// Who may ask, and for which cluster. Clones share everything.
#[derive(Debug, Clone, Default)]
pub struct Callers(Arc<RwLock<CallerTable>>);

#[derive(Debug, Default)]
struct CallerTable {
    /// `None`: several clusters have it, so it names none.
    by_common_name: HashMap<String, Option<Arc<str>>>,
    by_token: Vec<(Digest, Option<Arc<str>>)>,
}

impl Callers {
    /// From now on these, each with its cluster, and nobody else.
    pub fn set(&self, callers: impl IntoIterator<Item = (String, Credential)>) {
        let mut table = CallerTable::default();
        for (cluster, credential) in callers {
            table.add(cluster.into(), credential);
        }
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = table;
    }

    /// The cluster of whoever asks. A certificate that names one counts before a token.
    pub(super) fn cluster_of(
        &self,
        peer: Option<&PeerCommonName>,
        headers: &HeaderMap,
    ) -> Option<Arc<str>> {
        let table = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let by_name = peer.and_then(|peer| table.by_common_name.get(&*peer.0));
        match by_name {
            Some(cluster) => cluster.clone(),
            None => table.cluster_of_token(bearer(headers)?),
        }
    }
}

impl CallerTable {
    fn add(&mut self, cluster: Arc<str>, credential: Credential) {
        match credential {
            // An empty credential is none.
            Credential::CommonName(text) | Credential::Token(text) if text.is_empty() => {}
            Credential::CommonName(name) => {
                let named =
                    self.by_common_name.entry(name).or_insert_with(|| Some(cluster.clone()));
                named.take_if(|known| *known != cluster);
            }
            Credential::Token(token) => {
                let token = digest(&SHA256, token.as_bytes());
                let same = |known: &&mut (Digest, _)| known.0.as_ref() == token.as_ref();
                match self.by_token.iter_mut().find(same) {
                    Some((_, named)) => drop(named.take_if(|known| *known != cluster)),
                    None => self.by_token.push((token, Some(cluster))),
                }
            }
        }
    }

    /// Takes as long whichever token it is, and whether it is one.
    fn cluster_of_token(&self, token: &str) -> Option<Arc<str>> {
        let shown = digest(&SHA256, token.as_bytes());
        let mut cluster = None;
        for (known, named) in &self.by_token {
            if is_same(known.as_ref(), shown.as_ref()) {
                cluster.clone_from(named);
            }
        }
        cluster
    }
}

/// Looks at every byte, wherever they differ first.
fn is_same(known: &[u8], shown: &[u8]) -> bool {
    let difference = known.iter().zip(shown).fold(0, |sum, (known, shown)| sum | (known ^ shown));
    known.len() == shown.len() && difference == 0
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut given = headers.get_all(AUTHORIZATION).iter();
    let (value, None) = (given.next()?, given.next()) else { return None };
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}
