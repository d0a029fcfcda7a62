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

/// What became of a shape or a prepared statement.
#[derive(Debug)]
pub(crate) enum Known {
    /// There is a fast statement, or was.
    Fast(Arc<FastStatement>),
    /// No fast statement, and how often it was used since that was found.
    Ordinary(u32),
}

impl Known {
    /// The fast statement, if there was one and it still is current; `None` if it is to be looked
    /// for anew.
    pub(crate) fn recall(&mut self, session: &Session) -> Option<Option<Arc<FastStatement>>> {
        match self {
            Self::Fast(statement) if statement.is_current(session) => Some(Some(statement.clone())),
            Self::Ordinary(uses) if *uses < PATIENCE => {
                *uses += 1;
                Some(None)
            }
            _ => None,
        }
    }
}

impl From<Option<Arc<FastStatement>>> for Known {
    fn from(found: Option<Arc<FastStatement>>) -> Self {
        found.map_or(Self::Ordinary(0), Self::Fast)
    }
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
    let mut known = std::mem::take(&mut session.fast.shapes.known);
    let recalled = known.get_mut(shape).map(|known| known.recall(session));
    session.fast.shapes.known = known;
    if let Some(Some(statement)) = recalled {
        return statement;
    }
    let statement = compiled(session, shape).await.map(Arc::new);
    let known = &mut session.fast.shapes.known;
    if known.len() >= MOST_SHAPES {
        known.clear();
    }
    known.insert(shape.to_owned(), statement.clone().into());
    statement
}

async fn compiled(session: &Session, shape: &str) -> Option<FastStatement> {
    let script = Script::in_modes(shape, session.modes()).ok()?;
    let mut pieces = script.pieces();
    let piece = pieces.next()?;
    compile(session, &piece.parse().ok()?, piece).await
}
