//! What differs between two servers that do the same: times, ids, versions.

use std::sync::LazyLock;

use regex::Regex;

/// In this order: later patterns see what earlier ones left.
const PATTERNS: &[(&str, &str)] = &[
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UID"),
    (r"eyJ[\w-]+\.[\w-]+\.[\w-]+", "JWT"),
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z| [+-]\d{4})", "TIME"),
    (r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d [+-]\d{4}", "TIME"),
    (r#"((?i:resourceVersion|resource version)"?: +"?)\d+"#, "${1}VERSION"),
    (r"(/tmp/(?:LIVE|MERGED|kubectl-edit))-\d+", "$1"),
    (r"(?m)^[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ ", "LOG "),
    (r"kube-api-access-[a-z0-9]{5}", "kube-api-access-RANDOM"),
    // The build is told after a plus.
    (r"(Server Version: v\d+\.\d+\.\d+|v\d+\.\d+\.\d+)\+[\w.]+", "$1"),
    // Ages stand alone in a cell, or in brackets.
    (r"(?m)( |\()\d+[smh](\d+[smh])?( ago)?( |\)|$)", "${1}AGE$3$4"),
    // The width of a column depends on what is in it.
    (r"(?m)(\S) {2,}", "$1  "),
    // A real server's address repair may find a Service before its own allocator has told it.
    (r"(?m)^.*ClusterIPNotAllocated.*\n?", ""),
    (r"Events:\n +Type +Reason +Age +From +Message\n[ -]+\n?\z", "Events:  <none>\n"),
];

pub(crate) fn normalize(text: &str) -> String {
    static COMPILED: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
        let compiled = PATTERNS.iter().map(|(pattern, put)| {
            (Regex::new(pattern).unwrap_or_else(|e| panic!("{pattern}: {e}")), *put)
        });
        compiled.collect()
    });
    let mut text = text.to_owned();
    for (pattern, put) in &*COMPILED {
        text = pattern.replace_all(&text, *put).into_owned();
    }
    // Where the last line was taken away, the one before it still ends with a line break.
    text.truncate(text.trim_end_matches('\n').len());
    text
}

#[test]
fn what_differs_by_nature_is_levelled() {
    for (printed, expected) in [
        (
            "NAME      STATUS   AGE\ndefault   Active   15s",
            "NAME  STATUS  AGE\ndefault  Active  AGE",
        ),
        ("a   1   3m2s   x", "a  1  AGE  x"),
        ("  uid: 273dbb0f-ffb6-4c07-b69e-6d1a4c2e1ce9", "  uid: UID"),
        (r#"    "resourceVersion": "123","#, r#"    "resourceVersion": "VERSION","#),
        ("Resource Version:  77", "Resource Version:  VERSION"),
        ("creationTimestamp: \"2025-11-15T22:24:00Z\"", "creationTimestamp: \"TIME\""),
        ("CreationTimestamp:  Sat, 15 Nov 2025 22:24:00 +0000", "CreationTimestamp:  TIME"),
        (
            "Events:\n  Type   Reason  Age  From  Message\n  ----   ------  ---- ----  -------\n  \
             Warning  ClusterIPNotAllocated  5s  x  y\n",
            "Events:  <none>",
        ),
        ("LAST SEEN  TYPE\n5s  Warning  ClusterIPNotAllocated  x", "LAST SEEN  TYPE"),
        ("Server Version: v1.36.3+sojourn.0.1.0", "Server Version: v1.36.3"),
        ("--- /tmp/LIVE-3401/v1.x\t2025-11-15 22:24:00.123 +0000", "--- /tmp/LIVE/v1.x\tTIME"),
    ] {
        assert_eq!(normalize(printed), expected);
    }
}
