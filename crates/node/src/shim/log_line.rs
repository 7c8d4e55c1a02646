//! Messages of a shim about itself: lines in `shim.log`, which is its standard error.

use std::fmt::Arguments;
use std::io::Write;
use std::sync::atomic::{AtomicU32, Ordering};

/// A shim that has written this many lines writes no more: the file has no other bound.
const MAX_MESSAGES: u32 = 1000;

static WRITTEN: AtomicU32 = AtomicU32::new(0);

pub(super) fn log_line(text: Arguments<'_>) {
    if WRITTEN.fetch_add(1, Ordering::Relaxed) < MAX_MESSAGES {
        // Where the log cannot be written there is nobody left to tell.
        let _ = writeln!(std::io::stderr(), "{text}");
    }
}
