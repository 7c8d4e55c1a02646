//! The names of the family: labels, annotations, finalizers and condition types.

/// Where the family begins its names.
pub const GROUP: &str = "cluster.sojourn.dev";
/// The resources, as requests name them.
pub const DEPLOYMENTS: &str = "clusterdeployments";
pub const SYNCS: &str = "clustersyncs";

/// Holds a cluster that is deleted until copies that only we have are removed. Only one whose owner wrote
/// `preserveOnDelete: false` has it.
pub const FINALIZER: &str = "cluster.sojourn.dev/records";

/// Label of Pods that are machines of a cluster: its infraID.
pub const INFRA_ID: &str = "cluster.sojourn.dev/infra-id";
/// Label of a cluster: a resume does not wait for its ClusterOperators.
pub const RESUME_SKIPS_CLUSTER_OPERATORS: &str =
    "cluster.sojourn.dev/resume-skips-cluster-operators";

/// Annotations of a cluster: hands off, as it is. Either will do.
pub const POWERSTATE_PAUSE: &str = "cluster.sojourn.dev/powerstate-pause";
pub const POWERSTATE_PAUSED: &str = "cluster.sojourn.dev/powerstate-paused";
/// Annotation of a cluster: do as if nobody could stop its machines.
pub const INFRA_DISABLED: &str = "cluster.sojourn.dev/infra-disabled";
/// Annotation of a cluster: make believe; nobody is called.
pub const FAKE_CLUSTER: &str = "cluster.sojourn.dev/fake-cluster";

/// Where a kubeconfig is in the Secret that a cluster names.
pub const KUBECONFIG_KEY: &str = "kubeconfig";

/// Condition types of a cluster.
pub mod condition {
    /// Every machine is stopped.
    pub const HIBERNATING: &str = "Hibernating";
    /// It runs, and everything that was to hold in it does.
    pub const READY: &str = "Ready";
    /// Its API does not answer.
    pub const UNREACHABLE: &str = "Unreachable";
    /// Its provider has no machine of it.
    pub const NO_MACHINES_FOUND: &str = "NoMachinesFound";
    /// What is asked for makes sense.
    pub const ACCEPTED: &str = "Accepted";
    /// Something is being kept from happening: paused, observed or kept.
    pub const HELD: &str = "Held";
}
