//! Calls of functions in a syntax tree.

use sqlparser::ast::{Function, FunctionArg, FunctionArgExpr, FunctionArguments};

/// The name of a function in small letters and its arguments, if the call says nothing else.
pub(super) fn call(function: &Function) -> Option<(String, Vec<&FunctionArgExpr>)> {
    let FunctionArguments::List(list) = &function.args else {
        return None;
    };
    let plain = function.over.is_none()
        && function.filter.is_none()
        && function.null_treatment.is_none()
        && function.within_group.is_empty()
        && function.parameters == FunctionArguments::None
        && !function.uses_odbc_syntax
        && list.duplicate_treatment.is_none()
        && list.clauses.is_empty();
    let arguments = list.args.iter().map(|argument| match argument {
        FunctionArg::Unnamed(argument) => Some(argument),
        _ => None,
    });
    let arguments = arguments.collect::<Option<_>>().filter(|_| plain)?;
    Some((function.name.to_string().to_ascii_lowercase(), arguments))
}
