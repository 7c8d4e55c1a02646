//! Projected volumes: several sources in one directory, none hiding another's file.

use std::collections::HashSet;

use serde_json::Value;

use super::super::grammar::{Errors, file_mode, unreserved_path};
use super::{downward, volume};
use crate::field::{FieldError, Path};
use crate::json::Access;

const DUPLICATE: &str = "conflicting duplicate paths";
/// Ten minutes.
const MIN_TOKEN_SECONDS: i64 = 600;

pub(super) fn validate(errors: &mut Errors, path: &Path<'_>, source: &Value) {
    file_mode(errors, &path.field("defaultMode"), source.int("defaultMode"));
    let mut taken: HashSet<&str> = HashSet::new();
    let sources = path.field("sources");
    for (i, projection) in source.list("sources").iter().enumerate() {
        let at = sources.index(i);
        let mut kinds = 0;
        for kind in ["secret", "configMap"] {
            let keys = projection.at(kind);
            if keys.is_null() {
                continue;
            }
            kinds += 1;
            let at = at.field(kind);
            if keys.text("name").is_empty() {
                errors.push(FieldError::required(&at.field("name"), ""));
            }
            let items = at.field("items");
            for (i, item) in keys.list("items").iter().enumerate() {
                volume::key_to_path(errors, &items.index(i), item);
                let target = item.text("path");
                if !target.is_empty() && !taken.insert(target) {
                    errors.push(FieldError::invalid_text(path, keys.text("name"), DUPLICATE));
                }
            }
        }
        let downward = projection.at("downwardAPI");
        if !downward.is_null() {
            kinds += 1;
            let at = at.field("downwardAPI");
            for file in downward.list("items") {
                downward::validate_file(errors, &at, file);
                let target = file.text("path");
                if !target.is_empty() && !taken.insert(target) {
                    errors.push(FieldError::invalid_text(path, target, DUPLICATE));
                }
            }
        }
        let token = projection.at("serviceAccountToken");
        if !token.is_null() {
            kinds += 1;
            token_projection(errors, path, &at.field("serviceAccountToken"), token);
        }
        if kinds > 1 {
            let detail = "may not specify more than 1 volume type per source";
            errors.push(FieldError::forbidden(&at, detail));
        }
    }
}

fn token_projection(errors: &mut Errors, volume: &Path<'_>, at: &Path<'_>, token: &Value) {
    let expiration = token.int("expirationSeconds").unwrap_or_default();
    let expiration_path = at.field("expirationSeconds");
    if expiration < MIN_TOKEN_SECONDS {
        let detail = "may not specify a duration less than 10 minutes";
        errors.push(FieldError::invalid(&expiration_path, &expiration.into(), detail));
    }
    if expiration > 1 << 32 {
        let detail = "may not specify a duration larger than 2^32 seconds";
        errors.push(FieldError::invalid(&expiration_path, &expiration.into(), detail));
    }
    // Upstream puts the token's path right under the volume.
    let target = token.text("path");
    if target.is_empty() {
        errors.push(FieldError::required(&volume.field("path"), ""));
    } else {
        unreserved_path(errors, &volume.field("path"), target);
    }
}
