//! What a program says about its configs: a part of JSON Schema.
//!
//! A keyword that is not known here is an error of the program: a config must not be accepted by a rule
//! that nobody has looked at.

use serde_json::{Map, Value};

/// Schemas within schemas.
const MAX_DEPTH: usize = 32;
/// Problems that are told of one config.
const MAX_PROBLEMS: usize = 10;
/// They say nothing that could be checked.
const ANNOTATIONS: [&str; 6] =
    ["$schema", "title", "description", "default", "examples", "deprecated"];

/// A schema that was read. The one of an empty object accepts everything.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Schema(Node);

/// What is asked of one value.
#[derive(Debug, Clone, Default, PartialEq)]
struct Node {
    kinds: Vec<Kind>,
    /// The only values, if there are any.
    values: Option<Vec<Value>>,
    required: Vec<String>,
    properties: Vec<(String, Self)>,
    others: Others,
    items: Option<Box<Self>>,
    min_items: Option<u64>,
    max_items: Option<u64>,
    min_length: Option<u64>,
    max_length: Option<u64>,
    minimum: Option<f64>,
    maximum: Option<f64>,
}

/// Fields that `properties` does not name.
#[derive(Debug, Clone, Default, PartialEq)]
enum Others {
    #[default]
    Anything,
    Nothing,
    Like(Box<Node>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Null,
    Boolean,
    Integer,
    Number,
    String,
    Array,
    Object,
}

impl Kind {
    const ALL: [(&'static str, Self); 7] = [
        ("null", Self::Null),
        ("boolean", Self::Boolean),
        ("integer", Self::Integer),
        ("number", Self::Number),
        ("string", Self::String),
        ("array", Self::Array),
        ("object", Self::Object),
    ];

    fn of(word: &Value) -> Option<Self> {
        let word = word.as_str()?;
        Self::ALL.into_iter().find(|(name, _)| *name == word).map(|(_, kind)| kind)
    }

    fn name(self) -> &'static str {
        Self::ALL.into_iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }

    fn is(self, value: &Value) -> bool {
        match self {
            Self::Null => value.is_null(),
            Self::Boolean => value.is_boolean(),
            Self::Integer => {
                value.is_i64() || value.is_u64() || value.as_f64().is_some_and(is_whole)
            }
            Self::Number => value.is_number(),
            Self::String => value.is_string(),
            Self::Array => value.is_array(),
            Self::Object => value.is_object(),
        }
    }
}

fn is_whole(number: f64) -> bool {
    number.fract() == 0.0
}

impl Schema {
    /// Reads a schema; nothing at all is an empty one.
    pub(super) fn read(schema: &Value) -> Result<Self, String> {
        match schema {
            Value::Null => Ok(Self::default()),
            schema => Node::read(schema, "schema", 0).map(Self),
        }
    }

    /// What is wrong with a config, each in a sentence with its path.
    pub(crate) fn check(&self, path: &str, config: &Value) -> Vec<String> {
        // A config that is left out has no fields.
        let nothing = Value::Object(Map::new());
        let config = if config.is_null() { &nothing } else { config };
        let mut problems = Vec::new();
        self.0.check(path, config, &mut problems);
        problems
    }
}

impl Node {
    fn read(schema: &Value, path: &str, depth: usize) -> Result<Self, String> {
        if depth > MAX_DEPTH {
            return Err(format!("{path}: more than {MAX_DEPTH} schemas within each other"));
        }
        let Value::Object(keywords) = schema else {
            return Err(format!("{path}: a schema is an object"));
        };
        let mut node = Self::default();
        for (keyword, value) in keywords {
            let path = format!("{path}.{keyword}");
            node.take(keyword, value, &path, depth)?;
        }
        Ok(node)
    }

    fn take(
        &mut self,
        keyword: &str,
        value: &Value,
        path: &str,
        depth: usize,
    ) -> Result<(), String> {
        let wrong = |what: &str| format!("{path}: it is {what}");
        let number = || value.as_f64().ok_or_else(|| wrong("a number"));
        let count = || value.as_u64().ok_or_else(|| wrong("a number of things"));
        match keyword {
            "type" => {
                let words = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
                let kinds: Option<Vec<Kind>> = words.iter().map(Kind::of).collect();
                self.kinds = kinds.ok_or_else(|| wrong("one or several types of JSON"))?;
            }
            "enum" => {
                self.values = Some(value.as_array().ok_or_else(|| wrong("a list"))?.clone());
            }
            "const" => self.values = Some(vec![value.clone()]),
            "required" => {
                let names = value.as_array().into_iter().flatten();
                let names = names.map(|name| name.as_str().map(str::to_owned));
                self.required = names.collect::<Option<_>>().ok_or_else(|| wrong("names"))?;
            }
            "properties" => {
                let fields = value.as_object().ok_or_else(|| wrong("an object"))?;
                for (name, schema) in fields {
                    let schema = Self::read(schema, &format!("{path}.{name}"), depth + 1)?;
                    self.properties.push((name.clone(), schema));
                }
            }
            "additionalProperties" => {
                self.others = match value {
                    Value::Bool(true) => Others::Anything,
                    Value::Bool(false) => Others::Nothing,
                    schema => Others::Like(Box::new(Self::read(schema, path, depth + 1)?)),
                };
            }
            "items" => self.items = Some(Box::new(Self::read(value, path, depth + 1)?)),
            "minItems" => self.min_items = Some(count()?),
            "maxItems" => self.max_items = Some(count()?),
            "minLength" => self.min_length = Some(count()?),
            "maxLength" => self.max_length = Some(count()?),
            "minimum" => self.minimum = Some(number()?),
            "maximum" => self.maximum = Some(number()?),
            annotation if ANNOTATIONS.contains(&annotation) => {}
            _ => return Err(format!("{path}: this keyword is not known here")),
        }
        Ok(())
    }

    fn check(&self, path: &str, value: &Value, problems: &mut Vec<String>) {
        let mut tell = |problem: String| {
            if problems.len() < MAX_PROBLEMS {
                problems.push(problem);
            }
        };
        if !self.kinds.is_empty() && !self.kinds.iter().any(|kind| kind.is(value)) {
            let kinds: Vec<&str> = self.kinds.iter().map(|kind| kind.name()).collect();
            return tell(format!("{path}: it must be of type {}", kinds.join(" or ")));
        }
        if let Some(values) = &self.values
            && !values.contains(value)
        {
            let values: Vec<String> = values.iter().map(ToString::to_string).collect();
            return tell(format!("{path}: it must be one of {}", values.join(", ")));
        }
        let between = |least: Option<u64>, most: Option<u64>, count: usize| {
            let count = u64::try_from(count).unwrap_or(u64::MAX);
            least.is_none_or(|least| count >= least) && most.is_none_or(|most| count <= most)
        };
        match value {
            Value::String(text) => {
                if !between(self.min_length, self.max_length, text.chars().count()) {
                    let range = range(self.min_length, self.max_length);
                    tell(format!("{path}: it must have {range} characters"));
                }
            }
            Value::Number(number) => {
                let number = number.as_f64().unwrap_or(f64::NAN);
                if self.minimum.is_some_and(|least| number < least)
                    || self.maximum.is_some_and(|most| number > most)
                {
                    let range = range(self.minimum, self.maximum);
                    tell(format!("{path}: it must be {range}"));
                }
            }
            Value::Array(items) => {
                if !between(self.min_items, self.max_items, items.len()) {
                    let range = range(self.min_items, self.max_items);
                    tell(format!("{path}: it must have {range} items"));
                }
                for (index, item) in items.iter().enumerate() {
                    if let Some(schema) = &self.items {
                        schema.check(&format!("{path}[{index}]"), item, problems);
                    }
                }
            }
            Value::Object(fields) => self.check_fields(path, fields, problems),
            Value::Null | Value::Bool(_) => {}
        }
    }

    fn check_fields(&self, path: &str, fields: &Map<String, Value>, problems: &mut Vec<String>) {
        let missing = self.required.iter().filter(|name| !fields.contains_key(*name));
        problems.extend(missing.map(|name| format!("{path}.{name}: it is needed")));
        for (name, value) in fields {
            let path = format!("{path}.{name}");
            let property = self.properties.iter().find(|(known, _)| known == name);
            match (property, &self.others) {
                (Some((_, schema)), _) => schema.check(&path, value, problems),
                (None, Others::Like(schema)) => schema.check(&path, value, problems),
                (None, Others::Nothing) => problems.push(format!("{path}: there is no such field")),
                (None, Others::Anything) => {}
            }
        }
        problems.truncate(MAX_PROBLEMS);
    }
}

/// From the least to the most, in words.
fn range<T: std::fmt::Display>(least: Option<T>, most: Option<T>) -> String {
    match (least, most) {
        (Some(least), Some(most)) => format!("from {least} to {most}"),
        (Some(least), None) => format!("at least {least}"),
        (None, Some(most)) => format!("at most {most}"),
        (None, None) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn problems(schema: &Value, config: &Value) -> Vec<String> {
        Schema::read(schema).expect("a schema").check("config", config)
    }

    #[test]
    fn an_empty_schema_accepts_everything() {
        for schema in [json!(null), json!({})] {
            for config in [json!(null), json!(1), json!({"a": [1]})] {
                assert_eq!(problems(&schema, &config), [""; 0]);
            }
        }
    }

    #[test]
    fn each_keyword_refuses_what_it_says() {
        let schema = json!({
            "type": "object", "description": "what a machine is made from",
            "required": ["size"], "additionalProperties": false,
            "properties": {
                "size": {"enum": ["small", "large"]},
                "disk": {"type": "integer", "minimum": 1, "maximum": 64},
                "tags": {
                    "type": "array", "maxItems": 2,
                    "items": {"type": "string", "minLength": 1, "maxLength": 3},
                },
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                "zone": {"type": ["string", "null"]},
                "kind": {"const": "vm"},
            },
        });
        let good = json!({
            "size": "small", "disk": 2.0, "tags": ["äöü"], "labels": {"a": "b"}, "zone": null,
            "kind": "vm",
        });
        assert_eq!(problems(&schema, &good), [""; 0]);
        for (config, problem) in [
            (json!(null), "config.size: it is needed"),
            (json!([]), "config: it must be of type object"),
            (json!({"size": "huge"}), "config.size: it must be one of \"small\", \"large\""),
            (json!({"size": "small", "colour": 1}), "config.colour: there is no such field"),
            (json!({"size": "small", "disk": 1.5}), "config.disk: it must be of type integer"),
            (json!({"size": "small", "disk": 65}), "config.disk: it must be from 1 to 64"),
            (
                json!({"size": "small", "tags": ["a", "b", "c"]}),
                "config.tags: it must have at most 2 items",
            ),
            (
                json!({"size": "small", "tags": ["a", "long"]}),
                "config.tags[1]: it must have from 1 to 3 characters",
            ),
            (
                json!({"size": "small", "labels": {"a": 1}}),
                "config.labels.a: it must be of type string",
            ),
            (json!({"size": "small", "zone": 1}), "config.zone: it must be of type string or null"),
            (json!({"size": "small", "kind": 1}), "config.kind: it must be one of \"vm\""),
        ] {
            assert_eq!(problems(&schema, &config), [problem], "{config}");
        }
    }

    #[test]
    fn what_is_not_known_is_no_schema() {
        for (schema, problem) in [
            (json!({"pattern": "a+"}), "schema.pattern: this keyword is not known here"),
            (
                json!({"properties": {"a": {"$ref": "#"}}}),
                "schema.properties.a.$ref: this keyword is not known here",
            ),
            (json!({"type": "text"}), "schema.type: it is one or several types of JSON"),
            (json!(true), "schema: a schema is an object"),
        ] {
            assert_eq!(Schema::read(&schema), Err(problem.to_owned()));
        }
        let mut deep = json!({});
        for _ in 0..=MAX_DEPTH {
            deep = json!({"items": deep});
        }
        Schema::read(&deep).expect_err("too deep");
    }

    #[test]
    fn many_problems_are_cut_short() {
        let schema = json!({"type": "object", "additionalProperties": false});
        let fields = (0..50).map(|n| (format!("f{n}"), json!(1))).collect::<Map<_, _>>();
        assert_eq!(problems(&schema, &Value::Object(fields)).len(), MAX_PROBLEMS);
    }
}
