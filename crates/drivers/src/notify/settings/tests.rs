use std::fs;

use super::*;
use crate::notify::folder::Folder;
use crate::notify::template::Templates;
use crate::notify::test_family::BOOKS;

fn read(text: &str) -> Result<Settings, SettingsError> {
    Settings::read(Folder::with(&[(FILE, text)]).path())
}

const GOOD: &str = "
smtpServer: mail.example.org
smtpPort: 587
smtpUsername: lab
smtpPassword: hunter2
smtpFrom: Lab <lab@example.org>
smtpIdentity: shared
timeZone: Europe/Rome
";

// case: lab M3
#[test]
fn server_port_and_sender_are_loaded() {
    let settings = read(GOOD).unwrap();
    assert_eq!((settings.server(), settings.port()), ("mail.example.org", 587));
    assert_eq!(settings.from(), "Lab <lab@example.org>");
    assert_eq!(settings.encryption(), Encryption::StartTLS);
    assert_eq!(settings.zone().name(), "Europe/Rome");
    let login = settings.login.unwrap();
    assert_eq!((login.username.as_str(), login.password.as_str()), ("lab", "hunter2"));
    assert_eq!(login.identity.as_deref(), Some("shared"));
}

// case: lab M1
#[test]
fn settings_are_read_only_when_somebody_asks_and_then_have_to_be_there() {
    let folder = Folder::with(&[]);
    // Everything that mail does not need works without them.
    Templates::load(&BOOKS, None, Zone::utc()).unwrap();
    let error = Settings::read(folder.path()).unwrap_err();
    assert!(matches!(error, SettingsError::ReadFile { .. }), "{error}");
    assert!(error.to_string().contains(FILE), "{error}");
}

#[test]
fn little_is_needed() {
    let settings =
        read("{smtpServer: '127.0.0.1', smtpPort: 25, smtpFrom: a@b.org, encryption: None}");
    let settings = settings.unwrap();
    assert!(settings.login.is_none());
    assert_eq!(settings.zone().name(), "UTC");
    let tls = read("{smtpServer: m.example.org, smtpPort: 465, smtpFrom: a@b.org}").unwrap();
    assert_eq!(tls.encryption(), Encryption::TLS);
}

#[test]
fn every_missing_key_is_named() {
    let error = read("{}").unwrap_err().to_string();
    assert!(error.ends_with("lacks smtpServer, smtpPort, smtpFrom"), "{error}");
    let error = read("{smtpUsername: u, smtpServer: ' ', smtpPort: 0}").unwrap_err().to_string();
    let all = "lacks smtpServer, smtpPort, smtpFrom, smtpPassword (or smtpPasswordFile)";
    assert!(error.ends_with(all), "{error}");
    let error =
        read("{smtpServer: m, smtpPort: 1, smtpFrom: a@b.org, smtpPassword: p}").unwrap_err();
    assert!(error.to_string().ends_with("lacks smtpUsername"), "{error}");
}

#[test]
fn what_is_wrong_is_named_and_the_password_never_shown() {
    let cases = [
        ("smtpServer: mail.example.org", "smtpSever: mail.example.org", "smtpSever"),
        ("smtpPort: 587", "smtpPort: many", "hold mail settings"),
        ("smtpPort: 587", "smtpPort: 65536", "hold mail settings"),
        ("smtpPort: 587", "smtpPort: 587\nsmtpPort: 588", "smtpPort"),
        ("smtpPort: 587", "smtpPort: [", "hold mail settings"),
        (
            "smtpServer: mail.example.org",
            "smtpServer: https://mail",
            "smtpServer: \"https://mail\"",
        ),
        ("Lab <lab@example.org>", "nobody", "smtpFrom: \"nobody\" is no mail address"),
        ("Lab <lab@example.org>", "\"a@b.org\\r\\nBcc: c@d.org\"", "smtpFrom"),
        ("Lab <lab@example.org>", "\"'L\\r\\nBcc: c@d.org' <a@b.org>\"", "smtpFrom"),
        ("Lab <lab@example.org>", "'\"L\n\n  b\" <a@b.org>'", "smtpFrom"),
        ("Lab <lab@example.org>", "lab@exämple.org", "write the address in ASCII"),
        ("Europe/Rome", "Mars/Olympus", "timeZone: \"Mars/Olympus\" is no time zone"),
        ("timeZone:", "encryption: SSL\ntimeZone:", "SSL"),
        ("timeZone:", "encryption: None\ntimeZone:", "encryption: None is for this machine only"),
        ("timeZone:", "smtpPasswordFile: p\ntimeZone:", "smtpPasswordFile: stands beside"),
        ("timeZone:", "caFile: not-there.pem\ntimeZone:", "not-there.pem"),
        ("hunter2", "\"hunter2\\0\"", "NUL"),
        ("smtpPassword: hunter2", "smtpPassword: [hunter2]", "hold mail settings"),
        ("smtpPassword: hunter2", "smtpPassword: {hunter2: x}", "hold mail settings"),
        ("smtpPassword: hunter2", "smtpPassword: \"hunter2", "hold mail settings"),
        ("smtpPassword: hunter2", "smtpPassword: hunter2: x", "hold mail settings"),
        ("smtpPassword: hunter2", "smtpPassword: *hunter2", "hold mail settings"),
        ("smtpUsername: lab\nsmtpPassword: hunter2", "", "smtpIdentity: needs"),
    ];
    for (good, bad, words) in cases {
        assert!(GOOD.contains(good), "{good}");
        let error = read(&GOOD.replace(good, bad)).unwrap_err();
        let shown = format!("{error} {error:?}");
        assert!(error.to_string().contains(words), "{bad}: {error}");
        assert!(!shown.contains("hunter2"), "{shown}");
        assert!(error.to_string().contains(FILE) || words == "not-there.pem", "{error}");
    }
    assert!(!format!("{:?}", read(GOOD).unwrap()).contains("hunter2"));
}

#[test]
fn plain_is_for_addresses_of_this_machine() {
    for (server, allowed) in [
        ("127.0.0.1", true),
        ("127.9.9.9", true),
        ("::1", true),
        ("::ffff:127.0.0.1", true),
        ("localhost", true),
        ("localhost.example.org", false),
        ("10.0.0.1", false),
        ("0.0.0.0", false),
        ("relay", false),
    ] {
        let text = format!(
            "{{smtpServer: '{server}', smtpPort: 25, smtpFrom: a@b.org, encryption: None}}"
        );
        assert_eq!(read(&text).is_ok(), allowed, "{server}");
    }
}

#[test]
fn a_password_file_is_found_beside_the_settings() {
    let text = GOOD.replace("smtpPassword: hunter2", "smtpPasswordFile: password");
    let folder = Folder::with(&[(FILE, &text), ("password", " s3cret \r\n")]);
    let settings = Settings::read(folder.path()).unwrap();
    assert_eq!(settings.login.unwrap().password, " s3cret ");
    fs::remove_file(folder.path().join("password")).unwrap();
    let error = Settings::read(folder.path()).unwrap_err().to_string();
    assert!(error.contains("password: No such file"), "{error}");
}

#[test]
fn a_password_of_digits_is_text() {
    let settings = read(&GOOD.replace("hunter2", "0123")).unwrap();
    assert_eq!(settings.login.unwrap().password, "0123");
}
