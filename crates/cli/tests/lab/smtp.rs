//! A real mail server: aiosmtpd in a process of its own, with AUTH over STARTTLS or TLS.

use std::path::PathBuf;
use std::process::Command;

use rcgen::{CertificateParams, KeyPair};
use serde::Deserialize;
use serde_json::json;

use crate::folder::Folder;
use crate::process::Running;
use crate::tool::{Tools, free_port};
use crate::wait::eventually;

const SERVER: &str = include_str!("smtp/server.py");
const USER: &str = "sojourn";
const PASSWORD: &str = "a password, with: signs";

/// As `encryption` of the mail settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encryption {
    StartTls,
    Tls,
    None,
}

impl Encryption {
    const fn word(self) -> &'static str {
        match self {
            Self::StartTls => "StartTLS",
            Self::Tls => "TLS",
            Self::None => "None",
        }
    }
}

/// A message as it was accepted.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Mail {
    pub(crate) from: String,
    pub(crate) to: Vec<String>,
    pub(crate) encrypted: bool,
    /// Who signed in to send it.
    pub(crate) user: Option<String>,
    headers: Vec<(String, String)>,
    text: Option<String>,
    html: Option<String>,
}

impl Mail {
    /// A header that is there once.
    pub(crate) fn header(&self, name: &str) -> &str {
        let mut found = self.headers.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name));
        let (_, value) = found.next().unwrap_or_else(|| panic!("no {name} in {:?}", self.headers));
        assert!(found.next().is_none(), "{name} twice in {:?}", self.headers);
        value
    }

    pub(crate) fn subject(&self) -> &str {
        self.header("Subject")
    }

    pub(crate) fn message_id(&self) -> &str {
        self.header("Message-ID")
    }

    /// Which step it tells of, such as `inactivity-1`: the middle of its id.
    pub(crate) fn step(&self) -> &str {
        let step = self.message_id().split('.').nth(1);
        step.unwrap_or_else(|| panic!("{} names no step", self.message_id()))
    }

    pub(crate) fn text(&self) -> &str {
        self.text.as_deref().unwrap_or_else(|| panic!("no text in {self:?}"))
    }

    pub(crate) fn html(&self) -> &str {
        self.html.as_deref().unwrap_or_else(|| panic!("no HTML in {self:?}"))
    }

    /// The addresses that the text leads to, in their order.
    pub(crate) fn links(&self) -> Vec<String> {
        let links = regex::Regex::new(r"https?://[^\s<>\x22]+").expect("a pattern");
        links.find_iter(self.text()).map(|found| found.as_str().to_owned()).collect()
    }
}

/// Which steps were told of, in their order.
pub(crate) fn steps(mails: &[Mail]) -> Vec<&str> {
    mails.iter().map(Mail::step).collect()
}

/// A mail server that can be away for a while.
#[derive(Debug)]
pub(crate) struct Smtp {
    tools: Tools,
    encryption: Encryption,
    port: u16,
    folder: Folder,
    server: Option<Running>,
}

impl Smtp {
    pub(crate) fn start(tools: &Tools, encryption: Encryption) -> Self {
        let folder = Folder::new();
        std::fs::create_dir(folder.join("spool")).expect("a folder");
        std::fs::create_dir(folder.join("settings")).expect("a folder");
        std::fs::write(folder.join("server.py"), SERVER).expect("a file");
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).expect("names");
        let certificate = params.self_signed(&key).expect("a certificate").pem();
        std::fs::write(folder.join("settings/ca.crt"), &certificate).expect("a file");
        std::fs::write(folder.join("server.key"), key.serialize_pem()).expect("a file");
        let mut smtp =
            Self { tools: tools.clone(), encryption, port: free_port(), folder, server: None };
        smtp.write_settings();
        smtp.start_again();
        smtp
    }

    /// Where the settings are that lead here: `mailConfigDir`.
    pub(crate) fn settings(&self) -> PathBuf {
        self.folder.join("settings")
    }

    fn write_settings(&self) {
        let settings = json!({
            "smtpServer": "127.0.0.1", "smtpPort": self.port,
            "smtpUsername": USER, "smtpPassword": PASSWORD,
            "smtpFrom": "Lab <lab@example.org>",
            "encryption": self.encryption.word(), "caFile": "ca.crt",
            "timeZone": "Europe/Rome",
        });
        std::fs::write(self.folder.join("settings/smtp-config.yaml"), settings.to_string())
            .expect("a file");
    }

    /// At the same port, with the mails that came before.
    pub(crate) fn start_again(&mut self) {
        assert!(self.server.is_none(), "it runs");
        let mut command = Command::new(&self.tools.python);
        command.arg(self.folder.join("server.py")).args(["--port", &self.port.to_string()]);
        command.args(["--encryption", self.encryption.word(), "--user", USER]);
        command.args(["--password", PASSWORD, "--certificate"]);
        command.arg(self.folder.join("settings/ca.crt"));
        command.arg("--key").arg(self.folder.join("server.key"));
        command.arg("--spool").arg(self.folder.join("spool"));
        let server = Running::start(command);
        server.field("port");
        self.server = Some(server);
    }

    /// Nobody answers any more.
    pub(crate) fn stop(&mut self) {
        self.server.take().expect("it runs").crash();
    }

    /// Answers with this instead of accepting a message, as `451 not now`.
    pub(crate) fn refuse(&self, with: Option<&str>) {
        let file = self.folder.join("spool/refuse");
        match with {
            Some(words) => std::fs::write(file, words).expect("a file"),
            None => std::fs::remove_file(file).expect("it refused"),
        }
    }

    /// Everything that was accepted, in its order.
    pub(crate) fn mails(&self) -> Vec<Mail> {
        let spool = std::fs::read_dir(self.folder.join("spool")).expect("the spool");
        let mut files: Vec<_> = spool.map(|entry| entry.expect("an entry").path()).collect();
        files.retain(|file| file.extension().is_some_and(|extension| extension == "json"));
        files.sort();
        let read = |file: PathBuf| {
            let text = std::fs::read_to_string(file).expect("a file");
            serde_json::from_str(&text).expect("a mail")
        };
        files.into_iter().map(read).collect()
    }

    /// Those to one person.
    pub(crate) fn mails_to(&self, address: &str) -> Vec<Mail> {
        let mails = self.mails().into_iter();
        mails.filter(|mail| mail.to.iter().any(|to| to == address)).collect()
    }

    /// Waits until somebody has so many, and not more.
    pub(crate) async fn wait_for(&self, address: &str, count: usize) -> Vec<Mail> {
        let what = format!("{count} mails to {address}");
        let mails = eventually(&what, async || {
            let mails = self.mails_to(address);
            (mails.len() >= count).then_some(mails)
        })
        .await;
        assert_eq!(mails.len(), count, "{mails:#?}");
        mails
    }
}

/// The server itself, with Python's own client.
#[tokio::test]
async fn the_mail_server_takes_mail_and_can_be_away() {
    const CLIENT: &str = r"
import email.message, smtplib, ssl, sys
port, encryption, ca, password = int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4]
context = ssl.create_default_context(cafile=ca)
if encryption == 'TLS':
    client = smtplib.SMTP_SSL('127.0.0.1', port, context=context, timeout=10)
else:
    client = smtplib.SMTP('127.0.0.1', port, timeout=10)
if encryption == 'StartTLS':
    client.starttls(context=context)
client.login('sojourn', password)
mail = email.message.EmailMessage()
mail['From'], mail['To'], mail['Subject'] = 'lab@example.org', 'ann@example.org', 'Grüße'
mail['Message-ID'] = '<one@example.org>'
mail.set_content('see http://127.0.0.1:1/a and\nhttp://127.0.0.1:1/b?c=d')
mail.add_alternative('<p>see</p>', subtype='html')
client.send_message(mail)
";
    let Some(tools) = Tools::find() else { return };
    for encryption in [Encryption::StartTls, Encryption::Tls, Encryption::None] {
        let mut smtp = Smtp::start(&tools, encryption);
        let send = |password: &str| {
            let mut client = Command::new(&tools.python);
            client.args(["-c", CLIENT, &smtp.port.to_string(), encryption.word()]);
            client.arg(smtp.settings().join("ca.crt")).arg(password);
            Running::start(client).ended()
        };
        let sent = send(PASSWORD);
        assert_eq!(sent.code, Some(0), "{}", sent.stderr);
        let [mail] = &smtp.wait_for("ann@example.org", 1).await[..] else { panic!("not one") };
        assert_eq!((mail.subject(), mail.message_id()), ("Grüße", "<one@example.org>"));
        assert_eq!(mail.encrypted, encryption != Encryption::None);
        assert_eq!((mail.user.as_deref(), mail.from.as_str()), (Some(USER), "lab@example.org"));
        assert_eq!(mail.html().trim(), "<p>see</p>");
        assert_eq!(mail.links(), ["http://127.0.0.1:1/a", "http://127.0.0.1:1/b?c=d"]);

        assert_ne!(send("wrong").code, Some(0));
        smtp.refuse(Some("451 not now"));
        let refused = send(PASSWORD);
        assert!(refused.stderr.contains("451"), "{}", refused.stderr);
        smtp.refuse(None);
        smtp.stop();
        let port = smtp.port;
        assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_err(), "it is away");
        smtp.start_again();
        assert_eq!((smtp.port, smtp.mails().len()), (port, 1));
    }
}
