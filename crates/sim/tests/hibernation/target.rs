//! A cluster with an API of its own: it runs when its nodes beat again and its operators have settled.

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Secret};
use kube::api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use sojourn_api::cluster::name::RESUME_SKIPS_CLUSTER_OPERATORS;
use sojourn_core::cluster::MachineState;
use sojourn_drivers::actuator::fake::Fake;
use sojourn_operator::clock::Clock as _;
use tokio::task::JoinSet;

use crate::fixture::{
    HOUR, MINUTE, NAMESPACE, SECOND, Stage, condition, found, install, is_running, make_namespace,
    put, says, status,
};

const KUBECONFIG: &str = "apiVersion: v1
kind: Config
current-context: blue
clusters: [{name: blue, cluster: {server: 'https://api.blue.example.org:6443'}}]
users: [{name: blue, user: {token: t}}]
contexts: [{name: blue, context: {cluster: blue, user: blue}}]
";

async fn with_kubeconfig(stage: &mut Stage, spec: Value) {
    stage.add_machines("blue", 1);
    create_with_kubeconfig(stage, spec).await;
}

/// Makes a cluster of the machines that its provider has.
async fn create_with_kubeconfig(stage: &Stage, spec: Value) {
    let secrets: Api<Secret> = Api::namespaced(stage.client.clone(), NAMESPACE);
    let secret =
        json!({"metadata": {"name": "kubeconfig"}, "stringData": {"kubeconfig": KUBECONFIG}});
    let secret = serde_json::from_value(secret).expect("a Secret");
    secrets.create(&PostParams::default(), &secret).await.expect("it is made");
    make_namespace(&stage.target, "kube-node-lease").await;
    let whole = json!({
        "platform": {"fake": {}}, "kubeconfigSecretRef": {"name": "kubeconfig"},
    });
    stage.create("blue", whole, spec).await;
}

/// What the kubelet of `node-0` asks for, as it is in a CSR.
const REQUEST: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlId01JR1dBZ0VBTURReEZUQVRCZ05WQkFvTURITj\
    VjM1JsYlRwdWIyUmxjekViTUJrR0ExVUVBd3dTYzNsegpkR1Z0T201dlpHVTZibTlrWlMwd01Ga3dFd1lIS29aSXpq\
    MENBUVlJS29aSXpqMERBUWNEUWdBRUZEWnJDUC8wCkFHWVMzSyswNkduZXEvcWVxZVpqSTJMWVRSTW5FV0RzSG5JNE\
    hGQVlRZ05iRnZPR3ZFYnpVNE9ZZW1CSU5USnIKQmxNUjdQd2JSNCtMeTZBQU1Bb0dDQ3FHU000OUJBTUNBMGtBTUVZ\
    Q0lRQ0JGZWJVWkF4R1J3ak1TbDhyRFNUWgpibUJmZkt3WEV5Uis5Q2xaMU1DSU9BSWhBTGhFZHQyeW55eW1Mc2ptc0\
    tmb2hreVNlQWZOZkVrbXFPL1k5WXJuCnBrZGIKLS0tLS1FTkQgQ0VSVElGSUNBVEUgUkVRVUVTVC0tLS0tCg==";

/// A node of the other cluster, with a Lease.
async fn make_node(stage: &Stage, name: &str) {
    let nodes: Api<Node> = Api::all(stage.target.clone());
    let node = serde_json::from_value(json!({"metadata": {"name": name}})).expect("a Node");
    nodes.create(&PostParams::default(), &node).await.expect("it is made");
    let leases: Api<Lease> = Api::namespaced(stage.target.clone(), "kube-node-lease");
    let lease = serde_json::from_value(json!({"metadata": {"name": name}})).expect("a Lease");
    leases.create(&PostParams::default(), &lease).await.expect("it is made");
    set_ready(stage, name, true).await;
}

async fn set_ready(stage: &Stage, name: &str, ready: bool) {
    let nodes: Api<Node> = Api::all(stage.target.clone());
    let status = if ready { "True" } else { "False" };
    let patch = json!({"status": {"conditions": [{"type": "Ready", "status": status}]}});
    let params = PatchParams::default();
    nodes.patch_status(name, &params, &Patch::Merge(patch)).await.expect("it is there");
}

/// The kubelet of a node says that it lives.
async fn beat(stage: &Stage, name: &str) {
    beat_at(&stage.target, name, stage.clock.now()).await;
}

async fn beat_at(target: &Client, name: &str, now: Timestamp) {
    let leases: Api<Lease> = Api::namespaced(target.clone(), "kube-node-lease");
    let now = format!("{now:.6}");
    let patch = Patch::Merge(json!({"spec": {"renewTime": now}}));
    leases.patch(name, &PatchParams::default(), &patch).await.expect("it is there");
}

fn operators(stage: &Stage) -> Api<DynamicObject> {
    let resource = ApiResource {
        group: "config.openshift.io".to_owned(),
        version: "v1".to_owned(),
        api_version: "config.openshift.io/v1".to_owned(),
        kind: "ClusterOperator".to_owned(),
        plural: "clusteroperators".to_owned(),
    };
    Api::all_with(stage.target.clone(), &resource)
}

async fn install_operators(stage: &Stage) {
    let definition = serde_json::from_value(json!({
        "metadata": {"name": "clusteroperators.config.openshift.io"},
        "spec": {
            "group": "config.openshift.io", "scope": "Cluster",
            "names": {"kind": "ClusterOperator", "plural": "clusteroperators",
                      "singular": "clusteroperator", "listKind": "ClusterOperatorList"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                }},
            }],
        },
    }));
    install(&stage.target, &definition.expect("a definition")).await;
    let operator = json!({
        "apiVersion": "config.openshift.io/v1", "kind": "ClusterOperator",
        "metadata": {"name": "dns"},
    });
    let operator = serde_json::from_value(operator).expect("an operator");
    operators(stage).create(&PostParams::default(), &operator).await.expect("it is made");
    set_degraded(stage, true).await;
}

async fn set_degraded(stage: &Stage, degraded: bool) {
    let degraded = if degraded { "True" } else { "False" };
    let patch = Patch::Merge(json!({"status": {"conditions": [
        {"type": "Available", "status": "True"},
        {"type": "Progressing", "status": "False"},
        {"type": "Degraded", "status": degraded},
    ]}}));
    let params = PatchParams::default();
    operators(stage).patch_status("dns", &params, &patch).await.expect("it is there");
}

// case: cluster S31
// case: cluster S41
#[tokio::test(start_paused = true)]
async fn a_node_that_has_not_beaten_since_the_resume_began_is_waited_for() {
    let mut stage = Stage::new().await;
    with_kubeconfig(&mut stage, json!({})).await;
    stage.pass(5 * MINUTE).await;
    let none = stage.cluster("blue").await;
    assert_eq!(says(&none, "Ready"), ("False".into(), "WaitingForNodes".into()), "it has no nodes");
    make_node(&stage, "node-0").await;
    beat(&stage, "node-0").await;
    // One that was not there before has come since.
    stage.until("blue", 2 * MINUTE, "a cluster that runs", is_running).await;

    stage.want("blue", "Hibernating").await;
    stage.until_hibernating("blue").await;
    stage.want("blue", "Running").await;
    // What the node said before it slept is still there.
    stage.pass(10 * MINUTE).await;
    let waiting = stage.cluster("blue").await;
    assert_eq!(says(&waiting, "Ready").1, "WaitingForNodes");
    let message = condition(&waiting, "Ready").expect("a condition").message;
    assert!(message.contains("step 2 of 4") && message.contains("node-0"), "{message}");
    set_ready(&stage, "node-0", false).await;
    beat(&stage, "node-0").await;
    stage.pass(2 * MINUTE).await;
    assert_eq!(says(&stage.cluster("blue").await, "Ready").1, "WaitingForNodes");
    set_ready(&stage, "node-0", true).await;
    stage.until("blue", MINUTE, "a cluster that runs", is_running).await;
}

// case: cluster S36
// case: cluster S37
// case: cluster S39
#[tokio::test(start_paused = true)]
async fn operators_settle_and_are_waited_for_unless_a_label_says_otherwise() {
    let mut stage = Stage::new().await;
    install_operators(&stage).await;
    make_node(&stage, "node-0").await;
    with_kubeconfig(&mut stage, json!({})).await;
    for _ in 0..6 {
        stage.pass(20 * SECOND).await;
        beat(&stage, "node-0").await;
    }
    let settling = "PausingForClusterOperatorsToSettle";
    stage
        .until("blue", MINUTE, "operators that settle", |one| says(one, "Ready").1 == settling)
        .await;
    stage.pass(150 * SECOND).await;
    let waiting = stage.cluster("blue").await;
    assert_eq!(says(&waiting, "Ready").1, "WaitingForClusterOperators");
    let message = condition(&waiting, "Ready").expect("a condition").message;
    assert!(message.ends_with("(step 4 of 4): dns"), "{message}");
    set_degraded(&stage, false).await;
    stage.until("blue", MINUTE, "a cluster that runs", is_running).await;

    set_degraded(&stage, true).await;
    let label = json!({"metadata": {"labels": {RESUME_SKIPS_CLUSTER_OPERATORS: "true"}}});
    stage.change("blue", label).await;
    stage.want("blue", "Hibernating").await;
    stage.until_hibernating("blue").await;
    stage.want("blue", "Running").await;
    for _ in 0..6 {
        stage.pass(20 * SECOND).await;
        beat(&stage, "node-0").await;
    }
    stage.until("blue", MINUTE, "a cluster that runs", is_running).await;
}

// case: cluster U01
#[tokio::test(start_paused = true)]
async fn a_cluster_that_sleeps_is_not_probed_and_says_why() {
    let mut stage = Stage::new().await;
    make_node(&stage, "node-0").await;
    with_kubeconfig(&mut stage, json!({"readinessGates": []})).await;
    stage.until("blue", 5 * MINUTE, "a cluster that runs", is_running).await;
    stage.pass(MINUTE).await;
    assert_eq!(
        says(&stage.cluster("blue").await, "Unreachable"),
        ("False".into(), "ClusterReachable".into())
    );
    stage.want("blue", "Hibernating").await;
    stage.until_hibernating("blue").await;
    stage.pass(12 * HOUR).await;
    assert_eq!(
        says(&stage.cluster("blue").await, "Unreachable"),
        ("True".into(), "Hibernating".into())
    );
}

// case: cluster S40
#[tokio::test(start_paused = true)]
async fn a_kubeconfig_that_cannot_be_used_is_named_and_machines_are_started_all_the_same() {
    let mut stage = Stage::new().await;
    stage.add_machines("blue", 1);
    let whole = json!({
        "platform": {"fake": {}}, "kubeconfigSecretRef": {"name": "nowhere"},
    });
    stage.create("blue", whole, json!({})).await;
    stage.pass(5 * MINUTE).await;
    let waiting = stage.cluster("blue").await;
    assert_eq!(says(&waiting, "Ready").1, "WaitingForNodes");
    let message = condition(&waiting, "Ready").expect("a condition").message;
    assert!(message.contains("nowhere"), "{message}");
    stage.want("blue", "Hibernating").await;
    stage.until_hibernating("blue").await;
}

async fn install_machines(stage: &Stage) -> Api<DynamicObject> {
    let definition = serde_json::from_value(json!({
        "metadata": {"name": "machines.machine.openshift.io"},
        "spec": {
            "group": "machine.openshift.io", "scope": "Namespaced",
            "names": {"kind": "Machine", "plural": "machines", "singular": "machine",
                      "listKind": "MachineList"},
            "versions": [{
                "name": "v1beta1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                }},
            }],
        },
    }));
    install(&stage.target, &definition.expect("a definition")).await;
    make_namespace(&stage.target, "openshift-machine-api").await;
    let resource = ApiResource {
        group: "machine.openshift.io".to_owned(),
        version: "v1beta1".to_owned(),
        api_version: "machine.openshift.io/v1beta1".to_owned(),
        kind: "Machine".to_owned(),
        plural: "machines".to_owned(),
    };
    Api::namespaced_with(stage.target.clone(), "openshift-machine-api", &resource)
}

/// A Machine that stands for the machine of that id, and is kept for a while once it is deleted.
async fn make_machine(machines: &Api<DynamicObject>, name: &str, id: &str, spot: bool) {
    let label =
        if spot { json!({"machine.openshift.io/interruptible-instance": ""}) } else { json!({}) };
    let machine = json!({
        "apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine",
        "metadata": {"name": name, "labels": label, "finalizers": ["example.org/provider"]},
        "spec": {"providerID": format!("aws:///eu-west-1a/{id}")},
    });
    let machine = serde_json::from_value(machine).expect("a Machine");
    machines.create(&PostParams::default(), &machine).await.expect("it is made");
    let patch = Patch::Merge(json!({"status": {"phase": "Running"}}));
    machines.patch_status(name, &PatchParams::default(), &patch).await.expect("it is there");
}

/// A worker and a spot machine with Machines, which the cluster's own controllers look after, and a node that says that
/// it lives while the worker runs.
pub(crate) struct SpotCluster {
    machines: Api<DynamicObject>,
    _controllers: JoinSet<()>,
}

impl SpotCluster {
    pub(crate) async fn new(stage: &Stage) -> Self {
        let machines = install_machines(stage).await;
        for (name, id, spot) in [("worker", "m-0", false), ("spot-1", "m-1", true)] {
            make_machine(&machines, name, id, spot).await;
            stage.put_machine("blue", id, MachineState::Running, spot);
        }
        make_node(stage, "node-0").await;
        let mut controllers = JoinSet::new();
        let (fake, target, clock) = (stage.fake.clone(), stage.target.clone(), stage.clock.clone());
        let kept = machines.clone();
        controllers.spawn(async move {
            let mut made = 1;
            loop {
                made += replace_deleted(&kept, &fake, made).await;
                if found(&fake, "blue").await.get("m-0") == Some(&MachineState::Running) {
                    beat_at(&target, "node-0", clock.now()).await;
                }
                tokio::time::sleep(5 * SECOND).await;
            }
        });
        create_with_kubeconfig(stage, json!({})).await;
        Self { machines, _controllers: controllers }
    }

    /// The names of its Machines.
    pub(crate) async fn names(&self) -> Vec<String> {
        let all = self.machines.list(&ListParams::default()).await.expect("a list");
        let mut names: Vec<_> = all.into_iter().map(|one| one.name_any()).collect();
        names.sort_unstable();
        names
    }
}

/// A Machine that is deleted goes, and another comes, with a machine of its own. How many did.
async fn replace_deleted(machines: &Api<DynamicObject>, fake: &Fake, made: usize) -> usize {
    let all = machines.list(&ListParams::default()).await.expect("a list");
    let deleted = all.into_iter().filter(|one| one.metadata.deletion_timestamp.is_some());
    let mut count = 0;
    for gone in deleted {
        let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        let patched = machines.patch(&gone.name_any(), &PatchParams::default(), &patch).await;
        patched.expect("it is there");
        count += 1;
        let (name, id) = (format!("spot-{}", made + count), format!("m-{}", made + count));
        make_machine(machines, &name, &id, true).await;
        put(fake, "blue", &id, MachineState::Running, true);
    }
    count
}

// case: cluster W11
// case: cluster W14
#[tokio::test(start_paused = true)]
async fn a_spot_machine_that_a_hibernation_ended_is_made_anew_and_no_other() {
    let mut stage = Stage::new().await;
    let machines = install_machines(&stage).await;
    for (name, id, spot) in [("worker", "m-0", false), ("spot", "m-1", true)] {
        make_machine(&machines, name, id, spot).await;
        stage.put_machine("blue", id, MachineState::Running, spot);
    }
    for node in ["node-0", "node-1"] {
        make_node(&stage, node).await;
    }
    with_kubeconfig(&mut stage, json!({"readinessGates": []})).await;
    stage.until_running("blue").await;
    stage.want("blue", "Hibernating").await;
    stage.until_hibernating("blue").await;
    let found = stage.machines("blue").await;
    assert_eq!(found["m-0"], MachineState::Stopped);
    assert!(found.get("m-1").is_none_or(|state| *state == MachineState::Missing), "{found:?}");
    let deleted = machines.get("spot").await.expect("it is there").metadata.deletion_timestamp;
    assert_eq!(deleted, None, "nobody touches it while the cluster sleeps");
    stage.want("blue", "Running").await;
    stage.until_running("blue").await;
    stage.pass(10 * SECOND).await;
    let spot = machines.get("spot").await.expect("its finalizer holds it");
    assert!(spot.metadata.deletion_timestamp.is_some(), "the cluster makes another");
    let annotations = spot.metadata.annotations.unwrap_or_default();
    assert!(annotations.contains_key("machine.openshift.io/exclude-node-draining"));
    let worker = machines.get("worker").await.expect("it is there");
    assert_eq!(worker.metadata.deletion_timestamp, None);
    assert_eq!(stage.events("MachinesReplaced").await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_cluster_of_spot_machines_alone_wakes_with_others() {
    let mut stage = Stage::new().await;
    let machines = install_machines(&stage).await;
    for (name, id) in [("first", "m-0"), ("second", "m-1")] {
        make_machine(&machines, name, id, true).await;
        stage.put_machine("blue", id, MachineState::Running, true);
    }
    create_with_kubeconfig(&stage, json!({"readinessGates": []})).await;
    stage.until_running("blue").await;
    stage.want("blue", "Hibernating").await;
    stage.until_hibernating("blue").await;
    stage.want("blue", "Running").await;
    stage.pass(2 * MINUTE).await;
    for name in ["first", "second"] {
        let machine = machines.get(name).await.expect("its finalizer holds it");
        assert!(machine.metadata.deletion_timestamp.is_some(), "the cluster makes another");
    }
    let waiting = stage.cluster("blue").await;
    assert_eq!(says(&waiting, "Ready"), ("False".into(), "WaitingForNodes".into()));
    assert_eq!(says(&waiting, "NoMachinesFound").0, "True");
    stage.put_machine("blue", "m-2", MachineState::Running, true);
    stage.until("blue", MINUTE, "a cluster that runs", is_running).await;
    assert_eq!(says(&stage.cluster("blue").await, "NoMachinesFound").0, "False");
    // The API keeps Events for an hour.
    assert_eq!(stage.events("MachinesReplaced").await.len(), 1);
    stage.pass(HOUR).await;
    assert!(is_running(&stage.cluster("blue").await), "it stays so");
    assert_eq!(stage.events("MachinesReplaced").await, [""; 0], "and nothing is replaced again");
}

async fn install_csrs(stage: &Stage) -> Api<DynamicObject> {
    let definition = serde_json::from_value(json!({
        "metadata": {
            "name": "certificatesigningrequests.certificates.k8s.io",
            "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"},
        },
        "spec": {
            "group": "certificates.k8s.io", "scope": "Cluster",
            "names": {"kind": "CertificateSigningRequest", "plural": "certificatesigningrequests",
                      "singular": "certificatesigningrequest",
                      "listKind": "CertificateSigningRequestList"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                }},
            }],
        },
    }));
    install(&stage.target, &definition.expect("a definition")).await;
    let resource = ApiResource {
        group: "certificates.k8s.io".to_owned(),
        version: "v1".to_owned(),
        api_version: "certificates.k8s.io/v1".to_owned(),
        kind: "CertificateSigningRequest".to_owned(),
        plural: "certificatesigningrequests".to_owned(),
    };
    Api::all_with(stage.target.clone(), &resource)
}

/// Somebody asks for a certificate of `node-0`.
async fn make_csr(csrs: &Api<DynamicObject>, name: &str, requester: &str) {
    let csr = json!({
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
        "metadata": {"name": name},
        "spec": {
            "signerName": "kubernetes.io/kube-apiserver-client-kubelet",
            "username": requester, "groups": ["system:bootstrappers"],
            "usages": ["digital signature", "client auth"], "request": REQUEST,
        },
    });
    let csr = serde_json::from_value(csr).expect("a CSR");
    csrs.create(&PostParams::default(), &csr).await.expect("it is made");
}

async fn is_approved(csrs: &Api<DynamicObject>, name: &str) -> bool {
    let csr = csrs.get(name).await.expect("it is there");
    csr.data["status"]["conditions"][0]["type"] == "Approved"
}

/// What a resume waits for is on record, and what was not done is told to nobody as done.
#[tokio::test(start_paused = true)]
async fn approvals_are_told_once_they_are_made_and_what_forbids_them_is_said() {
    let mut stage = Stage::new().await;
    let csrs = install_csrs(&stage).await;
    make_node(&stage, "node-0").await;
    make_csr(&csrs, "csr-kubelet", "system:bootstrap:abcdef").await;
    make_csr(&csrs, "csr-stranger", "mallory").await;
    stage.world.forbid_approvals(true);
    with_kubeconfig(&mut stage, json!({})).await;
    stage.pass(5 * MINUTE).await;
    let waiting = stage.cluster("blue").await;
    let error = &json!(status(&waiting))["operation"]["lastError"];
    assert_eq!(error["kind"], "Target", "{error}");
    let message = condition(&waiting, "Ready").expect("a condition").message;
    for words in ["csr-kubelet", "the verb approve on signers is not theirs"] {
        assert!(message.contains(words), "{message}");
    }
    assert_eq!(stage.events("CSRsApproved").await, [""; 0]);
    assert_eq!(stage.events("CSRsNotApproved").await.len(), 1, "it is said once");
    let refused = stage.events("CSRsRefused").await;
    assert_eq!(refused, ["CSRs not approved: csr-stranger."]);

    stage.world.forbid_approvals(false);
    stage.pass(MINUTE).await;
    assert!(is_approved(&csrs, "csr-kubelet").await);
    assert!(!is_approved(&csrs, "csr-stranger").await);
    assert_eq!(stage.events("CSRsApproved").await, ["CSRs were approved: csr-kubelet."]);
    let waiting = stage.cluster("blue").await;
    assert_eq!(json!(status(&waiting))["operation"]["lastError"], Value::Null);
    beat(&stage, "node-0").await;
    stage.until("blue", 2 * MINUTE, "a cluster that runs", is_running).await;
}
