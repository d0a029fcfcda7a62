//! Why a program was not compiled.

use perigee_expr::ExprError;

/// Why a program was not compiled. The caller runs the interpreter instead.
#[derive(Debug, thiserror::Error)]
pub enum JitError {
    /// The program does not pass the validator for this layout.
    #[error("program is not valid: {0}")]
    Invalid(#[from] ExprError),
    /// The layout puts a column where no record has bytes.
    #[error("column {column} of the layout {what}")]
    Layout {
        /// Index of the column.
        column: u16,
        /// What is wrong with it.
        what: &'static str,
    },
    /// The code would have more operations than are worth compiling, because of very many nodes
    /// or of nodes that many others share.
    #[error("program is too large to compile: more than {limit} operations")]
    TooLarge {
        /// The greatest number that is compiled.
        limit: u32,
    },
    /// Cranelift does not know this machine.
    #[error("no compiler for this machine: {0}")]
    Machine(String),
    /// Cranelift refused the code made from the program.
    #[error("code generation failed: {0}")]
    Codegen(String),
}
