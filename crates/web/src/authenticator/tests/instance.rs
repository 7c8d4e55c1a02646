//! The origins of instances: the way in, and who gets what there.

use super::*;

const ADA: &str = "web-ada-1.localhost:7080";
const BOB: &str = "web-bob-2.localhost:7080";
const VISIT: [(&str, &str); 2] = [("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")];
const OWN: [(&str, &str); 3] =
    [("sec-fetch-site", "same-origin"), ("sec-fetch-mode", "cors"), ("sec-fetch-dest", "empty")];

impl Fixture {
    /// The address that somebody with this cookie is handed over to.
    async fn handover(&self, cookie: &str) -> String {
        self.get("/handed-over", &[("cookie", cookie)]).await.text
    }

    /// Shows a token at an instance's origin.
    async fn show(&self, host: &str, address: &str) -> Answer {
        let (_, path) = address.split_once(":7080").unwrap();
        let headers = [VISIT[0], VISIT[1], ("sec-fetch-site", "cross-site"), ("host", host)];
        self.get(path, &headers).await
    }

    /// The cookie of Ada's instance, for a session.
    async fn entered(&self, session: &str) -> String {
        let answer = self.show(ADA, &self.handover(session).await).await;
        assert_eq!(answer.status, 303, "{}", answer.text);
        kept(&answer)
    }

    /// What the instance's own script gets.
    async fn fetch(&self, host: &str, cookie: &str) -> Answer {
        self.get("/y", &[OWN[0], OWN[1], OWN[2], ("host", host), ("cookie", cookie)]).await
    }
}

#[tokio::test]
async fn a_one_time_token_leads_from_our_origin_to_the_instances() {
    let fixture = fixture();
    let session = fixture.signed_in().await;
    let address = fixture.handover(&session).await;
    let token = address.strip_prefix("http://web-ada-1.localhost:7080/.sojourn/enter?token=");
    assert_eq!(token.map(str::len), Some(43), "{address}");
    let answer = fixture.show(ADA, &address).await;
    assert_eq!(answer.status, 303);
    assert_eq!(answer.headers["location"], "http://web-ada-1.localhost:7080/x?y=1");
    assert_eq!(answer.headers["referrer-policy"], "no-referrer");
    let cookie = answer.headers["set-cookie"].to_str().unwrap();
    assert!(cookie.starts_with("sojourn-entry-7080="), "{cookie}");
    assert!(cookie.ends_with("; Path=/; Max-Age=604800; HttpOnly; SameSite=Lax"), "{cookie}");
    assert_eq!(fixture.show(ADA, &address).await.status, 410, "once");
    let shown = fixture.fetch(ADA, &kept(&answer)).await;
    assert!(shown.text.starts_with("ada at web-ada-1 gets "), "{}", shown.text);

    // At another instance it is nothing, and nobody has it afterwards.
    let address = fixture.handover(&session).await;
    assert_eq!(fixture.show(BOB, &address).await.status, 410);
    assert_eq!(fixture.show(ADA, &address).await.status, 410);
    // A script of the instance cannot use it.
    let address = fixture.handover(&session).await;
    let (_, path) = address.split_once(":7080").unwrap();
    let scripted = fixture.get(path, &[OWN[0], OWN[1], OWN[2], ("host", ADA)]).await;
    assert_eq!(scripted.status, 404);
}

#[tokio::test]
async fn an_instance_gets_neither_our_cookies_nor_the_token() {
    let fixture = fixture();
    let session = fixture.signed_in().await;
    let entry = fixture.entered(&session).await;
    // As if cookies knew no hosts either.
    let cookies = format!("a=1; {session}; {entry}; __Host-sojourn-entry=x; b=2");
    let shown = fixture.fetch(ADA, &cookies).await;
    assert!(shown.text.contains("\"cookie\": \"a=1; b=2\""), "{}", shown.text);
    for secret in [&session, &entry] {
        let secret = secret.split_once('=').unwrap().1;
        assert!(!shown.text.contains(secret), "{}", shown.text);
    }
    let shown = fixture
        .get("/y", &[("host", ADA), ("authorization", "Bearer good"), ("cookie", &session)])
        .await;
    assert!(shown.text.starts_with("ci at web-ada-1"), "a program: {}", shown.text);
    assert!(!shown.text.contains("authorization") && !shown.text.contains("cookie"));
    // With the cookie, what a page shows the instance is between the two.
    let headers = [OWN[0], ("host", ADA), ("cookie", entry.as_str())];
    let theirs = [&headers[..], &[("authorization", "Bearer theirs")]].concat();
    assert!(fixture.get("/y", &theirs).await.text.contains("Bearer theirs"));
    for path in ["/.sojourn", "/.sojourn/x", "/.sojourn/enter"] {
        assert_eq!(fixture.get(path, &headers).await.status, 404, "{path}");
    }
}

#[tokio::test]
async fn our_cookie_opens_no_instance_and_an_instances_opens_nothing_else() {
    let fixture = fixture();
    let session = fixture.signed_in().await;
    let entry = fixture.entered(&session).await;
    assert_eq!(fixture.fetch(ADA, &session).await.status, 401);
    let renamed = session.replace("sojourn-7080", "sojourn-entry-7080");
    assert_eq!(fixture.fetch(ADA, &renamed).await.status, 401);
    assert_eq!(fixture.fetch(BOB, &entry).await.status, 401);
    let renamed = entry.replace("sojourn-entry-7080", "sojourn-7080");
    for cookie in [&entry, &renamed] {
        assert_eq!(fixture.get("/inside", &[("cookie", cookie)]).await.status, 401);
    }
    assert_eq!(fixture.fetch(ADA, &entry).await.status, 200);
    // A planted one does not keep the good one out.
    let planted = format!("sojourn-entry-7080=planted; {entry}");
    assert_eq!(fixture.fetch(ADA, &planted).await.status, 200);
}

#[tokio::test]
async fn who_is_not_known_at_an_instance_is_sent_to_our_origin_when_they_visit() {
    let fixture = fixture();
    let visit = |host| [VISIT[0], VISIT[1], ("sec-fetch-site", "none"), ("host", host)];
    let answer = fixture.get("//x/y?z", &visit(ADA)).await;
    assert_eq!(answer.status, 303);
    assert_eq!(answer.headers["location"], "http://127.0.0.1:7080/go/lab/ns/ada/web//x/y?z");
    assert!(!answer.headers.contains_key("set-cookie"));
    assert_eq!(fixture.get("/", &visit("web-eve-3.localhost:7080")).await.status, 404);
    let post = fixture.send(Method::POST, "/", &visit(ADA), "").await;
    assert_eq!((post.status, &post.headers["www-authenticate"]), (401, &"Bearer".parse().unwrap()));
    assert_eq!(fixture.get("/", &[("host", ADA)]).await.status, 401);
    assert_eq!(
        fixture.get("/", &[("host", ADA), ("authorization", "Bearer bad")]).await.status,
        401
    );
    let root = fixture.get("/", &[("host", ADA), ("authorization", "Bearer root's")]).await;
    assert_eq!(root.status, 403);
    // None of our own pages is there.
    let entry = fixture.entered(&fixture.signed_in().await).await;
    let mine = [&visit(ADA)[..], &[("cookie", entry.as_str())]].concat();
    for path in ["/", "/open", "/sign-out", "/inside", "/mint"] {
        let shown = fixture.get(path, &mine).await;
        assert!(shown.text.starts_with("ada at web-ada-1"), "{path}: {}", shown.text);
    }
}

#[tokio::test]
async fn only_an_instances_own_pages_act_there() {
    let fixture = fixture();
    let entry = fixture.entered(&fixture.signed_in().await).await;
    let mine = [("host", ADA), ("cookie", entry.as_str())];
    let from = |more: &[(&'static str, &'static str)]| [&mine[..], more].concat();
    let socket = [("connection", "upgrade"), ("upgrade", "websocket")];
    for (method, headers, expected) in [
        (Method::GET, from(&[VISIT[0], VISIT[1], ("sec-fetch-site", "cross-site")]), 200),
        (Method::POST, from(&[("sec-fetch-site", "same-origin")]), 200),
        (Method::POST, from(&[("origin", "http://web-ada-1.localhost:7080")]), 200),
        (Method::POST, from(&[("sec-fetch-site", "same-site")]), 401),
        (Method::POST, from(&[("origin", "http://web-bob-2.localhost:7080")]), 401),
        (Method::POST, from(&[("origin", "http://127.0.0.1:7080")]), 401),
        (Method::POST, from(&[]), 401),
        (Method::GET, from(&[("sec-fetch-site", "cross-site")]), 401),
        (Method::GET, from(&[]), 401),
        (Method::GET, from(&[socket[0], socket[1]]), 401),
        (
            Method::GET,
            from(&[socket[0], socket[1], ("origin", "http://web-ada-1.localhost:7080")]),
            200,
        ),
        (
            Method::GET,
            from(&[socket[0], socket[1], ("origin", "http://web-bob-2.localhost:7080")]),
            401,
        ),
    ] {
        let answer = fixture.send(method.clone(), "/y", &headers, "").await;
        assert_eq!(answer.status, expected, "{method} {headers:?}: {}", answer.text);
    }
}

#[tokio::test(start_paused = true)]
async fn the_cookie_of_an_instance_ends_with_the_session() {
    let signed_out = async |fixture: &Fixture, session: &str, path: &str| {
        let form = fixture.form(session).await;
        let headers = [OURS[0], OURS[1], OURS[2], ("cookie", session)];
        assert_eq!(fixture.send(Method::POST, path, &headers, &form).await.status, 200);
    };
    for path in ["/sign-out", "/sign-out-everywhere"] {
        let fixture = fixture();
        let session = fixture.signed_in().await;
        let (entry, unused) = (fixture.entered(&session).await, fixture.handover(&session).await);
        assert_eq!(fixture.fetch(ADA, &entry).await.status, 200);
        signed_out(&fixture, &session, path).await;
        assert_eq!(fixture.fetch(ADA, &entry).await.status, 401, "{path}");
        assert_eq!(fixture.show(ADA, &unused).await.status, 410, "{path}");
    }
    let fixture = fixture();
    let entry = fixture.entered(&fixture.signed_in().await).await;
    fixture.known.lock().unwrap().remove("ada's");
    tokio::time::advance(Duration::from_secs(60)).await;
    assert_eq!(fixture.fetch(ADA, &entry).await.status, 401, "the account is gone");
}

#[tokio::test]
async fn under_tls_the_cookie_is_of_the_host_by_its_name() {
    let domain = Some("apps.example.net".to_owned());
    let fixture = fixture_with(&Settings { domain, ..settings() });
    let secret = fixture.authenticator.sign_in().mint(ada());
    let ours = [OURS[0], OURS[1], OURS[2], ("host", "lab.example.org")];
    let answer = fixture.send(Method::POST, &SignIn::path(&secret), &ours, "").await;
    let session = kept(&answer);
    let address = fixture
        .get("/handed-over", &[("host", "lab.example.org"), ("cookie", &session)])
        .await
        .text;
    let path = address.strip_prefix("https://web-ada-1.apps.example.net").unwrap();
    let headers = [VISIT[0], VISIT[1], ("host", "web-ada-1.apps.example.net")];
    let answer = fixture.get(path, &headers).await;
    let cookie = answer.headers["set-cookie"].to_str().unwrap();
    assert!(cookie.starts_with("__Host-sojourn-entry="), "{cookie}");
    assert!(cookie.ends_with("; HttpOnly; SameSite=Lax; Secure"), "{cookie}");
    assert_eq!(answer.headers["location"], "https://web-ada-1.apps.example.net/x?y=1");
    let stranger = fixture.get("/z", &headers).await;
    assert_eq!(stranger.headers["location"], "https://lab.example.org/go/lab/ns/ada/web/z");
}

#[tokio::test]
async fn programs_are_told_the_plain_address() {
    let fixture = fixture();
    let told = fixture.get("/handed-over", &[("authorization", "Bearer good")]).await.text;
    assert_eq!(told, "http://web-ada-1.localhost:7080/x?y=1");
}
