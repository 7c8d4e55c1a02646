//! `sojourn up` as a whole: how it ends, and what the next one finds.
