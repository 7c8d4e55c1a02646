//! The listener for people: sign-in, pages and live updates.
//!
//! It is a client of the API with the rights of whoever looks at the page; it cannot read a
//! controller's memory or the store.
//!
//! | module          | what                                                             |
//! |-----------------|------------------------------------------------------------------|
//! | `listener`      | the socket: HTTP, TLS, bounds, a clean end                       |
//! | `origin`        | which requests a browser may send here: own host, own pages      |
//! | `sign_in`       | one-time links                                                   |
//! | `session`       | who is signed in, in memory only                                 |
//! | `entry`         | the way from our origin to an instance's                         |
//! | `account`       | both end with the account that the API knows                     |
//! | `token`         | programs: bearer tokens, asked of the API                        |
//! | `authenticator` | joins them: guards what is mounted behind it and says who calls; |
//! |                 | its `instance` does so at the origins of instances               |
//! | `page`          | own pages: plain HTML without anything from elsewhere            |

mod account;
mod authenticator;
mod cookie;
mod entry;
mod identity;
mod listener;
mod origin;
mod page;
mod secret;
mod session;
mod sign_in;
mod token;

pub use authenticator::{
    Authenticator, Caller, FrontLink, InstancePath, InstanceSite, Routes, Settings, SettingsError,
};
pub use cookie::RESERVED_COOKIES;
pub use identity::{BearerToken, Clients, Credentials, Identity};
pub use listener::{
    Bound, Leader, ListenError, Listener, PeerCertificate, Relay, Serving, TransportInfo,
};
pub use secret::Secret;
pub use sign_in::SignIn;
