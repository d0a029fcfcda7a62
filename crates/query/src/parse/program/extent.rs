//! Where a statement ends that has statements in it: the semicolons of a stored program do not end it.

use sqlparser::tokenizer::{Token, TokenWithSpan};

/// The words of a text's tokens that say where statements begin and end.
struct Words<'a> {
    tokens: &'a [TokenWithSpan],
    at: usize,
}

impl Words<'_> {
    /// The next token that is no white space; words in upper case.
    fn next(&mut self) -> Option<Part> {
        loop {
            let token = &self.tokens.get(self.at)?.token;
            self.at += 1;
            return Some(match token {
                Token::Whitespace(_) => continue,
                Token::SemiColon => Part::Semicolon,
                Token::Colon => Part::Colon,
                Token::LParen => Part::Open,
                Token::RParen => Part::Close,
                Token::Word(word) if word.quote_style.is_none() => {
                    Part::Word(word.value.to_ascii_uppercase())
                }
                Token::EOF => return None,
                _ => Part::Other,
            });
        }
    }

    fn peek(&self) -> Option<Part> {
        let mut ahead = Words {
            tokens: self.tokens,
            at: self.at,
        };
        ahead.next()
    }
}

#[derive(PartialEq, Eq)]
enum Part {
    Word(String),
    Semicolon,
    Colon,
    Open,
    Close,
    Other,
}

/// Words behind which a statement may begin.
const BEFORE_STATEMENTS: &[&str] = &[
    "BEGIN",
    "THEN",
    "ELSE",
    "DO",
    "LOOP",
    "REPEAT", // in a program
    "DETERMINISTIC",
    "SQL",
    "DATA",
    "DEFINER",
    "INVOKER",
    "ROW", // before it
];

/// True if the tokens begin a statement that makes a stored program.
fn begins(tokens: &[TokenWithSpan]) -> bool {
    // Each statement is asked: nearly all end here.
    let mut written = tokens.iter().map(|token| &token.token);
    match written.find(|token| !matches!(token, Token::Whitespace(_))) {
        Some(Token::Word(word)) if word.value.eq_ignore_ascii_case("CREATE") => {}
        _ => return false,
    }
    let mut words = Words { tokens, at: 0 };
    words.next();
    // What may stand before: OR REPLACE, DEFINER = an account.
    for _ in 0..10 {
        match words.next() {
            Some(Part::Word(word)) => match word.as_str() {
                "PROCEDURE" | "FUNCTION" | "TRIGGER" | "EVENT" => return true,
                "TABLE" | "VIEW" | "INDEX" | "DATABASE" | "SCHEMA" | "USER" => return false,
                _ => {}
            },
            Some(Part::Semicolon) | None => return false,
            Some(_) => {}
        }
    }
    false
}

/// How many of the tokens the statement has that they begin with, if it makes a stored program; the semicolon behind
/// it is not one of them.
pub(in crate::parse) fn extent(tokens: &[TokenWithSpan]) -> Option<usize> {
    if !begins(tokens) {
        return None;
    }
    let mut words = Words { tokens, at: 0 };
    let mut depth = 0usize;
    // True where a statement begins.
    let mut first = false;
    // True behind FOLLOWS and PRECEDES, where the name of a trigger comes.
    let mut named = false;
    while let Some(part) = words.next() {
        match part {
            Part::Semicolon if depth == 0 => return Some(words.at - 1),
            // The body begins behind the parameters.
            Part::Semicolon | Part::Colon | Part::Close => first = true,
            Part::Word(word) => {
                let opens_call = words.peek() == Some(Part::Open);
                let is_begin = word == "BEGIN" && words.peek() != Some(Part::Semicolon);
                match word.as_str() {
                    "BEGIN" if is_begin => depth += 1,
                    "CASE" => depth += 1,
                    "IF" | "LOOP" | "WHILE" | "REPEAT"
                        if first && !(word == "REPEAT" && opens_call) =>
                    {
                        depth += 1;
                    }
                    "END" => {
                        depth = depth.saturating_sub(1);
                        let behind = ["IF", "CASE", "LOOP", "WHILE", "REPEAT"];
                        if let Some(Part::Word(word)) = words.peek()
                            && behind.contains(&word.as_str())
                        {
                            words.next();
                        }
                    }
                    _ => {}
                }
                first = named || BEFORE_STATEMENTS.contains(&word.as_str());
                named = ["FOLLOWS", "PRECEDES"].contains(&word.as_str());
            }
            Part::Open => first = false,
            Part::Other => (first, named) = (named, false),
        }
    }
    Some(tokens.len())
}

#[cfg(test)]
mod tests {
    use crate::parse::Script;

    #[test]
    fn programs_are_one_statement() {
        for (text, count) in [
            ("CREATE PROCEDURE p() SELECT 1; SELECT 2", 2),
            (
                "CREATE PROCEDURE p() BEGIN SELECT 1; SELECT 2; END; SELECT 3",
                2,
            ),
            (
                "create definer=`a`@`b` procedure p(IN x INT) BEGIN IF x THEN SELECT IF(1, 2, 3); END IF; END;;SELECT 1",
                2,
            ),
            (
                "CREATE PROCEDURE p() l: LOOP SET @a = REPEAT('a', 2); LEAVE l; END LOOP; SELECT 1",
                2,
            ),
            (
                "CREATE PROCEDURE p() BEGIN CASE @a WHEN 1 THEN SELECT CASE 1 WHEN 1 THEN 2 END; \
                 ELSE BEGIN END; END CASE; REPEAT SET @a = 1; UNTIL 1 END REPEAT; END; SELECT 1",
                2,
            ),
            (
                "CREATE PROCEDURE p() BEGIN DECLARE EXIT HANDLER FOR 1062 BEGIN END; \
                 WHILE 0 DO DROP TABLE IF EXISTS t; END WHILE; END; SELECT 1",
                2,
            ),
            (
                "CREATE PROCEDURE p() DETERMINISTIC WHILE 1 DO SELECT 1; END WHILE; SELECT 1",
                2,
            ),
            (
                "CREATE PROCEDURE p() IF (1) THEN SELECT 1; END IF; SELECT 1",
                2,
            ),
            (
                "CREATE TRIGGER b BEFORE INSERT ON t FOR EACH ROW FOLLOWS a IF 1 THEN SET @a = 1; END IF; SELECT 1",
                2,
            ),
            (
                "CREATE TRIGGER b BEFORE INSERT ON t FOR EACH ROW PRECEDES `a` IF 1 THEN SET @a = 1; END IF; SELECT 1",
                2,
            ),
            ("CREATE TABLE t (a INT); BEGIN; SELECT 1; END", 4),
            ("CREATE USER procedure_1; SELECT 1", 2),
        ] {
            let script = Script::new(text).expect("tokens");
            assert_eq!(script.pieces().len(), count, "{text}");
        }
    }
}
