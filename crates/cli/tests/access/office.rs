//! Who there is, what they may ask for, and what becomes of their sessions.

use k8s_openapi::api::authorization::v1::{SubjectAccessReview, SubjectAccessReviewStatus};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use sojourn_api::access::BreakglassEscalation;

use crate::people::Person;
use crate::stage::Stage;
use crate::wait::{eventually, within};

pub(crate) const NAMESPACE: &str = "emergency";
/// What is lent.
pub(crate) const GROUP: &str = "ops";
/// A use is on record at the latest so long after it, on a slow and busy machine.
const RECORDED_WITHIN: std::time::Duration = std::time::Duration::from_secs(50);

pub(crate) struct Office<'a> {
    pub(crate) stage: &'a mut Stage,
    /// May ask.
    pub(crate) ada: Person,
    /// May approve.
    pub(crate) ben: Person,
    /// May do neither.
    pub(crate) eve: Person,
}

/// A session, as the API shows it.
#[derive(Debug, Clone)]
pub(crate) struct Session(pub(crate) Value);

impl Session {
    pub(crate) fn name(&self) -> &str {
        self.0["metadata"]["name"].as_str().expect("a name")
    }

    pub(crate) fn state(&self) -> &str {
        self.0["status"]["state"].as_str().unwrap_or_default()
    }

    /// How often it was used, as far as is on record.
    pub(crate) fn count(&self) -> u64 {
        self.0["status"]["activityCount"].as_u64().unwrap_or_default()
    }

    /// A text of its status.
    pub(crate) fn status(&self, field: &str) -> &str {
        self.0["status"][field].as_str().unwrap_or_default()
    }

    /// A time of its status.
    pub(crate) fn time(&self, field: &str) -> jiff::Timestamp {
        let text = self.status(field);
        text.parse().unwrap_or_else(|error| panic!("{field} is {text:?}: {error}; {self:#?}"))
    }

    /// The status and reason of one of its conditions.
    pub(crate) fn condition(&self, name: &str) -> (String, String) {
        let conditions = self.0["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let found = conditions.into_iter().find(|one| one["type"] == name).unwrap_or_default();
        let text = |field: &str| found[field].as_str().unwrap_or_default().to_owned();
        (text("status"), text("reason"))
    }
}

impl<'a> Office<'a> {
    /// With an escalation that has these terms beside what every one has.
    pub(crate) async fn open(stage: &'a mut Stage, terms: &Value) -> Self {
        stage.objects.make_namespace(NAMESPACE).await;
        for name in ["ada", "ben", "eve"] {
            let account = json!({
                "apiVersion": "v1", "kind": "ServiceAccount",
                "metadata": {"name": name, "namespace": NAMESPACE},
            });
            stage.objects.apply(&account).await;
        }
        let folder = stage.folder.path();
        let web = stage.web_url();
        let person = async |name: &str| {
            Person::of_account(&stage.kubeconfig, folder, NAMESPACE, name, &web).await
        };
        let (ada, ben, eve) = (person("ada").await, person("ben").await, person("eve").await);
        let office = Self { stage, ada, ben, eve };
        office.lend(GROUP, terms).await;
        office
    }

    /// Offers a group that may read ConfigMaps to Ada, with these terms.
    pub(crate) async fn lend(&self, group: &str, terms: &Value) {
        let rbac = "rbac.authorization.k8s.io";
        let metadata = json!({"name": group, "namespace": NAMESPACE});
        let role = json!({
            "apiVersion": format!("{rbac}/v1"), "kind": "Role", "metadata": metadata,
            "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}],
        });
        self.stage.objects.apply(&role).await;
        let binding = json!({
            "apiVersion": format!("{rbac}/v1"), "kind": "RoleBinding", "metadata": metadata,
            "roleRef": {"apiGroup": rbac, "kind": "Role", "name": group},
            "subjects": [{"apiGroup": rbac, "kind": "Group", "name": group}],
        });
        self.stage.objects.apply(&binding).await;
        let mut spec = json!({
            "allowed": {"users": [self.ada.user], "clusters": ["local"]},
            "escalatedGroup": group, "approvers": {"users": [self.ben.user]},
        });
        for (name, value) in terms.as_object().expect("terms") {
            spec[name] = value.clone();
        }
        let escalation = json!({
            "apiVersion": "access.sojourn.dev/v1alpha1", "kind": "BreakglassEscalation",
            "metadata": metadata, "spec": spec,
        });
        let escalations: Api<BreakglassEscalation> =
            Api::namespaced(self.stage.objects.0.clone(), NAMESPACE);
        let params = PatchParams::apply("access-tests").force();
        // Admission may not have read the configuration yet that allows short timeouts.
        let mut told = false;
        eventually(&format!("the escalation for {group} is there"), async || {
            match escalations.patch(group, &params, &Patch::Apply(&escalation)).await {
                Ok(_) => Some(()),
                Err(refused) => {
                    // Told once, for whoever reads why it never was.
                    if !std::mem::replace(&mut told, true) {
                        println!("not at once: {refused}");
                    }
                    None
                }
            }
        })
        .await;
    }

    pub(crate) async fn session(&self, name: &str) -> Option<Session> {
        self.stage.objects.get("BreakglassSession", NAMESPACE, name).await.map(Session)
    }

    /// Waits until a session is in a state.
    pub(crate) async fn until(&self, name: &str, state: &str) -> Session {
        self.until_so(name, state, |session| session.state() == state).await
    }

    pub(crate) async fn until_so(
        &self,
        name: &str,
        what: &str,
        is_so: impl Fn(&Session) -> bool,
    ) -> Session {
        within(crate::wait::EVENTUALLY_TIMEOUT, &format!("{name} is {what}"), async || {
            self.session(name).await.filter(&is_so)
        })
        .await
    }

    /// Waits until a session was used so often, and no more.
    pub(crate) async fn until_counted(&self, name: &str, uses: u64) -> Session {
        let session =
            within(RECORDED_WITHIN, &format!("{name} was used {uses} times"), async || {
                self.session(name).await.filter(|session| session.count() >= uses)
            })
            .await;
        assert_eq!(session.count(), uses, "{session:#?}");
        session
    }

    /// Ada asks for a group; her session, once it can be acted on.
    pub(crate) async fn requested(&self, group: &str, more: &[&str]) -> Session {
        let asked = [&["request", "--cluster", "local", "--group", group][..], more].concat();
        let made = Session(self.ada.gets(&asked));
        assert_eq!(made.0["spec"]["user"], self.ada.user.as_str(), "{made:#?}");
        self.until(made.name(), "Pending").await
    }

    /// Ada asks for a group, and Ben approves it.
    pub(crate) async fn approved(&self, group: &str, more: &[&str]) -> Session {
        let requested = self.requested(group, more).await;
        Session(self.ben.gets(&["approve", requested.name()]))
    }

    /// Whether somebody may do what the group may, as the API server says.
    pub(crate) async fn review(&self, user: &str) -> SubjectAccessReviewStatus {
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "metadata": {},
            "spec": {"user": user, "resourceAttributes": {
                "namespace": NAMESPACE, "verb": "get", "version": "v1", "resource": "configmaps",
            }},
        });
        let review: SubjectAccessReview = serde_json::from_value(review).expect("a review");
        let reviews: Api<SubjectAccessReview> = Api::all(self.stage.objects.0.clone());
        let answer = reviews.create(&PostParams::default(), &review).await.expect("an answer");
        answer.status.expect("it is answered")
    }

    /// Waits until Ada's requests are allowed; how many were.
    pub(crate) async fn until_allowed(&self) -> u64 {
        eventually("Ada is allowed to", async || self.ada.is_allowed().await.then_some(())).await;
        1
    }

    /// Waits until they are not any more; how many were allowed meanwhile.
    pub(crate) async fn until_forbidden(&self) -> u64 {
        let mut allowed = 0;
        eventually("Ada is not allowed to any more", async || {
            if self.ada.is_allowed().await {
                allowed += 1;
                return None;
            }
            Some(())
        })
        .await;
        allowed
    }
}
