//! What every controller stands on: caches that follow the API, a queue of objects to look at, and
//! the loop that looks at them in five steps.
//!
//! A family brings a [`Reconciler`] and says, in the callbacks of its caches, which objects a change
//! concerns. Nothing here knows a family.

pub mod cache;
mod error;
pub mod guarded;
pub mod index;
pub mod queue;
pub mod reconcile;
pub(crate) mod status;
pub mod task;
pub(crate) mod write;

pub use cache::{Cache, Change, WatchHealth, WatchSettings};
pub(crate) use error::RequestError;
pub use guarded::{Guarded, Read};
pub use index::Index;
pub use queue::Queue;
pub use reconcile::{Class, Limits, Reconciler, Target, run};
pub use task::Tasks;
