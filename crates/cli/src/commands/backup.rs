//! `sojourn backup`: a copy of the database, taken while it is in use or not.

use sojourn_apiserver::{BackupError, backup};

use super::data;
use crate::args::Backup;
use crate::exit::{Exit, Failure};
use crate::printer::Printer;

pub(super) fn run(args: Backup, printer: Printer) -> Result<(), Failure> {
    let data = data::directory(args.data)?;
    let bytes = backup(&data, &args.file).map_err(failure)?;
    printer.good(format_args!(
        "Copied the database of {} to {} ({} KiB).",
        data.display(),
        args.file.display(),
        bytes.div_ceil(1024)
    ));
    printer.line("It holds every secret that the database holds: keep it as safe.");
    Ok(())
}

fn failure(error: BackupError) -> Failure {
    let (exit, advice) = match &error {
        BackupError::Folder(unsafe_folder) if unsafe_folder.kind().is_none() => {
            let advice = unsafe_folder.advice();
            return Failure::unavailable(error, advice);
        }
        BackupError::Missing { .. } => (Exit::Unavailable, "Say where the data is: --data DIR."),
        BackupError::Exists { .. } => (
            Exit::Negative,
            "Nothing was overwritten. Choose another name, or move that file away.",
        ),
        BackupError::Folder(_) | BackupError::Target { .. } => {
            (Exit::Unavailable, "See that the folder is there, can be written and has room.")
        }
        BackupError::Source { .. } => {
            (Exit::Unavailable, "See that this user may read and write the data folder.")
        }
        BackupError::Damaged { .. } => {
            (Exit::Unavailable, "Restore an earlier backup; this one would be damaged, too.")
        }
    };
    Failure::new(exit, error, advice)
}
