//! Rows as lines of LOAD DATA in its default format: tabs between fields, backslashes before what is not meant literally.

/// What LOAD DATA is told about the format.
pub(crate) const FORMAT: &str =
    "CHARACTER SET utf8mb4 FIELDS TERMINATED BY '\\t' ESCAPED BY '\\\\' LINES TERMINATED BY '\\n'";

/// Appends a field; none is NULL.
pub(crate) fn field(out: &mut Vec<u8>, value: Option<&[u8]>) {
    let Some(bytes) = value else {
        out.extend_from_slice(b"\\N\t");
        return;
    };
    let mut rest = bytes;
    while let Some(at) = rest.iter().position(|byte| needs_escape(*byte)) {
        out.extend_from_slice(&rest[..at]);
        out.push(b'\\');
        out.push(match rest[at] {
            b'\t' => b't',
            b'\n' => b'n',
            0 => b'0',
            other => other,
        });
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
    out.push(b'\t');
}

fn needs_escape(byte: u8) -> bool {
    matches!(byte, b'\\' | b'\t' | b'\n' | 0)
}

/// Ends a line that has at least one field.
pub(crate) fn end(out: &mut [u8]) {
    if let Some(last) = out.last_mut() {
        *last = b'\n';
    }
}

/// A line that no table takes, which has more fields than there are columns. It undoes a LOAD DATA whose rows cannot all be
/// sent: ending the file would commit those that were.
pub(crate) fn poison(columns: usize) -> Vec<u8> {
    let mut line = vec![b'\t'; columns + 1];
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_escaped() {
        let mut line = Vec::new();
        for value in [
            Some(&b"a\tb\\c\nd\0e"[..]),
            None,
            Some(b""),
            Some(b"\\N"),
            Some(b"\xff"),
        ] {
            field(&mut line, value);
        }
        end(&mut line);
        assert_eq!(line, b"a\\tb\\\\c\\nd\\0e\t\\N\t\t\\\\N\t\xff\n");
    }

    #[test]
    fn a_poisoned_line_has_too_many_fields() {
        let line = poison(3);
        assert_eq!(line.iter().filter(|byte| **byte == b'\t').count() + 1, 5);
    }
}
