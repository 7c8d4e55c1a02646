//! An archive in the making: a thread packs, somebody takes the pieces as they come.
//!
//! At most [`MAX_QUEUED_PIECES`] pieces wait, so a slow taker slows the packing down instead of
//! filling memory; a taker that goes away ends it. The last piece says what the whole was. A
//! packing that fails never sends it, which is how a body of a request knows that it must not end
//! as if it were whole.

use std::io::{self, Write};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue};
use http_body::{Body, Frame, SizeHint};
use ring::digest;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::archive::{self, ArchiveError, Contents, Volume};

const PIECE_BYTES: usize = 64 * 1024;
const MAX_QUEUED_PIECES: usize = 16;

/// The digest of a body, as RFC 9530 has it.
pub(super) const CONTENT_DIGEST: HeaderName = HeaderName::from_static("content-digest");

/// What an archive was, once all of it was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Packed {
    pub contents: Contents,
    pub size: u64,
    pub sha256: [u8; 32],
}

impl Packed {
    pub(super) fn hex(&self) -> String {
        hex::encode(self.sha256)
    }

    pub(super) fn content_digest(&self) -> HeaderValue {
        let encoded = BASE64_STANDARD.encode(self.sha256);
        HeaderValue::from_str(&format!("sha-256=:{encoded}:"))
            .expect("base64 is made of what a header may hold")
    }
}

enum Piece {
    Data(Bytes),
    End(Packed),
}

/// The receiving end of an archive.
pub(super) struct Packing {
    pieces: mpsc::Receiver<Piece>,
    maker: Maker,
}

type Maker = JoinHandle<Result<Packed, ArchiveError>>;

impl Packing {
    pub(super) fn start(volume: Volume) -> Self {
        let (sender, pieces) = mpsc::channel(MAX_QUEUED_PIECES);
        let maker = tokio::task::spawn_blocking(move || {
            let mut out = PieceWriter {
                sender,
                piece: BytesMut::new(),
                size: 0,
                digest: digest::Context::new(&digest::SHA256),
            };
            let contents = archive::pack(&volume, &mut out)?;
            Ok(out.end(contents))
        });
        Self { pieces, maker }
    }

    /// The next bytes, or, after all of them, what they were.
    pub(super) async fn next(&mut self) -> Result<Next, ArchiveError> {
        match self.pieces.recv().await {
            Some(Piece::Data(data)) => Ok(Next::Data(data)),
            Some(Piece::End(packed)) => Ok(Next::End(packed)),
            None => result(&mut self.maker).await.map(Next::End),
        }
    }

    /// Makes the whole archive for nothing but its size and digest.
    pub(super) async fn measure(volume: Volume, meter: &Meter) -> Result<Packed, ArchiveError> {
        let mut packing = Self::start(volume);
        loop {
            match packing.next().await? {
                Next::Data(data) => meter.add(data.len()),
                Next::End(packed) => return Ok(packed),
            }
        }
    }

    /// The archive as the body of a request, and what tells its fate afterwards.
    pub(super) fn into_body(self, meter: Meter, form: BodyForm) -> (PackingBody, UploadOutcome) {
        let taken = Meter::default();
        let upload_outcome = UploadOutcome { taken: taken.clone(), maker: self.maker };
        (PackingBody { pieces: self.pieces, meter, taken, form, done: false }, upload_outcome)
    }
}

async fn result(maker: &mut Maker) -> Result<Packed, ArchiveError> {
    maker
        .await
        .unwrap_or_else(|stopped| Err(ArchiveError::Write { source: io::Error::other(stopped) }))
}

pub(super) enum Next {
    Data(Bytes),
    End(Packed),
}

/// Bytes that went on their way: read by whoever watches for progress.
#[derive(Debug, Clone, Default)]
pub(super) struct Meter(Arc<AtomicU64>);

impl Meter {
    pub(super) fn add(&self, bytes: usize) {
        self.0.fetch_add(u64::try_from(bytes).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    pub(super) fn read(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// How an archive travels as a body.
#[derive(Default)]
pub(super) struct BodyForm {
    /// Its length, where it was measured before.
    pub length: Option<u64>,
    /// The digest follows the data.
    pub trailer: bool,
    /// Who gets the digest, in hex, when the data has ended.
    pub digest: Option<oneshot::Sender<String>>,
}

/// How the upload of an archive ended.
pub(super) struct UploadOutcome {
    taken: Meter,
    maker: Maker,
}

impl UploadOutcome {
    /// What was sent, when all of it was. Asked after the body is gone, else it may wait for ever.
    pub(super) async fn learn(mut self) -> Result<Packed, ArchiveError> {
        let packed = result(&mut self.maker).await?;
        if self.taken.read() == packed.size { Ok(packed) } else { Err(ArchiveError::Unwanted) }
    }
}

/// An archive as a body that ends well only when the archive did.
pub(super) struct PackingBody {
    pieces: mpsc::Receiver<Piece>,
    meter: Meter,
    taken: Meter,
    form: BodyForm,
    done: bool,
}

impl Body for PackingBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        if self.done {
            return Poll::Ready(None);
        }
        Poll::Ready(match ready!(self.pieces.poll_recv(context)) {
            Some(Piece::Data(data)) => {
                self.meter.add(data.len());
                self.taken.add(data.len());
                Some(Ok(Frame::data(data)))
            }
            Some(Piece::End(packed)) => {
                self.done = true;
                if let Some(digest) = self.form.digest.take() {
                    // Nobody waits for it when the rest of the request is given up.
                    _ = digest.send(packed.hex());
                }
                self.form.trailer.then(|| {
                    let digest = (CONTENT_DIGEST, packed.content_digest());
                    Ok(Frame::trailers(HeaderMap::from_iter([digest])))
                })
            }
            None => {
                self.done = true;
                Some(Err(io::Error::other("the archive could not be finished")))
            }
        })
    }

    fn is_end_stream(&self) -> bool {
        self.done
    }

    fn size_hint(&self) -> SizeHint {
        let left = |length: u64| length.saturating_sub(self.taken.read());
        self.form.length.map_or_else(SizeHint::default, |length| SizeHint::with_exact(left(length)))
    }
}

/// Turns what is written into pieces, counting and digesting it.
struct PieceWriter {
    sender: mpsc::Sender<Piece>,
    piece: BytesMut,
    size: u64,
    digest: digest::Context,
}

impl PieceWriter {
    fn send(&mut self) -> io::Result<()> {
        if self.piece.is_empty() {
            return Ok(());
        }
        let piece = self.piece.split().freeze();
        self.digest.update(&piece);
        self.size += u64::try_from(piece.len()).map_err(io::Error::other)?;
        self.sender
            .blocking_send(Piece::Data(piece))
            .map_err(|_gone| io::Error::from(io::ErrorKind::BrokenPipe))
    }

    /// Says what the whole was. A taker of a known length may have gone after its last byte, which
    /// is no failure.
    fn end(self, contents: Contents) -> Packed {
        let mut sha256 = [0; 32];
        sha256.copy_from_slice(self.digest.finish().as_ref());
        let packed = Packed { contents, size: self.size, sha256 };
        _ = self.sender.blocking_send(Piece::End(packed));
        packed
    }
}

impl Write for PieceWriter {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        if self.piece.capacity() == 0 {
            self.piece.reserve(PIECE_BYTES);
        }
        let fits = data.len().min(PIECE_BYTES - self.piece.len());
        self.piece.extend_from_slice(&data[..fits]);
        if self.piece.len() == PIECE_BYTES {
            self.send()?;
        }
        Ok(fits)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.send()
    }
}
