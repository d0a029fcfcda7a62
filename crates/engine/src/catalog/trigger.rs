//! [`TriggerDef`]: a trigger as CREATE TRIGGER gives it. It is a part of its table's definition, so that it goes with the
//! table and is renamed with it. The engine does not know what its text says.

use perigee_types::{DecodeError, Reader, Writer};
use perigee_value::Collation;

use super::routine::decode_collation;

/// When a trigger fires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timing {
    /// Before each row is written.
    Before,
    /// After it.
    After,
}

impl Timing {
    /// Its word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Before => "BEFORE",
            Self::After => "AFTER",
        }
    }
}

/// What a trigger fires for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RowEvent {
    /// A row is inserted.
    Insert,
    /// A row is updated.
    Update,
    /// A row is deleted.
    Delete,
}

impl RowEvent {
    /// Its word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Insert => "INSERT",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
        }
    }
}

/// A trigger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TriggerDef {
    /// Name, unique in the schema of its table.
    pub name: String,
    /// When it fires.
    pub timing: Timing,
    /// What it fires for.
    pub event: RowEvent,
    /// The text of what it does.
    pub body: String,
    /// User and host of DEFINER.
    pub definer: (String, String),
    /// `sql_mode` when it was made, in which it is read and runs.
    pub sql_mode: String,
    /// The collation of the connection when it was made.
    pub connection: Collation,
    /// That of the schema.
    pub database: Collation,
    /// When it was made, in microseconds since 1970 in UTC.
    pub created: i64,
}

impl TriggerDef {
    /// Appends the wire form.
    pub(super) fn encode(&self, w: &mut Writer) {
        w.str(&self.name);
        w.u8(match self.timing {
            Timing::Before => 0,
            Timing::After => 1,
        });
        w.u8(match self.event {
            RowEvent::Insert => 0,
            RowEvent::Update => 1,
            RowEvent::Delete => 2,
        });
        w.str(&self.body).str(&self.definer.0).str(&self.definer.1);
        w.str(&self.sql_mode);
        w.u16(self.connection.0).u16(self.database.0);
        w.u64(self.created as u64);
    }

    /// Reads what [`TriggerDef::encode`] wrote.
    pub(super) fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            name: r.str()?.into(),
            timing: match r.u8()? {
                0 => Timing::Before,
                1 => Timing::After,
                _ => return Err(DecodeError::new("trigger: timing")),
            },
            event: match r.u8()? {
                0 => RowEvent::Insert,
                1 => RowEvent::Update,
                2 => RowEvent::Delete,
                _ => return Err(DecodeError::new("trigger: event")),
            },
            body: r.str()?.into(),
            definer: (r.str()?.into(), r.str()?.into()),
            sql_mode: r.str()?.into(),
            connection: decode_collation(r)?,
            database: decode_collation(r)?,
            created: r.u64()? as i64,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::{ColumnDef, TableDef};
    use super::*;

    fn trigger(name: &str, timing: Timing, event: RowEvent) -> Arc<TriggerDef> {
        Arc::new(TriggerDef {
            name: name.into(),
            timing,
            event,
            body: "SET @ä = 1".into(),
            definer: ("root".into(), "%".into()),
            sql_mode: "ANSI_QUOTES".into(),
            connection: Collation::UTF8MB4_BIN,
            database: Collation::UTF8MB4_BIN,
            created: -1,
        })
    }

    #[test]
    fn triggers_are_read_back_with_their_table_and_damage_is_an_error() {
        let ty = perigee_value::ColumnType::Date;
        let plain = TableDef {
            name: "t".into(),
            columns: vec![ColumnDef::new("a", ty)],
            ..TableDef::default()
        };
        let with = TableDef {
            triggers: vec![
                trigger("b", Timing::After, RowEvent::Delete),
                trigger("a", Timing::Before, RowEvent::Insert),
                trigger("c", Timing::Before, RowEvent::Update),
            ],
            ..plain.clone()
        };
        for def in [&plain, &with] {
            let mut w = Writer::new();
            def.encode(&mut w);
            let bytes = w.into_bytes();
            let read = |bytes: &[u8]| TableDef::decode(&mut Reader::new(bytes, "a table"));
            assert_eq!(read(&bytes).as_ref(), Ok(def));
            for cut in 0..bytes.len() {
                assert!(read(&bytes[..cut]).is_err());
            }
        }
    }
}
