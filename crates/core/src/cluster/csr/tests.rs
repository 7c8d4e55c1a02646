use super::*;

fn identity(node: &str) -> Identity {
    Identity {
        node_name: Some(node.to_owned()),
        addresses: vec![format!("{node}.internal"), "10.0.0.7".to_owned()],
    }
}

fn inventory(nodes: &[&str]) -> Identities {
    Identities {
        inventory: nodes.iter().map(|node| identity(node)).collect(),
        ..Identities::default()
    }
}

fn strings(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

/// By the bootstrapper, for a node.
fn client(node: &str) -> Csr {
    Csr {
        name: format!("csr-{node}"),
        uid: format!("uid-{node}"),
        signer: CLIENT_SIGNER.to_owned(),
        requester: NODE_BOOTSTRAPPER.to_owned(),
        groups: strings(&[NODE_BOOTSTRAPPER_GROUP, SERVICE_ACCOUNTS_GROUP, AUTHENTICATED_GROUP]),
        usages: vec![Usage::KeyEncipherment, Usage::DigitalSignature, Usage::ClientAuth],
        decided: false,
        request: Some(CertificateRequest {
            common_name: format!("system:node:{node}"),
            organizations: strings(&[NODES_GROUP]),
            ..CertificateRequest::default()
        }),
    }
}

/// By a node, for itself.
fn serving(node: &str) -> Csr {
    let mut csr = client(node);
    csr.signer = SERVING_SIGNER.to_owned();
    csr.requester = format!("system:node:{node}");
    csr.groups = strings(&[NODES_GROUP, AUTHENTICATED_GROUP]);
    csr.usages = vec![Usage::KeyEncipherment, Usage::DigitalSignature, Usage::ServerAuth];
    request(&mut csr).dns_names = strings(&[node, &format!("{node}.internal")]);
    request(&mut csr).ip_addresses = vec!["10.0.0.7".parse().unwrap()];
    csr
}

fn request(csr: &mut Csr) -> &mut CertificateRequest {
    csr.request.as_mut().unwrap()
}

fn changed(mut csr: Csr, change: impl Fn(&mut Csr)) -> Csr {
    change(&mut csr);
    csr
}

fn approved(csrs: &[Csr], identities: &Identities) -> Vec<String> {
    match review(csrs, identities) {
        Review::Each(each) => each
            .into_iter()
            .filter(|(_, result)| result.is_ok())
            .map(|(index, _)| csrs[index].name.clone())
            .collect(),
        Review::TooMany { .. } => Vec::new(),
    }
}

// case: cluster R01, R04
#[test]
fn what_kubelets_of_known_machines_ask_for_is_approved() {
    let known = inventory(&["n1"]);
    assert_eq!(check(&client("n1"), &known), Ok(()));
    assert_eq!(check(&serving("n1"), &known), Ok(()));
    assert_eq!(check(&client("n2"), &known), Err(Refusal::UnknownNode));
    assert_eq!(check(&serving("n2"), &known), Err(Refusal::UnknownNode));
}

// case: cluster R03
#[test]
fn others_cannot_ask_for_a_node() {
    let known = inventory(&["n1"]);
    for (requester, groups) in [
        ("anna", &[AUTHENTICATED_GROUP][..]),
        (
            "system:serviceaccount:default:node-bootstrapper",
            &[NODE_BOOTSTRAPPER_GROUP, AUTHENTICATED_GROUP],
        ),
        (NODE_BOOTSTRAPPER, &[AUTHENTICATED_GROUP]),
        (NODE_BOOTSTRAPPER, &[NODE_BOOTSTRAPPER_GROUP, AUTHENTICATED_GROUP, "system:masters"]),
        ("system:bootstrap:abcdef", &[AUTHENTICATED_GROUP]),
        ("system:bootstrap:", &[BOOTSTRAPPERS_GROUP]),
        ("system:node:n2", &[NODES_GROUP, AUTHENTICATED_GROUP]),
        ("system:node:n1", &[AUTHENTICATED_GROUP]),
    ] {
        let csr = changed(client("n1"), |csr| {
            csr.requester = requester.to_owned();
            csr.groups = strings(groups);
        });
        assert_eq!(check(&csr, &known), Err(Refusal::Requester), "{requester} {groups:?}");
    }
}

#[test]
fn a_bootstrap_token_and_the_node_itself_may_ask_for_a_client_certificate() {
    let known = inventory(&["n1"]);
    for (requester, groups) in [
        ("system:bootstrap:abcdef", &[BOOTSTRAPPERS_GROUP, AUTHENTICATED_GROUP]),
        ("system:node:n1", &[NODES_GROUP, AUTHENTICATED_GROUP]),
        (NODE_BOOTSTRAPPER, &[NODE_BOOTSTRAPPER_GROUP, AUTHENTICATED_GROUP]),
    ] {
        let csr = changed(client("n1"), |csr| {
            csr.requester = requester.to_owned();
            csr.groups = strings(groups);
        });
        assert_eq!(check(&csr, &known), Ok(()), "{requester}");
    }
}

// case: cluster R05, R06
#[test]
fn names_of_others_are_not_served() {
    let known = inventory(&["n1", "n2"]);
    type Change = fn(&mut Csr);
    let foreign: [(Change, Refusal); 7] = [
        (|csr| request(csr).ip_addresses.push("10.0.0.8".parse().unwrap()), Refusal::Names),
        (|csr| request(csr).dns_names.push("n3.internal".to_owned()), Refusal::Names),
        (|csr| request(csr).dns_names.push("n2".to_owned()), Refusal::Names),
        (|csr| request(csr).has_other_names = true, Refusal::Names),
        (|csr| request(csr).common_name = "system:node:n2".to_owned(), Refusal::Requester),
        (|csr| request(csr).organizations.push("system:masters".to_owned()), Refusal::Subject),
        (|csr| request(csr).common_name = "system:node:".to_owned(), Refusal::Subject),
    ];
    for (index, (change, refusal)) in foreign.into_iter().enumerate() {
        assert_eq!(check(&changed(serving("n1"), change), &known), Err(refusal), "{index}");
    }
    let none = changed(serving("n1"), |csr| {
        request(csr).dns_names.clear();
        request(csr).ip_addresses.clear();
    });
    assert_eq!(check(&none, &known), Err(Refusal::Names));
}

#[test]
fn names_are_the_same_in_any_case_and_with_a_dot() {
    let csr = changed(serving("n1"), |csr| request(csr).dns_names = strings(&["N1.Internal."]));
    assert_eq!(check(&csr, &inventory(&["n1"])), Ok(()));
}

// case: cluster R08
#[test]
fn a_key_that_cannot_encipher_needs_no_such_usage() {
    let known = inventory(&["n1"]);
    for csr in [client("n1"), serving("n1")] {
        let ecdsa = changed(csr, |csr| csr.usages.retain(|usage| *usage != Usage::KeyEncipherment));
        assert_eq!(check(&ecdsa, &known), Ok(()), "{}", ecdsa.signer);
        for usages in [
            vec![Usage::DigitalSignature],
            vec![Usage::DigitalSignature, Usage::ClientAuth, Usage::ServerAuth],
            vec![
                Usage::DigitalSignature,
                Usage::ClientAuth,
                Usage::ServerAuth,
                Usage::Other("code signing".to_owned()),
            ],
        ] {
            let odd = changed(ecdsa.clone(), |csr| csr.usages.clone_from(&usages));
            assert_eq!(check(&odd, &known), Err(Refusal::Usages));
        }
    }
}

// case: cluster R09, S32
#[test]
fn one_bad_request_stops_no_other() {
    let nodes = ["n1", "n2", "n3", "n4", "n5"];
    let mut csrs: Vec<Csr> = nodes.iter().map(|node| client(node)).collect();
    assert_eq!(approved(&csrs, &inventory(&nodes)).len(), 5);
    csrs.insert(2, changed(client("n1"), |csr| csr.request = None));
    csrs.insert(0, changed(client("n1"), |csr| csr.usages.clear()));
    csrs.push(changed(client("n1"), |csr| csr.decided = true));
    assert_eq!(
        approved(&csrs, &inventory(&nodes)),
        ["csr-n1", "csr-n2", "csr-n3", "csr-n4", "csr-n5"]
    );
}

// case: cluster R10
#[test]
fn requests_for_other_signers_are_left_alone() {
    let csr =
        changed(client("n1"), |csr| csr.signer = "kubernetes.io/kube-apiserver-client".to_owned());
    assert_eq!(check(&csr, &inventory(&["n1"])), Err(Refusal::Signer));
}

#[test]
fn a_client_request_names_nothing_else() {
    let known = inventory(&["n1"]);
    let csr = changed(client("n1"), |csr| request(csr).dns_names = strings(&["n1"]));
    assert_eq!(check(&csr, &known), Err(Refusal::Names));
    let csr = changed(client("n1"), |csr| request(csr).organizations.clear());
    assert_eq!(check(&csr, &known), Err(Refusal::Subject));
}

#[test]
fn the_inventory_comes_first_then_machines_then_nodes() {
    let machines = |nodes: &[&str]| Some(nodes.iter().map(|node| identity(node)).collect());
    let nodes = vec![identity("n1")];
    let known = |inventory: Vec<Identity>, machines| Identities {
        inventory,
        machines,
        nodes: nodes.clone(),
    };
    let nameless = Identity::default();
    for (identities, expected) in [
        (known(vec![identity("n1")], None), true),
        (known(vec![identity("n2")], machines(&["n1"])), true),
        (known(vec![identity("n2")], machines(&[])), false),
        (known(vec![identity("n2")], None), false),
        (known(vec![nameless.clone()], machines(&["n3"])), false),
        (known(vec![nameless], None), true),
        (known(Vec::new(), None), true),
    ] {
        assert_eq!(check(&client("n1"), &identities).is_ok(), expected, "{identities:?}");
    }
}

#[test]
fn when_far_more_are_pending_than_there_are_machines_none_is_approved() {
    let known = inventory(&["n1"]);
    let mut csrs = vec![client("n1"); 101];
    assert_eq!(approved(&csrs, &known).len(), 101);
    csrs.push(client("n1"));
    assert_eq!(review(&csrs, &known), Review::TooMany { pending: 102, limit: 101 });
    // What others ask for does not count.
    csrs[0].signer = "example.com/other".to_owned();
    csrs[1].decided = true;
    assert_eq!(approved(&csrs, &known).len(), 100);
}
