//! [`RoutineDef`]: a stored procedure as CREATE PROCEDURE gives it, and the wire form kept in the catalog. The engine
//! does not know what its text says.

use perigee_types::{DecodeError, Reader, Writer};
use perigee_value::Collation;

/// Version of the wire form.
const VERSION: u8 = 1;

/// What a routine says that it does with rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SqlAccess {
    /// CONTAINS SQL.
    #[default]
    Contains,
    /// NO SQL.
    None,
    /// READS SQL DATA.
    Reads,
    /// MODIFIES SQL DATA.
    Modifies,
}

/// A stored procedure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoutineDef {
    /// The schema it lies in.
    pub schema: String,
    /// Name.
    pub name: String,
    /// The text between the parentheses of its parameters.
    pub parameters: String,
    /// The text of what it does.
    pub body: String,
    /// COMMENT.
    pub comment: String,
    /// DETERMINISTIC.
    pub deterministic: bool,
    /// CONTAINS SQL and so on.
    pub access: SqlAccess,
    /// SQL SECURITY INVOKER: it runs with the rights of whoever calls it.
    pub invoker: bool,
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
    /// When it was altered.
    pub altered: i64,
}

impl RoutineDef {
    /// The wire form.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut w = Writer::new();
        w.u8(VERSION).str(&self.schema).str(&self.name);
        w.str(&self.parameters).str(&self.body).str(&self.comment);
        w.u8(u8::from(self.deterministic));
        w.u8(match self.access {
            SqlAccess::Contains => 0,
            SqlAccess::None => 1,
            SqlAccess::Reads => 2,
            SqlAccess::Modifies => 3,
        });
        w.u8(u8::from(self.invoker));
        w.str(&self.definer.0).str(&self.definer.1);
        w.str(&self.sql_mode);
        w.u16(self.connection.0).u16(self.database.0);
        w.u64(self.created as u64).u64(self.altered as u64);
        w.into_bytes()
    }

    /// Reads what [`RoutineDef::encode`] wrote.
    ///
    /// # Errors
    /// If the bytes are none of a routine.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let r = &mut Reader::new(bytes, "routine");
        if r.u8()? != VERSION {
            return Err(DecodeError::new("routine: version"));
        }
        let routine = Self {
            schema: r.str()?.into(),
            name: r.str()?.into(),
            parameters: r.str()?.into(),
            body: r.str()?.into(),
            comment: r.str()?.into(),
            deterministic: flag(r)?,
            access: match r.u8()? {
                0 => SqlAccess::Contains,
                1 => SqlAccess::None,
                2 => SqlAccess::Reads,
                3 => SqlAccess::Modifies,
                _ => return Err(DecodeError::new("routine: access")),
            },
            invoker: flag(r)?,
            definer: (r.str()?.into(), r.str()?.into()),
            sql_mode: r.str()?.into(),
            connection: decode_collation(r)?,
            database: decode_collation(r)?,
            created: r.u64()? as i64,
            altered: r.u64()? as i64,
        };
        match r.remaining() {
            0 => Ok(routine),
            _ => Err(DecodeError::new("routine: bytes behind it")),
        }
    }
}

fn flag(r: &mut Reader<'_>) -> Result<bool, DecodeError> {
    match r.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(DecodeError::new("routine: flag")),
    }
}

/// Reads the collation of a program.
pub(super) fn decode_collation(r: &mut Reader<'_>) -> Result<Collation, DecodeError> {
    let collation = Collation(r.u16()?);
    match Collation::all().any(|known| known == collation) {
        true => Ok(collation),
        false => Err(DecodeError::new("routine: collation")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routines_are_read_back_and_damage_is_an_error() {
        let routine = RoutineDef {
            schema: "s".into(),
            name: "p".into(),
            parameters: "in a int".into(),
            body: "begin end".into(),
            comment: "ä".into(),
            deterministic: true,
            access: SqlAccess::Modifies,
            invoker: true,
            definer: ("root".into(), "%".into()),
            sql_mode: "ANSI_QUOTES".into(),
            connection: Collation::UTF8MB4_BIN,
            database: Collation::UTF8MB4_BIN,
            created: -1,
            altered: 7,
        };
        let bytes = routine.encode();
        assert_eq!(RoutineDef::decode(&bytes), Ok(routine));
        for cut in 0..bytes.len() {
            assert!(RoutineDef::decode(&bytes[..cut]).is_err());
        }
        let mut long = bytes.clone();
        long.push(0);
        assert!(RoutineDef::decode(&long).is_err());
        let mut newer = bytes;
        newer[0] = 2;
        assert!(RoutineDef::decode(&newer).is_err());
    }
}
