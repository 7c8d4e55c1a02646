//! Which certificate signing requests of a cluster that comes back are approved.
//!
//! While a cluster sleeps, certificates of its kubelets run out, and they ask for others when they wake. A request
//! is approved only if it is what a kubelet of a machine that we know asks for: nothing else in it counts, and one
//! that cannot be read or is not well keeps no other from being approved. Nothing is ever denied here.

use std::net::IpAddr;

/// Who signs client certificates of kubelets, and who signs those that they serve with.
const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client-kubelet";
const SERVING_SIGNER: &str = "kubernetes.io/kubelet-serving";

const NODE_PREFIX: &str = "system:node:";
const NODES_GROUP: &str = "system:nodes";
const AUTHENTICATED_GROUP: &str = "system:authenticated";
const SERVICE_ACCOUNTS_GROUP: &str = "system:serviceaccounts";

const BOOTSTRAP_TOKEN_PREFIX: &str = "system:bootstrap:";
const BOOTSTRAPPERS_GROUP: &str = "system:bootstrappers";
const NODE_BOOTSTRAPPER: &str =
    "system:serviceaccount:openshift-machine-config-operator:node-bootstrapper";
const NODE_BOOTSTRAPPER_GROUP: &str = "system:serviceaccounts:openshift-machine-config-operator";

/// So many more requests than machines may be pending; with more of them something is wrong.
const MAX_SURPLUS: usize = 100;

/// One request, with what its certificate request was parsed to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Csr {
    pub name: String,
    pub uid: String,
    pub signer: String,
    /// Who filed it.
    pub requester: String,
    pub groups: Vec<String>,
    pub usages: Vec<Usage>,
    /// Somebody has approved or denied it.
    pub decided: bool,
    /// None: it could not be parsed, or its signature does not hold.
    pub request: Option<CertificateRequest>,
}

/// What a key is to be used for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Usage {
    DigitalSignature,
    KeyEncipherment,
    ClientAuth,
    ServerAuth,
    Other(String),
}

/// What is asked for in a request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CertificateRequest {
    pub common_name: String,
    pub organizations: Vec<String>,
    pub dns_names: Vec<String>,
    pub ip_addresses: Vec<IpAddr>,
    /// Alternative names of any other kind: e-mail addresses, URIs.
    pub has_other_names: bool,
}

/// By which names a machine or a node is known.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Identity {
    pub node_name: Option<String>,
    /// Names and addresses, as text.
    pub addresses: Vec<String>,
}

/// Everybody whose kubelet may ask. What the inventory does not know is looked for among the cluster's Machines,
/// and among its Nodes only where there is nothing else to know it by.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Identities {
    pub inventory: Vec<Identity>,
    /// None: the cluster serves no Machines.
    pub machines: Option<Vec<Identity>>,
    pub nodes: Vec<Identity>,
}

/// Why a request is not approved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Refusal {
    /// Another signer's: it is none of our business.
    Signer,
    Unreadable,
    Usages,
    Requester,
    Subject,
    UnknownNode,
    Names,
}

/// What is done about the requests of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Review {
    /// Every request that is pending, with why it is not approved.
    Each(Vec<(usize, Result<(), Refusal>)>),
    /// Far more are pending than there are machines: none is approved.
    TooMany { pending: usize, limit: usize },
}

/// Looks at every request that nobody has decided.
pub fn review(csrs: &[Csr], identities: &Identities) -> Review {
    let pending: Vec<usize> = (0..csrs.len()).filter(|index| !csrs[*index].decided).collect();
    let of_nodes = pending.iter().filter(|index| Kind::of(&csrs[**index]).is_some()).count();
    let limit = identities.limit();
    if of_nodes > limit {
        return Review::TooMany { pending: of_nodes, limit };
    }
    Review::Each(
        pending.into_iter().map(|index| (index, check(&csrs[index], identities))).collect(),
    )
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Client,
    Serving,
}

impl Kind {
    fn of(csr: &Csr) -> Option<Self> {
        match csr.signer.as_str() {
            CLIENT_SIGNER => Some(Self::Client),
            SERVING_SIGNER => Some(Self::Serving),
            _ => None,
        }
    }

    const fn authentication(self) -> Usage {
        match self {
            Self::Client => Usage::ClientAuth,
            Self::Serving => Usage::ServerAuth,
        }
    }
}

/// Whether a request may be approved.
pub fn check(csr: &Csr, identities: &Identities) -> Result<(), Refusal> {
    let kind = Kind::of(csr).ok_or(Refusal::Signer)?;
    let request = csr.request.as_ref().ok_or(Refusal::Unreadable)?;
    if !has_usages_of(kind, &csr.usages) {
        return Err(Refusal::Usages);
    }
    let node = request.common_name.strip_prefix(NODE_PREFIX).filter(|node| !node.is_empty());
    let node = node.ok_or(Refusal::Subject)?;
    match kind {
        Kind::Client => check_client(csr, request, node, identities),
        Kind::Serving => check_serving(csr, request, node, identities),
    }
}

/// Exactly what a kubelet uses its key for. Only an RSA key can encipher others.
fn has_usages_of(kind: Kind, usages: &[Usage]) -> bool {
    let authentication = kind.authentication();
    let allowed = [Usage::DigitalSignature, Usage::KeyEncipherment, authentication.clone()];
    usages.iter().all(|usage| allowed.contains(usage))
        && [Usage::DigitalSignature, authentication].iter().all(|usage| usages.contains(usage))
}

fn check_client(
    csr: &Csr,
    request: &CertificateRequest,
    node: &str,
    identities: &Identities,
) -> Result<(), Refusal> {
    if !is_bootstrapper(csr) && !is_node_itself(csr, request) {
        return Err(Refusal::Requester);
    }
    if request.organizations != [NODES_GROUP] {
        return Err(Refusal::Subject);
    }
    let has_names = !request.dns_names.is_empty() || !request.ip_addresses.is_empty();
    if has_names || request.has_other_names {
        return Err(Refusal::Names);
    }
    identities.find(node).map(drop).ok_or(Refusal::UnknownNode)
}

fn check_serving(
    csr: &Csr,
    request: &CertificateRequest,
    node: &str,
    identities: &Identities,
) -> Result<(), Refusal> {
    if !is_node_itself(csr, request) {
        return Err(Refusal::Requester);
    }
    if request.organizations != [NODES_GROUP] {
        return Err(Refusal::Subject);
    }
    let identity = identities.find(node).ok_or(Refusal::UnknownNode)?;
    let names = &request.dns_names;
    let any = !names.is_empty() || !request.ip_addresses.is_empty();
    let own = names.iter().all(|name| identity.has_name(name))
        && request.ip_addresses.iter().all(|address| identity.has_address(*address));
    if any && own && !request.has_other_names { Ok(()) } else { Err(Refusal::Names) }
}

/// Whether a node asks in its own name, as somebody whom its cluster knows for one.
fn is_node_itself(csr: &Csr, request: &CertificateRequest) -> bool {
    csr.requester == request.common_name
        && has_group(csr, NODES_GROUP)
        && has_group(csr, AUTHENTICATED_GROUP)
}

/// Whether somebody asks for a node that has no certificate yet.
fn is_bootstrapper(csr: &Csr) -> bool {
    let by_token = csr
        .requester
        .strip_prefix(BOOTSTRAP_TOKEN_PREFIX)
        .is_some_and(|token| !token.is_empty() && has_group(csr, BOOTSTRAPPERS_GROUP));
    let by_account = csr.requester == NODE_BOOTSTRAPPER
        && has_group(csr, NODE_BOOTSTRAPPER_GROUP)
        && has_group(csr, AUTHENTICATED_GROUP)
        && csr.groups.iter().all(|group| {
            [NODE_BOOTSTRAPPER_GROUP, SERVICE_ACCOUNTS_GROUP, AUTHENTICATED_GROUP]
                .contains(&group.as_str())
        });
    by_token || by_account
}

fn has_group(csr: &Csr, group: &str) -> bool {
    csr.groups.iter().any(|one| one == group)
}

/// Names of hosts are the same in whatever case, and with or without the dot at their end.
fn same_name(a: &str, b: &str) -> bool {
    a.trim_end_matches('.').eq_ignore_ascii_case(b.trim_end_matches('.'))
}

impl Identity {
    /// Whether this is the machine whose node is called so.
    fn is_node(&self, node: &str) -> bool {
        match &self.node_name {
            Some(name) => name == node,
            // Nobody said what its node is called: it is called as the machine is.
            None => self.addresses.iter().any(|address| address == node),
        }
    }

    fn has_name(&self, name: &str) -> bool {
        let node_name = self.node_name.iter();
        self.addresses.iter().chain(node_name).any(|own| same_name(own, name))
    }

    fn has_address(&self, address: IpAddr) -> bool {
        self.addresses.iter().any(|own| own.parse() == Ok(address))
    }

    fn names_anything(&self) -> bool {
        self.node_name.is_some() || !self.addresses.is_empty()
    }
}

impl Identities {
    /// The machine whose node is called so, if there is one.
    fn find(&self, node: &str) -> Option<&Identity> {
        let of = |identities: &'_ [Identity]| {
            identities.iter().position(|identity| identity.is_node(node))
        };
        if let Some(index) = of(&self.inventory) {
            return Some(&self.inventory[index]);
        }
        if let Some(machines) = &self.machines {
            return of(machines).map(|index| &machines[index]);
        }
        if self.inventory.iter().any(Identity::names_anything) {
            return None;
        }
        of(&self.nodes).map(|index| &self.nodes[index])
    }

    /// More pending requests than this are not looked at.
    fn limit(&self) -> usize {
        let machines = self.machines.as_ref().map_or(0, Vec::len).max(self.inventory.len());
        machines.max(self.nodes.len()).saturating_add(MAX_SURPLUS)
    }
}

#[cfg(test)]
mod tests;
