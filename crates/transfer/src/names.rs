//! Names and texts in SQL, and names of tables in names of files.

/// A name in backticks.
pub(crate) fn ident(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

/// The name of a table with its schema.
pub(crate) fn qualified(schema: &str, table: &str) -> String {
    format!("{}.{}", ident(schema), ident(table))
}

/// A text as a literal.
pub(crate) fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

/// The name of a table as the name of a file: other characters than letters, digits, `_`, `-` and `$` are percent-encoded.
pub(crate) fn to_file(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'-' | b'$' => out.push(byte.into()),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// The name that [`to_file`] wrote. What is not percent-encoded stands for itself.
pub(crate) fn from_file(name: &str) -> String {
    let bytes = name.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let digits = name.get(at + 1..at + 3).filter(|_| bytes[at] == b'%');
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                out.push(byte);
                at += 3;
            }
            None => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_texts_are_quoted() {
        assert_eq!(ident("a`b"), "`a``b`");
        assert_eq!(qualified("s", "t"), "`s`.`t`");
        assert_eq!(literal("it's \\"), "'it''s \\\\'");
    }

    #[test]
    fn names_of_tables_come_back_from_names_of_files() {
        for name in ["orders", "a.b/c", "käse", "100%", "%41", "", "a b"] {
            let file = to_file(name);
            assert!(!file.contains(['.', '/', ' ']), "{file}");
            assert_eq!(from_file(&file), name);
        }
        assert_eq!(from_file("50%"), "50%");
        assert_eq!(from_file("%zz"), "%zz");
    }
}
