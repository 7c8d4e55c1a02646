//! How a call failed, in the numbers of gRPC and of HTTP.

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde::Serialize;

use super::request::SdkError;

/// A text goes into a header, which clients bound.
const MAX_MESSAGE_CHARS: usize = 512;

/// The codes of gRPC that are used here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Code {
    Ok = 0,
    Cancelled = 1,
    InvalidArgument = 3,
    DeadlineExceeded = 4,
    NotFound = 5,
    AlreadyExists = 6,
    ResourceExhausted = 8,
    Aborted = 10,
    OutOfRange = 11,
    Unimplemented = 12,
    Internal = 13,
    Unavailable = 14,
}

impl Code {
    pub(super) const fn number(self) -> u8 {
        self as u8
    }

    /// What a gateway from HTTP to gRPC answers, except that exhausted is here always a body that is too long.
    pub(super) const fn http(self) -> StatusCode {
        match self {
            Self::Ok => StatusCode::OK,
            Self::Cancelled | Self::InvalidArgument | Self::OutOfRange => StatusCode::BAD_REQUEST,
            Self::DeadlineExceeded => StatusCode::GATEWAY_TIMEOUT,
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::AlreadyExists | Self::Aborted => StatusCode::CONFLICT,
            Self::ResourceExhausted => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Unimplemented => StatusCode::NOT_IMPLEMENTED,
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
            Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}

/// A failure, with words for whoever called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Status {
    pub(super) code: Code,
    pub(super) message: String,
}

impl Status {
    pub(super) fn new(code: Code, message: impl AsRef<str>) -> Self {
        Self { code, message: message.as_ref().chars().take(MAX_MESSAGE_CHARS).collect() }
    }

    pub(super) fn invalid(message: impl AsRef<str>) -> Self {
        Self::new(Code::InvalidArgument, message)
    }
}

impl From<SdkError> for Status {
    fn from(error: SdkError) -> Self {
        let code = match error {
            SdkError::UnknownServer | SdkError::NotFound(_) => Code::NotFound,
            SdkError::AlreadyExists(_) => Code::AlreadyExists,
            SdkError::OutOfRange(_) => Code::OutOfRange,
            SdkError::Invalid(_) => Code::InvalidArgument,
            SdkError::Unavailable(_) => Code::Unavailable,
            SdkError::Conflict => Code::Aborted,
        };
        Self::new(code, error.to_string())
    }
}

/// As Agones' gateway tells it.
impl IntoResponse for Status {
    fn into_response(self) -> Response {
        #[derive(Serialize)]
        struct Body {
            code: u8,
            message: String,
            details: [(); 0],
        }
        let http = self.code.http();
        let body = Body { code: self.code.number(), message: self.message, details: [] };
        (http, Json(body)).into_response()
    }
}
