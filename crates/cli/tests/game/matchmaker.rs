//! Somebody who asks for servers: with a token of their own, and the right to be given some.

use std::sync::Arc;

use reqwest::Client;
use serde_json::{Value, json};

use crate::arena::Arena;
use crate::fixture::Fixture;
use crate::folder::Folder;
use crate::people::Person;
use crate::process::Ended;

const NAME: &str = "matchmaker";

#[derive(Clone)]
pub(crate) struct Matchmaker {
    person: Arc<Person>,
    url: String,
    client: Client,
    namespace: String,
    collection: String,
    _folder: Arc<Folder>,
}

impl Matchmaker {
    /// One who may be given servers in the namespace of a collection.
    pub(crate) async fn of(stage: &Fixture, arena: &Arena) -> Self {
        let namespace = arena.namespace.clone();
        let metadata = json!({"name": NAME, "namespace": namespace});
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata});
        stage.objects.apply(&account).await;
        let rbac = "rbac.authorization.k8s.io";
        let binding = json!({
            "apiVersion": format!("{rbac}/v1"), "kind": "RoleBinding", "metadata": metadata,
            "roleRef": {
                "apiGroup": rbac, "kind": "ClusterRole", "name": "sojourn-game-matchmaker",
            },
            "subjects": [{"kind": "ServiceAccount", "namespace": namespace, "name": NAME}],
        });
        stage.objects.apply(&binding).await;
        let (folder, web) = (Folder::new(), format!("http://{}", stage.web));
        let person =
            Person::of_account(&stage.kubeconfig, folder.path(), &namespace, NAME, &web).await;
        Self {
            person: Arc::new(person),
            url: format!("{web}/v1/allocate"),
            client: Client::builder().no_proxy().build().expect("a client"),
            namespace,
            collection: arena.name.clone(),
            _folder: Arc::new(folder),
        }
    }

    /// The same one, who asks by HTTP somewhere else.
    pub(crate) fn at(&self, web: &str) -> Self {
        Self { url: format!("http://{web}/v1/allocate"), ..self.clone() }
    }

    /// Asks for a server of the collection; the status, and what is answered.
    pub(crate) async fn asks(&self, request_id: &str, more: &Value) -> (u16, Value) {
        self.asks_as(Some(&self.person.token), request_id, more).await
    }

    /// The same, with another token or none.
    pub(crate) async fn asks_as(
        &self,
        token: Option<&str>,
        request_id: &str,
        more: &Value,
    ) -> (u16, Value) {
        let mut request = json!({
            "requestId": request_id, "namespace": self.namespace, "collection": self.collection,
        });
        for (field, value) in more.as_object().into_iter().flatten() {
            request[field] = value.clone();
        }
        let mut asked = self.client.post(&self.url).json(&request);
        if let Some(token) = token {
            asked = asked.bearer_auth(token);
        }
        let answer = asked.send().await.expect("an answer");
        let status = answer.status().as_u16();
        let body = answer.bytes().await.expect("a whole answer");
        (status, serde_json::from_slice(&body).unwrap_or_default())
    }

    /// Is given a server.
    pub(crate) async fn gets(&self, request_id: &str, more: &Value) -> Allocated {
        let (status, body) = self.asks(request_id, more).await;
        assert_eq!(status, 200, "{request_id}: {body}");
        Allocated::read(&body)
    }

    /// Asks by our command.
    pub(crate) fn commands(&self, request_id: &str, more: &[&str]) -> Ended {
        let words = ["allocate", &self.collection, "--request-id", request_id];
        self.person.asks(&[&words, more].concat())
    }

    /// The same, and is given a server.
    pub(crate) fn gets_by_command(&self, request_id: &str) -> Allocated {
        let ended = self.commands(request_id, &["--output", "json"]);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        let body = serde_json::from_str(&ended.stdout).expect("JSON");
        Allocated::read(&body)
    }
}

/// What somebody was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Allocated {
    pub(crate) server: String,
    pub(crate) address: String,
    pub(crate) port: u64,
    pub(crate) grant: String,
}

impl Allocated {
    fn read(body: &Value) -> Self {
        let text = |field: &str| {
            let text = body[field].as_str().unwrap_or_else(|| panic!("no {field}: {body}"));
            text.to_owned()
        };
        assert!(text("leaseExpires").parse::<jiff::Timestamp>().is_ok(), "{body}");
        let port = body["ports"][0]["hostPort"].as_u64();
        Self {
            server: text("server"),
            address: text("address"),
            port: port.unwrap_or_else(|| panic!("no port: {body}")),
            grant: text("grantId"),
        }
    }
}
