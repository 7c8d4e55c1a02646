//! Acting as somebody else, by the `Impersonate-*` headers.
//!
//! Kubernetes has several modes of this. The constrained ones ask two things: may the requester do
//! this very thing while impersonating (`impersonate-on:MODE:VERB`), and may they impersonate this
//! user (`impersonate:MODE`). The legacy one (`impersonate`) asks only the second and lets the
//! requester do whatever the other may do. They are tried in turn, the one that last worked for the
//! requester first, and the refusal that is shown is the first.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};

use http::HeaderMap;
use sojourn_rbac::{Attributes, SUPERUSER_GROUP, User};

use crate::auth::authorize::{Authorizer, forbidden};
use crate::auth::identity::{
    ANONYMOUS, AUTHENTICATED_GROUP, Identity, NODE_USER_PREFIX, NODES_GROUP, UNAUTHENTICATED_GROUP,
};
use crate::auth::service_account;
use crate::field::{FieldError, Path};
use crate::go;
use crate::name;
use crate::status::ApiError;

const USER: &str = "impersonate-user";
const UID: &str = "impersonate-uid";
const GROUP: &str = "impersonate-group";
const EXTRA_PREFIX: &str = "impersonate-extra-";

const AUTHENTICATION: &str = "authentication.k8s.io";

/// From this many values on, a constrained mode first asks whether all values are allowed (`*`).
const MIN_VALUES_FOR_COMBINED_CHECK: usize = 4;

/// Requesters whose last successful mode is cached.
const MAX_CACHED_MODES: usize = 10_000;

/// The user that the headers name, exactly as they name them; `None` if they name none.
pub(crate) fn impersonated_user(headers: &HeaderMap) -> Result<Option<User>, ApiError> {
    let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let first = |name| headers.get(name).map(text).unwrap_or_default();
    let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, value) in headers {
        if let Some(key) = name.as_str().strip_prefix(EXTRA_PREFIX) {
            extra.entry(unescaped(key)).or_default().push(text(value));
        }
    }
    let wanted = User {
        name: first(USER),
        uid: first(UID),
        groups: headers.get_all(GROUP).iter().map(text).collect(),
        extra,
    };
    if !wanted.name.is_empty() {
        return Ok(Some(wanted));
    }
    if only_name(&wanted) {
        return Ok(None);
    }
    let shown = go_syntax(&wanted);
    Err(ApiError::bad_request(format!("requested {shown} without impersonating a user name")))
}

/// The ways to impersonate, in the order in which they are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// A service account acts as the node that its Pod runs on.
    AssociatedNode,
    ArbitraryNode,
    ServiceAccount,
    UserInfo,
    Legacy,
}

impl Mode {
    const ALL: [Self; 5] = [
        Self::AssociatedNode,
        Self::ArbitraryNode,
        Self::ServiceAccount,
        Self::UserInfo,
        Self::Legacy,
    ];

    const fn verb(self) -> &'static str {
        match self {
            Self::AssociatedNode => "impersonate:associated-node",
            Self::ArbitraryNode => "impersonate:arbitrary-node",
            Self::ServiceAccount => "impersonate:serviceaccount",
            Self::UserInfo => "impersonate:user-info",
            Self::Legacy => "impersonate",
        }
    }

    /// What the verb of the request must be preceded by for the requester to be allowed it.
    const fn on(self) -> Option<&'static str> {
        match self {
            Self::AssociatedNode => Some("impersonate-on:associated-node:"),
            Self::ArbitraryNode => Some("impersonate-on:arbitrary-node:"),
            Self::ServiceAccount => Some("impersonate-on:serviceaccount:"),
            Self::UserInfo => Some("impersonate-on:user-info:"),
            Self::Legacy => None,
        }
    }

    fn applies(self, wanted: &User, requester: &User) -> bool {
        let node = node_of(&wanted.name);
        let account = service_account::split_user_name(&wanted.name);
        match self {
            Self::AssociatedNode => {
                let runs_on = requester.extra.get(service_account::NODE_NAME).map(Vec::as_slice);
                only_name(wanted)
                    && service_account::split_user_name(&requester.name).is_some()
                    && node.is_some_and(|node| matches!(runs_on, Some([own]) if own == node))
            }
            Self::ArbitraryNode => only_name(wanted) && node.is_some(),
            Self::ServiceAccount => only_name(wanted) && account.is_some(),
            Self::UserInfo => node.is_none() && account.is_none(),
            Self::Legacy => true,
        }
    }
}

/// A user that may be acted as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Impersonated {
    pub(crate) identity: Identity,
    /// The constrained verb that allowed it, for the audit log; `""` for the legacy mode.
    pub(crate) constraint: &'static str,
}

/// Decides impersonation, and remembers which mode last worked for whom.
#[derive(Debug, Default)]
pub(crate) struct Impersonation {
    last: Mutex<HashMap<String, Mode>>,
}

impl Impersonation {
    /// The identity to go on with, if the requester (`request.user`) may make this request as the
    /// wanted user.
    pub(crate) fn decide(
        &self,
        wanted: &User,
        request: &Attributes<'_>,
        authorizer: &dyn Authorizer,
    ) -> Result<Impersonated, ApiError> {
        let cached_mode = self.cached_mode(&request.user.name);
        let rest = Mode::ALL.into_iter().filter(|mode| Some(*mode) != cached_mode);
        let mut refusal = None;
        for mode in cached_mode.into_iter().chain(rest) {
            if !mode.applies(wanted, request.user) {
                continue;
            }
            match (ModeAttempt { mode, wanted, request, authorizer }).run() {
                Ok(identity) => {
                    if Some(mode) != cached_mode {
                        self.cache_mode(&request.user.name, mode);
                    }
                    let constraint = if mode == Mode::Legacy { "" } else { mode.verb() };
                    return Ok(Impersonated { identity, constraint });
                }
                Err(error) => {
                    refusal.get_or_insert(error);
                }
            }
        }
        Err(refusal.unwrap_or_else(|| ApiError::internal("all impersonation modes failed")))
    }

    fn cached_mode(&self, requester: &str) -> Option<Mode> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.get(requester).copied()
    }

    fn cache_mode(&self, requester: &str, mode: Mode) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.len() >= MAX_CACHED_MODES {
            // It only saves questions, so it may be forgotten at any time.
            last.clear();
        }
        last.insert(requester.to_owned(), mode);
    }
}

/// One mode, tried on one request.
struct ModeAttempt<'a> {
    mode: Mode,
    wanted: &'a User,
    request: &'a Attributes<'a>,
    authorizer: &'a dyn Authorizer,
}

impl ModeAttempt<'_> {
    fn run(&self) -> Result<Identity, ApiError> {
        if let Some(on) = self.mode.on() {
            let verb = format!("{on}{}", self.request.verb);
            self.check(&Attributes { verb: &verb, ..*self.request })?;
        }
        let mut groups = self.name()?;
        self.uid()?;
        self.groups()?;
        self.extra()?;

        let has = |groups: &[String], group: &str| groups.iter().any(|own| own == group);
        let status =
            if self.wanted.name == ANONYMOUS { UNAUTHENTICATED_GROUP } else { AUTHENTICATED_GROUP };
        if !has(&groups, status) && !has(&groups, UNAUTHENTICATED_GROUP) {
            groups.push(status.to_owned());
        }
        Ok(Identity::new(User { groups, ..self.wanted.clone() }))
    }

    fn check(&self, attributes: &Attributes<'_>) -> Result<(), ApiError> {
        let verdict = self.authorizer.authorize(attributes);
        if verdict.allowed { Ok(()) } else { Err(forbidden(attributes, &verdict.reason)) }
    }

    const fn is_constrained(&self) -> bool {
        !matches!(self.mode, Mode::Legacy)
    }

    /// What the requester needs to impersonate one value.
    const fn needed<'b>(
        &'b self,
        group: &'b str,
        resource: &'b str,
        name: &'b str,
    ) -> Attributes<'b> {
        Attributes {
            name,
            api_version: "v1",
            ..Attributes::on_resource(self.request.user, self.mode.verb(), group, resource)
        }
    }

    /// The group of the API that users and groups are looked for in.
    const fn api_group(&self) -> &'static str {
        if self.is_constrained() { AUTHENTICATION } else { "" }
    }

    /// Checks the name; gives the groups that the user is in.
    fn name(&self) -> Result<Vec<String>, ApiError> {
        let User { name, groups, .. } = self.wanted;
        let mut needed = self.needed(self.api_group(), "users", name);
        let mut groups = groups.clone();
        if let (true, Some(node)) = (self.is_constrained(), node_of(name)) {
            needed.resource = "nodes";
            // Which node it is was checked already: the rule is for all of them.
            needed.name = if self.mode == Mode::AssociatedNode { "*" } else { node };
            groups = vec![NODES_GROUP.to_owned()];
        } else if let Some((namespace, account)) = service_account::split_user_name(name) {
            needed.resource = "serviceaccounts";
            needed.namespace = namespace;
            needed.name = account;
            if groups.is_empty() {
                groups = service_account::groups(namespace);
            }
        }
        self.check(&needed)?;
        Ok(groups)
    }

    fn uid(&self) -> Result<(), ApiError> {
        if self.wanted.uid.is_empty() {
            return Ok(());
        }
        self.check(&self.needed(AUTHENTICATION, "uids", &self.wanted.uid))
    }

    fn groups(&self) -> Result<(), ApiError> {
        let groups = &self.wanted.groups;
        let needed = self.needed(self.api_group(), "groups", "");
        if self.is_constrained() {
            if groups.iter().any(String::is_empty) {
                let why = "impersonating the empty string group is not allowed";
                return Err(forbidden(&needed, why));
            }
            if self.wanted.is_superuser() {
                let needed = Attributes { name: SUPERUSER_GROUP, ..needed };
                let why = "impersonating the system:masters group is not allowed";
                return Err(forbidden(&needed, why));
            }
            let all = Attributes { name: "*", ..needed };
            if groups.len() >= MIN_VALUES_FOR_COMBINED_CHECK
                && self.authorizer.authorize(&all).allowed
            {
                return Ok(());
            }
        }
        groups.iter().try_for_each(|group| self.check(&Attributes { name: group, ..needed }))
    }

    fn extra(&self) -> Result<(), ApiError> {
        let extra = &self.wanted.extra;
        let needed = self.needed(AUTHENTICATION, "userextras", "");
        if self.is_constrained() {
            check_extra(extra).map_err(|why| forbidden(&needed, &why))?;
            let all = Attributes { subresource: "*", name: "*", ..needed };
            let count: usize = extra.values().map(Vec::len).sum();
            if count >= MIN_VALUES_FOR_COMBINED_CHECK && self.authorizer.authorize(&all).allowed {
                return Ok(());
            }
        }
        for (key, values) in extra {
            for value in values {
                self.check(&Attributes { subresource: key, name: value, ..needed })?;
            }
        }
        Ok(())
    }
}

/// Constrained modes take only keys like `acme.io/foo`, and values.
fn check_extra(extra: &BTreeMap<String, Vec<String>>) -> Result<(), String> {
    for (key, values) in extra {
        if key.is_empty() {
            return Err("impersonating the empty string key in extra is not allowed".to_owned());
        }
        if let Some(why) = domain_prefixed_path_error(key) {
            return Err(format!("impersonating an invalid key in extra is not allowed: {why}"));
        }
        if key.chars().any(char::is_uppercase) {
            let key = go::quote(key);
            return Err(format!(
                "impersonating a non-lowercase key in extra is not allowed: {key}"
            ));
        }
        if values.iter().any(String::is_empty) {
            return Err("impersonating the empty string value in extra is not allowed".to_owned());
        }
    }
    Ok(())
}

fn domain_prefixed_path_error(key: &str) -> Option<String> {
    let extra = Path::new("extra");
    let path = extra.field("key");
    let parts = key.split_once('/').filter(|(host, rest)| !host.is_empty() && !rest.is_empty());
    let Some((host, rest)) = parts else {
        let why = "must be a domain-prefixed path (such as \"acme.io/foo\")";
        return Some(FieldError::invalid_text(&path, key, why).to_string());
    };
    let mut errors: Vec<String> = name::dns1123_subdomain(host)
        .into_iter()
        .map(|why| FieldError::invalid_text(&path, host, why).to_string())
        .collect();
    let in_path = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&byte);
    if !rest.bytes().all(in_path) {
        let why = name::pattern_text("Invalid path", r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+", &[]);
        errors.push(FieldError::invalid_text(&path, rest, why).to_string());
    }
    match errors.len() {
        0 => None,
        1 => errors.pop(),
        _ => Some(format!("[{}]", errors.join(", "))),
    }
}

fn only_name(user: &User) -> bool {
    user.uid.is_empty() && user.groups.is_empty() && user.extra.is_empty()
}

/// The node that a user name stands for.
fn node_of(user: &str) -> Option<&str> {
    user.strip_prefix(NODE_USER_PREFIX).filter(|node| name::dns1123_subdomain(node).is_empty())
}

/// Decodes `%2f` and the like; what is not encoded well is taken as it stands.
fn unescaped(key: &str) -> String {
    let mut bytes = Vec::with_capacity(key.len());
    let mut rest = key.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut decoded = [0];
        let Some((digits, after)) = rest.split_at_checked(2) else {
            return key.to_owned();
        };
        if hex::decode_to_slice(digits, &mut decoded).is_err() {
            return key.to_owned();
        }
        bytes.extend(decoded);
        rest = after;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A user as Go's `%#v` prints it, because upstream's message does.
fn go_syntax(user: &User) -> String {
    let list = |values: &[String]| {
        let quoted: Vec<String> = values.iter().map(|value| go::quote(value)).collect();
        format!("[]string{{{}}}", quoted.join(", "))
    };
    let groups =
        if user.groups.is_empty() { "[]string(nil)".to_owned() } else { list(&user.groups) };
    let mut text = format!(
        "&user.DefaultInfo{{Name:{}, UID:{}, Groups:{groups}, Extra:map[string][]string",
        go::quote(&user.name),
        go::quote(&user.uid),
    );
    if user.extra.is_empty() {
        text.push_str("(nil)");
    } else {
        let entries: Vec<String> = user
            .extra
            .iter()
            .map(|(key, values)| format!("{}:{}", go::quote(key), list(values)))
            .collect();
        text.push_str(&format!("{{{}}}", entries.join(", ")));
    }
    text.push('}');
    text
}
