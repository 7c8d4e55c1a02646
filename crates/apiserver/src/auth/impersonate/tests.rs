use http::{HeaderName, HeaderValue};

use super::*;
use crate::auth::authorize::AuthorizationDecision;

type Pairs<'a> = &'a [(&'a str, &'a str)];

fn headers(pairs: Pairs<'_>) -> HeaderMap {
    pairs
        .iter()
        .map(|(name, value)| {
            let name: HeaderName = name.parse().unwrap();
            (name, HeaderValue::from_str(value).unwrap())
        })
        .collect()
}

fn user(name: &str) -> User {
    User { name: name.to_owned(), ..User::default() }
}

/// What `tokenreviews` of this file's requests are allowed: `verb group/resource/subresource/name`.
fn allowing(rules: &'static [&'static str]) -> impl Fn(&Attributes<'_>) -> AuthorizationDecision {
    move |request| {
        let Attributes { verb, api_group, resource, subresource, name, .. } = *request;
        let asked = format!("{verb} {api_group}/{resource}/{subresource}/{name}");
        AuthorizationDecision {
            allowed: rules.iter().any(|rule| *rule == asked || *rule == "*"),
            reason: String::new(),
        }
    }
}

fn decide(
    memory: &Impersonation,
    requester: &User,
    pairs: Pairs<'_>,
    authorizer: &dyn Authorizer,
) -> Result<Impersonated, String> {
    let wanted = impersonated_user(&headers(pairs)).unwrap().expect("a user is wanted");
    let request =
        Attributes::on_resource(requester, "create", AUTHENTICATION, "selfsubjectreviews");
    memory.decide(&wanted, &request, authorizer).map_err(|error| error.message)
}

fn groups(result: &Result<Impersonated, String>) -> Vec<&str> {
    let user = result.as_ref().unwrap().identity.user();
    user.groups.iter().map(String::as_str).collect()
}

#[test]
fn reads_the_headers() {
    let wanted = impersonated_user(&headers(&[
        ("Impersonate-User", "bob"),
        ("Impersonate-Group", "a"),
        ("Impersonate-Group", "b"),
        ("Impersonate-Uid", "u"),
        ("Impersonate-Extra-Scopes", "s1"),
        ("Impersonate-Extra-Scopes", "s2"),
        ("Impersonate-Extra-Acme.com%2fX", "c"),
        ("Impersonate-Extra-Bad%2", "d"),
    ]))
    .unwrap()
    .unwrap();
    assert_eq!((wanted.name.as_str(), wanted.uid.as_str()), ("bob", "u"));
    assert_eq!(wanted.groups, ["a", "b"]);
    let extra: Vec<(&str, &[String])> =
        wanted.extra.iter().map(|(key, values)| (key.as_str(), values.as_slice())).collect();
    assert_eq!(
        extra,
        [
            ("acme.com/x", &["c".to_owned()][..]),
            ("bad%2", &["d".to_owned()]),
            ("scopes", &["s1".to_owned(), "s2".to_owned()]),
        ]
    );
    assert_eq!(impersonated_user(&headers(&[("Accept", "x")])).unwrap(), None);
    assert_eq!(impersonated_user(&headers(&[("Impersonate-User", "")])).unwrap(), None);
}

#[test]
fn a_user_must_be_named() {
    let cases = [
        (
            vec![("Impersonate-Group", "g")],
            r#"requested &user.DefaultInfo{Name:"", UID:"", Groups:[]string{"g"}, Extra:map[string][]string(nil)} without impersonating a user name"#,
        ),
        (
            vec![
                ("Impersonate-Group", "g"),
                ("Impersonate-Group", "h"),
                ("Impersonate-Uid", "u"),
                ("Impersonate-Extra-Scopes", "a"),
                ("Impersonate-Extra-Acme.com%2fx", "b"),
            ],
            r#"requested &user.DefaultInfo{Name:"", UID:"u", Groups:[]string{"g", "h"}, Extra:map[string][]string{"acme.com/x":[]string{"b"}, "scopes":[]string{"a"}}} without impersonating a user name"#,
        ),
        (
            vec![("Impersonate-Uid", "u")],
            r#"requested &user.DefaultInfo{Name:"", UID:"u", Groups:[]string(nil), Extra:map[string][]string(nil)} without impersonating a user name"#,
        ),
    ];
    for (pairs, message) in cases {
        let error = impersonated_user(&headers(&pairs)).unwrap_err();
        assert_eq!((error.code.as_u16(), error.message.as_str()), (400, message));
    }
}

#[test]
fn the_refusal_of_the_first_mode_is_reported() {
    let alice = user("alice");
    let nothing = allowing(&[]);
    for (wanted, mode) in [
        ("bob", "user-info"),
        ("system:serviceaccount:default:x", "serviceaccount"),
        ("system:node:n1", "arbitrary-node"),
    ] {
        let memory = Impersonation::default();
        assert_eq!(
            decide(&memory, &alice, &[("Impersonate-User", wanted)], &nothing),
            Err(format!(
                "selfsubjectreviews.authentication.k8s.io is forbidden: User \"alice\" cannot \
                 impersonate-on:{mode}:create resource \"selfsubjectreviews\" in API group \
                 \"authentication.k8s.io\" at the cluster scope"
            ))
        );
    }
}

#[test]
fn groups_are_completed() {
    let admin = user("admin");
    let all = allowing(&["*"]);
    let as_user = ("Impersonate-User", "bob");
    let as_account = ("Impersonate-User", "system:serviceaccount:default:x");
    let cases: [(Pairs<'_>, &[&str]); 7] = [
        (&[as_user], &["system:authenticated"]),
        (
            &[as_user, ("Impersonate-Group", "a"), ("Impersonate-Group", "b")],
            &["a", "b", "system:authenticated"],
        ),
        (
            &[as_account],
            &["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"],
        ),
        (&[as_account, ("Impersonate-Group", "q")], &["q", "system:authenticated"]),
        (&[("Impersonate-User", "system:anonymous")], &["system:unauthenticated"]),
        (&[as_user, ("Impersonate-Group", "system:unauthenticated")], &["system:unauthenticated"]),
        (
            &[as_user, ("Impersonate-Group", "system:masters")],
            &["system:masters", "system:authenticated"],
        ),
    ];
    for (pairs, expected) in cases {
        let memory = Impersonation::default();
        assert_eq!(groups(&decide(&memory, &admin, pairs, &all)), expected, "{pairs:?}");
    }
}

#[test]
fn the_last_mode_is_tried_first() {
    let admin = user("admin");
    let all = allowing(&["*"]);
    let node = [("Impersonate-User", "system:node:n1")];
    let masters = [("Impersonate-User", "x"), ("Impersonate-Group", "system:masters")];

    let memory = Impersonation::default();
    let fresh = decide(&memory, &admin, &node, &all);
    assert_eq!(groups(&fresh), ["system:nodes", "system:authenticated"]);
    assert_eq!(fresh.unwrap().constraint, "impersonate:arbitrary-node");
    // Only the legacy mode lets somebody into system:masters; after that it goes first.
    let legacy = decide(&memory, &admin, &masters, &all);
    assert_eq!(legacy.as_ref().unwrap().constraint, "");
    assert_eq!(groups(&decide(&memory, &admin, &node, &all)), ["system:authenticated"]);
}

#[test]
fn legacy_rights_are_checked_value_by_value() {
    let imp = user("imp");
    let rights = allowing(&[
        "impersonate /users//bob",
        "impersonate /groups//dev",
        "impersonate /serviceaccounts//bob",
        "impersonate authentication.k8s.io/uids//u1",
        "impersonate authentication.k8s.io/userextras/scopes/s1",
    ]);
    let memory = Impersonation::default();
    let bob = ("Impersonate-User", "bob");
    let full = [
        bob,
        ("Impersonate-Group", "dev"),
        ("Impersonate-Uid", "u1"),
        ("Impersonate-Extra-Scopes", "s1"),
    ];
    let identity = decide(&memory, &imp, &full, &rights).unwrap().identity;
    assert_eq!(
        identity.user_info(),
        serde_json::json!({
            "username": "bob", "uid": "u1", "groups": ["dev", "system:authenticated"],
            "extra": {"scopes": ["s1"]},
        })
    );
    assert!(
        decide(
            &memory,
            &imp,
            &[("Impersonate-User", "system:serviceaccount:default:bob")],
            &rights
        )
        .is_ok()
    );
    let cases: [(Pairs<'_>, &str); 4] = [
        (
            &[("Impersonate-User", "eve")],
            r#"users "eve" is forbidden: User "imp" cannot impersonate resource "users" in API group "" at the cluster scope"#,
        ),
        (
            &[bob, ("Impersonate-Group", "root")],
            r#"groups "root" is forbidden: User "imp" cannot impersonate resource "groups" in API group "" at the cluster scope"#,
        ),
        (
            &[bob, ("Impersonate-Uid", "u2")],
            r#"uids.authentication.k8s.io "u2" is forbidden: User "imp" cannot impersonate resource "uids" in API group "authentication.k8s.io" at the cluster scope"#,
        ),
        (
            &[bob, ("Impersonate-Extra-Scopes", "s2")],
            r#"userextras.authentication.k8s.io "s2" is forbidden: User "imp" cannot impersonate resource "userextras/scopes" in API group "authentication.k8s.io" at the cluster scope"#,
        ),
    ];
    for (pairs, message) in cases {
        assert_eq!(decide(&memory, &imp, pairs, &rights), Err(message.to_owned()));
    }
}

#[test]
fn constrained_rights_are_enough() {
    let carol = user("carol");
    let rights = allowing(&[
        "impersonate-on:user-info:create authentication.k8s.io/selfsubjectreviews//",
        "impersonate:user-info authentication.k8s.io/users//bob",
        "impersonate:user-info authentication.k8s.io/groups//dev",
        "impersonate:user-info authentication.k8s.io/userextras/acme.com/x/v",
    ]);
    let bob = ("Impersonate-User", "bob");
    let memory = Impersonation::default();
    let good = [bob, ("Impersonate-Group", "dev"), ("Impersonate-Extra-Acme.com%2fx", "v")];
    assert_eq!(
        decide(&memory, &carol, &good, &rights).unwrap().constraint,
        "impersonate:user-info"
    );
    let cases: [(Pairs<'_>, &str); 7] = [
        (
            &[bob, ("Impersonate-Group", "system:masters")],
            r#"groups.authentication.k8s.io "system:masters" is forbidden: User "carol" cannot impersonate:user-info resource "groups" in API group "authentication.k8s.io" at the cluster scope: impersonating the system:masters group is not allowed"#,
        ),
        (
            &[bob, ("Impersonate-Group", "")],
            r#"groups.authentication.k8s.io is forbidden: User "carol" cannot impersonate:user-info resource "groups" in API group "authentication.k8s.io" at the cluster scope: impersonating the empty string group is not allowed"#,
        ),
        (
            &[bob, ("Impersonate-Extra-Scopes", "v")],
            r#"userextras.authentication.k8s.io is forbidden: User "carol" cannot impersonate:user-info resource "userextras" in API group "authentication.k8s.io" at the cluster scope: impersonating an invalid key in extra is not allowed: extra.key: Invalid value: "scopes": must be a domain-prefixed path (such as "acme.io/foo")"#,
        ),
        (
            &[bob, ("Impersonate-Extra-A_b%2fx", "v")],
            r#"userextras.authentication.k8s.io is forbidden: User "carol" cannot impersonate:user-info resource "userextras" in API group "authentication.k8s.io" at the cluster scope: impersonating an invalid key in extra is not allowed: extra.key: Invalid value: "a_b": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"#,
        ),
        (
            &[bob, ("Impersonate-Extra-a.b%2fx%3f", "v")],
            r#"userextras.authentication.k8s.io is forbidden: User "carol" cannot impersonate:user-info resource "userextras" in API group "authentication.k8s.io" at the cluster scope: impersonating an invalid key in extra is not allowed: extra.key: Invalid value: "x?": Invalid path (regex used for validation is '[A-Za-z0-9/\-._~%!$&'()*+,;=:]+')"#,
        ),
        (
            &[bob, ("Impersonate-Extra-a.b%2fx", "")],
            r#"userextras.authentication.k8s.io is forbidden: User "carol" cannot impersonate:user-info resource "userextras" in API group "authentication.k8s.io" at the cluster scope: impersonating the empty string value in extra is not allowed"#,
        ),
        (
            &[("Impersonate-User", "eve")],
            r#"users.authentication.k8s.io "eve" is forbidden: User "carol" cannot impersonate:user-info resource "users" in API group "authentication.k8s.io" at the cluster scope"#,
        ),
    ];
    for (pairs, message) in cases {
        assert_eq!(decide(&memory, &carol, pairs, &rights), Err(message.to_owned()));
    }
}

#[test]
fn a_service_account_may_impersonate_its_own_node() {
    let mut agent = user("system:serviceaccount:kube-system:agent");
    agent.extra.insert(service_account::NODE_NAME.to_owned(), vec!["n1".to_owned()]);
    let rights = allowing(&[
        "impersonate-on:associated-node:create authentication.k8s.io/selfsubjectreviews//",
        "impersonate:associated-node authentication.k8s.io/nodes//*",
    ]);
    let memory = Impersonation::default();
    let own = decide(&memory, &agent, &[("Impersonate-User", "system:node:n1")], &rights);
    assert_eq!(groups(&own), ["system:nodes", "system:authenticated"]);
    assert_eq!(own.unwrap().identity.user().name, "system:node:n1");
    assert!(decide(&memory, &agent, &[("Impersonate-User", "system:node:n2")], &rights).is_err());
}
