//! What every family stands on, on the real embedded API: the configuration as it is read live, what
//! is on record, and objects that are taken away.

#[path = "frame/configuration.rs"]
mod configuration;
#[path = "frame/deletion.rs"]
mod deletion;
#[path = "frame/record.rs"]
mod record;
