//! Answering a TokenRequest.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Claims, KubernetesClaims, ObjectRef, TokenIssuer, user_name};
use crate::auth::{LiveKind, LiveObjects, ObjectState};
use crate::clock::Entropy;
use crate::field::{FieldError, Path};
use crate::json::{Access, Object};
use crate::status::{ApiError, GroupResource};

const GROUP: &str = "authentication.k8s.io";
const KIND: &str = "TokenRequest";
const DEFAULT_TOKEN_SECONDS: i64 = 60 * 60;
const MIN_TOKEN_SECONDS: i64 = 10 * 60;
const MAX_TOKEN_SECONDS: i64 = 1 << 32;

/// What injected volumes ask for. Such a token really lasts a year, with a mark of when it should
/// have been renewed, because old clients read their token only once.
const INJECTED_TOKEN_SECONDS: i64 = 60 * 60 + 7;
const EXTENDED_TOKEN_SECONDS: i64 = 365 * 24 * 60 * 60;

/// A token that was issued.
#[derive(Debug)]
pub(crate) struct IssuedToken {
    /// The TokenRequest to answer with.
    pub(crate) answer: Value,
}

/// The object that a token is to be bound to.
#[derive(Default)]
struct BoundObject {
    pod: Option<ObjectRef>,
    node: Option<ObjectRef>,
    secret: Option<ObjectRef>,
}

impl TokenIssuer {
    /// Answers a TokenRequest for the service account of the request's path.
    pub(crate) fn issue(
        &self,
        request: &Object,
        namespace: &str,
        name: &str,
        objects: &dyn LiveObjects,
        now: Timestamp,
        entropy: &dyn Entropy,
    ) -> Result<IssuedToken, ApiError> {
        let account = check_metadata(request, namespace, name, objects)?;
        let spec = request.at("spec");
        let mut audiences: Vec<String> =
            spec.list("audiences").iter().filter_map(Value::as_str).map(str::to_owned).collect();
        if audiences.is_empty() {
            audiences.clone_from(&self.audiences);
        }
        let seconds = spec.int("expirationSeconds").unwrap_or(DEFAULT_TOKEN_SECONDS);
        check_duration(seconds)?;
        let bound = match spec.at("boundObjectRef") {
            Value::Null => BoundObject::default(),
            reference => resolve(reference, namespace, name, objects)?,
        };

        let issued_at = now.as_second();
        let ours = audiences.iter().all(|audience| self.audiences.contains(audience));
        let extends = bound.pod.is_some() && seconds == INJECTED_TOKEN_SECONDS && ours;
        let lasts = if extends { EXTENDED_TOKEN_SECONDS } else { seconds };
        let jti = entropy.uid().map_err(ApiError::internal)?;
        let claims = Claims {
            aud: audiences.clone(),
            exp: issued_at + lasts,
            iat: issued_at,
            iss: self.issuer.clone(),
            jti: jti.clone(),
            kubernetes: KubernetesClaims {
                namespace: namespace.to_owned(),
                node: bound.node,
                pod: bound.pod,
                secret: bound.secret,
                serviceaccount: ObjectRef { name: name.to_owned(), uid: account.uid.clone() },
                warnafter: extends.then_some(issued_at + seconds),
            },
            nbf: issued_at,
            sub: user_name(namespace, name),
        };
        let token = self.key.sign(&claims).map_err(|error| {
            ApiError::internal(format_args!("failed to generate token: {error}"))
        })?;
        let at = |seconds| {
            Timestamp::from_second(seconds).map(|at| at.to_string()).map_err(ApiError::internal)
        };
        let answer = json!({
            "kind": KIND,
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": {
                "name": name,
                "namespace": namespace,
                "uid": account.uid,
                "creationTimestamp": at(issued_at)?,
            },
            "spec": {
                "audiences": audiences,
                "expirationSeconds": seconds,
                "boundObjectRef": spec.at("boundObjectRef"),
            },
            "status": {"token": token, "expirationTimestamp": at(issued_at + seconds)?},
        });
        Ok(IssuedToken { answer })
    }
}

/// What the body says of the account must fit the path, and the account must be there.
fn check_metadata(
    request: &Object,
    namespace: &str,
    name: &str,
    objects: &dyn LiveObjects,
) -> Result<ObjectState, ApiError> {
    let metadata = request.at("metadata");
    let path = Path::new("metadata");
    for (member, wanted, detail) in [
        ("name", name, "must match the service account name if specified"),
        ("namespace", namespace, "must match the service account namespace if specified"),
    ] {
        let given = metadata.text(member);
        if !given.is_empty() && given != wanted {
            let error = FieldError::invalid_text(&path.field(member), given, detail);
            return Err(ApiError::invalid(GROUP, KIND, name, &[error]));
        }
    }
    let account = objects
        .state(LiveKind::ServiceAccount, namespace, name)
        .ok_or_else(|| not_found(LiveKind::ServiceAccount, name))?;
    let uid = metadata.text("uid");
    if !uid.is_empty() && uid != account.uid {
        let why = format!(
            "the UID in the token request ({uid}) does not match the UID of the service account ({})",
            account.uid
        );
        return Err(ApiError::conflict(GroupResource { group: GROUP, resource: KIND }, name, &why));
    }
    Ok(account)
}

fn check_duration(seconds: i64) -> Result<(), ApiError> {
    let detail = if seconds < MIN_TOKEN_SECONDS {
        "may not specify a duration less than 10 minutes"
    } else if seconds > MAX_TOKEN_SECONDS {
        "may not specify a duration larger than 2^32 seconds"
    } else {
        return Ok(());
    };
    let spec = Path::new("spec");
    let error = FieldError::invalid(&spec.field("expirationSeconds"), &json!(seconds), detail);
    Err(ApiError::invalid(GROUP, KIND, "", &[error]))
}

fn resolve(
    reference: &Value,
    namespace: &str,
    account: &str,
    objects: &dyn LiveObjects,
) -> Result<BoundObject, ApiError> {
    let (group, version) = match reference.text("apiVersion").split('/').collect::<Vec<_>>()[..] {
        [version] => ("", version),
        [group, version] => (group, version),
        // Upstream reads nothing from what it cannot parse.
        _ => ("", ""),
    };
    let (kind, name) = (reference.text("kind"), reference.text("name"));
    let state =
        |live, namespace| objects.state(live, namespace, name).ok_or_else(|| not_found(live, name));
    let to = |found: ObjectState| Some(ObjectRef { name: name.to_owned(), uid: found.uid });

    let mut bound = BoundObject::default();
    match (group, kind) {
        ("", "Pod") => {
            let pod = objects.pod(namespace, name).ok_or_else(|| not_found(LiveKind::Pod, name))?;
            if pod.at("spec").text("serviceAccountName") != account {
                return Err(ApiError::bad_request(format!(
                    "cannot bind token for serviceaccount {} to pod running with different \
                     serviceaccount name.",
                    crate::go::quote(account)
                )));
            }
            bound.pod = to(ObjectState::of(&pod));
            bound.node = node_of(&pod, objects);
        }
        ("", "Node") => bound.node = to(state(LiveKind::Node, "")?),
        ("", "Secret") => bound.secret = to(state(LiveKind::Secret, namespace)?),
        _ => {
            return Err(ApiError::bad_request(format!(
                "cannot bind token to object of type {group}/{version}, Kind={kind}"
            )));
        }
    }
    let wanted = reference.text("uid");
    let found = [&bound.pod, &bound.secret, &bound.node].into_iter().flatten().next();
    if !wanted.is_empty() && found.is_some_and(|found| found.uid != wanted) {
        let why = format!(
            "the UID in the bound object reference ({wanted}) does not match the UID in record. \
             The object might have been deleted and then recreated"
        );
        return Err(ApiError::conflict(GroupResource { group, resource: kind }, name, &why));
    }
    Ok(bound)
}

/// The node that a Pod is bound to; by name only where there is no such Node object.
fn node_of(pod: &Object, objects: &dyn LiveObjects) -> Option<ObjectRef> {
    let name = pod.at("spec").text("nodeName");
    let uid = || objects.state(LiveKind::Node, "", name).map(|node| node.uid).unwrap_or_default();
    (!name.is_empty()).then(|| ObjectRef { name: name.to_owned(), uid: uid() })
}

fn not_found(kind: LiveKind, name: &str) -> ApiError {
    ApiError::not_found(GroupResource { group: "", resource: kind.resource() }, name)
}
