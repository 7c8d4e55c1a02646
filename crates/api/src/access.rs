//! The family `access`: emergency permissions that end when nobody uses them.
//!
//! | module | holds |
//! |---|---|
//! | [`mod@escalation`], [`mod@session`], [`status`] | the kinds |
//! | [`condition`] | the conditions of a session |
//! | [`config`], [`role`] | the options, and who may do what |
//! | [`convert`] | to and from `core`, and what makes an object a sensible one |

pub mod condition;
pub mod config;
pub mod convert;
pub mod escalation;
pub mod role;
pub mod session;
pub mod status;
mod terms;

pub use config::AccessConfig;
pub use convert::{
    check_escalation, check_session, escalation, read_state, read_usage, session, spec_of,
    write_state, write_usage,
};
pub use escalation::{BreakglassEscalation, BreakglassEscalationSpec};
pub use session::{BreakglassSession, BreakglassSessionSpec};
pub use status::BreakglassSessionStatus;

use kube::CustomResourceExt as _;

use crate::config::ConfigKey;
use crate::family::Family;

pub const GROUP: &str = "access.sojourn.dev";
/// The resources, as requests name them.
pub const ESCALATIONS: &str = "breakglassescalations";
pub const SESSIONS: &str = "breakglasssessions";

pub(crate) const FAMILY: Family = Family {
    name: "access",
    api_group: GROUP,
    config: ConfigKey::of::<AccessConfig>(),
    aliases: &[],
    crds: || vec![BreakglassEscalation::crd(), BreakglassSession::crd()],
    roles: role::roles,
    person_role: Some(role::USER),
    operator_rules: role::operator,
};
