//! Paths into a JSON value, such as `$.a[last]."b c"` and `$**.name`.
//!
//! A cell of what is no array is that value itself if it is the first or the last one: `$[0]` of 5 is
//! 5, as in MySQL.

use super::Json;

/// A parsed path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    legs: Vec<Leg>,
}

/// A step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leg {
    /// `.name`
    Member(String),
    /// `.*`
    Members,
    /// `[n]`
    Cell(Index),
    /// `[m to n]`
    Range(Index, Index),
    /// `[*]`
    Cells,
    /// `**`: the value and all within it.
    Within,
}

/// A cell of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Index {
    /// `n`, from 0.
    First(usize),
    /// `last-n`.
    Last(usize),
}

impl Index {
    /// The cell's number in an array of `len`; an error says whether it lies before (false) or behind
    /// (true) all of them.
    pub(super) fn place(self, len: usize) -> Result<usize, bool> {
        match self {
            Self::First(n) if n < len => Ok(n),
            Self::First(_) => Err(true),
            Self::Last(n) => len.checked_sub(n + 1).ok_or(false),
        }
    }
}

impl Path {
    /// The path of a text.
    ///
    /// # Errors
    /// About which character it is wrong, from 0.
    pub fn parse(text: &str) -> Result<Self, usize> {
        let mut parser = Parser { text, at: 0 };
        match parser.path() {
            Some(legs) => Ok(Self { legs }),
            None => Err(text[..parser.at].chars().count()),
        }
    }

    /// Its steps.
    #[must_use]
    pub fn legs(&self) -> &[Leg] {
        &self.legs
    }

    /// True if it leads to one value at most: it has no wildcards and ranges.
    #[must_use]
    pub fn is_single(&self) -> bool {
        let single = |leg: &Leg| matches!(leg, Leg::Member(_) | Leg::Cell(_));
        self.legs.iter().all(single)
    }

    /// The values that it leads to, in the order of the document.
    #[must_use]
    pub fn select<'j>(&self, root: &'j Json) -> Vec<&'j Json> {
        let mut found = Vec::new();
        select(&self.legs, root, &mut found);
        if self.legs.contains(&Leg::Within) {
            // `$**[0]` comes to a scalar in two ways.
            let mut known = std::collections::HashSet::new();
            found.retain(|value| known.insert(std::ptr::from_ref(*value)));
        }
        found
    }
}

fn select<'j>(legs: &[Leg], value: &'j Json, found: &mut Vec<&'j Json>) {
    let Some((leg, rest)) = legs.split_first() else {
        found.push(value);
        return;
    };
    match (leg, value) {
        (Leg::Member(name), Json::Object(members)) => {
            if let Some(member) = members.get(name) {
                select(rest, member, found);
            }
        }
        (Leg::Members, Json::Object(members)) => {
            members
                .iter()
                .for_each(|(_, member)| select(rest, member, found));
        }
        (Leg::Cell(index), value) => {
            let cells = cells_of(value);
            if let Ok(place) = index.place(cells.len()) {
                select(rest, &cells[place], found);
            }
        }
        (Leg::Range(from, to), value) => {
            let cells = cells_of(value);
            let from = from
                .place(cells.len())
                .unwrap_or_else(|behind| if behind { cells.len() } else { 0 });
            let to = match to.place(cells.len()) {
                Ok(place) => place + 1,
                Err(true) => cells.len(),
                Err(false) => 0,
            };
            for cell in cells.get(from..to).unwrap_or_default() {
                select(rest, cell, found);
            }
        }
        (Leg::Cells, Json::Array(elements)) => {
            elements.iter().for_each(|cell| select(rest, cell, found));
        }
        (Leg::Within, value) => {
            select(rest, value, found);
            match value {
                Json::Array(elements) => elements.iter().for_each(|v| select(legs, v, found)),
                Json::Object(members) => members.iter().for_each(|(_, v)| select(legs, v, found)),
                _ => {}
            }
        }
        _ => {}
    }
}

/// The elements of an array; anything else is its own only cell.
fn cells_of(value: &Json) -> &[Json] {
    match value {
        Json::Array(elements) => elements,
        other => std::slice::from_ref(other),
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl Parser<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn skip_space(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_ascii_start().len();
    }

    /// Goes past a word and white space behind it, if it comes next.
    fn take(&mut self, word: &str) -> bool {
        let found = self.rest().starts_with(word);
        if found {
            self.at += word.len();
            self.skip_space();
        }
        found
    }

    /// `None` if the path is wrong at the place that was reached.
    fn path(&mut self) -> Option<Vec<Leg>> {
        self.skip_space();
        if !self.take("$") {
            self.at += self.rest().chars().next().map_or(0, char::len_utf8);
            return None;
        }
        let mut legs = Vec::new();
        while !self.rest().is_empty() {
            let leg = if self.take("**") {
                Leg::Within
            } else if self.take(".") {
                self.member()?
            } else if self.take("[") {
                self.cells()?
            } else {
                return None;
            };
            // `***` is no path.
            if leg == Leg::Within && (self.rest().is_empty() || self.rest().starts_with('*')) {
                return None;
            }
            legs.push(leg);
        }
        Some(legs)
    }

    fn member(&mut self) -> Option<Leg> {
        if self.take("*") {
            return Some(Leg::Members);
        }
        let rest = self.rest();
        if rest.starts_with('"') {
            let end = quoted_end(rest)?;
            let Ok(Json::String(name)) = Json::parse(&rest[..end]) else {
                return None;
            };
            self.at += end;
            self.skip_space();
            return Some(Leg::Member(name));
        }
        let part = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
        let end = rest.find(|c| !part(c)).unwrap_or(rest.len());
        let name = rest[..end].to_owned();
        if name.is_empty() || name.starts_with(|c: char| c.is_numeric()) {
            return None;
        }
        self.at += end;
        self.skip_space();
        Some(Leg::Member(name))
    }

    /// What stands behind `[`.
    fn cells(&mut self) -> Option<Leg> {
        let leg = if self.take("*") {
            Leg::Cells
        } else {
            let from = self.index()?;
            if self.take("to") {
                let to = self.index()?;
                let ascending = match (from, to) {
                    (Index::First(from), Index::First(to)) => from <= to,
                    (Index::Last(from), Index::Last(to)) => from >= to,
                    _ => true,
                };
                if !ascending {
                    return None;
                }
                Leg::Range(from, to)
            } else {
                Leg::Cell(from)
            }
        };
        self.take("]").then_some(leg)
    }

    fn index(&mut self) -> Option<Index> {
        if !self.take("last") {
            return self.number().map(Index::First);
        }
        match self.take("-") {
            true => self.number().map(Index::Last),
            false => Some(Index::Last(0)),
        }
    }

    /// A number of 32 bits, as MySQL has it.
    fn number(&mut self) -> Option<usize> {
        let rest = self.rest();
        let end = rest
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(rest.len());
        let number = rest[..end].parse::<u32>().ok()?;
        self.at += end;
        self.skip_space();
        Some(number as usize)
    }
}

/// Where the string at the start of a text ends.
fn quoted_end(text: &str) -> Option<usize> {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return Some(at + 1),
            _ => {}
        }
    }
    None
}

impl std::fmt::Display for Path {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("$")?;
        for leg in &self.legs {
            match leg {
                Leg::Member(name) => write!(f, ".{}", Json::String(name.clone()))?,
                Leg::Members => f.write_str(".*")?,
                Leg::Cell(index) => write!(f, "[{index}]")?,
                Leg::Range(from, to) => write!(f, "[{from} to {to}]")?,
                Leg::Cells => f.write_str("[*]")?,
                Leg::Within => f.write_str("**")?,
            }
        }
        Ok(())
    }
}

impl std::fmt::Display for Index {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::First(n) => write!(f, "{n}"),
            Self::Last(0) => f.write_str("last"),
            Self::Last(n) => write!(f, "last-{n}"),
        }
    }
}
