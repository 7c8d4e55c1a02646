//! Instances by the thousand: made, and how their controller sees them.

use anyhow::{Context as _, Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{ListParams, PostParams};
use kube::{Api, Client};
use serde_json::json;
use sojourn_api::lab::instance::Instance;
use sojourn_api::lab::template::Template;
use sojourn_api::lab::tenant::Tenant;
use sojourn_api::name::shared;
use tokio::time::{Duration, Instant, sleep_until};

use crate::number::count;

/// Requests that are made at once.
const MAX_CONCURRENT_REQUESTS: usize = 32;
/// Where the template is, and how the namespaces of instances begin.
const SCHOOL: &str = "school";
const TEMPLATE: &str = "notebook";
/// So many instances share a namespace and a Tenant.
const PER_NAMESPACE: usize = 1_000;
const PER_TENANT: usize = 10;
/// How many objects one answer of a list may hold.
const PAGE: u32 = 5_000;

#[derive(Clone)]
pub(crate) struct Fleet {
    client: Client,
    size: usize,
}

impl Fleet {
    /// Everything that `size` instances need: each is deleted so long after it was stopped.
    pub(crate) async fn prepare(client: Client, size: usize, kept: &str) -> Result<Self> {
        let fleet = Self { client, size };
        fleet.namespace(SCHOOL.to_owned()).await?;
        for number in 0..size.div_ceil(PER_NAMESPACE) {
            fleet.namespace(format!("{SCHOOL}-{number}")).await?;
        }
        let template = serde_json::from_value(json!({
            "metadata": {"name": TEMPLATE},
            "spec": {
                "prettyName": "A notebook",
                "inactivityTimeout": "14d",
                "deleteAfterStopped": kept,
                "environmentList": [{
                    "name": "web",
                    "image": "registry.example/notebook:1",
                    "ports": [{"name": "http", "containerPort": 8080}],
                    "persistent": true,
                    "size": "1Gi",
                    "mountPath": "/data",
                }],
            },
        }))?;
        let templates: Api<Template> = Api::namespaced(fleet.client.clone(), SCHOOL);
        templates.create(&PostParams::default(), &template).await?;
        let tenants: Api<Tenant> = Api::all(fleet.client.clone());
        let make = |number: usize| {
            let tenants = tenants.clone();
            async move {
                let tenant = serde_json::from_value(json!({
                    "metadata": {"name": format!("student-{number}")},
                    "spec": {
                        "firstName": "Ada",
                        "lastName": format!("Student {number}"),
                        "email": format!("student-{number}@example.org"),
                    },
                }))?;
                tenants.create(&PostParams::default(), &tenant).await?;
                anyhow::Ok(())
            }
        };
        let all = stream::iter(0..size.div_ceil(PER_TENANT)).map(make);
        all.buffer_unordered(MAX_CONCURRENT_REQUESTS).try_for_each(|()| async { Ok(()) }).await?;
        Ok(fleet)
    }

    async fn namespace(&self, name: String) -> Result<()> {
        let namespace = serde_json::from_value(json!({"metadata": {"name": name}}))?;
        let api: Api<Namespace> = Api::all(self.client.clone());
        api.create(&PostParams::default(), &namespace).await?;
        Ok(())
    }

    /// Sets options of the family.
    pub(crate) async fn configure(&self, options: &str) -> Result<()> {
        let map = serde_json::from_value(json!({
            "metadata": {"name": shared::CONFIG_MAP},
            "data": {"lab.yaml": options},
        }))?;
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), shared::NAMESPACE);
        api.create(&PostParams::default(), &map).await.context("cannot configure the family")?;
        Ok(())
    }

    /// Creates the instances, stopped: as fast as possible, or evenly over a time.
    pub(crate) async fn create(&self, over: Duration) -> Result<()> {
        let started = Instant::now();
        let make = |number: usize| async move {
            sleep_until(started + over.mul_f64(count(number) / count(self.size))).await;
            let instance = serde_json::from_value(json!({
                "metadata": {"name": format!("notebook-{number}")},
                "spec": {
                    "template": {"name": TEMPLATE, "namespace": SCHOOL},
                    "tenant": {"name": format!("student-{}", number / PER_TENANT)},
                    "running": false,
                },
            }))?;
            let namespace = format!("{SCHOOL}-{}", number / PER_NAMESPACE);
            let api: Api<Instance> = Api::namespaced(self.client.clone(), &namespace);
            api.create(&PostParams::default(), &instance).await?;
            anyhow::Ok(())
        };
        let all = stream::iter(0..self.size).map(make).buffer_unordered(MAX_CONCURRENT_REQUESTS);
        all.try_for_each(|()| async { Ok(()) }).await.context("cannot create instances")
    }

    pub(crate) fn instances(&self) -> Api<Instance> {
        Api::all(self.client.clone())
    }

    /// An error unless every one of them is off and has a deadline.
    pub(crate) async fn check(&self) -> Result<()> {
        let api = self.instances();
        let (mut there, mut due) = (0, 0);
        let mut page = ListParams::default().limit(PAGE);
        loop {
            let list = api.list(&page).await?;
            there += list.items.len();
            due += list.items.iter().filter(|instance| deadline(instance).is_some()).count();
            match list.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => page = page.continue_token(&token),
                None => break,
            }
        }
        ensure!(
            there == self.size && due == self.size,
            "of {} instances {there} are there and {due} have a deadline",
            self.size
        );
        Ok(())
    }
}

/// When something happens to it by itself.
pub(crate) fn deadline(instance: &Instance) -> Option<jiff::Timestamp> {
    let next = instance.status.as_ref()?.next.as_ref()?;
    next.at.as_ref().map(|time| time.0)
}
