//! How gRPC lays messages out on HTTP/2: a byte that says whether a message is compressed, four that say how long it
//! is, the message; and at the end, in trailers, how it went.

use std::convert::Infallible;

use axum::body::Body;
use axum::response::Response;
use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use futures::stream::{self, BoxStream, StreamExt as _};
use http::{HeaderMap, HeaderName, HeaderValue, header};
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};

use super::super::endpoint::MAX_MESSAGE_BYTES;
use super::super::form;
use super::super::status::{Code, Status};

const PREFIX_BYTES: usize = 5;
const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
const ACCEPT_ENCODING: HeaderName = HeaderName::from_static("grpc-accept-encoding");

/// The messages of a request's body.
pub(super) struct MessageReader {
    body: Body,
    /// What came and is no whole message yet: never much more than one.
    buffer: BytesMut,
}

impl MessageReader {
    pub(super) fn new(body: Body) -> Self {
        Self { body, buffer: BytesMut::new() }
    }

    /// The next message; none at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, Status> {
        loop {
            if let Some(message) = self.split()? {
                return Ok(Some(message));
            }
            match self.body.frame().await {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.buffer.extend_from_slice(&data);
                    }
                }
                Some(Err(_)) => {
                    return Err(Status::new(Code::Cancelled, "the stream was cut off"));
                }
                None if self.buffer.is_empty() => return Ok(None),
                None => return Err(Status::new(Code::Internal, "a message was cut off")),
            }
        }
    }

    /// The first message of the buffer, if all of it is there.
    fn split(&mut self) -> Result<Option<Bytes>, Status> {
        let mut prefix = self.buffer.as_ref();
        if prefix.len() < PREFIX_BYTES {
            return Ok(None);
        }
        if prefix.get_u8() != 0 {
            let words = "compressed messages are not understood";
            return Err(Status::new(Code::Unimplemented, words));
        }
        let length = usize::try_from(prefix.get_u32()).unwrap_or(usize::MAX);
        if length > MAX_MESSAGE_BYTES {
            return Err(Status::new(Code::ResourceExhausted, "the message is too long"));
        }
        if prefix.len() < length {
            return Ok(None);
        }
        self.buffer.advance(PREFIX_BYTES);
        Ok(Some(self.buffer.split_to(length).freeze()))
    }
}

/// What a call answers: messages, encoded.
pub(super) enum Reply {
    One(Bytes),
    Many(BoxStream<'static, Bytes>),
}

/// The answer to a call. One that failed has its status in the head, for there is nothing to wait for.
pub(super) fn response(answered: Result<Reply, Status>) -> Response {
    let messages = match answered {
        Ok(Reply::One(message)) => stream::iter([message]).boxed(),
        Ok(Reply::Many(messages)) => messages,
        Err(status) => {
            let mut response = head(Body::empty());
            response.headers_mut().extend(trailers(status.code, &status.message));
            return response;
        }
    };
    let frames = messages.map(|message| Frame::data(framed(&message)));
    let end = stream::iter([Frame::trailers(trailers(Code::Ok, ""))]);
    head(Body::new(StreamBody::new(frames.chain(end).map(Ok::<_, Infallible>))))
}

fn head(body: Body) -> Response {
    let mut response = Response::new(body);
    let grpc = HeaderValue::from_static("application/grpc");
    response.headers_mut().insert(header::CONTENT_TYPE, grpc);
    response.headers_mut().insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    response
}

fn trailers(code: Code, message: &str) -> HeaderMap {
    let mut trailers = HeaderMap::new();
    trailers.insert(STATUS, HeaderValue::from(u16::from(code.number())));
    if !message.is_empty() {
        let encoded = HeaderValue::try_from(form::encode(message));
        trailers.insert(MESSAGE, encoded.expect("what is encoded is printable ASCII"));
    }
    trailers
}

fn framed(message: &[u8]) -> Bytes {
    let mut framed = BytesMut::with_capacity(PREFIX_BYTES + message.len());
    framed.put_u8(0);
    framed.put_u32(u32::try_from(message.len()).expect("no message has 4 GiB"));
    framed.put_slice(message);
    framed.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(chunks: &[&'static [u8]]) -> Result<Vec<Bytes>, Code> {
        let chunks: Vec<_> = chunks.iter().map(|chunk| Ok::<_, Infallible>(*chunk)).collect();
        let mut reader = MessageReader::new(Body::from_stream(stream::iter(chunks)));
        let mut messages = Vec::new();
        while let Some(message) = reader.next().await.map_err(|status| status.code)? {
            messages.push(message);
        }
        Ok(messages)
    }

    #[tokio::test]
    async fn messages_are_found_however_they_are_cut() {
        assert_eq!(read(&[]).await, Ok(vec![]));
        assert_eq!(read(&[b"\0\0\0\0\0"]).await, Ok(vec![Bytes::new()]));
        let together = read(&[b"\0\0\0\0\x02ab\0\0\0\0\x01c"]).await;
        assert_eq!(together, Ok(vec![Bytes::from_static(b"ab"), Bytes::from_static(b"c")]));
        let apart = read(&[b"\0", b"\0\0", b"\0\x02", b"", b"a", b"b\0", b"\0\0\0\x01c"]).await;
        assert_eq!(apart, together);
    }

    #[tokio::test]
    async fn what_is_cut_off_too_long_or_compressed_is_refused() {
        assert_eq!(read(&[b"\0\0\0"]).await, Err(Code::Internal));
        assert_eq!(read(&[b"\0\0\0\0\x02a"]).await, Err(Code::Internal));
        assert_eq!(read(&[b"\0\xff\xff\xff\xff"]).await, Err(Code::ResourceExhausted));
        assert_eq!(read(&[b"\0\0\x01\0\x01"]).await, Err(Code::ResourceExhausted));
        assert_eq!(read(&[b"\x01\0\0\0\0"]).await, Err(Code::Unimplemented));
    }
}
