//! Statements as others may see them, in the list of connections: without passwords.

/// Words next to which a string may be a password.
const WORDS: [&[u8]; 2] = [b"identified", b"password"];

/// What is shown in the place of a string.
const SECRET: &str = "<secret>";

/// A text, perhaps cut off, without what its strings say if one of them may be a password.
#[must_use]
pub fn masked(text: String) -> String {
    let bytes = text.as_bytes();
    let names = |word: &[u8]| {
        let mut windows = bytes.windows(word.len());
        windows.any(|window| window.eq_ignore_ascii_case(word))
    };
    if !WORDS.into_iter().any(names) {
        return text;
    }
    let mut shown = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while let Some(at) = rest.find(['\'', '"']) {
        let quote = rest.as_bytes()[at];
        shown.push_str(&rest[..=at]);
        shown.push_str(SECRET);
        let Some(end) = end_of_string(&rest.as_bytes()[at + 1..], quote) else {
            return shown;
        };
        shown.push(char::from(quote));
        rest = &rest[at + 1 + end + 1..];
    }
    shown.push_str(rest);
    without_digits(&shown)
}

/// A text without what its hexadecimal numbers say.
fn without_digits(text: &str) -> String {
    let mut parts = text.split("0x");
    let mut shown = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.trim_start_matches(|c: char| c.is_ascii_hexdigit());
        shown.push_str("0x");
        if rest.len() < part.len() {
            shown.push_str(SECRET);
        }
        shown.push_str(rest);
    }
    shown
}

/// Where a string ends that began before; `None` if it does not.
fn end_of_string(bytes: &[u8], quote: u8) -> Option<usize> {
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'\\' => at += 2,
            byte if *byte == quote && bytes.get(at + 1) == Some(&quote) => at += 2,
            byte if *byte == quote => return Some(at),
            _ => at += 1,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn strings_beside_passwords_are_not_shown() {
        for (text, shown) in [
            ("SELECT 'a'", "SELECT 'a'"),
            (
                "CREATE USER u IDENTIFIED WITH p AS 0x2441",
                "CREATE USER u IDENTIFIED WITH p AS 0x<secret>",
            ),
            (
                r"CREATE USER 'u'@'%' IDENTIFIED BY 'it''s \' secret'",
                "CREATE USER '<secret>'@'<secret>' IDENTIFIED BY '<secret>'",
            ),
            ("set Password = \"x\"", "set Password = \"<secret>\""),
            (
                "PREPARE s FROM 'ALTER USER u IDENTIFIED BY ''x'''",
                "PREPARE s FROM '<secret>'",
            ),
            (
                "ALTER USER u IDENTIFIED BY 'cut o",
                "ALTER USER u IDENTIFIED BY '<secret>",
            ),
        ] {
            assert_eq!(masked(text.to_owned()), shown);
        }
    }

    proptest! {
        #[test]
        fn any_text_can_be_shown(text: String) {
            let _ = masked(format!("password {text}"));
        }

        #[test]
        fn no_password_is_seen(password in "[a-z0-9]{12}", user in "[a-z]{0,6}") {
            let text = format!("ALTER USER '{user}'@'%' IDENTIFIED BY '{password}'");
            prop_assert!(!masked(text).contains(&password));
        }
    }
}
