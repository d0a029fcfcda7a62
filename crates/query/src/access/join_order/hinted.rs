//! Orders of joins that hints ask for: one table after the other, each behind those that it has to come behind.

use datafusion::common::Result as DfResult;

use super::graph::{Set, Tree};
use super::search::{EXHAUSTIVE, Found, Search};
use crate::interrupt;

/// Some tables, joined one after the other; and how often no condition connects the next one.
type Row = (Found, usize);

impl Search {
    /// The cheapest order with what hints say of it; none if they say nothing, or what no order can have.
    pub(super) fn hinted(&self) -> DfResult<Option<Tree>> {
        let before = self.before();
        if before.iter().all(|set| *set == 0) {
            return Ok(None);
        }
        let row = match before.len() <= EXHAUSTIVE {
            true => self.cheapest_row(&before)?,
            false => self.shortest_row(&before)?,
        };
        Ok(row.map(|(found, _)| found.tree.tree()))
    }

    /// For each relation those that hints want before it.
    fn before(&self) -> Vec<Set> {
        let places = self.relations.iter().map(|relation| {
            let scan = relation.scan.as_ref();
            scan.map(|scan| scan.context.settings.place)
                .unwrap_or_default()
        });
        let places: Vec<_> = places.collect();
        let before = places.iter().map(|place| {
            let all = places.iter().enumerate();
            let earlier =
                all.filter(|(_, one)| one.select == place.select && one.own & place.after != 0);
            earlier.fold(0, |set, (number, _)| set | 1 << number)
        });
        before.collect()
    }

    /// True if a relation may be the next one.
    fn may_follow(&self, set: Set, next: usize, before: &[Set]) -> bool {
        let needs = self.needs(1 << next).unwrap_or(0);
        set & (1 << next) == 0 && (before[next] | needs) & !set == 0
    }

    /// Some relations with one more.
    fn followed(&self, (row, crosses): &Row, set: Set, next: usize) -> Row {
        let rows = self.rows(set | 1 << next);
        let crosses = crosses + usize::from(!self.connects(set, 1 << next));
        let found = self.behind((row, set), next, rows);
        (found, crosses)
    }

    /// The best of all rows.
    fn cheapest_row(&self, before: &[Set]) -> DfResult<Option<Row>> {
        let count = before.len();
        let mut best: Vec<Option<Row>> = vec![None; 1 << count];
        for set in 1_u64..1 << count {
            if set.is_multiple_of(64) {
                interrupt::check_df()?;
            }
            let mut found: Option<Row> = None;
            for next in (0..count).filter(|next| set & (1 << next) != 0) {
                let rest = set & !(1 << next);
                if !self.may_follow(rest, next, before) {
                    continue;
                }
                let row = match (rest, &best[rest as usize]) {
                    (0, _) => Some((self.leaf(next), 0)),
                    (_, Some(row)) => Some(self.followed(row, rest, next)),
                    (_, None) => None,
                };
                let is_better = |row: &Row| {
                    found
                        .as_ref()
                        .is_none_or(|(known, crosses)| (row.1, row.0.cost) < (*crosses, known.cost))
                };
                found = row.filter(is_better).or(found);
            }
            best[set as usize] = found;
        }
        Ok(best.pop().flatten())
    }

    /// A row in which each relation is the one of those that may follow that gives the fewest rows.
    fn shortest_row(&self, before: &[Set]) -> DfResult<Option<Row>> {
        let mut row: Option<(Row, Set)> = None;
        for _ in before {
            interrupt::check_df()?;
            let set = row.as_ref().map_or(0, |(_, set)| *set);
            let next = (0..before.len()).filter(|next| self.may_follow(set, *next, before));
            let longer = next.map(|next| {
                let longer = match &row {
                    Some((row, set)) => self.followed(row, *set, next),
                    None => (self.leaf(next), 0),
                };
                (longer, set | 1 << next)
            });
            let order = |(one, _): &(Row, Set), (other, _): &(Row, Set)| {
                let crosses = one.1.cmp(&other.1);
                crosses.then(one.0.rows.total_cmp(&other.0.rows))
            };
            let Some(longer) = longer.min_by(order) else {
                return Ok(None);
            };
            row = Some(longer);
        }
        Ok(row.map(|(row, _)| row))
    }
}
