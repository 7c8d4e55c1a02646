//! How a game server talks about itself: Agones' SDK over REST and gRPC, and the classic routes, all on one listener.
//!
//! Nothing in here knows who keeps what servers say: that is an [`SdkBackend`]. [`serve`] is the listener of one
//! server; [`router`] is the same for a host that has a listener of its own.
//!
//! | module | holds |
//! |---|---|
//! | `request` | what a server can say or ask, and how that is refused |
//! | `view` | what a server is told about itself |
//! | `endpoint` | one server's place to talk to: every call, whatever protocol it came by |
//! | `message` | the messages of Agones, as protobuf and as JSON; `json` is what is peculiar about the latter |
//! | `rest`, `grpc`, `classic` | the three protocols |
//! | `status` | how a call failed, in the numbers of gRPC and of HTTP |
//! | `code` | the credential of the classic routes |
//! | `form` | percent-encoding, which paths, queries and gRPC's messages share |
//! | `listener` | the socket, with its bounds |
//! | `wire`, `sidecar` | the same from inside a Pod of a cluster: what goes to the operator, and a backend that sends it |
//!
//! Agones' routes need no credential: whoever serves them sees to it that only the server's own Pod gets there. The
//! classic ones need the server's own token, because classic servers were given the address of a shared endpoint.

mod classic;
mod code;
mod endpoint;
mod form;
mod grpc;
mod json;
mod listener;
mod message;
mod request;
mod rest;
pub mod sidecar;
mod status;
#[cfg(test)]
mod tests;
mod view;
pub mod wire;

use std::fmt::Debug;
use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use sojourn_core::key::Key;

use self::endpoint::Endpoint;

pub use self::code::SdkCode;
pub use self::listener::serve;
pub use self::request::{CounterChange, SdkError, SdkRequest, Silence};
pub use self::view::{
    CounterView, GameServerState, GameServerView, HealthView, ListView, PlayersView, PortView,
};

/// Who speaks: one server. Another of the same name has another uid.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ServerIdentity {
    pub key: Key,
    pub uid: String,
}

/// Whoever keeps what servers say.
pub trait SdkBackend: Send + Sync + Debug {
    /// Takes in what a server says; the answer is how the server is then. Whoever asked may go away at any time, and
    /// the future is dropped where it is.
    fn take<'a>(
        &'a self,
        server: &'a ServerIdentity,
        request: SdkRequest,
    ) -> BoxFuture<'a, Result<GameServerView, SdkError>>;

    /// How a server is now, as far as it is known.
    fn view<'a>(
        &'a self,
        server: &'a ServerIdentity,
    ) -> BoxFuture<'a, Result<GameServerView, SdkError>>;

    /// How a server is now and from each change on. It holds no more than a few views: a slow reader misses what lies
    /// between. It ends with the server.
    fn watch(&self, server: &ServerIdentity) -> BoxStream<'static, GameServerView>;
}

/// Every protocol of one server, for a host that has a listener of its own. That host bounds connections and heads;
/// gRPC works where it speaks HTTP/2.
pub fn router(identity: ServerIdentity, code: SdkCode, backend: Arc<dyn SdkBackend>) -> Router {
    let endpoint = Arc::new(Endpoint::new(identity, code, backend));
    // One route for all of them: thousands of servers have an endpoint each, and a table of routes is not small.
    Router::new().fallback(move |request: Request| {
        let endpoint = endpoint.clone();
        async move { endpoint.answer(request).await }
    })
}
