//! Expression programs as machine code: what Page Stores run over pages at the speed of memory.
//!
//! [`JitEvaluator::compile`] turns a validated program and a record layout into functions that
//! loop over a page's records: predicates become branches, columns become loads at constant
//! offsets. Whatever is not worth code of its own calls the functions that the interpreter uses,
//! so that both give the same results and the same errors for every record. A program that only
//! names a column is not compiled; a loop written for its place and width runs instead.
//!
//! Only programs of very many operations and machines that Cranelift does not know are refused
//! ([`JitError`]); the caller then uses `perigee_expr::Interpreter`.
//!
//! Invariants:
//! - J1: constant offsets lie below `RecordShape::var_data_offset` (`access`); evaluators check
//!   per call that records of that length fit the page; variable-length items are checked by the
//!   compiled code. No byte outside of the page is read, whatever the records hold.
//! - J2: registers have the forms that the nodes' types and ranges ask for (`facts`).
//! - J3: records keep to their shape. If one does not, the evaluator panics.
//!
//! The crate knows no aggregates, no visibility and no pages, only bytes with records in them.

mod access;
mod code;
mod compile;
mod constants;
mod error;
mod evaluator;
mod facts;
mod gather;
mod interval;
mod runtime;

pub use error::JitError;
pub use evaluator::JitEvaluator;
