//! Constraints of a table besides its keys: foreign keys and CHECK.

use std::fmt::Write as _;

use perigee_types::{DecodeError, Reader, Writer};

use super::TableDef;

/// What happens to the rows that refer to a row that is deleted or gets another key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Action {
    /// Nothing, so that the change is refused if there are any. It is the default.
    #[default]
    NoAction,
    /// The change is refused if there are any. Checks are never deferred, so this is the same as
    /// [`Action::NoAction`].
    Restrict,
    /// They are deleted, or get the new key.
    Cascade,
    /// They refer to no row any more.
    SetNull,
}

impl Action {
    /// The action in SQL.
    #[must_use]
    pub const fn sql(self) -> &'static str {
        match self {
            Self::NoAction => "NO ACTION",
            Self::Restrict => "RESTRICT",
            Self::Cascade => "CASCADE",
            Self::SetNull => "SET NULL",
        }
    }

    const fn number(self) -> u8 {
        self as u8
    }

    fn of(number: u8) -> Result<Self, DecodeError> {
        Ok(match number {
            0 => Self::NoAction,
            1 => Self::Restrict,
            2 => Self::Cascade,
            3 => Self::SetNull,
            _ => return Err(DecodeError::new("definition: action of a foreign key")),
        })
    }
}

/// A foreign key: each row of the table refers to a row of the referenced table, unless one of the
/// key's columns is NULL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignKey {
    /// Name, unique in the schema.
    pub name: String,
    /// Columns of the table.
    pub columns: Vec<u16>,
    /// Schema of the referenced table.
    pub schema: String,
    /// Name of the referenced table, which may not exist.
    pub table: String,
    /// Names of the referenced columns, one for each of `columns`.
    pub referenced: Vec<String>,
    /// What happens if the referenced row is deleted.
    pub on_delete: Action,
    /// What happens if the referenced row gets another key.
    pub on_update: Action,
}

/// A CHECK constraint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// Name, unique in the schema.
    pub name: String,
    /// The condition, in SQL with quoted column names.
    pub condition: String,
    /// False for NOT ENFORCED: the condition is kept but not evaluated.
    pub enforced: bool,
}

impl ForeignKey {
    /// True if it refers to the table with this name.
    #[must_use]
    pub fn refers_to(&self, schema: &str, table: &str) -> bool {
        self.schema == schema && self.table == table
    }

    /// The constraint as SHOW CREATE TABLE and errors write it; `def` is the table that it belongs to.
    #[must_use]
    pub fn sql(&self, def: &TableDef) -> String {
        let own = self.columns.iter();
        let own = own.map(|column| def.columns[usize::from(*column)].name.as_str());
        let mut text = format!(
            "CONSTRAINT {} FOREIGN KEY ({}) REFERENCES ",
            quoted(&self.name),
            list(own)
        );
        if self.schema != def.schema {
            let _ = write!(text, "{}.", quoted(&self.schema));
        }
        let referenced = list(self.referenced.iter().map(String::as_str));
        let _ = write!(text, "{} ({referenced})", quoted(&self.table));
        for (event, action) in [("DELETE", self.on_delete), ("UPDATE", self.on_update)] {
            if action != Action::NoAction {
                let _ = write!(text, " ON {event} {}", action.sql());
            }
        }
        text
    }

    fn encode(&self, w: &mut Writer) {
        w.str(&self.name).str(&self.schema).str(&self.table);
        w.u8(self.on_delete.number()).u8(self.on_update.number());
        w.u16(self.columns.len() as u16);
        for (column, referenced) in self.columns.iter().zip(&self.referenced) {
            w.u16(*column).str(referenced);
        }
    }

    fn decode(r: &mut Reader<'_>, count: u16) -> Result<Self, DecodeError> {
        let (name, schema, table) = (r.str()?.into(), r.str()?.into(), r.str()?.into());
        let (on_delete, on_update) = (Action::of(r.u8()?)?, Action::of(r.u8()?)?);
        let (mut columns, mut referenced) = (Vec::new(), Vec::new());
        for _ in 0..r.u16()? {
            columns.push(r.u16()?);
            referenced.push(r.str()?.into());
        }
        if columns.is_empty() || columns.iter().any(|column| *column >= count) {
            return Err(DecodeError::new("catalog: column of a foreign key"));
        }
        Ok(Self {
            name,
            columns,
            schema,
            table,
            referenced,
            on_delete,
            on_update,
        })
    }
}

/// Appends the wire form of a table's constraints.
pub(super) fn encode(def: &TableDef, w: &mut Writer) {
    w.u16(def.foreign_keys.len() as u16);
    def.foreign_keys.iter().for_each(|key| key.encode(w));
    w.u16(def.checks.len() as u16);
    for check in &def.checks {
        w.str(&check.name).str(&check.condition);
        w.u8(u8::from(check.enforced));
    }
}

/// Reads what [`encode`] wrote of a table with so many columns.
pub(super) fn decode(
    r: &mut Reader<'_>,
    count: u16,
) -> Result<(Vec<ForeignKey>, Vec<Check>), DecodeError> {
    let (mut keys, mut checks) = (Vec::new(), Vec::new());
    for _ in 0..r.u16()? {
        keys.push(ForeignKey::decode(r, count)?);
    }
    for _ in 0..r.u16()? {
        checks.push(Check {
            name: r.str()?.into(),
            condition: r.str()?.into(),
            enforced: r.u8()? != 0,
        });
    }
    Ok((keys, checks))
}

/// Names with commas between them.
fn list<'n>(names: impl Iterator<Item = &'n str>) -> String {
    names.map(quoted).collect::<Vec<_>>().join(", ")
}

/// A name in backquotes.
fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}
