//! The arguments of the commands for objects of any kind.

use std::path::PathBuf;

use super::Connection;

/// Make objects what files say they are.
///
/// A server-side apply, field by field, by the manager `sojourn-cli`. Files are YAML, with as many
/// documents as they like, or JSON; a List stands for what is in it. Of a folder, the files *.yaml, *.yml
/// and *.json are taken, in the order of their names. A kind that an earlier object defines is waited
/// for.
#[derive(Debug, clap::Args)]
pub(crate) struct Apply {
    #[command(flatten)]
    pub(crate) files: Files,

    /// Take over fields that somebody else manages
    #[arg(long)]
    pub(crate) force_conflicts: bool,

    /// Have the server check and answer everything, and store nothing
    #[arg(
        long,
        value_name = "WHERE",
        default_value = "none",
        default_missing_value = "server",
        num_args = 0..=1,
        require_equals = true
    )]
    pub(crate) dry_run: DryRun,

    // It is the only way here; whoever is used to say so may.
    #[arg(long = "server-side", hide = true)]
    pub(crate) _server_side: bool,

    /// How to write what the server answers [default: a line for each object]
    #[arg(short, long)]
    pub(crate) output: Option<ObjectOutput>,

    #[command(flatten)]
    pub(crate) connection: Connection,
}

/// Where manifests are.
#[derive(Debug, clap::Args)]
pub(crate) struct Files {
    /// File or folder with manifests, or - for stdin; may be repeated
    #[arg(short = 'f', long = "filename", value_name = "FILE", required = true)]
    pub(crate) filename: Vec<PathBuf>,

    /// Look into the folders of a folder, too
    #[arg(short = 'R', long)]
    pub(crate) recursive: bool,
}

/// The same, where objects can be named instead.
#[derive(Debug, clap::Args)]
pub(crate) struct OptionalFiles {
    /// File or folder with manifests, or - for stdin; may be repeated
    #[arg(short = 'f', long = "filename", value_name = "FILE", conflicts_with = "objects")]
    pub(crate) filename: Vec<PathBuf>,

    /// Look into the folders of a folder, too
    #[arg(short = 'R', long, requires = "filename")]
    pub(crate) recursive: bool,
}

/// Whether anything is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum DryRun {
    None,
    Server,
}

/// How objects are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ObjectOutput {
    Name,
    Json,
    Yaml,
}

/// How a list is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ListOutput {
    Table,
    /// Every column, however wide
    Wide,
    Json,
    Yaml,
    Name,
}

/// Show objects of any kind that the API serves.
///
/// Kinds are named as the API names them: in the plural or the singular, shortened, with their group
/// (crontabs.example.com), or by a category (all). The table is the server's own.
#[derive(Debug, clap::Args)]
pub(crate) struct Get {
    /// Kinds, with commas between them, and names; or KIND/NAME, as often as wanted
    #[arg(value_name = "KIND[/NAME]", required = true)]
    pub(crate) objects: Vec<String>,

    /// Look in every namespace
    #[arg(short = 'A', long)]
    pub(crate) all_namespaces: bool,

    /// Only those whose labels fit, such as app=web,tier!=test
    #[arg(short = 'l', long, value_name = "LABELS")]
    pub(crate) selector: Option<String>,

    /// Go on with what changes, until Ctrl-C
    #[arg(short, long)]
    pub(crate) watch: bool,

    /// How to write it
    #[arg(short, long, default_value = "table")]
    pub(crate) output: ListOutput,

    #[command(flatten)]
    pub(crate) connection: Connection,
}

/// Delete objects, and wait until they are gone.
///
/// Of files, what comes last goes first: what was applied before others is often what they need to be
/// removed properly.
#[derive(Debug, clap::Args)]
pub(crate) struct Delete {
    /// A kind and names; or KIND/NAME, as often as wanted
    #[arg(value_name = "KIND[/NAME]", required_unless_present = "filename")]
    pub(crate) objects: Vec<String>,

    #[command(flatten)]
    pub(crate) files: OptionalFiles,

    /// What is not there is no failure
    #[arg(long)]
    pub(crate) ignore_not_found: bool,

    /// Wait until everything is gone
    #[arg(
        long,
        value_name = "BOOL",
        default_value_t = true,
        default_missing_value = "true",
        num_args = 0..=1,
        require_equals = true,
        action = clap::ArgAction::Set
    )]
    pub(crate) wait: bool,

    /// For how long it is waited, e.g. 30s or 5m
    #[arg(long, value_name = "SPAN", default_value = "5m")]
    pub(crate) timeout: String,

    /// Write nothing but the names
    #[arg(short, long, value_parser = ["name"], value_name = "name")]
    pub(crate) output: Option<String>,

    #[command(flatten)]
    pub(crate) connection: Connection,
}

/// Print what a Pod has written.
#[derive(Debug, clap::Args)]
pub(crate) struct Logs {
    /// The Pod, such as web or pod/web
    #[arg(value_name = "POD")]
    pub(crate) pod: String,

    /// Container of the Pod; needed if it has several
    #[arg(short, long, value_name = "NAME")]
    pub(crate) container: Option<String>,

    /// Go on with what is written, until the container ends or Ctrl-C
    #[arg(short, long)]
    pub(crate) follow: bool,

    /// Of the run before this one
    #[arg(short, long)]
    pub(crate) previous: bool,

    /// Only the last lines
    #[arg(long, value_name = "LINES")]
    pub(crate) tail: Option<u32>,

    /// Only what is not older, e.g. 10s, 5m or 2h
    #[arg(long, value_name = "SPAN")]
    pub(crate) since: Option<String>,

    #[command(flatten)]
    pub(crate) connection: Connection,
}
