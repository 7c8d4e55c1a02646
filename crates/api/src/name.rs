//! The names that people and other programs see: labels, annotations, finalizers, condition types
//! and where the configuration is. Each is written down once: those of several crates and of the larger
//! families here, those of a small one beside its kind.

/// Where the family `lab` begins its names.
pub const LAB_GROUP: &str = "lab.sojourn.dev";
/// Where the family `group` begins its names.
pub const GROUP_GROUP: &str = "group.sojourn.dev";
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
    /// What our admission is called, and the object that tells a cluster of it.
    pub const ADMISSION: &str = "admission.sojourn.dev";
    /// Condition, and reason of an Event: the definition of the object's kind is older than we are, and
    /// drops what we write.
    pub const DEFINITION_TOO_OLD: &str = "DefinitionTooOld";
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
    /// The verb on Tenants without which nobody makes an Instance for somebody else, or names it:
    /// mails to the Tenant follow from that, and quote its name.
    pub const LEND: &str = "lend";

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
    /// Needs the verb `hold`: nobody is told any more what nobody has accepted by then.
    pub const NOTICE_WAIVE: &str = "lab.sojourn.dev/notice-waive";

    /// Annotation of an Instance: the end, by its time in `status.ended.at`, that does not hold any
    /// more. It needs the verb of that name.
    pub const REOPEN: &str = "lab.sojourn.dev/reopen";
    /// The verb on Instances without which nothing that has ended is started again.
    pub const TO_REOPEN: &str = "reopen";
    /// On claims: keeps them, and the data with them, for as long as that is to be handed in.
    pub const CLAIM_FINALIZER: &str = "lab.sojourn.dev/submission";

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
        pub const NAME_TAKEN: &str = "NameTaken";
        /// What was to be handed in is gone with its claim.
        pub const CLAIM_MISSING: &str = "ClaimMissing";
    }
}

/// Names of the family `group`.
pub mod group {
    /// Blocks a Machine's deletion until it is drained and gone at its provider.
    pub const MACHINE_FINALIZER: &str = "group.sojourn.dev/machine";
    /// Blocks an InstanceGroup's deletion until its Machines are gone.
    pub const GROUP_FINALIZER: &str = "group.sojourn.dev/group";

    /// Label of Machines and of what is made for them: the InstanceGroup that they are of.
    pub const GROUP: &str = "group.sojourn.dev/group";
    /// Label of what is made for a Machine: the Machine.
    pub const MACHINE: &str = "group.sojourn.dev/machine";

    /// Annotation of an InstanceGroup: every Machine that was created before this time is to be
    /// replaced.
    pub const ROTATE: &str = "group.sojourn.dev/rotate";
    /// Annotation of a Machine: somebody asked at this time that it is drained.
    pub const DRAIN: &str = "group.sojourn.dev/drain";
    /// Annotation of a Machine: `"true"`, or how long from its creation on it is not disturbed.
    pub const DO_NOT_DISRUPT: &str = "group.sojourn.dev/do-not-disrupt";

    /// The provider that is built in: a Machine is a Pod.
    pub const POD_PROVIDER: &str = "pod";

    /// Condition types of InstanceGroups and Machines.
    pub mod condition {
        /// As many Machines as are wanted are ready; of a Machine: it is ready.
        pub const READY: &str = "Ready";
        /// What is asked for makes sense.
        pub const ACCEPTED: &str = "Accepted";
        /// No rotation begins before a time that somebody set.
        pub const FROZEN: &str = "Frozen";
        /// A Machine is due and something keeps it from being replaced.
        pub const BLOCKED: &str = "Blocked";
        /// So many Machines are ill that none is replaced for being ill.
        pub const STORM_GUARD: &str = "StormGuard";
        /// New Machines cannot be made.
        pub const CREATE_FAILING: &str = "CreateFailing";
        /// Machines of the present template end by themselves soon after they became ready.
        pub const DYING_YOUNG: &str = "DyingYoung";
        /// The ages that are in force are in order.
        pub const AGES_CONSISTENT: &str = "AgesConsistent";
        /// Something is being kept from happening: paused or observed.
        pub const HELD: &str = "Held";
        /// Of a Machine: it is being drained.
        pub const DRAINING: &str = "Draining";
        /// Of a Machine: what was seen of its health.
        pub const HEALTHY: &str = "Healthy";

        pub const OF_GROUPS: [&str; 9] = [
            READY,
            ACCEPTED,
            FROZEN,
            BLOCKED,
            STORM_GUARD,
            CREATE_FAILING,
            DYING_YOUNG,
            AGES_CONSISTENT,
            HELD,
        ];
        pub const OF_MACHINES: [&str; 5] = [READY, ACCEPTED, DRAINING, HEALTHY, HELD];
    }
}
