//! The stream below the mail library, for connections that begin without TLS.
//!
//! Until TLS begins anybody on the way can speak as the server, and the library reads ahead: bytes
//! that follow the answer to STARTTLS in plain would later be taken for the server's encrypted
//! answers ("250 I have your mail"), and a warning that nobody got would count as delivered. So this
//! stream gives away one byte at a time until the first TLS record is written. What was sent too
//! early then meets the TLS handshake, which it breaks.
//!
//! It also ends when the server says more than any server has to say.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use lettre::transport::smtp::client::AsyncTokioStream;
use tokio::io::{AsyncBufRead as _, AsyncRead, AsyncWrite, BufReader, ReadBuf};
use tokio::net::TcpStream;

/// A session reads a few kilobytes: greeting, extensions, certificates, answers.
const MAX_RECEIVED_BYTES: usize = 1024 * 1024;
/// The type of the record in which a TLS client says hello. No SMTP command begins with it.
const TLS_HANDSHAKE: u8 = 0x16;

#[derive(Debug)]
pub(super) struct Wire {
    stream: BufReader<TcpStream>,
    encrypted: bool,
    received: usize,
}

impl Wire {
    pub(super) fn new(stream: TcpStream) -> Self {
        Self { stream: BufReader::new(stream), encrypted: false, received: 0 }
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.received > MAX_RECEIVED_BYTES {
            let words = format!("the server said more than {MAX_RECEIVED_BYTES} bytes");
            return Poll::Ready(Err(io::Error::other(words)));
        }
        let most = if self.encrypted { into.remaining() } else { into.remaining().min(1) };
        let there = ready!(Pin::new(&mut self.stream).poll_fill_buf(context))?;
        let given = there.len().min(most);
        into.put_slice(&there[..given]);
        Pin::new(&mut self.stream).consume(given);
        self.received += given;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.encrypted |= bytes.first() == Some(&TLS_HANDSHAKE);
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

impl AsyncTokioStream for Wire {
    fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.stream.get_ref().peer_addr()
    }
}
