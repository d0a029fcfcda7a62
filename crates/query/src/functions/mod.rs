//! Scalar functions with MySQL's meaning, for DataFusion plans.
//!
//! `plan::lower` makes calls of these of bound expressions. Most are those of `perigee_expr` ([`library`]); what the
//! others compute rests on `perigee_value`, as the expression programs in storage do.

pub mod aggregates;
pub mod arithmetic;
pub mod cast;
pub mod chain;
pub mod collation;
pub mod dates;
pub mod enumeration;
pub mod exact;
pub mod json;
pub mod kernels;
pub mod library;
pub mod like;
pub mod moment;
pub mod null_safe;
pub mod nullable;
pub mod results;
pub mod scalar;
pub mod sum_double;
pub mod text;
pub mod types;
pub mod wide;
