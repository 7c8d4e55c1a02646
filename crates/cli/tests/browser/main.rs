//! The pages that people see, in a real browser: headless Chromium, driven over WebDriver, against
//! `sojourn up`.
//!
//! | variable of the environment | meaning                                                  |
//! |-----------------------------|----------------------------------------------------------|
//! | `SOJOURN_REQUIRE_BROWSER`   | `1`: fail rather than skip without Chromium              |
//! | `SOJOURN_SCREENSHOTS`       | a folder that gets a picture of every page that is shown |

#![expect(
    clippy::disallowed_methods,
    reason = "real time, and what the environment says about the machine that the tests run on"
)]
#![expect(clippy::print_stdout, reason = "what was skipped")]

mod access;
#[path = "../it/client.rs"]
#[allow(dead_code, reason = "the tests of the binary, whose it is, use all of it")]
mod client;
mod driver;
mod fixture;
#[path = "../it/folder.rs"]
mod folder;
mod foreign;
mod game;
mod gateway;
mod isolation;
mod link;
#[path = "../lab/objects.rs"]
#[allow(dead_code, reason = "the tests of the lab, whose it is, use all of it")]
mod objects;
mod page;
#[path = "../access/people.rs"]
#[allow(dead_code, reason = "the tests of access, whose it is, use all of it")]
mod people;
#[path = "../lab/person.rs"]
#[allow(dead_code, reason = "the tests of the lab, whose it is, use all of it")]
mod person;
#[path = "../it/process.rs"]
#[allow(dead_code, reason = "the tests of the binary, whose it is, use all of it")]
mod process;
mod server;
mod sign_in;
#[path = "../pods/survivors.rs"]
#[allow(dead_code, reason = "the tests of Pods, whose it is, use all of it")]
mod survivors;
#[path = "../lab/tool.rs"]
#[allow(dead_code, reason = "the tests of the lab, whose it is, use all of it")]
mod tool;
#[path = "../lab/wait.rs"]
#[allow(dead_code, reason = "the tests of the lab, whose it is, use all of it")]
mod wait;
