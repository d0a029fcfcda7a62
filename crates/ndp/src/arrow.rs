//! From lanes and chunks to Arrow arrays: widening loops, no allocation per value.

use std::sync::Arc;

use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, DurationMicrosecondType, Float32Type, Float64Type, Int8Type,
    Int16Type, Int32Type, Int64Type, TimestampMicrosecondType, UInt8Type, UInt16Type, UInt32Type,
    UInt64Type,
};
use arrow_array::{
    ArrayRef, BinaryViewArray, BooleanArray, Decimal128Array, Decimal256Array, PrimitiveArray,
    StringViewArray,
};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, ScalarBuffer, i256};
use arrow_schema::{DataType, TimeUnit};
use bytes::Bytes;
use perigee_expr::{Lanes, Vector};
use perigee_value::Wide;

use crate::NdpError;
use crate::batch::Column;
use crate::chunk::{Chunk, Strings, Values};
use crate::narrow;

/// The Arrow array of type `ty` that a column of `rows` rows stands for.
///
/// A column whose physical form does not go with `ty`, or whose text is not UTF-8, is an error.
pub(crate) fn array(ty: &DataType, rows: usize, column: Column) -> Result<ArrayRef, NdpError> {
    let nulls = match &column {
        Column::Lanes(Vector { valid, .. }) => valid
            .as_ref()
            .map(|valid| BooleanBuffer::collect_bool(rows, |i| valid[i] != 0)),
        Column::Chunk(Chunk { valid, .. }) => valid
            .as_ref()
            .map(|bits| BooleanBuffer::new(Buffer::from(bits.clone()), 0, rows)),
    };
    let nulls = nulls
        .map(NullBuffer::new)
        .filter(|nulls| nulls.null_count() > 0);
    let source = Source { rows, column };
    Ok(match ty {
        DataType::Int8 => source.integers::<Int8Type>(nulls)?,
        DataType::Int16 => source.integers::<Int16Type>(nulls)?,
        DataType::Int32 => source.integers::<Int32Type>(nulls)?,
        DataType::Int64 => source.integers::<Int64Type>(nulls)?,
        DataType::UInt8 => source.integers::<UInt8Type>(nulls)?,
        DataType::UInt16 => source.integers::<UInt16Type>(nulls)?,
        DataType::UInt32 => source.integers::<UInt32Type>(nulls)?,
        DataType::UInt64 => source.integers::<UInt64Type>(nulls)?,
        DataType::Date32 => source.integers::<Date32Type>(nulls)?,
        DataType::Timestamp(TimeUnit::Microsecond, None) => {
            source.integers::<TimestampMicrosecondType>(nulls)?
        }
        DataType::Duration(TimeUnit::Microsecond) => {
            source.integers::<DurationMicrosecondType>(nulls)?
        }
        DataType::Decimal128(precision, scale) => {
            let values = source.collect::<i128>()?;
            let array = Decimal128Array::new(values.into(), nulls);
            let array = array.with_precision_and_scale(*precision, *scale);
            Arc::new(array.map_err(|e| mismatch(e.to_string()))?)
        }
        DataType::Decimal256(precision, scale) => {
            let values = source.wide_decimals(nulls.as_ref())?;
            let array = Decimal256Array::new(values.into(), nulls);
            let array = array.with_precision_and_scale(*precision, *scale);
            Arc::new(array.map_err(|e| mismatch(e.to_string()))?)
        }
        DataType::Boolean => {
            let values = source.collect::<i8>()?;
            let bits = BooleanBuffer::collect_bool(rows, |i| values[i] != 0);
            Arc::new(BooleanArray::new(bits, nulls))
        }
        DataType::Float32 => source.floats::<Float32Type>(nulls, |v| v as f32)?,
        DataType::Float64 => source.floats::<Float64Type>(nulls, |v| v)?,
        DataType::Utf8View => source.text(nulls)?,
        DataType::BinaryView => {
            let views = source.views()?;
            let array = BinaryViewArray::try_new(views.views.into(), views.buffers, nulls);
            Arc::new(array.map_err(|e| mismatch(e.to_string()))?)
        }
        other => return Err(mismatch(format!("a column cannot be delivered as {other}"))),
    })
}

fn mismatch(what: String) -> NdpError {
    NdpError::Batch { what }
}

/// A number read from storage in one of three widths; the type to deliver is known to hold it, or
/// else the batch is forged and any value is as good.
trait Number: Copy {
    fn signed(value: i64) -> Self;
    fn unsigned(value: u64) -> Self;
    fn wide(value: i128) -> Self;
}

macro_rules! number {
    ($($ty:ty),*) => {$(
        impl Number for $ty {
            fn signed(value: i64) -> Self {
                value as $ty
            }
            fn unsigned(value: u64) -> Self {
                value as $ty
            }
            fn wide(value: i128) -> Self {
                value as $ty
            }
        }
    )*};
}

number!(i8, i16, i32, i64, i128, u8, u16, u32, u64);

struct Source {
    rows: usize,
    column: Column,
}

/// Views of strings, 16 bytes each, and what they point to.
struct Views {
    views: Vec<u128>,
    buffers: Vec<Buffer>,
    /// All string data is UTF-8, and every string begins and ends between characters.
    text: bool,
}

impl Source {
    fn integers<T>(self, nulls: Option<NullBuffer>) -> Result<ArrayRef, NdpError>
    where
        T: ArrowPrimitiveType,
        T::Native: Number,
    {
        let values = self.collect::<T::Native>()?;
        Ok(Arc::new(PrimitiveArray::<T>::new(
            ScalarBuffer::from(values),
            nulls,
        )))
    }

    fn collect<T: Number>(&self) -> Result<Vec<T>, NdpError> {
        let rows = self.rows;
        let mut out = Vec::with_capacity(rows);
        match &self.column {
            Column::Lanes(Vector { lanes, .. }) => match lanes {
                Lanes::I64(values) => out.extend(values.iter().map(|v| T::signed(*v))),
                Lanes::U64(values) => out.extend(values.iter().map(|v| T::unsigned(*v))),
                Lanes::I128(values) => out.extend(values.iter().map(|v| T::wide(*v))),
                _ => return Err(mismatch("numbers expected".to_owned())),
            },
            Column::Chunk(chunk) => match &chunk.values {
                Values::Int { width, base, data } => narrow::for_each(*width, rows, data, |d| {
                    out.push(T::signed(base.wrapping_add(d as i64)));
                }),
                Values::UInt { width, base, data } => narrow::for_each(*width, rows, data, |d| {
                    out.push(T::unsigned(base.wrapping_add(d)));
                }),
                Values::Wide { width, base, data } => {
                    narrow::for_each_wide(*width, rows, data, |d| {
                        out.push(T::wide(base.wrapping_add(d as i128)));
                    });
                }
                _ => return Err(mismatch("numbers expected".to_owned())),
            },
        }
        Ok(out)
    }

    /// Wide decimals, which are carried as the bytes that are stored.
    fn wide_decimals(self, nulls: Option<&NullBuffer>) -> Result<Vec<i256>, NdpError> {
        let views = self.views()?;
        let stored = BinaryViewArray::try_new(views.views.into(), views.buffers, None);
        let stored = stored.map_err(|e| mismatch(e.to_string()))?;
        let rows = stored.iter().flatten().enumerate();
        rows.map(|(row, bytes)| match <[u8; Wide::WIDTH]>::try_from(bytes) {
            _ if nulls.is_some_and(|nulls| nulls.is_null(row)) => Ok(i256::ZERO),
            Ok(bytes) => Ok(i256::from_le_bytes(Wide::from_bytes(bytes).to_le_bytes())),
            Err(_) => Err(mismatch(format!("{} bytes are no decimal", bytes.len()))),
        })
        .collect()
    }

    fn floats<T: ArrowPrimitiveType>(
        self,
        nulls: Option<NullBuffer>,
        cast: impl Fn(f64) -> T::Native,
    ) -> Result<ArrayRef, NdpError> {
        let mut out = Vec::with_capacity(self.rows);
        match &self.column {
            Column::Lanes(Vector {
                lanes: Lanes::F64(values),
                ..
            }) => {
                out.extend(values.iter().map(|v| cast(*v)));
            }
            Column::Chunk(Chunk {
                values: Values::Double(data),
                ..
            }) => {
                narrow::for_each(8, self.rows, data, |bits| {
                    out.push(cast(f64::from_bits(bits)))
                });
            }
            Column::Chunk(Chunk {
                values: Values::Float(data),
                ..
            }) => {
                narrow::for_each(4, self.rows, data, |bits| {
                    out.push(cast(f32::from_bits(bits as u32).into()));
                });
            }
            _ => return Err(mismatch("floating-point numbers expected".to_owned())),
        }
        Ok(Arc::new(PrimitiveArray::<T>::new(
            ScalarBuffer::from(out),
            nulls,
        )))
    }

    fn text(self, nulls: Option<NullBuffer>) -> Result<ArrayRef, NdpError> {
        let views = self.views()?;
        if !views.text {
            return Err(mismatch("text is not UTF-8".to_owned()));
        }
        // SAFETY: `views` made each view of a piece of the data in `buffers`, with the prefix
        // that belongs to it; `text` says that the data is UTF-8 and no piece cuts a character.
        let array =
            unsafe { StringViewArray::new_unchecked(views.views.into(), views.buffers, nulls) };
        Ok(Arc::new(array))
    }

    fn views(self) -> Result<Views, NdpError> {
        let rows = self.rows;
        match self.column {
            Column::Lanes(Vector {
                lanes: Lanes::Bytes { ends, data },
                ..
            }) => {
                let data = Bytes::from(data);
                let mut builder = ViewBuilder::new(rows, &data);
                let mut start = 0;
                for end in ends {
                    builder.push(start, end as usize);
                    start = end as usize;
                }
                Ok(builder.finish(data.clone()))
            }
            Column::Chunk(Chunk {
                values: Values::Strings(strings),
                ..
            }) => Ok(string_views(rows, &strings)),
            Column::Chunk(Chunk {
                values:
                    Values::Dictionary {
                        entries,
                        strings,
                        codes,
                    },
                ..
            }) => {
                let entries = string_views(entries, &strings);
                let views = codes
                    .iter()
                    .map(|&code| entries.views[usize::from(code)])
                    .collect();
                Ok(Views { views, ..entries })
            }
            _ => Err(mismatch("strings expected".to_owned())),
        }
    }
}

fn string_views(n: usize, strings: &Strings) -> Views {
    let mut builder = ViewBuilder::new(n, &strings.data);
    strings.for_each(n, |start, end| builder.push(start, end));
    builder.finish(strings.data.clone())
}

/// Longest string that is kept inside its view.
const INLINE: usize = 12;

struct ViewBuilder<'a> {
    data: &'a [u8],
    /// The data as text, unless it is ASCII and may be cut anywhere.
    text: Option<Result<&'a str, std::str::Utf8Error>>,
    views: Vec<u128>,
    cuts_characters: bool,
    inline_only: bool,
}

impl<'a> ViewBuilder<'a> {
    fn new(rows: usize, data: &'a [u8]) -> Self {
        let text = (!data.is_ascii()).then(|| std::str::from_utf8(data));
        Self {
            data,
            text,
            views: Vec::with_capacity(rows),
            cuts_characters: false,
            inline_only: true,
        }
    }

    #[inline]
    fn push(&mut self, start: usize, end: usize) {
        let len = end - start;
        if let Some(Ok(text)) = self.text {
            // The end is the start of the next string, or the end of the data.
            self.cuts_characters |= !text.is_char_boundary(start);
        }
        let view = if len > INLINE {
            self.inline_only = false;
            let prefix = u32::from_le_bytes(self.data[start..start + 4].try_into().expect("four"));
            len as u128 | u128::from(prefix) << 32 | (start as u128) << 96
        } else if let Some(window) = self.data.get(start..start + 16) {
            // One load for the common case: the bytes behind the string are masked away.
            let window = u128::from_le_bytes(window.try_into().expect("sixteen"));
            let mask = (1_u128 << (8 * len)) - 1;
            len as u128 | (window & mask) << 32
        } else {
            let mut view = [0; 16];
            view[0] = len as u8;
            view[4..4 + len].copy_from_slice(&self.data[start..end]);
            u128::from_le_bytes(view)
        };
        self.views.push(view);
    }

    fn finish(self, data: Bytes) -> Views {
        let text = match self.text {
            None => true,
            Some(text) => text.is_ok() && !self.cuts_characters,
        };
        let buffers = if self.inline_only {
            Vec::new()
        } else {
            vec![Buffer::from(data)]
        };
        Views {
            views: self.views,
            buffers,
            text,
        }
    }
}
