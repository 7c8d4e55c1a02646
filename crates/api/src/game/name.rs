//! The names of the family: labels, annotations, finalizers and condition types.

/// Where the family begins its names.
pub const GROUP: &str = "game.sojourn.dev";
/// The resources, as requests name them.
pub const COLLECTIONS: &str = "dedicatedgameservercollections";
pub const SERVERS: &str = "dedicatedgameservers";
/// The subresource of servers that stands for being given one: `create` on it is needed.
pub const ALLOCATE: &str = "allocate";

/// Blocks the deletion of a collection until its members have left it.
pub const COLLECTION_FINALIZER: &str = "game.sojourn.dev/collection";

/// Label of Pods: `"true"`.
pub const IS_SERVER: &str = "IsDedicatedGameServer";
/// Label of Pods: the server that they are of.
pub const SERVER_NAME: &str = "DedicatedGameServerName";
/// Label of members: their collection.
pub const COLLECTION_NAME: &str = "DedicatedGameServerCollectionName";
/// Label of servers that left their collection: which one that was.
pub const ORIGINAL_COLLECTION_NAME: &str = "OriginalDedicatedGameServerCollectionName";
/// Label of members: what they were made from.
pub const REVISION: &str = "game.sojourn.dev/revision";

/// Annotation of a collection: somebody looked, with a word that was not used before, such as the time.
pub const ACKNOWLEDGE: &str = "game.sojourn.dev/acknowledge";
/// Annotation of a server: it is a program that somebody runs by hand, at this address; no Pod is made.
pub const DEV_ADDRESS: &str = "game.sojourn.dev/dev-address";
/// Annotation of a server: why it is to go when it is empty.
pub const MARKED: &str = "game.sojourn.dev/marked";
/// Annotation of a marked server: when it goes although somebody is on it; left out, never.
pub const DRAIN_BY: &str = "game.sojourn.dev/drain-by";
/// Annotation of a server that failed and was taken out of its collection: until when it stays.
pub const QUARANTINED_UNTIL: &str = "game.sojourn.dev/quarantined-until";
/// Annotation of a server: how often it is to begin again after a failure.
pub const RESTART: &str = "game.sojourn.dev/restart";

/// Condition types.
pub mod condition {
    /// Of a collection: as many members as are wanted can be played on. Of a server: it can be played on.
    pub const READY: &str = "Ready";
    /// What is asked for makes sense.
    pub const ACCEPTED: &str = "Accepted";
    /// Too many members failed; nothing is made or taken away until somebody acknowledges it.
    pub const NEEDS_INTERVENTION: &str = "NeedsIntervention";
    /// Members are made from an old template.
    pub const ROLLING_OUT: &str = "RollingOut";
    /// What the autoscaler does, or why it does nothing.
    pub const AUTOSCALING: &str = "Autoscaling";
    /// Every port that was asked for could be given.
    pub const PORTS_GRANTED: &str = "PortsGranted";
    /// Something is being kept from happening: paused or observed.
    pub const HELD: &str = "Held";
    /// Of a server: it takes nobody new, and goes when it is empty.
    pub const DRAINING: &str = "Draining";
    /// Of a server: it failed.
    pub const FAILED: &str = "Failed";
}
