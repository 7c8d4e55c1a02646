use std::collections::BTreeSet;

use super::super::pod::fixture::{run_creates, run_updates};
use super::allocation::{
    allocate_cluster_ip, allocate_node_ports, begin_create, begin_update, node_ports,
};
use super::*;
use crate::field::FieldErrors;
use crate::warning::Warnings;

/// The pools of the server that the cases were recorded on, in its dry-run mode. Errors of this
/// step are told as if validation had found them, so they are put where it finds them again.
#[derive(Debug)]
struct Allocated;

impl Kind for Allocated {
    fn default(&self, obj: &mut Object) {
        Service.default(obj);
    }

    fn prepare_create(&self, obj: &mut Object) {
        let errors = begin_create(obj).err().or_else(|| pools(obj, &BTreeSet::new()).err());
        set_or_remove(obj, "errors", errors.map(|errors| shown(&errors)));
        Service.prepare_create(obj);
    }

    fn prepare_update(&self, new: &mut Object, old: &Object) {
        let errors = begin_update(new, old).err().or_else(|| pools(new, &node_ports(old)).err());
        set_or_remove(new, "errors", errors.map(|errors| shown(&errors)));
        Service.prepare_update(new, old);
    }

    fn prepare_status_update(&self, new: &mut Object, old: &Object) {
        Service.prepare_status_update(new, old);
    }

    fn validate(&self, obj: &Object, errors: &mut FieldErrors) {
        if !refused(obj, errors) {
            Service.validate(obj, errors);
        }
    }

    fn validate_update(&self, new: &Object, old: &Object, errors: &mut FieldErrors) {
        if !refused(new, errors) {
            Service.validate_update(new, old, errors);
        }
    }

    fn validate_status_update(&self, new: &Object, old: &Object, errors: &mut FieldErrors) {
        Service.validate_status_update(new, old, errors);
    }

    fn warnings(&self, new: &Object, old: Option<&Object>) -> Warnings {
        Service.warnings(new, old)
    }
}

fn pools(service: &mut Object, held: &BTreeSet<i64>) -> Result<(), Errors> {
    allocate_cluster_ip(service, |wanted| match wanted {
        Some(ip) if ip.starts_with("10.0.0.") => Ok(ip.to_owned()),
        Some(ip) => Err(format!(
            "the provided IP ({ip}) is not in the valid range. The range of valid IPs is 10.0.0.0/24"
        )),
        None => Ok("10.0.0.0".to_owned()),
    })?;
    let mut next = 32768;
    allocate_node_ports(service, held, |wanted| {
        Ok(wanted.unwrap_or_else(|| {
            next += 1;
            next
        }))
    })
}

fn shown(errors: &Errors) -> Value {
    errors.iter().map(|e| json!([e.path, e.value, e.detail])).collect()
}

fn refused(obj: &Object, errors: &mut FieldErrors) -> bool {
    for error in obj.list("errors") {
        let text = |i: usize| error[i].as_str().unwrap_or_default();
        let root = Path::root();
        // The path is one step here, which prints the same.
        let at = root.field(text(0));
        errors.push(if error[1].is_null() {
            FieldError::required(&at, text(2))
        } else if text(2).starts_with("supported values") {
            let mut unsupported = unsupported(&at, "", &[]);
            unsupported.value = Some(text(1).to_owned());
            unsupported.detail = text(2).to_owned();
            unsupported
        } else if text(2).is_empty() {
            let mut duplicate = FieldError::duplicate(&at, &Value::Null);
            duplicate.value = Some(text(1).to_owned());
            duplicate
        } else {
            FieldError::invalid_raw(&at, text(1), text(2))
        });
    }
    !obj.list("errors").is_empty()
}

#[test]
fn creates_are_answered_as_the_real_server_answers_them() {
    run_creates(&Allocated, include_str!("../fixtures/service.json"), |_, _| Ok(()));
}

#[test]
fn updates_are_answered_as_the_real_server_answers_them() {
    run_updates(&Allocated, include_str!("../fixtures/service_update.json"), |_, _| Ok(()));
}

#[test]
fn one_node_port_serves_both_protocols() {
    let service = json!({"spec": {"type": "NodePort", "ports": [
        {"port": 53, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}, {"port": 80},
    ]}});
    let mut service = service.as_object().cloned().unwrap_or_default();
    let mut next = 30000;
    allocate_node_ports(&mut service, &BTreeSet::new(), |_| {
        next += 1;
        Ok(next)
    })
    .expect("ports enough");
    let ports: Vec<Option<i64>> =
        service["spec"].list("ports").iter().map(|port| port.int("nodePort")).collect();
    assert_eq!(ports, [Some(30001), Some(30001), Some(30002)]);
}
