//! CSV by RFC 4180, and what it leaves open: a field in quotes is a text, whatever it says; NULL is a certain word without
//! quotes. So a text that is that word and NULL are two things, which no reader that drops the quotes could tell apart.

use std::io::{self, BufRead};

/// A record: its fields, and where it begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Record {
    bytes: Vec<u8>,
    /// The end of each field, and whether it was in quotes.
    ends: Vec<(usize, bool)>,
    /// The line on which it begins, from 1.
    pub line: u64,
}

impl Record {
    /// Number of fields.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The fields; none is NULL, written as `null`.
    pub(crate) fn fields<'a>(&'a self, null: &'a [u8]) -> impl Iterator<Item = Option<&'a [u8]>> {
        let mut start = 0;
        self.ends.iter().map(move |(end, quoted)| {
            let field = &self.bytes[start..*end];
            start = *end;
            (*quoted || field != null).then_some(field)
        })
    }
}

/// Why a record cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CsvError {
    #[error("line {0}: a quote is opened and not closed")]
    Unclosed(u64),
    #[error("line {0}: there is text behind a closing quote; a quote in a text is written twice")]
    Behind(u64),
    #[error("line {0}: a record of more than 64 MiB, perhaps behind a quote that is not closed")]
    TooLong(u64),
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// Longest record: the target takes no longer line.
const LONGEST: usize = 64 << 20;

/// Reads records.
pub(crate) struct Reader<R> {
    input: R,
    delimiter: u8,
    /// The line that comes next.
    line: u64,
    begun: bool,
}

/// Where the reader is in a record.
#[derive(Clone, Copy, PartialEq, Eq)]
enum At {
    /// At the beginning of a field.
    Start,
    Plain,
    Quoted,
    /// Behind a quote in a quoted field: its end, or the first of two.
    Closed,
}

impl<R: BufRead> Reader<R> {
    pub(crate) fn new(input: R, delimiter: u8) -> Self {
        Self {
            input,
            delimiter,
            line: 1,
            begun: false,
        }
    }

    /// Reads the next record; false at the end. Empty lines are none.
    ///
    /// # Errors
    /// With the line, from 1, on which the record begins.
    pub(crate) fn next(&mut self, record: &mut Record) -> Result<bool, CsvError> {
        if !self.begun {
            self.begun = true;
            if self.input.fill_buf()?.starts_with(b"\xef\xbb\xbf") {
                self.input.consume(3);
            }
        }
        loop {
            record.bytes.clear();
            record.ends.clear();
            record.line = self.line;
            if !self.record(record)? {
                return Ok(false);
            }
            if record.ends != [(0, false)] {
                return Ok(true);
            }
        }
    }

    fn record(&mut self, record: &mut Record) -> Result<bool, CsvError> {
        let (mut at, mut any) = (At::Start, false);
        let mut quoted = false;
        loop {
            let block = self.input.fill_buf()?;
            if block.is_empty() {
                return match at {
                    At::Quoted => Err(CsvError::Unclosed(record.line)),
                    _ if !any => Ok(false),
                    _ => {
                        end_field(record, quoted);
                        Ok(true)
                    }
                };
            }
            any = true;
            let mut used = 0;
            let mut ended = false;
            for byte in block {
                used += 1;
                self.line += u64::from(*byte == b'\n');
                match (at, *byte) {
                    (At::Start, b'"') => (at, quoted) = (At::Quoted, true),
                    (At::Quoted, b'"') => at = At::Closed,
                    (At::Quoted, byte) => record.bytes.push(byte),
                    (At::Closed, b'"') => {
                        record.bytes.push(b'"');
                        at = At::Quoted;
                    }
                    (_, b'\n') => {
                        end_line(record, quoted);
                        ended = true;
                        break;
                    }
                    (_, byte) if byte == self.delimiter => {
                        end_field(record, quoted);
                        (at, quoted) = (At::Start, false);
                    }
                    // Before the end of a line only, where it is checked.
                    (At::Closed, b'\r') => {}
                    (At::Closed, _) => return Err(CsvError::Behind(record.line)),
                    (_, byte) => {
                        record.bytes.push(byte);
                        at = At::Plain;
                    }
                }
            }
            self.input.consume(used);
            if ended {
                return Ok(true);
            }
            if record.bytes.len() > LONGEST {
                return Err(CsvError::TooLong(record.line));
            }
        }
    }
}

fn end_field(record: &mut Record, quoted: bool) {
    record.ends.push((record.bytes.len(), quoted));
}

/// Ends the last field of a line, without the carriage return of a line end of two characters.
fn end_line(record: &mut Record, quoted: bool) {
    let start = record.ends.last().map_or(0, |(end, _)| *end);
    if !quoted && record.bytes.len() > start && record.bytes.last() == Some(&b'\r') {
        record.bytes.pop();
    }
    end_field(record, quoted);
}

/// Appends a record's field; none is NULL.
pub(crate) fn write_field(out: &mut Vec<u8>, value: Option<&[u8]>, delimiter: u8, null: &[u8]) {
    match value {
        None => out.extend_from_slice(null),
        Some(text) if needs_quotes(text, delimiter, null) => {
            out.push(b'"');
            for part in text.split_inclusive(|byte| *byte == b'"') {
                out.extend_from_slice(part);
                if part.ends_with(b"\"") {
                    out.push(b'"');
                }
            }
            out.push(b'"');
        }
        Some(text) => out.extend_from_slice(text),
    }
    out.push(delimiter);
}

/// Ends a record that has at least one field.
pub(crate) fn end_record(out: &mut [u8]) {
    if let Some(last) = out.last_mut() {
        *last = b'\n';
    }
}

fn needs_quotes(text: &[u8], delimiter: u8, null: &[u8]) -> bool {
    let special = |byte: &u8| matches!(byte, b'"' | b'\n' | b'\r') || *byte == delimiter;
    // A byte order mark at the beginning of a file would be taken for one.
    text.is_empty() || text == null || text.iter().any(special) || text.starts_with(b"\xef\xbb\xbf")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "test code")]
    use proptest::prelude::*;

    use super::*;

    type Row = Vec<Option<Vec<u8>>>;

    fn read(text: &[u8], capacity: usize) -> Result<Vec<(u64, Row)>, CsvError> {
        let mut reader = Reader::new(io::BufReader::with_capacity(capacity, text), b',');
        let mut record = Record::default();
        let mut found = Vec::new();
        while reader.next(&mut record)? {
            let fields = record.fields(b"\\N").map(|field| field.map(<[u8]>::to_vec));
            found.push((record.line, fields.collect()));
        }
        Ok(found)
    }

    fn row(fields: &[Option<&str>]) -> Row {
        fields
            .iter()
            .map(|field| field.map(|text| text.as_bytes().to_vec()))
            .collect()
    }

    #[test]
    fn records_have_quotes_nulls_and_lines() {
        let text = "\u{feff}a,\"b\"\"c\",\\N,\"\\N\"\r\n\n\"x\ny\",,\"\",z\r\nlast,a\"b";
        for capacity in [3, 7, 1000] {
            let found = read(text.as_bytes(), capacity).unwrap();
            let expected = [
                (1, row(&[Some("a"), Some("b\"c"), None, Some("\\N")])),
                (3, row(&[Some("x\ny"), Some(""), Some(""), Some("z")])),
                (5, row(&[Some("last"), Some("a\"b")])),
            ];
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn bad_records_are_named_by_their_lines() {
        let message = |text: &str| read(text.as_bytes(), 8).unwrap_err().to_string();
        assert!(message("a\n\"b\nc").starts_with("line 2: a quote is opened"));
        assert!(message("a\nb\n\"c\"d\n").starts_with("line 3: there is text behind"));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            rows in prop::collection::vec(
                prop::collection::vec(
                    prop::option::of(prop::collection::vec(
                        prop::sample::select(vec![b'a', b'"', b',', b'\n', b'\r', b'\\', b'N', 0xff, 0xef, 0xbb, 0xbf]), 0..5)),
                    1..4),
                0..6),
            capacity in 3_usize..20,
        ) {
            let mut text = Vec::new();
            for row in &rows {
                for field in row {
                    write_field(&mut text, field.as_deref(), b',', b"\\N");
                }
                end_record(&mut text);
            }
            let found = read(&text, capacity).unwrap();
            let found: Vec<Row> = found.into_iter().map(|(_, row)| row).collect();
            prop_assert_eq!(found, rows);
        }
    }
}
