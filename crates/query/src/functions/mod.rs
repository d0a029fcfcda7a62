//! Scalar functions with MySQL's meaning, for DataFusion plans.
//!
//! Users never name them: the rewriter maps MySQL's functions and operators to these, and refuses
//! every function it does not know. Most are those of `perigee_expr` ([`library`]); what the others compute rests on
//! `perigee_value`, as the expression programs in storage do.

pub mod aggregates;
pub mod arithmetic;
pub mod between;
pub mod cast;
pub mod chain;
pub mod choice;
pub mod collation;
pub mod dates;
pub mod enumeration;
pub mod exact;
pub mod in_list;
pub mod json;
pub mod kernels;
pub mod library;
pub mod like;
pub mod long_list;
pub mod moment;
pub mod null_safe;
pub mod nullable;
pub mod results;
pub mod scalar;
pub mod stored;
pub mod sum_argument;
pub mod sum_double;
pub mod text;
pub mod types;
pub mod wide;

use std::sync::{Arc, LazyLock};

use datafusion::logical_expr::ScalarUDF;

/// All functions, for a statement's registry. They are made once for the process.
#[must_use]
pub fn all() -> Vec<Arc<ScalarUDF>> {
    static ALL: LazyLock<Vec<Arc<ScalarUDF>>> = LazyLock::new(make);
    ALL.clone()
}

fn make() -> Vec<Arc<ScalarUDF>> {
    let mut functions: Vec<ScalarUDF> = vec![
        cast::Cast::default().into(),
        chain::Chain::default().into(),
        collation::Pad::default().into(),
        collation::Weights::default().into(),
        collation::Collate::default().into(),
        arithmetic::Negate::default().into(),
        choice::Conditional::default().into(),
        choice::Coalesce::default().into(),
        between::Between::default().into(),
        in_list::In::default().into(),
        null_safe::NullSafeKey::default().into(),
        nullable::Nullable::default().into(),
        like::Like::default().into(),
        dates::Extract::default().into(),
        dates::DateAdd::default().into(),
        sum_argument::SumArgument::default().into(),
        wide::DecimalKey::default().into(),
        wide::SumInRange::default().into(),
    ];
    let operators = arithmetic::OPERATORS.into_iter();
    functions.extend(operators.map(|op| arithmetic::ArithmeticFunction::new(op).into()));
    functions.extend(library::all().map(ScalarUDF::from));
    functions.extend(exact::all().map(ScalarUDF::from));
    functions.into_iter().map(Arc::new).collect()
}
