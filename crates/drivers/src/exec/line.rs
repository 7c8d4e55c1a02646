//! Lines of bytes, none longer than a bound.

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt as _};

/// Read at a time.
const CHUNK_BYTES: usize = 8 << 10;

/// Reads lines. [`Self::next`] can be dropped and called again, and loses nothing.
#[derive(Debug)]
pub(super) struct Lines<R> {
    reader: R,
    buffer: BytesMut,
    /// So much of the buffer holds no end of a line.
    searched: usize,
    max: usize,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum LineError {
    #[error("cannot read from it")]
    Read(#[source] std::io::Error),
    #[error("it wrote a line of more than {0} bytes")]
    TooLong(usize),
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(super) fn new(reader: R, max: usize) -> Self {
        Self { reader, buffer: BytesMut::new(), searched: 0, max }
    }

    /// The next line without its end; none at the end of input. What comes after the last end of a line is
    /// no line.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, LineError> {
        loop {
            let found = self.buffer[self.searched..].iter().position(|byte| *byte == b'\n');
            if let Some(at) = found {
                let length = self.searched + at;
                if length > self.max {
                    return Err(LineError::TooLong(self.max));
                }
                let mut line = self.buffer.split_to(length + 1);
                line.truncate(length);
                self.searched = 0;
                return Ok(Some(line.freeze()));
            }
            self.searched = self.buffer.len();
            if self.buffer.len() > self.max {
                return Err(LineError::TooLong(self.max));
            }
            self.buffer.reserve(CHUNK_BYTES);
            if self.reader.read_buf(&mut self.buffer).await.map_err(LineError::Read)? == 0 {
                return Ok(None);
            }
        }
    }

    /// Drops what was read of a line that is too long, so that what follows can be read.
    pub(super) fn discard(&mut self) {
        self.buffer.clear();
        self.searched = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(text: &str, max: usize) -> Vec<Result<String, String>> {
        let mut lines = Lines::new(text.as_bytes(), max);
        let mut read = Vec::new();
        loop {
            match lines.next().await {
                Ok(Some(line)) => read.push(Ok(String::from_utf8_lossy(&line).into_owned())),
                Ok(None) => return read,
                Err(error) => {
                    read.push(Err(error.to_string()));
                    return read;
                }
            }
        }
    }

    #[tokio::test]
    async fn lines_end_with_their_ends_and_are_bounded() {
        let line = |text: &str| Ok(text.to_owned());
        assert_eq!(read("a\n\nbc\nrest", 4).await, [line("a"), line(""), line("bc")]);
        assert_eq!(read("abcd\n", 4).await, [line("abcd")]);
        let error = "it wrote a line of more than 4 bytes".to_owned();
        assert_eq!(read("a\nabcde\n", 4).await, [line("a"), Err(error.clone())]);
        assert_eq!(read("abcdefgh", 4).await, [Err(error)]);
    }
}
