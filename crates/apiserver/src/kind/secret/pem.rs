//! Whether a certificate and its key are PEM at all, told as Go's TLS library tells it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

/// What is wrong with a pair of PEM texts. What the blocks hold is not looked at.
pub(super) fn key_pair_fault(certificate: &[u8], key: &[u8]) -> Option<String> {
    certificate_fault(&block_types(certificate)).or_else(|| key_fault(&block_types(key)))
}

fn certificate_fault(types: &[String]) -> Option<String> {
    if types.iter().any(|kind| kind == "CERTIFICATE") {
        return None;
    }
    Some(match types {
        [] => "tls: failed to find any PEM data in certificate input".to_owned(),
        [kind] if kind.ends_with("PRIVATE KEY") => {
            "tls: failed to find certificate PEM data in certificate input, but did find a \
             private key; PEM inputs may have been switched"
                .to_owned()
        }
        types => format!(
            "tls: failed to find \"CERTIFICATE\" PEM block in certificate input after skipping \
             PEM blocks of the following types: [{}]",
            types.join(" ")
        ),
    })
}

fn key_fault(types: &[String]) -> Option<String> {
    let is_key = |kind: &String| kind == "PRIVATE KEY" || kind.ends_with(" PRIVATE KEY");
    if types.iter().any(is_key) {
        return None;
    }
    Some(match types {
        [] => "tls: failed to find any PEM data in key input".to_owned(),
        [kind] if kind == "CERTIFICATE" => {
            "tls: found a certificate rather than a key in the PEM for the private key".to_owned()
        }
        types => format!(
            "tls: failed to find PEM block with type ending in \"PRIVATE KEY\" in key input after \
             skipping PEM blocks of the following types: [{}]",
            types.join(" ")
        ),
    })
}

/// The types of the well-formed blocks, in order.
fn block_types(input: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(input);
    let mut types = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let Some(kind) = boundary(line, "-----BEGIN ") else {
            continue;
        };
        let mut body = String::new();
        let mut ahead = lines.clone();
        let closed = ahead.by_ref().find_map(|line| match boundary(line, "-----END ") {
            Some(end) => Some(end == kind),
            None => {
                // Headers such as `Proc-Type: 4,ENCRYPTED` are no part of the body.
                if !line.contains(':') {
                    body.extend(line.chars().filter(|c| !c.is_whitespace()));
                }
                None
            }
        });
        if closed == Some(true) && BASE64.decode(&body).is_ok() {
            types.push(kind.to_owned());
            lines = ahead;
        }
    }
    types
}

fn boundary<'t>(line: &'t str, start: &str) -> Option<&'t str> {
    line.trim_end().strip_prefix(start)?.strip_suffix("-----")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(kind: &str) -> String {
        format!("-----BEGIN {kind}-----\nAAAA\n-----END {kind}-----\n")
    }

    #[test]
    fn pairs_are_judged_as_go_judges_them() {
        let certificate = block("CERTIFICATE");
        let key = block("EC PRIVATE KEY");
        let fault = |certificate: &str, key: &str| {
            key_pair_fault(certificate.as_bytes(), key.as_bytes()).unwrap_or_default()
        };
        assert_eq!(fault(&certificate, &key), "");
        assert_eq!(fault(&format!("note\n{key}{certificate}"), &key), "");
        assert_eq!(fault("a", "b"), "tls: failed to find any PEM data in certificate input");
        assert_eq!(fault(&certificate, "x"), "tls: failed to find any PEM data in key input");
        assert!(fault(&key, &certificate).ends_with("PEM inputs may have been switched"));
        assert_eq!(
            fault(&certificate, &certificate),
            "tls: found a certificate rather than a key in the PEM for the private key"
        );
        assert!(fault(&format!("{}{}", block("A"), block("B")), &key).ends_with("types: [A B]"));
        assert!(fault(&certificate, &block("A")).ends_with("types: [A]"));
        let broken = "-----BEGIN CERTIFICATE-----\n!!\n-----END CERTIFICATE-----\n";
        assert_eq!(fault(broken, &key), "tls: failed to find any PEM data in certificate input");
    }
}
