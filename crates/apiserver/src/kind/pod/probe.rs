//! Probes and lifecycle hooks: one handler each, with sensible numbers.

use serde_json::Value;

use super::super::grammar::{
    Errors, http_header, non_negative, one_of, port_number, port_number_or_name, push_texts,
};
use crate::field::{FieldError, Path};
use crate::json::Access;

/// What a probe is for; each has a rule of its own.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    Liveness,
    Readiness,
    Startup,
}

impl Purpose {
    pub(super) const ALL: [Self; 3] = [Self::Liveness, Self::Readiness, Self::Startup];

    pub(super) const fn member(self) -> &'static str {
        match self {
            Self::Liveness => "livenessProbe",
            Self::Readiness => "readinessProbe",
            Self::Startup => "startupProbe",
        }
    }
}

pub(super) fn validate(errors: &mut Errors, path: &Path<'_>, probe: &Value, purpose: Purpose) {
    if probe.is_null() {
        return;
    }
    handler(errors, path, probe, None);
    for member in [
        "initialDelaySeconds",
        "timeoutSeconds",
        "periodSeconds",
        "successThreshold",
        "failureThreshold",
    ] {
        non_negative(errors, &path.field(member), probe.int(member));
    }
    let grace = probe.int("terminationGracePeriodSeconds");
    let grace_path = path.field("terminationGracePeriodSeconds");
    if let Some(grace) = grace.filter(|grace| *grace <= 0) {
        errors.push(FieldError::invalid(&grace_path, &grace.into(), "must be greater than 0"));
    }
    if purpose == Purpose::Readiness {
        if let Some(grace) = grace {
            let detail = "must not be set for readinessProbes";
            errors.push(FieldError::invalid(&grace_path, &grace.into(), detail));
        }
        return;
    }
    let threshold = probe.int("successThreshold").unwrap_or_default();
    if threshold != 1 {
        let at = path.field("successThreshold");
        errors.push(FieldError::invalid(&at, &threshold.into(), "must be 1"));
    }
}

pub(super) fn validate_lifecycle(
    errors: &mut Errors,
    path: &Path<'_>,
    lifecycle: &Value,
    grace: Option<i64>,
) {
    for hook in ["postStart", "preStop"] {
        let action = lifecycle.at(hook);
        if !action.is_null() {
            handler(errors, &path.field(hook), action, grace);
        }
    }
}

/// Exactly one way to act. Only lifecycle hooks can sleep, and only within the grace period.
fn handler(errors: &mut Errors, path: &Path<'_>, handler: &Value, grace: Option<i64>) {
    let mut found = false;
    for kind in ["exec", "httpGet", "tcpSocket", "grpc", "sleep"] {
        let action = handler.at(kind);
        if action.is_null() {
            continue;
        }
        let at = path.field(kind);
        if found {
            let detail = "may not specify more than 1 handler type";
            errors.push(FieldError::forbidden(&at, detail));
            continue;
        }
        found = true;
        match kind {
            "exec" if action.list("command").is_empty() => {
                errors.push(FieldError::required(&at.field("command"), ""));
            }
            "exec" => {}
            "httpGet" => http_get(errors, &at, action),
            "tcpSocket" => port_number_or_name(errors, &at.field("port"), action.at("port")),
            "grpc" => {
                port_number(errors, &at.field("port"), action.int("port").unwrap_or_default());
            }
            _ => {
                let seconds = action.int("seconds").unwrap_or_default();
                if let Some(grace) = grace.filter(|grace| seconds < 0 || seconds > *grace) {
                    let detail = format!(
                        "must be non-negative and less than terminationGracePeriodSeconds ({grace})"
                    );
                    errors.push(FieldError::invalid(&at, &seconds.into(), detail));
                }
            }
        }
    }
    if !found {
        errors.push(FieldError::required(path, "must specify a handler type"));
    }
}

fn http_get(errors: &mut Errors, path: &Path<'_>, action: &Value) {
    if action.text("path").is_empty() {
        errors.push(FieldError::required(&path.field("path"), ""));
    }
    port_number_or_name(errors, &path.field("port"), action.at("port"));
    one_of(errors, &path.field("scheme"), action.text("scheme"), &["HTTP", "HTTPS"]);
    for header in action.list("httpHeaders") {
        let header = header.text("name");
        push_texts(errors, &path.field("httpHeaders"), header, http_header(header));
    }
}
