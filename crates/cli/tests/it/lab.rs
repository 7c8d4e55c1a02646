//! What people type about personal environments, on `sojourn up`.

#[path = "lab/ask.rs"]
mod ask;
#[path = "lab/setting.rs"]
mod setting;
#[path = "lab/stage.rs"]
pub(crate) mod stage;
#[path = "lab/wish.rs"]
mod wish;
