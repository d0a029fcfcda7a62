//! The grammar of JSON_VALUE:
//!
//! ```text
//! JSON_VALUE(document, path [RETURNING type] [{NULL | ERROR | DEFAULT value} ON EMPTY]
//!     [{NULL | ERROR | DEFAULT value} ON ERROR])
//! ```
//!
//! In the tree it is a call with seven arguments: document, path, the type's name, and for each of both clauses what
//! happens and a default.

use sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments, Ident,
    ObjectName, Value,
};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::Token;

/// Its name.
pub(super) const NAME: &str = "json_value";

/// The type without RETURNING.
const CHAR: &str = "char(512)";

/// A call; its name is the next token.
pub(super) fn call(parser: &mut Parser<'_>) -> Result<Expr, ParserError> {
    parser.next_token();
    parser.expect_token(&Token::LParen)?;
    let document = parser.parse_expr()?;
    parser.expect_token(&Token::Comma)?;
    let path = parser.parse_expr()?;
    let returned = match parser.parse_keyword(Keyword::RETURNING) {
        true => parser.parse_data_type()?.to_string().to_lowercase(),
        false => CHAR.to_owned(),
    };
    let mut clauses = [None, None];
    while let Some(clause) = clause(parser)? {
        let place = match parser.expect_one_of_keywords(&[Keyword::EMPTY, Keyword::ERROR])? {
            Keyword::EMPTY => 0,
            _ => 1,
        };
        // ON EMPTY comes first, and each of them once.
        if clauses[place].is_some() || place == 0 && clauses[1].is_some() {
            return parser.expected(")", parser.peek_token());
        }
        clauses[place] = Some(clause);
    }
    parser.expect_token(&Token::RParen)?;
    let text = |text: &str| Expr::value(Value::SingleQuotedString(text.to_owned()));
    let mut arguments = vec![document, path, text(&returned)];
    for clause in clauses {
        let (word, default) = clause.unwrap_or(("null", Expr::value(Value::Null)));
        arguments.extend([text(word), default]);
    }
    let arguments = arguments.into_iter();
    let arguments = arguments.map(|one| FunctionArg::Unnamed(FunctionArgExpr::Expr(one)));
    Ok(Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new(NAME)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args: arguments.collect(),
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    }))
}

/// What happens, up to ON.
fn clause(parser: &mut Parser<'_>) -> Result<Option<(&'static str, Expr)>, ParserError> {
    let words = [Keyword::NULL, Keyword::ERROR, Keyword::DEFAULT];
    let null = Expr::value(Value::Null);
    let clause = match parser.parse_one_of_keywords(&words) {
        Some(Keyword::NULL) => ("null", null),
        Some(Keyword::ERROR) => ("error", null),
        Some(_) => ("default", parser.parse_expr()?),
        None => return Ok(None),
    };
    parser.expect_keyword_is(Keyword::ON)?;
    Ok(Some(clause))
}
