//! Kubeconfig files. They are YAML, of which JSON is a part, so JSON is what we write.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::auth::certificate::CertificateAndKey;
use crate::auth::token::Token;

/// How a client reaches and trusts the server, and who it is.
#[derive(Clone, Debug)]
pub struct Kubeconfig<'a> {
    /// What the cluster, user and context are called.
    pub name: &'a str,
    /// `https://127.0.0.1:6443`
    pub server: &'a str,
    pub authority_pem: &'a str,
    pub credential: Credential<'a>,
    /// The namespace of commands that name none.
    pub namespace: Option<&'a str>,
}

/// What the client signs in with.
#[derive(Clone, Debug)]
pub enum Credential<'a> {
    Token(&'a Token),
    Certificate(&'a CertificateAndKey),
}

impl Kubeconfig<'_> {
    /// The file's text. It holds a secret: whoever writes it keeps others from reading it.
    pub fn render(&self) -> String {
        let encoded = |pem: &str| Value::String(STANDARD.encode(pem));
        let user = match self.credential {
            Credential::Token(token) => json!({"token": token.reveal()}),
            Credential::Certificate(certified) => json!({
                "client-certificate-data": encoded(&certified.certificate_pem),
                "client-key-data": encoded(&certified.key_pem),
            }),
        };
        let mut context = json!({"cluster": self.name, "user": self.name});
        if let Some(namespace) = self.namespace {
            context["namespace"] = json!(namespace);
        }
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{
                "name": self.name,
                "cluster": {
                    "server": self.server,
                    "certificate-authority-data": encoded(self.authority_pem),
                },
            }],
            "users": [{"name": self.name, "user": user}],
            "contexts": [{"name": self.name, "context": context}],
            "current-context": self.name,
        });
        format!("{config:#}\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SeededEntropy;

    #[test]
    fn renders_both_credentials() {
        let token = Token::generate(&SeededEntropy::new(1)).unwrap();
        let certified =
            CertificateAndKey { certificate_pem: "cert".to_owned(), key_pem: "key".to_owned() };
        let mut config = Kubeconfig {
            name: "sojourn",
            server: "https://127.0.0.1:6443",
            authority_pem: "ca",
            credential: Credential::Token(&token),
            namespace: Some("lab"),
        };
        let text = config.render();
        assert!(text.ends_with("}\n"));
        let read: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(read["users"][0]["user"], json!({"token": token.reveal()}));
        assert_eq!(
            read["clusters"][0]["cluster"],
            json!({"server": "https://127.0.0.1:6443", "certificate-authority-data": "Y2E="})
        );
        assert_eq!(
            read["contexts"][0],
            json!({"name": "sojourn", "context": {"cluster": "sojourn", "user": "sojourn", "namespace": "lab"}})
        );
        assert_eq!(read["current-context"], "sojourn");

        config.credential = Credential::Certificate(&certified);
        config.namespace = None;
        let read: Value = serde_json::from_str(&config.render()).unwrap();
        assert_eq!(
            read["users"][0]["user"],
            json!({"client-certificate-data": "Y2VydA==", "client-key-data": "a2V5"})
        );
        assert_eq!(read["contexts"][0]["context"].get("namespace"), None);
    }
}
