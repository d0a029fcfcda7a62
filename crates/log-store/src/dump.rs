//! A PLog file as text, for people.

use std::fmt::Write as _;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use bytes::Bytes;
use perigee_log_api::LogError;

use crate::disk::disk_error;
use crate::frame::{FRAME_HEADER_LEN, FrameHeader, FrameKind};
use crate::plog::scan_error;
use crate::scan::{self, Tail};
use crate::source::Window;

/// Appends to `out` what a PLog file holds: its frames, one a line, and how it ends. `describe`
/// appends what it makes of an entry's payload, which nobody here can read. Every checksum is
/// checked; nothing is changed and no lock is needed.
///
/// # Errors
/// [`LogError::Corrupt`], with file and position, if the file is damaged; `out` then has what is
/// before that. [`LogError::Disk`] if it cannot be read.
pub fn dump_plog(
    path: &Path,
    out: &mut String,
    mut describe: impl FnMut(Bytes, &mut String),
) -> Result<(), LogError> {
    let file = File::open(path).map_err(|e| disk_error("open", path, &e))?;
    let len = file
        .metadata()
        .map_err(|e| disk_error("examine", path, &e))?
        .len();
    let (header, _) =
        scan::file_header(&mut Window::new(&file)).map_err(|e| scan_error(path, e))?;
    let (plog, epoch) = (header.plog, header.epoch);
    line(out, format_args!("{plog} epoch {epoch}"));
    let mut failed = None;
    let (_, contents, tail) = scan::scan(&file, len, |frame, position| {
        dump_frame(out, frame, position);
        if frame.kind == FrameKind::Entry {
            let mut payload = vec![0; frame.payload_len as usize];
            match file.read_exact_at(&mut payload, position + FRAME_HEADER_LEN as u64) {
                Ok(()) => describe(payload.into(), out),
                Err(e) => failed = Some(disk_error("read", path, &e)),
            }
        }
    })
    .map_err(|e| scan_error(path, e))?;
    if let Some(error) = failed {
        return Err(error);
    }
    let state = if contents.sealed { "sealed" } else { "open" };
    let after = match tail {
        Tail::End => "nothing",
        Tail::Torn => "an unfinished append",
    };
    let (end, length) = (contents.end, contents.length);
    line(
        out,
        format_args!("{end:>10}  end, {state}, {length} bytes of payload, then {after}"),
    );
    Ok(())
}

fn dump_frame(out: &mut String, frame: &FrameHeader, position: u64) {
    let (offset, epoch) = (frame.offset, frame.epoch);
    match frame.kind {
        FrameKind::Entry => line(
            out,
            format_args!(
                "{position:>10}  entry  offset {offset} bytes {} {}..={} epoch {epoch}",
                frame.payload_len, frame.first_lsn, frame.last_lsn
            ),
        ),
        FrameKind::Seal => line(
            out,
            format_args!("{position:>10}  seal   offset {offset} epoch {epoch}"),
        ),
    }
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    writeln!(out, "{text}").expect("writing to a string succeeds");
}
