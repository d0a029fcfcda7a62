//! Joins of random scans with random tables, and what they give by the plainest means.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use perigee_ndp::{Filters, Join, JoinKind, JoinTable, JoinTableBuilder, joins_column};
use perigee_page::{RecordFlags, RecordHeader};
use perigee_types::{RollPtr, TrxId};
use perigee_value::{ColumnType, Datum, RecordView, RowLayout, encode_row, key};

use super::{Random, random_type, random_value};

/// A join, its table, and the table's rows by their keys.
pub struct RandomJoin {
    pub join: Join,
    pub table: Arc<JoinTable>,
    pub content: Bytes,
    rows: BTreeMap<Vec<u8>, Vec<Datum>>,
}

/// The key that some columns of a row make; `None` if one is NULL.
fn key_of(layout: &RowLayout, on: &[u16], values: &[Datum]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    for column in on {
        let column = usize::from(*column);
        let value = &values[column];
        if value.is_null() {
            return None;
        }
        key::encode_part(layout.columns[column].ty, false, value.as_ref(), &mut out).unwrap();
    }
    Some(out)
}

fn random_payload(r: &mut Random) -> Vec<(ColumnType, bool)> {
    let types = (0..r.below(4)).map(|_| (random_type(r), r.chance(50)));
    types.filter(|(ty, _)| joins_column(*ty)).collect()
}

impl RandomJoin {
    /// A join of records of this layout, some of which have these values.
    pub fn new(r: &mut Random, layout: &RowLayout, scanned: &[Vec<Datum>]) -> Self {
        let columns = layout.columns.len();
        let some = |r: &mut Random, most: usize| -> Vec<u16> {
            (0..r.below(most))
                .map(|_| r.below(columns) as u16)
                .collect()
        };
        let mut on = some(r, 3);
        on.push(r.below(columns) as u16);
        let kind = *r.pick(&[
            JoinKind::Inner,
            JoinKind::Inner,
            JoinKind::Left,
            JoinKind::Semi,
            JoinKind::Anti,
        ]);
        let payload = match kind {
            JoinKind::Inner | JoinKind::Left => random_payload(r),
            JoinKind::Semi | JoinKind::Anti => Vec::new(),
        };
        let mut rows = BTreeMap::new();
        for _ in 0..r.below(2 * scanned.len() + 2) {
            let values: Vec<_> = match r.chance(80) {
                true => r.pick(scanned).clone(),
                false => {
                    let types = layout.columns.iter().map(|column| column.ty);
                    types.map(|ty| random_value(r, ty, false)).collect()
                }
            };
            let Some(key) = key_of(layout, &on, &values) else {
                continue;
            };
            let value = |(ty, nullable): &(ColumnType, bool), r: &mut Random| match *nullable {
                true if r.chance(30) => Datum::Null,
                _ => random_value(r, *ty, false),
            };
            let row = payload.iter().map(|column| value(column, r)).collect();
            rows.insert(key, row);
        }
        let types: Vec<_> = on
            .iter()
            .map(|column| layout.columns[usize::from(*column)].ty)
            .collect();
        let (table, content) = build(r, &types, &payload, &rows);
        let mut own = some(r, 6);
        own.sort_unstable();
        own.dedup();
        if r.chance(50) {
            own.reverse();
        }
        let join = Join {
            kind,
            table: table.name(),
            on,
            columns: own,
            payload,
            condition: None,
        };
        Self {
            join,
            table: Arc::new(table),
            content,
            rows,
        }
    }

    /// What requests bring along.
    pub fn filters(&self) -> Filters {
        Filters::default().with_table(Some(self.table.clone()))
    }

    /// The joined record of a record, if it has one.
    pub fn joined(&self, scan: &RowLayout, record: &[u8]) -> Option<Bytes> {
        let view = RecordView::new(scan, record);
        let values: Vec<Datum> = (0..scan.columns.len())
            .map(|column| view.get(column).unwrap())
            .collect();
        let row = key_of(scan, &self.join.on, &values).and_then(|key| self.rows.get(&key));
        let nothing = vec![Datum::Null; self.join.payload.len()];
        let row = match (self.join.kind, row) {
            (JoinKind::Inner | JoinKind::Semi, row) => row?,
            (JoinKind::Left, row) => row.unwrap_or(&nothing),
            (JoinKind::Anti, Some(_)) => return None,
            (JoinKind::Anti, None) => &nothing,
        };
        let own = self.join.columns.iter();
        let mut joined = vec![Datum::UInt(0)];
        joined.extend(own.map(|column| values[usize::from(*column)].clone()));
        joined.extend(row.iter().cloned());
        let header = RecordHeader {
            flags: RecordFlags(0),
            trx: TrxId(0),
            roll: RollPtr(0),
        };
        let mut out = Vec::new();
        encode_row(&self.join.layout(scan).unwrap(), &joined, header, &mut out).unwrap();
        Some(out.into())
    }
}

/// The table of rows, which come to it in any order.
fn build(
    r: &mut Random,
    key: &[ColumnType],
    payload: &[(ColumnType, bool)],
    rows: &BTreeMap<Vec<u8>, Vec<Datum>>,
) -> (JoinTable, Bytes) {
    let mut builder = JoinTableBuilder::new(key, payload, usize::MAX).unwrap();
    let mut rows: Vec<_> = rows.iter().collect();
    for i in 1..rows.len() {
        rows.swap(i, r.below(i + 1));
    }
    for (key, values) in rows {
        builder.push(key, values.iter().map(Datum::as_ref)).unwrap();
    }
    builder.finish().unwrap()
}
