//! Text forms of values: what INSERT and LOAD DATA accept in strict mode, and what clients see.

mod compared;
mod datetime;
mod format;
pub(crate) mod number;
mod parse;
mod time;

pub use compared::{
    compared_moment, compared_moment_of_number, compared_time, compared_time_of_number,
};
pub(crate) use format::shortest;
pub use format::{format_double, format_float, format_value};
pub(crate) use parse::{
    check_text, day_from_number, fit_time, micros_from_number, time_from_number, year_from_number,
};
pub use parse::{parse_text, parse_text_ref};

#[cfg(test)]
mod tests;
