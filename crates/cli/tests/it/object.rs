//! `apply`, `get`, `delete` and `logs`: the tours of the README without kubectl.

use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::folder::Folder;
use crate::lab::fixture::Fixture;
use crate::process::{Ended, Running, command};

fn example(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name);
    path.display().to_string()
}

fn write(folder: &Folder, name: &str, text: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, text).expect("written");
    path.display().to_string()
}

/// What a command prints that has this on its stdin.
fn types_with_stdin(kubeconfig: &Path, args: &[&str], stdin: &str) -> Ended {
    let folder = Folder::new();
    let file = std::fs::File::open(write(&folder, "stdin", stdin)).expect("written");
    let mut typed = command(args);
    typed.arg("--kubeconfig").arg(kubeconfig);
    Running::start_reading(typed, Stdio::from(file)).ended()
}

fn lines(text: &str) -> Vec<&str> {
    text.lines().collect()
}

/// The words of each line of a table.
fn cells(text: &str) -> Vec<Vec<&str>> {
    text.lines().map(|line| line.split_whitespace().collect()).collect()
}

#[tokio::test]
async fn a_kind_and_an_object_of_it_are_applied_together() {
    let stage = Fixture::empty(&["--no-pods", "--no-controllers"]).await;
    let engine = example("engine");
    let crd = "customresourcedefinition.apiextensions.k8s.io/crontabs.example.com";
    let applied = stage.prints(&["apply", "-f", &engine]).await;
    assert_eq!(
        lines(&applied),
        [format!("{crd} created"), "crontab.example.com/nightly created".to_owned()]
    );
    let again = stage.prints(&["apply", "--server-side", "-f", &engine]).await;
    assert_eq!(
        lines(&again),
        [format!("{crd} unchanged"), "crontab.example.com/nightly unchanged".to_owned()]
    );
    for word in ["ct", "crontab", "crontabs", "CronTab", "crontabs.example.com"] {
        let shown = stage.prints(&["get", word]).await;
        let cells = cells(&shown);
        assert_eq!(cells[0], ["NAME", "SCHEDULE", "REPLICAS", "AGE"], "{word}");
        assert_eq!(&cells[1][..7], ["nightly", "0", "3", "*", "*", "*", "1"], "{word}");
    }
    let all = stage.prints(&["get", "all", "-o", "name"]).await;
    assert!(lines(&all).contains(&"crontab.example.com/nightly"), "{all}");
    let deleted = stage.prints(&["delete", "-f", &engine]).await;
    assert_eq!(
        lines(&deleted),
        [
            "crontab.example.com \"nightly\" deleted from default namespace",
            "customresourcedefinition.apiextensions.k8s.io \"crontabs.example.com\" deleted",
        ]
    );
    let (code, told) = stage.refuses(&["get", "ct"]).await;
    assert_eq!((code, told.contains("no kind that is called ct")), (2, true), "{told}");
    let nothing = stage.types(&["delete", "--ignore-not-found", "-f", &engine]).await;
    assert_eq!((nothing.code, nothing.stdout.as_str()), (Some(0), ""), "{}", nothing.stderr);
}

#[tokio::test]
async fn the_lab_of_the_readme_is_applied_shown_and_deleted() {
    let stage = Fixture::empty(&["--no-pods"]).await;
    let lab = example("lab");
    let applied = stage.prints(&["apply", "-f", &lab]).await;
    assert_eq!(
        lines(&applied),
        [
            "configmap/sojourn created",
            "namespace/workshop created",
            "tenant.lab.sojourn.dev/ada created",
            "template.lab.sojourn.dev/notebook created",
            "template.lab.sojourn.dev/scratch created",
            "instance.lab.sojourn.dev/notebook created",
            "instance.lab.sojourn.dev/scratch created",
        ]
    );
    let shown = stage.prints(&["get", "instances", "-n", "workshop"]).await;
    let table = cells(&shown);
    assert_eq!(table[0], ["NAME", "PHASE", "STAGE", "NEXT", "AT", "URL", "AGE"], "{shown}");
    assert_eq!((table[1][0], table[2][0], table.len()), ("notebook", "scratch", 3), "{shown}");
    let everywhere = stage.prints(&["get", "inst", "-A", "-o", "wide"]).await;
    let table = cells(&everywhere);
    assert_eq!((table[0][0], table[1][0], table[1][1]), ("NAMESPACE", "workshop", "notebook"));
    let named = ["get", "instance/notebook", "tenant/ada", "-n", "workshop", "-o", "name"];
    assert_eq!(
        lines(&stage.prints(&named).await),
        ["instance.lab.sojourn.dev/notebook", "tenant.lab.sojourn.dev/ada"]
    );
    let gone = stage.types(&["delete", "-f", &lab, "--timeout", "1m"]).await;
    assert_eq!(gone.code, Some(0), "{}", gone.stderr);
    assert_eq!(lines(&gone.stdout).len(), 7, "{}", gone.stdout);
    let none = stage.types(&["get", "instances", "-A"]).await;
    assert_eq!((none.code, none.stdout.as_str()), (Some(0), ""));
    assert_eq!(none.stderr, "No resources found");
    let none = stage.types(&["get", "instances"]).await;
    assert_eq!(none.stderr, "No resources found in default namespace.");
}

#[tokio::test]
async fn every_form_of_manifest_and_every_form_of_answer() {
    let stage = Fixture::empty(&["--no-pods", "--no-controllers"]).await;
    let map = |name: &str, value: &str| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name},
            "data": {"value": value},
        })
    };
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [map("a", "1"), map("b", "1")]});
    let applied = types_with_stdin(&stage.kubeconfig, &["apply", "-f", "-"], &list.to_string());
    assert_eq!((applied.code, applied.stderr.as_str()), (Some(0), ""));
    assert_eq!(applied.stdout, "configmap/a created\nconfigmap/b created");

    let folder = Folder::new();
    let text = format!("{}\n---\n{}\n", map("a", "1"), map("b", "2"));
    let file = write(&folder, "two.yaml", &text);
    for (flags, expected) in [
        (
            &["--dry-run=server"][..],
            "configmap/a unchanged (server dry run)\nconfigmap/b configured (server dry run)",
        ),
        (&[], "configmap/a unchanged\nconfigmap/b configured"),
        (
            &["--dry-run"],
            "configmap/a unchanged (server dry run)\nconfigmap/b unchanged (server dry run)",
        ),
        (&["-o", "name"], "configmap/a\nconfigmap/b"),
    ] {
        let printed = stage.prints(&[&["apply", "-f", &file], flags].concat()).await;
        assert_eq!(printed, expected, "{flags:?}");
    }
    let printed = stage.prints(&["apply", "-f", &file, "-o", "json"]).await;
    let read: Value = serde_json::from_str(&printed).expect("JSON");
    assert_eq!((&read["kind"], &read["items"][1]["data"]["value"]), (&json!("List"), &json!("2")));

    let printed = stage.prints(&["get", "cm", "a", "-o", "yaml"]).await;
    let read: Value = serde_saphyr::from_str(&printed).expect("YAML");
    assert_eq!((&read["kind"], &read["metadata"]["name"]), (&json!("ConfigMap"), &json!("a")));
    assert_eq!(read["metadata"]["managedFields"], Value::Null, "who set what is the server's");
    let printed = stage.prints(&["get", "cm", "-o", "json"]).await;
    let read: Value = serde_json::from_str(&printed).expect("JSON");
    let kinds: Vec<_> = read["items"].as_array().expect("items").iter().collect();
    assert!(kinds.iter().all(|one| one["kind"] == "ConfigMap" && one["apiVersion"] == "v1"));
    let several = stage.prints(&["get", "cm,ns", "-o", "name"]).await;
    assert!(
        several.contains("configmap/b\n") && several.contains("namespace/default"),
        "{several}"
    );
    let several = stage.prints(&["get", "cm/a", "ns/default"]).await;
    assert!(several.contains("\n\nNAME"), "a table for each kind: {several}");
    assert!(several.contains("\nconfigmap/a ") && several.contains("\nnamespace/default "));
}

#[tokio::test]
async fn labels_choose_and_pages_are_put_together() {
    let stage = Fixture::empty(&["--no-pods", "--no-controllers"]).await;
    let many: Vec<Value> = (0..1203)
        .map(|number| {
            json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": format!("m{number}"), "labels": {"third": (number % 3 == 0).to_string()}},
            })
        })
        .collect();
    for chunk in many.chunks(200) {
        let texts: Vec<_> = chunk.iter().map(Value::to_string).collect();
        let applied =
            types_with_stdin(&stage.kubeconfig, &["apply", "-f", "-"], &texts.join("\n---\n"));
        assert_eq!(applied.code, Some(0), "{}", applied.stderr);
    }
    let chosen = stage.prints(&["get", "cm", "-l", "third=true", "-o", "name"]).await;
    assert_eq!(lines(&chosen).len(), 401);
    let all = stage.prints(&["get", "cm", "-l", "third"]).await;
    assert_eq!(lines(&all).len(), 1 + 1203);
    assert_eq!(lines(&all).iter().filter(|line| line.starts_with("NAME")).count(), 1);
}

#[tokio::test]
async fn what_cannot_be_applied_is_said_and_the_rest_is_applied() {
    let stage = Fixture::empty(&["--no-pods", "--no-controllers"]).await;
    let folder = Folder::new();
    let map = |name: &str, more: &str| {
        format!("{{apiVersion: v1, kind: ConfigMap, metadata: {{name: {name}{more}}}}}")
    };
    let texts = [
        map("good", ""),
        map("lost", ", namespace: nowhere"),
        "{apiVersion: example.com/v1, kind: Nothing, metadata: {name: a}}".to_owned(),
        "{apiVersion: lab.sojourn.dev/v1alpha1, kind: Tenant, metadata: {name: a}}".to_owned(),
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: typo}, dta: {a: b}}".to_owned(),
        map("better", ""),
    ];
    let file = write(&folder, "all.yaml", &texts.join("\n---\n"));
    let ended = stage.types(&["apply", "-f", &file]).await;
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert_eq!(ended.stdout, "configmap/good created\nconfigmap/better created");
    for words in [
        "Make the namespace nowhere first.",
        "document 3: the API serves no Nothing in example.com/v1\nApply its CustomResourceDefinition",
        "document 4: the API serves no Tenant in lab.sojourn.dev/v1alpha1\nInstall Sojourn's kinds",
        "dta: field not declared in schema\nIt is in ",
        "error: 4 of 6 objects were not applied\n",
    ] {
        assert!(ended.stderr.contains(words), "no `{words}` in:\n{}", ended.stderr);
    }
    let other = write(&folder, "other.yaml", &map("here", ", namespace: default"));
    let (code, told) = stage.refuses(&["apply", "-f", &other, "-n", "kube-system"]).await;
    assert!(code == 2 && told.contains("is of namespace default, not kube-system"), "{told}");

    // Another manager's field is taken over only by whoever says so.
    let mine = "{apiVersion: v1, kind: ConfigMap, metadata: {name: good}, data: {a: mine}}";
    let mine = write(&folder, "mine.yaml", mine);
    stage
        .apply(json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "good", "namespace": "default"}, "data": {"a": "theirs"},
        }))
        .await;
    let (code, told) = stage.refuses(&["apply", "-f", &mine]).await;
    assert_eq!(code, 1, "{told}");
    assert!(told.contains("conflict") && told.contains("--force-conflicts"), "{told}");
    let taken = stage.prints(&["apply", "-f", &mine, "--force-conflicts"]).await;
    assert_eq!(taken, "configmap/good configured");
}

#[tokio::test]
async fn what_is_not_there_is_an_answer() {
    let stage = Fixture::empty(&["--no-pods", "--no-controllers"]).await;
    for (args, code, words) in [
        (&["get", "pod/one"][..], 1, "pods \"one\" not found"),
        (&["get", "pods", "one", "two"], 1, "2 of those that were named are not there"),
        (&["get", "things"], 2, "no kind that is called things"),
        (&["get", "instances"], 2, "sojourn crds | sojourn apply -f -"),
        (&["get", "pods", "one", "-A"], 2, "-n NAMESPACE instead of -A"),
        (&["get", "pods,secrets", "-w"], 2, "only one kind can be watched"),
        (&["get", "pods/a/b"], 2, "cannot be the name of an object"),
        (&["delete", "pod", "one"], 1, "pods \"one\" not found"),
        (&["delete", "pods"], 2, "Say which: pods/NAME."),
        (&["delete"], 2, "--help"),
        (&["logs", "one"], 1, "pods \"one\" not found"),
        (&["logs", "job/one"], 2, "only Pods have logs"),
        (&["apply", "-f", "/nowhere/at/all"], 2, "there is no such file or folder"),
    ] {
        let (ended, told) = stage.refuses(args).await;
        assert_eq!(ended, code, "{args:?}: {told}");
        assert!(told.contains(words), "{args:?}: {told}");
    }
    let ignored = stage.types(&["delete", "pod/one", "--ignore-not-found"]).await;
    assert_eq!((ignored.code, ignored.stderr.as_str()), (Some(0), ""));
}

#[tokio::test]
async fn delete_waits_for_finalizers_and_says_which() {
    let stage = Fixture::empty(&["--no-pods", "--no-controllers"]).await;
    let folder = Folder::new();
    let held =
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: held, finalizers: [example.com/x]}}";
    let file = write(&folder, "held.yaml", held);
    stage.prints(&["apply", "-f", &file]).await;
    let ended = stage.types(&["delete", "cm/held", "--timeout", "1s"]).await;
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("configmap/held is still there, held by example.com/x"),
        "{}",
        ended.stderr
    );
    let unwaited = stage.prints(&["delete", "cm", "held", "--wait=false", "-o", "name"]).await;
    assert_eq!(unwaited, "configmap/held");

    // Whoever waits is done when it goes.
    let mut waiting = command(&["delete", "cm/held", "--kubeconfig"]);
    waiting.arg(&stage.kubeconfig);
    let waiting = Running::start(waiting);
    waiting.stderr_line("Waiting until configmap/held is gone, held by example.com/x.");
    let free = "{apiVersion: v1, kind: ConfigMap, metadata: {name: held, finalizers: []}}";
    let freed =
        types_with_stdin(&stage.kubeconfig, &["apply", "--force-conflicts", "-f", "-"], free);
    assert_eq!(freed.code, Some(0), "{}", freed.stderr);
    let ended = waiting.ended();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
}

/// The account that Pods run as is made a moment after their namespace.
#[tokio::test]
async fn a_namespace_and_a_pod_in_it_are_applied_together() {
    let stage = Fixture::empty(&["--no-pods"]).await;
    let folder = Folder::new();
    for round in 0..5 {
        let file = folder.join("both.yaml");
        let text = format!(
            "{{apiVersion: v1, kind: Namespace, metadata: {{name: new-{round}}}}}\n---\n\
             {{apiVersion: v1, kind: Pod, metadata: {{name: web, namespace: new-{round}}}, \
             spec: {{containers: [{{name: web, image: none}}]}}}}\n"
        );
        std::fs::write(&file, text).expect("written");
        let mut typed = command(&["apply", "-f"]);
        typed.arg(&file).arg("--kubeconfig").arg(&stage.kubeconfig);
        let ended = Running::start(typed).ended();
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        assert_eq!(ended.stdout, format!("namespace/new-{round} created\npod/web created"));
    }
}

#[tokio::test]
async fn a_watch_shows_what_is_there_and_what_changes() {
    let stage = Fixture::empty(&["--no-pods", "--no-controllers"]).await;
    let map = |name: &str, label: &str| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": "default", "labels": {"app": label}},
            "data": {"a": "b"},
        })
    };
    stage.apply(map("first", "web")).await;
    let watch = |more: &[&str]| {
        let mut typed = command(&["get", "cm", "-w", "-l", "app=web"]);
        typed.args(more).arg("--kubeconfig").arg(&stage.kubeconfig);
        Running::start(typed)
    };
    let (table, names, yaml) = (watch(&[]), watch(&["-o", "name"]), watch(&["-o", "yaml"]));
    table.stdout_line("first");
    names.stdout_line("configmap/first");
    yaml.stdout_line("name: first");
    stage.apply(map("other", "db")).await;
    stage.apply(map("second", "web")).await;
    table.stdout_line("second");
    names.stdout_line("configmap/second");
    yaml.stdout_line("name: second");
    table.signal("INT");
    let ended = table.ended();
    let shown = cells(&ended.stdout);
    assert_eq!(shown[0], ["NAME", "DATA", "AGE"], "{}", ended.stdout);
    let first: Vec<_> = shown.iter().map(|row| row[0]).collect();
    assert_eq!(first, ["NAME", "first", "second"], "one head, and nothing that was not chosen");
}

/// What a Pod writes arrives as it is, while it runs and after.
#[tokio::test]
async fn logs_are_what_a_pod_has_written() {
    let folder = Folder::new();
    let server = Running::up_on(folder.path());
    let kubeconfig = server.kubeconfig();
    let types = |args: &[&str]| {
        let mut typed = command(args);
        typed.arg("--kubeconfig").arg(&kubeconfig);
        Running::start(typed)
    };
    // At first the namespace has no ServiceAccount yet.
    types(&["get", "serviceaccounts", "-w", "-o", "name"]).stdout_line("serviceaccount/default");
    let pod = |name: &str, containers: Value| {
        json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
            "spec": {"restartPolicy": "Never", "containers": containers},
        })
    };
    let container = |name: &str, script: &str| json!({"name": name, "image": "none", "command": ["sh", "-c", script]});
    let both = json!([container("a", "echo one; echo two"), container("b", "echo other")]);
    let talker = pod("talker", both).to_string();
    let ticker = pod("ticker", json!([container("a", "echo begun; exec sleep 600")])).to_string();
    let applied = types_with_stdin(&kubeconfig, &["apply", "-f", "-"], &(talker + "\n" + &ticker));
    assert_eq!(applied.stdout, "pod/talker created\npod/ticker created", "{}", applied.stderr);
    types(&["get", "pod", "talker", "-w"]).stdout_line("Completed");
    types(&["get", "pod", "ticker", "-w"]).stdout_line("1/1");

    let ambiguous = types(&["logs", "talker"]).ended();
    assert_eq!(ambiguous.code, Some(1), "{}", ambiguous.stderr);
    assert!(ambiguous.stderr.contains("say which: -c NAME."), "{}", ambiguous.stderr);
    for (args, expected) in [
        (&["logs", "talker", "-c", "a"][..], "one\ntwo"),
        (&["logs", "pod/talker", "-c", "b", "-f"], "other"),
        (&["logs", "talker", "-c", "a", "--tail", "1"], "two"),
        (&["logs", "talker", "-c", "a", "--since", "1h"], "one\ntwo"),
    ] {
        let ended = types(args).ended();
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), expected), "{}", ended.stderr);
    }
    let following = types(&["logs", "ticker", "-f"]);
    following.stdout_line("begun");
    let deleted = types(&["delete", "pod", "ticker"]).ended();
    assert_eq!(deleted.stdout, "pod \"ticker\" deleted from default namespace");
    assert_eq!(deleted.code, Some(0), "{}", deleted.stderr);
    let ended = following.ended();
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "begun"), "{}", ended.stderr);
}

/// The server alone says what it takes; whether its Pods run is the node's affair.
#[tokio::test]
async fn the_web_server_of_the_readme_is_applied_and_deleted() {
    let stage = Fixture::empty(&["--no-pods"]).await;
    let mut accounts = command(&["get", "serviceaccounts", "-w", "-o", "name", "--kubeconfig"]);
    accounts.arg(&stage.kubeconfig);
    Running::start(accounts).stdout_line("serviceaccount/default");
    let node = example("node");
    let applied = stage.prints(&["apply", "-f", &node]).await;
    assert_eq!(
        lines(&applied),
        [
            "configmap/nightly created",
            "job.batch/nightly created",
            "persistentvolumeclaim/web created",
            "pod/web created",
        ]
    );
    let shown = stage.prints(&["get", "pod", "web", "-o", "wide"]).await;
    assert_eq!(cells(&shown)[1][..3], ["web", "0/1", "Pending"], "{shown}");
    let deleted = stage.prints(&["delete", "pod", "web"]).await;
    assert_eq!(deleted, "pod \"web\" deleted from default namespace");
    let file = example("node/web.yaml");
    let again = stage.types(&["delete", "-f", &file, "--ignore-not-found", "--wait=false"]).await;
    assert_eq!(again.code, Some(0), "{}", again.stderr);
    assert_eq!(again.stdout, "persistentvolumeclaim \"web\" deleted from default namespace");
}
