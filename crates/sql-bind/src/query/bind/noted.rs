//! What names of a statement's text mean, noted while they are bound: from this the text of a view is made, which goes
//! on meaning the same when other columns come to its tables.

use std::sync::Arc;

use sqlparser::ast::Ident;
use sqlparser::tokenizer::{Location, Span};

use super::scope::{Named, Scope};
use super::statement::Statement;

/// A part of the text, and what is to stand there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Noted {
    /// Where.
    pub place: Place,
    /// The text.
    pub text: String,
}

/// A part of the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// From the first to the last character of a name.
    Name(Location, Location),
    /// An item of a select list.
    Item {
        /// Where its SELECT stands.
        select: Location,
        /// Its number, from 0.
        number: usize,
        /// False if the text comes behind the item.
        instead: bool,
    },
}

/// A name in backticks.
#[must_use]
pub fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

impl Statement<'_> {
    /// Notes a part of the text, unless it is that of a view.
    pub fn note(&self, place: impl FnOnce() -> Option<(Place, String)>) {
        if !self.notes.get() || !self.views.borrow().is_empty() {
            return;
        }
        if let Some((place, text)) = place() {
            let mut noted = self.noted.borrow_mut();
            noted.retain(|known| known.place != place);
            noted.push(Noted { place, text });
        }
    }

    /// Notes a name of a table.
    pub fn note_table(&self, name: &[&Ident], schema: &str, table: &str) {
        let text = || format!("{}.{}", quoted(schema), quoted(table));
        self.note(|| Some((place(name.iter().copied())?, text())));
    }

    /// Notes a name of a column.
    pub fn note_column(&self, name: &[Ident], scope: &Scope, named: &Named) {
        self.note(|| Some((place(name.iter())?, column(scope, named)?)));
    }
}

/// A column with the name of its table; none if it is of no table.
pub(super) fn column(scope: &Scope, named: &Named) -> Option<String> {
    let is_it = |one: &Named| one.place == named.place && one.name == named.name;
    let mut sources = scope.sources.iter();
    let source = sources.find(|source| source.columns.iter().any(is_it))?;
    if source.alias.is_empty() {
        return None;
    }
    let mut text = format!("{}.{}", quoted(&source.alias), quoted(&named.column.name));
    let known = scope.source(None, &source.alias);
    if let (Some(schema), false) = (
        &source.schema,
        known.is_some_and(|known| std::ptr::eq(known, source)),
    ) {
        text = format!("{}.{text}", quoted(schema));
    }
    Some(text)
}

/// Where a name stands; none if the syntax tree does not tell.
fn place<'n>(name: impl Iterator<Item = &'n Ident>) -> Option<Place> {
    let mut place: Option<(Location, Location)> = None;
    for ident in name {
        let Span { start, end } = ident.span;
        if start.line == 0 {
            return None;
        }
        place = Some((place.map_or(start, |(first, _)| first), end));
    }
    place.map(|(start, end)| Place::Name(start, end))
}

/// A name that columns of results are given.
pub(super) fn item(
    select: Location,
    number: usize,
    text: (bool, impl FnOnce() -> String),
) -> impl FnOnce() -> Option<(Place, String)> {
    let (instead, text) = text;
    move || {
        let place = Place::Item {
            select,
            number,
            instead,
        };
        Some((place, text()))
    }
}

/// The name of a column of a select list that the text does not give.
pub(super) fn alias(name: &Arc<str>) -> String {
    format!(" AS {}", quoted(name))
}
