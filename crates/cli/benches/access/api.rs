//! The embedded API in this process, reached over the loopback interface, with sessions and RBAC objects.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context as _, Result};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use sojourn_api::access::BreakglassSession;
use sojourn_api::install;
use sojourn_api::name::shared;
use sojourn_apiserver::auth::identity::Identity;
use sojourn_apiserver::{Config, Engine};
use sojourn_rbac::{SUPERUSER_GROUP, User};
use sojourn_web::{Listener, Serving};

use super::plan::Plan;
use super::review::{NAMESPACES, group_of, namespace_of, user_of};
use crate::up::{Controllers, Home, Up};

/// Requests that are made at once.
const MAX_CONCURRENT_REQUESTS: usize = 32;
/// Where the sessions are.
const NAMESPACE: &str = "emergency";
/// How the replica, and whoever posts reviews, show who they are.
pub(crate) const OPERATOR_TOKEN: &str = "the-token-of-the-operator";
pub(crate) const CALLER_TOKEN: &str = "the-token-of-the-api-server";
const CALLER_SECRET: &str = "api-server-token";
/// How the names of sessions begin that are used steadily, and those of all others.
pub(crate) const STEADY: &str = "steady";
const OTHERS: &str = "session";
/// Nothing ends by itself during a benchmark, nor is any end near.
const VALID_FOR: SignedDuration = SignedDuration::from_hours(24);
const IDLE_TIMEOUT: SignedDuration = SignedDuration::from_hours(4);
const RBAC_GROUP: &str = "rbac.authorization.k8s.io";

pub(crate) struct BenchApi {
    engine: Engine,
    serving: Serving,
    address: SocketAddr,
    /// Of somebody who may do everything.
    people: Client,
}

impl BenchApi {
    /// Has `sojourn up` prepare the data, and serves them with the options of the family.
    pub(crate) async fn start(home: &Home) -> Result<Self> {
        let mut up = Up::start(home, Controllers::On).await?;
        up.at_rest().await?;
        up.stop().await?;
        let engine = Engine::open(Config::at(home.data())).await?;
        engine.add_token(OPERATOR_TOKEN, operator());
        let bound = Listener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), None).await?;
        let address = bound.address();
        let serving = bound.serve(engine.router());
        let people = engine.client(administrator());
        let api = Self { engine, serving, address, people };
        api.configure().await.context("cannot configure the family")?;
        Ok(api)
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    async fn configure(&self) -> Result<()> {
        let caller = json!({"tokenSecret": {"name": CALLER_SECRET, "key": "token"}});
        let options = json!({"clusters": {"local": {"authorizedTTL": "0s", "caller": caller}}});
        let secret: Secret = serde_json::from_value(json!({
            "metadata": {"name": CALLER_SECRET}, "stringData": {"token": CALLER_TOKEN},
        }))?;
        let map: ConfigMap = serde_json::from_value(json!({
            "metadata": {"name": shared::CONFIG_MAP},
            "data": {"access.yaml": options.to_string()},
        }))?;
        let params = PostParams::default();
        Api::namespaced(self.people.clone(), shared::NAMESPACE).create(&params, &secret).await?;
        Api::namespaced(self.people.clone(), shared::NAMESPACE).create(&params, &map).await?;
        let namespaces: Api<Namespace> = Api::all(self.people.clone());
        let teams = (0..NAMESPACES).map(namespace_of);
        for name in teams.chain([NAMESPACE.to_owned()]) {
            let namespace = serde_json::from_value(json!({"metadata": {"name": name}}))?;
            namespaces.create(&params, &namespace).await?;
        }
        Ok(())
    }

    /// Roles and bindings: every group may do a little in a few namespaces, and something else everywhere.
    pub(crate) async fn make_rbac_objects(&self, plan: &Plan) -> Result<()> {
        let all = stream::iter(0..plan.rbac_objects / 4).map(|number| self.make_rbac(number));
        all.buffer_unordered(MAX_CONCURRENT_REQUESTS)
            .try_for_each(|()| async { Ok(()) })
            .await
            .context("cannot create roles and bindings")
    }

    async fn make_rbac(&self, number: usize) -> Result<()> {
        let params = PostParams::default();
        let name = format!("bench-{number}");
        let namespace = namespace_of(number);
        let subjects = json!([{"apiGroup": RBAC_GROUP, "kind": "Group", "name": group_of(number)}]);
        let reference = |kind: &str| json!({"apiGroup": RBAC_GROUP, "kind": kind, "name": name});
        let role: Role = serde_json::from_value(json!({
            "metadata": {"name": name},
            "rules": [
                {"apiGroups": [""], "resources": ["pods", "configmaps"], "verbs": ["get", "list"]},
                {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get", "patch"]},
            ],
        }))?;
        let binding: RoleBinding = serde_json::from_value(json!({
            "metadata": {"name": name}, "roleRef": reference("Role"), "subjects": subjects,
        }))?;
        let cluster_role: ClusterRole = serde_json::from_value(json!({
            "metadata": {"name": name},
            "rules": [
                {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list"]},
                {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["get", "list"]},
            ],
        }))?;
        let cluster_binding: ClusterRoleBinding = serde_json::from_value(json!({
            "metadata": {"name": name}, "roleRef": reference("ClusterRole"), "subjects": subjects,
        }))?;
        Api::namespaced(self.people.clone(), &namespace).create(&params, &role).await?;
        Api::namespaced(self.people.clone(), &namespace).create(&params, &binding).await?;
        Api::all(self.people.clone()).create(&params, &cluster_role).await?;
        Api::all(self.people.clone()).create(&params, &cluster_binding).await?;
        Ok(())
    }

    /// Sessions that somebody approved just now.
    pub(crate) async fn make_sessions(&self, plan: &Plan) -> Result<()> {
        let all = stream::iter(0..plan.sessions).map(|number| async move {
            let name = session_name(plan, number);
            self.make_session(&name, number).await.with_context(|| format!("cannot make {name}"))
        });
        let all = all.buffer_unordered(MAX_CONCURRENT_REQUESTS);
        all.try_for_each(|()| async { Ok(()) }).await
    }

    async fn make_session(&self, name: &str, number: usize) -> Result<()> {
        let sessions: Api<BreakglassSession> = Api::namespaced(self.people.clone(), NAMESPACE);
        let seconds = |span: SignedDuration| format!("{}s", span.as_secs());
        let session: BreakglassSession = serde_json::from_value(json!({
            "apiVersion": "access.sojourn.dev/v1alpha1", "kind": "BreakglassSession",
            "metadata": {"name": name},
            "spec": {
                "cluster": "local", "user": user_of(number), "grantedGroup": group_of(number),
                "escalationRef": {"name": group_of(number)},
                "reason": "The payments of the shop fail, and somebody has to look.",
                "maxValidFor": seconds(VALID_FOR), "idleTimeout": seconds(IDLE_TIMEOUT),
            },
        }))?;
        sessions.create(&PostParams::default(), &session).await?;
        for status in [json!({"state": "Pending"}), approved()?] {
            let patch = Patch::Merge(json!({ "status": status }));
            sessions.patch_status(name, &PatchParams::default(), &patch).await?;
        }
        Ok(())
    }

    pub(crate) async fn close(self) {
        self.engine.end_watches();
        self.serving.stop().await;
        self.engine.close().await;
    }
}

/// The status of a session that was approved just now, as long as the controller writes it.
fn approved() -> Result<Value> {
    let now = Timestamp::from_second(Timestamp::now().as_second())?;
    let condition = |name: &str, status: &str, reason: &str, message: &str| {
        json!({
            "type": name, "status": status, "reason": reason, "message": message,
            "lastTransitionTime": now, "observedGeneration": 1,
        })
    };
    Ok(json!({
        "state": "Approved", "observedGeneration": 1,
        "approvals": [{"user": "grace@example.org", "at": now}],
        "approvedAt": now, "activatedAt": now,
        "expiresAt": now + VALID_FOR, "idleDeadline": now + IDLE_TIMEOUT,
        "conditions": [
            condition("Approved", "True", "Approved", "grace@example.org approved it"),
            condition("Active", "True", "Approved", "its group's rights are given"),
            condition("Idle", "False", "InUse", "it may be unused until its idle deadline"),
        ],
    }))
}

fn session_name(plan: &Plan, number: usize) -> String {
    let word = if number < plan.steady { STEADY } else { OTHERS };
    format!("{word}-{number}")
}

/// The account of the controllers, as `sojourn up` has it.
fn operator() -> Identity {
    let of = format!("system:serviceaccounts:{}", shared::NAMESPACE);
    identity(
        format!("system:serviceaccount:{}:{}", shared::NAMESPACE, install::ACCOUNT),
        vec!["system:serviceaccounts".to_owned(), of],
    )
}

fn administrator() -> Identity {
    identity("people".to_owned(), vec![SUPERUSER_GROUP.to_owned()])
}

fn identity(name: String, groups: Vec<String>) -> Identity {
    Identity::authenticated(User { name, groups, ..User::default() })
}

/// How long anything may take that is waited for.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(300);
