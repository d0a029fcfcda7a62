//! A way over the bytes of a text whose tokens are plain, for what decides before it is split into tokens.

/// A place in a text of plain tokens.
pub struct Scan<'a> {
    /// The text.
    pub text: &'a str,
    /// Where the rest begins, in bytes.
    pub at: usize,
    /// A backslash in a string begins an escape sequence.
    pub escapes: bool,
}

impl<'a> Scan<'a> {
    /// The next byte.
    pub fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Passes over bytes.
    pub fn skip(&mut self, is_part: impl Fn(u8) -> bool) {
        while self.peek().is_some_and(&is_part) {
            self.at += 1;
        }
    }

    /// Passes over white space.
    pub fn white(&mut self) {
        self.skip(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r'));
    }

    /// Passes over a word, which may be empty.
    pub fn word(&mut self) -> &'a str {
        let start = self.at;
        self.skip(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        &self.text[start..self.at]
    }

    /// Passes over a comma that is next.
    pub fn comma(&mut self) -> bool {
        self.white();
        let found = self.peek() == Some(b',');
        self.at += usize::from(found);
        found
    }

    /// Passes over the rest of a string. A doubled quote ends it and begins another.
    pub fn string(&mut self, quote: u8) -> Option<()> {
        loop {
            let byte = self.peek()?;
            self.at += 1;
            match byte {
                b'\\' if self.escapes => self.at += 1,
                byte if byte == quote => return Some(()),
                _ => {}
            }
        }
    }
}
