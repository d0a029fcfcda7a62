//! [`ViewDef`]: a view as CREATE VIEW gives it, and the wire form kept in the catalog. The engine does not know what
//! the query says.

use perigee_types::{DecodeError, Reader, Writer};
use perigee_value::Collation;

/// Version of the wire form.
const VERSION: u8 = 1;

/// What a view says of how it is to be computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ViewAlgorithm {
    /// Nothing.
    #[default]
    Undefined,
    /// As a part of the query that names it.
    Merge,
    /// By itself: its rows cannot be changed.
    TempTable,
}

/// Which rows may be written through a view.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CheckOption {
    /// All.
    #[default]
    None,
    /// Those that the view shows.
    Local,
    /// Those that the view and the views below it show.
    Cascaded,
}

/// A view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewDef {
    /// The schema it lies in.
    pub schema: String,
    /// Name.
    pub name: String,
    /// The names of its columns.
    pub columns: Vec<String>,
    /// True if the names were given apart from the query.
    pub named: bool,
    /// The text of its query, in which every name says what it belongs to.
    pub query: String,
    /// The collation of the literals in it: that of the connection on which the view was made.
    pub collation: Collation,
    /// ALGORITHM.
    pub algorithm: ViewAlgorithm,
    /// User and host of DEFINER.
    pub definer: (String, String),
    /// SQL SECURITY INVOKER: the query runs with the rights of whoever names the view.
    pub invoker: bool,
    /// WITH CHECK OPTION.
    pub check: CheckOption,
}

impl ViewDef {
    /// The wire form.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut w = Writer::new();
        w.u8(VERSION).str(&self.schema).str(&self.name);
        w.u16(self.columns.len() as u16); // a query has fewer columns
        for column in &self.columns {
            w.str(column);
        }
        w.u8(u8::from(self.named)).str(&self.query);
        w.u16(self.collation.0);
        w.u8(match self.algorithm {
            ViewAlgorithm::Undefined => 0,
            ViewAlgorithm::Merge => 1,
            ViewAlgorithm::TempTable => 2,
        });
        w.str(&self.definer.0).str(&self.definer.1);
        w.u8(u8::from(self.invoker));
        w.u8(match self.check {
            CheckOption::None => 0,
            CheckOption::Local => 1,
            CheckOption::Cascaded => 2,
        });
        w.into_bytes()
    }

    /// Reads what [`ViewDef::encode`] wrote.
    ///
    /// # Errors
    /// If the bytes are none of a view.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let r = &mut Reader::new(bytes, "view");
        if r.u8()? != VERSION {
            return Err(DecodeError::new("view: version"));
        }
        let (schema, name) = (r.str()?.into(), r.str()?.into());
        let count = r.u16()?;
        let columns = (0..count).map(|_| Ok(r.str()?.into()));
        let columns = columns.collect::<Result<_, DecodeError>>()?;
        let (named, query) = (flag(r)?, r.str()?.into());
        let collation = Collation(r.u16()?);
        if !Collation::all().any(|known| known == collation) {
            return Err(DecodeError::new("view: collation"));
        }
        let algorithm = match r.u8()? {
            0 => ViewAlgorithm::Undefined,
            1 => ViewAlgorithm::Merge,
            2 => ViewAlgorithm::TempTable,
            _ => return Err(DecodeError::new("view: algorithm")),
        };
        let definer = (r.str()?.into(), r.str()?.into());
        let invoker = flag(r)?;
        let check = match r.u8()? {
            0 => CheckOption::None,
            1 => CheckOption::Local,
            2 => CheckOption::Cascaded,
            _ => return Err(DecodeError::new("view: check option")),
        };
        if r.remaining() > 0 {
            return Err(DecodeError::new("view: bytes behind it"));
        }
        Ok(Self {
            schema,
            name,
            columns,
            named,
            query,
            collation,
            algorithm,
            definer,
            invoker,
            check,
        })
    }
}

fn flag(r: &mut Reader<'_>) -> Result<bool, DecodeError> {
    match r.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(DecodeError::new("view: flag")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_are_read_back_and_damage_is_an_error() {
        let view = ViewDef {
            schema: "s".into(),
            name: "v".into(),
            columns: vec!["a".into(), "ä b".into()],
            named: true,
            query: "select `s`.`t`.`a`".into(),
            collation: Collation::UTF8MB4_BIN,
            algorithm: ViewAlgorithm::Merge,
            definer: ("root".into(), "%".into()),
            invoker: true,
            check: CheckOption::Cascaded,
        };
        let bytes = view.encode();
        assert_eq!(ViewDef::decode(&bytes), Ok(view));
        for cut in 0..bytes.len() {
            assert!(ViewDef::decode(&bytes[..cut]).is_err());
        }
        let mut long = bytes.clone();
        long.push(0);
        assert!(ViewDef::decode(&long).is_err());
        for (at, wrong) in [(0, 2), (bytes.len() - 1, 3), (bytes.len() - 2, 2)] {
            let mut damaged = bytes.clone();
            damaged[at] = wrong;
            assert!(ViewDef::decode(&damaged).is_err());
        }
    }
}
