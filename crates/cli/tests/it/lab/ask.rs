//! `plan`, `why`, `open`, and questions that have no answer.

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::fixture::Fixture;
use crate::folder::Folder;
use crate::process::{command, sojourn};

#[tokio::test]
async fn plan_says_what_comes_when_and_why_in_every_form() {
    let stage = Fixture::with_instance().await;
    let status = stage.until(|status| status["next"]["at"].is_string()).await;
    let (at, why) = (&status["next"]["at"], &status["next"]["why"]);
    let head = |table: &str| -> Vec<String> {
        let head = table.lines().next().unwrap_or_default();
        head.split_whitespace().map(str::to_owned).collect()
    };
    let table = stage.prints(&["plan", "-o", "wide"]).await;
    assert_eq!(head(&table), ["AT", "IN", "ACTION", "NAMESPACE", "OBJECT", "WHY"]);
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines.len(), 2, "{table}");
    for part in [at, why, &json!("Warn"), &json!("instance/one"), &json!("default")] {
        assert!(lines[1].contains(part.as_str().expect("a text")), "{part} in {table}");
    }
    let everywhere = stage.prints(&["plan", "-A", "-o", "wide"]).await;
    assert_eq!(head(&everywhere), head(&table), "everywhere is where it looks by itself");
    let here = stage.prints(&["plan", "-n", "default", "-o", "wide"]).await;
    assert_eq!(head(&here), ["AT", "IN", "ACTION", "OBJECT", "WHY"]);
    assert_eq!(stage.prints(&["plan", "-o", "name"]).await, "instance/one");

    let expected = json!([{
        "at": at, "action": "Warn", "object": "instance/one", "namespace": "default", "why": why,
    }]);
    let read: Value =
        serde_json::from_str(&stage.prints(&["plan", "-o", "json"]).await).expect("JSON");
    assert_eq!(read, expected);
    let yaml = stage.prints(&["plan", "instance/one", "-o", "yaml"]).await;
    let ahead: Vec<Value> = serde_saphyr::from_str(&yaml).expect("YAML");
    let actions: Vec<_> = ahead.iter().filter_map(|step| step["action"].as_str()).collect();
    assert_eq!(actions, ["Warn", "Warn", "Warn", "Delete"], "one object: all that is foreseen");
    assert!(ahead.iter().map(|step| step["at"].as_str()).is_sorted(), "{ahead:?}");
    let nothing = stage.prints(&["plan", "-n", "kube-system"]).await;
    assert_eq!(nothing, "Nothing will happen by itself.");
}

#[tokio::test]
async fn plan_fits_the_terminal_and_says_what_it_left_out() {
    let stage = Fixture::with_instance().await;
    let fits = |columns: Option<&str>| {
        let mut typed = command(&["plan", "--kubeconfig"]);
        typed.arg(&stage.kubeconfig).env_remove("COLUMNS");
        typed.envs(columns.map(|columns| ("COLUMNS", columns)));
        let ended = crate::process::Running::start(typed).ended();
        let width = columns.map_or(80, |columns| columns.parse().expect("a number"));
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        for line in ended.stdout.lines() {
            assert!(line.chars().count() <= width, "{width}: {}", ended.stdout);
        }
        assert!(ended.stdout.contains("Warn") && ended.stdout.contains("instance/one"));
        (ended.stdout, ended.stderr)
    };
    fits(None);
    let (wide, nothing) = fits(Some("200"));
    assert!(wide.contains("AT") && wide.contains("WHY") && nothing.is_empty(), "{wide}{nothing}");
    let (narrow, left_out) = fits(Some("50"));
    assert!(!narrow.contains("WHY") && left_out.contains("-o wide"), "{narrow}{left_out}");
}

#[tokio::test]
async fn plan_says_until_when_something_is_kept() {
    let stage = Fixture::with_instance().await;
    stage.prints(&["keep", "instance/one", "--for", "2h"]).await;
    let status = stage.until(|status| status["keep"]["until"].is_string()).await;
    let expected = json!({
        "at": status["keep"]["until"], "action": "KeepEnds", "object": "instance/one",
        "namespace": "default", "why": "somebody asked to keep it until then",
    });
    for args in [&["plan", "-o", "json"][..], &["plan", "instance/one", "-o", "json"]] {
        let read: Value = serde_json::from_str(&stage.prints(args).await).expect("JSON");
        assert_eq!(read[0], expected, "{args:?}: {read}");
    }
}

#[tokio::test]
async fn why_explains_one_object_in_every_form() {
    let stage = Fixture::with_instance().await;
    for named in ["instance/one", "instances/one", "inst/one", "Instance/one"] {
        let text = stage.prints(&["why", named]).await;
        assert!(text.contains("Warn 20"), "{text}");
        assert!(text.contains("condition  Accepted=True Valid\n"), "{text}");
        assert!(text.lines().all(|line| line == line.trim_end()), "{text}");
    }
    let read: Value =
        serde_json::from_str(&stage.prints(&["why", "instance/one", "-o", "json"]).await)
            .expect("JSON");
    assert_eq!(read["lifecycle"]["stage"], "Active");
    let yaml = stage.prints(&["why", "instance/one", "-o", "yaml"]).await;
    let yaml: Value = serde_saphyr::from_str(&yaml).expect("YAML");
    assert_eq!(yaml["lastStartedAt"], read["lastStartedAt"]);
    assert_eq!(stage.prints(&["why", "instance/one", "-o", "name"]).await, "instance/one");
}

#[tokio::test]
async fn what_is_not_there_is_an_answer_and_what_cannot_be_is_none() {
    let stage = Fixture::with_instance().await;
    for (args, code, words) in [
        (&["why", "instance/two"][..], 1, "instances.lab.sojourn.dev \"two\" not found"),
        (&["why", "instance/one", "-n", "elsewhere"], 1, "Looked in namespace elsewhere"),
        (&["why", "pod/one"], 2, "instance, instancegroup, machine, template, tenant."),
        (&["why", "template/notebook"], 2, "nothing is ever decided about a template"),
        (&["plan", "pod/one"], 2, "pod is no kind of Sojourn's"),
        (&["why", "one"], 2, "write KIND/NAME, such as instance/alice"),
        (&["why", "instance/a/b"], 2, "write KIND/NAME, such as instance/alice"),
        (&["plan", "-o", "tall"], 2, "possible values: table, wide, json, yaml, name"),
    ] {
        let (ended, told) = stage.refuses(args).await;
        assert_eq!(ended, code, "{args:?}: {told}");
        assert!(told.contains(words), "{args:?}: {told}");
        assert!(!told.contains("Status {"), "what programs read is not for people: {told}");
    }
}

/// Sends one request and reads the head of the answer.
async fn request(method: &str, link: &str) -> String {
    let rest = link.strip_prefix("http://").expect("plain on this machine");
    let (site, path) = rest.split_once('/').expect("a path");
    let mut stream = TcpStream::connect(site).await.expect("it is up");
    let head = format!(
        "{method} /{path} HTTP/1.1\r\nHost: {site}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.expect("sent");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.expect("answered");
    let answer = String::from_utf8_lossy(&answer);
    answer.split("\r\n\r\n").next().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn open_prints_a_link_that_signs_in_once() {
    let stage = Fixture::empty(&["--no-pods"]).await;
    let web = stage.server.field("web");
    let link = stage.prints(&["open", "--web", &web]).await;
    let link = link.trim();
    assert!(link.starts_with(&format!("{web}/sign-in/")), "{link}");
    let page = request("GET", link).await;
    assert!(page.starts_with("HTTP/1.1 200") && !page.contains("set-cookie"), "{page}");
    let first = request("POST", link).await;
    assert!(first.starts_with("HTTP/1.1 303"), "{first}");
    let cookie = first.lines().find(|line| line.starts_with("set-cookie")).expect("a cookie");
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
    let second = request("POST", link).await;
    assert!(second.starts_with("HTTP/1.1 410") && !second.contains("set-cookie"), "{second}");

    // Whoever may do everything comes in as somebody who is bound by a role.
    let cookie = first.lines().find_map(|line| line.strip_prefix("set-cookie: ")).expect("one");
    let cookie = cookie.split(';').next().expect("a pair");
    let front = exchange("GET", &web, "/", cookie).await;
    assert!(front.contains("sojourn-person") && !front.contains("system:"), "{front}");
    // And a session never makes another.
    let minted = exchange("POST", &web, "/open", cookie).await;
    assert!(minted.starts_with("HTTP/1.1 401") && !minted.contains("/sign-in/"), "{minted}");
}

/// What a page of ours with this cookie gets.
async fn exchange(method: &str, web: &str, path: &str, cookie: &str) -> String {
    let site = web.strip_prefix("http://").expect("plain on this machine");
    let mut stream = TcpStream::connect(site).await.expect("it is up");
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: {site}\r\nCookie: {cookie}\r\nContent-Length: 0\r\n\
         Sec-Fetch-Site: same-origin\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document\r\n\
         Connection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.expect("sent");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.expect("answered");
    String::from_utf8_lossy(&answer).into_owned()
}

/// Before a screen a browser is started, by itself and not by a shell; else, and with `--print`, none is.
#[tokio::test]
async fn open_starts_a_browser_for_whoever_sits_before_a_screen() {
    const PYTHON: &str = "/usr/bin/python3";
    if !std::path::Path::new(PYTHON).exists() {
        return crate::skip::whole("there is no python3 to make a terminal");
    }
    let stage = Fixture::empty(&["--no-pods"]).await;
    let web = stage.server.field("web");
    let folder = Folder::new();
    let (opener, opened) = (folder.join("xdg-open"), folder.join("opened"));
    let script =
        format!("#!/bin/sh\nprintf '%s' \"$1\" > {0}.new\nmv {0}.new {0}\n", opened.display());
    std::fs::write(&opener, script).expect("written");
    std::fs::set_permissions(&opener, std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .expect("ours");
    let program = command(&["open"]).get_program().to_owned();
    let at_terminal = |more: &[&str], display: Option<&str>| {
        let mut typed = std::process::Command::new(PYTHON);
        typed.args(["-c", "import pty, sys; sys.exit(pty.spawn(sys.argv[1:]) >> 8)"]);
        typed.arg(&program).args(["open", "--web", &web, "--kubeconfig"]).arg(&stage.kubeconfig);
        let path = format!("{}:/usr/bin:/bin", folder.path().display());
        typed.args(more).env("PATH", path).env_remove("WAYLAND_DISPLAY").env_remove("DISPLAY");
        typed.envs(display.map(|display| ("DISPLAY", display)));
        let ended = crate::process::Running::start(typed).ended();
        assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
        let link = ended.stdout.lines().find(|line| line.starts_with(&web)).expect("the link");
        link.trim().to_owned()
    };
    at_terminal(&["--print"], Some(":9"));
    at_terminal(&[], None);
    assert!(!opened.exists(), "nobody asked for a browser, or there is no screen");
    let link = at_terminal(&[], Some(":9"));
    let waiting = async {
        while !opened.exists() {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(30), waiting).await.expect("it is opened");
    assert_eq!(std::fs::read_to_string(&opened).expect("written"), link);
}

#[tokio::test]
async fn open_finds_the_place_by_the_data_that_is_used() {
    let folder = Folder::new();
    let server = crate::process::Running::up_on(folder.path());
    let mut open = command(&["open"]);
    open.env("KUBECONFIG", server.kubeconfig());
    let ended = crate::process::Running::start(open).ended();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stdout.starts_with(&server.field("web")), "{}", ended.stdout);
    let elsewhere = Folder::new();
    let mut open = command(&["open"]);
    open.env("XDG_DATA_HOME", elsewhere.path());
    let ended = crate::process::Running::start(open).ended();
    assert_eq!(ended.code, Some(3), "{}", ended.stderr);
    assert!(ended.stderr.contains("Is `sojourn up` running?"), "{}", ended.stderr);
}

#[test]
fn every_command_says_what_it_does() {
    for (command, words) in [
        ("plan", "[default: table]"),
        ("why", "KIND/NAME"),
        ("keep", "[default: 1h]"),
        ("extend", "[default: 1h]"),
        ("stop", "Stop something; what it keeps is kept"),
        ("start", "Start something again, with what it kept"),
        ("submission", "retry:"),
        ("open", "signs a browser in, once"),
        ("apply", "A server-side apply"),
        ("get", "The table is the server's own"),
        ("delete", "wait until they are gone"),
        ("logs", "what a Pod has written"),
        ("config", "sojourn-system/sojourn"),
        ("crds", "kubectl apply"),
        ("operator", "sojourn crds | kubectl apply -f -"),
        ("ssh-tracker", "127.0.0.1:9112"),
        ("drain", "A machine of a group is replaced first"),
        ("rotate", "One after the other"),
        ("freeze", "not even a forced one"),
        ("drain-agent", "--machines-kubeconfig"),
        ("sdk", "AGONES_SDK_GRPC_PORT"),
        ("provider-test", "asked for everything that it says"),
        ("up", "programs sojourn-provider-NAME"),
    ] {
        let ended = sojourn(&[command, "--help"]);
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{command}");
        assert!(ended.stdout.contains(words), "{command}: {}", ended.stdout);
    }
}
