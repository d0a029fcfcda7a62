//! Names of collations and character sets.

use perigee_value::{Charset, Collation};
use sqlparser::tokenizer::Token;

use super::Cursor;
use crate::error::{Result, SqlError};

/// The collation with this name.
///
/// # Errors
/// 1273.
pub fn collation_named(name: &str) -> Result<Collation> {
    let name = unquoted(name);
    Collation::named(name).ok_or_else(|| SqlError::unknown_collation(name))
}

/// The character set with this name.
///
/// # Errors
/// 1115.
pub fn charset_named(name: &str) -> Result<Charset> {
    let name = unquoted(name);
    Charset::named(name).ok_or_else(|| SqlError::unknown_charset(name))
}

fn unquoted(name: &str) -> &str {
    name.trim_matches(['`', '\'', '"'])
}

/// What is said of the texts of a column, a table or a schema.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Collating {
    /// CHARACTER SET.
    pub charset: Option<Charset>,
    /// COLLATE.
    pub collation: Option<Collation>,
}

impl Collating {
    /// The collation that is meant, if something is said.
    ///
    /// # Errors
    /// 1253 for a collation of another character set.
    pub fn said(self) -> Result<Option<Collation>> {
        match (self.charset, self.collation) {
            (Some(charset), Some(collation)) if collation.charset() != charset => Err(
                SqlError::collation_of_charset(collation.name(), charset.name()),
            ),
            (_, Some(collation)) => Ok(Some(collation)),
            (charset, None) => Ok(charset.map(Charset::default_collation)),
        }
    }

    /// Reads `[DEFAULT] CHARACTER SET [=] name` or `[DEFAULT] COLLATE [=] name`; false if it is neither.
    ///
    /// # Errors
    /// 1115, 1273.
    pub fn accept(&mut self, cursor: &mut Cursor<'_>) -> Result<bool> {
        let mut ahead = cursor.clone();
        ahead.accept("DEFAULT");
        let is_charset = ahead.accept("CHARSET") || ahead.accept_all(&["CHARACTER", "SET"]);
        if !is_charset && !ahead.accept("COLLATE") {
            return Ok(false);
        }
        *cursor = ahead;
        cursor.accept_token(&Token::Eq);
        let name = cursor.name()?;
        match is_charset {
            true => self.charset = Some(charset_named(&name)?),
            false => self.collation = Some(collation_named(&name)?),
        }
        Ok(true)
    }
}
