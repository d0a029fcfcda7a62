//! CREATE, ALTER and DROP VIEW.

use std::borrow::Cow;

use perigee_engine::catalog::{CheckOption, ViewAlgorithm};
use perigee_sql_bind::query::quoted;
use sqlparser::ast::ObjectName;
use sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};

use super::account::user_name;
use super::{Cursor, Ddl, Grammar, MoreRows, Piece, Script, Source, UserName};
use crate::error::{Result, SqlError};

/// CREATE VIEW and ALTER VIEW.
#[derive(Debug)]
pub struct CreateView {
    /// The view.
    pub name: ObjectName,
    /// OR REPLACE.
    pub replace: bool,
    /// ALTER VIEW.
    pub alter: bool,
    /// ALGORITHM.
    pub algorithm: Option<ViewAlgorithm>,
    /// DEFINER.
    pub definer: Option<UserName>,
    /// SQL SECURITY: whether it is INVOKER.
    pub invoker: Option<bool>,
    /// The names of its columns, if they are given.
    pub columns: Vec<String>,
    /// The text of its query, to be read in no mode of `sql_mode`.
    pub query: String,
    /// WITH CHECK OPTION.
    pub check: CheckOption,
}

/// True if the words behind CREATE or ALTER may be those of a statement about a view.
pub(super) fn begins(cursor: &Cursor<'_>) -> bool {
    let mut ahead = cursor.clone();
    if ahead.accept("OR") {
        return ahead.accept("REPLACE") && !ahead.peek_any(&["TABLE"]);
    }
    ahead.peek_any(&["ALGORITHM", "DEFINER", "SQL", "VIEW"])
}

/// CREATE VIEW and ALTER VIEW. Their text is read again: names in comments with version numbers, in which mysqldump
/// writes them, do not say where they stand.
pub(super) fn create(piece: Piece<'_>) -> Result<Ddl> {
    let text = own_text(piece);
    let (text, grammar) = (Cow::Borrowed(&*text), piece.grammar);
    let script = Script::of(text, MoreRows::default(), Vec::new(), grammar)?;
    let piece = script.pieces().next().ok_or_else(SqlError::empty_query)?;
    let mut cursor = Cursor::new(piece);
    let alter = cursor.word() == "ALTER";
    let replace = cursor.accept_all(&["OR", "REPLACE"]);
    let algorithm = match cursor.accept("ALGORITHM") {
        true => Some(algorithm(&mut cursor)?),
        false => None,
    };
    let definer = match cursor.accept("DEFINER") {
        true => {
            cursor.expect(&Token::Eq)?;
            Some(user_name(&mut cursor)?)
        }
        false => None,
    };
    let mut invoker = None;
    if cursor.accept_all(&["SQL", "SECURITY"]) {
        invoker = Some(cursor.accept("INVOKER"));
        if invoker == Some(false) {
            cursor.expect_word("DEFINER")?;
        }
    }
    if !cursor.peek_any(&["VIEW"]) {
        let what = cursor.word();
        return Err(SqlError::not_supported(format!("CREATE {what}").trim()));
    }
    cursor.word();
    let name = cursor.object_name()?;
    let columns = columns(&mut cursor)?;
    cursor.expect_word("AS")?;
    let (query, check) = query(cursor)?;
    Ok(Ddl::CreateView(Box::new(CreateView {
        name,
        replace,
        alter,
        algorithm,
        definer,
        invoker,
        columns,
        query,
        check,
    })))
}

fn algorithm(cursor: &mut Cursor<'_>) -> Result<ViewAlgorithm> {
    cursor.expect(&Token::Eq)?;
    match cursor.word().as_str() {
        "UNDEFINED" => Ok(ViewAlgorithm::Undefined),
        "MERGE" => Ok(ViewAlgorithm::Merge),
        "TEMPTABLE" => Ok(ViewAlgorithm::TempTable),
        "" => Err(cursor.error()),
        _ => Err(cursor.error_at_last()),
    }
}

fn columns(cursor: &mut Cursor<'_>) -> Result<Vec<String>> {
    let mut columns = Vec::new();
    if cursor.accept_token(&Token::LParen) {
        loop {
            columns.push(cursor.identifier()?);
            if !cursor.accept_token(&Token::Comma) {
                break;
            }
        }
        cursor.expect(&Token::RParen)?;
    }
    Ok(columns)
}

/// The text of the query, and what follows it.
fn query(cursor: Cursor<'_>) -> Result<(String, CheckOption)> {
    let piece = cursor.piece();
    let tokens = &piece.tokens[cursor.position()..];
    let is_word = |token: &TokenWithSpan| !matches!(token.token, Token::Whitespace(_) | Token::EOF);
    let words: Vec<usize> = (0..tokens.len())
        .filter(|at| is_word(&tokens[*at]))
        .collect();
    let word = |from_end: usize| {
        let at = words.len().checked_sub(from_end)?;
        match &tokens[*words.get(at)?].token {
            Token::Word(word) if word.quote_style.is_none() => Some(word.value.to_uppercase()),
            _ => None,
        }
    };
    let ends = |wanted: &[&str]| {
        let count = wanted.len();
        (0..count).all(|at| word(count - at).as_deref() == Some(wanted[at]))
    };
    let (check, count) = if ends(&["WITH", "CHECK", "OPTION"]) {
        (CheckOption::Cascaded, 3)
    } else if ends(&["WITH", "CASCADED", "CHECK", "OPTION"]) {
        (CheckOption::Cascaded, 4)
    } else if ends(&["WITH", "LOCAL", "CHECK", "OPTION"]) {
        (CheckOption::Local, 4)
    } else {
        (CheckOption::None, 0)
    };
    let own = &words[..words.len() - count];
    let (Some(first), Some(last)) = (own.first(), own.last()) else {
        return Err(cursor.error());
    };
    Ok((written(piece, &tokens[*first..=*last])?, check))
}

/// A text without comments but those with hints, and with one space where there is white space. Wherever it is read, it
/// means what it means in the modes of `sql_mode` in which it was written.
///
/// # Errors
/// 1235 for what other modes have no text for.
fn written(piece: Piece<'_>, tokens: &[TokenWithSpan]) -> Result<String> {
    let text = piece.text;
    let source = Source {
        tokens,
        ..Source::of(text)
    };
    let mut out = String::new();
    for (token, place) in tokens.iter().zip(source.places()) {
        match &token.token {
            Token::Whitespace(Whitespace::MultiLineComment(comment))
                if comment.starts_with('+') =>
            {
                out.push_str(&text[place]);
            }
            Token::Whitespace(_) if out.ends_with(' ') => {}
            Token::Whitespace(_) => out.push(' '),
            token => out.push_str(&plain(token, &text[place], piece.grammar)?),
        }
    }
    Ok(out)
}

/// A token as it is written in no mode of `sql_mode`.
///
/// # Errors
/// 1235 if it means something else there.
fn plain<'t>(token: &Token, written: &'t str, grammar: &Grammar) -> Result<Cow<'t, str>> {
    let escapes = grammar.has_backslash_escapes();
    match token {
        Token::Word(_) if written.starts_with('"') => {
            let name = written[1..written.len() - 1].replace("\"\"", "\"");
            Ok(Cow::Owned(quoted(&name)))
        }
        Token::Word(word) if word.quote_style.is_none() => {
            let is = |name: &str| word.value.eq_ignore_ascii_case(name);
            match is("NOT") && grammar.has_tight_not() || is("LIKE") && !escapes {
                true => Err(SqlError::not_supported(format!(
                    "{written} of a view in this sql_mode"
                ))),
                false => Ok(Cow::Borrowed(written)),
            }
        }
        Token::StringConcat if grammar.has_pipes_as_concat() => {
            Err(SqlError::not_supported("|| of a view in this sql_mode"))
        }
        Token::SingleQuotedString(_)
        | Token::DoubleQuotedString(_)
        | Token::NationalStringLiteral(_)
            if !escapes =>
        {
            Ok(Cow::Owned(written.replace('\\', "\\\\")))
        }
        _ => Ok(Cow::Borrowed(written)),
    }
}

/// The text of the statement alone, with its comments that have a version opened.
fn own_text(piece: Piece<'_>) -> String {
    text_from(piece, true)
}

/// As [`own_text`], for a statement that semicolons do not end: with the text behind it.
pub(super) fn whole_text(piece: Piece<'_>) -> String {
    text_from(piece, false)
}

fn text_from(piece: Piece<'_>, one: bool) -> String {
    let start = piece.tokens.first().map(|token| token.span.start);
    let start = start.map_or(0, |start| Source::of(piece.text).offset(start));
    let text = opened(&piece.text[start..], piece.grammar, one);
    piece.lists.written(&text).unwrap_or(text)
}

/// A text, if it is to be `one` statement up to its first semicolon; what stands in comments with a version becomes a
/// part of it.
fn opened(text: &str, grammar: &Grammar, one: bool) -> String {
    let mut out = String::new();
    let mut rest = text;
    let mut depth = 0;
    while let Some(first) = rest.chars().next() {
        let length = match first {
            ';' if one => break,
            '\'' => quoted_length(rest, first, grammar.has_backslash_escapes()),
            '"' => quoted_length(rest, first, grammar.has_plain_strings()),
            '`' => quoted_length(rest, first, false),
            '#' => rest.find('\n').unwrap_or(rest.len()),
            '-' if rest.starts_with("-- ") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*!") => {
                depth += 1;
                let digits = rest[3..].trim_start_matches(|c: char| c.is_ascii_digit());
                rest = digits;
                out.push(' ');
                continue;
            }
            '/' if rest.starts_with("/*") => rest.find("*/").map_or(rest.len(), |at| at + 2),
            '*' if depth > 0 && rest.starts_with("*/") => {
                depth -= 1;
                rest = &rest[2..];
                out.push(' ');
                continue;
            }
            other => other.len_utf8(),
        };
        out.push_str(&rest[..length]);
        rest = &rest[length..];
    }
    out
}

/// The bytes of what stands in quotes at the beginning of a text.
fn quoted_length(text: &str, quote: char, escapes: bool) -> usize {
    let mut chars = text.char_indices().skip(1).peekable();
    while let Some((at, c)) = chars.next() {
        if c == '\\' && escapes {
            chars.next();
        } else if c == quote {
            match chars.peek() {
                Some((_, next)) if *next == quote => {
                    chars.next();
                }
                _ => return at + 1,
            }
        }
    }
    text.len()
}

/// `DROP VIEW`, behind DROP.
pub(super) fn drop(mut cursor: Cursor<'_>) -> Result<Ddl> {
    cursor.expect_word("VIEW")?;
    let if_exists = cursor.accept_all(&["IF", "EXISTS"]);
    let mut names = vec![cursor.object_name()?];
    while cursor.accept_token(&Token::Comma) {
        names.push(cursor.object_name()?);
    }
    if !cursor.accept("RESTRICT") {
        cursor.accept("CASCADE");
    }
    cursor.end()?;
    Ok(Ddl::DropViews { if_exists, names })
}

#[cfg(test)]
mod tests {
    use perigee_sql_bind::Modes;

    use super::*;

    fn created(text: &str, modes: Modes) -> Result<CreateView> {
        let script = Script::in_modes(text, modes).expect("tokens");
        let piece = script.pieces().next().expect("a statement");
        match create(piece)? {
            Ddl::CreateView(view) => Ok(*view),
            other => panic!("{other:?}"),
        }
    }

    fn parsed(text: &str) -> CreateView {
        created(text, Modes::NONE).expect("a view")
    }

    #[test]
    fn a_text_means_the_same_in_no_mode() {
        let modes = Modes::ANSI_QUOTES.with(Modes::NO_BACKSLASH_ESCAPES);
        let view = created(
            r#"CREATE VIEW "v;" ("a") AS SELECT "x""y`", 'it''s \', `z` FROM "t\" -- "
               WHERE a || b"#,
            modes,
        );
        let view = view.expect("a view");
        assert_eq!(view.columns, ["a"]);
        assert_eq!(
            view.query,
            r#"SELECT `x"y```, 'it''s \\', `z` FROM `t\` WHERE a || b"#
        );
        for (query, mode) in [
            ("SELECT a || b", Modes::PIPES_AS_CONCAT),
            ("SELECT NOT a", Modes::HIGH_NOT_PRECEDENCE),
            ("SELECT a LIKE b", Modes::NO_BACKSLASH_ESCAPES),
        ] {
            let text = format!("CREATE VIEW v AS {query}");
            let refused = created(&text, mode).map_err(|error| error.errno);
            assert_eq!(refused.map(|view| view.query), Err(1235), "{query}");
            assert_eq!(parsed(&text).query, query);
        }
    }

    #[test]
    fn queries_are_cut_from_what_stands_around_them() {
        let view = parsed(
            "CREATE VIEW v (a, `b c`) AS  SELECT 1, -- one\n ';' /* two */ FROM t WITH LOCAL CHECK OPTION ; SELECT 1",
        );
        assert_eq!(view.query, "SELECT 1, ';' FROM t");
        assert_eq!(view.columns, ["a", "b c"]);
        assert_eq!(view.check, CheckOption::Local);
        let view =
            parsed("ALTER ALGORITHM=MERGE DEFINER=a@b SQL SECURITY INVOKER VIEW s.v AS (SELECT 2)");
        assert!(view.alter && view.invoker == Some(true) && !view.replace);
        assert_eq!(
            (view.query.as_str(), view.check),
            ("(SELECT 2)", CheckOption::None)
        );
    }

    #[test]
    fn comments_with_versions_are_parts_of_the_statement() {
        let text = "/*!50001 CREATE ALGORITHM=UNDEFINED */\n/*!50013 DEFINER=`root`@`localhost` SQL SECURITY DEFINER */\n/*!50001 VIEW `v` AS select 'a' AS `x;` */;";
        let view = parsed(text);
        assert_eq!(view.query, "select 'a' AS `x;`");
        assert_eq!(view.algorithm, Some(ViewAlgorithm::Undefined));
        assert!(view.definer.is_some() && view.invoker == Some(false));
    }
}
