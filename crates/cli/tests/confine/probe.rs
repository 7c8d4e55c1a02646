//! The escapes that somebody may try, as data: many of them in one container, each with what it
//! must answer.

mod calls;
mod commands;

use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use sojourn_node::shim::protocol::Start;

use self::calls::{PROBES, Value};
use self::commands::AREAS;
use crate::pod::{Pod, TestFolder, give, mount};
use crate::skip;

/// How long one of them may take.
const SECONDS: u32 = 10;
/// As many as somebody has once tried, all in vain.
const BREADTH: usize = 208;

#[test]
fn the_tables_cover_many_escapes() {
    let commands: usize = AREAS.iter().map(|area| area.commands.len()).sum();
    assert!(commands + PROBES.len() >= BREADTH, "{commands} and {}", PROBES.len());
}

/// Says the number of every command that did not fail, and of those whose program is not here.
fn try_all(commands: &[&str]) -> String {
    let mut script = String::new();
    for (number, command) in commands.iter().enumerate() {
        let quoted = command.replace('\'', r"'\''");
        let _ = write!(
            script,
            "timeout {SECONDS} /bin/sh -c '{quoted}' </dev/null >/tmp/said 2>&1; code=$?; \
             case $code in 0) echo open {number};; 127) echo missing {number};; esac\n\
             grep -q SECRET /tmp/said && echo leaked {number}\n"
        );
    }
    script.push_str("echo done");
    script
}

#[tokio::test]
async fn no_command_of_the_table_gets_anywhere() {
    let marker = format!("8{:08}", std::process::id());
    let mut foreign = Command::new("sleep").arg(&marker).spawn().expect("it runs");
    let other = TestFolder::new();
    let secret = other.volume("other");
    std::fs::write(secret.join("secret"), "SECRET").expect("a file");
    give(&secret.join("secret"));

    let mut pod = Pod::launch().await;
    let volume = pod.test_folder().volume("volume");
    std::fs::write(volume.join("x"), vec![0; 1 << 16]).expect("a file");
    give(&volume.join("x"));
    let commands: Vec<&str> = AREAS.iter().flat_map(|area| area.commands).copied().collect();
    let mut start =
        Start { mounts: vec![mount("/volume", &volume)], ..pod.shell(&try_all(&commands)) };
    let foreign_id = foreign.id().to_string();
    for (name, value) in [
        ("DATA", pod.folder.path().to_str().expect("a plain path")),
        ("OTHER", secret.to_str().expect("a plain path")),
        ("FOREIGN", &foreign_id),
        ("MARKER", &marker),
    ] {
        start.env.push((name.to_owned(), value.to_owned()));
    }
    let outcome = pod.finish(start).await;
    assert!(foreign.try_wait().expect("it is ours").is_none(), "the machine's process lives");
    foreign.kill().expect("it is ours");
    foreign.wait().expect("it is ours");

    let mut lines: Vec<&str> = outcome.text.lines().collect();
    assert_eq!(lines.pop(), Some("done"), "{}", outcome.text);
    let mut open = Vec::new();
    for line in lines {
        let (what, number) = line.split_once(' ').expect("two words");
        let command = commands[number.parse::<usize>().expect("a number")];
        let area = AREAS.iter().find(|area| area.commands.contains(&command)).expect("one has it");
        if what == "missing" {
            eprintln!("not tried, no such program here: {command}");
        } else {
            open.push(format!("{what}: {}: {command}", area.name));
        }
    }
    assert!(open.is_empty(), "{open:#?}");
    pod.end().await;
}

/// A program that makes every call of the table and says which did not answer as it should.
fn caller() -> String {
    let mut program = String::from("my ($n, $r) = (0); my @b;\n");
    for probe in PROBES {
        let arguments = probe.arguments.iter().map(|value| match value {
            Value::Number(number) => format!("{number}"),
            Value::Text(text) => {
                let bytes: Vec<String> = text.bytes().map(|byte| byte.to_string()).collect();
                format!("pack('C*', {})", [bytes, vec!["0".to_owned()]].concat().join(", "))
            }
            Value::Zeros(count) => format!("\"\\0\" x {count}"),
        });
        let arguments: Vec<String> = arguments.collect();
        // What a call may write to must be a variable.
        let _ = writeln!(
            program,
            "@b = ({}); $r = syscall({}, @b); \
             print \"$n: $r, $!\\n\" unless $r == -1 && $! == {}; $n++;",
            arguments.join(", "),
            probe.call,
            probe.error,
        );
    }
    program.push_str("print \"done\\n\";\n");
    program
}

#[tokio::test]
async fn every_call_of_the_table_is_answered_by_its_error() {
    if !Path::new("/usr/bin/perl").exists() {
        return skip::whole("nothing here can make system calls by number");
    }
    let mut pod = Pod::launch().await;
    let volume = pod.test_folder().volume("volume");
    std::fs::write(volume.join("calls.pl"), caller()).expect("a file");
    give(&volume.join("calls.pl"));
    let outcome = pod.run_with(vec![mount("/volume", &volume)], "perl /volume/calls.pl").await;
    let mut lines: Vec<&str> = outcome.text.lines().collect();
    assert_eq!(lines.pop(), Some("done"), "{}", outcome.text);
    let named = |line: &&str| {
        let (number, answer) = line.split_once(": ").expect("a number and an answer");
        let probe = &PROBES[number.parse::<usize>().expect("a number")];
        format!("{}: {answer}", probe.name)
    };
    let open: Vec<String> = lines.iter().map(named).collect();
    assert!(open.is_empty(), "{open:#?}");
    pod.end().await;
}

/// Programs that people run in Pods, and what they say when they work.
const ORDINARY: &[(&str, &str, &str)] = &[
    ("/bin/bash", "bash -c 'shopt -s lastpipe; seq 3 | mapfile -t a; echo ${#a[@]}'", "3"),
    ("/usr/bin/perl", "perl -e 'my $p = fork; exit unless $p; wait; print \"ok\\n\"'", "ok"),
    (
        "/usr/bin/python3",
        "/usr/bin/python3 -c 'import subprocess, multiprocessing.pool as p, socket, tempfile, ssl; \
         s = socket.socketpair(); s[0].send(b\"x\"); \
         print(sum(p.ThreadPool(4).map(int, \"12\")), subprocess.getoutput(\"echo y\"))'",
        "3 y",
    ),
    (
        "/usr/bin/node",
        "/usr/bin/node -e 'const fs = require(\"fs\"); fs.promises.writeFile(\"/tmp/n\", \"x\")\
         .then(() => fs.promises.readFile(\"/tmp/n\")).then(b => require(\"http\")\
         .createServer((q, r) => r.end(b)).listen(0, \"127.0.0.1\", function () { \
         fetch(`http://127.0.0.1:${this.address().port}/`).then(r => r.text())\
         .then(t => { console.log(t); process.exit(0) }) }))'",
        "x",
    ),
    (
        "/usr/bin/git",
        "cd /tmp && git init -q r && cd r && echo a >a && git add a && \
         git -c user.name=a -c user.email=a@b commit -qm m && git log --oneline | wc -l",
        "1",
    ),
    (
        "/usr/bin/gcc",
        "cd /tmp && printf '#include <stdio.h>\\n#include <pthread.h>\\nvoid *f(void *a) { return a; }\\n\
         int main(void) { pthread_t t; pthread_create(&t, 0, f, 0); pthread_join(t, 0); puts(\"c\"); }\\n' \
         >c.c && gcc -o c c.c -lpthread && ./c",
        "c",
    ),
    (
        "/usr/bin/sqlite3",
        "sqlite3 /tmp/db 'create table t(a); insert into t values(7); select a from t'",
        "7",
    ),
    ("/usr/bin/curl", "echo hello >/tmp/page; curl -s file:///tmp/page", "hello"),
    ("/usr/bin/strace", "strace -f -o /dev/null true && echo traced", "traced"),
    ("/usr/bin/java", "java -version 2>&1 | grep -c version", "1"),
    ("/usr/bin/ip", "ip -o link show lo | grep -c LOOPBACK", "1"),
    ("/usr/bin/tar", "cd /tmp && tar cf t.tar -C /etc hostname && tar tf t.tar", "hostname"),
];

#[tokio::test]
async fn ordinary_programs_work() {
    let mut pod = Pod::launch().await;
    for (program, script, expected) in ORDINARY {
        if !Path::new(program).exists() {
            eprintln!("not tried, it is not here: {program}");
            continue;
        }
        let outcome = pod.run(script).await;
        assert_eq!(outcome.text.trim(), *expected, "{program}: {outcome:?}");
    }
    pod.end().await;
}
