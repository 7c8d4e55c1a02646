//! What is tried at the API.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};

use super::Case;

/// What an attacker may know, and what they may not.
pub(crate) struct AttackerKnowledge {
    /// The administrator's token: forgeries that are close to it must not work.
    pub(crate) admin: String,
    /// Of an account without rights.
    pub(crate) token: String,
    /// Made for somebody else's service.
    pub(crate) elsewhere: String,
    /// Of an account that was deleted.
    pub(crate) gone: String,
}

const SECRETS: &str = "/api/v1/secrets";
const NOBODY: &[u16] = &[401];
const NO_RIGHT: &[u16] = &[400, 401, 403];
const NOTHING: &[u16] = &[301, 307, 308, 400, 401, 403, 404, 405];

pub(crate) fn cases(known: &AttackerKnowledge) -> Vec<Case> {
    [bearers(known), jwts(known), headers(known), places(known), paths(known)].concat()
}

fn get(name: &'static str, headers: Vec<(&'static str, String)>, refused: &'static [u16]) -> Case {
    Case { name, method: "GET", path: SECRETS.to_owned(), headers, refused }
}

fn authorization(name: &'static str, value: String) -> Case {
    get(name, vec![("Authorization", value)], NOBODY)
}

/// Tokens that are nearly right.
fn bearers(known: &AttackerKnowledge) -> Vec<Case> {
    let admin = &known.admin;
    let basic = |text: &str| format!("Basic {}", STANDARD.encode(text));
    let mut last_changed = admin.clone();
    let last = last_changed.pop().expect("a token has letters");
    last_changed.push(if last == 'A' { 'B' } else { 'A' });
    let rows: Vec<(&'static str, String)> = vec![
        ("nothing but a scheme", "Bearer".to_owned()),
        ("an empty token", "Bearer ".to_owned()),
        ("spaces", "Bearer    ".to_owned()),
        ("a null", "Bearer null".to_owned()),
        ("a word", "Bearer undefined".to_owned()),
        ("the prefix alone", "Bearer sojourn_".to_owned()),
        ("zeros", format!("Bearer sojourn_{}", "0".repeat(43))),
        ("the last letter changed", format!("Bearer {last_changed}")),
        ("the last letter missing", format!("Bearer {}", &admin[..admin.len() - 1])),
        ("one letter more", format!("Bearer {admin}A")),
        ("padded", format!("Bearer {admin}=")),
        ("in capitals", format!("Bearer {}", admin.to_uppercase())),
        ("in small letters", format!("Bearer {}", admin.to_lowercase())),
        ("quoted", format!("Bearer \"{admin}\"")),
        ("a comma before it", format!("Bearer ,{admin}")),
        ("a comma behind it", format!("Bearer {admin},")),
        ("twice in one", format!("Bearer {admin}{admin}")),
        ("escaped", format!("Bearer {}", admin.replace('_', "%5F"))),
        ("without its prefix", format!("Bearer {}", admin.trim_start_matches("sojourn_"))),
        ("without a scheme", admin.clone()),
        ("another scheme", format!("Token {admin}")),
        ("the scheme run together", format!("Bearer{admin}")),
        ("the scheme with a colon", format!("Bearer: {admin}")),
        ("as a password", basic(&format!("admin:{admin}"))),
        ("as a user's name", basic(&format!("{admin}:"))),
        ("no password", basic("admin:")),
        ("a usual password", basic("admin:admin")),
        ("digest", "Digest username=\"admin\"".to_owned()),
        ("negotiate", "Negotiate YIIB".to_owned()),
        ("very long", format!("Bearer {}", "A".repeat(8 << 10))),
        ("a star", "Bearer *".to_owned()),
        ("SQL", "Bearer ' OR '1'='1".to_owned()),
        ("a path", "Bearer ../../kubeconfig".to_owned()),
    ];
    rows.into_iter().map(|(name, value)| authorization(name, value)).collect()
}

/// Tokens of service accounts that were changed, or made from nothing.
fn jwts(known: &AttackerKnowledge) -> Vec<Case> {
    let parts: Vec<&str> = known.token.split('.').collect();
    let [head, claims, signature] = parts[..] else { panic!("a token has three parts") };
    let parsed = |part: &str| -> Value {
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).expect("base64")).expect("JSON")
    };
    let encoded = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let (real_head, real_claims) = (parsed(head), parsed(claims));
    let with_head = |change: Value| {
        let mut changed = real_head.clone();
        for (key, value) in change.as_object().expect("an object") {
            changed[key] = value.clone();
        }
        encoded(&changed)
    };
    let with_claims = |change: Value| {
        let mut changed = real_claims.clone();
        for (key, value) in change.as_object().expect("an object") {
            changed[key] = value.clone();
        }
        encoded(&changed)
    };
    let controller = "system:serviceaccount:kube-system:namespace-controller";
    let master = with_claims(json!({"sub": controller}));
    let later = with_claims(json!({"exp": 4_102_444_800_i64}));
    let zeros = URL_SAFE_NO_PAD.encode([0; 64]);
    let mut flipped = URL_SAFE_NO_PAD.decode(signature).expect("base64");
    flipped[0] ^= 1;
    let flipped = URL_SAFE_NO_PAD.encode(flipped);
    let none = |algorithm: &str| with_head(json!({"alg": algorithm}));
    let key = json!({"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"});
    let rows: Vec<(&'static str, String)> = vec![
        ("unsigned", format!("{}.{claims}.", none("none"))),
        ("unsigned, as None", format!("{}.{claims}.", none("None"))),
        ("unsigned, as NONE", format!("{}.{claims}.", none("NONE"))),
        ("unsigned, as nOnE", format!("{}.{claims}.", none("nOnE"))),
        ("unsigned, signature kept", format!("{}.{claims}.{signature}", none("none"))),
        ("no algorithm", format!("{}.{claims}.{signature}", none(""))),
        ("an HMAC is said", format!("{}.{claims}.{signature}", none("HS256"))),
        ("RSA is said", format!("{}.{claims}.{signature}", none("RS256"))),
        ("another curve is said", format!("{}.{claims}.{signature}", none("ES384"))),
        ("another subject", format!("{head}.{master}.{signature}")),
        ("another subject, unsigned", format!("{}.{master}.", none("none"))),
        ("a later end", format!("{head}.{later}.{signature}")),
        (
            "another issuer",
            format!("{head}.{}.{signature}", with_claims(json!({"iss": "https://evil.test"}))),
        ),
        ("no end", format!("{head}.{}.{signature}", with_claims(json!({"exp": null})))),
        (
            "masters among the claims",
            format!("{head}.{}.{signature}", with_claims(json!({"groups": ["system:masters"]}))),
        ),
        ("a signature of zeros", format!("{head}.{claims}.{zeros}")),
        ("another subject, zeros", format!("{head}.{master}.{zeros}")),
        ("a bit of the signature", format!("{head}.{claims}.{flipped}")),
        ("half a signature", format!("{head}.{claims}.{}", &signature[..signature.len() / 2])),
        ("a longer signature", format!("{head}.{claims}.{signature}AAAA")),
        ("no signature", format!("{head}.{claims}.")),
        ("two parts", format!("{head}.{claims}")),
        ("four parts", format!("{head}.{claims}.{signature}.{signature}")),
        ("five parts", format!("{head}.{claims}.{signature}.a.b")),
        ("no head", format!(".{claims}.{signature}")),
        ("dots", "..".to_owned()),
        ("padding", format!("{head}.{claims}.{signature}==")),
        ("another key's name", {
            format!("{}.{claims}.{signature}", with_head(json!({"kid": "0"})))
        }),
        ("a file as key", {
            format!("{}.{claims}.{signature}", with_head(json!({"kid": "../../dev/null"})))
        }),
        ("a key of its own", {
            format!("{}.{claims}.{signature}", with_head(json!({"jwk": key})))
        }),
        ("a key from elsewhere", {
            format!("{}.{claims}.{signature}", with_head(json!({"jku": "http://127.0.0.1:1/"})))
        }),
        ("a certificate of its own", {
            format!("{}.{claims}.{signature}", with_head(json!({"x5c": ["AA"]})))
        }),
        ("critical and unknown", {
            format!("{}.{claims}.{signature}", with_head(json!({"crit": ["b64"], "b64": false})))
        }),
        ("a list as head", format!("{}.{claims}.{signature}", encoded(&json!([])))),
        ("a list as claims", format!("{head}.{}.{signature}", encoded(&json!([])))),
        ("no JSON", format!("{head}.{}.{signature}", URL_SAFE_NO_PAD.encode("{"))),
        ("made for somebody else", known.elsewhere.clone()),
        ("of an account that is gone", known.gone.clone()),
    ];
    rows.into_iter().map(|(name, token)| authorization(name, format!("Bearer {token}"))).collect()
}

/// Who one says one is, in headers.
fn headers(known: &AttackerKnowledge) -> Vec<Case> {
    let honest = ("Authorization", format!("Bearer {}", known.token));
    let said: [(&'static str, Vec<(&'static str, &str)>); 16] = [
        ("a proxy's user", vec![("X-Remote-User", "admin"), ("X-Remote-Group", "system:masters")]),
        ("a proxy's user, underscores", vec![("X_Remote_User", "admin")]),
        ("a forwarded user", vec![("X-Forwarded-User", "admin")]),
        ("a web server's user", vec![("Remote-User", "admin")]),
        ("a certificate in a header", vec![("X-Client-Cert", "CN=admin,O=system:masters")]),
        ("an SSL header", vec![("X-SSL-Client-S-DN", "CN=admin,O=system:masters")]),
        ("an Envoy header", vec![("X-Forwarded-Client-Cert", "Subject=\"CN=admin\"")]),
        ("an original address", vec![("X-Original-URL", "/healthz")]),
        ("a rewritten address", vec![("X-Rewrite-URL", "/healthz")]),
        ("another method", vec![("X-HTTP-Method-Override", "OPTIONS")]),
        ("act as the administrator", vec![("Impersonate-User", "admin")]),
        (
            "act as a group",
            vec![("Impersonate-User", "powerless"), ("Impersonate-Group", "system:masters")],
        ),
        ("act as a group alone", vec![("Impersonate-Group", "system:masters")]),
        ("act as a uid alone", vec![("Impersonate-Uid", "1")]),
        ("act with something more alone", vec![("Impersonate-Extra-Scopes", "all")]),
        (
            "act as a node",
            vec![("Impersonate-User", "system:node:local"), ("Impersonate-Group", "system:nodes")],
        ),
    ];
    let mut cases = Vec::new();
    for (name, given) in said {
        let given: Vec<_> = given.into_iter().map(|(key, value)| (key, value.to_owned())).collect();
        cases.push(get(name, given.clone(), NO_RIGHT));
        cases.push(get(name, [vec![honest.clone()], given].concat(), NO_RIGHT));
    }
    cases
}

/// A good token in a place where nobody should look for it.
fn places(known: &AttackerKnowledge) -> Vec<Case> {
    let admin = &known.admin;
    let at = |name, path: String| Case {
        name,
        method: "GET",
        path,
        headers: Vec::new(),
        refused: NOBODY,
    };
    let forged = URL_SAFE_NO_PAD.encode("sojourn_forged");
    vec![
        at("in the query", format!("{SECRETS}?access_token={admin}")),
        at("in the query, as token", format!("{SECRETS}?token={admin}")),
        at("in the query, as authorization", format!("{SECRETS}?authorization=Bearer%20{admin}")),
        at("in a parameter", format!("{SECRETS};token={admin}")),
        get("in a cookie", vec![("Cookie", format!("token={admin}; session={admin}"))], NOBODY),
        get("in another header", vec![("X-Auth-Token", admin.clone())], NOBODY),
        get("for a proxy", vec![("Proxy-Authorization", format!("Bearer {admin}"))], NOBODY),
        get(
            "a forged one, as a WebSocket's protocol",
            vec![(
                "Sec-WebSocket-Protocol",
                format!("base64url.bearer.authorization.k8s.io.{forged}"),
            )],
            NOBODY,
        ),
    ]
}

/// Ways around the check of a path, with the token of somebody who has no rights.
fn paths(known: &AttackerKnowledge) -> Vec<Case> {
    let honest = vec![("Authorization", format!("Bearer {}", known.token))];
    [
        "/api/v1/namespaces/default/../kube-system/secrets",
        "/api/v1/namespaces/default/%2e%2e/kube-system/secrets",
        "/api/v1/namespaces/default/..%2fkube-system/secrets",
        "/api/v1/namespaces/default%2f..%2fkube-system/secrets",
        "//api/v1/secrets",
        "/./api/v1/secrets",
        "/healthz/../api/v1/secrets",
        "/healthz/%2e%2e/api/v1/secrets",
        "/healthz%2f..%2fapi/v1/secrets",
        "/healthz;/../api/v1/secrets",
        "/version/..;/api/v1/secrets",
        "/api/v1/%73ecrets",
        "/api/v1/secrets/",
        "/API/v1/secrets",
        "/api/v1/secrets%00",
        "/api/v1/secrets%0d%0aX-Remote-User:%20admin",
        "/api/v1/namespaces//secrets",
        "/api/v1/namespaces/kube-system/secrets/%2e",
        "/api/v1/watch/secrets",
        "/api/v1/watch/namespaces/kube-system/secrets",
        "/api/v1/secrets?watch=true",
        "/api/v1/secrets?limit=1",
        "/api/v1/secrets?fieldSelector=metadata.namespace=default",
        "/api/v1/secrets?pretty=true",
        "/debug/pprof/",
        "/metrics",
        "/logs/",
        "/configz",
    ]
    .into_iter()
    .map(|path| Case {
        name: "a way around",
        method: "GET",
        path: path.to_owned(),
        headers: honest.clone(),
        refused: NOTHING,
    })
    .collect()
}
