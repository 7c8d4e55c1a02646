//! What is tried at the listener for people.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::Case;

/// Somebody who is not known gets nothing, and is not sent anywhere but to our own pages.
const NOBODY: &[u16] = &[401, 403, 404, 405];
const GONE: &[u16] = &[404, 410];
const OTHER_HOST: &[u16] = &[400, 421];

pub(crate) fn cases(address: &str, token: &str) -> Vec<Case> {
    let port = address.rsplit(':').next().expect("an address has a port");
    [cookies(port), hosts(port), senders(address, token), links(), bearers(token)].concat()
}

fn case(
    name: &'static str,
    method: &'static str,
    path: &str,
    headers: Vec<(&'static str, String)>,
    refused: &'static [u16],
) -> Case {
    Case { name, method, path: path.to_owned(), headers, refused }
}

/// Sessions that nobody opened.
fn cookies(port: &str) -> Vec<Case> {
    let random = "A".repeat(43);
    let rows: Vec<(&'static str, String)> = vec![
        ("an invented session", format!("sojourn-{port}={random}")),
        ("an empty one", format!("sojourn-{port}=")),
        ("a quoted one", format!("sojourn-{port}=\"{random}\"")),
        ("a user's name", format!("sojourn-{port}=admin")),
        ("a very long one", format!("sojourn-{port}={}", "A".repeat(4 << 10))),
        ("a JSON one", format!("sojourn-{port}={{\"user\":\"admin\"}}")),
        ("the name for TLS", format!("__Host-sojourn={random}")),
        ("the name for TLS, small", format!("__host-sojourn={random}")),
        ("another port's name", format!("sojourn-1={random}")),
        ("many", vec![format!("sojourn-{port}={random}"); 50].join("; ")),
        ("two", format!("sojourn-{port}={random}; sojourn-{port}=B{}", &random[1..])),
        ("usual names", "session=admin; user=admin; admin=true; JSESSIONID=1".to_owned()),
    ];
    let mut cases = Vec::new();
    for (name, cookie) in rows {
        for (method, path) in [("GET", "/"), ("POST", "/open"), ("GET", "/go/lab/default/a/b/")] {
            cases.push(case(name, method, path, vec![("Cookie", cookie.clone())], NOBODY));
        }
    }
    cases
}

/// Names under which somebody else's page could reach us.
fn hosts(port: &str) -> Vec<Case> {
    [
        "evil.test".to_owned(),
        format!("evil.test:{port}"),
        format!("localhost.evil.test:{port}"),
        format!("127.0.0.1.evil.test:{port}"),
        format!("127.0.0.1.nip.io:{port}"),
        format!("evil.test@127.0.0.1:{port}"),
        format!("127.0.0.1:{port}@evil.test"),
        format!("0.0.0.0:{port}"),
        format!("[::ffff:192.0.2.1]:{port}"),
        "192.0.2.1".to_owned(),
        format!("127.0.0.1:{port},evil.test"),
        format!("evil.test/127.0.0.1:{port}"),
        String::new(),
    ]
    .into_iter()
    .map(|host| case("another host", "GET", "/", vec![("Host", host)], OTHER_HOST))
    .collect()
}

/// Pages of other sites that act with a browser's rights.
fn senders(address: &str, token: &str) -> Vec<Case> {
    let bearer = ("Authorization", format!("Bearer {token}"));
    let post = |name, headers: Vec<(&'static str, String)>| {
        case(name, "POST", "/sign-out", headers, NOBODY)
    };
    vec![
        post("another origin", vec![("Origin", "https://evil.test".to_owned())]),
        post("no origin", vec![("Origin", "null".to_owned())]),
        post("our name in theirs", vec![("Origin", format!("http://{address}.evil.test"))]),
        post("a user's part", vec![("Origin", format!("http://{address}@evil.test"))]),
        post("a frame of theirs", vec![("Sec-Fetch-Site", "cross-site".to_owned())]),
        post("a sibling", vec![("Sec-Fetch-Site", "same-site".to_owned())]),
        post(
            "two words",
            vec![
                ("Sec-Fetch-Site", "same-origin".to_owned()),
                ("Sec-Fetch-Site", "cross-site".to_owned()),
            ],
        ),
        case(
            "another origin, with a token",
            "POST",
            "/open",
            vec![("Origin", "https://evil.test".to_owned()), bearer],
            NOBODY,
        ),
        case("a tunnel", "CONNECT", "/", Vec::new(), &[400, 401, 403, 404, 405]),
        case("a trace", "TRACE", "/", Vec::new(), NOBODY),
    ]
}

/// Links that nobody sent.
fn links() -> Vec<Case> {
    let of = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
    let mut signed = vec![1, b's'];
    signed.extend(4_102_444_800_i64.to_be_bytes());
    for text in ["default", "lab", "uid"] {
        signed.extend(u16::try_from(text.len()).expect("short").to_be_bytes());
        signed.extend(text.as_bytes());
    }
    let zeros = [signed.clone(), vec![0; 32]].concat();
    let ones = [signed.clone(), vec![0xff; 32]].concat();
    let mut cases = Vec::new();
    for token in [
        of(&zeros),
        of(&ones),
        of(&signed),
        of(&[]),
        of(&[1]),
        of(&[2; 80]),
        "x".to_owned(),
        "A".repeat(6_000),
        "%2e%2e%2fsign-in".to_owned(),
    ] {
        for method in ["GET", "POST"] {
            cases.push(case(
                "a link of a mail",
                method,
                &format!("/notice/{token}"),
                Vec::new(),
                &[400, 403, 404, 410, 414],
            ));
        }
    }
    for secret in ["x", &"A".repeat(43), &"A".repeat(2_000), "%00", "..%2f..%2f"] {
        for method in ["GET", "POST"] {
            cases.push(case(
                "a link that signs in",
                method,
                &format!("/sign-in/{secret}"),
                Vec::new(),
                GONE,
            ));
        }
    }
    cases
}

/// Tokens that are no good here.
fn bearers(token: &str) -> Vec<Case> {
    let changed = format!("{}A", &token[..token.len() - 2]);
    [
        String::new(),
        "Bearer".to_owned(),
        "Bearer x".to_owned(),
        format!("Bearer {changed}"),
        format!("Basic {token}"),
        format!("Bearer {}", "A".repeat(8 << 10)),
    ]
    .into_iter()
    .flat_map(|value| {
        let report = "/report/lab/default/lab";
        [("POST", "/open"), ("GET", "/go/lab/default/a/b/"), ("POST", report)].map(
            |(method, path)| {
                case("a token", method, path, vec![("Authorization", value.clone())], NOBODY)
            },
        )
    })
    .collect()
}
