//! Digests of statements: the text of a statement with `?` in the places of literals, so that statements that differ in
//! nothing else are one, as MySQL's `STATEMENT_DIGEST_TEXT`.
//!
//! Tokens are separated by one space, reserved words and functions are in upper case, names in backticks. Lists of
//! literals become `(...)`, and lists of rows one row with `/* , ... */`. A digest is as long as [`MOST`] at most: of
//! a longer one the beginning counts.

mod tokens;

use std::collections::HashSet;
use std::sync::LazyLock;

use sha2::{Digest as _, Sha256};

use tokens::{Token, Tokens};

/// Longest text in bytes (MySQL's default of `max_digest_length`).
pub const MOST: usize = 1024;

/// The text and its SHA-256 hash.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Digest {
    /// The text.
    pub text: String,
    /// Its hash.
    pub hash: [u8; 32],
}

impl Digest {
    /// The digest of a statement. `"` stands around names if `ansi_quotes`.
    ///
    /// # Errors
    /// If a string, a name in backticks or a comment does not end.
    pub fn of(statement: &str, ansi_quotes: bool) -> Result<Self, Unended> {
        let mut parts = Parts::default();
        for token in Tokens::new(statement, ansi_quotes) {
            parts.token(token?);
            // Behind the last one there is no space.
            if parts.bytes > MOST + 1 {
                break;
            }
        }
        let text = parts.text();
        Ok(Self {
            hash: Sha256::digest(text.as_bytes()).into(),
            text,
        })
    }

    /// The hash in hexadecimal.
    #[must_use]
    pub fn hex(&self) -> String {
        let digits = self.hash.iter().flat_map(|byte| [byte >> 4, byte & 15]);
        let digits = digits.filter_map(|digit| char::from_digit(digit.into(), 16));
        digits.collect()
    }
}

/// A string, a name in backticks or a comment does not end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unended;

/// A part of a digest.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    /// `?`
    Value,
    /// `?, ...`
    Values,
    /// `(?)`; several of them.
    Single {
        several: bool,
    },
    /// `(...)`; several of them.
    Row {
        several: bool,
    },
    Text(String),
}

impl Part {
    fn text(&self) -> &str {
        match self {
            Self::Value => "?",
            Self::Values => "?, ...",
            Self::Single { several: false } => "(?)",
            Self::Single { several: true } => "(?) /* , ... */",
            Self::Row { several: false } => "(...)",
            Self::Row { several: true } => "(...) /* , ... */",
            Self::Text(text) => text,
        }
    }

    fn is(&self, own: &str) -> bool {
        matches!(self, Self::Text(text) if text == own)
    }
}

/// The parts so far.
#[derive(Default)]
struct Parts {
    parts: Vec<Part>,
    /// Bytes of their texts.
    bytes: usize,
    /// A period came before: the next word is a name.
    behind_period: bool,
}

impl Parts {
    fn push(&mut self, part: Part) {
        self.bytes += part.text().len() + 1;
        self.parts.push(part);
    }

    /// Takes parts off the end and puts one there instead.
    fn replace(&mut self, count: usize, by: Part) {
        for _ in 0..count {
            if let Some(part) = self.parts.pop() {
                self.bytes -= part.text().len() + 1;
            }
        }
        self.push(by);
    }

    fn token(&mut self, token: Token<'_>) {
        let behind_period = std::mem::take(&mut self.behind_period);
        match token {
            Token::Value => self.value(),
            // A quote in it is doubled.
            Token::Name(name) => self.push(Part::Text(format!("`{name}`"))),
            Token::Word { text, .. } if behind_period => self.push(Part::Text(quoted(text))),
            Token::Word { text, calls } => self.word(text, calls),
            Token::Variable(text) => self.push(Part::Text(text.to_owned())),
            Token::Symbol(")") => self.close(),
            Token::Symbol(symbol) => {
                self.behind_period = symbol == ".";
                self.push(Part::Text(symbol.to_owned()));
            }
        }
    }

    fn word(&mut self, word: &str, calls: bool) {
        let upper = word.to_ascii_uppercase();
        let before = self.parts.last();
        // `IS NULL` says something else than a value does.
        let is_value =
            upper == "NULL" && before.is_none_or(|part| !(part.is("IS") || part.is("NOT")));
        if is_value {
            return self.value();
        }
        let names_a_table = before.is_some_and(|part| part.is("INTO") || part.is("TABLE"));
        let is_word = is_reserved(&upper)
            || self.parts.is_empty()
            || OTHERS.contains(&upper.as_str())
            || (calls && !names_a_table);
        self.push(Part::Text(match is_word {
            true => upper,
            false => quoted(word),
        }));
    }

    fn value(&mut self) {
        // A sign belongs to the literal, unless it is between two operands.
        if let [.., before, sign] = &self.parts[..]
            && (sign.is("-") || sign.is("+"))
            && begins_operand(before)
        {
            self.replace(1, Part::Value);
        } else {
            self.push(Part::Value);
        }
        if let [.., Part::Value | Part::Values, comma, Part::Value] = &self.parts[..]
            && comma.is(",")
        {
            self.replace(3, Part::Values);
        }
    }

    /// A parenthesis closes: values in it are a row.
    fn close(&mut self) {
        match &self.parts[..] {
            [.., open, Part::Value] if open.is("(") => {
                self.replace(2, Part::Single { several: false });
            }
            [.., open, Part::Values] if open.is("(") => {
                self.replace(2, Part::Row { several: false });
            }
            _ => return self.push(Part::Text(")".to_owned())),
        }
        match &self.parts[..] {
            [.., Part::Single { .. }, comma, Part::Single { .. }] if comma.is(",") => {
                self.replace(3, Part::Single { several: true });
            }
            [.., Part::Row { .. }, comma, Part::Row { .. }] if comma.is(",") => {
                self.replace(3, Part::Row { several: true });
            }
            _ => {}
        }
    }

    fn text(mut self) -> String {
        while self.parts.last().is_some_and(|part| part.is(";")) {
            self.parts.pop();
        }
        let texts: Vec<_> = self.parts.iter().map(Part::text).collect();
        let mut text = texts.join(" ");
        if text.len() > MOST {
            let end = (0..=MOST - 3).rev().find(|at| text.is_char_boundary(*at));
            text.truncate(end.unwrap_or_default());
            text.push_str("...");
        }
        text
    }
}

/// True for what an operand comes behind.
fn begins_operand(before: &Part) -> bool {
    match before {
        Part::Text(text) => !(text.starts_with(['`', '@']) || text == ")"),
        _ => false,
    }
}

fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

/// MySQL 8's reserved words. Those that are expressions of their own, such as CURRENT_DATE, are not among them.
const RESERVED: &str = "\
    ACCESSIBLE ADD ALL ALTER ANALYZE AND AS ASC ASENSITIVE BEFORE BETWEEN BIGINT BINARY BLOB BOTH \
    BY CALL CASCADE CASE CHANGE CHAR CHARACTER CHECK COLLATE COLUMN CONDITION CONSTRAINT CONTINUE \
    CONVERT CREATE CROSS CUBE CUME_DIST CURSOR DATABASE DATABASES DAY_HOUR DAY_MICROSECOND \
    DAY_MINUTE DAY_SECOND DEC DECIMAL DECLARE DEFAULT DELAYED DELETE DENSE_RANK DESC DESCRIBE \
    DETERMINISTIC DISTINCT DISTINCTROW DIV DOUBLE DROP DUAL EACH ELSE ELSEIF EMPTY ENCLOSED \
    ESCAPED EXCEPT EXISTS EXIT EXPLAIN FALSE FETCH FIRST_VALUE FLOAT FLOAT4 FLOAT8 FOR FORCE \
    FOREIGN FROM FULLTEXT FUNCTION GENERATED GET GRANT GROUP GROUPING GROUPS HAVING HIGH_PRIORITY \
    HOUR_MICROSECOND HOUR_MINUTE HOUR_SECOND IF IGNORE IN INDEX INFILE INNER INOUT INSENSITIVE \
    INSERT INT INT1 INT2 INT3 INT4 INT8 INTEGER INTERSECT INTERVAL INTO IO_AFTER_GTIDS \
    IO_BEFORE_GTIDS IS ITERATE JOIN JSON_TABLE KEY KEYS KILL LAG LAST_VALUE LATERAL LEAD LEADING \
    LEAVE LEFT LIKE LIMIT LINEAR LINES LOAD LOCK LONG LONGBLOB LONGTEXT LOOP LOW_PRIORITY \
    MASTER_BIND MASTER_SSL_VERIFY_SERVER_CERT MATCH MAXVALUE MEDIUMBLOB MEDIUMINT MEDIUMTEXT \
    MIDDLEINT MINUTE_MICROSECOND MINUTE_SECOND MOD MODIFIES NATURAL NOT NO_WRITE_TO_BINLOG \
    NTH_VALUE NTILE NULL NUMERIC OF ON OPTIMIZE OPTIMIZER_COSTS OPTION OPTIONALLY OR ORDER OUT \
    OUTER OUTFILE OVER PARTITION PERCENT_RANK PRECISION PRIMARY PROCEDURE PURGE RANGE RANK READ \
    READS READ_WRITE REAL RECURSIVE REFERENCES REGEXP RELEASE RENAME REPEAT REPLACE REQUIRE \
    RESIGNAL RESTRICT RETURN REVOKE RIGHT RLIKE ROW ROWS ROW_NUMBER SCHEMA SCHEMAS \
    SECOND_MICROSECOND SELECT SENSITIVE SEPARATOR SET SHOW SIGNAL SMALLINT SPATIAL SPECIFIC SQL \
    SQLEXCEPTION SQLSTATE SQLWARNING SQL_BIG_RESULT SQL_CALC_FOUND_ROWS SQL_SMALL_RESULT SSL \
    STARTING STORED STRAIGHT_JOIN SYSTEM TABLE TERMINATED THEN TINYBLOB TINYINT TINYTEXT TO \
    TRAILING TRIGGER TRUE UNDO UNION UNIQUE UNLOCK UNSIGNED UPDATE USAGE USE USING VALUES \
    VARBINARY VARCHAR VARCHARACTER VARYING VIRTUAL WHEN WHERE WHILE WINDOW WITH WRITE XOR \
    YEAR_MONTH ZEROFILL";

/// Words that are not reserved and that statements consist of.
const OTHERS: [&str; 24] = [
    "ACTION",
    "AVG_ROW_LENGTH",
    "BEGIN",
    "CASCADED",
    "COMMENT",
    "COMMIT",
    "CONSISTENT",
    "DUPLICATE",
    "END",
    "ENGINE",
    "FULL",
    "GLOBAL",
    "LOCAL",
    "OFFSET",
    "ROLLBACK",
    "ROLLUP",
    "SAVEPOINT",
    "SESSION",
    "SHARE",
    "SNAPSHOT",
    "TABLES",
    "TRANSACTION",
    "TRUNCATE",
    "VIEW",
];

/// Length of the longest reserved word.
const LONGEST: usize = "MASTER_SSL_VERIFY_SERVER_CERT".len();

/// True for a word that is no name.
#[must_use]
pub fn is_reserved(word: &str) -> bool {
    static WORDS: LazyLock<HashSet<&str>> =
        LazyLock::new(|| RESERVED.split_ascii_whitespace().collect());
    let is_short = word.len() <= LONGEST && word.is_ascii();
    is_short && WORDS.contains(word.to_ascii_uppercase().as_str())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "test code")]

    use super::*;

    fn text(statement: &str) -> String {
        Digest::of(statement, false).unwrap().text
    }

    #[test]
    fn literals_are_left_out() {
        for (statement, digest) in [
            ("SELECT 1", "SELECT ?"),
            (
                "select  a from t where a=-1.5e3 ;",
                "SELECT `a` FROM `t` WHERE `a` = ?",
            ),
            ("SELECT a - 1, -1, +2", "SELECT `a` - ?, ..."),
            (
                "SELECT * FROM d.table1 WHERE s IN ('a', \"b\", x'00')",
                "SELECT * FROM `d` . `table1` WHERE `s` IN (...)",
            ),
            ("SELECT 1 IN (2)", "SELECT ? IN (?)"),
            (
                "INSERT INTO t(a, b) VALUES (1, 'x'), (2, NULL)",
                "INSERT INTO `t` ( `a` , `b` ) VALUES (...) /* , ... */",
            ),
            (
                "INSERT INTO t VALUES (1),(2),(3)",
                "INSERT INTO `t` VALUES (?) /* , ... */",
            ),
            (
                "SELECT COUNT(*) FROM t # the end\n WHERE a IS NOT NULL -- really",
                "SELECT COUNT ( * ) FROM `t` WHERE `a` IS NOT NULL",
            ),
            (
                "SELECT /* a */ @x, @@global.y, ? , `we``ird` <=> 0x1F",
                "SELECT @x , @@global.y , ? , `we``ird` <=> ?",
            ),
            ("SELECT t.select FROM t", "SELECT `t` . `select` FROM `t`"),
            ("START TRANSACTION", "START TRANSACTION"),
            (
                "UPDATE t SET a = a->>'$.b' || 'it''s \\' one'",
                "UPDATE `t` SET `a` = `a` ->> ? || ?",
            ),
            ("", ""),
        ] {
            assert_eq!(text(statement), digest, "{statement}");
        }
        let quoted = Digest::of("SELECT \"a\"", true).unwrap();
        assert_eq!(quoted.text, "SELECT `a`");
    }

    #[test]
    fn what_does_not_end_has_no_digest() {
        for statement in ["SELECT 'a", "SELECT `a", "SELECT /* a", "SELECT 'a\\'"] {
            assert_eq!(Digest::of(statement, false), Err(Unended), "{statement}");
        }
    }

    #[test]
    fn long_statements_have_short_digests() {
        let rows = vec!["(1, 'abc')"; 100_000].join(",");
        assert_eq!(
            text(&format!("INSERT INTO t VALUES {rows}")),
            "INSERT INTO `t` VALUES (...) /* , ... */"
        );
        let names: Vec<_> = (0..1000).map(|n| format!("ä{n}")).collect();
        let long = text(&format!("SELECT {}", names.join(",")));
        assert!(long.len() <= MOST && long.ends_with("..."), "{long}");
    }

    #[test]
    fn a_hash_tells_statements_apart() {
        let of = |statement| Digest::of(statement, false).unwrap();
        assert_eq!(of("SELECT 1").hex(), of("select  2").hex());
        assert_ne!(of("SELECT 1").hash, of("SELECT a").hash);
        assert_eq!(of("SELECT 1").hex().len(), 64);
    }
}
