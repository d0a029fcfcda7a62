//! A PLog file as text, for people.

use std::fmt::Write as _;
use std::fs::File;
use std::path::Path;

use perigee_log_api::LogError;

use crate::disk::disk_error;
use crate::frame::FrameKind;
use crate::plog::scan_error;
use crate::scan::{self, Tail};

/// Lists the frames of a PLog file, one a line, and how it ends. Changes nothing and needs no lock.
///
/// # Errors
/// [`LogError::Corrupt`], with file and position, if the file is damaged; [`LogError::Disk`] if it
/// cannot be read.
pub fn dump_plog(path: &Path) -> Result<String, LogError> {
    let file = File::open(path).map_err(|e| disk_error("open", path, &e))?;
    let len = file
        .metadata()
        .map_err(|e| disk_error("examine", path, &e))?
        .len();
    let mut frames = String::new();
    let (header, contents, tail) = scan::scan(&file, len, |frame, position| {
        let (offset, epoch) = (frame.offset, frame.epoch);
        let line = match frame.kind {
            FrameKind::Entry => writeln!(
                frames,
                "{position:>10}  entry  offset {offset} bytes {} {}..={} epoch {epoch}",
                frame.payload_len, frame.first_lsn, frame.last_lsn
            ),
            FrameKind::Seal => writeln!(
                frames,
                "{position:>10}  seal   offset {offset} epoch {epoch}"
            ),
        };
        line.expect("writing to a string succeeds");
    })
    .map_err(|e| scan_error(path, e))?;
    let state = if contents.sealed { "sealed" } else { "open" };
    let after = match tail {
        Tail::End => "nothing",
        Tail::Torn => "an unfinished append",
    };
    Ok(format!(
        "{} epoch {} {state}, {} bytes of payload\n{frames}{:>10}  end, then {after}\n",
        header.plog, header.epoch, contents.length, contents.end
    ))
}
