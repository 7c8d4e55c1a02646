use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, SanType};

use super::*;

const NODE: &str = "system:node:worker-1";

fn params(names: &[SanType]) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, "system:nodes");
    params.distinguished_name.push(DnType::CommonName, NODE);
    params.subject_alt_names = names.to_vec();
    params
}

fn key() -> KeyPair {
    KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).expect("a key")
}

fn pem(params: &CertificateParams) -> String {
    params.serialize_request(&key()).expect("a request").pem().expect("it is text")
}

fn dns(name: &str) -> SanType {
    SanType::DnsName(name.try_into().expect("a name"))
}

// case: cluster R08
#[test]
fn what_a_kubelet_asks_for_is_read_whatever_its_key_is() {
    let addresses: [IpAddr; 2] =
        ["10.0.0.7".parse().expect("an address"), "fd00::7".parse().expect("an address")];
    let names =
        [dns("worker-1"), SanType::IpAddress(addresses[0]), SanType::IpAddress(addresses[1])];
    for algorithm in
        [&rcgen::PKCS_ECDSA_P256_SHA256, &rcgen::PKCS_ECDSA_P384_SHA384, &rcgen::PKCS_ED25519]
    {
        let key = KeyPair::generate_for(algorithm).expect("a key");
        let request = params(&names).serialize_request(&key).expect("a request");
        let parsed = parse(request.pem().expect("text").as_bytes()).expect("it is well");
        let expected = CertificateRequest {
            common_name: NODE.to_owned(),
            organizations: vec!["system:nodes".to_owned()],
            dns_names: vec!["worker-1".to_owned()],
            ip_addresses: addresses.to_vec(),
            has_other_names: false,
        };
        assert_eq!(parsed, expected);
    }
    let client = parse(pem(&params(&[])).as_bytes()).expect("it is well");
    assert!(client.dns_names.is_empty() && client.ip_addresses.is_empty());
}

#[test]
fn names_of_other_kinds_are_seen() {
    for name in ["spiffe://cluster/worker-1", "worker@example.com"] {
        let text = name.try_into().expect("text");
        let other =
            if name.contains("://") { SanType::URI(text) } else { SanType::Rfc822Name(text) };
        let parsed = parse(pem(&params(&[dns("worker-1"), other])).as_bytes()).expect("it is well");
        assert!(parsed.has_other_names, "{name}");
    }
}

#[test]
fn what_readers_may_read_differently_is_not_readable() {
    let good = pem(&params(&[dns("worker-1")]));
    let der = |pem: &str| parse_x509_pem(pem.as_bytes()).expect("a block").1.contents;
    let armoured = |der: &[u8]| {
        let text = STANDARD.encode(der);
        format!("-----BEGIN CERTIFICATE REQUEST-----\n{text}\n-----END CERTIFICATE REQUEST-----\n")
    };
    assert!(parse(good.as_bytes()).is_some());
    assert!(parse(armoured(&der(&good)).as_bytes()).is_some());

    let mut twice = params(&[]);
    twice.distinguished_name.push(DnType::CustomDnType(vec![2, 5, 4, 3]), "system:node:other");
    let mut long = der(&good);
    long.push(0);
    let mut forged = der(&good);
    let last = forged.len() - 1;
    forged[last] ^= 1;
    let bad = [
        String::new(),
        "garbage".to_owned(),
        format!("{good}{good}"),
        format!("-----BEGIN NOTHING-----\n{good}"),
        good.replace("CERTIFICATE REQUEST", "CERTIFICATE"),
        good.replace("-----END", "-----NED"),
        good[..good.len() / 2].to_owned(),
        armoured(b"garbage"),
        armoured(&[]),
        armoured(&long),
        armoured(&forged),
        pem(&twice),
        format!("{}\n{good}", "x".repeat(MAX_REQUEST_BYTES)),
    ];
    for pem in bad {
        let start: String = pem.chars().take(60).collect();
        assert_eq!(parse(pem.as_bytes()), None, "{start}");
    }
    assert_eq!(parse(&[0xff, 0xfe]), None);
}

/// Nothing that somebody sends ends the process.
#[test]
fn no_change_of_a_request_breaks_the_reader() {
    let good = pem(&params(&[dns("worker-1"), SanType::IpAddress([10, 0, 0, 7].into())]));
    let der = parse_x509_pem(good.as_bytes()).expect("a block").1.contents;
    let read = |der: &[u8]| {
        let text = STANDARD.encode(der);
        parse(
            format!(
                "-----BEGIN CERTIFICATE REQUEST-----\n{text}\n-----END CERTIFICATE REQUEST-----\n"
            )
            .as_bytes(),
        )
    };
    let original = read(&der).expect("it is well");
    for index in 0..der.len() {
        for change in [0x01, 0x80, 0xff] {
            let mut changed = der.clone();
            changed[index] ^= change;
            // How the signature itself is written may differ, and nothing that it is about.
            if let Some(parsed) = read(&changed) {
                assert_eq!(parsed, original, "byte {index}");
            }
        }
        assert_eq!(read(&der[..index]), None);
    }
}

fn object(spec: &Value, status: &Value) -> DynamicObject {
    let object = json!({
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
        "metadata": {"name": "csr-1", "uid": "u-1"}, "spec": spec, "status": status,
    });
    serde_json::from_value(object).expect("an object")
}

#[test]
fn an_object_is_read_as_far_as_it_is_one() {
    let spec = json!({
        "signerName": "kubernetes.io/kubelet-serving", "username": NODE,
        "groups": ["system:nodes", "system:authenticated"],
        "usages": ["digital signature", "key encipherment", "client auth", "server auth", "any"],
        "request": STANDARD.encode(pem(&params(&[dns("worker-1")]))),
    });
    let csr = csr_of(&object(&spec, &Value::Null));
    assert_eq!((csr.name.as_str(), csr.uid.as_str()), ("csr-1", "u-1"));
    assert_eq!((csr.requester.as_str(), csr.groups.len()), (NODE, 2));
    let usages = [
        Usage::DigitalSignature,
        Usage::KeyEncipherment,
        Usage::ClientAuth,
        Usage::ServerAuth,
        Usage::Other("any".to_owned()),
    ];
    assert_eq!(csr.usages, usages);
    assert!(!csr.decided);
    assert_eq!(csr.request.expect("it is well").dns_names, ["worker-1"]);

    let approved = json!({"conditions": [{"type": "Approved", "status": "True"}]});
    assert!(csr_of(&object(&spec, &approved)).decided);
    for status in [
        json!({"conditions": [{"type": "Denied"}]}),
        json!({"conditions": [{"type": "Failed"}]}),
        json!({"certificate": "eA=="}),
    ] {
        assert!(is_decided(&object(&spec, &status)), "{status}");
    }
    for status in [json!(5), json!({"conditions": "x"}), json!({"conditions": [5]}), json!({})] {
        assert!(!is_decided(&object(&spec, &status)), "{status}");
    }
    for spec in [json!(null), json!(5), json!({"groups": 5}), json!({"request": "%"})] {
        let csr = csr_of(&object(&spec, &Value::Null));
        assert_eq!((csr.signer.as_str(), csr.request), ("", None), "{spec}");
    }
}
