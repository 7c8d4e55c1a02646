//! What every page of ours must be.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;

use crate::driver::Browser;

/// A page as a person finds it.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) heading: String,
    pub(crate) text: String,
    pub(crate) address: String,
}

const LOOK: &str = "
    const heading = document.querySelectorAll('h1');
    const whole = document.documentElement;
    return {
        title: document.title, language: whole.lang, headings: heading.length,
        heading: heading.length ? heading[0].innerText : '', text: document.body.innerText,
        address: location.href, width: innerWidth, needed: whole.scrollWidth,
        smallest: Math.min(...[...document.querySelectorAll('main *')].filter((e) => e.innerText)
            .map((e) => parseFloat(getComputedStyle(e).fontSize))),
    }";

/// Puts a script and a style into the page, as somebody's name with markup in it would.
const INJECT: &str = "
    window.injected = false;
    const script = document.createElement('script');
    script.textContent = 'window.injected = true';
    const style = document.createElement('style');
    style.textContent = 'body { color: rgb(1, 2, 3) }';
    document.body.append(script, style);
    return [window.injected, getComputedStyle(document.body).color === 'rgb(1, 2, 3)'];";

/// Looks at a page of ours: it names itself, can be read on a small phone, and its browser has
/// nothing to complain of.
pub(crate) async fn ours(browser: &Browser) -> Page {
    let page = browser.run(LOOK).await;
    picture(browser, &page).await;
    let text = |field: &str| page[field].as_str().unwrap_or_else(|| panic!("{page}")).to_owned();
    let heading = text("heading");
    assert_eq!(page["headings"], 1, "{page}");
    assert!(!heading.is_empty() && text("title").starts_with(&heading), "{page}");
    assert_eq!(page["language"], "en", "{page}");
    assert_eq!(page["width"], 360, "it is as wide as the phone: {page}");
    assert!(page["needed"].as_u64() <= Some(360), "it scrolls sideways: {page}");
    assert!(page["smallest"].as_f64() >= Some(14.0), "its letters are small: {page}");
    let complaints = complaints(browser).await;
    assert!(complaints.is_empty(), "{complaints:?} at {page}");
    Page { heading, text: text("text"), address: text("address") }
}

/// What the browser complains of. That a page came with a status such as 410 is no fault of it.
pub(crate) async fn complaints(browser: &Browser) -> Vec<Value> {
    let address = browser.run("return location.href").await;
    let address = address.as_str().expect("an address");
    let mut log = browser.console().await;
    log.retain(|entry| {
        let words = entry["message"].as_str().unwrap_or_default();
        let of_the_page = words.starts_with(&format!("{address} - Failed to load resource"));
        entry["level"] != "INFO" && entry["level"] != "DEBUG" && !of_the_page
    });
    log
}

/// What somebody gets into a page does not run. The page is spoilt afterwards.
pub(crate) async fn runs_nothing_foreign(browser: &Browser) {
    let ran = browser.run(INJECT).await;
    assert_eq!(ran, serde_json::json!([false, false]));
    let log = browser.console().await;
    let refused = |what: &str| {
        log.iter().any(|entry| {
            let words = entry["message"].as_str().unwrap_or_default();
            words.contains("Content Security Policy") && words.contains(what)
        })
    };
    assert!(refused("script-src") || refused("default-src"), "{log:?}");
    assert!(refused("style-src"), "{log:?}");
}

async fn picture(browser: &Browser, page: &Value) {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let Some(folder) = std::env::var_os("SOJOURN_SCREENSHOTS").map(PathBuf::from) else { return };
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let heading = page["heading"].as_str().unwrap_or_default();
    let name: String =
        heading.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let file = folder.join(format!("{number:02}-{name}.png"));
    std::fs::write(&file, browser.picture().await).expect("a picture is kept");
}
