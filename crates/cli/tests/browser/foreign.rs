//! Pages of other origins: what their forms send here is refused.

use serde_json::json;

use crate::fixture::Fixture;
use crate::page;
use crate::person::{Person, is_phase};
use crate::server::Server;

/// A page with one form, which goes to `action`.
fn trap(action: &str) -> String {
    format!(
        "<!doctype html><title>A game</title><link rel=\"icon\" href=\"data:,\">\
         <form method=\"post\" action=\"{action}\"><input name=\"token\" value=\"x\">\
         <button>Play</button></form>"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_page_of_another_origin_sends_is_refused() {
    let Some(stage) = Fixture::start().await else { return };
    let person = Person::new("bob").spec(&json!({"running": false}));
    person.apply(&stage.objects).await;
    stage.objects.until(&person.instance, "it is off", is_phase("Off")).await;
    let link = stage.link();
    let browser = stage.browser().await;

    // Signing somebody in as another person would be an attack, too; the link stays good.
    let game = Server::start(trap(&link)).await;
    for host in ["127.0.0.1", "localhost"] {
        browser.open(&format!("http://{host}:{}/", game.port)).await;
        browser.click("button").await;
        assert_refused(&page::ours(&browser).await);
        assert!(browser.cookies().await.is_empty());
    }
    browser.open(&link).await;
    browser.click("form button").await;
    let front = page::ours(&browser).await;
    assert!(front.text.contains("You are signed in as"), "{front:?}");

    for path in ["/sign-out".to_owned(), person.access("web"), "/open".to_owned()] {
        let game = Server::start(trap(&stage.at(&path))).await;
        // Another port is another origin; another name of this machine is another site as well.
        for host in ["127.0.0.1", "localhost"] {
            browser.open(&format!("http://{host}:{}/", game.port)).await;
            browser.click("button").await;
            assert_refused(&page::ours(&browser).await);
        }
    }
    browser.open(&stage.at("/")).await;
    let front = page::ours(&browser).await;
    assert!(front.text.contains("You are signed in as"), "{front:?}");
    let off = stage.objects.get("Instance", "lab-bob", "bob").await.expect("it is there");
    assert_eq!(off["spec"]["running"], false, "nobody started it");

    // A plain link may lead here, but brings nobody's rights along.
    let page = format!("<!doctype html><title>News</title><a href=\"{}\">x</a>", stage.at("/"));
    let news = Server::start(page).await;
    browser.open(&format!("http://localhost:{}/", news.port)).await;
    browser.click("a").await;
    let asked = page::ours(&browser).await;
    assert_eq!(asked.heading, "Go on to Sojourn?");
    browser.click("main a").await;
    let front = page::ours(&browser).await;
    assert!(front.text.contains("You are signed in as"), "{front:?}");
    browser.close().await;
    stage.stop();
}

fn assert_refused(page: &page::Page) {
    assert_eq!(page.heading, "Refused", "{page:?}");
    assert!(page.text.contains("sent by a page of another site, so nothing was done"), "{page:?}");
}
