//! Which columns of a grouped SELECT have one value in a group: ONLY_FULL_GROUP_BY.

use std::collections::HashSet;

use perigee_expr::scalar::{Node, Scalar};

use super::super::{Applied, Column, QueryError, Relation};
use super::block::{Block, ExtraKind};
use super::dependence::Dependences;
use super::stage::{key_of, key_prefix};
use crate::Result;

/// Columns of the FROM that expressions over groups need beside the keys.
pub(super) struct Needed<'b, 'q> {
    block: &'b Block<'q>,
    keys: &'b [Scalar],
    columns: &'b [Column],
    /// Columns that the keys decide; all of them without ONLY_FULL_GROUP_BY.
    decided: Option<HashSet<usize>>,
    /// Those that are needed, in order.
    pub any: Vec<usize>,
}

impl<'b, 'q> Needed<'b, 'q> {
    /// None yet, over groups of a relation's rows.
    pub fn new(
        block: &'b Block<'q>,
        keys: &'b [Scalar],
        relation: &'b Relation,
        rollup: bool,
    ) -> Self {
        let decided = block.statement.catalog.only_full_group_by().then(|| {
            // Which columns a row of a rollup is grouped by differs from row to row.
            if rollup {
                return HashSet::new();
            }
            let keys = keys.iter().filter_map(|key| match key.node {
                Node::Column(place) if place < block.width => Some(place),
                _ => None,
            });
            Dependences::of(relation).decided_by(keys)
        });
        Self {
            block,
            keys,
            columns: &relation.columns,
            decided,
            any: Vec::new(),
        }
    }

    /// Adds the columns that an expression needs.
    ///
    /// # Errors
    /// 1055, 1140.
    pub fn add(&mut self, scalar: &Scalar) -> Result<()> {
        let mut places = Vec::new();
        self.gather(scalar, &mut places);
        for place in places {
            if place >= self.block.width {
                self.add_extra(place - self.block.width)?;
            } else if !self.any.contains(&place) {
                self.check(place)?;
                self.any.push(place);
            }
        }
        Ok(())
    }

    /// Columns of an expression outside of what is grouped by.
    fn gather(&self, scalar: &Scalar, places: &mut Vec<usize>) {
        let mut rest = Vec::new();
        scalar.visit(&mut |part| {
            if key_of(self.keys, part).is_some() {
                return false;
            }
            if let Some((_, _, steps)) = key_prefix(self.keys, part) {
                rest.extend(steps.iter().map(|step| step.operand.clone()));
                return false;
            }
            if let Node::Column(place) = part.node {
                places.push(place);
            }
            true
        });
        for operand in rest {
            self.gather(&operand, places);
        }
    }

    fn add_extra(&mut self, extra: usize) -> Result<()> {
        let kind = self.block.extras.borrow().all[extra].kind;
        let extras = self.block.extras.borrow();
        let mut scalars = Vec::new();
        match kind {
            ExtraKind::Aggregate(_) => {}
            ExtraKind::Applied { apply, .. } => {
                if let Some(pending) = &extras.applies[apply] {
                    scalars.extend(pending.arguments.iter().cloned());
                    if let Applied::Quantified { operands, .. } = &pending.applied {
                        scalars.extend(operands.iter().map(|(left, _)| left.clone()));
                    }
                }
            }
            ExtraKind::Window(number) => {
                if let Some(window) = &extras.windows[number] {
                    let order = window.order.iter().map(|key| &key.scalar);
                    let all = window
                        .arguments
                        .iter()
                        .chain(&window.partition)
                        .chain(order);
                    scalars.extend(all.cloned());
                }
            }
        }
        drop(extras);
        scalars.iter().try_for_each(|scalar| self.add(scalar))
    }

    fn check(&self, place: usize) -> Result<()> {
        if self
            .decided
            .as_ref()
            .is_none_or(|decided| decided.contains(&place))
        {
            return Ok(());
        }
        let column = &self.columns[place];
        let name = match &column.table {
            Some(table) => format!("{table}.{}", column.name),
            None => column.name.to_string(),
        };
        Err(match self.keys.is_empty() {
            true => QueryError::MixedGroups(name),
            false => QueryError::NotGrouped(name),
        }
        .into())
    }
}
