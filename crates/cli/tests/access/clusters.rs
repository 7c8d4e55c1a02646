//! Two clusters, each with a kube-apiserver and bindings of its own, and one operator.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::config::Kubeconfig;
use serde_json::{Value, json};

use crate::api_server::Asking;
use crate::client;
use crate::control_plane::ControlPlane;
use crate::folder::Folder;
use crate::objects::Objects;
use crate::office::{GROUP, NAMESPACE, Office, Session};
use crate::people::{Person, token_of};
use crate::stage::{Engine, SYSTEM, Stage, assets};
use crate::wait::eventually;

const BRANCH: &str = "branch";
const TOKEN: &str = "a-token-that-only-the-branch-has";
const RBAC: &str = "rbac.authorization.k8s.io";

#[tokio::test(flavor = "multi_thread")]
async fn real_clusters_are_answered_by_their_own_bindings() {
    let asking = Asking::ALWAYS;
    let options = json!({"activityInterval": "1s", "clusters": {
        "local": asking.cluster_config(),
        BRANCH: {
            "authorizedTTL": "0s",
            "caller": {"tokenSecret": {"name": "branch-token", "key": "token"}},
            "kubeconfigSecret": {"name": BRANCH},
        },
    }});
    let Some(mut stage) = Stage::start_with(Engine::Real(asking), &options).await else { return };
    let Some(assets) = assets("the second control plane") else { return };
    let server = stage.api_server.as_ref().expect("it is real");
    let plane = server.further_cluster(&assets, TOKEN).await;
    let terms = json!({"maxValidFor": "30m", "idleTimeout": "10m"});
    let office = Office::open(&mut stage, &terms).await;
    let mut offered = terms.clone();
    offered["allowed"] = json!({"users": [office.ada.user], "clusters": ["local", BRANCH]});
    office.lend(GROUP, &offered).await;

    let branch = Objects(client::connect(&plane.kubeconfig()).await);
    let folder = Folder::new();
    let there = open_branch(&branch, &plane, &folder).await;
    connect(&office, &branch, &plane).await;

    // A session for the branch, of a group that the bindings of the other cluster alone know.
    let asked = office.ada.gets(&["request", "--cluster", BRANCH, "--group", GROUP]);
    let asked = Session(asked);
    office.until(asked.name(), "Pending").await;
    office.ben.gets(&["approve", asked.name()]);
    let seen = |session: &Session| session.condition("ActivitySourceHealthy").0 == "True";
    office.until_so(asked.name(), "seen", seen).await;
    assert!(!there.is_allowed().await, "nothing is bound to the group there");
    assert!(!office.ada.is_allowed().await, "it is for the branch");

    bind(&branch).await;
    eventually("Ada is allowed to", async || there.is_allowed().await.then_some(())).await;
    assert!(!office.ada.is_allowed().await);
    office.until_so(asked.name(), "used", |session| session.count() > 0).await;

    // Without a kubeconfig nothing is known of the branch.
    let secrets: Api<Secret> = Api::namespaced(office.stage.objects.0.clone(), SYSTEM);
    secrets.delete(BRANCH, &DeleteParams::default()).await.expect("it is there");
    eventually("Ada is not allowed to", async || (!there.is_allowed().await).then_some(())).await;
    office.until_so(asked.name(), "blind", |session| !seen(session)).await;
    drop(office);
    stage.stop();
}

/// Ada's account on the branch, and one that may read its roles and ask what somebody may.
async fn open_branch(branch: &Objects, plane: &ControlPlane, folder: &Folder) -> Person {
    branch.make_namespace(NAMESPACE).await;
    for name in ["ada", "sojourn"] {
        let account = json!({
            "apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"name": name, "namespace": NAMESPACE},
        });
        branch.apply(&account).await;
    }
    let name = "sojourn-access-cluster";
    let role = json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRole", "metadata": {"name": name},
        "rules": [
            {
                "apiGroups": [RBAC], "verbs": ["get", "list", "watch"],
                "resources": ["roles", "clusterroles", "rolebindings", "clusterrolebindings"],
            },
            {
                "apiGroups": ["authorization.k8s.io"], "verbs": ["create"],
                "resources": ["subjectaccessreviews"],
            },
        ],
    });
    let roles: Api<ClusterRole> = Api::all(branch.0.clone());
    let params = PatchParams::apply("access-tests").force();
    roles.patch(name, &params, &Patch::Apply(&role)).await.expect("a role");
    let account = json!({"kind": "ServiceAccount", "name": "sojourn", "namespace": NAMESPACE});
    branch
        .apply(&json!({
            "apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRoleBinding",
            "metadata": {"name": name}, "subjects": [account],
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": name},
        }))
        .await;
    Person::of_account(&plane.kubeconfig(), folder.path(), NAMESPACE, "ada", "").await
}

/// Tells the operator how the branch is reached, and how it shows who it is.
async fn connect(office: &Office<'_>, branch: &Objects, plane: &ControlPlane) {
    let token = eventually("the operator has an account on the branch", async || {
        token_of(&branch.0, NAMESPACE, "sojourn").await
    });
    let kubeconfig = inline_kubeconfig(&plane.kubeconfig(), &token.await);
    for (name, key, value) in
        [("branch-token", "token", TOKEN), (BRANCH, "kubeconfig", &kubeconfig.to_string())]
    {
        office
            .stage
            .objects
            .apply(&json!({
                "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": SYSTEM},
                "stringData": {key: value},
            }))
            .await;
    }
}

/// An administrator's kubeconfig with another token, and without files.
fn inline_kubeconfig(administrator: &Path, token: &str) -> Value {
    let config = Kubeconfig::read_from(administrator).expect("a kubeconfig");
    let cluster = config.clusters[0].cluster.as_ref().expect("a cluster");
    let authority = cluster.certificate_authority.as_ref().expect("an authority");
    let authority = STANDARD.encode(std::fs::read(authority).expect("it was made"));
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {
            "server": cluster.server, "certificate-authority-data": authority,
        }}],
        "users": [{"name": "c", "user": {"token": token}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
    })
}

/// From now on the group may read ConfigMaps there, too.
async fn bind(branch: &Objects) {
    let metadata = json!({"name": GROUP, "namespace": NAMESPACE});
    let role = json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": "Role", "metadata": metadata,
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}],
    });
    let binding = json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": "RoleBinding", "metadata": metadata,
        "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": GROUP},
        "subjects": [{"apiGroup": RBAC, "kind": "Group", "name": GROUP}],
    });
    for object in [role, binding] {
        branch.apply(&object).await;
    }
}
