//! What a cluster's machines are: exactly one platform, which stays the same.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sojourn_core::cluster::{Platform, Stopped};

use crate::grammar::{PROVIDER, REFERENCE, URL};
use crate::schema;

/// A Secret of the cluster's namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretRef {
    #[schemars(length(max = 253), extend("x-kubernetes-validations" = REFERENCE.rules()))]
    pub name: String,
}

/// Where a platform's machines are, and whose.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = rules()))]
pub struct PlatformSpec {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aws: Option<AwsPlatform>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub azure: Option<AzurePlatform>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gcp: Option<GcpPlatform>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub openstack: Option<OpenstackPlatform>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub libvirt: Option<LibvirtPlatform>,
    /// A program of a third party.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exec: Option<ExecPlatform>,
    /// Machines are Pods of this namespace with the label `cluster.sojourn.dev/infra-id`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<PlainPlatform>,
    /// Machines are made up, for tests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fake: Option<PlainPlatform>,
    /// Nobody can stop its machines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub none: Option<PlainPlatform>,
    /// Nobody can stop its machines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub baremetal: Option<PlainPlatform>,
    /// Nobody can stop its machines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vsphere: Option<PlainPlatform>,
}

/// How a provider is reached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ProviderAccess {
    /// Where it is, if not where it usually is.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048), extend("x-kubernetes-validations" = URL.rules()))]
    pub endpoint: Option<String>,
    /// The Secret with what it knows us by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credentials_secret_ref: Option<SecretRef>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = stays()))]
pub struct PlainPlatform {
    #[serde(flatten)]
    pub access: ProviderAccess,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = stays()))]
pub struct AwsPlatform {
    #[schemars(length(min = 1, max = 64))]
    pub region: String,
    #[serde(flatten)]
    pub access: ProviderAccess,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = stays()))]
pub struct AzurePlatform {
    #[schemars(length(min = 1, max = 64))]
    pub subscription: String,
    /// `INFRAID-rg`, if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 90))]
    pub resource_group_name: Option<String>,
    #[serde(flatten)]
    pub access: ProviderAccess,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = gcp_stays()))]
pub struct GcpPlatform {
    #[schemars(length(min = 1, max = 64))]
    pub project: String,
    /// What is on local SSDs goes when machines are stopped. It may be changed later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub discard_local_ssd_on_hibernate: Option<bool>,
    #[serde(flatten)]
    pub access: ProviderAccess,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = stays()))]
pub struct OpenstackPlatform {
    /// The entry of `clouds.yaml`.
    #[schemars(length(min = 1, max = 253))]
    pub cloud: String,
    #[serde(flatten)]
    pub access: ProviderAccess,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = stays()))]
pub struct LibvirtPlatform {
    /// The hypervisor, such as `qemu+tls://host/system`.
    #[schemars(length(min = 1, max = 512))]
    pub uri: String,
    #[serde(flatten)]
    pub access: ProviderAccess,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = stays()))]
pub struct ExecPlatform {
    /// The program `sojourn-provider-NAME` of the operator.
    #[schemars(length(max = 63), extend("x-kubernetes-validations" = PROVIDER.rules()))]
    pub name: String,
    /// What it is told with every call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::config")]
    pub config: Option<Value>,
    #[serde(flatten)]
    pub access: ProviderAccess,
}

/// The platforms, as the field of each is called.
const NAMES: [&str; 11] = [
    "aws",
    "azure",
    "gcp",
    "openstack",
    "libvirt",
    "exec",
    "pod",
    "fake",
    "none",
    "baremetal",
    "vsphere",
];

pub(super) const ONE_PLATFORM: &str = "must have exactly one platform";
pub(super) const PLATFORM_STAYS: &str =
    "cannot be changed: a cluster's machines stay where they are";

/// Platforms whose actuators are told no endpoint.
pub(super) const WITHOUT_ENDPOINT: [&str; 3] = ["exec", "pod", "fake"];
pub(super) const NO_ENDPOINT: &str = "must be left out: nobody is told of it";

fn rules() -> Value {
    let there = NAMES.map(|name| format!("has(self.{name})")).join(", ");
    let same = NAMES.map(|name| format!("has(self.{name}) == has(oldSelf.{name})")).join(" && ");
    let mut rules = vec![
        json!({ "rule": format!("[{there}].filter(x, x).size() == 1"), "message": ONE_PLATFORM }),
        json!({ "rule": same, "message": PLATFORM_STAYS }),
    ];
    rules.extend(WITHOUT_ENDPOINT.map(|name| {
        let rule = format!("!has(self.{name}) || !has(self.{name}.endpoint)");
        schema::rule_at(&rule, &format!(".{name}.endpoint"), NO_ENDPOINT)
    }));
    Value::Array(rules)
}

fn stays() -> Value {
    json!([{ "rule": "self == oldSelf", "message": PLATFORM_STAYS }])
}

fn gcp_stays() -> Value {
    let same = |field: &str| {
        let (new, old) = (format!("self.{field}"), format!("oldSelf.{field}"));
        format!("has({new}) == has({old}) && (!has({new}) || {new} == {old})")
    };
    let rule = [
        "self.project == oldSelf.project".to_owned(),
        same("endpoint"),
        same("credentialsSecretRef"),
    ];
    json!([{ "rule": rule.join(" && "), "message": PLATFORM_STAYS }])
}

impl PlatformSpec {
    /// The platforms that are there, each with its field and how its provider is reached.
    pub(super) fn given(&self) -> Vec<(&'static str, &ProviderAccess)> {
        let accesses = [
            self.aws.as_ref().map(|platform| &platform.access),
            self.azure.as_ref().map(|platform| &platform.access),
            self.gcp.as_ref().map(|platform| &platform.access),
            self.openstack.as_ref().map(|platform| &platform.access),
            self.libvirt.as_ref().map(|platform| &platform.access),
            self.exec.as_ref().map(|platform| &platform.access),
            self.pod.as_ref().map(|platform| &platform.access),
            self.fake.as_ref().map(|platform| &platform.access),
            self.none.as_ref().map(|platform| &platform.access),
            self.baremetal.as_ref().map(|platform| &platform.access),
            self.vsphere.as_ref().map(|platform| &platform.access),
        ];
        let named = NAMES.into_iter().zip(accesses);
        named.filter_map(|(name, access)| Some((name, access?))).collect()
    }

    /// Which platform it is, by the name of its field; none, if it is not exactly one.
    pub fn name(&self) -> Option<&'static str> {
        match self.given()[..] {
            [(name, _)] => Some(name),
            _ => None,
        }
    }

    /// How its provider is reached.
    pub fn access(&self) -> Option<&ProviderAccess> {
        match self.given()[..] {
            [(_, access)] => Some(access),
            _ => None,
        }
    }

    /// What stopping makes of its machines, where there is an actuator for it.
    pub fn stopped(&self) -> Platform {
        match self.name() {
            Some("pod") => Platform::Actuated(Stopped::Removed),
            Some("fake" | "exec") => Platform::Actuated(Stopped::Kept),
            _ => Platform::Unsupported,
        }
    }

    /// The same without what may be changed.
    pub(super) fn fixed(&self) -> Self {
        let mut fixed = self.clone();
        if let Some(gcp) = &mut fixed.gcp {
            gcp.discard_local_ssd_on_hibernate = None;
        }
        fixed
    }
}
