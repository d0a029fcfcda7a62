//! Filters over the records of a scan: keys are read from many records at a time, and the records whose
//! key does not pass are left out.
//!
//! The loops are the same for compiled and for interpreted programs. Every offset handed in begins a
//! record that the layout's shape accepts; loads are bounds-checked all the same.

use std::sync::Arc;

use perigee_value::{ColumnType, Place, RowLayout, ValueRef, key};

use super::Filter;
use super::best::BestKeys;
use super::form::{KeyForm, hash_number};
use super::members::Members;
use crate::NdpError;
use crate::gather::Gather;

/// Filters of one scan, each bound to the layout of its records. Cheap to clone.
#[derive(Clone, Default)]
pub struct Filters {
    bound: Arc<[Bound]>,
    /// So many leading variable-length items of a record are read.
    pub(crate) items_read: usize,
}

struct Bound {
    filter: Arc<Filter>,
    columns: Vec<KeyColumn>,
}

/// What a run has done with its filters.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// Records that each left out.
    pub dropped: Vec<u64>,
    /// The best keys of each that asks for some; of none if the run does not remember any.
    best: Vec<Option<BestKeys>>,
}

/// Where a column of a key is in a record.
struct KeyColumn {
    ty: ColumnType,
    place: KeyPlace,
    /// Offset of the byte and mask of the bit that is set if the column is NULL.
    null: Option<(usize, u8)>,
}

enum KeyPlace {
    /// So many bytes in key encoding.
    Encoded { offset: usize, width: usize },
    /// A stored value of at most eight bytes.
    Number { offset: usize, width: usize },
    /// A stored decimal of sixteen bytes.
    Wide { offset: usize },
    /// A string.
    Item(Gather),
}

/// Memory that is used again from page to page.
#[derive(Default)]
pub(crate) struct Scratch {
    numbers: Vec<u64>,
    key: Vec<u8>,
}

impl Filters {
    /// Filters for records of a layout.
    ///
    /// # Errors
    /// [`NdpError::Filter`] if the layout lacks a column of one of them.
    pub fn bind(layout: &RowLayout, filters: &[Arc<Filter>]) -> Result<Self, NdpError> {
        let bind = |filter: &Arc<Filter>| {
            filter.check(layout)?;
            let columns = filter.columns.iter();
            Ok(Bound {
                filter: filter.clone(),
                columns: columns.map(|(c, _)| KeyColumn::new(layout, *c)).collect(),
            })
        };
        let items = filters
            .iter()
            .flat_map(|filter| &filter.columns)
            .map(|(c, _)| {
                match layout
                    .columns
                    .get(usize::from(*c))
                    .map(|column| column.place)
                {
                    Some(Place::Var { item }) => usize::from(item) + 1,
                    _ => 0,
                }
            });
        Ok(Self {
            items_read: items.max().unwrap_or(0),
            bound: filters.iter().map(bind).collect::<Result<_, NdpError>>()?,
        })
    }

    /// Number of filters.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bound.len()
    }

    /// True if there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bound.is_empty()
    }

    /// The beginning of a run, which remembers the best keys or does not.
    pub(crate) fn begin(&self, remembers: bool) -> Progress {
        let best = self.bound.iter().map(|bound| {
            let best = bound.filter.best.filter(|_| remembers)?;
            Some(BestKeys::new(best, bound.filter.form))
        });
        Progress {
            dropped: vec![0; self.bound.len()],
            best: best.collect(),
        }
    }

    /// Removes the records that do not pass, one filter after the other, and counts how many each left out.
    pub(crate) fn retain(
        &self,
        base: &[u8],
        records: &mut Vec<u16>,
        scratch: &mut Scratch,
        progress: &mut Progress,
    ) {
        let Progress { dropped, best } = progress;
        for ((bound, dropped), best) in self.bound.iter().zip(dropped).zip(best) {
            let before = records.len();
            bound.retain(base, records, scratch, best.as_ref());
            *dropped += (before - records.len()) as u64;
        }
    }

    /// Remembers the keys of records that passed and were given out.
    pub(crate) fn note(
        &self,
        base: &[u8],
        records: &[u16],
        scratch: &mut Scratch,
        progress: &mut Progress,
    ) {
        for (bound, best) in self.bound.iter().zip(&mut progress.best) {
            if let Some(best) = best {
                bound.note(base, records, scratch, best);
            }
        }
    }
}

impl Bound {
    fn retain(
        &self,
        base: &[u8],
        records: &mut Vec<u16>,
        scratch: &mut Scratch,
        best: Option<&BestKeys>,
    ) {
        let has_nulls = self.columns.iter().any(|column| column.null.is_some());
        let nulls_pass = self.filter.nulls && best.is_none_or(BestKeys::wants_null);
        if has_nulls && !nulls_pass {
            keep(records, |_, at| !self.is_null(base, at));
        }
        let or_null = |at| has_nulls && nulls_pass && self.is_null(base, at);
        match self.filter.form {
            KeyForm::Packed { .. } => {
                self.retain_numbers(base, records, &mut scratch.numbers, best, or_null);
            }
            KeyForm::Bytes => keep(records, |_, at| {
                // A string that is not text is none of the keys' either; it is left to who looks closer.
                or_null(at)
                    || !self.key(base, at, &mut scratch.key)
                    || (self.filter.passes(&scratch.key)
                        && best.is_none_or(|best| best.wants(&scratch.key)))
            }),
        }
    }

    fn retain_numbers(
        &self,
        base: &[u8],
        records: &mut Vec<u16>,
        keys: &mut Vec<u64>,
        best: Option<&BestKeys>,
        or_null: impl Fn(u16) -> bool,
    ) {
        self.numbers(base, records, keys);
        let (mut least, mut most) = self.filter.bounds.numbers();
        if let Some((from, to)) = best.map(BestKeys::numbers) {
            (least, most) = (least.max(from), most.min(to));
        }
        if (least, most) != (0, u64::MAX) {
            let mut kept = 0;
            for i in 0..records.len() {
                (records[kept], keys[kept]) = (records[i], keys[i]);
                let passes = (least <= keys[i] && keys[i] <= most) || or_null(records[i]);
                kept += usize::from(passes);
            }
            records.truncate(kept);
        }
        match &self.filter.members {
            Members::Any => {}
            Members::Bloom(bloom) => keep(records, |i, at| {
                bloom.may_have(hash_number(keys[i])) || or_null(at)
            }),
            members => keep(records, |i, at| members.has_number(keys[i]) || or_null(at)),
        }
    }

    fn note(&self, base: &[u8], records: &[u16], scratch: &mut Scratch, best: &mut BestKeys) {
        let has_nulls = self.columns.iter().any(|column| column.null.is_some());
        let counts = |at| !has_nulls || !self.is_null(base, at);
        match self.filter.form {
            KeyForm::Packed { .. } => {
                self.numbers(base, records, &mut scratch.numbers);
                let keys = records.iter().zip(&scratch.numbers);
                keys.filter(|(at, _)| counts(**at))
                    .for_each(|(_, key)| best.note_number(*key));
            }
            KeyForm::Bytes => {
                for at in records.iter().copied().filter(|at| counts(*at)) {
                    if self.key(base, at, &mut scratch.key) {
                        best.note(&scratch.key);
                    }
                }
            }
        }
    }

    /// The packed keys of records; that of one with a NULL means nothing.
    fn numbers(&self, base: &[u8], records: &[u16], keys: &mut Vec<u64>) {
        keys.clear();
        keys.resize(records.len(), 0);
        for column in &self.columns {
            column.pack(base, records, keys);
        }
    }

    /// The key of a record; false if what it holds cannot be encoded.
    fn key(&self, base: &[u8], at: u16, key: &mut Vec<u8>) -> bool {
        key.clear();
        let mut columns = self.columns.iter();
        columns.all(|column| column.append(base, at, key).is_some())
    }

    fn is_null(&self, base: &[u8], at: u16) -> bool {
        let mut nulls = self.columns.iter().filter_map(|column| column.null);
        nulls.any(|(offset, mask)| base[usize::from(at) + offset] & mask != 0)
    }
}

/// Keeps the records for which a test, given their place and offset, is true, without a branch for each.
#[inline(always)]
fn keep(records: &mut Vec<u16>, mut test: impl FnMut(usize, u16) -> bool) {
    let mut kept = 0;
    for i in 0..records.len() {
        let at = records[i];
        records[kept] = at;
        kept += usize::from(test(i, at));
    }
    records.truncate(kept);
}

impl KeyColumn {
    fn new(layout: &RowLayout, column: u16) -> Self {
        let gather = Gather::new(layout, column);
        let column = &layout.columns[usize::from(column)];
        let width = usize::from(column.ty.stored_width().unwrap_or(0));
        let place = match column.place {
            Place::Key { offset } => KeyPlace::Encoded {
                offset: offset.into(),
                width,
            },
            // Wide decimals are stored as they are encoded.
            Place::Fixed { offset } if column.ty.is_wide() => KeyPlace::Encoded {
                offset: offset.into(),
                width,
            },
            Place::Fixed { offset } if width > 8 => KeyPlace::Wide {
                offset: offset.into(),
            },
            Place::Fixed { offset } => KeyPlace::Number {
                offset: offset.into(),
                width,
            },
            Place::Var { .. } => KeyPlace::Item(gather),
        };
        let null = column.null_bit.map(|bit| {
            let offset = usize::from(layout.null_offset) + usize::from(bit / 8);
            (offset, 1 << (bit % 8))
        });
        Self {
            ty: column.ty,
            place,
            null,
        }
    }

    /// Appends the column to the packed keys of records.
    fn pack(&self, base: &[u8], records: &[u16], keys: &mut [u64]) {
        macro_rules! pack {
            ($width:literal, $offset:expr, |$bytes:ident| $number:expr) => {
                for (&at, key) in records.iter().zip(keys) {
                    let at = usize::from(at) + $offset;
                    let $bytes: [u8; $width] =
                        base[at..at + $width].try_into().expect("so many bytes");
                    // Shifted in two steps: a key of one column has as many bits as the number.
                    *key = *key << (4 * $width) << (4 * $width) | u64::from($number);
                }
            };
        }
        match self.place {
            KeyPlace::Encoded { offset, width: 1 } => pack!(1, offset, |b| b[0]),
            KeyPlace::Encoded { offset, width: 2 } => pack!(2, offset, |b| u16::from_be_bytes(b)),
            KeyPlace::Encoded { offset, width: 4 } => pack!(4, offset, |b| u32::from_be_bytes(b)),
            KeyPlace::Encoded { offset, width: 8 } => pack!(8, offset, |b| u64::from_be_bytes(b)),
            KeyPlace::Number { offset, width } => {
                let order = Order::of(self.ty, width);
                match width {
                    1 => pack!(1, offset, |b| order.ordered(b[0].into()) as u8),
                    2 => pack!(2, offset, |b| order.ordered(u16::from_le_bytes(b).into())
                        as u16),
                    4 => pack!(4, offset, |b| order.ordered(u32::from_le_bytes(b).into())
                        as u32),
                    8 => pack!(8, offset, |b| order.ordered(u64::from_le_bytes(b))),
                    _ => panic!("N1: no number is stored in {width} bytes"),
                }
            }
            KeyPlace::Encoded { .. } | KeyPlace::Wide { .. } | KeyPlace::Item(_) => {
                panic!("N1: a packed key has narrow columns only")
            }
        }
    }

    /// Appends the encoded column of a record; `None` if what it holds cannot be encoded.
    fn append(&self, base: &[u8], at: u16, key: &mut Vec<u8>) -> Option<()> {
        let record = &base[usize::from(at)..];
        match &self.place {
            KeyPlace::Encoded { offset, width } => {
                key.extend_from_slice(&record[*offset..offset + width]);
            }
            KeyPlace::Number { offset, width } => {
                let mut bytes = [0; 8];
                bytes[..*width].copy_from_slice(&record[*offset..offset + width]);
                let number = Order::of(self.ty, *width).ordered(u64::from_le_bytes(bytes));
                key.extend_from_slice(&number.to_be_bytes()[8 - width..]);
            }
            KeyPlace::Wide { offset } => {
                let bytes = record[*offset..offset + 16].try_into().expect("16 bytes");
                let number = u128::from_le_bytes(bytes) ^ 1 << 127;
                key.extend_from_slice(&number.to_be_bytes());
            }
            KeyPlace::Item(gather) => {
                let (start, end) = gather.item(base, at)?;
                let text = ValueRef::String(&base[start..end]);
                key::encode_part(self.ty, false, text, key).ok()?;
            }
        }
        Some(())
    }
}

/// How stored bits become bits that order as the numbers do, the same in every type of a width: those of
/// a negative number are changed in one way, those of any other in another.
#[derive(Clone, Copy)]
struct Order {
    sign: u64,
    if_negative: u64,
    otherwise: u64,
    /// Stored bits that stand for zero as well.
    zero: Option<u64>,
}

impl Order {
    fn of(ty: ColumnType, width: usize) -> Self {
        let sign = 1 << (8 * width - 1);
        let all = sign | (sign - 1);
        let (if_negative, otherwise, zero) = match ty {
            _ if ty.is_unsigned() => (0, 0, None),
            ColumnType::Float | ColumnType::Double => (all, sign, Some(sign)),
            _ => (sign, sign, None),
        };
        Self {
            sign,
            if_negative,
            otherwise,
            zero,
        }
    }

    #[inline(always)]
    fn ordered(self, bits: u64) -> u64 {
        if self.zero == Some(bits) {
            return self.sign;
        }
        match bits & self.sign {
            0 => bits ^ self.otherwise,
            _ => bits ^ self.if_negative,
        }
    }
}
