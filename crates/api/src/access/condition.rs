//! Condition types of a session, and those reasons of theirs that the API checks.

/// It ended because nobody used it.
pub const IDLE: &str = "Idle";
/// As many people approved it as have to.
pub const APPROVED: &str = "Approved";
/// It grants what was asked for.
pub const ACTIVE: &str = "Active";
/// Whether uses are seen. While they are not, nothing counts as unused.
pub const ACTIVITY_SOURCE_HEALTHY: &str = "ActivitySourceHealthy";
/// A notice was accepted by nobody so far.
pub const UNDELIVERABLE: &str = "NoticeUndeliverable";
/// What the session is made of makes sense.
pub const ACCEPTED: &str = "Accepted";
/// Something is being kept from happening: paused or observed.
pub const HELD: &str = "Held";

pub const ALL: [&str; 7] =
    [IDLE, APPROVED, ACTIVE, ACTIVITY_SOURCE_HEALTHY, UNDELIVERABLE, ACCEPTED, HELD];

/// Reasons of [`IDLE`], one of which a session has that is IdleExpired.
pub const IDLE_TIMEOUT: &str = "IdleTimeout";
pub const NEVER_USED: &str = "NeverUsed";
