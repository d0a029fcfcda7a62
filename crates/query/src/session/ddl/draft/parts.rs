//! Parts of the keys of a [`Draft`]. One that is no column of the table, the beginning of a column or an expression,
//! becomes a hidden column behind all others, which is generated.

use perigee_engine::Source;
use perigee_engine::catalog::{ColumnDef, Descending, Generated, Hidden, IndexDef, TableDef};
use perigee_expr::scalar::Scalar;
use perigee_sql_bind::Binder;
use perigee_sql_type::TEXT_CHARS;
use perigee_value::{Collation, ColumnType, Zone};
use sqlparser::ast::Expr;

use super::expression::{Part as Piece, judged, text_of};
use super::{Computed, Draft};
use crate::access::NUMBER_SEPARATOR;
use crate::error::{Result, SqlError};
use crate::session::ddl::keys::{NewPart, PartOf};
use crate::session::row_expr::{self, RowOf};

/// A part of a key under construction.
pub(super) struct Part {
    pub of: Of,
    /// DESC.
    pub descending: bool,
}

/// What a part is made of.
pub(super) enum Of {
    /// A column by its name, or as many of its first characters.
    Named { name: String, length: Option<u64> },
    /// A column that the table has by its place in it, or as many of its first characters.
    Old { place: u16, length: Option<u16> },
    /// An expression.
    Expression(Box<Computed>),
}

/// What a part is made of once all columns are known.
enum Resolved {
    /// A column.
    Column(u16),
    /// A hidden column.
    Hidden(HiddenPart),
}

#[derive(Clone, PartialEq)]
struct HiddenPart {
    kind: Hidden,
    ty: ColumnType,
    nullable: bool,
    expression: String,
}

impl Part {
    /// A part that a statement defines.
    pub(super) fn new(part: NewPart) -> Self {
        let of = match part.of {
            PartOf::Column { name, length } => Of::Named { name, length },
            PartOf::Expression(expr) => Of::Expression(Box::new(Computed {
                expr: *expr,
                stored: false,
            })),
        };
        Self {
            of,
            descending: part.descending,
        }
    }

    /// The parts of a key that the table has.
    pub(super) fn of_key(
        def: &TableDef,
        columns: &[u16],
        descending: Descending,
    ) -> Result<Vec<Self>> {
        let part = |(number, place): (usize, &u16)| {
            let column = &def.columns[usize::from(*place)];
            let of = match (column.hidden, &column.generated) {
                (Some(Hidden::Prefix { of, length }), _) => Of::Old {
                    place: of,
                    length: Some(length),
                },
                (Some(Hidden::Expression), Some(generated)) => {
                    Of::Expression(Box::new(Computed::of(generated)?))
                }
                _ => Of::Old {
                    place: *place,
                    length: None,
                },
            };
            Ok(Self {
                of,
                descending: descending.has(number),
            })
        };
        columns.iter().enumerate().map(part).collect()
    }

    /// True for a column of the table as it was, or for a prefix of that.
    pub(super) fn is_of(&self, column: u16) -> bool {
        matches!(self.of, Of::Old { place, .. } if place == column)
    }
}

impl Draft {
    /// The columns that a key begins with, up to the first part that is none.
    ///
    /// # Errors
    /// 1072.
    pub(super) fn leading_columns(&self, parts: &[Part]) -> Result<Vec<u16>> {
        let mut columns = Vec::new();
        for part in parts {
            let column = match &part.of {
                Of::Expression(_) => None,
                of => self.column_part(of)?.filter(|(_, length)| length.is_none()),
            };
            match column {
                Some((place, _)) => columns.push(place as u16),
                None => break,
            }
        }
        Ok(columns)
    }

    /// The places of the primary key's columns.
    ///
    /// # Errors
    /// 1072; 1235 for a prefix; 3756 for an expression.
    pub(super) fn primary_key(&self, parts: &[Part]) -> Result<Vec<u16>> {
        if parts
            .iter()
            .any(|part| matches!(part.of, Of::Expression(_)))
        {
            return Err(SqlError::functional_primary_key());
        }
        let mut columns = Vec::new();
        for part in parts {
            match self.column_part(&part.of)? {
                Some((place, None)) => columns.push(place as u16),
                Some(_) => return Err(SqlError::not_supported("a primary key of a prefix")),
                None => {}
            }
        }
        Ok(columns)
    }

    /// The place of the column that a part is made of, and how many of its characters if not all; `None` for an old
    /// part whose column went.
    fn column_part(&self, of: &Of) -> Result<Option<(usize, Option<u16>)>> {
        match of {
            Of::Named { name, length } => {
                let place = self.place(name);
                let place = place.ok_or_else(|| SqlError::unknown_key_column(name))?;
                let length = match length {
                    Some(length) => prefix(&self.columns[place].def, *length)?,
                    None => None,
                };
                Ok(Some((place, length)))
            }
            Of::Old { place, length } => {
                let is_it = |column: &super::Column| column.old == Some(*place);
                let Some(place) = self.columns.iter().position(is_it) else {
                    return Ok(None);
                };
                // Of a column that became too short the key has all.
                let length = length.and_then(|length| {
                    prefix(&self.columns[place].def, length.into()).unwrap_or(None)
                });
                Ok(Some((place, length)))
            }
            Of::Expression(_) => Ok(None),
        }
    }

    /// Gives a definition, which has all its columns, its secondary indexes and their hidden columns; returns where the
    /// values of these come from. Indexes without a name get one after their first column, as in MySQL.
    ///
    /// # Errors
    /// 1072, 1089, 1391, and those of expressions.
    pub(super) fn define_indexes(&self, def: &mut TableDef) -> Result<Vec<Source>> {
        let given = |name: &str| self.key(name).is_some();
        let mut hidden: Vec<HiddenPart> = Vec::new();
        let mut indexes: Vec<IndexDef> = Vec::new();
        for key in &self.keys {
            let taken = |name: &str| {
                given(name) || indexes.iter().any(|i| i.name.eq_ignore_ascii_case(name))
            };
            let name = match &key.name {
                Some(name) => name.clone(),
                None => free_name(&self.base_name(&key.parts)?, taken),
            };
            let (mut columns, mut parts) = (Vec::new(), Vec::new());
            for part in &key.parts {
                let column = match self.resolved(def, &name, &part.of)? {
                    None => continue,
                    Some(Resolved::Column(column)) => column,
                    Some(Resolved::Hidden(part)) => {
                        let place = hidden.iter().position(|other| *other == part);
                        let place = place.unwrap_or_else(|| {
                            hidden.push(part);
                            hidden.len() - 1
                        });
                        (def.columns.len() + place) as u16
                    }
                };
                columns.push(column);
                parts.push(part.descending);
            }
            indexes.push(IndexDef {
                name,
                columns,
                unique: key.unique,
                invisible: key.invisible,
                descending: parts.into_iter().collect(),
            });
        }
        def.indexes = indexes;
        let sources = hidden.iter().map(|part| self.source(part)).collect();
        let columns = hidden.into_iter().enumerate();
        def.columns.extend(columns.map(|(number, part)| ColumnDef {
            nullable: part.nullable,
            hidden: Some(part.kind),
            generated: Some(Generated {
                expression: part.expression,
                stored: false,
            }),
            // No statement can name it.
            ..ColumnDef::new(format!("{NUMBER_SEPARATOR}key {number}"), part.ty)
        }));
        Ok(sources)
    }

    /// What an index without a name is called after.
    fn base_name(&self, parts: &[Part]) -> Result<String> {
        match parts.first() {
            Some(Part {
                of: Of::Expression(_),
                ..
            })
            | None => Ok("functional_index".to_owned()),
            Some(part) => {
                let column = self.column_part(&part.of)?;
                let name = column.map(|(place, _)| self.columns[place].def.name.clone());
                Ok(name.unwrap_or_default())
            }
        }
    }

    fn resolved(&self, def: &TableDef, key: &str, of: &Of) -> Result<Option<Resolved>> {
        if let Of::Expression(computed) = of {
            return self.expression_part(def, key, computed).map(Some);
        }
        Ok(match self.column_part(of)? {
            None => None,
            Some((place, None)) => Some(Resolved::Column(place as u16)),
            Some((place, Some(length))) => {
                let column = &def.columns[place];
                let name = column.name.replace('`', "``");
                Some(Resolved::Hidden(HiddenPart {
                    kind: Hidden::Prefix {
                        of: place as u16,
                        length,
                    },
                    ty: ColumnType::Varchar {
                        chars: length,
                        collation: column.ty.collation().unwrap_or(Collation::BINARY),
                    },
                    nullable: column.nullable,
                    expression: format!("left(`{name}`,{length})"),
                }))
            }
        })
    }

    /// The hidden column of an expression.
    ///
    /// # Errors
    /// 3753 to 3758 and 3762 for what an expression may not be or say; 3837 for a column of an old one that went; 1054.
    fn expression_part(&self, def: &TableDef, key: &str, computed: &Computed) -> Result<Resolved> {
        if matches!(computed.expr, Expr::Identifier(_)) {
            return Err(SqlError::functional_index_column());
        }
        judged(&computed.expr, |part| match part {
            Piece::Column(column) => self.check_key_source(def, key, column),
            _ => Err(SqlError::functional_index_function(key)),
        })?;
        let expression = text_of(def, &computed.expr);
        let scalar =
            Binder::new(&RowOf(def, Zone::Utc)).expression(&row_expr::parsed(&expression)?)?;
        Ok(Resolved::Hidden(HiddenPart {
            kind: Hidden::Expression,
            ty: key_type(def, &scalar)?,
            nullable: true,
            expression,
        }))
    }

    /// Checks a column that the expression of a key names.
    fn check_key_source(&self, def: &TableDef, key: &str, column: &str) -> Result<()> {
        let before = self.before.as_ref();
        match def.column(column) {
            Some(place) if def.is_auto_increment(place) => {
                Err(SqlError::functional_index_auto_increment(key))
            }
            Some(_) => Ok(()),
            None if before.is_some_and(|def| def.column(column).is_some()) => {
                Err(SqlError::functional_index_dependency(column))
            }
            None => Err(SqlError::unknown_column(column, "functional index")),
        }
    }

    /// Where the values of a hidden column come from: from the one that the table has, if it is the same.
    fn source(&self, part: &HiddenPart) -> Source {
        let same = |(place, column): (usize, &ColumnDef)| {
            let is_it = column.ty == part.ty
                && column.nullable == part.nullable
                && match (column.hidden, part.kind) {
                    (
                        Some(Hidden::Prefix { of, length }),
                        Hidden::Prefix {
                            of: column,
                            length: chars,
                        },
                    ) => length == chars && self.is_kept(of, column),
                    (Some(Hidden::Expression), Hidden::Expression) => {
                        let expression = column.generated.as_ref().map(|g| &g.expression);
                        expression == Some(&part.expression)
                    }
                    _ => false,
                };
            is_it.then_some(Source::Column(place as u16))
        };
        let before = self.before.iter();
        let mut columns = before.flat_map(|def| def.columns.iter().enumerate());
        columns
            .find_map(same)
            .unwrap_or(Source::Value(perigee_value::Datum::Null))
    }

    /// True if a column of the table as it was is this one, with the same values.
    fn is_kept(&self, old: u16, place: u16) -> bool {
        let column = &self.columns[usize::from(place)];
        let before = self.before.as_ref();
        column.source == Source::Column(old)
            && before.is_some_and(|def| def.columns[usize::from(old)].ty == column.def.ty)
    }
}

/// The first of `base`, `base_2` and so on that is not taken.
fn free_name(base: &str, taken: impl Fn(&str) -> bool) -> String {
    let mut numbered = (2..).map(|n| format!("{base}_{n}"));
    match taken(base) {
        false => base.to_owned(),
        true => numbered.find(|name| !taken(name)).unwrap_or_default(),
    }
}

/// Most characters of an expression of which only that is known.
const MOST_CHARS: usize = 512;

/// The type of the hidden column of an expression.
///
/// # Errors
/// 3753, 3757; 3762 for NULL.
fn key_type(def: &TableDef, scalar: &Scalar) -> Result<ColumnType> {
    let places = scalar.places();
    let columns = || places.iter().map(|place| &def.columns[*place]);
    match scalar.ty.column {
        None => Err(SqlError::functional_index_column()),
        Some(ColumnType::Json) => Err(SqlError::functional_index_json()),
        Some(ColumnType::Long { .. }) => Err(SqlError::functional_index_long()),
        Some(ColumnType::Varchar { chars, collation }) if chars >= TEXT_CHARS => {
            if columns().any(|column| column.ty.is_long()) {
                return Err(SqlError::functional_index_long());
            }
            // Functions say nothing of the length of their texts.
            let own = |column: &ColumnDef| match column.ty {
                ColumnType::Char { chars, .. } | ColumnType::Varchar { chars, .. } => chars.into(),
                _ => 0,
            };
            let chars = columns().map(own).sum::<usize>() * 2 + 64;
            Ok(ColumnType::Varchar {
                chars: chars.min(MOST_CHARS) as u16,
                collation,
            })
        }
        Some(ty) => Ok(ty),
    }
}

/// The characters of a prefix of a column, `None` if that is all of it.
///
/// # Errors
/// 1089, 1391, 1071.
fn prefix(column: &ColumnDef, length: u64) -> Result<Option<u16>> {
    if length == 0 {
        return Err(SqlError::empty_key_part(&column.name));
    }
    let most = match column.ty {
        ColumnType::Json => return Err(SqlError::json_key(&column.name)),
        _ if column.members.is_some() => None,
        ColumnType::Char { chars, .. } | ColumnType::Varchar { chars, .. } => Some(chars.into()),
        ColumnType::Long { prefix, .. } => Some(u64::MAX >> (64 - 8 * u32::from(prefix))),
        _ => None,
    };
    match most {
        Some(most) if column.ty.is_long() => match u16::try_from(length.min(most)) {
            Ok(length) => Ok(Some(length)),
            Err(_) => Err(SqlError::key_too_long(perigee_value::MAX_KEY_LEN)),
        },
        Some(most) if length == most => Ok(None),
        Some(most) if length < most => Ok(Some(length as u16)),
        _ => Err(SqlError::wrong_prefix_key()),
    }
}
