//! ROW_COUNT(): how many rows the statement before has changed.

/// What it is behind a result set and behind an error.
const NONE: i64 = -1;

/// The rows that statements change.
#[derive(Debug)]
pub(super) struct RowCount {
    last: i64,
    /// Those of the statement that runs, or of the last one within it; none for a result set.
    own: Option<u64>,
}

impl Default for RowCount {
    /// No statement has run.
    fn default() -> Self {
        Self {
            last: NONE,
            own: None,
        }
    }
}

impl RowCount {
    /// What ROW_COUNT() gives.
    pub(super) fn last(&self) -> i64 {
        self.last
    }

    /// A statement begins, which sees the rows of the one before until it has ended.
    pub(super) fn begin(&mut self) {
        self.own = None;
    }

    /// The statement has no result set, and has changed so many rows.
    pub(super) fn changed(&mut self, rows: u64) {
        self.own = Some(rows);
    }

    /// The statement has ended.
    pub(super) fn end(&mut self, succeeds: bool) {
        let own = self.own.filter(|_| succeeds);
        self.last = own.map_or(NONE, |rows| i64::try_from(rows).unwrap_or(i64::MAX));
    }

    /// The statement has done nothing that counts.
    pub(super) fn stay(&mut self) {
        self.own = u64::try_from(self.last).ok();
    }

    /// A step of a program that is no statement of its own has changed so many rows.
    pub(super) fn set(&mut self, rows: u64) {
        self.changed(rows);
        self.end(true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_sees_the_rows_of_the_one_before() {
        let mut count = RowCount::default();
        assert_eq!(count.last(), -1);
        count.begin();
        count.changed(3);
        assert_eq!(count.last(), -1);
        count.end(true);
        assert_eq!(count.last(), 3);
        // EXECUTE of a statement.
        count.begin();
        count.begin();
        count.changed(2);
        count.end(true);
        count.end(true);
        assert_eq!(count.last(), 2);
        // A result set.
        count.begin();
        count.end(true);
        assert_eq!(count.last(), -1);
        count.set(4);
        count.begin();
        count.changed(0);
        count.stay();
        count.end(true);
        assert_eq!(count.last(), 4);
        count.changed(5);
        count.end(false);
        assert_eq!(count.last(), -1);
    }
}
