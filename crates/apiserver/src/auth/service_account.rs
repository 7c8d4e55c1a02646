//! The tokens of service accounts: signed, bound to an audience, a time and often a Pod, and void as
//! soon as what they are bound to is gone.

mod issue;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use sojourn_rbac::User;

use crate::auth::identity::{CREDENTIAL_ID, Identity};
use crate::auth::jwt::{JwtError, SigningKey, Unverified, VerifyingKey};
use crate::auth::token::TokenHash;
use crate::auth::{LiveKind, LiveObjects};
use crate::go;
use crate::name;

pub(crate) use crate::auth::jwt::KeyError;

const USER_PREFIX: &str = "system:serviceaccount:";
const ALL_GROUP: &str = "system:serviceaccounts";
const POD_NAME: &str = "authentication.kubernetes.io/pod-name";
const POD_UID: &str = "authentication.kubernetes.io/pod-uid";
pub(crate) const NODE_NAME: &str = "authentication.kubernetes.io/node-name";
const NODE_UID: &str = "authentication.kubernetes.io/node-uid";

/// Clocks may differ by this much, and a deleted object's tokens outlive it by as much.
const LEEWAY: SignedDuration = SignedDuration::from_secs(60);

/// The name of a service account as a user.
pub(crate) fn user_name(namespace: &str, name: &str) -> String {
    format!("{USER_PREFIX}{namespace}:{name}")
}

/// The namespace and name of the service account that a user is, if they are one.
pub(crate) fn split_user_name(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix(USER_PREFIX)?.split_once(':')?;
    let good =
        name::dns1123_label(namespace).is_empty() && name::dns1123_subdomain(name).is_empty();
    good.then_some((namespace, name))
}

/// The groups that every service account of a namespace is in.
pub(crate) fn groups(namespace: &str) -> Vec<String> {
    vec![ALL_GROUP.to_owned(), format!("{ALL_GROUP}:{namespace}")]
}

/// Issues tokens and checks them.
#[derive(Debug)]
pub(crate) struct TokenIssuer {
    /// Who issues: `iss`.
    issuer: String,
    key: SigningKey,
    keys: Vec<VerifyingKey>,
    /// The audiences that this server answers to.
    audiences: Vec<String>,
    /// Tokens whose signature was found good: checking it again would be the dearest part of a
    /// request. Everything else about a token is looked at each time.
    signed: Mutex<HashMap<TokenHash, Arc<Claims>>>,
}

/// Tokens whose verified claims are cached.
const MAX_CACHED_TOKENS: usize = 1024;

impl TokenIssuer {
    /// The first of the PEM keys signs; all of them verify, so that a key can be replaced without
    /// voiding what it signed.
    pub(crate) fn new(issuer: &str, pem_keys: &[&str]) -> Result<Self, KeyError> {
        let mut keys =
            pem_keys.iter().map(|pem| SigningKey::from_pem(pem)).collect::<Result<Vec<_>, _>>()?;
        if keys.is_empty() {
            return Err(KeyError::NotPem);
        }
        let verifying = keys.iter().map(SigningKey::verifying).collect();
        Ok(Self {
            issuer: issuer.to_owned(),
            key: keys.swap_remove(0),
            keys: verifying,
            audiences: vec![issuer.to_owned()],
            signed: Mutex::default(),
        })
    }

    /// A new signing key, as PKCS#8 in PEM.
    pub(crate) fn generate_key() -> Result<String, KeyError> {
        SigningKey::generate_pem()
    }

    /// The audiences of this server: what a token is for unless it says otherwise.
    pub(crate) fn audiences(&self) -> &[String] {
        &self.audiences
    }

    /// Who a token is for, if it is one of ours and good for one of these audiences; `None` if it
    /// is not ours to judge.
    pub(crate) fn verify(
        &self,
        token: &str,
        audiences: &[String],
        objects: &dyn LiveObjects,
        now: Timestamp,
    ) -> Result<Option<VerifiedToken>, InvalidToken> {
        let Some(claims) = self.signed_claims(token)? else {
            return Ok(None);
        };
        let good_for: Vec<String> =
            audiences.iter().filter(|audience| claims.aud.contains(audience)).cloned().collect();
        if good_for.is_empty() {
            return Err(InvalidToken::Audience {
                token: quoted_list(&claims.aud),
                target: quoted_list(audiences),
            });
        }
        claims.check_times(now)?;
        claims.kubernetes.check_bindings(objects, now)?;
        Ok(Some(VerifiedToken { identity: claims.identity(), audiences: good_for }))
    }

    /// The claims of a token that one of our keys signed.
    fn signed_claims(&self, token: &str) -> Result<Option<Arc<Claims>>, InvalidToken> {
        #[derive(Deserialize)]
        struct IssuerOnly {
            iss: String,
        }
        let hash = TokenHash::of(token);
        if let Some(claims) = self.cached_claims().get(&hash) {
            return Ok(Some(Arc::clone(claims)));
        }
        let Ok(token) = Unverified::parse(token) else {
            return Ok(None);
        };
        match token.unverified_claims::<IssuerOnly>() {
            Ok(claims) if claims.iss == self.issuer => {}
            _ => return Ok(None),
        }
        match token.verify(&self.keys) {
            Ok(()) => {}
            Err(JwtError::NotAToken) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
        let claims: Arc<Claims> = Arc::new(token.unverified_claims()?);
        let mut cached_claims = self.cached_claims();
        if cached_claims.len() >= MAX_CACHED_TOKENS {
            cached_claims.clear();
        }
        cached_claims.insert(hash, Arc::clone(&claims));
        Ok(Some(claims))
    }

    fn cached_claims(&self) -> MutexGuard<'_, HashMap<TokenHash, Arc<Claims>>> {
        self.signed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A token that is good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct VerifiedToken {
    pub(crate) identity: Identity,
    /// The audiences that were asked for and that the token is for.
    pub(crate) audiences: Vec<String>,
}

/// Why a token of ours is not good, in upstream's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InvalidToken {
    #[error(transparent)]
    Jwt(#[from] JwtError),
    #[error("token audiences {token} is invalid for the target audiences {target}")]
    Audience { token: String, target: String },
    #[error("service account token has expired")]
    Expired,
    #[error("service account token is not valid yet")]
    NotYet,
    #[error("service account token is issued in the future")]
    FromTheFuture,
    #[error("serviceaccounts {} not found", go::quote(.0))]
    AccountMissing(String),
    #[error("service account {namespace}/{name} has been deleted")]
    AccountDeleted { namespace: String, name: String },
    #[error("service account UID ({found}) does not match claim ({claimed})")]
    OtherAccount { found: String, claimed: String },
    #[error("service account token has been invalidated")]
    Invalidated,
    #[error("{kind} UID ({found}) does not match service account {kind} ref claim ({claimed})")]
    OtherObject { kind: &'static str, found: String, claimed: String },
}

/// Members are in alphabetical order, as upstream's are.
#[derive(Debug, Serialize, Deserialize)]
struct Claims {
    aud: Vec<String>,
    exp: i64,
    iat: i64,
    iss: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    jti: String,
    #[serde(rename = "kubernetes.io")]
    kubernetes: KubernetesClaims,
    nbf: i64,
    sub: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct KubernetesClaims {
    namespace: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    node: Option<ObjectRef>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pod: Option<ObjectRef>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    secret: Option<ObjectRef>,
    serviceaccount: ObjectRef,
    /// From when on the use of the token is a sign of a client that doesn't renew it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    warnafter: Option<i64>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct ObjectRef {
    name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    uid: String,
}

impl Claims {
    fn check_times(&self, now: Timestamp) -> Result<(), InvalidToken> {
        let at = |seconds| Timestamp::from_second(seconds).map_err(|_| JwtError::NotAToken);
        let late = now.saturating_add(LEEWAY).unwrap_or(Timestamp::MAX);
        let early = now.saturating_sub(LEEWAY).unwrap_or(Timestamp::MIN);
        if late < at(self.nbf)? {
            return Err(InvalidToken::NotYet);
        }
        if early > at(self.exp)? {
            return Err(InvalidToken::Expired);
        }
        if late < at(self.iat)? {
            return Err(InvalidToken::FromTheFuture);
        }
        Ok(())
    }

    fn identity(&self) -> Identity {
        let KubernetesClaims { namespace, node, pod, serviceaccount, .. } = &self.kubernetes;
        let mut user = User {
            name: user_name(namespace, &serviceaccount.name),
            uid: serviceaccount.uid.clone(),
            groups: groups(namespace),
            ..User::default()
        };
        let mut note = |key: &str, value: String| user.extra.insert(key.to_owned(), vec![value]);
        if !self.jti.is_empty() {
            note(CREDENTIAL_ID, format!("JTI={}", self.jti));
        }
        if let Some(pod) = pod.as_ref().filter(|pod| !pod.name.is_empty() && !pod.uid.is_empty()) {
            note(POD_NAME, pod.name.clone());
            note(POD_UID, pod.uid.clone());
        }
        if let Some(node) = node.as_ref().filter(|node| !node.name.is_empty()) {
            note(NODE_NAME, node.name.clone());
            if !node.uid.is_empty() {
                note(NODE_UID, node.uid.clone());
            }
        }
        Identity::authenticated(user)
    }
}

impl KubernetesClaims {
    /// Everything that the token is bound to must still be there, and be the same.
    fn check_bindings(
        &self,
        objects: &dyn LiveObjects,
        now: Timestamp,
    ) -> Result<(), InvalidToken> {
        // What is being deleted counts as there until it has been so for the leeway.
        let oldest = now.saturating_sub(LEEWAY).unwrap_or(Timestamp::MIN);
        let is_gone = |deleted_at: Option<Timestamp>| deleted_at.is_some_and(|at| at < oldest);

        let ObjectRef { name, uid } = &self.serviceaccount;
        let account = objects
            .state(LiveKind::ServiceAccount, &self.namespace, name)
            .ok_or_else(|| InvalidToken::AccountMissing(name.clone()))?;
        if account.uid != *uid {
            return Err(InvalidToken::OtherAccount { found: account.uid, claimed: uid.clone() });
        }
        if is_gone(account.deleted_at) {
            let namespace = self.namespace.clone();
            return Err(InvalidToken::AccountDeleted { namespace, name: name.clone() });
        }

        // The node of a Pod's token is only told; a node's own token is bound to it.
        let node = self.node.as_ref().filter(|_| self.pod.is_none());
        let bound = [
            (LiveKind::Secret, "secret", self.namespace.as_str(), self.secret.as_ref()),
            (LiveKind::Pod, "pod", self.namespace.as_str(), self.pod.as_ref()),
            (LiveKind::Node, "node", "", node),
        ];
        for (live, kind, namespace, reference) in bound {
            let Some(reference) = reference else {
                continue;
            };
            let state =
                objects.state(live, namespace, &reference.name).ok_or(InvalidToken::Invalidated)?;
            if state.uid != reference.uid {
                let claimed = reference.uid.clone();
                return Err(InvalidToken::OtherObject { kind, found: state.uid, claimed });
            }
            if is_gone(state.deleted_at) {
                return Err(InvalidToken::Invalidated);
            }
        }
        Ok(())
    }
}

/// `["a" "b"]`, as Go's `%q` prints a list.
fn quoted_list(texts: &[String]) -> String {
    let quoted: Vec<String> = texts.iter().map(|text| go::quote(text)).collect();
    format!("[{}]", quoted.join(" "))
}
