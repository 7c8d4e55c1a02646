//! What a shim has to say for itself: lines in `shim.log`, which is its standard error.

use std::fmt::Arguments;
use std::io::Write;
use std::sync::atomic::{AtomicU32, Ordering};

/// A shim that has said so much says no more: the file has no other bound.
const LIMIT: u32 = 1000;

static SAID: AtomicU32 = AtomicU32::new(0);

pub(super) fn remark(text: Arguments<'_>) {
    if SAID.fetch_add(1, Ordering::Relaxed) < LIMIT {
        // Where the log cannot be written there is nobody left to tell.
        let _ = writeln!(std::io::stderr(), "{text}");
    }
}
