//! Signing in and out.

use serde_json::json;

use crate::fixture::Fixture;
use crate::page;

#[tokio::test(flavor = "multi_thread")]
async fn a_link_signs_one_browser_in_and_no_second_one() {
    let Some(stage) = Fixture::start().await else { return };
    let link = stage.link();
    let browser = stage.browser().await;
    browser.open(&stage.at("/")).await;
    let unknown = page::ours(&browser).await;
    assert_eq!(unknown.heading, "Not signed in");
    assert!(unknown.text.contains("sojourn open"), "{unknown:?}");

    browser.open(&link).await;
    let asked = page::ours(&browser).await;
    assert_eq!(asked.heading, "Sign in");
    assert_eq!(browser.cookies().await, [json!(null); 0], "opening it is not using it");
    browser.click("form button").await;
    let front = page::ours(&browser).await;
    assert_eq!(front.address, stage.at("/"));
    assert!(front.text.contains("You are signed in as"), "{front:?}");
    let cookies = browser.cookies().await;
    let [cookie] = &cookies[..] else { panic!("{cookies:?}") };
    assert_eq!(cookie["name"], format!("sojourn-{}", stage.port()));
    assert_eq!(
        (&cookie["httpOnly"], &cookie["sameSite"], &cookie["path"]),
        (&json!(true), &json!("Strict"), &json!("/"))
    );
    assert_eq!(browser.run("return document.cookie").await, "", "scripts do not see it");

    let second = stage.browser().await;
    for browser in [&second, &browser] {
        browser.open(&link).await;
        let refused = page::ours(browser).await;
        assert_eq!(refused.heading, "This link does not work any more");
        assert!(refused.text.contains("sojourn open"), "it says what to do: {refused:?}");
    }
    assert_eq!(second.cookies().await, [json!(null); 0]);
    page::runs_nothing_foreign(&second).await;
    second.close().await;

    browser.open(&stage.at("/nowhere")).await;
    assert_eq!(page::ours(&browser).await.heading, "Nothing here");
    browser.click("main a").await;
    let front = page::ours(&browser).await;
    assert!(front.text.contains("You are signed in as"), "{front:?}");
    browser.click("form[action='/sign-out'] button").await;
    assert_eq!(page::ours(&browser).await.heading, "Signed out");
    assert_eq!(browser.cookies().await, [json!(null); 0]);
    browser.open(&stage.at("/")).await;
    assert_eq!(page::ours(&browser).await.heading, "Not signed in");
    browser.close().await;
    stage.stop();
}
