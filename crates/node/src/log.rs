//! The logs of containers, as they are asked for by `kubectl logs`.
//!
//! A shim writes them (`shim::log`): each line with its time, its stream and whether it is whole;
//! a file that has grown past its share becomes the older half. Here they are only read:
//!
//! | file     | what                                                     |
//! |----------|----------------------------------------------------------|
//! | `query`  | what is asked for                                        |
//! | `line`   | one line of a file, and how it is shown                  |
//! | `read`   | both halves, forwards, and backwards to where a tail begins |
//! | `follow` | the stream of an answer, to its end or on and on         |
//! | `notify` | who is told that a file has changed                      |
//!
//! What a container wrote can be anything. A line of a file that is not in the format is left out.
//! Nothing is ever read as a whole: an answer needs memory for a few blocks.

mod follow;
mod line;
mod notify;
mod query;
mod read;

pub(crate) use follow::{Source, open};
pub(crate) use notify::Folders;
pub(crate) use query::{Query, QueryError};
