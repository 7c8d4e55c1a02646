//! Asks the authorizers about a request.

use http::HeaderMap;
use sojourn_rbac::{Attributes, FieldRequirement};

use crate::auth::authorize::{
    AuthorizationDecision, Authorizer, Authorizers, ExtendedAuthorizers, forbidden,
};
use crate::auth::extension::{ExtensionDecision, Question};
use crate::auth::identity::Identity;
use crate::auth::impersonate;
use crate::engine::Shared;
use crate::request::{Query, ResourcePath, Verb};
use crate::selector::FieldSelector;
use crate::status::ApiError;
use crate::verb::Call;
use crate::view::AccessState;

impl AccessState {
    /// The engine's own authorizers.
    pub(crate) const fn authorizers(&self) -> Authorizers<'_> {
        Authorizers { policy: &self.policy, graph: &self.graph }
    }

    /// All authorizers.
    pub(crate) const fn all_authorizers<'a>(
        &'a self,
        engine: &'a Shared,
        question: Question,
    ) -> ExtendedAuthorizers<'a> {
        ExtendedAuthorizers { own: self.authorizers(), extension: &engine.extension, question }
    }
}

/// Who the request acts as, if they may make it: the caller, or whom the caller impersonates.
pub(super) async fn resource(
    engine: &Shared,
    identity: &Identity,
    headers: &HeaderMap,
    verb: Verb,
    path: &ResourcePath,
    query: &Query,
) -> Result<Identity, ApiError> {
    let selector = field_requirements(query, path, verb);
    // A collection request that selects one object by name is about that object.
    let named = selector.iter().find(|r| r.field == "metadata.name" && r.equals);
    let name = match (path.name.as_str(), verb, named) {
        ("", Verb::List | Verb::Watch | Verb::DeleteCollection, Some(named)) => &named.value,
        (name, ..) => name,
    };
    let attributes = Attributes {
        user: identity.user(),
        verb: verb.as_str(),
        namespace: &path.namespace,
        api_group: &path.group,
        api_version: &path.version,
        resource: &path.resource,
        subresource: &path.subresource,
        name,
        path: "",
        is_resource_request: true,
        field_selector: &selector,
    };
    allow(engine, identity, headers, attributes).await
}

/// The same for a path that is no resource.
pub(super) async fn path(
    engine: &Shared,
    identity: &Identity,
    headers: &HeaderMap,
    method: &http::Method,
    path: &str,
) -> Result<Identity, ApiError> {
    let verb = method.as_str().to_ascii_lowercase();
    allow(engine, identity, headers, Attributes::on_path(identity.user(), &verb, path)).await
}

async fn allow(
    engine: &Shared,
    identity: &Identity,
    headers: &HeaderMap,
    attributes: Attributes<'_>,
) -> Result<Identity, ApiError> {
    let Some(wanted) = impersonate::impersonated_user(headers)? else {
        return check(engine, &attributes).await.map(|()| identity.clone());
    };
    let acting = {
        let access = engine.access.current();
        let authorizers = access.all_authorizers(engine, Question::Request);
        engine.impersonation.decide(&wanted, &attributes, &authorizers)?.identity
    };
    check(engine, &Attributes { user: acting.user(), ..attributes }).await?;
    Ok(acting)
}

async fn check(engine: &Shared, attributes: &Attributes<'_>) -> Result<(), ApiError> {
    let by_own = {
        let access = engine.access.current();
        let authorizers = access.authorizers();
        if authorizers.allows(attributes) {
            return Ok(());
        }
        authorizers.authorize(attributes)
    };
    let refusal = match engine.extension.ask(attributes, Question::Request) {
        None => by_own,
        Some(ExtensionDecision::Allow { reason: _, before_answer }) => {
            if let Some(before_answer) = before_answer {
                before_answer.await;
            }
            return Ok(());
        }
        Some(ExtensionDecision::NoOpinion { reason }) => {
            by_own.followed_by(AuthorizationDecision::no_opinion(reason))
        }
    };
    Err(forbidden(attributes, &refusal.reason))
}

fn field_requirements(query: &Query, path: &ResourcePath, verb: Verb) -> Vec<FieldRequirement> {
    let applies = matches!(verb, Verb::List | Verb::Watch | Verb::DeleteCollection);
    let text = query.text("fieldSelector");
    if !applies || text.is_empty() || !path.name.is_empty() {
        return Vec::new();
    }
    FieldSelector::parse(text).map(|s| s.requirements()).unwrap_or_default()
}

impl Call {
    /// Whether the caller may also use another verb on the same object: creating by PUT or apply.
    pub(crate) async fn authorize(&self, verb: &'static str) -> Result<(), ApiError> {
        let path = &self.path;
        let attributes = Attributes {
            namespace: &path.namespace,
            api_version: &path.version,
            name: &path.name,
            ..Attributes::on_resource(self.identity.user(), verb, &path.group, &path.resource)
        };
        check(&self.engine, &attributes).await
    }
}
