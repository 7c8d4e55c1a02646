//! The very program that instances run, heard by the visitor of these tests.

use crate::visitor::Visitor;

#[tokio::test]
async fn a_visitor_is_heard_by_the_program() {
    let (port, folder) = (crate::tool::free_port(), crate::folder::Folder::new());
    let mut program = std::process::Command::new("/usr/bin/python3");
    program.args(["-u", "-c", crate::person::PROGRAM]);
    program.env("SOJOURN_PORT_HTTP", port.to_string()).env("FOLDER", folder.path());
    let program = crate::process::Running::start(program);
    program.stderr_line("serving");
    let mut visitor = Visitor::of(([127, 0, 0, 1], port).into());
    let first = visitor.open("/a/b?c=d").await.json();
    assert_eq!((&first["path"], &first["visits"]), (&"/a/b?c=d".into(), &1.into()));
    assert!(first["headers"]["cookie"].is_null());
    let second = visitor.open("/a").await.json();
    assert_eq!(
        (&second["headers"]["cookie"], &second["visits"]),
        (&"own=instance".into(), &2.into())
    );
    let mut socket = visitor.web_socket("/ws").await;
    assert_eq!(socket.ask("one").await, "one");
    assert_eq!(socket.ask(&"x".repeat(125)).await, "x".repeat(125));
}
