//! Statistics of a table: enough to choose access paths, join sides and what storage reduces.

use perigee_types::{DecodeError, Reader, Writer};
use perigee_value::Datum;

use super::histogram::{Histogram, like, position};

/// Statistics of one column.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ColumnStats {
    /// Estimated number of different values.
    pub distinct: u64,
    /// Number of NULLs.
    pub nulls: u64,
    /// Least value, if any row has one; strings as far as statistics keep them.
    pub min: Option<Datum>,
    /// Greatest value, if any row has one; strings as far as statistics keep them.
    pub max: Option<Datum>,
    /// Average bytes a value takes in a record.
    pub average_width: f32,
    /// How the values are spread, if that is known.
    pub histogram: Option<Histogram>,
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

impl ColumnStats {
    /// Share of the values, NULLs left out, that are less than `value`; `None` if nothing is known.
    #[must_use]
    pub fn below(&self, value: &Datum) -> Option<f64> {
        if let Some(histogram) = &self.histogram {
            return histogram.below(value);
        }
        let (min, max) = (self.min.as_ref()?, self.max.as_ref()?);
        Some(position(min, &like(value, min)?, max))
    }

    /// Share of the values, NULLs left out, that are `value`.
    #[must_use]
    pub fn equal(&self, value: &Datum) -> f64 {
        let known = self.histogram.as_ref().and_then(|h| h.equal(value));
        known.unwrap_or(1.0 / self.distinct.max(1) as f64)
    }

    /// Appends the wire form.
    pub(crate) fn encode(&self, w: &mut Writer) {
        w.u64(self.distinct)
            .u64(self.nulls)
            .u32(self.average_width.to_bits());
        for bound in [&self.min, &self.max] {
            bound.as_ref().unwrap_or(&Datum::Null).encode(w);
        }
        w.u8(u8::from(self.histogram.is_some()));
        if let Some(histogram) = &self.histogram {
            histogram.encode(w);
        }
    }

    /// Reads what [`ColumnStats::encode`] wrote.
    pub(crate) fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut column = Self::decode_plain(r)?;
        if r.u8()? != 0 {
            column.histogram = Some(Histogram::decode(r)?);
        }
        Ok(column)
    }

    /// The form without a histogram.
    fn decode_plain(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let (distinct, nulls) = (r.u64()?, r.u64()?);
        let average_width = f32::from_bits(r.u32()?);
        let mut bound = || Ok(Some(Datum::decode(r)?).filter(|v| *v != Datum::Null));
        Ok(Self {
            distinct,
            nulls,
            min: bound()?,
            max: bound()?,
            average_width,
            histogram: None,
        })
    }
}

impl TableStats {
    /// Share of a column's rows that are not NULL.
    #[must_use]
    pub fn not_null(&self, column: usize) -> f64 {
        match self.columns.get(column) {
            Some(column) if self.rows > 0 => {
                (1.0 - column.nulls as f64 / self.rows as f64).clamp(0.0, 1.0)
            }
            _ => 1.0,
        }
    }

    /// Appends the wire form of what is not of a column: those have records of their own.
    pub(crate) fn encode(&self, w: &mut Writer) {
        w.u64(self.rows).u16(0);
        w.u16(self.leaf_pages.len() as u16);
        for pages in &self.leaf_pages {
            w.u64(*pages);
        }
    }

    /// Reads what [`TableStats::encode`] wrote, or the older form with the columns in it.
    pub(crate) fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut stats = Self {
            rows: r.u64()?,
            ..Self::default()
        };
        for _ in 0..r.u16()? {
            stats.columns.push(ColumnStats::decode_plain(r)?);
        }
        for _ in 0..r.u16()? {
            stats.leaf_pages.push(r.u64()?);
        }
        Ok(stats)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_older_form_is_read() {
        let mut w = Writer::new();
        w.u64(100).u16(1).u64(40).u64(7).u32(8.5_f32.to_bits());
        Datum::Int(3).encode(&mut w);
        Datum::Null.encode(&mut w);
        w.u16(2).u64(11).u64(12);
        let bytes = w.into_bytes();
        let stats = TableStats::decode(&mut Reader::new(&bytes, "statistics"));
        let column = ColumnStats {
            distinct: 40,
            nulls: 7,
            min: Some(Datum::Int(3)),
            max: None,
            average_width: 8.5,
            histogram: None,
        };
        let expected = TableStats {
            rows: 100,
            columns: vec![column],
            leaf_pages: vec![11, 12],
        };
        assert_eq!(stats, Ok(expected));
    }

    #[test]
    fn columns_come_back() {
        let sample: Vec<_> = (0..500).map(Datum::Int).collect();
        let column = ColumnStats {
            distinct: 500,
            nulls: 1,
            min: Some(Datum::Int(0)),
            max: Some(Datum::Int(499)),
            average_width: 8.0,
            histogram: Histogram::of(&sample, 500, 64),
        };
        for column in [column, ColumnStats::default()] {
            let mut w = Writer::new();
            column.encode(&mut w);
            let bytes = w.into_bytes();
            let mut r = Reader::new(&bytes, "statistics");
            assert_eq!(ColumnStats::decode(&mut r), Ok(column));
            for cut in 0..bytes.len() {
                let mut r = Reader::new(&bytes[..cut], "statistics");
                assert!(ColumnStats::decode(&mut r).is_err());
            }
        }
    }

    #[test]
    fn without_a_histogram_values_are_spread_evenly() {
        let column = ColumnStats {
            distinct: 50,
            min: Some(Datum::Int(0)),
            max: Some(Datum::Int(100)),
            ..ColumnStats::default()
        };
        assert_eq!(column.below(&Datum::Int(25)), Some(0.25));
        assert_eq!(column.below(&Datum::Date(25)), None);
        assert_eq!(column.equal(&Datum::Int(25)), 0.02);
    }
}
