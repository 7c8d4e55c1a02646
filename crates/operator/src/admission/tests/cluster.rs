//! Clusters: what cannot be changed, and who names what.

use sojourn_api::cluster::name::{DEPLOYMENTS, FINALIZER, GROUP};

use futures::future::BoxFuture;
use sojourn_drivers::actuator::{
    ActuatedMachine, Actuator, ActuatorChanges, ActuatorError, Cluster, Platform,
};

use super::*;
use crate::admission::cluster::{ClusterAnswers, ClusterNeeds, ClusterRule};
use crate::cluster::actuators::Actuators;

const NOTHING: Value = Value::Null;

/// Programs, of which there is `acme`, whose configs have a colour.
#[derive(Debug)]
struct Acme;

fn done<T: Send + 'static>(done: T) -> BoxFuture<'static, Result<T, ActuatorError>> {
    std::future::ready(Ok(done)).boxed()
}

impl Actuator for Acme {
    fn name(&self) -> &'static str {
        "exec"
    }

    fn can_handle(&self, platform: &Platform) -> bool {
        self.check(&platform.config).is_empty()
    }

    fn check(&self, config: &Value) -> Vec<String> {
        if config["name"] != "acme" {
            return vec!["name: there is no such program; there is acme".to_owned()];
        }
        let bad = config["config"].get("size").map(|_| "config.size: there is no such field");
        bad.into_iter().map(str::to_owned).collect()
    }

    fn list<'a>(
        &'a self,
        _: &'a Cluster,
    ) -> BoxFuture<'a, Result<Vec<ActuatedMachine>, ActuatorError>> {
        done(Vec::new())
    }

    fn stop<'a>(&'a self, _: &'a Cluster, _: &'a str) -> BoxFuture<'a, Result<(), ActuatorError>> {
        done(())
    }

    fn start<'a>(&'a self, _: &'a Cluster, _: &'a str) -> BoxFuture<'a, Result<(), ActuatorError>> {
        done(())
    }

    fn end<'a>(&'a self, _: &'a Cluster, _: &'a str) -> BoxFuture<'a, Result<(), ActuatorError>> {
        done(())
    }

    fn changes(&self) -> ActuatorChanges {
        ActuatorChanges::new(tokio::sync::broadcast::channel(1).1)
    }
}

fn with_acme() -> ClusterRule {
    ClusterRule { actuators: Actuators::default().with(Arc::new(Acme)) }
}

/// A cluster with this platform, with what `part` says of its spec.
fn cluster(platform: &Value, part: &Value) -> Value {
    let mut object = json!({
        "apiVersion": "cluster.sojourn.dev/v1alpha1", "kind": "ClusterDeployment",
        "metadata": { "name": "blue", "namespace": "shop" },
        "spec": { "infraID": "blue-x7k2p", "platform": platform },
    });
    for (field, value) in part.as_object().into_iter().flatten() {
        object["spec"][field] = value.clone();
    }
    object
}

fn of_pods() -> Value {
    cluster(&json!({ "pod": {} }), &NOTHING)
}

fn made_up() -> Value {
    cluster(&json!({ "fake": {} }), &NOTHING)
}

fn with_metadata(mut object: Value, field: &str, value: Value) -> Value {
    object["metadata"][field] = value;
    object
}

fn write(new: Value, old: Value) -> AdmissionRequest<DynamicObject> {
    request((GROUP, DEPLOYMENTS), new, old)
}

fn needs(request: &AdmissionRequest<DynamicObject>) -> ClusterNeeds {
    needs_of(&ClusterRule::default(), request)
}

/// What is asked about, in words.
fn asked(request: &AdmissionRequest<DynamicObject>) -> Vec<String> {
    let ClusterNeeds { hold, references } = needs(request);
    let of_references = references.into_iter().map(|reference| reference.permission);
    of_references.chain(hold).map(|permission| permission.to_string()).collect()
}

/// What becomes of a request whose sender may do all that is asked about, but for this.
fn review_without(request: &AdmissionRequest<DynamicObject>, lacks: &str) -> AdmissionResponse {
    let ClusterNeeds { hold, references } = needs(request);
    let granted = |permission: &Permission| Ok(permission.to_string() != lacks);
    let permitted = references.into_iter().map(|reference| {
        let granted = granted(&reference.permission);
        (reference.permission, granted)
    });
    let answers = ClusterAnswers {
        hold: hold.map(|permission| granted(&permission)),
        permitted: permitted.collect(),
    };
    review_of(&with_acme(), request, &answers)
}

fn review(request: &AdmissionRequest<DynamicObject>) -> AdmissionResponse {
    review_without(request, "nothing")
}

#[test]
fn what_is_wrong_with_a_cluster_is_refused_with_its_path() {
    let two = json!({ "fake": {}, "pod": {} });
    let nowhere = json!({ "schedule": [{ "hibernate": "0 20 * * *", "timeZone": "Nowhere" }] });
    for (bad, path) in [
        (cluster(&two, &NOTHING), "spec.platform"),
        (cluster(&json!({ "fake": {} }), &nowhere), "spec.schedule[0].timeZone"),
        (
            cluster(&json!({ "fake": {} }), &json!({ "hibernateAfter": "0s" })),
            "spec.hibernateAfter",
        ),
        (
            with_metadata(made_up(), "annotations", json!({ "sojourn.dev/keep-until": "soon" })),
            "metadata.annotations[sojourn.dev/keep-until]",
        ),
    ] {
        let made = review(&write(bad.clone(), NOTHING));
        assert_eq!((made.allowed, made.result.code), (false, 422), "{path}");
        assert_eq!(fields(&made), [path]);
        assert!(!review(&write(bad.clone(), made_up())).allowed, "{path}");
        // What was wrong before keeps nobody from changing something else.
        let labelled = with_metadata(bad.clone(), "labels", json!({ "a": "b" }));
        let labelled = review(&write(labelled, bad));
        assert!(labelled.allowed, "{path}: {}", labelled.result.message);
    }
    let mut unreadable = made_up();
    unreadable["spec"]["powerState"] = json!("Asleep");
    assert_eq!(fields(&review(&write(unreadable, NOTHING))), ["spec"]);
}

// case: cluster G04
#[test]
fn what_its_machines_are_stays() {
    let mut renamed = made_up();
    renamed["spec"]["infraID"] = json!("green-x7k2p");
    let gcp = |project: &str, discards: bool| {
        let gcp = json!({ "project": project, "discardLocalSsdOnHibernate": discards });
        cluster(&json!({ "gcp": gcp }), &NOTHING)
    };
    for (new, old, path) in [
        (renamed, made_up(), Some("spec.infraID")),
        (of_pods(), made_up(), Some("spec.platform")),
        (gcp("b", false), gcp("a", false), Some("spec.platform")),
        (gcp("a", true), gcp("a", false), None),
        (cluster(&json!({ "fake": {} }), &json!({ "powerState": "Hibernating" })), made_up(), None),
    ] {
        let changed = review(&write(new, old));
        assert_eq!(fields(&changed), path.into_iter().collect::<Vec<_>>());
        assert_eq!(changed.allowed, path.is_none());
    }
}

#[test]
fn whoever_names_a_secret_must_be_allowed_to_read_it() {
    let exec = json!({ "exec": { "name": "acme", "credentialsSecretRef": { "name": "keys" } } });
    let leads_to = |name: &str| json!({ "kubeconfigSecretRef": { "name": name } });
    let (kubeconfig, keys) = (
        "`get` on secrets \"admin\" in namespace \"shop\"",
        "`get` on secrets \"keys\" in namespace \"shop\"",
    );
    let made = write(cluster(&exec, &leads_to("admin")), NOTHING);
    assert_eq!(asked(&made), [kubeconfig, keys]);
    assert!(review(&made).allowed);
    for (lacks, path) in [
        (kubeconfig, "spec.kubeconfigSecretRef.name"),
        (keys, "spec.platform.exec.credentialsSecretRef.name"),
    ] {
        let refused = review_without(&made, lacks);
        assert_eq!((refused.allowed, refused.result.code), (false, 403));
        assert_eq!(fields(&refused), [path]);
        assert!(refused.result.message.contains(lacks), "{}", refused.result.message);
    }
    let another = write(cluster(&exec, &leads_to("admin")), cluster(&exec, &leads_to("other")));
    assert_eq!(asked(&another), [kubeconfig], "what stays was asked about");
    let no_longer = write(cluster(&exec, &NOTHING), cluster(&exec, &leads_to("admin")));
    assert_eq!(asked(&no_longer), [""; 0]);
}

#[test]
fn a_program_that_is_not_there_or_takes_no_such_config_is_refused_at_the_creation_alone() {
    let exec = |name: &str, config: Value| {
        cluster(&json!({ "exec": { "name": name, "config": config } }), &NOTHING)
    };
    let typo = exec("amce", json!({ "colour": "blue" }));
    let sized = exec("acme", json!({ "size": 3 }));
    for (bad, path, words) in [
        (&typo, "spec.platform.exec.name", "there is no such program; there is acme"),
        (&sized, "spec.platform.exec.config.size", "there is no such field"),
    ] {
        let refused = review(&write(bad.clone(), NOTHING));
        assert_eq!((refused.allowed, refused.result.code), (false, 422), "{path}");
        assert_eq!(fields(&refused), [path]);
        assert!(refused.result.message.contains(words), "{}", refused.result.message);
        // It cannot be corrected, and its program may be another by now.
        let labelled = with_metadata(bad.clone(), "labels", json!({ "a": "b" }));
        assert!(review(&write(labelled, bad.clone())).allowed, "{path}");
    }
    let good = exec("acme", json!({ "colour": "blue" }));
    assert!(review(&write(good.clone(), NOTHING)).allowed);
    let nobody = ClusterRule::default();
    let refused = review_of(&nobody, &write(good, NOTHING), &ClusterAnswers::default());
    assert_eq!(fields(&refused), ["spec.platform.exec.name"]);
    assert!(refused.result.message.contains("--providers"), "{}", refused.result.message);
    let elsewhere = cluster(&json!({ "vsphere": {} }), &NOTHING);
    let admitted = review_of(&nobody, &write(elsewhere, NOTHING), &ClusterAnswers::default());
    assert!(admitted.allowed, "nobody ever stops those");
}

/// A toggle deletes and makes Pods, and is asked about neither: its cluster was.
#[test]
fn whoever_has_pods_stopped_and_started_must_be_allowed_to() {
    let (create, delete) =
        ("`create` on pods in namespace \"shop\"", "`delete` on all pods in namespace \"shop\"");
    let made = write(of_pods(), NOTHING);
    assert_eq!(asked(&made), [create, delete]);
    assert!(review(&made).allowed);
    for lacks in [create, delete] {
        let refused = review_without(&made, lacks);
        assert_eq!((refused.allowed, refused.result.code), (false, 403));
        assert_eq!(fields(&refused), ["spec.platform.pod"]);
    }
    let asleep = cluster(&json!({ "pod": {} }), &json!({ "powerState": "Hibernating" }));
    let toggled = write(asleep, of_pods());
    assert_eq!(asked(&toggled), [""; 0]);
    assert!(review(&toggled).allowed);
    assert_eq!(asked(&write(made_up(), NOTHING)), [""; 0], "no Pods");
    // One that could not be read was asked about nothing.
    let unreadable = cluster(&json!({ "pod": {} }), &json!({ "powerState": "Asleep" }));
    assert_eq!(asked(&write(of_pods(), unreadable)), [create, delete]);
}

#[test]
fn only_those_who_may_hold_take_a_cluster_out_of_its_owners_hands() {
    let hold = "`hold` on clusterdeployments \"blue\" in namespace \"shop\"";
    let marked = |name: &str| with_metadata(made_up(), "annotations", json!({ name: "true" }));
    let kept = with_metadata(made_up(), "finalizers", json!([FINALIZER]));
    for (new, old, path) in [
        (marked("sojourn.dev/paused"), made_up(), "metadata.annotations[sojourn.dev/paused]"),
        (made_up(), marked("sojourn.dev/observe"), "metadata.annotations[sojourn.dev/observe]"),
        (made_up(), kept.clone(), "metadata.finalizers"),
    ] {
        let held = write(new, old);
        assert_eq!(asked(&held), [hold], "{path}");
        let refused = review_without(&held, hold);
        assert_eq!((refused.allowed, refused.result.code), (false, 403), "{path}");
        assert_eq!(fields(&refused), [path]);
        assert!(review(&held).allowed, "{path}");
        // What nobody could find out is refused.
        assert!(!review_of(&with_acme(), &held, &ClusterAnswers::default()).allowed, "{path}");
    }
    for own in ["cluster.sojourn.dev/powerstate-pause", "cluster.sojourn.dev/powerstate-paused"] {
        assert_eq!(asked(&write(marked(own), made_up())), [""; 0], "its owner's: {own}");
    }
    assert_eq!(asked(&write(kept, made_up())), [""; 0]);
}

#[test]
fn who_cannot_be_asked_has_not_allowed_it() {
    let made = write(of_pods(), NOTHING);
    let unanswered = |permission| (permission, Err("no answer within 8 s".to_owned()));
    let references = needs(&made).references.into_iter();
    let permitted = references.map(|reference| unanswered(reference.permission)).collect();
    let refused = review_of(&with_acme(), &made, &ClusterAnswers { hold: None, permitted });
    assert_eq!((refused.allowed, refused.result.code), (false, 503));
    assert!(!review_of(&with_acme(), &made, &ClusterAnswers::default()).allowed);
}
