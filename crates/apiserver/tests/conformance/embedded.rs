//! The embedded engine as a target: the one file here that knows its Rust interface.

use std::net::{Ipv4Addr, SocketAddr};

use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use http::Request;
use http_body_util::BodyExt;
use sojourn_apiserver::auth::identity::Identity;
use sojourn_apiserver::{Config, Engine};
use sojourn_rbac::User;
use tower::ServiceExt;

use crate::identity;
use crate::target::{BoxError, Sending, Target, TlsTarget};

#[derive(Debug)]
pub(crate) struct Embedded(Engine);

impl Embedded {
    /// An empty engine in memory that knows the users of `identity.rs`.
    pub(crate) async fn start() -> Self {
        let engine = Engine::open(Config::in_memory()).await.expect("an engine in memory opens");
        for known in identity::ALL {
            let user = User {
                name: known.name.to_owned(),
                uid: known.name.to_owned(),
                groups: known.groups.iter().map(ToString::to_string).collect(),
                ..User::default()
            };
            engine.add_token(known.token, Identity::authenticated(user));
        }
        Self(engine)
    }

    pub(crate) fn in_process(&self) -> InProcess {
        InProcess(self.0.router())
    }

    pub(crate) async fn over_tls(&self) -> TlsTarget {
        let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let server = self.0.serve_tls(any_port).await.expect("a port on loopback");
        TlsTarget::connect(server.address(), server.authority_pem().as_bytes())
            .await
            .expect("it answers")
    }
}

#[derive(Debug)]
pub(crate) struct InProcess(Router);

impl Target for InProcess {
    fn send(&self, request: Request<Bytes>) -> Sending<'_> {
        let router = self.0.clone();
        Box::pin(async move {
            let answer = router.oneshot(request.map(Body::from)).await?;
            Ok(answer.map(|body| body.map_err(BoxError::from).boxed_unsync()))
        })
    }
}
