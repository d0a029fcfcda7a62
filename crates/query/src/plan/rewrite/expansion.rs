//! How much a statement stands for. A common table expression is planned wherever it is named, and an operand
//! that is compared several times (of BETWEEN, CASE, a row IN a list) is copied for each comparison: nested, a
//! text of a kilobyte can stand for more than any memory holds.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Expr, Visit, Visitor};

use super::Rewriter;
use crate::error::{Result, SqlError};

/// Expressions that copies of operands may add to a statement. One takes some hundred bytes, in several trees.
const MAX_COPIED: usize = 300_000;

/// SELECTs that the common table expressions of a statement may stand for: each is planned, in about a tenth of
/// a millisecond.
const MAX_EXPANDED: usize = 2000;

/// Common table expressions that may read one another.
const MAX_NESTED: usize = 100;

/// Tables of one FROM, MySQL's limit.
pub(super) const MAX_TABLES: usize = 61;

/// A common table expression in scope.
pub(super) struct Common {
    pub(super) name: String,
    pub(super) columns: Vec<String>,
    /// SELECTs that it stands for.
    selects: usize,
    /// How deep it reads others.
    depth: usize,
}

/// What a statement stands for so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Expansion {
    copied: usize,
    /// SELECTs, those of common table expressions counted wherever they are named.
    pub(super) selects: usize,
    /// How deep the common table expressions that were named read others.
    pub(super) depth: usize,
}

impl Expansion {
    /// A common table expression that was read when the statement stood for `before`.
    pub(super) fn common(
        &mut self,
        name: String,
        columns: Vec<String>,
        before: &Self,
    ) -> Result<Common> {
        let depth = self.depth + 1;
        self.depth = before.depth;
        if depth > MAX_NESTED {
            return Err(SqlError::too_deep(MAX_NESTED));
        }
        Ok(Common {
            name,
            columns,
            selects: self.selects - before.selects,
            depth,
        })
    }

    /// A common table expression is named.
    pub(super) fn name(&mut self, common: &Common) -> Result<()> {
        self.selects += common.selects;
        self.depth = self.depth.max(common.depth);
        match self.selects > MAX_EXPANDED {
            true => Err(SqlError::too_large(MAX_EXPANDED)),
            false => Ok(()),
        }
    }
}

impl Rewriter<'_> {
    /// A copy of an operand.
    ///
    /// # Errors
    /// 1436 if the statement grows too large by it.
    pub(super) fn copy(&mut self, expr: &Expr) -> Result<Expr> {
        struct Count<'a>(&'a mut usize);
        impl Visitor for Count<'_> {
            type Break = ();

            fn pre_visit_expr(&mut self, _: &Expr) -> ControlFlow<()> {
                *self.0 += 1;
                match *self.0 > MAX_COPIED {
                    true => ControlFlow::Break(()),
                    false => ControlFlow::Continue(()),
                }
            }
        }
        match expr.visit(&mut Count(&mut self.expansion.copied)) {
            ControlFlow::Break(()) => Err(SqlError::too_large(MAX_COPIED)),
            ControlFlow::Continue(()) => Ok(expr.clone()),
        }
    }
}
