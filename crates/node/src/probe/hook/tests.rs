use k8s_openapi::api::core::v1::{ExecAction, HTTPGetAction, SleepAction};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use tokio::time::Instant;

use super::super::PodPorts;
use super::super::tests::Script;
use super::*;

fn pod() -> Pod {
    let text = |text: &str| Some(text.to_owned());
    let metadata = ObjectMeta {
        name: text("p"),
        namespace: text("ns"),
        uid: text("u"),
        ..ObjectMeta::default()
    };
    Pod { metadata, ..Pod::default() }
}

async fn run_with(handler: &LifecycleHandler, answers: &str) -> Result<(), String> {
    let access = Access {
        pod_ip: [127, 0, 0, 1].into(),
        ports: PodPorts::default(),
        exec: Script::new(answers),
        route: crate::dial::PodRoute::Machine,
    };
    let ran = run(handler, &pod(), "web", &access, Duration::from_secs(30)).await;
    ran.map_err(|error| error.to_string())
}

#[tokio::test(start_paused = true)]
async fn commands_are_run_once() {
    let command = vec!["sh".to_owned(), "-c".to_owned()];
    let exec = LifecycleHandler {
        exec: Some(ExecAction { command: Some(command) }),
        ..LifecycleHandler::default()
    };
    let whose = "Exec lifecycle hook ([sh -c]) for Container \"web\" in Pod \"p_ns(u)\" failed";
    let cases = [
        ("s", Ok(())),
        ("f", Err(format!("{whose} - error: command 'sh -c' exited with 3, message: \"sick\""))),
        ("t", Err(format!("{whose} - error: command 'sh -c' did not end within 30s"))),
        ("?", Err(format!("{whose} - error: no such file"))),
    ];
    for (answers, expected) in cases {
        assert_eq!(run_with(&exec, answers).await, expected, "{answers}");
    }
}

#[tokio::test(start_paused = true)]
async fn sleep_ends_with_the_grace() {
    let sleep = |seconds| LifecycleHandler {
        sleep: Some(SleepAction { seconds }),
        ..LifecycleHandler::default()
    };
    let late = "Sleep lifecycle hook (31) for Container \"web\" in Pod \"p_ns(u)\" failed - error: \
                container terminated before sleep hook finished";
    let cases = [(5, 5, Ok(())), (30, 30, Ok(())), (-1, 0, Ok(())), (31, 30, Err(late.to_owned()))];
    for (seconds, took, expected) in cases {
        let since = Instant::now();
        assert_eq!(run_with(&sleep(seconds), "s").await, expected, "{seconds}");
        assert_eq!(since.elapsed().as_secs(), took, "{seconds}");
    }
}

#[tokio::test]
async fn hooks_say_what_to_do_and_only_to_the_pod_itself() {
    let nothing = run_with(&LifecycleHandler::default(), "s").await.unwrap_err();
    assert!(nothing.starts_with("Cannot run handler: "), "{nothing}");
    let foreign = LifecycleHandler {
        http_get: Some(HTTPGetAction {
            path: Some("/admin".to_owned()),
            port: IntOrString::Int(2379),
            ..HTTPGetAction::default()
        }),
        ..LifecycleHandler::default()
    };
    let refused = run_with(&foreign, "s").await.unwrap_err();
    let expected = "HTTP lifecycle hook (/admin) for Container \"web\" in Pod \"p_ns(u)\" failed - \
                    error: port 2379 is not one of the Pod's own TCP ports";
    assert!(refused.starts_with(expected), "{refused}");
}
