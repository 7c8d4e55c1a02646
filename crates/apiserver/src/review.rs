//! Reviews: questions about who somebody is and what they may do, answered and not kept.

use axum::body::Body;
use bytes::Bytes;
use http::{Response, StatusCode};
use serde_json::{Map, Value, json};
use sojourn_rbac::{Attributes, User};

use crate::apply;
use crate::auth::authenticate::Authenticator;
use crate::auth::authorize::Authorizer;
use crate::auth::extension::Question;
use crate::field::FieldErrors;
use crate::json::{Access, Object, object_mut};
use crate::kind::review::missing_subject;
use crate::respond::{self, Form};
use crate::status::ApiError;
use crate::typed;
use crate::verb::{Call, WriteOptions};

pub(crate) fn answer(call: &Call, body: &Bytes) -> Result<Response<Body>, ApiError> {
    Form::negotiate_without_table(&call.headers, &call.query)?;
    let options = WriteOptions::parse(&call.query, "CreateOptions")?;
    let mut review = call.decode_body(body, options.validation)?;
    let kind = call.endpoint.resource.kind.clone();
    if let Some(why) = missing_subject(&kind, &review) {
        return Err(ApiError::bad_request(why));
    }
    let mut errors = FieldErrors::new();
    call.endpoint.validate_review(&review, &mut errors);
    if !errors.is_empty() {
        return Err(ApiError::invalid(&call.endpoint.resource.group, "", "", &errors));
    }
    let status = match &*kind {
        "TokenReview" => token_review(call, &review)?,
        "SelfSubjectReview" => json!({"userInfo": call.identity.user_info()}),
        "SelfSubjectAccessReview" => {
            access_review(call, call.identity.user(), &review, Question::SelfReview)
        }
        "SubjectAccessReview" | "LocalSubjectAccessReview" => {
            access_review(call, &subject(&review), &review, Question::Request)
        }
        "SelfSubjectRulesReview" => {
            let access = call.engine.access.current();
            let namespace = review.at("spec").text("namespace");
            access.authorizers().rules_review(call.identity.user(), namespace)
        }
        other => return Err(ApiError::internal(format!("{other} is not a review"))),
    };
    let version = &call.endpoint.version().api_version;
    let owners = owners(call, &review, version, &kind, &options);
    review.insert("status".to_owned(), status);
    let metadata = object_mut(&mut review, "metadata");
    if &*kind == "SelfSubjectReview" {
        metadata.insert("creationTimestamp".to_owned(), json!(crate::meta::time(call.now())));
    }
    if &*kind == "SelfSubjectRulesReview" {
        // Upstream answers this one as if the question had been left empty.
        review.insert("spec".to_owned(), json!({}));
    } else {
        crate::kind::set_or_remove(metadata, "managedFields", owners);
    }
    Ok(respond::json(StatusCode::CREATED, &Value::Object(review)))
}

/// The `managedFields` that an object which is only answered shows.
pub(crate) fn owners(
    call: &Call,
    object: &Object,
    api_version: &str,
    kind: &str,
    options: &WriteOptions,
) -> Option<Value> {
    let table = typed::table();
    let root = table.shape(table.lookup(api_version, kind)?);
    let manager = options.manager(&call.headers);
    let request = apply::Request {
        shapes: table.shapes(),
        root,
        api_version,
        kind,
        served: &[api_version.into()],
        manager: &manager,
        subresource: &call.path.subresource,
        now: call.now(),
        reset_fields: &["status"],
    };
    let mut value = Value::Object(object.clone());
    let mut zero = Value::Object(Object::new());
    typed::decode(table.lookup(api_version, kind)?, &mut zero, &mut Vec::new()).ok()?;
    apply::update(&request, Some(&zero), &mut value).ok()?;
    Some(value.at("metadata").at("managedFields").clone()).filter(Value::is_array)
}

fn token_review(call: &Call, review: &Object) -> Result<Value, ApiError> {
    let tokens = call.engine.tokens();
    let authenticator =
        Authenticator { tokens: &tokens, accounts: &call.engine.accounts, objects: &*call.engine };
    authenticator.review(review, call.now())
}

/// The user that a review names.
fn subject(review: &Object) -> User {
    let spec = review.at("spec");
    let texts = |value: &Value| -> Vec<String> {
        let items = value.as_array().into_iter().flatten();
        items.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    User {
        name: spec.text("user").to_owned(),
        uid: spec.text("uid").to_owned(),
        groups: texts(spec.at("groups")),
        extra: spec.entries("extra").map(|(key, values)| (key.clone(), texts(values))).collect(),
    }
}

fn access_review(call: &Call, user: &User, review: &Object, question: Question) -> Value {
    let spec = review.at("spec");
    let resource = spec.at("resourceAttributes");
    let attributes = if resource.is_object() {
        Attributes {
            namespace: resource.text("namespace"),
            api_version: resource.text("version"),
            subresource: resource.text("subresource"),
            name: resource.text("name"),
            ..Attributes::on_resource(
                user,
                resource.text("verb"),
                resource.text("group"),
                resource.text("resource"),
            )
        }
    } else {
        let path = spec.at("nonResourceAttributes");
        Attributes::on_path(user, path.text("verb"), path.text("path"))
    };
    let access = call.engine.access.current();
    let verdict = access.all_authorizers(&call.engine, question).authorize(&attributes);
    let mut status = Map::new();
    status.insert("allowed".to_owned(), json!(verdict.allowed));
    if !verdict.reason.is_empty() {
        status.insert("reason".to_owned(), json!(verdict.reason));
    }
    Value::Object(status)
}
