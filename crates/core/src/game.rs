//! Game servers: collections that grow with their players, shrink without throwing anybody out, and hand a server to
//! a matchmaker exactly once.
//!
//! | module | decides |
//! |---|---|
//! | `server` | what a server is: its health, its Pod, who is on it |
//! | `lifecycle` | what becomes of one server: its Pod, its health, its drain |
//! | `census` | what a collection says of its members |
//! | `scale_in` | which members go first |
//! | `collection` | what becomes of a collection: what is made, marked, taken back and replaced |
//! | `failure` | what becomes of members that failed, and when somebody has to look |
//! | `allocation` | which server a matchmaker is given |
//! | `autoscaler` | how many members there should be |
//! | `grant` | how what was given is claimed, returned and over |
//! | `notice` | what people are told, and when |
//! | `naming` | what servers are called |
//! | `port` | which ports of a node are whose |

pub mod allocation;
pub mod autoscaler;
pub mod census;
pub mod collection;
pub mod failure;
pub mod grant;
pub mod lifecycle;
pub mod naming;
pub mod notice;
pub mod port;
pub mod scale_in;
pub mod server;
#[cfg(test)]
mod test_server;
