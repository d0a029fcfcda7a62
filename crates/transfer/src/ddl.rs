//! Definitions of a source as Perigee takes them: what it does not know is left out and named.
//!
//! SHOW CREATE TABLE has one form on all servers, so that its clauses are told apart by their first words. What a clause means
//! the target decides; this only takes words away, gives columns the collation that the source's catalog names, and sets
//! foreign keys aside until the rows are there.

mod scan;

use crate::catalog::{Program, Table};
use crate::kind::collation;
use crate::names::{ident, qualified};
use scan::{Token, clauses, tokens, unwrapped};

/// A table's definition for the target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Definition {
    /// CREATE TABLE IF NOT EXISTS.
    pub create: String,
    /// The same without CHECK constraints, and what these are, if there are any: a server need not know their functions.
    pub unchecked: Option<(String, Vec<String>)>,
    /// Foreign keys: the name of each with ALTER TABLE … ADD.
    pub foreign_keys: Vec<(String, String)>,
    /// What was left out or is another thing here.
    pub notes: Vec<String>,
}

/// Types that stand for those that there are not.
const TYPES: [(&str, &str); 3] = [
    ("uuid", "char(36)"),
    ("inet6", "varchar(39)"),
    ("inet4", "varchar(15)"),
];

/// Words about how a column or a key is stored, with how many values follow.
const STORAGE: [(&str, usize); 8] = [
    ("USING", 1),
    ("KEY_BLOCK_SIZE", 1),
    ("COLUMN_FORMAT", 1),
    ("STORAGE", 1),
    ("COMPRESSED", 0),
    ("CLUSTERING", 1),
    ("ENGINE_ATTRIBUTE", 1),
    ("SECONDARY_ENGINE_ATTRIBUTE", 1),
];

/// The definition of `table` in `schema` of the target.
pub(crate) fn definition(table: &Table, schema: &str) -> Definition {
    let text = unwrapped(&table.create);
    let (inner, tail) = clauses(&text);
    let mut notes = Vec::new();
    let (mut kept, mut unchecked, mut checks) = (Vec::new(), Vec::new(), Vec::new());
    let mut foreign_keys = Vec::new();
    for clause in &inner {
        let all = tokens(clause);
        let words: Vec<String> = all
            .iter()
            .map(|token| token.text.to_ascii_uppercase())
            .collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let name = all.get(1).map_or("", |token| token.text.as_str());
        match words.as_slice() {
            [first, ..] if first.starts_with('`') => {
                let (with, without) = column(table, &all, &mut notes);
                checks.extend((with != without).then(|| format!("of column {}", all[0].text)));
                kept.push(with);
                unchecked.push(without);
            }
            ["CONSTRAINT", _, "FOREIGN", ..] => {
                let add = format!(
                    "ALTER TABLE {} ADD {clause}",
                    qualified(schema, &table.name)
                );
                foreign_keys.push((name.trim_matches('`').replace("``", "`"), add));
            }
            ["CONSTRAINT", _, "CHECK", ..] => {
                checks.push(name.to_owned());
                kept.push(clause.trim().to_owned());
            }
            ["FULLTEXT" | "SPATIAL" | "VECTOR", ..] => {
                let key = all.get(2).map_or("", |token| token.text.as_str());
                notes.push(format!("the {} key {key} is left out", words[0]));
            }
            ["PERIOD", ..] => notes.push(format!("{} is left out", clause.trim())),
            _ => {
                let key = joined(&without_storage(&all, &mut Vec::new()));
                kept.push(key.clone());
                unchecked.push(key);
            }
        }
    }
    let options = options(table, &tail, &mut notes);
    let name = qualified(schema, &table.name);
    let create = |clauses: &[String]| {
        format!(
            "CREATE TABLE IF NOT EXISTS {name} (\n  {}\n){options}",
            clauses.join(",\n  ")
        )
    };
    Definition {
        create: create(&kept),
        unchecked: (!checks.is_empty()).then(|| (create(&unchecked), checks)),
        foreign_keys,
        notes,
    }
}

/// A column with its CHECK constraint and without it.
fn column(table: &Table, all: &[Token], notes: &mut Vec<String>) -> (String, String) {
    let name = all[0].text.as_str();
    let mut note = |text: String| notes.push(format!("column {name}: {text}"));
    let mut left = Vec::new();
    let all = without_storage(all, &mut left);
    left.into_iter()
        .for_each(|word| note(format!("{word} is left out")));
    let ty = all
        .get(1)
        .map_or(String::new(), |token| token.text.to_ascii_lowercase());
    let mut out = vec![all[0].clone()];
    let mut rest = all.get(2..).unwrap_or_default();
    let group = rest.first().filter(|token| token.text.starts_with('('));
    match TYPES.iter().find(|(there, _)| *there == ty) {
        Some((_, here)) => {
            note(format!("{ty} becomes {here}"));
            out.push(Token::word(here));
        }
        None if ty == "binary" => {
            let width = group.map_or("(1)", |token| token.text.as_str());
            note(format!("binary{width} becomes varbinary{width}"));
            out.push(Token::word(&format!("varbinary{width}")));
        }
        None if matches!(ty.as_str(), "float" | "double") && group.is_some() => {
            note(format!("{ty} has no number of digits"));
            out.push(Token::word(&ty));
        }
        None => {
            out.extend(all.get(1).cloned());
            out.extend(group.cloned());
        }
    }
    rest = &rest[usize::from(group.is_some())..];
    let is_int = ty.ends_with("int");
    while let [token, more @ ..] = rest {
        match token.text.to_ascii_uppercase().as_str() {
            "ZEROFILL" => note("ZEROFILL is left out".to_owned()),
            "UNSIGNED" if !is_int => note("UNSIGNED is left out".to_owned()),
            "UNSIGNED" => out.push(token.clone()),
            _ => break,
        }
        rest = more;
    }
    let own = name.trim_matches('`').replace("``", "`");
    let column = table.columns.iter().find(|column| column.name == own);
    // A definition from a file comes without a catalog, and from Perigee.
    let is_known = column.is_some() || !table.columns.is_empty();
    if let Some(there) = column.and_then(|column| column.collation.as_deref()) {
        let (here, differs) = collation(there);
        if differs {
            note(format!("collation {there} becomes {here}"));
        }
        out.push(Token::word(&format!("COLLATE {here}")));
    }
    let (mut with, mut without) = (out.clone(), out);
    while let [token, more @ ..] = rest {
        let words: Vec<_> = rest
            .iter()
            .take(2)
            .map(|token| token.text.to_ascii_uppercase())
            .collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        // The catalog's collation says both.
        let skipped = match words.as_slice() {
            ["CHARACTER", "SET"] if is_known => 3,
            ["COLLATE", ..] if is_known => 2,
            ["CHECK", ..] => {
                with.extend_from_slice(&rest[..2.min(rest.len())]);
                2
            }
            _ => {
                with.push(token.clone());
                without.push(token.clone());
                rest = more;
                continue;
            }
        };
        rest = rest.get(skipped..).unwrap_or_default();
    }
    (joined(&with), joined(&without))
}

/// The tokens of a clause without those about storage; these are named in `left`.
fn without_storage(all: &[Token], left: &mut Vec<String>) -> Vec<Token> {
    let mut out = Vec::new();
    let mut at = 0;
    while let Some(token) = all.get(at) {
        let word = token.text.to_ascii_uppercase();
        let found = STORAGE.iter().find(|(name, _)| *name == word);
        // An index that MariaDB ignores is one that the optimizer does not see.
        match found {
            Some((_, values)) if at > 0 => {
                left.push(word);
                at += 1;
                at += usize::from(all.get(at).is_some_and(|token| token.text == "="));
                at += values;
            }
            _ if at > 0 && word == "IGNORED" => {
                out.push(Token::word("INVISIBLE"));
                at += 1;
            }
            _ => {
                out.push(token.clone());
                at += 1;
            }
        }
    }
    out
}

/// The options of a table that the target knows.
fn options(table: &Table, tail: &str, notes: &mut Vec<String>) -> String {
    let all = tokens(tail);
    let mut out = String::new();
    let mut rest = all.as_slice();
    while let [token, more @ ..] = rest {
        let word = token.text.to_ascii_uppercase();
        let value = match more {
            [equals, value, ..] if equals.text == "=" => Some(value.text.as_str()),
            _ => None,
        };
        match (word.as_str(), value) {
            ("AUTO_INCREMENT" | "COMMENT", Some(value)) => {
                out.push_str(&format!(" {word}={value}"));
            }
            ("CHARSET" | "COLLATE", Some(value)) if table.collation.is_none() => {
                out.push_str(&format!(" {word}={value}"));
            }
            // The catalog's collation says both.
            ("CHARSET" | "COLLATE", Some(_)) | ("DEFAULT" | ",", None) => {}
            ("ENGINE", Some(engine)) if !table.transactional => {
                notes.push(format!("the engine {engine} is left out"));
            }
            ("ENGINE", Some(_)) => {}
            ("PARTITION", None) => {
                notes.push("PARTITION BY is left out".to_owned());
                break;
            }
            ("WITH", None) => {
                notes.push("SYSTEM VERSIONING is left out, and so are rows of the past".to_owned());
                break;
            }
            (word, Some(value)) => notes.push(format!("{word}={value} is left out")),
            (word, None) => notes.push(format!("{word} is left out")),
        }
        rest = match value {
            Some(_) => &more[2..],
            None => more,
        };
    }
    if let Some(there) = &table.collation {
        let (here, differs) = collation(there);
        if differs {
            notes.push(format!("collation {there} becomes {here}"));
        }
        out.push_str(&format!(" COLLATE={here}"));
    }
    out
}

fn joined(all: &[Token]) -> String {
    let mut out = String::new();
    for token in all {
        if token.spaced && !out.is_empty() {
            out.push(' ');
        }
        out.push_str(&token.text);
    }
    out
}

/// A view or a procedure without the account that made it: the one that imports it is its definer here.
pub(crate) fn program(program: &Program) -> String {
    let text = &program.create;
    let Some(start) = find_word(text, "DEFINER") else {
        return text.clone();
    };
    let bytes = text.as_bytes();
    let mut at = start + "DEFINER".len();
    // `=`, the name, `@`, the host: up to a space outside of quotes.
    let skip_spaces = |mut at: usize| {
        while bytes.get(at) == Some(&b' ') {
            at += 1;
        }
        at
    };
    at = skip_spaces(at);
    at = skip_spaces(at + 1);
    let mut quote = None;
    while let Some(byte) = bytes.get(at) {
        match (quote, *byte) {
            (None, b' ') => break,
            (None, b'`' | b'\'' | b'"') => quote = Some(*byte),
            (Some(open), byte) if open == byte => quote = None,
            _ => {}
        }
        at += 1;
    }
    format!("{}{}", &text[..start], text[at..].trim_start())
}

/// Where a word stands in the head of a definition, before any text in quotes.
fn find_word(text: &str, word: &str) -> Option<usize> {
    let head = text.find(['`', '\'']).unwrap_or(text.len());
    text[..head].find(word)
}

/// CREATE DATABASE with the collation that stands for the source's.
pub(crate) fn schema(name: &str, there: &str) -> String {
    let (here, _) = collation(there);
    format!(
        "CREATE DATABASE IF NOT EXISTS {} COLLATE {here}",
        ident(name)
    )
}

#[cfg(test)]
mod tests;
