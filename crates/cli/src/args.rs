//! The command line: its shape and its help, nothing else.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use clap::{Parser, Subcommand};

/// Where the API is served unless `--listen` says otherwise.
pub(crate) const LISTEN: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 7443);

const ENVIRONMENT: &str = "\
Environment:
  SOJOURN_LOG    what is logged to stderr: error, warn (as a rule), info, debug (with every
                 request), trace; or a list such as `warn,sojourn_apiserver=debug`
  XDG_DATA_HOME  data is kept in the folder `sojourn` in there; without it in ~/.local/share
  NO_COLOR       if set, nothing is coloured

Exit codes: 0 done, 1 the answer is no, 2 wrong usage, 3 something needed is not available,
4 a bug in sojourn.";

/// A Kubernetes API for one machine, in one binary.
#[derive(Debug, Parser)]
#[command(name = "sojourn", version, after_help = ENVIRONMENT, propagate_version = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Up(Up),
    Backup(Backup),
}

/// Serve the API until Ctrl-C.
///
/// Everything is kept in one folder; nothing else on the machine is changed. A kubeconfig for
/// kubectl and other clients is written there, too.
#[derive(Debug, clap::Args)]
pub(crate) struct Up {
    /// Folder to keep everything in; made if it is missing [default: the user's data folder]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,

    /// Address to serve on; port 0 takes any free one
    #[arg(long, value_name = "ADDR", default_value_t = LISTEN)]
    pub(crate) listen: SocketAddr,

    /// Keep nothing: everything is gone at the end
    #[arg(long, conflicts_with = "data")]
    pub(crate) in_memory: bool,

    /// Further host name or address under which clients reach the server; may be repeated
    #[arg(long, value_name = "NAME")]
    pub(crate) tls_san: Vec<String>,
}

/// Copy the database into a file, whether it is in use or not.
///
/// The copy is complete and consistent as of one moment, and holds every secret that the database
/// holds. To restore it, stop sojourn, take sojourn.db, sojourn.db-wal and sojourn.db-shm out of
/// the data folder, and put the copy there as sojourn.db.
#[derive(Debug, clap::Args)]
pub(crate) struct Backup {
    /// Folder that the data is in [default: the user's data folder]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,

    /// File to write; it must not exist yet
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn up_has_defaults_for_everything() {
        let Command::Up(up) = Args::parse_from(["sojourn", "up"]).command else { panic!("not up") };
        assert_eq!((up.data, up.in_memory, up.tls_san.len()), (None, false, 0));
        assert_eq!(up.listen.to_string(), "127.0.0.1:7443");
    }

    #[test]
    fn data_in_memory_is_a_contradiction() {
        let typed = ["sojourn", "up", "--in-memory", "--data", "x"];
        let refused = Args::try_parse_from(typed).expect_err("refused");
        assert_eq!(refused.exit_code(), 2);
    }
}
