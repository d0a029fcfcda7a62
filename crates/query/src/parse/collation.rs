//! Names of collations.

use perigee_value::Collation;

use crate::error::{Result, SqlError};

/// Checks that a collation is that of connections and schemas.
///
/// # Errors
/// 1235.
pub fn check_collation(name: &str) -> Result<()> {
    match text_collation(name)? {
        Collation::UTF8MB4_BIN => Ok(()),
        other => Err(SqlError::not_supported(format!(
            "COLLATE {} here",
            other.name()
        ))),
    }
}

/// The collation of texts with this name.
///
/// # Errors
/// 1235.
pub fn text_collation(name: &str) -> Result<Collation> {
    let name = name.trim_matches(['`', '\'', '"']);
    let unknown = || SqlError::not_supported(format!("COLLATE {}", name.to_ascii_lowercase()));
    let known = Collation::named(name).filter(|collation| collation.is_text());
    known.ok_or_else(unknown)
}
