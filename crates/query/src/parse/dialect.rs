//! MySQL's grammar for sqlparser, with the operators' precedence corrected.
//!
//! sqlparser's MySQL dialect binds `||`, XOR, `&&`, DIV, LIKE, IN and BETWEEN differently from
//! MySQL, which would change what statements mean:
//!
//! ```text
//! a = 1 || b = 2          is (a = 1) OR (b = 2)
//! a XOR b AND c           is a XOR (b AND c)
//! 7 DIV 2 + 1             is (7 DIV 2) + 1
//! a = b LIKE c            is a = (b LIKE c)
//! a->'$.b' = 1            is (a->'$.b') = 1
//! ```
//!
//! Some modes of `sql_mode` are modes of the grammar: there is one for each set of them.

use std::any::TypeId;

use perigee_sql_bind::Modes;
use sqlparser::ast::{BinaryOperator, Expr, Statement, UnaryOperator};
use sqlparser::dialect::{Dialect, MySqlDialect, Precedence};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer, TokenizerError};

use crate::interrupt;

/// The dialect: sqlparser's own with corrections.
#[derive(Debug)]
pub struct Grammar {
    modes: Modes,
}

/// The modes that the grammar depends on.
const MODES: [Modes; 4] = [
    Modes::ANSI_QUOTES,
    Modes::PIPES_AS_CONCAT,
    Modes::NO_BACKSLASH_ESCAPES,
    Modes::HIGH_NOT_PRECEDENCE,
];

/// The grammars; bit `i` of the place of one says whether it has mode `i` of [`MODES`].
static GRAMMARS: [Grammar; 1 << MODES.len()] = {
    let mut grammars = [const { Grammar { modes: Modes::NONE } }; 1 << MODES.len()];
    let mut place = 0;
    while place < grammars.len() {
        let mut mode = 0;
        while mode < MODES.len() {
            if place >> mode & 1 == 1 {
                grammars[place].modes = grammars[place].modes.with(MODES[mode]);
            }
            mode += 1;
        }
        place += 1;
    }
    grammars
};

impl Grammar {
    /// The grammar of statements in these modes.
    #[must_use]
    pub fn of(modes: Modes) -> &'static Self {
        let bits = MODES.iter().enumerate();
        let place = bits.fold(0, |place, (bit, mode)| {
            place | usize::from(modes.has(*mode)) << bit
        });
        &GRAMMARS[place]
    }

    /// True if a backslash in a string begins an escape sequence.
    #[must_use]
    pub fn has_backslash_escapes(&self) -> bool {
        !self.modes.has(Modes::NO_BACKSLASH_ESCAPES)
    }

    /// True if `||` is CONCAT; the syntax tree has it as an operator until it is balanced.
    pub(super) fn has_pipes_as_concat(&self) -> bool {
        self.modes.has(Modes::PIPES_AS_CONCAT)
    }

    /// True if NOT binds as tight as `!`.
    pub(super) fn has_tight_not(&self) -> bool {
        self.modes.has(Modes::HIGH_NOT_PRECEDENCE)
    }

    /// The tokens of a text. Names have the same quotes in all modes, and so have strings.
    pub(super) fn tokens(&'static self, text: &str) -> Result<Vec<TokenWithSpan>, TokenizerError> {
        let mut tokens = Tokenizer::new(self, text).tokenize_with_location()?;
        for token in &mut tokens {
            if let Some(digits) = binary_digits(&token.token) {
                let Some(digits) = hexadecimal(digits) else {
                    return Err(TokenizerError {
                        message: "a binary literal has other digits than 0 and 1".into(),
                        location: token.span.start,
                    });
                };
                token.token = Token::HexStringLiteral(digits);
            }
            if let Token::DoubleQuotedString(text) = &mut token.token {
                token.token = Token::SingleQuotedString(std::mem::take(text));
            }
        }
        if self.modes.has(Modes::ANSI_QUOTES) {
            for token in &mut tokens {
                if let Token::Word(word) = &mut token.token
                    && word.quote_style == Some('"')
                {
                    word.quote_style = Some('`');
                }
            }
        }
        Ok(tokens)
    }

    /// True if what is known of the quotes and escapes of texts holds.
    pub(super) fn has_plain_strings(&self) -> bool {
        self.has_backslash_escapes() && !self.modes.has(Modes::ANSI_QUOTES)
    }
}

/// The digits of a literal B'101' or 0b101; the latter is a name if it has others.
fn binary_digits(token: &Token) -> Option<&str> {
    match token {
        Token::SingleQuotedByteStringLiteral(digits) => Some(digits),
        Token::Word(word) if word.quote_style.is_none() => {
            let digits = word.value.strip_prefix("0b")?;
            let is_binary = |digit: u8| matches!(digit, b'0' | b'1');
            (!digits.is_empty() && digits.bytes().all(is_binary)).then_some(digits)
        }
        _ => None,
    }
}

/// The bytes of a binary literal, two digits each; `None` if a digit is not 0 or 1.
fn hexadecimal(digits: &str) -> Option<String> {
    let digits = digits.as_bytes();
    let (first, bytes) = digits.split_at(digits.len() % 8);
    let byte = |digits: &[u8]| {
        let bit = |byte: u8, digit: &u8| match digit {
            b'0' | b'1' => Some(byte << 1 | (digit - b'0')),
            _ => None,
        };
        digits
            .iter()
            .try_fold(0, bit)
            .map(|byte| format!("{byte:02X}"))
    };
    let first = (!first.is_empty()).then_some(first);
    first.into_iter().chain(bytes.chunks(8)).map(byte).collect()
}

const MYSQL: MySqlDialect = MySqlDialect {};

/// Delegates methods without arguments.
macro_rules! delegate {
    ($($name:ident),* $(,)?) => {
        $(fn $name(&self) -> bool {
            MYSQL.$name()
        })*
    };
}

impl Dialect for Grammar {
    fn dialect(&self) -> TypeId {
        TypeId::of::<MySqlDialect>()
    }

    fn is_identifier_start(&self, ch: char) -> bool {
        MYSQL.is_identifier_start(ch)
    }

    fn is_identifier_part(&self, ch: char) -> bool {
        MYSQL.is_identifier_part(ch)
    }

    fn is_delimited_identifier_start(&self, ch: char) -> bool {
        MYSQL.is_delimited_identifier_start(ch) || ch == '"' && self.modes.has(Modes::ANSI_QUOTES)
    }

    fn identifier_quote_style(&self, identifier: &str) -> Option<char> {
        MYSQL.identifier_quote_style(identifier)
    }

    fn supports_string_literal_backslash_escape(&self) -> bool {
        self.has_backslash_escapes()
    }

    delegate!(
        supports_string_literal_concatenation,
        ignores_wildcard_escapes,
        supports_numeric_prefix,
        supports_bitwise_shift_operators,
        supports_multiline_comment_hints,
        require_interval_qualifier,
        supports_limit_comma,
        supports_create_table_select,
        supports_insert_set,
        supports_user_host_grantee,
        supports_table_hints,
        requires_single_line_comment_whitespace,
        supports_match_against,
        supports_select_modifiers,
        supports_set_names,
        supports_comma_separated_set_assignments,
        supports_update_order_by,
        supports_data_type_signed_suffix,
        supports_cross_join_constraint,
        supports_double_ampersand_operator,
        supports_binary_kw_as_cast,
        supports_comment_optimizer_hint,
        supports_constraint_keyword_without_name,
        supports_key_column_option,
    );

    /// WITH ROLLUP.
    fn supports_group_by_with_modifier(&self) -> bool {
        true
    }

    /// The units of two fields, YEAR_MONTH for example.
    fn allow_extract_custom(&self) -> bool {
        true
    }

    fn parse_statement(&self, parser: &mut Parser<'_>) -> Option<Result<Statement, ParserError>> {
        MYSQL.parse_statement(parser)
    }

    fn is_table_factor_alias(&self, explicit: bool, kw: &Keyword, parser: &mut Parser<'_>) -> bool {
        // `t LOCK IN SHARE MODE`
        *kw != Keyword::LOCK && MYSQL.is_table_factor_alias(explicit, kw, parser)
    }

    /// sqlparser notices only behind it that FROM is no expression. It comes by here for each operand, so that a
    /// long statement can be stopped.
    fn parse_prefix(&self, parser: &mut Parser<'_>) -> Option<Result<Expr, ParserError>> {
        if let Err(stopped) = interrupt::check() {
            return Some(Err(ParserError::ParserError(stopped.message)));
        }
        let token = parser.peek_token();
        match &token.token {
            Token::Word(word) if word.keyword == Keyword::FROM && word.quote_style.is_none() => {
                Some(parser.expected("an expression", token))
            }
            Token::Word(word)
                if word.quote_style.is_none()
                    && word.value.eq_ignore_ascii_case(super::json_value::NAME)
                    && parser.peek_nth_token(1).token == Token::LParen =>
            {
                Some(super::json_value::call(parser))
            }
            Token::Word(word)
                if word.quote_style.is_none()
                    && word.value.starts_with('@')
                    && parser.peek_nth_token(1).token == Token::Assignment =>
            {
                Some(assignment(parser))
            }
            Token::Minus => Some(unary(parser, UnaryOperator::Minus)),
            Token::Tilde => Some(unary(parser, UnaryOperator::BitwiseNot)),
            _ => None,
        }
    }

    fn parse_infix(
        &self,
        parser: &mut Parser<'_>,
        expr: &Expr,
        _precedence: u8,
    ) -> Option<Result<Expr, ParserError>> {
        let binding = self.prec_value(Precedence::MulDivModOp);
        let op = match &parser.peek_token_ref().token {
            Token::Word(word) if word.keyword == Keyword::DIV => BinaryOperator::MyIntegerDivide,
            Token::Word(word) if word.keyword == Keyword::MOD => BinaryOperator::Modulo,
            _ => return None,
        };
        parser.next_token();
        Some(parser.parse_subexpr(binding).map(|right| Expr::BinaryOp {
            left: Box::new(expr.clone()),
            op,
            right: Box::new(right),
        }))
    }

    fn get_next_precedence(&self, parser: &Parser<'_>) -> Option<Result<u8, ParserError>> {
        let precedence = match &parser.peek_token_ref().token {
            Token::StringConcat if self.has_pipes_as_concat() => return Some(Ok(CONCAT)),
            Token::StringConcat => Precedence::Or,
            Token::Overlap => Precedence::And,
            Token::Word(word) if word.keyword == Keyword::XOR => return Some(Ok(XOR)),
            Token::Word(word) if word.keyword == Keyword::MOD => Precedence::MulDivModOp,
            Token::Arrow | Token::LongArrow => return Some(Ok(PATH)),
            Token::Caret => return Some(Ok(CARET)),
            Token::ShiftLeft | Token::ShiftRight => return Some(Ok(SHIFT)),
            _ => return None,
        };
        Some(Ok(self.prec_value(precedence)))
    }

    fn prec_value(&self, precedence: Precedence) -> u8 {
        match precedence {
            // Predicates bind tighter than comparisons.
            Precedence::Between | Precedence::Like => 2 * MYSQL.prec_value(Precedence::Eq) + 1,
            Precedence::UnaryNot if self.modes.has(Modes::HIGH_NOT_PRECEDENCE) => CONCAT,
            other => 2 * MYSQL.prec_value(other),
        }
    }
}

/// `@name := value`, which reaches as far as an expression can.
fn assignment(parser: &mut Parser<'_>) -> Result<Expr, ParserError> {
    let left = Box::new(Expr::Identifier(parser.parse_identifier()?));
    parser.next_token();
    let right = Box::new(parser.parse_expr()?);
    Ok(Expr::BinaryOp {
        left,
        op: BinaryOperator::Assignment,
        right,
    })
}

/// An operator before its operand.
fn unary(parser: &mut Parser<'_>, op: UnaryOperator) -> Result<Expr, ParserError> {
    parser.next_token();
    let expr = Box::new(parser.parse_subexpr(CONCAT)?);
    Ok(Expr::UnaryOp { op, expr })
}

/// Between OR (10) and AND (20).
const XOR: u8 = 15;

/// Between `&` (46) and `+` (60).
const SHIFT: u8 = 50;

/// `^` binds tighter than `*` (80).
const CARET: u8 = 82;

/// `||` as CONCAT binds tighter than `^`, but not than COLLATE (84), and signs bind tighter.
const CONCAT: u8 = 83;

/// `column->path` binds tighter than any operator (at most 100).
const PATH: u8 = 120;

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> String {
        parse_in(Modes::default(), text)
    }

    fn parse_in(modes: Modes, text: &str) -> String {
        let grammar = Grammar::of(modes);
        let tokens = grammar
            .tokens(text)
            .unwrap_or_else(|e| panic!("{text}: {e}"));
        let mut parser = Parser::new(grammar).with_tokens_with_locations(tokens);
        let expr = parser.parse_expr();
        show(&expr.unwrap_or_else(|e| panic!("{text}: {e}")))
    }

    fn show(expr: &Expr) -> String {
        match expr {
            Expr::BinaryOp { left, op, right } => format!("({} {op} {})", show(left), show(right)),
            Expr::UnaryOp { op, expr } => format!("({op} {})", show(expr)),
            Expr::Like { expr, pattern, .. } => {
                format!("({} LIKE {})", show(expr), show(pattern))
            }
            Expr::Between {
                expr, low, high, ..
            } => {
                format!("({} BETWEEN {} AND {})", show(expr), show(low), show(high))
            }
            Expr::InList { expr, list, .. } => format!("({} IN {})", show(expr), show(&list[0])),
            Expr::MemberOf(member) => {
                format!(
                    "({} MEMBER OF {})",
                    show(&member.value),
                    show(&member.array)
                )
            }
            Expr::IsNull(expr) => format!("({} IS NULL)", show(expr)),
            other => other.to_string(),
        }
    }

    #[test]
    fn precedence_is_mysqls() {
        for (text, expected) in [
            ("a = 1 || b = 2", "((a = 1) || (b = 2))"),
            ("a || b AND c", "(a || (b AND c))"),
            ("a && b || c", "((a && b) || c)"),
            ("a XOR b AND c", "(a XOR (b AND c))"),
            ("a OR b XOR c", "(a OR (b XOR c))"),
            ("a = 1 XOR b = 2", "((a = 1) XOR (b = 2))"),
            ("7 DIV 2 + 1", "((7 DIV 2) + 1)"),
            ("7 DIV 2 = 3", "((7 DIV 2) = 3)"),
            ("8 * 7 DIV 2", "((8 * 7) DIV 2)"),
            ("7 MOD 2 + 1", "((7 % 2) + 1)"),
            ("a = b LIKE c", "(a = (b LIKE c))"),
            ("a = b IN (c)", "(a = (b IN c))"),
            ("a = b BETWEEN 1 AND 2", "(a = (b BETWEEN 1 AND 2))"),
            ("a BETWEEN 1 AND 2 AND c", "((a BETWEEN 1 AND 2) AND c)"),
            ("NOT a = b", "(NOT (a = b))"),
            ("NOT a LIKE b AND c", "((NOT (a LIKE b)) AND c)"),
            ("a + 1 LIKE b", "((a + 1) LIKE b)"),
            ("a < b IS NULL", "((a < b) IS NULL)"),
            ("a->'$.b' = 1 + 1", "((a -> '$.b') = (1 + 1))"),
            ("1 + t.a->>'$.b' * 2", "(1 + ((t.a ->> '$.b') * 2))"),
            ("-a->'$.b' IS NULL", "((- (a -> '$.b')) IS NULL)"),
            ("a = b MEMBER OF (c)", "(a = (b MEMBER OF c))"),
            ("a - b - c * -d", "((a - b) - (c * (- d)))"),
            ("2 * 3 ^ 1 + 1", "((2 * (3 ^ 1)) + 1)"),
            ("-a ^ b", "((- a) ^ b)"),
            ("~a * b", "((~ a) * b)"),
            ("a + 1 << 2 & b | c", "((((a + 1) << 2) & b) | c)"),
            ("a & b << 1 = c", "((a & (b << 1)) = c)"),
            ("- - a", "(- (- a))"),
            ("@a := b + 1 > c OR d", "(@a := (((b + 1) > c) OR d))"),
            ("1 + @a := @b := c - 1", "(1 + (@a := (@b := (c - 1))))"),
        ] {
            // `&&` may be shown as either spelling.
            assert_eq!(
                parse(text).replace("a AND b) ||", "a && b) ||"),
                expected,
                "{text}"
            );
        }
    }

    #[test]
    fn modes_change_what_operators_and_quotes_mean() {
        let pipes = Modes::PIPES_AS_CONCAT;
        for (modes, text, expected) in [
            (pipes, "a || b = c", "((a || b) = c)"),
            (pipes, "a || b || c", "((a || b) || c)"),
            (pipes, "a ^ b || c", "(a ^ (b || c))"),
            (pipes, "-a || b * c", "(((- a) || b) * c)"),
            (pipes, "a OR b || c", "(a OR (b || c))"),
            (Modes::HIGH_NOT_PRECEDENCE, "NOT a = b", "((NOT a) = b)"),
            (
                Modes::HIGH_NOT_PRECEDENCE,
                "NOT a BETWEEN b AND c",
                "((NOT a) BETWEEN b AND c)",
            ),
            (Modes::ANSI_QUOTES, "\"a\" = 'b'", "(`a` = 'b')"),
            (Modes::NO_BACKSLASH_ESCAPES, "'a\\' = b", "('a\\' = b)"),
        ] {
            assert_eq!(parse_in(modes, text), expected, "{text}");
        }
    }
}
