//! The table itself, a constant for each type of Kubernetes' own.

mod container;
mod volume;

use serde_json::Value;

use super::{Field, Support, Values};
use container::CONTAINER;
use volume::VOLUME;

const fn honoured(name: &'static str) -> Field {
    Field { name, support: Support::Honoured, list: false, inside: &[], required: None }
}

/// Honoured as far as the fields inside are.
const fn within(name: &'static str, inside: &'static [Field]) -> Field {
    Field { inside, ..honoured(name) }
}

/// The same for a list.
const fn each(name: &'static str, inside: &'static [Field]) -> Field {
    Field { list: true, ..within(name, inside) }
}

const fn harmless(name: &'static str, why: &'static str) -> Field {
    Field { support: Support::Harmless(why), ..honoured(name) }
}

const fn refused(name: &'static str, why: &'static str) -> Field {
    Field { support: Support::Refused(why), ..honoured(name) }
}

/// Some values are honoured, others refused.
const fn honoured_if(name: &'static str, accepted: Values, otherwise: &'static str) -> Field {
    let support = Support::Depends { accepted, harmless: None, otherwise };
    Field { support, ..honoured(name) }
}

/// Some values are ignored, others refused.
const fn harmless_if(
    name: &'static str,
    accepted: Values,
    why: &'static str,
    otherwise: &'static str,
) -> Field {
    let support = Support::Depends { accepted, harmless: Some(why), otherwise };
    Field { support, ..honoured(name) }
}

const OWN_USER: &str =
    "Pods of each namespace run under a user that the node has for that namespace; leave it out";
const SCHEDULERS: &str = "it is the scheduler's, and done with when a Pod comes to its node; \
     sojourn's own scheduler leaves a Pod that requires it unscheduled, and says so";
const NO_CLUSTER_DNS: &str =
    "there is no cluster DNS: Pods resolve names as the machine does; leave it out";
const NO_CLAIMS: &str = "devices are not given out here; leave resource claims out";
const NO_SUCH_RESOURCE: &str = "only cpu, memory and ephemeral-storage are given out here";
const NOT_WINDOWS: &str = "the machine runs Linux";
const NO_SELINUX: &str = "SELinux labels are not set here; leave it out";

/// `spec` of a Pod.
pub const SPEC: &[Field] = &[
    each("volumes", VOLUME),
    each("containers", CONTAINER),
    each("initContainers", CONTAINER),
    harmless(
        "ephemeralContainers",
        "a Pod that is created has none; added to one that runs they are not started, and the Pod \
         goes on as it is",
    ),
    honoured("restartPolicy"),
    honoured("terminationGracePeriodSeconds"),
    honoured("activeDeadlineSeconds"),
    harmless_if(
        "dnsPolicy",
        Values::OneOf(&["ClusterFirst", "ClusterFirstWithHostNet", "Default"]),
        "Pods resolve names as the machine does, and there is no cluster DNS to be first",
        NO_CLUSTER_DNS,
    ),
    refused("dnsConfig", NO_CLUSTER_DNS),
    honoured("nodeSelector"),
    honoured("serviceAccountName"),
    honoured("serviceAccount"),
    honoured("automountServiceAccountToken"),
    honoured("nodeName"),
    honoured_if("hostNetwork", Values::False, "no Pod has the machine's network"),
    honoured_if("hostPID", Values::False, "no Pod sees the processes of the machine"),
    honoured_if("hostIPC", Values::False, "no Pod shares memory with the machine"),
    harmless(
        "shareProcessNamespace",
        "the containers of a Pod see each other's processes, and no others, in any case",
    ),
    within("securityContext", POD_SECURITY),
    harmless("imagePullSecrets", "no image is pulled"),
    honoured("hostname"),
    refused("subdomain", "there is no cluster DNS to publish the name in; leave it out"),
    honoured_if(
        "setHostnameAsFQDN",
        Values::False,
        "a Pod has no fully qualified name without cluster DNS; leave it out",
    ),
    honoured("hostnameOverride"),
    within("affinity", AFFINITY),
    honoured("schedulerName"),
    each(
        "tolerations",
        &[
            honoured("key"),
            honoured("operator"),
            honoured("value"),
            honoured("effect"),
            harmless(
                "tolerationSeconds",
                "who evicts Pods from tainted nodes counts them; a node does not",
            ),
        ],
    ),
    refused(
        "hostAliases",
        "Pods see the machine's own /etc/hosts; leave it out, or mount a ConfigMap there",
    ),
    honoured("priorityClassName"),
    honoured("priority"),
    harmless("preemptionPolicy", "the scheduler's; sojourn's own removes no Pod for another"),
    each("readinessGates", &[honoured("conditionType")]),
    refused("runtimeClassName", "there is no container runtime here; leave it out"),
    harmless(
        "enableServiceLinks",
        "Services have no addresses here; a Pod is told the API server's in any case",
    ),
    honoured("overhead"),
    harmless("topologySpreadConstraints", SCHEDULERS),
    within("os", &[honoured_if("name", Values::OneOf(&["linux"]), NOT_WINDOWS)]),
    harmless("hostUsers", "no Pod runs as a user that has rights on the machine in any case"),
    each("schedulingGates", &[honoured("name")]),
    refused("schedulingGroup", "Pods are scheduled one by one here; leave it out"),
    refused("resourceClaims", NO_CLAIMS),
    within("resources", RESOURCES),
];

const AFFINITY: &[Field] = &[
    within(
        "nodeAffinity",
        &[
            within(
                "requiredDuringSchedulingIgnoredDuringExecution",
                &[each(
                    "nodeSelectorTerms",
                    &[each("matchExpressions", REQUIREMENT), each("matchFields", REQUIREMENT)],
                )],
            ),
            harmless(
                "preferredDuringSchedulingIgnoredDuringExecution",
                "a preference, which a scheduler may pass over",
            ),
        ],
    ),
    harmless("podAffinity", SCHEDULERS),
    harmless("podAntiAffinity", SCHEDULERS),
];

const REQUIREMENT: &[Field] = &[honoured("key"), honoured("operator"), honoured("values")];

const POD_SECURITY: &[Field] = &[
    refused("seLinuxOptions", NO_SELINUX),
    refused("windowsOptions", NOT_WINDOWS),
    refused("runAsUser", OWN_USER),
    refused("runAsGroup", OWN_USER),
    honoured("runAsNonRoot"),
    refused("supplementalGroups", OWN_USER),
    harmless("supplementalGroupsPolicy", "Pods are in no groups but their user's own"),
    refused("fsGroup", "volumes belong to the Pod's user already; leave it out"),
    harmless("fsGroupChangePolicy", "it is about fsGroup, which is refused"),
    refused("sysctls", "the kernel's settings are the machine's; leave it out"),
    within("seccompProfile", SECCOMP),
    within("appArmorProfile", APP_ARMOR),
    harmless("seLinuxChangePolicy", "it is about seLinuxOptions, which is refused"),
];

const SECCOMP: &[Field] = &[
    harmless_if(
        "type",
        Values::OneOf(&["RuntimeDefault", "Unconfined"]),
        "no filter is what this node has by default; namespaces, no capabilities and \
         no_new_privs hold in any case",
        "no profiles are kept on this node",
    ),
    refused("localhostProfile", "no profiles are kept on this node"),
];

const APP_ARMOR: &[Field] = &[
    harmless_if(
        "type",
        Values::OneOf(&["RuntimeDefault", "Unconfined"]),
        "the machine's own profiles, if any, hold in any case",
        "no profiles are kept on this node",
    ),
    refused("localhostProfile", "no profiles are kept on this node"),
];

/// `resources` of a container, and of the Pod as a whole.
const RESOURCES: &[Field] = &[
    honoured_if("limits", RESOURCE_NAMES, NO_SUCH_RESOURCE),
    honoured_if("requests", RESOURCE_NAMES, NO_SUCH_RESOURCE),
    refused("claims", NO_CLAIMS),
];
const RESOURCE_NAMES: Values = Values::Keys(&["cpu", "memory", "ephemeral-storage"]);

/// A Pod's field by its path in the API, as the downward API names it.
const FIELD_REF: &[Field] = &[
    honoured_if("apiVersion", Values::OneOf(&["v1"]), "the API has version v1 of Pods only"),
    honoured("fieldPath"),
];

const RESOURCE_FIELD_REF: &[Field] = &[
    honoured("containerName"),
    honoured_if(
        "resource",
        Values::Such { words: "cpu, memory or ephemeral-storage", accepts: is_given_out },
        NO_SUCH_RESOURCE,
    ),
    honoured("divisor"),
];

fn is_given_out(value: &Value) -> bool {
    let name = value.as_str().and_then(|text| text.split_once('.'));
    name.is_some_and(|(_, resource)| ["cpu", "memory", "ephemeral-storage"].contains(&resource))
}
