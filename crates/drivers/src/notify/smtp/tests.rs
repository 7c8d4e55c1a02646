use super::peer::{Peer, PeerBehaviour, Reply};
use super::*;
use crate::notify::folder::Folder;
use crate::notify::settings::FILE;
use crate::notify::test_family::{self, BOOKS, DUE};
use crate::notify::{Recipient, Zone};

/// Longer than any exchange with a peer that answers.
const TEST_TIMEOUT: Duration = Duration::from_secs(20);

fn notice() -> Notice {
    Notice {
        id: "0e1f.stopped.1794906000".to_owned(),
        to: Recipient { name: "Ada".to_owned(), email: "ada@example.org".to_owned() },
        ..test_family::notice(DUE)
    }
}

/// A channel to `peer` with more settings.
fn channel(peer: &Peer, settings: &str) -> Smtp {
    let port = peer.address.port();
    let text =
        format!("smtpServer: 127.0.0.1\nsmtpPort: {port}\nsmtpFrom: lab@example.org\n{settings}");
    let folder = Folder::with(&[(FILE, &text), ("ca.pem", &peer.certificate)]);
    let settings = Settings::read(folder.path()).unwrap();
    Smtp::new(settings, Arc::new(Templates::load(&BOOKS, None, Zone::utc()).unwrap())).unwrap()
}

async fn send(peer: &Peer, settings: &str) -> Result<(), SendError> {
    let (channel, notice) = (channel(peer, settings), notice());
    timeout(TEST_TIMEOUT, channel.send(&notice)).await.expect("an exchange ends")
}

const PLAIN: &str = "encryption: None";
const START_TLS: &str = "encryption: StartTLS\ncaFile: ca.pem";
const TLS: &str = "encryption: TLS\ncaFile: ca.pem";
const LOGIN: &str = "smtpUsername: lab\nsmtpPassword: hunter2\n";

fn answering(command: &'static str, say: Reply) -> PeerBehaviour {
    PeerBehaviour { answers: vec![(command, say)], ..PeerBehaviour::default() }
}

#[tokio::test]
async fn a_mail_goes_out_in_plain_on_this_machine() {
    let peer = Peer::start(PeerBehaviour::default()).await;
    assert_eq!(send(&peer, PLAIN).await, Ok(()));
    let received_lines = peer.received_lines();
    let commands: Vec<_> = received_lines.iter().take(4).map(String::as_str).collect();
    let expected =
        ["EHLO example.org", "MAIL FROM:<lab@example.org>", "RCPT TO:<ada@example.org>", "DATA"];
    assert_eq!(commands, expected);
    assert!(
        received_lines.contains(&"Message-ID: <0e1f.stopped.1794906000@example.org>".to_owned())
    );
    assert_eq!(received_lines.last().map(String::as_str), Some("QUIT"));
}

#[tokio::test]
async fn nothing_but_hello_is_said_before_tls() {
    let behaviour = || PeerBehaviour {
        offers: vec!["STARTTLS", "AUTH PLAIN LOGIN"],
        ..PeerBehaviour::default()
    };
    let peer = Peer::start(behaviour()).await;
    assert_eq!(send(&peer, &format!("{LOGIN}{START_TLS}")).await, Ok(()));
    let received_lines = peer.received_lines();
    assert_eq!(received_lines[..4], ["EHLO example.org", "STARTTLS", "TLS", "EHLO example.org"]);
    // base64 of "\0lab\0hunter2".
    assert_eq!(received_lines[4], "AUTH PLAIN AGxhYgBodW50ZXIy");

    let peer = Peer::start(PeerBehaviour { implicit_tls: true, ..behaviour() }).await;
    assert_eq!(send(&peer, &format!("{LOGIN}{TLS}")).await, Ok(()));
    assert_eq!(peer.received_lines()[..2], ["TLS", "EHLO example.org"]);
}

#[tokio::test]
async fn a_server_that_offers_no_tls_or_another_certificate_gets_no_mail() {
    let peer =
        Peer::start(PeerBehaviour { offers: vec!["AUTH PLAIN"], ..PeerBehaviour::default() }).await;
    let error = send(&peer, &format!("{LOGIN}{START_TLS}")).await.unwrap_err();
    assert!(!error.is_permanent());
    assert!(error.to_string().ends_with("it does not offer STARTTLS"), "{error}");
    assert_eq!(peer.received_lines(), ["EHLO example.org"]);

    for (implicit_tls, settings) in [(false, "encryption: StartTLS"), (true, "encryption: TLS")] {
        let behaviour =
            PeerBehaviour { implicit_tls, offers: vec!["STARTTLS"], ..PeerBehaviour::default() };
        let peer = Peer::start(behaviour).await;
        let error = send(&peer, &format!("{LOGIN}{settings}")).await.unwrap_err();
        assert!(!error.is_permanent());
        assert!(error.to_string().contains("certificate"), "{error}");
        assert!(
            !peer.received_lines().iter().any(|line| line.contains("AUTH")),
            "{:?}",
            peer.received_lines()
        );
    }
}

#[tokio::test]
async fn answers_that_were_smuggled_in_before_tls_are_not_believed() {
    // In one write with the answer to STARTTLS, as somebody in the middle would send them.
    let smuggled = "220 ready\r\n250-peer\r\n250 AUTH PLAIN\r\n235 in\r\n250 yes\r\n250 yes\r\n\
                    354 go\r\n250 got it\r\n";
    let mut behaviour = answering("STARTTLS", Reply::Text(smuggled));
    behaviour.offers = vec!["STARTTLS"];
    let peer = Peer::start(behaviour).await;
    let error = send(&peer, &format!("{LOGIN}{START_TLS}")).await.unwrap_err();
    assert!(error.to_string().starts_with("starting TLS with 127.0.0.1:"), "{error}");
    assert_eq!(peer.received_lines(), ["EHLO example.org", "STARTTLS"]);
}

#[tokio::test]
async fn every_way_to_log_in() {
    let offers = |offer| PeerBehaviour { offers: vec![offer], ..PeerBehaviour::default() };
    // LOGIN, when there is no PLAIN: the name and the password are asked for.
    let mut behaviour = offers("AUTH LOGIN");
    behaviour.answers = vec![
        ("AUTH LOGIN", Reply::Text("334 VXNlcm5hbWU6\r\n")),
        ("bGFi", Reply::Text("334 UGFzc3dvcmQ6\r\n")),
        ("aHVudGVyMg==", Reply::Text("235 welcome\r\n")),
    ];
    let peer = Peer::start(behaviour).await;
    assert_eq!(send(&peer, &format!("{LOGIN}{PLAIN}")).await, Ok(()));

    // Acting as somebody else: base64 of "shared\0lab\0hunter2".
    let peer = Peer::start(offers("AUTH PLAIN")).await;
    let shared = format!("{LOGIN}smtpIdentity: shared\n{PLAIN}");
    assert_eq!(send(&peer, &shared).await, Ok(()));
    assert!(peer.received_lines().contains(&"AUTH PLAIN c2hhcmVkAGxhYgBodW50ZXIy".to_owned()));

    for (offer, settings, words) in [
        ("AUTH CRAM-MD5", LOGIN.to_owned(), "it does not offer AUTH PLAIN or LOGIN"),
        ("AUTH LOGIN", format!("{LOGIN}smtpIdentity: shared\n"), "which smtpIdentity needs"),
    ] {
        let peer = Peer::start(offers(offer)).await;
        let error = send(&peer, &format!("{settings}{PLAIN}")).await.unwrap_err();
        assert!(error.to_string().ends_with(words) && !error.is_permanent(), "{error}");
    }
}

#[tokio::test]
async fn a_failure_is_for_good_only_when_it_is_about_the_notice() {
    let cases = [
        ("greeting", "554 go away\r\n", false, "connecting to", "554 go away"),
        ("greeting", "nonsense\r\n", false, "connecting to", ""),
        ("EHLO", "500 what\r\n", false, "connecting to", "500 what"),
        ("AUTH", "535 5.7.8 wrong password\r\n", false, "logging in at", "535 5.7.8 wrong"),
        ("MAIL", "550 not you\r\n", false, "naming the sender to", "550 not you"),
        ("MAIL", "354 go on\r\n", false, "naming the sender to", "out of turn: 354 go on"),
        ("RCPT", "451 4.7.1 greylisted\r\n", false, "naming the recipient to", "451 4.7.1 grey"),
        (
            "RCPT",
            "550-5.1.1 no\r\n550 such user\r\n",
            true,
            "naming the recipient to",
            "550 5.1.1 no",
        ),
        ("DATA", "554 no\r\n", true, "asking to send to", "554 no"),
        ("DATA", "250 fine\r\n", false, "asking to send to", "out of turn: 250 fine"),
        (".", "452 disk full\r\n", false, "sending the mail to", "452 disk full"),
        (".", "552 too large\r\n", true, "sending the mail to", "552 too large"),
        (".", "354 more\r\n", false, "sending the mail to", "354 more; it may have arrived"),
    ];
    for (command, answer, permanent, start, words) in cases {
        let mut behaviour = answering(command, Reply::Text(answer));
        behaviour.offers = vec!["AUTH PLAIN"];
        let peer = Peer::start(behaviour).await;
        let error = send(&peer, &format!("{LOGIN}{PLAIN}")).await.unwrap_err();
        assert_eq!(error.is_permanent(), permanent, "{command} {answer}: {error}");
        let shown = error.to_string();
        assert!(shown.starts_with(start) && shown.contains(words), "{command} {answer}: {shown}");
        assert!(!shown.contains('\n') && !shown.contains("hunter2"), "{shown}");
    }
}

#[tokio::test]
async fn a_connection_that_is_cut_may_have_taken_the_mail_only_after_the_mail() {
    for (command, unsure) in
        [("greeting", false), ("EHLO", false), ("RCPT", false), ("DATA", false), (".", true)]
    {
        let peer = Peer::start(answering(command, Reply::Cut)).await;
        let error = send(&peer, PLAIN).await.unwrap_err();
        assert!(!error.is_permanent());
        assert_eq!(error.to_string().ends_with("it may have arrived"), unsure, "{error}");
    }
    // After the last yes nothing can go wrong any more.
    for say in [Reply::Cut, Reply::Text("500 no\r\n"), Reply::Text("garbage\r\n")] {
        let peer = Peer::start(answering("QUIT", say)).await;
        assert_eq!(send(&peer, PLAIN).await, Ok(()));
    }
}

#[tokio::test]
async fn nobody_there_is_worth_another_attempt() {
    let peer = Peer::start(PeerBehaviour::default()).await;
    let channel = channel(&peer, PLAIN);
    drop(peer);
    tokio::task::yield_now().await;
    let error = timeout(TEST_TIMEOUT, channel.send(&notice())).await.unwrap().unwrap_err();
    assert!(matches!(&error, SendError::Transient(words) if words.contains("refused")), "{error}");
}

#[tokio::test]
async fn a_server_that_goes_silent_is_left_in_time() {
    for (command, stage) in [
        ("greeting", "connecting to"),
        ("EHLO", "connecting to"),
        ("RCPT", "naming the recipient to"),
        ("DATA", "asking to send to"),
        (".", "sending the mail to"),
    ] {
        let peer = Peer::start(answering(command, Reply::Silence)).await;
        let (channel, notice) = (channel(&peer, PLAIN), notice());
        let started = Instant::now();
        let error = channel.send(&notice).await.unwrap_err();
        let taken = started.elapsed();
        tokio::time::resume();
        assert!(matches!(&error, SendError::Transient(_)), "{error}");
        let shown = error.to_string();
        assert!(shown.starts_with(stage) && shown.contains("no answer in time"), "{shown}");
        assert!(taken >= EXCHANGE_TIMEOUT, "{taken:?}");
        assert!(taken <= EXCHANGE_TIMEOUT + QUIT_TIMEOUT + Duration::from_secs(1), "{taken:?}");
    }
}

#[tokio::test]
async fn silence_at_the_goodbye_does_not_undo_the_mail() {
    let peer = Peer::start(answering("QUIT", Reply::Silence)).await;
    let (channel, notice) = (channel(&peer, PLAIN), notice());
    let started = Instant::now();
    assert_eq!(channel.send(&notice).await, Ok(()));
    let taken = started.elapsed();
    assert!(taken >= QUIT_TIMEOUT && taken <= QUIT_TIMEOUT + Duration::from_secs(1), "{taken:?}");
}

#[tokio::test]
async fn a_server_that_talks_without_end_is_cut_off() {
    let endless: &'static str = Box::leak("x".repeat(3 * 1024 * 1024).into_boxed_str());
    let peer = Peer::start(answering("greeting", Reply::Text(endless))).await;
    let error = send(&peer, PLAIN).await.unwrap_err();
    assert!(error.to_string().contains("more than 1048576 bytes"), "{error}");
}

#[tokio::test]
async fn letters_beyond_ascii_need_a_server_that_takes_them() {
    let mut sent = notice();
    sent.to.email = "ädä@example.org".to_owned();
    let peer = Peer::start(PeerBehaviour::default()).await;
    let error = channel(&peer, PLAIN).send(&sent).await.unwrap_err();
    assert!(error.is_permanent() && error.to_string().contains("beyond ASCII"), "{error}");

    let offers = vec!["SMTPUTF8", "8BITMIME"];
    let peer = Peer::start(PeerBehaviour { offers, ..PeerBehaviour::default() }).await;
    assert_eq!(channel(&peer, PLAIN).send(&sent).await, Ok(()));
    let received_lines = peer.received_lines();
    assert_eq!(received_lines[1], "MAIL FROM:<lab@example.org> SMTPUTF8 BODY=8BITMIME");
    assert_eq!(received_lines[2], "RCPT TO:<ädä@example.org>");
}

#[tokio::test]
async fn a_notice_that_cannot_be_a_mail_connects_to_nobody() {
    let peer = Peer::start(PeerBehaviour::default()).await;
    let mut sent = notice();
    sent.to.email.clear();
    let error = channel(&peer, PLAIN).send(&sent).await.unwrap_err();
    assert_eq!(error, SendError::Refused("the notice has no recipient".to_owned()));
    assert_eq!(peer.received_lines(), [""; 0]);
}

#[test]
fn a_ca_file_without_certificates_is_an_error_before_anything_is_sent() {
    let text = "{smtpServer: m.example.org, smtpPort: 587, smtpFrom: a@b.org, caFile: ca.pem}";
    for pem in ["", "nothing", "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n"] {
        let folder = Folder::with(&[(FILE, text), ("ca.pem", pem)]);
        let settings = Settings::read(folder.path()).unwrap();
        let templates = Arc::new(Templates::load(&BOOKS, None, Zone::utc()).unwrap());
        let error = Smtp::new(settings, templates).unwrap_err().to_string();
        assert!(error.contains("m.example.org: caFile"), "{pem:?}: {error}");
    }
}

#[test]
fn the_password_is_not_in_debug_output() {
    let text = format!("smtpServer: localhost\nsmtpPort: 25\nsmtpFrom: a@b.org\n{LOGIN}{PLAIN}");
    let folder = Folder::with(&[(FILE, &text)]);
    let settings = Settings::read(folder.path()).unwrap();
    let templates = Arc::new(Templates::load(&BOOKS, None, Zone::utc()).unwrap());
    let shown = format!("{:?}", Smtp::new(settings, templates).unwrap());
    assert!(shown.contains("lab") && !shown.contains("hunter2"), "{shown}");
}
