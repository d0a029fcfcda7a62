//! What record bytes mean: SQL types, values, row layouts, the row codec and the key encoding.
//!
//! The crate knows no page beyond the shape of records, and no SQL text beyond literals of its
//! types. Everything is synchronous and without I/O; `docs/format/row.md` and `docs/format/key.md`
//! describe the bytes.

pub mod bits;
pub mod collation;
pub mod date;
pub mod decimal;
pub mod json;
pub mod key;
pub mod string;
pub mod time;
pub mod zone;

mod coerce;
mod datum;
mod error;
mod layout;
mod like;
mod members;
mod overflow;
mod record;
#[cfg(test)]
mod strategies;
mod text;
mod types;
mod units;
mod wide;
mod zoned;

pub use collation::{Charset, Collation, Weight};
pub use datum::{Datum, ValueRef};
pub use error::{LayoutError, RowError, ValueError, ValueErrorKind};
pub use layout::{ColumnLayout, MAX_COLUMNS, MAX_KEY_LEN, MAX_RECORD_LEN, Place, RowLayout};
pub use like::{LikePattern, alike_pattern};
pub use members::{Members, MembersError, MembersKind};
pub use overflow::{OverflowRef, patch_refs, values_to_move_out};
pub use record::{RecordView, encode_row, encode_text_row, encode_with};
pub use text::{
    compared_moment, compared_moment_of_number, compared_time, compared_time_of_number,
    format_double, format_float, format_value, parse_text, parse_text_ref,
};
pub use types::ColumnType;
pub use units::Units;
pub use wide::Wide;
pub use zone::{Now, Zone};
