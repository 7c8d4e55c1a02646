//! Lists that refer to each other, and texts that are programs.

use serde_json::{Value, json};

use super::body::base;
use super::{MAX_SMALL_RELATED_TIME, Run, SMALL_RELATED_BODY, WriteMethod};

const PODS: &str = "/api/v1/namespaces/default/pods";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// What a case is called, and its part of the object with so many elements.
type Case = (&'static str, fn(usize) -> Value);

impl Run {
    pub(super) async fn related_lists(&mut self) {
        if !self.is_full() {
            self.bytes = SMALL_RELATED_BODY;
            self.small_time = MAX_SMALL_RELATED_TIME;
        }
        for (number, (case, spec)) in pods().into_iter().enumerate() {
            let mut pod = base("v1", "Pod", &format!("p{number}"));
            self.filled(case, WriteMethod::Create, PODS, |count| {
                extend(&mut pod["spec"], spec(count));
                pod.clone()
            })
            .await;
            let path = format!("{PODS}/p{number}");
            // The same once more: the old list meets the new one.
            self.filled(case, WriteMethod::Update, &path, |count| {
                extend(&mut pod["spec"], spec(count));
                pod.clone()
            })
            .await;
        }
        for (number, (case, metadata)) in metadata().into_iter().enumerate() {
            let mut map = base("v1", "ConfigMap", &format!("m{number}"));
            for (method, path) in [
                (WriteMethod::Create, CONFIG_MAPS.to_owned()),
                (WriteMethod::Update, format!("{CONFIG_MAPS}/m{number}")),
            ] {
                self.filled(case, method, &path, |count| {
                    extend(&mut map["metadata"], metadata(count));
                    map.clone()
                })
                .await;
            }
        }
        self.patches().await;
        self.yaml().await;
        for (number, (case, schema)) in schemas().into_iter().enumerate() {
            let name = format!("d{number}");
            let mut definition = base("apiextensions.k8s.io/v1", "CustomResourceDefinition", &name);
            self.filled(case, WriteMethod::Create, DEFINITIONS, |count| {
                definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"] =
                    json!({"type": "object", "properties": {"spec": schema(count)}});
                definition.clone()
            })
            .await;
        }
    }

    /// Sends a body with as many elements as fit.
    async fn filled(
        &mut self,
        case: &str,
        method: WriteMethod,
        path: &str,
        mut body: impl FnMut(usize) -> Value,
    ) {
        if !case.contains(&self.filter) {
            return;
        }
        let mut count = 1_000;
        let each = body(count).to_string().len() / count;
        count = self.bytes / each.max(1);
        let text = loop {
            let text = body(count).to_string();
            if text.len() <= self.bytes {
                break text;
            }
            count = count * 9 / 10;
        };
        self.send(case, method, path, text).await;
    }

    /// Applied as YAML, which takes longer to read than JSON.
    async fn yaml(&mut self) {
        let head = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: yaml\n";
        for (case, member, line) in [
            ("members in YAML", "data", "  k%: v\n"),
            ("equal members in YAML", "data", "  k: v\n"),
            ("maps in YAML", "other", "- a: 1\n"),
            ("empty maps in YAML", "other", "- {}\n"),
        ] {
            if !case.contains(&self.filter) {
                continue;
            }
            let mut body = format!("{head}{member}:\n");
            let mut number = 0;
            while body.len() < self.bytes - 16 {
                body.push_str(&line.replace('%', &number.to_string()));
                number += 1;
            }
            self.send(case, WriteMethod::Apply, &format!("{CONFIG_MAPS}/yaml"), body).await;
        }
    }

    /// Patches of a long list, by its elements.
    async fn patches(&mut self) {
        let path = format!("{PODS}/patched");
        let mut pod = base("v1", "Pod", "patched");
        self.filled("patched", WriteMethod::Create, PODS, |count| {
            pod["spec"]["containers"][0]["env"] =
                list(count, |i| json!({"name": format!("E{i}"), "value": ""}));
            pod.clone()
        })
        .await;
        let env = |patch: Value| json!({"spec": {"containers": [{"name": "a", "env": patch}]}});
        self.filled("deletions of elements", WriteMethod::Strategic, &path, |count| {
            env(list(count, |i| json!({"name": format!("E{i}"), "$patch": "delete"})))
        })
        .await;
        self.filled("an order of elements", WriteMethod::Strategic, &path, |count| {
            let order = list(count, |i| json!({"name": format!("E{}", count - i)}));
            let mut container = json!({"name": "a"});
            container["$setElementOrder/env"] = order;
            json!({"spec": {"containers": [container]}})
        })
        .await;
        self.filled("keys to retain", WriteMethod::Strategic, &path, |count| {
            let mut labels = json!({"$retainKeys": list(count, |i| json!(format!("a{i}")))});
            (0..count).for_each(|i| labels[format!("a{i}")] = json!(""));
            json!({"metadata": {"labels": labels}})
        })
        .await;
        let operation =
            |op: &str| json!({"op": op, "path": "/spec/containers/0/env/0", "value": {}});
        for op in ["add", "remove"] {
            self.filled("operations at the front", WriteMethod::Json, &path, |count| {
                list(count.min(10_000), |_| operation(op))
            })
            .await;
        }
        self.filled("moves of all", WriteMethod::Json, &path, |count| {
            list(count.min(10_000), |i| match i % 2 {
                0 => json!({"op": "move", "from": "/spec", "path": "/elsewhere"}),
                _ => json!({"op": "move", "from": "/elsewhere", "path": "/spec"}),
            })
        })
        .await;
    }
}

fn extend(object: &mut Value, members: Value) {
    let Value::Object(members) = members else { panic!("a part of an object is an object") };
    object.as_object_mut().expect("the part is there").extend(members);
}

fn list(count: usize, item: impl Fn(usize) -> Value) -> Value {
    (0..count).map(item).collect()
}

fn container(members: Value) -> Value {
    let mut container = json!({"name": "a", "image": "i"});
    extend(&mut container, members);
    json!({"containers": [container]})
}

fn ip(i: usize) -> String {
    format!("10.{}.{}.{}", i >> 16 & 255, i >> 8 & 255, i & 255)
}

fn pods() -> Vec<Case> {
    vec![
        ("equal ports", |n| container(json!({"ports": list(n, |_| json!({"containerPort": 1}))}))),
        ("ports of different host ports", |n| {
            let ports = list(n, |i| json!({"containerPort": 1, "hostPort": i % 65_000 + 1}));
            container(json!({"ports": ports}))
        }),
        ("ports of different addresses", |n| {
            let ports = list(n, |i| json!({"containerPort": 1, "hostPort": 1, "hostIP": ip(i)}));
            container(json!({"ports": ports}))
        }),
        ("mounts of volumes", |n| {
            let mounts =
                list(n / 2, |i| json!({"name": format!("v{i}"), "mountPath": format!("/{i}")}));
            let mut spec = container(json!({"volumeMounts": mounts}));
            spec["volumes"] =
                list(n / 2, |i| json!({"name": format!("v{}", n / 2 - 1 - i), "emptyDir": {}}));
            spec
        }),
        ("files of volumes", |n| {
            let files = list(n / 2, |i| {
                let file = json!({"key": "A", "path": "p", "volumeName": format!("v{i}")});
                json!({"name": "E", "valueFrom": {"fileKeyRef": file}})
            });
            let mut spec = container(json!({"env": files}));
            spec["volumes"] =
                list(n / 2, |i| json!({"name": format!("v{}", n / 2 - 1 - i), "emptyDir": {}}));
            spec
        }),
        ("claims of ephemeral volumes", |n| {
            json!({"volumes": list(n, |i| match i % 2 {
                0 => json!({"name": format!("v{i}"), "ephemeral": {}}),
                _ => json!({"name": format!("v{i}"), "persistentVolumeClaim": {"claimName": "c"}}),
            })})
        }),
        ("equal files", |n| {
            let items = list(n, |_| json!({"key": "k", "path": "a"}));
            json!({"volumes": [{"name": "v", "configMap": {"name": "c", "items": items}}]})
        }),
        ("files side by side", |n| {
            let items = list(n, |i| json!({"key": "k", "path": format!("a/{i}")}));
            json!({"volumes": [{"name": "v", "configMap": {"name": "c", "items": items}}]})
        }),
        ("a deep file", |n| {
            let deep = json!({"key": "k", "path": "a/".repeat(n / 2)});
            let items = [deep.clone(), deep];
            json!({"volumes": [{"name": "v", "configMap": {"name": "c", "items": items}}]})
        }),
        ("claims that there are", |n| {
            let claims = list(n / 2, |i| json!({"name": format!("c{i}")}));
            let mut spec = container(json!({"resources": {"claims": claims}}));
            spec["resourceClaims"] =
                list(n / 2, |i| json!({"name": format!("c{i}"), "resourceClaimName": "r"}));
            spec
        }),
        ("claims that there are not", |n| {
            let claims = list(n / 2, |i| json!({"name": format!("d{i}")}));
            let mut spec = container(json!({"resources": {"claims": claims}}));
            spec["resourceClaims"] =
                list(n / 2, |i| json!({"name": format!("c{i}"), "resourceClaimName": "r"}));
            spec
        }),
        ("sidecars with resources", |n| {
            let requests = |i: usize| json!({"requests": {format!("a.b/{i}"): "1"}});
            let mut spec = json!({"resources": {"limits": {"cpu": "1"}}});
            spec["initContainers"] = list(n, |i| {
                let name = format!("c{i}");
                json!({"name": name, "image": "i", "restartPolicy": "Always", "resources": requests(i)})
            });
            spec
        }),
        ("tolerations", |n| {
            json!({"tolerations": list(n, |i| {
                json!({"key": format!("k{i}"), "operator": "Exists"})
            })})
        }),
        ("gates", |n| json!({"schedulingGates": list(n, |i| json!({"name": format!("g{i}")}))})),
        ("constraints", |n| {
            json!({"topologySpreadConstraints": list(n, |i| json!({
                "maxSkew": 1, "topologyKey": format!("k{i}"), "whenUnsatisfiable": "DoNotSchedule",
            }))})
        }),
        ("keys of labels", |n| {
            json!({"topologySpreadConstraints": [{
                "maxSkew": 1, "topologyKey": "k", "whenUnsatisfiable": "DoNotSchedule",
                "matchLabelKeys": list(n / 2, |i| json!(format!("k{i}"))),
                "labelSelector": {"matchExpressions": list(n / 2, |i| {
                    json!({"key": format!("k{}", n / 2 - i), "operator": "Exists"})
                })},
            }]})
        }),
        ("targets of ephemeral containers", |n| {
            let containers = list(n / 2, |i| json!({"name": format!("c{i}"), "image": "i"}));
            let ephemeral = list(n / 2, |i| {
                json!({
                    "name": format!("e{i}"), "image": "i", "targetContainerName": format!("c{}", n / 2 - i),
                })
            });
            json!({"containers": containers, "ephemeralContainers": ephemeral})
        }),
    ]
}

fn metadata() -> Vec<Case> {
    fn owner(i: usize) -> Value {
        json!({"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": format!("u{i}")})
    }
    fn fields(i: usize, time: usize) -> Value {
        json!({
            "manager": format!("m{i}"), "operation": "Update", "apiVersion": "v1",
            "time": format!("2024-01-01T00:{:02}:{:02}Z", time / 60 % 60, time % 60),
            "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {format!("f:k{i}"): {}}},
        })
    }
    vec![
        ("equal owners", |n| json!({"ownerReferences": list(n, |_| owner(0))})),
        ("different owners", |n| json!({"ownerReferences": list(n, owner)})),
        ("many controllers", |n| {
            json!({"ownerReferences": list(n, |i| {
                let mut owner = owner(i);
                owner["controller"] = json!(true);
                owner
            })})
        }),
        ("finalizers", |n| json!({"finalizers": list(n, |i| json!(format!("a.b/{i}")))})),
        ("labels", |n| {
            json!({"labels": (0..n).map(|i| (format!("k{i}"), json!("v")))
            .collect::<serde_json::Map<_, _>>()})
        }),
        ("equal managers", |n| json!({"managedFields": list(n, |_| fields(0, 0))})),
        ("different managers", |n| json!({"managedFields": list(n, |i| fields(i, i))})),
    ]
}

fn schemas() -> Vec<Case> {
    vec![
        ("a pattern of braces", |n| json!({"type": "string", "pattern": "{".repeat(n)})),
        (
            "a pattern of classes",
            |n| json!({"type": "string", "pattern": format!("[{}]", "[:".repeat(n / 2))}),
        ),
        ("a pattern of letters", |n| json!({"type": "string", "pattern": r"\pL".repeat(n / 4)})),
        ("a pattern of groups", |n| json!({"type": "string", "pattern": "(".repeat(n)})),
        ("a rule with a pattern of braces", |n| {
            rule(&format!("self.matches('{}')", "{".repeat(n)))
        }),
        ("a rule with a pattern of classes", |n| {
            rule(&format!("self.matches('[{}]')", "[:".repeat(n / 2)))
        }),
        ("a rule that adds", |n| rule(&format!("self.size() > 0{}", " + 1".repeat(n / 4)))),
        ("a rule in parentheses", |n| {
            rule(&format!("{}true{}", "(".repeat(n / 2), ")".repeat(n / 2)))
        }),
        ("many rules", |n| {
            json!({"type": "string", "x-kubernetes-validations": list(n, |_| {
                json!({"rule": "self != ''"})
            })})
        }),
        (
            "allowed values",
            |n| json!({"type": "string", "enum": list(n, |i| json!(format!("e{i}")))}),
        ),
        ("keys of a list", |n| {
            json!({
                "type": "array", "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": list(n, |i| json!(format!("k{i}"))),
                "items": {"type": "object", "properties": {"k0": {"type": "string"}}},
            })
        }),
        (
            "required members",
            |n| json!({"type": "object", "required": list(n, |i| json!(format!("k{i}")))}),
        ),
    ]
}

fn rule(rule: &str) -> Value {
    json!({"type": "string", "x-kubernetes-validations": [{"rule": rule}]})
}
