use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::typed::decode;

/// Objects as upstream's own encoders write them, in protobuf and in JSON.
fn vectors() -> impl Iterator<Item = (Vec<u8>, Value)> {
    include_str!("vectors.txt").lines().map(|line| {
        let (bytes, json) = line.split_once(' ').expect("two columns");
        (hex::decode(bytes).expect("hexadecimal"), serde_json::from_str(json).expect("JSON"))
    })
}

#[test]
fn protobuf_and_json_bodies_are_the_same() {
    for (bytes, wanted) in vectors() {
        let kind = wanted["kind"].as_str().expect("a kind");
        let version = wanted["apiVersion"].as_str().expect("a version");
        let ty = table().lookup(version, kind).expect(kind);
        let mut got = decode_protobuf(&bytes).expect(kind);
        let mut strict = Vec::new();
        decode(ty, &mut got, &mut strict).expect(kind);
        assert_eq!(got, wanted, "{kind}");
        assert!(strict.is_empty(), "{strict:?}");
    }
}

#[test]
fn many_small_messages_are_too_large() {
    // A Pod whose spec has a hundred thousand containers with an empty name.
    let containers = [0x12, 0x02, 0x0a, 0x00].repeat(100_000);
    let mut spec = vec![0x12, 0x80, 0xb5, 0x18];
    spec.extend(containers);
    let mut body = b"k8s\0\x0a\x09\x0a\x02v1\x12\x03Pod\x12".to_vec();
    body.extend([0x84, 0xb5, 0x18]);
    body.extend(spec);
    assert_eq!(decode_protobuf(&body), Err(ProtobufError::TooLarge(TooLarge)));
}

#[test]
fn bodies_that_are_something_else_are_refused() {
    assert_eq!(decode_protobuf(b"{}"), Err(ProtobufError::NoMagic));
    assert_eq!(decode_protobuf(b"k8s\0"), Err(ProtobufError::NoKind));
    assert_eq!(
        decode_protobuf(b"k8s\0\x0a\x0a\x0a\x02v9\x12\x04Pods"),
        Err(ProtobufError::UnknownKind { api_version: "v9".to_owned(), kind: "Pods".to_owned() })
    );
    assert_eq!(decode_protobuf(b"k8s\0\x0a\xff"), Err(ProtobufError::Truncated));
    let wrong_wire = b"k8s\0\x0a\x09\x0a\x02v1\x12\x03Pod\x12\x02\x08\x01";
    assert_eq!(
        decode_protobuf(wrong_wire),
        Err(ProtobufError::WireType { wire: 0, field: "metadata" })
    );
    let bare = b"k8s\0\x0a\x09\x0a\x02v1\x12\x03Pod";
    assert_eq!(decode_protobuf(bare), Ok(json!({"apiVersion": "v1", "kind": "Pod"})));
}

/// Wraps a message as a length-delimited field.
fn field(number: u8, message: &[u8]) -> Vec<u8> {
    let mut bytes = vec![number << 3 | 2];
    let mut length = message.len();
    while length >= 0x80 {
        bytes.push(u8::try_from(length & 0x7f).expect("7 bits") | 0x80);
        length >>= 7;
    }
    bytes.push(u8::try_from(length).expect("7 bits"));
    bytes.extend(message);
    bytes
}

#[test]
fn depth_is_bounded() {
    // A schema whose `not` is a schema, and so on.
    let mut schema = Vec::new();
    for _ in 0..2000 {
        let mut outer = vec![0xe2, 0x01]; // field 28
        let tail = field(1, &schema);
        outer.extend(&tail[1..]);
        schema = outer;
    }
    let version = field(4, &field(1, &schema));
    let spec = field(2, &field(7, &version));
    let mut body = b"k8s\0".to_vec();
    let mut kind = field(1, b"apiextensions.k8s.io/v1");
    kind.extend(field(2, b"CustomResourceDefinition"));
    body.extend(field(1, &kind));
    body.extend(field(2, &spec));
    assert_eq!(decode_protobuf(&body), Err(ProtobufError::Depth));
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode_protobuf(&bytes);
        let _ = decode_protobuf(&[b"k8s\0", bytes.as_slice()].concat());
    }

    #[test]
    fn damaged_bodies_are_read_or_refused(
        which in any::<prop::sample::Index>(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let all: Vec<(Vec<u8>, Value)> = vectors().collect();
        let mut bytes = which.get(&all).0.clone();
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Ok(mut value) = decode_protobuf(&bytes) {
            let version = value["apiVersion"].as_str().unwrap_or_default();
            let kind = value["kind"].as_str().unwrap_or_default();
            if let Some(ty) = table().lookup(version, kind) {
                let _ = decode(ty, &mut value, &mut Vec::new());
            }
        }
    }
}
