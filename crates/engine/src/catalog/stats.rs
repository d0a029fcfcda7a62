//! Statistics of a table: enough to choose access paths and join sides right after a load.

use perigee_types::{DecodeError, Reader, Writer};
use perigee_value::Datum;

/// Statistics of one column.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ColumnStats {
    /// Estimated number of different values.
    pub distinct: u64,
    /// Number of NULLs.
    pub nulls: u64,
    /// Least value, if any row has one.
    pub min: Option<Datum>,
    /// Greatest value, if any row has one.
    pub max: Option<Datum>,
    /// Average bytes a value takes in a record.
    pub average_width: f32,
}

/// Statistics of one table. Estimates: never used where an exact answer is needed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TableStats {
    /// Number of rows.
    pub rows: u64,
    /// One entry a column, in table order; empty if nothing is known yet.
    pub columns: Vec<ColumnStats>,
    /// Leaf pages of each index, clustered first.
    pub leaf_pages: Vec<u64>,
}

impl TableStats {
    /// Appends the wire form.
    pub fn encode(&self, w: &mut Writer) {
        w.u64(self.rows).u16(self.columns.len() as u16);
        for column in &self.columns {
            w.u64(column.distinct)
                .u64(column.nulls)
                .u32(column.average_width.to_bits());
            for bound in [&column.min, &column.max] {
                bound.as_ref().unwrap_or(&Datum::Null).encode(w);
            }
        }
        w.u16(self.leaf_pages.len() as u16);
        for pages in &self.leaf_pages {
            w.u64(*pages);
        }
    }

    /// Reads what [`TableStats::encode`] wrote.
    pub fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut stats = Self {
            rows: r.u64()?,
            ..Self::default()
        };
        for _ in 0..r.u16()? {
            let (distinct, nulls) = (r.u64()?, r.u64()?);
            let average_width = f32::from_bits(r.u32()?);
            let mut bound = || Ok(Some(Datum::decode(r)?).filter(|v| *v != Datum::Null));
            let (min, max) = (bound()?, bound()?);
            stats.columns.push(ColumnStats {
                distinct,
                nulls,
                min,
                max,
                average_width,
            });
        }
        for _ in 0..r.u16()? {
            stats.leaf_pages.push(r.u64()?);
        }
        Ok(stats)
    }
}
