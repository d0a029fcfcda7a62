//! COLUMNS.

use std::sync::Arc;

use perigee_engine::catalog::{ColumnDef, TableDef};
use perigee_value::{ColumnType, Datum};

use super::SCHEMA;
use crate::definition::{Definition, catalog, count, count_of, long, null, of, of_some, text};
use crate::describe::{self, PRIVILEGES};
use crate::{Facts, View};

/// COLUMNS.
pub(super) static COLUMNS: Definition<Place> = Definition {
    schema: SCHEMA,
    name: "COLUMNS",
    columns: &[
        text("TABLE_CATALOG", 64, catalog),
        text("TABLE_SCHEMA", 64, |place| of(&place.def.schema)),
        text("TABLE_NAME", 64, |place| of(&place.def.name)),
        text("COLUMN_NAME", 64, |place| of(&place.column().name)),
        count("ORDINAL_POSITION", |place| {
            Datum::UInt(place.number as u64 + 1)
        }),
        long("COLUMN_DEFAULT", |place| {
            of_some(describe::default_text(place.column()))
        }),
        text("IS_NULLABLE", 3, |place| {
            of(if place.column().nullable { "YES" } else { "NO" })
        }),
        long("DATA_TYPE", |place| of(place.data_type())),
        count("CHARACTER_MAXIMUM_LENGTH", |place| count_of(place.chars())),
        count("CHARACTER_OCTET_LENGTH", |place| count_of(place.bytes())),
        count("NUMERIC_PRECISION", |place| count_of(place.precision())),
        count("NUMERIC_SCALE", |place| count_of(place.scale())),
        count("DATETIME_PRECISION", |place| {
            count_of(place.column().ty.fsp().map(u64::from))
        }),
        text("CHARACTER_SET_NAME", 64, |place| {
            let collation = describe::collation(place.column());
            of_some(collation.map(|own| own.charset().name()))
        }),
        text("COLLATION_NAME", 64, |place| of_some(place.collation())),
        long("COLUMN_TYPE", |place| of(place.column().type_text())),
        text("COLUMN_KEY", 3, |place| {
            of(describe::key(&place.def, place.number as u16))
        }),
        text("EXTRA", 256, |place| {
            of(describe::extra(&place.def, place.number))
        }),
        text("PRIVILEGES", 154, |place| of(&place.privileges)),
        text("COLUMN_COMMENT", 1024, |place| of(&place.column().comment)),
        long("GENERATION_EXPRESSION", |place| {
            let generated = place.column().generated.as_ref();
            of(generated.map_or("", |generated| &generated.expression))
        }),
        count("SRS_ID", null),
    ],
    rows: columns,
};

/// A column of a table.
pub(super) struct Place {
    def: Arc<TableDef>,
    number: usize,
    privileges: String,
}

impl Place {
    pub(super) fn new(def: Arc<TableDef>, number: usize) -> Self {
        Self {
            def,
            number,
            privileges: PRIVILEGES.to_owned(),
        }
    }

    pub(super) fn number(&self) -> usize {
        self.number
    }

    pub(super) fn column(&self) -> &ColumnDef {
        &self.def.columns[self.number]
    }

    /// The type's first word.
    pub(super) fn data_type(&self) -> String {
        let ty = self.column().type_text();
        let end = ty.find(|c: char| !c.is_ascii_alphabetic());
        ty[..end.unwrap_or(ty.len())].to_owned()
    }

    /// Greatest length in characters, of texts and bytes.
    pub(super) fn chars(&self) -> Option<u64> {
        let column = self.column();
        if let Some(members) = &column.members {
            return Some(members.max_chars().into());
        }
        match column.ty {
            ColumnType::Char { chars, .. } | ColumnType::Varchar { chars, .. } => {
                Some(chars.into())
            }
            ColumnType::Long { prefix, .. } => Some(u64::MAX >> (64 - 8 * u32::from(prefix))),
            _ => None,
        }
    }

    /// Greatest length in bytes.
    pub(super) fn bytes(&self) -> Option<u64> {
        let is_counted_in_bytes = matches!(self.column().ty, ColumnType::Long { .. });
        let width = match self.column().collation() {
            Some(collation) if collation.is_text() && !is_counted_in_bytes => {
                collation.charset().max_len().into()
            }
            _ => 1,
        };
        self.chars().map(|chars| chars * width)
    }

    pub(super) fn precision(&self) -> Option<u64> {
        if self.column().members.is_some() {
            return None;
        }
        Some(match self.column().ty {
            ColumnType::Int { bytes, unsigned } => match (bytes, unsigned) {
                (1, _) => 3,
                (2, _) => 5,
                (3, _) => 7,
                (4, _) => 10,
                (_, false) => 19,
                (_, true) => 20,
            },
            ColumnType::Bit { bits } => bits.into(),
            ColumnType::Decimal { precision, .. } => precision.into(),
            ColumnType::Float => 12,
            ColumnType::Double => 22,
            _ => return None,
        })
    }

    pub(super) fn scale(&self) -> Option<u64> {
        match self.column().ty {
            ColumnType::Decimal { scale, .. } => Some(scale.into()),
            ColumnType::Int { .. } if self.column().members.is_none() => Some(0),
            _ => None,
        }
    }

    pub(super) fn collation(&self) -> Option<&'static str> {
        describe::collation(self.column()).map(|collation| collation.name())
    }
}

fn columns(facts: &Facts) -> Vec<Place> {
    let views = facts.own_views().map(View::definition);
    let base = facts.tables.iter().map(|facts| facts.table.def.clone());
    let stored = facts
        .views
        .iter()
        .filter_map(|view| view.columns.clone().ok());
    let places = views.chain(base).chain(stored).flat_map(|def| {
        let def = Arc::new(def);
        (0..def.own_columns().len()).filter_map(move |number| {
            Some(Place {
                privileges: facts.privileges(&def, number)?,
                def: def.clone(),
                number,
            })
        })
    });
    places.collect()
}
