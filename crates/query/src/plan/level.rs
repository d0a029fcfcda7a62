//! One level of a query: what stands in it, its subqueries left out.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Expr, Query, Visit, Visitor};

/// True if an expression in a part of a query is one that is looked for, outside of subqueries.
pub fn any_expr<T: Visit + ?Sized>(part: &T, is_it: impl FnMut(&Expr) -> bool) -> bool {
    part.visit(&mut Level { is_it, depth: 0 }).is_break()
}

struct Level<F> {
    is_it: F,
    /// Subqueries around the expression at hand.
    depth: usize,
}

impl<F: FnMut(&Expr) -> bool> Visitor for Level<F> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match self.depth == 0 && (self.is_it)(expr) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}
