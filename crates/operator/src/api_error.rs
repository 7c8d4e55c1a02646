//! Errors of the API in words for people. The client's own text carries the debug form of the whole
//! answer, which belongs in logs and not in Events and conditions.

/// What the API said, or else what went wrong on the way to it.
pub(crate) fn api_error_message(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if !status.message.is_empty() => status.message.clone(),
        kube::Error::Api(status) => format!("the API answered {} {}", status.code, status.reason),
        other => {
            let mut innermost: &dyn std::error::Error = other;
            while let Some(source) = innermost.source() {
                innermost = source;
            }
            innermost.to_string()
        }
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[test]
    fn the_words_of_the_api_and_none_of_ours() {
        let quota = Status::failure("exceeded quota: pods", "Forbidden").with_code(403);
        let error = kube::Error::Api(Box::new(quota));
        assert!(error.to_string().contains("Some("), "it is why this is here: {error}");
        assert_eq!(api_error_message(&error), "exceeded quota: pods");
        let silent = kube::Error::Api(Box::new(Status::failure("", "Gone").with_code(410)));
        assert_eq!(api_error_message(&silent), "the API answered 410 Gone");
        let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        assert_eq!(
            api_error_message(&kube::Error::Service(Box::new(refused))),
            "connection refused"
        );
    }
}
