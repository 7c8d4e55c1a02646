//! Which allowed requests are use. Programs ask by themselves what an API serves and what they may do, so
//! that alone keeps no session alive.

use sojourn_rbac::Attributes;

use super::AuthorizerOptions;

/// Paths that tell what is served and whether it is healthy; each also stands for those below it.
const DISCOVERY: [&str; 9] = [
    "/api",
    "/apis",
    "/openapi",
    "/swagger",
    "/version",
    "/healthz",
    "/livez",
    "/readyz",
    "/.well-known",
];

/// By which users ask about themselves: group and resource.
const SELF_REVIEWS: [(&str, &str); 3] = [
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
    ("authentication.k8s.io", "selfsubjectreviews"),
];

pub(super) fn is_use(request: &Attributes<'_>, options: &AuthorizerOptions) -> bool {
    if is_discovery(request) {
        options.discovery_counts
    } else if is_self_review(request) {
        options.self_reviews_count
    } else {
        true
    }
}

fn is_discovery(request: &Attributes<'_>) -> bool {
    let covers = |own: &str| {
        let rest = request.path.strip_prefix(own);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    !request.is_resource_request && DISCOVERY.into_iter().any(covers)
}

fn is_self_review(request: &Attributes<'_>) -> bool {
    request.is_resource_request
        && request.verb == "create"
        && SELF_REVIEWS.contains(&(request.api_group, request.resource))
}

#[cfg(test)]
mod tests {
    use sojourn_rbac::User;

    use super::*;

    #[test]
    fn questions_about_the_api_and_about_oneself_are_no_use() {
        let user = User::default();
        let path = |path| Attributes::on_path(&user, "get", path);
        let create = |group, resource| Attributes::on_resource(&user, "create", group, resource);
        let neither = AuthorizerOptions::default();
        let both = AuthorizerOptions {
            discovery_counts: true,
            self_reviews_count: true,
            ..AuthorizerOptions::default()
        };
        for request in [
            path("/api"),
            path("/api/v1"),
            path("/apis/apps/v1"),
            path("/openapi/v3"),
            path("/version"),
            path("/version/"),
            path("/healthz"),
            path("/readyz/etcd"),
            create("authorization.k8s.io", "selfsubjectaccessreviews"),
            create("authorization.k8s.io", "selfsubjectrulesreviews"),
            create("authentication.k8s.io", "selfsubjectreviews"),
        ] {
            assert!(!is_use(&request, &neither), "{request:?}");
            assert!(is_use(&request, &both), "{request:?}");
        }
        for request in [
            path("/metrics"),
            path("/apiserver"),
            path("/logs/x"),
            path(""),
            create("authorization.k8s.io", "subjectaccessreviews"),
            create("", "selfsubjectaccessreviews"),
            Attributes::on_resource(&user, "list", "", "pods"),
        ] {
            assert!(is_use(&request, &neither), "{request:?}");
        }
    }
}
