//! The names that people and other programs see: labels, annotations, finalizers, condition types
//! and where the configuration is. Each is written down once, here.

/// Where the family `lab` begins its names.
pub const LAB_GROUP: &str = "lab.sojourn.dev";
pub const VERSION: &str = "v1alpha1";

/// Names that every family uses.
pub mod shared {
    /// Everything of ours that is not somebody's own lives in this namespace.
    pub const NAMESPACE: &str = "sojourn-system";
    /// The ConfigMap with one key per family.
    pub const CONFIG_MAP: &str = "sojourn";
    /// The Lease that the one replica which acts holds.
    pub const LEASE: &str = "sojourn";
    /// Where kubectl finds all of our kinds: `kubectl get sojourn -A`.
    pub const CATEGORY: &str = "sojourn";
    /// What the operator calls itself, as a field manager and as the source of Events.
    pub const MANAGER: &str = "sojourn";

    /// Annotation: nothing is decided while it is `"true"`.
    pub const PAUSED: &str = "sojourn.dev/paused";
    /// Annotation: decide and publish, carry out nothing, while it is `"true"`.
    pub const OBSERVE: &str = "sojourn.dev/observe";
    /// Annotation: an owner's wish that nothing is taken before this time.
    pub const KEEP_UNTIL: &str = "sojourn.dev/keep-until";
    /// Annotation: the signed links whose button was pressed, newest last, so that each acts once.
    pub const LINKS_USED: &str = "sojourn.dev/links-used";
    /// The verb without which `paused` and `observe` cannot be changed.
    pub const HOLD: &str = "hold";
    /// Label of every object that belongs to one of our kinds.
    pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
}

/// Names of the family `lab`.
pub mod lab {
    /// Blocks an Instance's deletion until its submissions are done or waived.
    pub const FINALIZER: &str = "lab.sojourn.dev/instance";

    /// Label of Pods, claims, Services and Jobs: the Instance that they are of.
    pub const INSTANCE: &str = "lab.sojourn.dev/instance";
    /// Label beside it: the environment.
    pub const ENVIRONMENT: &str = "lab.sojourn.dev/environment";
    /// The subresource of Instances that stands for using one through the gateway.
    pub const ACCESS: &str = "access";

    /// Label or annotation of a Namespace: `"true"` keeps the inactivity controller away.
    pub const INACTIVITY_IGNORE: &str = "lab.sojourn.dev/instance-inactivity-ignore";
    /// Label or annotation of a Namespace: `"true"` keeps the expiration controller away.
    pub const EXPIRATION_IGNORE: &str = "lab.sojourn.dev/expiration-ignore";
    /// Annotation of a Template: how many warnings go out; wins over `spec.maxAlerts`.
    pub const CUSTOM_ALERTS: &str = "lab.sojourn.dev/custom-number-alerts";

    /// Annotations of an Instance that ask for something, each with the time at which it was asked.
    pub const SUBMISSION_REQUEST: &str = "lab.sojourn.dev/submission-request";
    pub const SUBMISSION_RETRY: &str = "lab.sojourn.dev/submission-retry";
    /// Needs the verb `hold`: it gives data up.
    pub const SUBMISSION_WAIVE: &str = "lab.sojourn.dev/submission-waive";

    /// What controllers write for people to read, and never read themselves.
    pub mod mirror {
        pub const ALERTS_SENT: &str = "lab.sojourn.dev/number-alerts-sent";
        pub const LAST_ACTIVITY: &str = "lab.sojourn.dev/last-activity";
        pub const LAST_NOTIFICATION: &str = "lab.sojourn.dev/last-notification-timestamp";
        pub const LAST_RUNNING: &str = "lab.sojourn.dev/last-running";
        pub const EXPIRING_WARNING: &str =
            "lab.sojourn.dev/expiring-warning-notification-timestamp";

        pub const ALL: [&str; 5] =
            [ALERTS_SENT, LAST_ACTIVITY, LAST_NOTIFICATION, LAST_RUNNING, EXPIRING_WARNING];
    }

    /// Condition types of an Instance.
    pub mod condition {
        /// Every environment runs and answers its readiness probe.
        pub const READY: &str = "Ready";
        /// What the Instance refers to is there and makes sense.
        pub const ACCEPTED: &str = "Accepted";
        /// Every source that matters for a verdict is seen.
        pub const ACTIVITY_KNOWN: &str = "ActivityKnown";
        /// A notice was accepted by nobody so far.
        pub const UNDELIVERABLE: &str = "NoticeUndeliverable";
        /// The last status check had an answer that means something.
        pub const STATUS_CHECKED: &str = "StatusChecked";
        /// Whatever was to be submitted has been.
        pub const SUBMITTED: &str = "Submitted";
        /// Something is being kept from happening: paused, observed, kept, opted out.
        pub const HELD: &str = "Held";

        pub const ALL: [&str; 7] =
            [READY, ACCEPTED, ACTIVITY_KNOWN, UNDELIVERABLE, STATUS_CHECKED, SUBMITTED, HELD];
    }

    /// Reasons of conditions and Events that are about what was asked for; those about what was
    /// decided come from the decision.
    pub mod reason {
        pub const VALID: &str = "Valid";
        pub const INVALID: &str = "Invalid";
        pub const TEMPLATE_MISSING: &str = "TemplateMissing";
        pub const TENANT_MISSING: &str = "TenantMissing";
        pub const CONFIGURATION_INVALID: &str = "ConfigurationInvalid";
    }
}
