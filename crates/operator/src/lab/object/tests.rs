use k8s_openapi::api::core::v1::PodSpec;
use serde_json::json;

use super::*;
use crate::lab::sample;

fn environment(change: &serde_json::Value) -> Environment {
    let mut one = serde_json::to_value(&sample::template(json!({})).spec.environment_list[0])
        .expect("an environment");
    for (name, value) in change.as_object().expect("fields") {
        one[name] = value.clone();
    }
    serde_json::from_value(one).expect("an environment")
}

fn submitter() -> Submitter {
    Submitter {
        image: "registry/sojourn:1".to_owned(),
        program: "/bin/sojourn".to_owned(),
        several: false,
        allowed_addresses: vec!["10.0.0.0/8".to_owned()],
    }
}

fn submission(change: &serde_json::Value) -> Submission {
    let mut one = json!({"url": "https://exams.example/in"});
    for (name, value) in change.as_object().expect("fields") {
        one[name] = value.clone();
    }
    serde_json::from_value(one).expect("a submission")
}

fn hand() -> SubmissionJob<'static> {
    SubmissionJob { environment: "web", block: false, series: 1, idempotency_key: "k" }
}

fn submit_job() -> Job {
    let instance = sample::instance(json!({}));
    let hand = SubmissionJob { series: 2, idempotency_key: "k-1", ..hand() };
    job(&instance, &submission(&json!({})), hand, &submitter())
}

fn pod_of(job: &Job) -> &PodSpec {
    let spec = job.spec.as_ref().expect("a spec");
    spec.template.spec.as_ref().expect("a Pod")
}

fn style() -> IngressStyle {
    IngressStyle {
        gateway: GatewayService {
            namespace: "sojourn-system".to_owned(),
            name: "web".to_owned(),
            port: 8443,
        },
        domain: "apps.example.net".to_owned(),
        class_name: Some("nginx".to_owned()),
        host: Some("l.ex".to_owned()),
        annotations: BTreeMap::from([("example.org/backend".to_owned(), "HTTPS".to_owned())]),
    }
}

fn texts(list: &[&str]) -> Vec<String> {
    list.iter().map(|&text| text.to_owned()).collect()
}

#[test]
fn everything_of_an_instance_is_owned_by_it_and_says_so() {
    let instance = sample::instance(json!({}));
    let web = environment(&json!({}));
    let style = style();
    let all = [
        claim(&instance, &web, false).metadata,
        pod(&instance, &web, "/", None, None).metadata,
        service(&instance, &web).expect("it listens").metadata,
        ingress(&instance, &web, &style).expect("it listens").metadata,
    ];
    for metadata in all {
        assert_eq!(metadata.name.as_deref(), Some("ada-web"));
        assert_eq!(metadata.namespace.as_deref(), Some("course"));
        let labels = metadata.labels.expect("labels");
        assert_eq!(labels["lab.sojourn.dev/instance"], "ada");
        assert_eq!(labels["lab.sojourn.dev/environment"], "web");
        assert_eq!(labels["app.kubernetes.io/managed-by"], "sojourn");
        let [owner] = metadata.owner_references.expect("an owner").try_into().expect("one");
        assert_eq!((owner.kind.as_str(), owner.name.as_str()), ("Instance", "ada"));
        assert_eq!((owner.uid.as_str(), owner.controller), ("u-1", Some(true)));
    }
}

fn report() -> ReportTo {
    ReportTo {
        url: "https://lab.example/report/lab/course/ada".to_owned(),
        secret: secret_name("ada", "7f"),
    }
}

#[test]
fn the_pod_finds_its_data_its_path_and_its_token() {
    let instance = sample::instance(json!({}));
    let report = report();
    let made = pod(&instance, &environment(&json!({})), "/", Some(&report), None);
    let spec = made.spec.expect("a spec");
    assert_eq!(spec.automount_service_account_token, Some(false), "it has no business in the API");
    assert_eq!(spec.enable_service_links, Some(false));
    let volumes = spec.volumes.expect("a volume");
    let source = volumes[0].persistent_volume_claim.as_ref().expect("a claim");
    assert_eq!((source.claim_name.as_str(), source.read_only), ("ada-web", None));
    let [container] = spec.containers.try_into().expect("one container");
    assert_eq!(container.volume_mounts.expect("a mount")[0].mount_path, "/data");
    assert_eq!(container.volume_devices, None);
    let env = container.env.expect("an environment");
    let named = |name: &str| env.iter().find(|one| one.name == name).expect("a variable");
    assert_eq!(named("SOJOURN_BASE_PATH").value.as_deref(), Some("/"));
    assert_eq!(named("SOJOURN_REPORT_URL").value.as_ref(), Some(&report.url));
    let token = named("SOJOURN_REPORT_TOKEN");
    assert_eq!(token.value, None, "who may read the Pod must not read the token");
    let secret = token.value_from.as_ref().and_then(|from| from.secret_key_ref.as_ref());
    let secret = secret.expect("a Secret");
    assert_eq!((secret.name.as_str(), secret.key.as_str()), ("ada-report-7f", "token"));
}

#[test]
fn a_pod_that_stands_in_says_since_when() {
    let instance = sample::instance(json!({}));
    let since = "2026-11-16T04:00:00Z";
    let stands_in = pod(&instance, &environment(&json!({})), "/", None, since.parse().ok());
    let annotations = stands_in.metadata.annotations.expect("one");
    assert_eq!(annotations.get(SINCE).map(String::as_str), Some(since));
}

#[test]
fn a_disk_is_a_device_and_nothing_is_a_nothing() {
    let instance = sample::instance(json!({}));
    let disk = environment(&json!({"volumeMode": "Block", "mountPath": "/dev/disk"}));
    let spec = pod(&instance, &disk, "/", None, None).spec.expect("a spec");
    assert_eq!(spec.containers[0].volume_mounts, None);
    let devices = spec.containers[0].volume_devices.as_ref().expect("a device");
    assert_eq!(devices[0].device_path, "/dev/disk");
    let claimed = claim(&instance, &disk, false).spec.expect("a spec");
    assert_eq!(claimed.volume_mode.as_deref(), Some("Block"));
    let size = claimed.resources.and_then(|all| all.requests).expect("a size");
    assert_eq!(size["storage"].0, "1Gi");

    let scratch = environment(&json!({"persistent": false, "image": "", "ports": []}));
    let spec = pod(&instance, &scratch, "/", None, None).spec.expect("a spec");
    assert_eq!((&spec.volumes, &spec.containers[0].volume_mounts), (&None, &None));
    assert!(spec.containers[0].image.is_some(), "the API insists on one");
    assert_eq!(service(&instance, &scratch), None);
    assert_eq!(ingress(&instance, &scratch, &style()), None);
    assert_eq!(gateway_service(&instance, &scratch, &style()), None);
}

#[test]
fn the_way_in_leads_to_the_first_port() {
    let instance = sample::instance(json!({}));
    let ports = json!([{"containerPort": 8080}, {"name": "ssh", "containerPort": 22}]);
    let web = environment(&json!({"ports": ports}));
    let spec = service(&instance, &web).and_then(|service| service.spec).expect("a spec");
    let named: Vec<_> = spec.ports.iter().flatten().map(|p| (p.name.as_deref(), p.port)).collect();
    assert_eq!(named, [(Some("port-8080"), 8080), (Some("ssh"), 22)]);
    let selector = spec.selector.expect("a selector");
    assert_eq!(selector.keys().collect::<Vec<_>>(), [lab::ENVIRONMENT, lab::INSTANCE]);
}

#[test]
fn an_ingress_leads_to_the_gateway_and_nowhere_else() {
    let instance = sample::instance(json!({}));
    let web = environment(&json!({"ports": [{"containerPort": 8080}]}));
    let ingress = ingress(&instance, &web, &style()).expect("it listens");
    assert_eq!(ingress.metadata.annotations.expect("annotations")["example.org/backend"], "HTTPS");
    let spec = ingress.spec.expect("a spec");
    assert_eq!(spec.ingress_class_name.as_deref(), Some("nginx"));
    assert_eq!(spec.default_backend, None);
    let mut ways = Vec::new();
    for rule in spec.rules.expect("rules") {
        for path in rule.http.expect("paths").paths {
            let service = path.backend.service.expect("a Service");
            let port = service.port.and_then(|port| port.number);
            assert_eq!((service.name.as_str(), port), ("ada-web-gateway", Some(8443)));
            ways.push((rule.host.clone().expect("a host"), path.path.expect("a path")));
        }
    }
    let [(origin, root), (own, path)] = &ways[..] else { panic!("{ways:?}") };
    assert!(origin.starts_with("web-ada-") && origin.ends_with(".apps.example.net"), "{origin}");
    assert_eq!((root.as_str(), own.as_str()), ("/", "l.ex"));
    assert_eq!(path, "/go/lab/course/ada/web/");

    let gateway = gateway_service(&instance, &web, &style()).expect("it listens");
    assert_eq!(gateway.metadata.name.as_deref(), Some("ada-web-gateway"));
    assert!(gateway.metadata.owner_references.is_some(), "it goes with the Instance");
    let spec = gateway.spec.expect("a spec");
    assert_eq!(spec.type_.as_deref(), Some("ExternalName"));
    assert_eq!(spec.external_name.as_deref(), Some("web.sojourn-system.svc.cluster.local"));
    assert_eq!(spec.selector, None, "it leads to no Pod");
}

#[test]
fn the_reports_token_is_of_the_whole_instance() {
    let secret = report_secret(&sample::instance(json!({})), &report(), "s3cret");
    assert_eq!(secret.metadata.name.as_deref(), Some("ada-report-7f"));
    let labels = secret.metadata.labels.expect("labels");
    assert_eq!(labels[lab::INSTANCE], "ada");
    assert!(!labels.contains_key(lab::ENVIRONMENT));
    assert!(secret.metadata.owner_references.is_some());
    assert_eq!(secret.data.expect("data")[REPORT_TOKEN].0, b"s3cret");
}

// case: lab S3
#[test]
fn a_submission_is_a_job_with_owner_and_labels() {
    let job = submit_job();
    assert_eq!(job.metadata.name.as_deref(), Some("ada-web-submit-2"));
    let [owner] = job.metadata.owner_references.expect("an owner").try_into().expect("one");
    assert_eq!((owner.kind.as_str(), owner.uid.as_str()), ("Instance", "u-1"));
    let labels = job.metadata.labels.expect("labels");
    assert_eq!(labels[lab::INSTANCE], "ada");
    assert_eq!(labels[lab::ENVIRONMENT], "web");
    assert_eq!(labels[SUBMISSION], "2");
    let template = job.spec.expect("a spec").template.metadata.expect("metadata");
    assert_eq!(template.labels, Some(labels), "its Pods are told from the environment's");
}

// A Pod of its own for every attempt keeps what each one said, so `OnFailure` is `Never` here; the
// lifetime of 300 s begins when the outcome is on record, not before.
// case: lab S4
#[test]
fn a_submission_is_bounded_and_may_do_nothing_else() {
    let job = submit_job();
    let spec = job.spec.as_ref().expect("a spec");
    assert_eq!(spec.backoff_limit, Some(9), "ten attempts");
    assert_eq!(spec.ttl_seconds_after_finished, None, "its outcome must be read first");
    assert_eq!(FINISHED_JOB_SECONDS, 300);
    let pod = pod_of(&job);
    assert_eq!(pod.restart_policy.as_deref(), Some("Never"));
    assert_eq!(pod.automount_service_account_token, Some(false));
    let user = pod.security_context.as_ref().expect("a user");
    assert_eq!(user.run_as_non_root, Some(true));
    let container = pod.containers[0].security_context.as_ref().expect("bounds");
    assert_eq!(container.allow_privilege_escalation, Some(false));
    let dropped = container.capabilities.as_ref().and_then(|all| all.drop.clone());
    assert_eq!(dropped, Some(texts(&["ALL"])));
    let volume = pod.volumes.as_ref().expect("a volume")[0].persistent_volume_claim.as_ref();
    assert_eq!(volume.expect("the claim").claim_name, "ada-web");
    let mount = &pod.containers[0].volume_mounts.as_ref().expect("a mount")[0];
    assert_eq!((mount.mount_path.as_str(), mount.read_only), ("/submission", Some(true)));
}

// What elsewhere are three variables of the environment are arguments here.
// case: lab S5
#[test]
fn the_submitter_is_one_command_with_its_share_of_the_machine() {
    let job = submit_job();
    let container = &pod_of(&job).containers[0];
    assert_eq!(container.image.as_deref(), Some("registry/sojourn:1"));
    assert_eq!(container.command, Some(texts(&["/bin/sojourn"])));
    let args = [
        "submit",
        "--filename",
        "ada-web",
        "--url",
        "https://exams.example/in",
        "--method",
        "Multipart",
        "--idempotency-key",
        "k-1",
        "--root",
        "/submission",
        "--allow-address",
        "10.0.0.0/8",
    ];
    assert_eq!(container.args, Some(texts(&args)));
    assert_eq!((&container.ports, &container.env), (&None, &None));
    assert!(container.readiness_probe.is_none() && container.liveness_probe.is_none());
    let resources = container.resources.as_ref().expect("resources");
    let amounts = |map: &Option<BTreeMap<String, Quantity>>| {
        let map = map.as_ref().expect("amounts");
        (map["cpu"].0.clone(), map["memory"].0.clone())
    };
    assert_eq!(amounts(&resources.requests), ("500m".to_owned(), "256Mi".to_owned()));
    assert_eq!(amounts(&resources.limits), ("1".to_owned(), "1Gi".to_owned()));
}

// case: lab S13
#[test]
fn a_disk_is_handed_in_as_a_device() {
    let instance = sample::instance(json!({}));
    let disk = SubmissionJob { block: true, ..hand() };
    let job = job(&instance, &submission(&json!({})), disk, &submitter());
    let container = &pod_of(&job).containers[0];
    let args = container.args.as_ref().expect("arguments");
    assert!(args.windows(2).any(|pair| pair == ["--device", "/submission"]), "{args:?}");
    assert!(!args.contains(&"--root".to_owned()));
    let device = &container.volume_devices.as_ref().expect("a device")[0];
    assert_eq!(device.device_path, "/submission");
}

#[test]
fn credentials_are_a_folder_and_no_argument() {
    let instance = sample::instance(json!({}));
    let submission = submission(&json!({"method": "S3", "secretRef": {"name": "exam-store"}}));
    let job = job(&instance, &submission, hand(), &submitter());
    let pod = pod_of(&job);
    let args = pod.containers[0].args.as_ref().expect("arguments");
    assert!(args.windows(2).any(|pair| pair == ["--method", "S3"]));
    assert!(args.windows(2).any(|pair| pair == ["--secret-dir", "/submission-secret"]));
    let volumes = pod.volumes.as_ref().expect("volumes");
    let secret = volumes[1].secret.as_ref().expect("a Secret");
    assert_eq!(secret.secret_name.as_deref(), Some("exam-store"));
    let mounts = pod.containers[0].volume_mounts.as_ref().expect("mounts");
    assert_eq!(
        (mounts[1].mount_path.as_str(), mounts[1].read_only),
        ("/submission-secret", Some(true))
    );
}

#[test]
fn several_uploads_to_one_place_do_not_overwrite_each_other() {
    let instance = sample::instance(json!({}));
    let url_of = |method: &str, several: bool, url: &str| {
        let submission = submission(&json!({"method": method, "url": url}));
        let by = Submitter { several, ..submitter() };
        let job = job(&instance, &submission, hand(), &by);
        pod_of(&job).containers[0].args.as_ref().expect("arguments")[4].clone()
    };
    for (method, several, url, sent) in [
        ("Put", false, "https://x/in", "https://x/in"),
        ("Put", true, "https://x/in", "https://x/in/"),
        ("Put", true, "https://x/in/", "https://x/in/"),
        ("Multipart", true, "https://x/in", "https://x/in"),
    ] {
        assert_eq!(url_of(method, several, url), sent, "{method} {several} {url}");
    }
}

#[test]
fn a_claim_whose_data_is_owed_cannot_go_without_us() {
    let instance = sample::instance(json!({}));
    let web = environment(&json!({}));
    let finalizers = |held| claim(&instance, &web, held).metadata.finalizers;
    assert_eq!(finalizers(true), Some(texts(&["lab.sojourn.dev/submission"])));
    assert_eq!(finalizers(false), None);
}
