//! Text to value, strictly by RFC 8259, with MySQL's errors and the places where it notices them.

use super::{Json, JsonError, JsonErrorKind as Kind, MAX_DEPTH, Number};

/// The value of a text; decimals keep their digits if `exact`.
pub(super) fn parse(text: &str, exact: bool) -> Result<Json, JsonError> {
    let mut parser = Parser {
        text,
        at: 0,
        depth: 0,
        exact,
    };
    parser.skip_space();
    if parser.peek().is_none() {
        return Err(parser.error(Kind::Empty));
    }
    let value = parser.value()?;
    parser.skip_space();
    match parser.peek() {
        None => Ok(value),
        Some(_) => Err(parser.error(Kind::NotSingular)),
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    /// Arrays and objects that are open.
    depth: usize,
    exact: bool,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn error(&self, kind: Kind) -> JsonError {
        kind.at(self.at)
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// Goes past a byte if it comes next.
    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn value(&mut self) -> Result<Json, JsonError> {
        match self.peek() {
            Some(b'n') => self.word("null", Json::Null),
            Some(b't') => self.word("true", Json::Bool(true)),
            Some(b'f') => self.word("false", Json::Bool(false)),
            Some(b'"') => self.string().map(Json::String),
            Some(b'[') => self.nested(Self::array),
            Some(b'{') => self.nested(Self::object),
            _ => self.number().map(Json::Number),
        }
    }

    fn word(&mut self, word: &str, value: Json) -> Result<Json, JsonError> {
        for byte in word.bytes() {
            if !self.take(byte) {
                return Err(self.error(Kind::InvalidValue));
            }
        }
        Ok(value)
    }

    fn nested(
        &mut self,
        parse: impl Fn(&mut Self) -> Result<Json, JsonError>,
    ) -> Result<Json, JsonError> {
        self.at += 1;
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.error(Kind::TooDeep));
        }
        self.skip_space();
        let value = parse(self)?;
        self.depth -= 1;
        Ok(value)
    }

    fn array(&mut self) -> Result<Json, JsonError> {
        let mut elements = Vec::new();
        if self.take(b']') {
            return Ok(Json::Array(elements));
        }
        loop {
            elements.push(self.value()?);
            self.skip_space();
            if self.take(b']') {
                return Ok(Json::Array(elements));
            }
            if !self.take(b',') {
                return Err(self.error(Kind::MissingBracket));
            }
            self.skip_space();
        }
    }

    fn object(&mut self) -> Result<Json, JsonError> {
        let mut members = Vec::new();
        if self.take(b'}') {
            return Ok(Json::Object(members.into_iter().collect()));
        }
        loop {
            if self.peek() != Some(b'"') {
                return Err(self.error(Kind::MissingName));
            }
            let name = self.string()?;
            self.skip_space();
            if !self.take(b':') {
                return Err(self.error(Kind::MissingColon));
            }
            self.skip_space();
            members.push((name, self.value()?));
            self.skip_space();
            if self.take(b'}') {
                return Ok(Json::Object(members.into_iter().collect()));
            }
            if !self.take(b',') {
                return Err(self.error(Kind::MissingBrace));
            }
            self.skip_space();
        }
    }

    fn string(&mut self) -> Result<String, JsonError> {
        let mut out = String::new();
        self.at += 1;
        loop {
            let start = self.at;
            while let Some(byte) = self.peek()
                && byte >= b' '
                && byte != b'"'
                && byte != b'\\'
            {
                self.at += 1;
            }
            // Quotes, backslashes and control characters are characters of their own.
            out.push_str(&self.text[start..self.at]);
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(out);
                }
                Some(b'\\') => out.push(self.escape()?),
                Some(0) | None => return Err(self.error(Kind::MissingQuote)),
                Some(_) => return Err(self.error(Kind::InvalidEncoding)),
            }
        }
    }

    fn escape(&mut self) -> Result<char, JsonError> {
        let start = self.at;
        let error = |kind: Kind| kind.at(start);
        self.at += 1;
        let escaped = self.peek();
        self.at += 1;
        Ok(match escaped {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                let first = self.hex().ok_or(error(Kind::InvalidHex))?;
                if !(0xd800..0xe000).contains(&first) {
                    return char::from_u32(first).ok_or(error(Kind::InvalidHex));
                }
                let invalid = error(Kind::InvalidSurrogate);
                if first >= 0xdc00 || !self.take(b'\\') || !self.take(b'u') {
                    return Err(invalid);
                }
                let second = self.hex().ok_or(error(Kind::InvalidHex))?;
                if !(0xdc00..0xe000).contains(&second) {
                    return Err(invalid);
                }
                let both = 0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00);
                char::from_u32(both).ok_or(invalid)?
            }
            _ => return Err(error(Kind::InvalidEscape)),
        })
    }

    /// Four hexadecimal digits.
    fn hex(&mut self) -> Option<u32> {
        let digits = self.text.as_bytes().get(self.at..self.at + 4)?;
        let mut value = 0;
        for digit in digits {
            value = value * 16 + char::from(*digit).to_digit(16)?;
        }
        self.at += 4;
        Some(value)
    }

    fn number(&mut self) -> Result<Number, JsonError> {
        let start = self.at;
        self.take(b'-');
        if !self.take(b'0') && !self.digits() {
            return Err(self.error(Kind::InvalidValue));
        }
        if self.take(b'.') && !self.digits() {
            return Err(self.error(Kind::MissingFraction));
        }
        if self.take(b'e') || self.take(b'E') {
            if !self.take(b'+') {
                self.take(b'-');
            }
            if !self.digits() {
                return Err(self.error(Kind::MissingExponent));
            }
        }
        let literal = &self.text[start..self.at];
        Number::of_literal(literal, self.exact).ok_or(Kind::NumberTooBig.at(start))
    }

    /// Goes past digits; false if there are none.
    fn digits(&mut self) -> bool {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        self.at > start
    }
}
