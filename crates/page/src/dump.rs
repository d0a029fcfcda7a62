//! A page as text, for `perigee inspect`, test expectations and bug reports.

use std::fmt::Write;

use crate::{OverflowPage, PageKind, PageRef, RecordFlags};

impl PageRef<'_> {
    /// The header in one line, then one line a record: slot, offset, length, header, key in
    /// hexadecimal and, on inner pages, the child; of an overflow page, which part of which chain it is.
    ///
    /// The page must have passed [`PageRef::verify`].
    #[must_use]
    pub fn dump(self) -> String {
        let mut out = format!(
            "{} {:?} level {} {} {} {} prev {} next {} slots {} deleted {} free {} max {}\n",
            self.id(),
            self.kind(),
            self.level(),
            self.lsn(),
            self.db(),
            self.index(),
            self.prev().map_or("-".to_owned(), |id| id.0.to_string()),
            self.next().map_or("-".to_owned(), |id| id.0.to_string()),
            self.slot_count(),
            self.deleted_count(),
            self.free_space(),
            self.max_trx(),
        );
        if let Ok(part) = OverflowPage::new(self) {
            let _ = writeln!(
                out,
                "  chain {} bytes {} to {}",
                part.chain(),
                part.start(),
                part.start() as usize + part.bytes().len()
            );
        }
        if self.kind().has_records() {
            for slot in 0..self.slot_count() {
                self.dump_record(slot, &mut out);
            }
        }
        out
    }

    fn dump_record(self, slot: u16, out: &mut String) {
        let record = self.record(slot);
        let _ = write!(
            out,
            "  {slot} @{} len {}",
            self.record_offset(slot),
            record.len()
        );
        if RecordFlags(record[0]).is_deleted() {
            out.push_str(" deleted");
        }
        if self.kind() == PageKind::Clustered {
            let header = self.header(slot);
            let _ = write!(out, " {} {}", header.trx, header.roll);
        }
        out.push_str(" key ");
        for byte in self.key(slot) {
            let _ = write!(out, "{byte:02x}");
        }
        if self.kind() == PageKind::Inner {
            let _ = write!(out, " -> {}", self.child(slot));
        }
        out.push('\n');
    }
}
