//! ANALYZE TABLE.

use sqlparser::ast::ObjectName;
use sqlparser::tokenizer::Token;

use super::Cursor;
use crate::error::{Result, SqlError};

/// Most buckets that a statement may ask for, in MySQL.
const MAX_BUCKETS: u64 = 1024;

/// Buckets if the statement does not say, in MySQL.
const BUCKETS: u64 = 100;

/// ANALYZE TABLE.
#[derive(Clone, Debug, PartialEq)]
pub struct Analyze {
    /// The tables.
    pub tables: Vec<ObjectName>,
    /// What is done to histograms, if only that is done.
    pub histograms: Option<Histograms>,
}

/// What is done to the histograms of some columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Histograms {
    /// UPDATE HISTOGRAM.
    Update {
        /// Names of the columns.
        columns: Vec<String>,
        /// WITH … BUCKETS.
        buckets: u64,
    },
    /// DROP HISTOGRAM, with the names of the columns.
    Drop(Vec<String>),
}

/// Parses what follows the first word.
pub(super) fn parse(mut cursor: Cursor<'_>) -> Result<Analyze> {
    // Statistics are in the log in any case, and there is no other one.
    if !cursor.accept("NO_WRITE_TO_BINLOG") {
        cursor.accept("LOCAL");
    }
    if !cursor.accept("TABLES") {
        cursor.expect_word("TABLE")?;
    }
    let mut tables = vec![cursor.object_name()?];
    while cursor.accept_token(&Token::Comma) {
        tables.push(cursor.object_name()?);
    }
    let histograms = histograms(&mut cursor)?;
    cursor.end()?;
    Ok(Analyze { tables, histograms })
}

fn histograms(cursor: &mut Cursor<'_>) -> Result<Option<Histograms>> {
    if cursor.accept("DROP") {
        return Ok(Some(Histograms::Drop(columns(cursor)?)));
    }
    if !cursor.accept("UPDATE") {
        return Ok(None);
    }
    let columns = columns(cursor)?;
    let mut buckets = BUCKETS;
    if cursor.accept("WITH") {
        buckets = cursor.number()?;
        cursor.expect_word("BUCKETS")?;
    }
    if cursor.peek_any(&["USING"]) {
        return Err(SqlError::not_supported("UPDATE HISTOGRAM … USING DATA"));
    }
    if !(1..=MAX_BUCKETS).contains(&buckets) {
        return Err(SqlError::numeric_range(
            "Number of buckets",
            "ANALYZE TABLE",
        ));
    }
    Ok(Some(Histograms::Update { columns, buckets }))
}

fn columns(cursor: &mut Cursor<'_>) -> Result<Vec<String>> {
    cursor.expect_word("HISTOGRAM")?;
    cursor.expect_word("ON")?;
    let mut columns = vec![cursor.identifier()?];
    while cursor.accept_token(&Token::Comma) {
        columns.push(cursor.identifier()?);
    }
    Ok(columns)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::parse::{Script, Statement};

    fn parsed(text: &str) -> std::result::Result<Analyze, u16> {
        let script = Script::new(text).unwrap();
        match script.pieces().next().unwrap().parse() {
            Ok(Statement::Analyze(analyze)) => Ok(analyze),
            Ok(other) => panic!("{other:?}"),
            Err(error) => Err(error.errno),
        }
    }

    #[test]
    fn all_forms_are_known() {
        let names = |analyze: Analyze| {
            let names = analyze.tables.iter().map(ToString::to_string);
            names.collect::<Vec<_>>()
        };
        assert_eq!(names(parsed("ANALYZE TABLE t").unwrap()), ["t"]);
        let many = parsed("analyze no_write_to_binlog tables a.t, `u`").unwrap();
        assert_eq!(names(many), ["a.t", "`u`"]);
        assert_eq!(names(parsed("ANALYZE LOCAL TABLE t").unwrap()), ["t"]);
        let update = parsed("ANALYZE TABLE t UPDATE HISTOGRAM ON a, b WITH 8 BUCKETS");
        let columns = vec!["a".to_owned(), "b".to_owned()];
        let expected = Histograms::Update {
            columns: columns.clone(),
            buckets: 8,
        };
        assert_eq!(update.unwrap().histograms, Some(expected));
        let drop = parsed("ANALYZE TABLE t DROP HISTOGRAM ON a, b").unwrap();
        assert_eq!(drop.histograms, Some(Histograms::Drop(columns)));
    }

    #[test]
    fn nonsense_is_refused() {
        for text in [
            "ANALYZE",
            "ANALYZE t",
            "ANALYZE TABLE",
            "ANALYZE TABLE t,",
            "ANALYZE TABLE t UPDATE HISTOGRAM ON",
            "ANALYZE TABLE t UPDATE HISTOGRAM ON a WITH BUCKETS",
            "ANALYZE TABLE t DROP HISTOGRAM ON a WITH 8 BUCKETS",
            "ANALYZE LOCAL NO_WRITE_TO_BINLOG TABLE t",
        ] {
            assert_eq!(parsed(text), Err(1064), "{text}");
        }
        let many = "ANALYZE TABLE t UPDATE HISTOGRAM ON a WITH 1025 BUCKETS";
        assert_eq!(parsed(many), Err(1690));
        assert_eq!(parsed(&many.replace("1025", "0")), Err(1690));
    }
}
