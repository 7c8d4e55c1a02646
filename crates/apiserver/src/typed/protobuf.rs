//! Protobuf bodies: kubectl and client-go send built-in kinds this way.
//!
//! A body is the magic `k8s\0`, then a `runtime.Unknown` that names the kind and holds the object.
//! The object is read by the table into the JSON that the same client would have sent; what the
//! server makes of it is then [`fn@crate::typed::decode`]'s affair.

use serde_json::{Map, Number, Value};

use crate::body;
use crate::go::time::{self, Precision};
use crate::json::Object;
use crate::json::budget::{Budget, ITEM_BYTES, MAP_BYTES, MEMBER_BYTES, TooLarge};
use crate::typed::base64;
use crate::typed::table::{Node, Opaque, Struct, TypeId, TypeTable, table};

const MAGIC: &[u8] = b"k8s\0";

/// Deeper than any real object; schemas may nest without end.
const MAX_DEPTH: usize = 100;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ProtobufError {
    #[error(
        "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"
    )]
    NoMagic,
    #[error("no kind \"{kind}\" is registered for version \"{api_version}\"")]
    UnknownKind { api_version: String, kind: String },
    #[error("Object 'Kind' is missing")]
    NoKind,
    #[error("unexpected EOF")]
    Truncated,
    #[error("proto: integer overflow")]
    Overflow,
    #[error("proto: wrong wireType = {wire} for field {field}")]
    WireType { wire: u8, field: &'static str },
    #[error("proto: illegal tag or wire type")]
    Tag,
    #[error("proto: messages are nested too deeply")]
    Depth,
    #[error("{0}")]
    Content(String),
    /// 413.
    #[error("{0}")]
    TooLarge(#[from] TooLarge),
}

/// What a body is read by, and the memory that is left for it.
struct Source {
    table: &'static TypeTable,
    budget: Budget,
}

/// Reads a protobuf body of any kind in the table into its JSON form.
pub(crate) fn decode_protobuf(body: &[u8]) -> Result<Value, ProtobufError> {
    let unknown = body.strip_prefix(MAGIC).ok_or(ProtobufError::NoMagic)?;
    let mut api_version = String::new();
    let mut kind = String::new();
    let mut raw: &[u8] = &[];
    let mut reader = Reader(unknown);
    while let Some((number, payload)) = reader.field()? {
        match number {
            1 => {
                let mut meta = Reader(payload.bytes("TypeMeta")?);
                while let Some((number, payload)) = meta.field()? {
                    match number {
                        1 => api_version = text(payload.bytes("APIVersion")?),
                        2 => kind = text(payload.bytes("Kind")?),
                        _ => {}
                    }
                }
            }
            2 => raw = payload.bytes("Raw")?,
            _ => {}
        }
    }
    if kind.is_empty() {
        return Err(ProtobufError::NoKind);
    }
    let source = &Source { table: table(), budget: Budget::new() };
    let Some(ty) = source.table.lookup(&api_version, &kind) else {
        return Err(ProtobufError::UnknownKind { api_version, kind });
    };
    let mut object = Object::new();
    if let Node::Struct(kind) = source.table.node(ty) {
        message(source, kind, raw, MAX_DEPTH, &mut object)?;
    }
    object.insert("apiVersion".to_owned(), Value::String(api_version));
    object.insert("kind".to_owned(), Value::String(kind));
    Ok(Value::Object(object))
}

/// Reads a message into the members of a JSON object.
fn message(
    source: &Source,
    body: &Struct,
    bytes: &[u8],
    depth: usize,
    object: &mut Object,
) -> Result<(), ProtobufError> {
    let depth = depth.checked_sub(1).ok_or(ProtobufError::Depth)?;
    if object.is_empty() && !bytes.is_empty() {
        source.budget.take(MAP_BYTES)?;
    }
    let mut reader = Reader(bytes);
    while let Some((number, payload)) = reader.field()? {
        source.budget.take(MEMBER_BYTES)?;
        // Unknown fields are skipped, as generated code does.
        let Some(declared) = body.declared.iter().find(|declared| declared.number == number) else {
            continue;
        };
        let name = declared.name;
        if name == "-" {
            if let Node::Struct(embedded) = source.table.node(declared.ty) {
                message(source, embedded, payload.bytes(name)?, depth, object)?;
            }
            continue;
        }
        let ty = match source.table.node(declared.ty) {
            Node::Pointer(target) => *target,
            _ => declared.ty,
        };
        match source.table.node(ty) {
            Node::List { item, message: false } => {
                let list = object.entry(name).or_insert_with(|| Value::Array(Vec::new()));
                if let Value::Array(items) = list {
                    repeated(source, *item, payload, depth, name, items)?;
                }
            }
            Node::Map { value } => {
                let (key, value) = entry(source, *value, payload.bytes(name)?, depth, name)?;
                let map = object.entry(name).or_insert_with(|| Value::Object(Map::new()));
                if let Value::Object(entries) = map {
                    entries.insert(key, value);
                }
            }
            // A message that comes twice is merged.
            Node::Struct(body) => {
                let member = object.entry(name).or_insert_with(|| Value::Object(Map::new()));
                if let Value::Object(members) = member {
                    message(source, body, payload.bytes(name)?, depth, members)?;
                }
            }
            _ => {
                let value = single(source, ty, payload, depth, name)?;
                object.insert(name.to_owned(), value);
            }
        }
    }
    Ok(())
}

/// One more item, or several packed into one field.
fn repeated(
    source: &Source,
    item: TypeId,
    payload: Payload<'_>,
    depth: usize,
    name: &'static str,
    items: &mut Vec<Value>,
) -> Result<(), ProtobufError> {
    if let (Node::Int32 | Node::Int64 | Node::Bool, Payload::Bytes(packed)) =
        (source.table.node(item), payload)
    {
        let mut reader = Reader(packed);
        while !reader.0.is_empty() {
            source.budget.take(ITEM_BYTES)?;
            let payload = Payload::Varint(reader.varint()?);
            items.push(single(source, item, payload, depth, name)?);
        }
        return Ok(());
    }
    items.push(single(source, item, payload, depth, name)?);
    Ok(())
}

/// An entry of a map: a message of key and value.
fn entry(
    source: &Source,
    of: TypeId,
    bytes: &[u8],
    depth: usize,
    name: &'static str,
) -> Result<(String, Value), ProtobufError> {
    let mut key = String::new();
    let mut value = None;
    let mut reader = Reader(bytes);
    while let Some((number, payload)) = reader.field()? {
        match number {
            1 => key = text(payload.bytes(name)?),
            2 => value = Some(single(source, of, payload, depth, name)?),
            _ => {}
        }
    }
    // A value that is missing is zero, and null decodes as that.
    Ok((key, value.unwrap_or(Value::Null)))
}

/// A value that is not repeated.
fn single(
    source: &Source,
    ty: TypeId,
    payload: Payload<'_>,
    depth: usize,
    name: &'static str,
) -> Result<Value, ProtobufError> {
    Ok(match source.table.node(ty) {
        Node::Pointer(target) => return single(source, *target, payload, depth, name),
        Node::String => {
            let bytes = payload.bytes(name)?;
            source.budget.take_text(bytes.len())?;
            Value::String(text(bytes))
        }
        Node::Bytes => Value::String(base64::encode(payload.bytes(name)?)),
        Node::Bool => Value::Bool(payload.varint(name)? != 0),
        Node::Int64 => Value::from(payload.varint(name)?.cast_signed()),
        Node::Int32 => Value::from(int32(payload.varint(name)?)),
        Node::Float64 => {
            let float = f64::from_bits(payload.fixed64(name)?);
            Number::from_f64(float).map_or(Value::Null, Value::Number)
        }
        Node::Struct(body) => {
            let mut object = Object::new();
            message(source, body, payload.bytes(name)?, depth, &mut object)?;
            Value::Object(object)
        }
        // A list with a name of its own: a message with the items as field 1.
        Node::List { item, .. } => {
            let depth = depth.checked_sub(1).ok_or(ProtobufError::Depth)?;
            let mut items = Vec::new();
            let mut reader = Reader(payload.bytes(name)?);
            while let Some((number, payload)) = reader.field()? {
                if number == 1 {
                    repeated(source, *item, payload, depth, name, &mut items)?;
                }
            }
            if items.is_empty() { Value::Null } else { Value::Array(items) }
        }
        Node::Opaque { codec, .. } => opaque(source, *codec, payload.bytes(name)?, depth)?,
        Node::Map { .. } | Node::Alias(_) | Node::Unread => Value::Null,
    })
}

/// Types that encode themselves in JSON are ordinary messages here.
fn opaque(
    source: &Source,
    codec: Opaque,
    bytes: &[u8],
    depth: usize,
) -> Result<Value, ProtobufError> {
    let depth = depth.checked_sub(1).ok_or(ProtobufError::Depth)?;
    let mut reader = Reader(bytes);
    match codec {
        Opaque::Time => timestamp(reader, Precision::Seconds),
        Opaque::MicroTime => timestamp(reader, Precision::Micros),
        Opaque::Quantity => {
            let mut quantity = "0".to_owned();
            while let Some((number, payload)) = reader.field()? {
                if number == 1 {
                    quantity = text(payload.bytes("string")?);
                }
            }
            Ok(Value::String(quantity))
        }
        Opaque::IntOrString => {
            let (mut is_string, mut int, mut string) = (false, 0, String::new());
            while let Some((number, payload)) = reader.field()? {
                match number {
                    1 => is_string = payload.varint("Type")? == 1,
                    2 => int = int32(payload.varint("IntVal")?),
                    3 => string = text(payload.bytes("StrVal")?),
                    _ => {}
                }
            }
            Ok(if is_string { Value::String(string) } else { Value::from(int) })
        }
        Opaque::Raw | Opaque::Fields | Opaque::RawExtension => {
            let mut raw: &[u8] = &[];
            while let Some((number, payload)) = reader.field()? {
                if number == 1 {
                    raw = payload.bytes("Raw")?;
                }
            }
            if raw.is_empty() {
                return Ok(Value::Null);
            }
            match body::parse_json_within(raw, &source.budget) {
                Ok(parsed) => Ok(parsed.value),
                Err(body::ParseError::TooLarge(why)) => Err(why.into()),
                Err(error) => Err(ProtobufError::Content(error.to_string())),
            }
        }
        Opaque::SchemaOrBool | Opaque::SchemaOrArray | Opaque::SchemaOrStrings => {
            schema_or(source, codec, reader, depth)
        }
    }
}

fn schema_or(
    source: &Source,
    codec: Opaque,
    mut reader: Reader<'_>,
    depth: usize,
) -> Result<Value, ProtobufError> {
    let schema = source.table.named("apiextensions.JSONSchemaProps").expect("the codec is its");
    let read = |payload| single(source, schema, payload, depth, "schema");
    let mut value = match codec {
        Opaque::SchemaOrBool => Value::Bool(false),
        _ => Value::Null,
    };
    let mut items = Vec::new();
    while let Some((number, payload)) = reader.field()? {
        match (codec, number) {
            (Opaque::SchemaOrBool, 1) => {
                let allows = payload.varint("Allows")? != 0;
                if !value.is_object() {
                    value = Value::Bool(allows);
                }
            }
            (Opaque::SchemaOrBool, 2) | (_, 1) => value = read(payload)?,
            (Opaque::SchemaOrArray, 2) => items.push(read(payload)?),
            (_, 2) => items.push(Value::String(text(payload.bytes("Property")?))),
            _ => {}
        }
    }
    Ok(if items.is_empty() { value } else { Value::Array(items) })
}

fn timestamp(mut reader: Reader<'_>, precision: Precision) -> Result<Value, ProtobufError> {
    if reader.0.is_empty() {
        return Ok(Value::Null);
    }
    let (mut seconds, mut nanos) = (0, 0);
    while let Some((number, payload)) = reader.field()? {
        match number {
            1 => seconds = payload.varint("Seconds")?.cast_signed(),
            2 => nanos = int32(payload.varint("Nanos")?),
            _ => {}
        }
    }
    if precision == Precision::Seconds {
        nanos = 0;
    }
    let instant = jiff::Timestamp::new(seconds, nanos)
        .map_err(|error| ProtobufError::Content(error.to_string()))?;
    Ok(time::format(instant, precision).map_or(Value::Null, Value::String))
}

/// Strings that are not UTF-8 are mended, as JSON bodies are.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Generated code takes the low 32 bits.
fn int32(varint: u64) -> i32 {
    let [a, b, c, d, ..] = varint.to_le_bytes();
    i32::from_le_bytes([a, b, c, d])
}

/// What a field holds, by wire type.
#[derive(Clone, Copy, Debug)]
enum Payload<'a> {
    Varint(u64),
    Fixed64(u64),
    Fixed32,
    Bytes(&'a [u8]),
}

impl<'a> Payload<'a> {
    const fn wire(self) -> u8 {
        match self {
            Self::Varint(_) => 0,
            Self::Fixed64(_) => 1,
            Self::Bytes(_) => 2,
            Self::Fixed32 => 5,
        }
    }

    const fn wrong(self, field: &'static str) -> ProtobufError {
        ProtobufError::WireType { wire: self.wire(), field }
    }

    const fn bytes(self, field: &'static str) -> Result<&'a [u8], ProtobufError> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            _ => Err(self.wrong(field)),
        }
    }

    const fn varint(self, field: &'static str) -> Result<u64, ProtobufError> {
        match self {
            Self::Varint(number) => Ok(number),
            _ => Err(self.wrong(field)),
        }
    }

    const fn fixed64(self, field: &'static str) -> Result<u64, ProtobufError> {
        match self {
            Self::Fixed64(bits) => Ok(bits),
            _ => Err(self.wrong(field)),
        }
    }
}

/// What is left to read of a message.
#[derive(Debug)]
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// The next field and its number; nothing at the end.
    fn field(&mut self) -> Result<Option<(u32, Payload<'a>)>, ProtobufError> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let number = u32::try_from(tag >> 3).map_err(|_| ProtobufError::Tag)?;
        if number == 0 {
            return Err(ProtobufError::Tag);
        }
        let payload = match tag & 7 {
            0 => Payload::Varint(self.varint()?),
            1 => {
                let bits = self.take(8)?;
                let bits = bits.try_into().map_err(|_| ProtobufError::Truncated)?;
                Payload::Fixed64(u64::from_le_bytes(bits))
            }
            2 => {
                let length =
                    usize::try_from(self.varint()?).map_err(|_| ProtobufError::Truncated)?;
                Payload::Bytes(self.take(length)?)
            }
            5 => {
                self.take(4)?;
                Payload::Fixed32
            }
            // Groups are of another age; no Kubernetes type has one.
            _ => return Err(ProtobufError::Tag),
        };
        Ok(Some((number, payload)))
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], ProtobufError> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(ProtobufError::Truncated)?;
        self.0 = rest;
        Ok(taken)
    }

    fn varint(&mut self) -> Result<u64, ProtobufError> {
        let mut number = 0u64;
        for (position, byte) in self.0.iter().enumerate() {
            if position == 10 {
                return Err(ProtobufError::Overflow);
            }
            number |= u64::from(byte & 0x7f) << (7 * position);
            if byte & 0x80 == 0 {
                self.0 = &self.0[position + 1..];
                return Ok(number);
            }
        }
        Err(ProtobufError::Truncated)
    }
}

#[cfg(test)]
mod tests;
