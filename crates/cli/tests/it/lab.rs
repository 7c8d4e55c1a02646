//! What people type about personal environments, on `sojourn up`.

#[path = "lab/ask.rs"]
mod ask;
#[path = "lab/fixture.rs"]
pub(crate) mod fixture;
#[path = "lab/request.rs"]
mod request;
#[path = "lab/setting.rs"]
mod setting;
