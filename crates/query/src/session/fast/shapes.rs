//! What became of the shapes of texts that a session has seen: the fast statement, or that there
//! is none.

use std::collections::HashMap;
use std::sync::Arc;

use perigee_value::Datum;

use super::super::Session;
use super::{FastStatement, compile, shape};
use crate::parse::Script;

/// Shapes that a session remembers; beyond them it begins anew.
const MOST_SHAPES: usize = 512;

/// Uses of a shape without fast statement after which is looked anew whether it has one: tables and
/// indexes come and go.
const PATIENCE: u32 = 200;

/// What became of a shape.
#[derive(Debug)]
enum Known {
    Fast(Arc<FastStatement>),
    /// No fast statement, and how often it was used since that was found.
    Ordinary(u32),
}

/// The shapes.
#[derive(Debug, Default)]
pub(super) struct Shapes {
    known: HashMap<String, Known>,
    /// The shape and the literals of the text at hand; kept for their memory.
    shape: String,
    pub(super) literals: Vec<Datum>,
}

/// The fast statement of a text, if there is one, and the literals to run it with.
pub(super) async fn statement(
    session: &mut Session,
    text: &str,
    literals: &mut Vec<Datum>,
) -> Option<Arc<FastStatement>> {
    let mut shape = std::mem::take(&mut session.fast.shapes.shape);
    let statement = match shape::split(text, &mut shape, literals) {
        true => of_shape(session, &shape).await,
        false => None,
    };
    session.fast.shapes.shape = shape;
    statement
}

async fn of_shape(session: &mut Session, shape: &str) -> Option<Arc<FastStatement>> {
    let found = match session.fast.shapes.known.get_mut(shape) {
        Some(Known::Fast(statement)) => Some(statement.clone()),
        Some(Known::Ordinary(uses)) if *uses < PATIENCE => {
            *uses += 1;
            return None;
        }
        _ => None,
    };
    if let Some(statement) = found.filter(|statement| statement.is_current(session)) {
        return Some(statement);
    }
    let statement = compiled(session, shape).await.map(Arc::new);
    let known = &mut session.fast.shapes.known;
    if known.len() >= MOST_SHAPES {
        known.clear();
    }
    let became = statement.clone().map_or(Known::Ordinary(0), Known::Fast);
    known.insert(shape.to_owned(), became);
    statement
}

async fn compiled(session: &Session, shape: &str) -> Option<FastStatement> {
    let script = Script::new(shape).ok()?;
    let mut pieces = script.pieces();
    let piece = pieces.next()?;
    compile(session, &piece.parse().ok()?, piece).await
}
