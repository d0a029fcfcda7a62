//! The type of an SQL expression: what its values are, what clients are told of it, and what is computed of several
//! types. Everything that decides about types asks this crate; it knows neither SQL text nor plans.

mod coercibility;
mod number;
mod sql_type;
pub mod unify;

pub use coercibility::{Coercibility, Derived, MixOfCollations, common_collation, compared_in};
pub use number::Number;
pub use sql_type::SqlType;

/// Length that is told for strings of expressions, in characters.
pub const TEXT_CHARS: u16 = 16_383;

/// Most digits of a decimal that is computed, before it is stored or shown: 256 bits hold them.
pub const LONGEST_DECIMAL: u8 = 76;
