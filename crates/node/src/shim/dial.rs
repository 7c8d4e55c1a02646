//! The node's way into a Pod's own network: the shim hands over a socket that connects.
//!
//! Each dial is a short connection to the shim of its own, so that a descriptor cannot be mistaken
//! for another's, and so that whoever dials needs nothing but the Pod's folder.

use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use tokio::io::{AsyncWriteExt as _, Interest};
use tokio::net::{TcpStream, UnixStream};

use crate::folder::PodFolder;
use crate::shim::listener::ShortPath;
use crate::shim::protocol::{Answer, Line, Request, ShimCommand};

/// An answer is short; so is what else a shim may tell meanwhile.
const MAX_ANSWER_BYTES: usize = 256 << 10;

/// Connects to a TCP port of a Pod's, inside its own network.
pub async fn dial(folder: &PodFolder, port: u16) -> io::Result<TcpStream> {
    let short = ShortPath::of(folder)?;
    let mut shim = UnixStream::connect(short.path()).await?;
    let mut request = serde_json::to_vec(&Request { id: 1, command: ShimCommand::Dial { port } })?;
    request.push(b'\n');
    shim.write_all(&request).await?;
    let socket = receive(&shim).await?;
    let stream = std::net::TcpStream::from(socket);
    stream.set_nonblocking(true)?;
    let stream = TcpStream::from_std(stream)?;
    stream.writable().await?;
    match stream.take_error()? {
        Some(error) => Err(error),
        None => Ok(stream),
    }
}

/// Waits for the answer, and the socket that comes with it.
async fn receive(shim: &UnixStream) -> io::Result<OwnedFd> {
    let mut said = Vec::new();
    let mut sockets = Vec::new();
    loop {
        let (bytes, received) = shim.async_io(Interest::READABLE, || read(shim)).await?;
        if bytes.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        said.extend(bytes);
        sockets.extend(received);
        while let Some(end) = said.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = said.drain(..=end).collect();
            match serde_json::from_slice(&line)? {
                Line::Ended(_) => {}
                Line::Answer { answer: Answer::Dialing, .. } => {
                    let missing = || io::Error::other("the Pod's shim sent no socket");
                    return sockets.pop().ok_or_else(missing);
                }
                Line::Answer { answer: Answer::Refused { message, .. }, .. } => {
                    return Err(io::Error::new(io::ErrorKind::ConnectionRefused, message));
                }
                Line::Answer { .. } => {
                    return Err(io::Error::other("the Pod's shim answered something else"));
                }
            }
        }
        if said.len() > MAX_ANSWER_BYTES {
            return Err(io::Error::other("the Pod's shim sent a line without end"));
        }
    }
}

fn read(shim: &UnixStream) -> io::Result<(Vec<u8>, Vec<OwnedFd>)> {
    let mut bytes = [0_u8; 4096];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC;
    let message = recvmsg(shim, &mut [IoSliceMut::new(&mut bytes)], &mut control, flags)?;
    let mut sockets = Vec::new();
    for part in control.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = part {
            sockets.extend(received);
        }
    }
    Ok((bytes[..message.bytes].to_vec(), sockets))
}
