//! Digests of statements.

use super::Kind::Text;
use super::{Call, Function, FunctionError, TEXT, Value};
use crate::digest::Digest;

pub(super) static FUNCTIONS: &[Function] = &[
    Function::new(
        &["statement_digest"],
        (1, 1),
        &[Text],
        TEXT,
        "The hash of a statement without its literals, in hexadecimal.",
        |c| Ok(Value::text(digest(c)?.hex())),
    ),
    Function::new(
        &["statement_digest_text"],
        (1, 1),
        &[Text],
        TEXT,
        "A statement without its literals.",
        |c| Ok(Value::text(digest(c)?.text)),
    ),
];

fn digest(call: &Call<'_>) -> Result<Digest, FunctionError> {
    let statement = call.text(0);
    Digest::of(statement, false).map_err(|_| FunctionError::Digest(statement.to_owned()))
}
