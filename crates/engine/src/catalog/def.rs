//! What a user defines: tables, their columns and indexes; and the wire form kept in the catalog.

use std::sync::Arc;

use super::constraint::{self, Check, ForeignKey};
use super::key::{Descending, Hidden, IndexDef, check_hidden, decode_columns, encode_columns};
use super::temporary::{is_temporary_schema, shown_schema};
use super::trigger::TriggerDef;
use perigee_types::{DecodeError, Reader, Writer};
use perigee_value::{
    Collation, ColumnType, Datum, Members, MembersKind, Now, ValueError, ValueRef, Zone, bits,
    format_value,
};

/// A column as CREATE TABLE gives it.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnDef {
    /// Name, in the user's spelling; compared without case.
    pub name: String,
    /// Type; of an ENUM or a SET that of the numbers that rows store.
    pub ty: ColumnType,
    /// What the numbers of an ENUM or a SET stand for. Storage knows the numbers only.
    pub members: Option<Arc<Members>>,
    /// False for NOT NULL.
    pub nullable: bool,
    /// DEFAULT, if one is given. A nullable column without one defaults to NULL.
    pub default: Option<ColumnDefault>,
    /// ON UPDATE CURRENT_TIMESTAMP: a row that changes gets the time at which the statement began.
    pub on_update_now: bool,
    /// GENERATED ALWAYS: the column's values are computed from the others of the row.
    pub generated: Option<Generated>,
    /// A part of a key that is no column of the user's. Such columns are generated, are the last ones of their
    /// table, and no statement can name them.
    pub hidden: Option<Hidden>,
    /// INVISIBLE: only statements that name the column know it.
    pub invisible: bool,
    /// COMMENT.
    pub comment: String,
}

/// How the values of a generated column are computed. Rows contain them in any case, so that storage can evaluate
/// conditions on them and indexes have entries of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generated {
    /// The expression, in SQL with quoted column names.
    pub expression: String,
    /// STORED, not VIRTUAL.
    pub stored: bool,
}

/// What a column gets if a statement does not say it.
#[derive(Clone, Debug, PartialEq)]
pub enum ColumnDefault {
    /// A value of the column.
    Value(Datum),
    /// CURRENT_TIMESTAMP: the time at which the statement began.
    Now,
}

impl ColumnDef {
    /// A nullable column without anything else.
    #[must_use]
    pub fn new(name: impl Into<String>, ty: ColumnType) -> Self {
        Self {
            name: name.into(),
            ty,
            members: None,
            nullable: true,
            default: None,
            on_update_now: false,
            generated: None,
            hidden: None,
            invisible: false,
            comment: String::new(),
        }
    }

    /// What the column gets if a statement, which began at `now`, does not say it. An ENUM that cannot be NULL has its
    /// first value without a DEFAULT, too.
    #[must_use]
    pub fn default_at(&self, now: Now) -> Option<Datum> {
        match self.default.as_ref() {
            Some(ColumnDefault::Value(value)) => Some(value.clone()),
            Some(ColumnDefault::Now) => Some(self.time(now)),
            None if !self.nullable => match self.members.as_ref()?.kind() {
                MembersKind::Enum => Some(Datum::UInt(1)),
                MembersKind::Set => None,
            },
            None => None,
        }
    }

    /// The value that a text stands for in a time zone.
    ///
    /// # Errors
    /// If it stands for none.
    pub fn parse(&self, text: &[u8], zone: Zone) -> Result<Datum, ValueError> {
        match &self.members {
            Some(members) => members.parse(text),
            None => self.ty.parse_in(text, zone),
        }
    }

    /// A value of another type as a value of the column, in a time zone.
    ///
    /// # Errors
    /// If it does not fit.
    pub fn coerce(&self, value: Datum, from: ColumnType, zone: Zone) -> Result<Datum, ValueError> {
        match &self.members {
            Some(members) if from.is_timestamp() => members.coerce(value.local_in(zone), from),
            Some(members) => members.coerce(value, from),
            None => self.ty.coerce_in(value, from, zone),
        }
    }

    /// True for a SET.
    #[must_use]
    pub fn is_set(&self) -> bool {
        let members = self.members.as_ref();
        members.is_some_and(|members| members.kind() == MembersKind::Set)
    }

    /// Appends a value as it is shown; NULL appends nothing.
    pub fn format(&self, value: ValueRef<'_>, out: &mut String) {
        match (&self.members, self.ty, value) {
            (Some(members), _, ValueRef::UInt(number)) => {
                out.push_str(&members.text(number).unwrap_or_default());
            }
            (None, ColumnType::Bit { bits }, ValueRef::UInt(value)) => {
                bits::format(bits, value, out);
            }
            _ => format_value(self.ty, value, out),
        }
    }

    /// The type as SHOW CREATE TABLE writes it, without collation.
    #[must_use]
    pub fn type_text(&self) -> String {
        match &self.members {
            Some(members) => members.to_string(),
            None => self.ty.to_string(),
        }
    }

    /// Order and equality of what is shown, if that are texts or bytes.
    #[must_use]
    pub fn collation(&self) -> Option<Collation> {
        match &self.members {
            Some(members) => Some(members.collation()),
            None => self.ty.collation(),
        }
    }

    /// A point in time as CURRENT_TIMESTAMP with this column's digits gives it.
    #[must_use]
    pub fn time(&self, now: Now) -> Datum {
        let digits = self.ty.fsp().unwrap_or(6);
        let now = match self.ty.is_timestamp() {
            true => now.utc,
            false => now.local(),
        };
        Datum::DateTime(now - now.rem_euclid(10_i64.pow(u32::from(6 - digits))))
    }
}

/// AUTO_INCREMENT: the column that numbers rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AutoIncrement {
    /// The column, the first one of some key.
    pub column: u16,
    /// The least number to hand out, as the table option says it.
    pub start: u64,
}

/// A table as CREATE TABLE gives it.
#[derive(Clone, Debug, PartialEq)]
pub struct TableDef {
    /// The schema (in MySQL's words: database) it lies in; a temporary table lies in one of its session.
    pub schema: String,
    /// Name.
    pub name: String,
    /// Columns in table order.
    pub columns: Vec<ColumnDef>,
    /// Primary key columns in key order; empty if the table has none, then rows are ordered by a
    /// hidden row id.
    pub primary_key: Vec<u16>,
    /// Which of these are defined with DESC.
    pub descending_primary_key: Descending,
    /// Secondary indexes.
    pub indexes: Vec<IndexDef>,
    /// The column that numbers rows, if there is one.
    pub auto_increment: Option<AutoIncrement>,
    /// COMMENT.
    pub comment: String,
    /// The collation of columns of texts that say none.
    pub collation: Collation,
    /// Foreign keys, in the order of their names.
    pub foreign_keys: Vec<ForeignKey>,
    /// CHECK constraints, in the order of their definition.
    pub checks: Vec<Check>,
    /// Triggers; those of one time and event fire in this order.
    pub triggers: Vec<Arc<TriggerDef>>,
}

impl Default for TableDef {
    fn default() -> Self {
        Self {
            schema: String::new(),
            name: String::new(),
            columns: Vec::new(),
            primary_key: Vec::new(),
            descending_primary_key: Descending::default(),
            indexes: Vec::new(),
            auto_increment: None,
            comment: String::new(),
            collation: Collation::UTF8MB4_BIN,
            foreign_keys: Vec::new(),
            checks: Vec::new(),
            triggers: Vec::new(),
        }
    }
}

/// Of the byte that says what follows: an AUTO_INCREMENT.
const HAS_AUTO_INCREMENT: u8 = 1;
/// Of the same: the collation, which older definitions do not have.
const HAS_COLLATION: u8 = 2;
/// Of the same: foreign keys and CHECK constraints.
const HAS_CONSTRAINTS: u8 = 4;
/// Of the same: a primary key with DESC.
const HAS_DESCENDING: u8 = 8;
/// Of the same: triggers.
const HAS_TRIGGERS: u8 = 16;
/// All of them.
const ALL_FLAGS: u8 = 31;

/// Of the byte about a column: what is hidden follows.
const IS_HIDDEN: u8 = 16;
/// Of the same: the members of an ENUM or a SET follow instead of a type.
const HAS_MEMBERS: u8 = 4;
/// Of the same: INVISIBLE.
const IS_INVISIBLE: u8 = 32;
/// Of the same: the members are a SET's.
const IS_SET: u8 = 64;
/// All of them.
const ALL_COLUMN_FLAGS: u8 = 127;

impl TableDef {
    /// True for a temporary table.
    #[must_use]
    pub fn is_temporary(&self) -> bool {
        is_temporary_schema(&self.schema)
    }

    /// The name by which statements call its schema.
    #[must_use]
    pub fn shown_schema(&self) -> &str {
        shown_schema(&self.schema)
    }

    /// The columns that statements can name: all but the hidden ones, which come last.
    #[must_use]
    pub fn own_columns(&self) -> &[ColumnDef] {
        let hidden = self.columns.iter().rev();
        let hidden = hidden.take_while(|column| column.hidden.is_some()).count();
        &self.columns[..self.columns.len() - hidden]
    }

    /// Index of the column with this name, compared without case.
    #[must_use]
    pub fn column(&self, name: &str) -> Option<usize> {
        self.own_columns()
            .iter()
            .position(|c| c.name.eq_ignore_ascii_case(name))
    }

    /// True if columns are computed from others.
    #[must_use]
    pub fn has_generated(&self) -> bool {
        self.columns.iter().any(|column| column.generated.is_some())
    }

    /// True if this is the column that numbers rows.
    #[must_use]
    pub fn is_auto_increment(&self, column: usize) -> bool {
        self.auto_increment
            .is_some_and(|auto| usize::from(auto.column) == column)
    }

    /// Appends the wire form.
    pub fn encode(&self, w: &mut Writer) {
        w.str(&self.schema).str(&self.name).str(&self.comment);
        w.u16(self.columns.len() as u16);
        for column in &self.columns {
            let flags = u8::from(column.nullable)
                | u8::from(column.on_update_now) << 1
                | u8::from(column.members.is_some()) << 2
                | u8::from(column.generated.is_some()) << 3
                | u8::from(column.hidden.is_some()) << 4
                | u8::from(column.invisible) << 5
                | u8::from(column.is_set()) << 6;
            w.str(&column.name).str(&column.comment).u8(flags);
            match &column.members {
                Some(members) => members.encode(w),
                None => column.ty.encode(w),
            }
            match &column.default {
                None => {
                    w.u8(0);
                }
                Some(ColumnDefault::Value(value)) => {
                    w.u8(1);
                    value.encode(w);
                }
                Some(ColumnDefault::Now) => {
                    w.u8(2);
                }
            }
            if let Some(generated) = &column.generated {
                w.str(&generated.expression).u8(u8::from(generated.stored));
            }
            if let Some(hidden) = column.hidden {
                hidden.encode(w);
            }
        }
        encode_columns(&self.primary_key, w);
        w.u16(self.indexes.len() as u16);
        for index in &self.indexes {
            index.encode(w);
        }
        let is_constrained = !self.foreign_keys.is_empty() || !self.checks.is_empty();
        let mut flags = HAS_COLLATION;
        if self.auto_increment.is_some() {
            flags |= HAS_AUTO_INCREMENT;
        }
        if is_constrained {
            flags |= HAS_CONSTRAINTS;
        }
        let is_descending = self.descending_primary_key != Descending::default();
        if is_descending {
            flags |= HAS_DESCENDING;
        }
        if !self.triggers.is_empty() {
            flags |= HAS_TRIGGERS;
        }
        w.u8(flags);
        if let Some(auto) = &self.auto_increment {
            w.u16(auto.column).u64(auto.start);
        }
        w.u16(self.collation.0);
        if is_constrained {
            constraint::encode(self, w);
        }
        if is_descending {
            self.descending_primary_key.encode(w);
        }
        if !self.triggers.is_empty() {
            w.u32(self.triggers.len() as u32);
            self.triggers.iter().for_each(|trigger| trigger.encode(w));
        }
    }

    /// Reads what [`TableDef::encode`] wrote, checking that columns exist.
    pub fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let (schema, name, comment) = (r.str()?.into(), r.str()?.into(), r.str()?.into());
        let count = r.u16()?;
        let mut columns = Vec::new();
        for _ in 0..count {
            columns.push(decode_column(r)?);
        }
        check_hidden(&columns)?;
        let primary_key = decode_columns(r, count)?;
        let mut indexes = Vec::new();
        for _ in 0..r.u16()? {
            indexes.push(IndexDef::decode(r, count)?);
        }
        let flags = r.u8()?;
        if flags > ALL_FLAGS {
            return Err(DecodeError::new("catalog: flags of a table"));
        }
        let auto_increment = match flags & HAS_AUTO_INCREMENT {
            0 => None,
            _ => Some(decode_auto_increment(r, count)?),
        };
        let collation = match flags & HAS_COLLATION {
            0 => shared_collation(&columns),
            _ => decode_collation(r)?,
        };
        let (foreign_keys, checks) = match flags & HAS_CONSTRAINTS {
            0 => Default::default(),
            _ => constraint::decode(r, count)?,
        };
        let descending_primary_key = match flags & HAS_DESCENDING {
            0 => Descending::default(),
            _ => Descending::decode(r)?,
        };
        let triggers = match flags & HAS_TRIGGERS {
            0 => 0,
            _ => r.u32()?,
        };
        let triggers = (0..triggers).map(|_| TriggerDef::decode(r).map(Arc::new));
        let triggers = triggers.collect::<Result<_, _>>()?;
        Ok(Self {
            schema,
            name,
            columns,
            primary_key,
            descending_primary_key,
            indexes,
            auto_increment,
            comment,
            collation,
            foreign_keys,
            checks,
            triggers,
        })
    }
}

/// The collation that all columns of texts share, else `utf8mb4_bin`: that of a table that says none.
fn shared_collation(columns: &[ColumnDef]) -> Collation {
    let collations = columns.iter().filter_map(ColumnDef::collation);
    let mut collations = collations.filter(|collation| collation.is_text());
    match collations.next() {
        Some(first) if collations.all(|other| other == first) => first,
        _ => Collation::UTF8MB4_BIN,
    }
}

/// Reads the collation of a table or schema.
pub(crate) fn decode_collation(r: &mut Reader<'_>) -> Result<Collation, DecodeError> {
    match Collation(r.u16()?) {
        collation if collation.is_text() => Ok(collation),
        _ => Err(DecodeError::new("catalog: collation")),
    }
}

fn decode_auto_increment(r: &mut Reader<'_>, count: u16) -> Result<AutoIncrement, DecodeError> {
    let auto = AutoIncrement {
        column: r.u16()?,
        start: r.u64()?,
    };
    if auto.column >= count {
        return Err(DecodeError::new("catalog: AUTO_INCREMENT column"));
    }
    Ok(auto)
}

fn decode_column(r: &mut Reader<'_>) -> Result<ColumnDef, DecodeError> {
    let (name, comment, flags) = (r.str()?.into(), r.str()?.into(), r.u8()?);
    let kind = match flags & IS_SET {
        0 => MembersKind::Enum,
        _ => MembersKind::Set,
    };
    let has_members = flags & HAS_MEMBERS != 0;
    if flags > ALL_COLUMN_FLAGS || (kind == MembersKind::Set && !has_members) {
        return Err(DecodeError::new("definition: flags of a column"));
    }
    let members = match has_members {
        false => None,
        true => Some(Arc::new(Members::decode(kind, r)?)),
    };
    Ok(ColumnDef {
        name,
        comment,
        nullable: flags & 1 != 0,
        on_update_now: flags & 2 != 0,
        ty: match &members {
            Some(members) => members.ty(),
            None => ColumnType::decode(r)?,
        },
        members,
        default: match r.u8()? {
            0 => None,
            1 => Some(ColumnDefault::Value(Datum::decode(r)?)),
            2 => Some(ColumnDefault::Now),
            _ => return Err(DecodeError::new("definition: default of a column")),
        },
        generated: match flags & 8 {
            0 => None,
            _ => Some(Generated {
                expression: r.str()?.into(),
                stored: r.u8()? != 0,
            }),
        },
        hidden: match flags & IS_HIDDEN {
            0 => None,
            _ => Some(Hidden::decode(r)?),
        },
        invisible: flags & IS_INVISIBLE != 0,
    })
}
