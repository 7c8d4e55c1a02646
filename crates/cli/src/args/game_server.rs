//! The command of the example game server.

/// Play a game over UDP: a server for examples and tests.
///
/// Each datagram is one line: JOIN NAME, LEAVE NAME, PLAYERS N, READY, ALLOCATE, RESERVE SECONDS,
/// STATE Idle|Assigned|Running|PostMatch, LABEL KEY VALUE, ANNOTATION KEY VALUE, HEALTH good|bad,
/// SHUTDOWN, MARK, EXIT, CRASH, HANG, WHO, ENDPOINT, ECHO TEXT. Each is answered by one line that begins with OK or
/// ERROR, but for ECHO, which is answered by its text.
#[derive(Debug, clap::Args)]
pub(crate) struct GameServer {
    /// UDP port to listen on; 0 takes any free one [default: that of the port `game`, else 7777]
    #[arg(long, value_name = "PORT")]
    pub(crate) port: Option<u16>,

    /// Say Ready only after so long
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    pub(crate) slow_start: u64,

    /// Play on for so long when it is asked to end
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    pub(crate) linger: u64,

    /// Speak the classic routes alone: health is told once, and no pings are sent
    #[arg(long)]
    pub(crate) classic: bool,
}
