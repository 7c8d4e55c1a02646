//! The command of the sidecar through which a game server is heard.

use std::path::PathBuf;

/// Serve a game server's SDK within its Pod, and pass on what it says to the operator.
///
/// The operator adds it to the Pods of servers where `sdk` in game.yaml names an image. It listens on
/// 127.0.0.1 at the ports of AGONES_SDK_HTTP_PORT and AGONES_SDK_GRPC_PORT, for the server that
/// SERVER_NAME and SERVER_NAMESPACE name; API_SERVER_CODE is that of the classic routes, and
/// SOJOURN_SDK_CA, if it is set, who signed the operator's certificate, in PEM.
#[derive(Debug, clap::Args)]
pub(crate) struct Sdk {
    /// Where `sojourn operator --sdk` is reached: https://HOST:PORT
    #[arg(long, value_name = "URL")]
    pub(crate) url: String,

    /// File with the token of this Pod, which is read anew for every request
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: PathBuf,
}
