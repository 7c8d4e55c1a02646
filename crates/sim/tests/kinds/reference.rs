//! Who names something must be allowed to: the attacks, by people with tokens and roles, on the engine.

use kube::Client;
use serde_json::{Value, json};
use sojourn_apiserver::Engine;

use crate::fixture::{
    bind, bind_in, causes, create, engine, group, instance, machine, make_tenant, merge, template,
    user,
};

/// A Role in the namespace of the tests, and who has it.
async fn may(admin: &Client, person: &str, rules: Value) {
    let name = format!("of-{person}");
    let mut role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": { "name": name, "namespace": "default" },
    });
    role["rules"] = rules;
    create(admin, &role).await.expect("a role is good");
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": { "name": name, "namespace": "default" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": person }],
    });
    create(admin, &binding).await.expect("a binding is good");
}

fn rule(group: &str, resource: &str, verbs: &[&str]) -> Value {
    json!({ "apiGroups": [group], "resources": [resource], "verbs": verbs })
}

/// A Template whose program is given a key of the Secret `vault`.
fn reads_the_vault(image: &str) -> Value {
    let key = json!({ "name": "vault", "key": "token" });
    let env = json!([{ "name": "TOKEN", "valueFrom": { "secretKeyRef": key } }]);
    template(json!({ "environmentList": [{ "name": "web", "image": image, "env": env }] }))
}

/// An engine with an owner, Ada, who is a Tenant.
async fn with_ada() -> (Engine, Client, Client) {
    let (engine, admin) = engine().await;
    make_tenant(&admin, "ada").await;
    bind(&admin, "sojourn-lab-user", "ada").await;
    let ada = engine.client(user("ada", &[]));
    (engine, admin, ada)
}

fn assert_forbidden(refused: &kube::core::Status, field: &str, words: &str) {
    assert_eq!(refused.code, 403, "{refused:?}");
    let told = causes(refused);
    let found = told.iter().any(|(path, message)| *path == field && message.contains(words));
    assert!(found, "{field}: {words}: not in {told:?}");
}

#[tokio::test]
async fn an_owner_who_may_read_no_secrets_gets_none_through_a_template() {
    let (engine, admin, ada) = with_ada().await;
    create(&admin, &reads_the_vault("i")).await.expect("staff's");
    let refused = create(&ada, &instance("one", json!({}))).await.expect_err("not hers");
    assert_forbidden(&refused, "spec.template", "ada needs `get` on secrets \"vault\"");
    may(&admin, "ada", json!([rule("", "secrets", &["get"])])).await;
    create(&ada, &instance("one", json!({}))).await.expect("now she may");
    engine.close().await;
}

#[tokio::test]
async fn an_author_who_may_read_no_secrets_gets_none_through_an_instance() {
    let (engine, admin, _) = with_ada().await;
    let writes = ["get", "create", "update", "patch"];
    may(&admin, "eve", json!([rule("lab.sojourn.dev", "templates", &writes)])).await;
    let eve = engine.client(user("eve", &[]));
    let words = "eve needs `get` on secrets \"vault\" in namespace \"default\"";
    let refused = create(&eve, &reads_the_vault("i")).await.expect_err("not hers");
    assert_forbidden(&refused, "spec.environmentList", words);
    // Nor by another door: a Template that is there, and Instances with it.
    create(&eve, &template(json!({}))).await.expect("it names nothing");
    create(&admin, &instance("one", json!({}))).await.expect("somebody uses it");
    let spec = |template: Value| json!({ "spec": template["spec"] });
    let added = merge(&eve, &template(json!({})), &spec(reads_the_vault("i"))).await;
    assert_forbidden(&added.expect_err("not hers"), "spec.environmentList", words);
    // Nor another program with what is given already.
    merge(&admin, &template(json!({})), &spec(reads_the_vault("i"))).await.expect("staff's");
    let swapped = merge(&eve, &template(json!({})), &spec(reads_the_vault("evil"))).await;
    assert_forbidden(&swapped.expect_err("not hers"), "spec.environmentList", words);
    merge(&eve, &template(json!({})), &json!({ "spec": { "prettyName": "n" } }))
        .await
        .expect("that gives nothing to anybody");
    engine.close().await;
}

#[tokio::test]
async fn a_template_elsewhere_reads_no_secrets_here() {
    let (engine, admin, _) = with_ada().await;
    let namespace = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "course" },
    });
    create(&admin, &namespace).await.expect("a namespace");
    let mut shared = reads_the_vault("i");
    shared["metadata"]["namespace"] = json!("course");
    create(&admin, &shared).await.expect("its author may read secrets there");
    let there = json!({ "template": { "name": "notebook", "namespace": "course" } });
    let refused = create(&admin, &instance("one", there)).await.expect_err("not even staff");
    assert_eq!(refused.code, 422);
    assert_eq!(causes(&refused)[0].0, "spec.template.namespace");
    engine.close().await;
}

#[tokio::test]
async fn an_owner_hands_in_with_secrets_that_are_theirs_to_read() {
    let (engine, admin, ada) = with_ada().await;
    create(&admin, &template(json!({}))).await.expect("staff's");
    let door =
        |name: &str| json!({ "url": "https://evil.example/", "secretRef": { "name": name } });
    let submits = |name: &str| instance("one", json!({ "submission": door(name) }));
    let refused = create(&ada, &submits("vault")).await.expect_err("not hers");
    assert_forbidden(&refused, "spec.submission.secretRef.name", "secrets \"vault\"");
    create(&ada, &instance("one", json!({}))).await.expect("without it");
    let later = json!({ "spec": { "submission": door("vault") } });
    let refused = merge(&ada, &instance("one", json!({})), &later).await.expect_err("nor later");
    assert_forbidden(&refused, "spec.submission.secretRef.name", "secrets \"vault\"");
    let own = json!({ "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["hers"], "verbs": ["get"] });
    may(&admin, "ada", json!([own])).await;
    let hers = json!({ "spec": { "submission": door("hers") } });
    merge(&ada, &instance("one", json!({})), &hers).await.expect("her own");
    engine.close().await;
}

#[tokio::test]
async fn an_owner_uses_templates_that_are_theirs_to_read() {
    let (engine, admin, ada) = with_ada().await;
    let namespace = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "course" },
    });
    create(&admin, &namespace).await.expect("a namespace");
    let there = || instance("one", json!({ "template": { "name": "t", "namespace": "course" } }));
    let refused = create(&ada, &there()).await.expect_err("not hers");
    assert_forbidden(&refused, "spec.template", "templates \"t\" in namespace \"course\"");
    bind_in(&admin, "course", "sojourn-lab-viewer", "ada").await;
    create(&ada, &there()).await.expect("now she may");
    engine.close().await;
}

#[tokio::test]
async fn an_owner_lends_to_nobody_else_and_chooses_no_words_of_their_mails() {
    let (engine, admin, ada) = with_ada().await;
    make_tenant(&admin, "dean").await;
    create(&admin, &template(json!({}))).await.expect("staff's");
    let mail =
        || instance("one", json!({ "tenant": { "name": "dean" }, "prettyName": "Pay now!" }));
    let refused = create(&ada, &mail()).await.expect_err("not hers to write to");
    assert_forbidden(&refused, "spec.tenant.name", "needs `lend` on tenants \"dean\"");
    create(&admin, &mail()).await.expect("staff lends");
    let renamed = json!({ "spec": { "prettyName": "Click here" } });
    let refused = merge(&ada, &mail(), &renamed).await.expect_err("nor by another door");
    assert_forbidden(&refused, "spec.prettyName", "ada is not the `spec.user` of the Tenant dean");
    create(&ada, &instance("two", json!({}))).await.expect("her own");
    merge(&ada, &instance("two", json!({})), &renamed).await.expect("her own words to herself");
    // Staff, by the role, for everybody.
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": { "name": "grace" },
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
            "name": "sojourn-lab-keeper",
        },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "grace" }],
    });
    create(&admin, &binding).await.expect("a binding is good");
    bind(&admin, "sojourn-lab-user", "grace").await;
    let grace = engine.client(user("grace", &[]));
    let lent = instance("three", json!({ "tenant": { "name": "dean" } }));
    create(&grace, &lent).await.expect("keepers lend");
    engine.close().await;
}

#[tokio::test]
async fn whoever_may_create_no_pods_gets_none_through_a_machine() {
    let (engine, admin) = engine().await;
    let every = ["get", "create", "update", "patch"];
    let rules = json!([
        rule("group.sojourn.dev", "machines", &every),
        rule("group.sojourn.dev", "instancegroups", &every),
    ]);
    may(&admin, "eve", rules).await;
    let eve = engine.client(user("eve", &[]));
    let pod = json!({ "template": { "provider": "pod", "pod": { "spec": {
        "serviceAccountName": "powerful", "containers": [{ "name": "a", "image": "i" }],
    }}}});
    let words = "eve needs `create` on pods in namespace \"default\"";
    for object in [machine("m", pod.clone()), group("g", pod.clone())] {
        let refused = create(&eve, &object).await.expect_err("not hers");
        assert_forbidden(&refused, "spec.template", words);
    }
    create(&eve, &group("g", json!({}))).await.expect("another provider");
    let mut turned = json!({ "spec": pod });
    turned["spec"]["template"]["config"] = Value::Null;
    let refused = merge(&eve, &group("g", json!({})), &turned).await.expect_err("nor later");
    assert_forbidden(&refused, "spec.template", words);
    engine.close().await;
}
