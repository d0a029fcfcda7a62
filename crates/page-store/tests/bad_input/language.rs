//! The cases as text: a base, what is done to it, the answer.
//!
//! ```text
//! case: a predicate that is a number
//! base: filter
//! predicate:
//!   column 1 int
//! answer: declined: its predicate is no condition
//! ```
//!
//! Said in this order, done in this order: parts of the descriptor (`watermark`, `db`, `index`,
//! `project`, `lower`, `upper`, `column 2`, `key`, `predicate`, `group`, `function`); its bytes
//! (`cut`, `at`, `insert`, `append`, `delete`, at a place by name, a number, or a name and a number:
//! `column.2+1`); the request (`tenant`, `slice`, `lsn`, `pages`). The checksum is corrected in the
//! end, unless it is `unsealed`.
//!
//! Answers:
//! - `declined: text`: the descriptor is not taken, for that reason; every page comes whole;
//! - `pages declined`: the descriptor is fine, the pages are not what it describes;
//! - `refused kind: text`: an error of that kind;
//! - `as plain`: what the frontend makes of the plain pages.

use std::ops::Bound;

use perigee_expr::AggregateFunction;
use perigee_ndp::{Aggregate, Descriptor};
use perigee_types::{DbId, IndexId, TrxId, checksum};
use perigee_value::{Collation, ColumnType, RowLayout};

use super::places::Places;
use super::program;

/// What a case must be answered with.
#[derive(Clone, Debug)]
pub enum Answer {
    Declined(String),
    PagesDeclined,
    Refused { kind: String, text: String },
    AsPlain,
}

/// A line `key: value` and the indented lines below it.
#[derive(Clone, Debug, Default)]
pub struct Line {
    pub key: String,
    pub value: String,
    pub below: Vec<String>,
}

#[derive(Clone, Debug)]
pub struct Case {
    pub file: &'static str,
    pub name: String,
    pub base: String,
    pub lines: Vec<Line>,
    pub answer: Answer,
}

/// Reads the cases of a file; panics if it makes no sense.
pub fn parse(file: &'static str, text: &str) -> Vec<Case> {
    let mut lines: Vec<Line> = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        if let Some(below) = line.strip_prefix("  ") {
            let last = lines.last_mut().expect("a line above");
            last.below.push(below.trim().to_owned());
        } else if !line.trim().is_empty() {
            let (key, value) = line.split_once(':').unwrap_or((line, ""));
            lines.push(Line {
                key: key.trim().to_owned(),
                value: value.trim().to_owned(),
                below: Vec::new(),
            });
        }
    }
    let cases = lines.chunk_by(|_, next| next.key != "case");
    cases.map(|lines| case(file, lines)).collect()
}

fn case(file: &'static str, lines: &[Line]) -> Case {
    let one = |key: &str| {
        let found = lines.iter().find(|line| line.key == key);
        found.map(|line| line.value.clone())
    };
    let name = one("case").unwrap_or_else(|| panic!("{file}: a case without a name: {lines:?}"));
    let told = ["case", "base", "answer"];
    Case {
        file,
        base: one("base").unwrap_or_else(|| panic!("{file}: {name}: no base")),
        answer: answer(&one("answer").unwrap_or_else(|| panic!("{file}: {name}: no answer"))),
        lines: lines
            .iter()
            .filter(|line| !told.contains(&line.key.as_str()))
            .cloned()
            .collect(),
        name,
    }
}

fn answer(text: &str) -> Answer {
    if let Some(text) = text.strip_prefix("declined: ") {
        return Answer::Declined(text.to_owned());
    }
    if let Some(text) = text.strip_prefix("refused ") {
        let (kind, text) = text.split_once(':').expect("refused KIND: TEXT");
        return Answer::Refused {
            kind: kind.to_owned(),
            text: text.trim().to_owned(),
        };
    }
    match text {
        "pages declined" => Answer::PagesDeclined,
        "as plain" => Answer::AsPlain,
        other => panic!("{other} is no answer"),
    }
}

/// Bytes in hexadecimal, `00 ff * 1000` for a thousand times.
pub fn hex(text: &str) -> Vec<u8> {
    let (text, times) = match text.split_once(" * ") {
        Some((text, times)) => (text, times.trim().parse().expect("a number of times")),
        None => (text, 1),
    };
    let byte = |word: &str| u8::from_str_radix(word, 16).expect("bytes in hexadecimal");
    let bytes: Vec<u8> = text.split_whitespace().map(byte).collect();
    bytes.repeat(times)
}

/// The descriptor's parts that a case changes.
pub fn change_descriptor(descriptor: &mut Descriptor, lines: &[Line]) {
    for line in lines {
        let number = || line.value.parse::<u64>().expect("a number");
        match line.key.as_str() {
            "watermark" => descriptor.watermark = TrxId(number()),
            "db" => descriptor.db = DbId(number() as u32),
            "index" => descriptor.index = IndexId(number() as u32),
            "reverse" => descriptor.reverse = true,
            "project" => descriptor.projection = columns(&line.value),
            "lower" => descriptor.range.lower = bound(&line.value),
            "upper" => descriptor.range.upper = bound(&line.value),
            "key" => relayout(descriptor, |_, key| *key = columns(&line.value)),
            "one column more" => relayout(descriptor, |all, _| all.push(column(&line.value))),
            "one column less" => relayout(descriptor, |all, _| all.truncate(all.len() - 1)),
            "secondary" => {
                let parts: Vec<_> = line.value.split(", ").map(column).collect();
                descriptor.layout = RowLayout::secondary(&parts).expect("a layout");
            }
            "predicate" => {
                let program = program::parse(&line.below);
                descriptor.predicate = Some(program);
            }
            "group" => {
                let same = std::iter::repeat_n(program::parse(&line.below), number() as usize);
                aggregate(descriptor).group_by.extend(same);
            }
            "function" => {
                let (name, times) = line.value.split_once(" * ").unwrap_or((&line.value, "1"));
                let argument = (!line.below.is_empty()).then(|| program::parse(&line.below));
                for _ in 0..times.parse::<usize>().expect("a number of times") {
                    let function = (function(name), argument.clone());
                    aggregate(descriptor).functions.push(function);
                }
            }
            "aggregate" => *aggregate(descriptor) = NO_AGGREGATE,
            key => {
                if let Some(number) = key.strip_prefix("column ") {
                    let number: usize = number.parse().expect("a column's number");
                    relayout(descriptor, |all, _| all[number] = column(&line.value));
                }
            }
        }
    }
}

const NO_AGGREGATE: Aggregate = Aggregate {
    group_by: Vec::new(),
    functions: Vec::new(),
};

fn aggregate(descriptor: &mut Descriptor) -> &mut Aggregate {
    descriptor.aggregate.get_or_insert(NO_AGGREGATE)
}

fn function(name: &str) -> AggregateFunction {
    match name {
        "count all" => AggregateFunction::CountAll,
        "count" => AggregateFunction::Count,
        "sum" => AggregateFunction::Sum,
        "min" => AggregateFunction::Min,
        "max" => AggregateFunction::Max,
        other => panic!("{other} is no function"),
    }
}

fn columns(text: &str) -> Vec<u16> {
    let numbers = text.split_whitespace();
    numbers.map(|n| n.parse().expect("a column")).collect()
}

/// `included ff`, `excluded ff`.
fn bound(text: &str) -> Bound<Vec<u8>> {
    match text.split_once(' ').unwrap_or((text, "")) {
        ("included", bytes) => Bound::Included(hex(bytes)),
        ("excluded", bytes) => Bound::Excluded(hex(bytes)),
        _ => panic!("{text} is no bound"),
    }
}

/// Another layout; the constructor would not make one that is not valid.
fn relayout(
    descriptor: &mut Descriptor,
    change: impl FnOnce(&mut Vec<(ColumnType, bool)>, &mut Vec<u16>),
) {
    let layout = &descriptor.layout;
    let columns = layout.columns.iter().map(|c| (c.ty, c.null_bit.is_some()));
    let (mut columns, mut key) = (columns.collect(), layout.key.clone());
    change(&mut columns, &mut key);
    descriptor.layout = RowLayout::clustered(&columns, &key).expect("a layout");
}

/// `int`, `bigint unsigned null`, `decimal(12,2)`, `varchar(40) null`.
fn column(text: &str) -> (ColumnType, bool) {
    let (text, nullable) = match text.strip_suffix(" null") {
        Some(text) => (text, true),
        None => (text, false),
    };
    let (text, unsigned) = match text.strip_suffix(" unsigned") {
        Some(text) => (text, true),
        None => (text, false),
    };
    let (name, parameters) = text.split_once('(').unwrap_or((text, ""));
    let parameters = parameters.trim_end_matches(')').split(',');
    let parameters: Vec<u16> = parameters.filter_map(|p| p.parse().ok()).collect();
    let int = |bytes| ColumnType::Int { bytes, unsigned };
    let collation = Collation::UTF8MB4_BIN;
    let ty = match name {
        "tinyint" => int(1),
        "smallint" => int(2),
        "mediumint" => int(3),
        "int" => int(4),
        "bigint" => int(8),
        "decimal" => ColumnType::Decimal {
            precision: parameters[0] as u8,
            scale: parameters[1] as u8,
        },
        "float" => ColumnType::Float,
        "double" => ColumnType::Double,
        "date" => ColumnType::Date,
        "datetime" => ColumnType::DateTime {
            fsp: parameters.first().copied().unwrap_or(0) as u8,
        },
        "char" => ColumnType::Char {
            chars: parameters[0],
            collation,
        },
        "varchar" => ColumnType::Varchar {
            chars: parameters[0],
            collation,
        },
        "varbinary" => ColumnType::Varchar {
            chars: parameters[0],
            collation: Collation::BINARY,
        },
        "text" => ColumnType::Long {
            prefix: 2,
            collation,
        },
        "json" => ColumnType::Json,
        other => panic!("{other} is no column type"),
    };
    (ty, nullable)
}

/// What a case does to the bytes of a descriptor, or to those of a batch, whose places have no names.
pub fn change_bytes(bytes: &mut Vec<u8>, places: &Places, lines: &[Line]) {
    edit(bytes, places, lines);
    if bytes.len() >= 8 && !lines.iter().any(|line| line.key == "unsealed") {
        let crc = checksum(&bytes[8..]);
        bytes[4..8].copy_from_slice(&crc.to_le_bytes());
    }
}

fn edit(bytes: &mut Vec<u8>, places: &Places, lines: &[Line]) {
    let place = |text: &str| -> usize {
        let (name, more) = text.trim().split_once('+').unwrap_or((text.trim(), "0"));
        let more: usize = more.parse().expect("a distance");
        let at = places.get(name).copied().or_else(|| name.parse().ok());
        more + at.unwrap_or_else(|| panic!("there is no {name} among {:?}", places.keys()))
    };
    for line in lines {
        let (what, at) = line.key.split_once(' ').unwrap_or((&line.key, ""));
        match what {
            "cut" => bytes.truncate(place(&line.value)),
            "at" => {
                let (at, new) = (place(at), hex(&line.value));
                bytes[at..at + new.len()].copy_from_slice(&new);
            }
            "insert" => {
                let at = place(at);
                bytes.splice(at..at, hex(&line.value));
            }
            "append" => bytes.extend(hex(&line.value)),
            "delete" => {
                let (at, len) = (place(at), line.value.parse::<usize>().expect("a length"));
                drop(bytes.drain(at..at + len));
            }
            _ => {}
        }
    }
}
