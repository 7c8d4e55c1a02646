use serde_json::{Value, json};

use super::fixture::{run_creates, run_updates};
use super::*;
use crate::field::FieldErrors;
use crate::warning::Warnings;

/// The ServiceAccount `default` exists, no other does; nor any class of priority or runtime.
fn admit(pod: &mut Object, case: &Value) -> Result<(), String> {
    let account = admission::service_account_name(pod).map_err(|refusal| refusal.to_string())?;
    match account.as_deref() {
        None => {}
        Some("default") => {
            let volumes = case.at("object").at("spec").list("volumes");
            let volume = volumes.last().map_or("", |volume| volume.text("name"));
            let suffix = volume.strip_prefix("kube-api-access-").unwrap_or("x");
            let account = Object::new();
            admission::admit_service_account(pod, &account, suffix).map_err(|r| r.to_string())?;
        }
        Some(other) => {
            return Err(format!(
                "error looking up service account default/{other}: serviceaccount \"{other}\" not \
                 found"
            ));
        }
    }
    admission::admit_priority(pod, None).map_err(|refusal| refusal.to_string())?;
    admission::default_tolerations(pod);
    admission::admit_runtime_class(pod, None).map_err(|refusal| refusal.to_string())?;
    // Comes after validation, but no recorded case is both invalid and refused here.
    admission::validate_runtime_class(pod, None).map_err(|refusal| refusal.to_string())
}

#[test]
fn creates_are_answered_as_the_real_server_answers_them() {
    run_creates(&Gated, include_str!("../fixtures/pod.json"), admit);
}

#[test]
fn updates_are_answered_as_the_real_server_answers_them() {
    run_updates(&Pod, include_str!("../fixtures/pod_update.json"), |new, old| {
        admission::default_tolerations(new);
        admission::keep_priority(new, old);
        Ok(())
    });
}

/// A Pod, with the step that needs a clock.
#[derive(Debug)]
struct Gated;

impl Kind for Gated {
    fn default(&self, obj: &mut Object) {
        Pod.default(obj);
    }

    fn prepare_create(&self, obj: &mut Object) {
        Pod.prepare_create(obj);
        admission::mark_gated(obj, "2026-11-15T21:21:11Z");
    }

    fn validate(&self, obj: &Object, errors: &mut FieldErrors) {
        Pod.validate(obj, errors);
    }

    fn warnings(&self, new: &Object, old: Option<&Object>) -> Warnings {
        Pod.warnings(new, old)
    }
}

#[test]
fn fields_to_select_by() {
    let pod = json!({
        "spec": {"nodeName": "n", "restartPolicy": "Never", "hostNetwork": true},
        "status": {"phase": "Running", "podIPs": [{"ip": "1.2.3.4"}]},
    });
    let pod = pod.as_object().cloned().unwrap_or_default();
    let value = |label: &str| Pod.selectable_field(&pod, label).into_owned();
    assert_eq!(value("spec.nodeName"), "n");
    assert_eq!(value("spec.hostNetwork"), "true");
    assert_eq!(value("status.podIP"), "1.2.3.4");
    assert_eq!(value("status.nominatedNodeName"), "");
    assert!(Pod.selectable_fields().contains(&"status.podIPs"));
}

/// Whatever a body holds, nothing panics.
#[test]
fn malformed_objects_do_not_panic() {
    let kinds = [json!(null), json!(1), json!("x"), json!([]), json!({}), json!([1, "x", {}, []])];
    for part in ["metadata", "spec", "status"] {
        for odd in &kinds {
            let mut pod = Object::new();
            pod.insert(part.to_owned(), odd.clone());
            for list in ["containers", "volumes", "tolerations", "topologySpreadConstraints"] {
                let mut pod = pod.clone();
                pod.insert("spec".to_owned(), json!({ list: odd, "resources": odd }));
                Pod.default(&mut pod);
                Pod.prepare_create(&mut pod);
                Pod.validate(&pod, &mut FieldErrors::new());
                Pod.validate_update(&pod, &Object::new(), &mut FieldErrors::new());
                Pod.prepare_status_update(&mut pod, &Object::new());
                Pod.validate_status_update(&pod, &Object::new(), &mut FieldErrors::new());
                let _ = Pod.warnings(&pod, None);
            }
        }
    }
}
