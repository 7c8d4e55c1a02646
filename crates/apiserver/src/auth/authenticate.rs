//! From credentials to an identity: a client certificate, else a bearer token, else nobody.

use http::{HeaderMap, header};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::auth::LiveObjects;
use crate::auth::identity::Identity;
use crate::auth::service_account::{InvalidToken, TokenIssuer, VerifiedToken};
use crate::auth::token::TokenTable;
use crate::json::{Access, Object};
use crate::status::ApiError;

/// Everything that knows credentials.
#[derive(Clone, Copy)]
pub(crate) struct Authenticator<'a> {
    pub(crate) tokens: &'a TokenTable,
    pub(crate) accounts: &'a TokenIssuer,
    pub(crate) objects: &'a dyn LiveObjects,
}

/// A bearer token that nobody vouches for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadToken {
    #[error("invalid bearer token")]
    Unknown,
    #[error("[invalid bearer token, {0}]")]
    Invalid(#[from] InvalidToken),
}

impl Authenticator<'_> {
    /// The identity of a request. A token that is shown must be good: a bad one is refused, not
    /// taken for no token.
    pub(crate) fn identify(
        &self,
        certificate: Option<&Identity>,
        headers: &HeaderMap,
        now: Timestamp,
    ) -> Result<Identity, ApiError> {
        if let Some(identity) = certificate {
            return Ok(identity.clone());
        }
        match bearer_token(headers) {
            None => Ok(Identity::anonymous()),
            Some(token) => self
                .verify(token, self.accounts.audiences(), now)
                .map(|verified| verified.identity)
                .map_err(|_| ApiError::unauthorized()),
        }
    }

    /// Who a token is for, if it is good for one of the audiences.
    pub(crate) fn verify(
        &self,
        token: &str,
        audiences: &[String],
        now: Timestamp,
    ) -> Result<VerifiedToken, BadToken> {
        if let Some(identity) = self.tokens.find(token, now) {
            // Opaque tokens are for this server only.
            let ours = self.accounts.audiences();
            let audiences: Vec<String> =
                audiences.iter().filter(|audience| ours.contains(audience)).cloned().collect();
            if audiences.is_empty() {
                return Err(BadToken::Unknown);
            }
            return Ok(VerifiedToken { identity: identity.clone(), audiences });
        }
        self.accounts.verify(token, audiences, self.objects, now)?.ok_or(BadToken::Unknown)
    }

    /// The `status` of a TokenReview.
    pub(crate) fn review(&self, review: &Object, now: Timestamp) -> Result<Value, ApiError> {
        let spec = review.at("spec");
        let token = spec.text("token");
        if token.is_empty() {
            let why = "token is required for TokenReview in authentication";
            return Err(ApiError::bad_request(why));
        }
        let asked: Vec<String> =
            spec.list("audiences").iter().filter_map(Value::as_str).map(str::to_owned).collect();
        let audiences = if asked.is_empty() { self.accounts.audiences() } else { &asked };
        Ok(match self.verify(token, audiences, now) {
            Ok(VerifiedToken { identity, audiences }) => json!({
                "authenticated": true,
                "user": identity.user_info(),
                "audiences": audiences,
            }),
            Err(error) => json!({"user": {}, "error": error.to_string()}),
        })
    }
}

/// The token of an `Authorization: Bearer` header, if there is one.
pub(crate) fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?.trim();
    let (scheme, rest) = value.split_once(' ')?;
    let token = rest.split(' ').next().unwrap_or_default();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use sojourn_rbac::User;

    use super::*;
    use crate::auth::token::{TokenEntry, TokenHash};
    use crate::auth::{LiveKind, ObjectState};

    struct Nothing;

    impl LiveObjects for Nothing {
        fn state(&self, _: LiveKind, _: &str, _: &str) -> Option<ObjectState> {
            None
        }

        fn pod(&self, _: &str, _: &str) -> Option<Object> {
            None
        }
    }

    fn with(authorization: &'static str) -> HeaderMap {
        let value = HeaderValue::from_static(authorization);
        HeaderMap::from_iter([(header::AUTHORIZATION, value)])
    }

    #[test]
    fn reads_bearer_tokens_as_upstream_does() {
        let cases = [
            ("Bearer abc", Some("abc")),
            ("bearer abc", Some("abc")),
            ("  Bearer abc  ", Some("abc")),
            ("Bearer abc def", Some("abc")),
            ("Bearer  abc", None),
            ("Bearer", None),
            ("Basic abc", None),
            ("", None),
        ];
        for (header, expected) in cases {
            assert_eq!(bearer_token(&with(header)), expected, "{header:?}");
        }
        assert_eq!(bearer_token(&HeaderMap::new()), None);
    }

    #[test]
    fn certificates_come_first_and_bad_tokens_are_refused() {
        let issuer = TokenIssuer::new(
            "https://kubernetes.default.svc",
            &[&TokenIssuer::generate_key().unwrap()],
        )
        .unwrap();
        let bob = Identity::authenticated(User {
            name: "bob".to_owned(),
            uid: "bob-uid".to_owned(),
            groups: vec!["dev".to_owned()],
            ..User::default()
        });
        let mut tokens = TokenTable::default();
        tokens.insert(TokenHash::of("bobtok"), TokenEntry { identity: bob.clone(), expires: None });
        let authenticator = Authenticator { tokens: &tokens, accounts: &issuer, objects: &Nothing };
        let now = Timestamp::UNIX_EPOCH;

        let node = Identity::node("n1");
        let identify = |certificate, headers: &HeaderMap| {
            authenticator.identify(certificate, headers, now).map_err(|error| error.message)
        };
        assert_eq!(identify(Some(&node), &with("Bearer bad")), Ok(node.clone()));
        assert_eq!(identify(None, &with("Bearer bobtok")), Ok(bob));
        assert_eq!(identify(None, &with("Bearer bad")), Err("Unauthorized".to_owned()));
        assert_eq!(identify(None, &with("Basic bad")), Ok(Identity::anonymous()));

        let review = |spec: Value| {
            let body = Object::from_iter([("spec".to_owned(), spec)]);
            authenticator.review(&body, now).map_err(|error| error.message)
        };
        assert_eq!(
            review(json!({"token": "bobtok"})),
            Ok(json!({
                "authenticated": true,
                "user": {"username": "bob", "uid": "bob-uid", "groups": ["dev", "system:authenticated"]},
                "audiences": ["https://kubernetes.default.svc"],
            }))
        );
        let bad = json!({"user": {}, "error": "invalid bearer token"});
        assert_eq!(review(json!({"token": "bad"})), Ok(bad.clone()));
        assert_eq!(review(json!({"token": "bobtok", "audiences": ["x"]})), Ok(bad));
        assert_eq!(
            review(json!({"token": ""})),
            Err("token is required for TokenReview in authentication".to_owned())
        );
    }
}
