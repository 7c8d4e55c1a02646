//! Containers and init containers.

use std::net::IpAddr;

use serde_json::Value;

use super::{
    APP_ARMOR, FIELD_REF, NO_SELINUX, NOT_WINDOWS, OWN_USER, RESOURCE_FIELD_REF, RESOURCES,
    SECCOMP, each, harmless, harmless_if, honoured, honoured_if, refused, within,
};
use crate::fields::{Field, Values};
use crate::plan::{device, mount};

const NO_TERMINAL: &str =
    "nobody can attach to a container here, and its standard input is empty; leave it out";
const OWN_PORTS: &str =
    "probes and hooks may connect only to the Pod's own ports on this machine; leave it out";

pub(super) const CONTAINER: &[Field] = &[
    honoured("name"),
    harmless("image", "images cannot be pulled here; the command is one of the machine's own"),
    Field {
        required: Some("images cannot be pulled here; give the container a command"),
        ..honoured("command")
    },
    honoured("args"),
    honoured("workingDir"),
    each("ports", PORT),
    each(
        "envFrom",
        &[
            honoured("prefix"),
            within("configMapRef", &[honoured("name"), honoured("optional")]),
            within("secretRef", &[honoured("name"), honoured("optional")]),
        ],
    ),
    each("env", &[honoured("name"), honoured("value"), within("valueFrom", VALUE_FROM)]),
    within("resources", RESOURCES),
    harmless("resizePolicy", "the resources of a Pod are not changed while it runs"),
    honoured("restartPolicy"),
    each("restartPolicyRules", RESTART_RULE),
    each("volumeMounts", VOLUME_MOUNT),
    each("volumeDevices", VOLUME_DEVICE),
    within("livenessProbe", PROBE),
    within("readinessProbe", PROBE),
    within("startupProbe", PROBE),
    within(
        "lifecycle",
        &[
            refused("postStart", "do it in an init container, or at the beginning of the command"),
            within("preStop", HOOK),
            honoured_if(
                "stopSignal",
                Values::OneOf(&[
                    "SIGTERM", "SIGINT", "SIGQUIT", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGKILL",
                ]),
                "programs are asked to end by one of the usual signals only",
            ),
        ],
    ),
    honoured_if(
        "terminationMessagePath",
        Values::Such {
            words: "an absolute path outside of /proc, /dev and /sys, or /dev/termination-…",
            accepts: is_message_path,
        },
        "the path must be absolute, without '..', and outside of /proc, /dev and /sys",
    ),
    honoured("terminationMessagePolicy"),
    harmless("imagePullPolicy", "no image is pulled"),
    within("securityContext", SECURITY),
    honoured_if("stdin", Values::False, NO_TERMINAL),
    honoured_if("stdinOnce", Values::False, NO_TERMINAL),
    honoured_if("tty", Values::False, NO_TERMINAL),
];

const RESTART_RULE: &[Field] = &[
    honoured_if(
        "action",
        Values::OneOf(&["Restart"]),
        "a rule restarts its own container and no others",
    ),
    within("exitCodes", &[honoured("operator"), honoured("values")]),
];

const PORT: &[Field] = &[
    honoured("name"),
    honoured("containerPort"),
    honoured("hostPort"),
    honoured_if("protocol", Values::OneOf(&["TCP", "UDP"]), "there are TCP and UDP"),
    refused("hostIP", "a hostPort is one of the node's address; leave it out"),
];

const VALUE_FROM: &[Field] = &[
    within("fieldRef", FIELD_REF),
    within("resourceFieldRef", RESOURCE_FIELD_REF),
    within("configMapKeyRef", KEY_REF),
    within("secretKeyRef", KEY_REF),
    refused("fileKeyRef", "a container cannot start from a file that it has yet to write here"),
];

const KEY_REF: &[Field] = &[honoured("name"), honoured("key"), honoured("optional")];

const VOLUME_MOUNT: &[Field] = &[
    honoured("name"),
    honoured("readOnly"),
    harmless("recursiveReadOnly", "a read-only mount is so with everything in it in any case"),
    honoured_if(
        "mountPath",
        Values::Such {
            words: "an absolute path that is not /, nor in /proc, /dev (but for /dev/shm) or /sys",
            accepts: is_mount_path,
        },
        "the path must be absolute, without '..', and neither / nor in /proc, /dev or /sys",
    ),
    honoured_if(
        "subPath",
        Values::Such { words: "a relative path without '..'", accepts: is_sub_path },
        "the path must be relative, without '..'",
    ),
    honoured("subPathExpr"),
    harmless_if(
        "mountPropagation",
        Values::OneOf(&["None", "HostToContainer"]),
        "the machine mounts nothing in a volume",
        "no mount of a Pod reaches the machine",
    ),
];

const VOLUME_DEVICE: &[Field] = &[
    honoured("name"),
    honoured_if(
        "devicePath",
        Values::Such {
            words: "an absolute path that is not /, nor in /proc or /sys, nor of what /dev has \
                    already; a regular file stands there, not a device node",
            accepts: is_device_path,
        },
        "the path must be absolute, without '..', neither / nor in /proc or /sys, and free in /dev",
    ),
];

const PROBE: &[Field] = &[
    within("exec", &[honoured("command")]),
    within("httpGet", HTTP_GET),
    within("tcpSocket", &[honoured("port"), honoured_if("host", OWN_HOST, OWN_PORTS)]),
    refused("grpc", "use httpGet, tcpSocket or exec"),
    honoured("initialDelaySeconds"),
    honoured("timeoutSeconds"),
    honoured("periodSeconds"),
    honoured("successThreshold"),
    honoured("failureThreshold"),
    honoured("terminationGracePeriodSeconds"),
];

const HOOK: &[Field] = &[
    within("exec", &[honoured("command")]),
    within("httpGet", HTTP_GET),
    refused("tcpSocket", "it does nothing in Kubernetes either; use exec or httpGet"),
    within("sleep", &[honoured("seconds")]),
];

const HTTP_GET: &[Field] = &[
    honoured("path"),
    honoured("port"),
    honoured_if("host", OWN_HOST, OWN_PORTS),
    honoured("scheme"),
    each("httpHeaders", &[honoured("name"), honoured("value")]),
];

/// The node's own address means the same, but which that is cannot stand in a table; the one that
/// connects looks at it again.
const OWN_HOST: Values =
    Values::Such { words: "localhost or an IP address", accepts: is_possibly_own };

const SECURITY: &[Field] = &[
    within(
        "capabilities",
        &[refused("add", "no process of a Pod has capabilities; leave it out"), honoured("drop")],
    ),
    honoured_if("privileged", Values::False, "no Pod has rights on the machine; leave it out"),
    refused("seLinuxOptions", NO_SELINUX),
    refused("windowsOptions", NOT_WINDOWS),
    refused("runAsUser", OWN_USER),
    refused("runAsGroup", OWN_USER),
    honoured("runAsNonRoot"),
    honoured("readOnlyRootFilesystem"),
    honoured_if(
        "allowPrivilegeEscalation",
        Values::False,
        "no process of a Pod can gain rights; leave it out",
    ),
    honoured_if(
        "procMount",
        Values::OneOf(&["Default"]),
        "a Pod sees its own processes in /proc, and no more; leave it out",
    ),
    within("seccompProfile", SECCOMP),
    within("appArmorProfile", APP_ARMOR),
];

fn is_mount_path(value: &Value) -> bool {
    value.as_str().is_some_and(|path| mount::target(path).is_ok())
}

fn is_device_path(value: &Value) -> bool {
    value.as_str().is_some_and(|path| device::target(path).is_ok())
}

fn is_message_path(value: &Value) -> bool {
    value.as_str().is_some_and(|path| mount::message_target(path).is_ok())
}

fn is_sub_path(value: &Value) -> bool {
    value.as_str().is_some_and(|path| mount::beneath(path).is_ok())
}

fn is_possibly_own(value: &Value) -> bool {
    let Some(host) = value.as_str() else { return false };
    let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    host.eq_ignore_ascii_case("localhost") || bare.parse::<IpAddr>().is_ok()
}
