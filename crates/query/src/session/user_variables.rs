//! A session's user variables: `@a`.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::arrow::array::ArrayRef;
use parking_lot::Mutex;
use perigee_expr::functions::Value;
use perigee_expr::scalar::{of_datum, to_text};
use perigee_sql_type::{SqlType, TEXT_CHARS};
use perigee_value::{Collation, ColumnType, Datum, Units, decimal};

use super::parameter::Parameter;
use crate::error::Result;
use crate::functions::library::Column;
use crate::memory::{Charge, ProcessMemory};
use crate::result::ResultColumn;

/// What a variable takes besides its name and its text, in bytes.
const ENTRY: usize = 300;

/// The value of a variable with its type: BIGINT, signed or unsigned, DECIMAL, DOUBLE, or a string with its collation. NULL
/// has none.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct UserValue {
    value: Value<'static>,
    ty: SqlType,
}

impl Default for UserValue {
    /// NULL.
    fn default() -> Self {
        Self {
            value: Value::Null,
            ty: SqlType::NULL,
        }
    }
}

impl UserValue {
    /// What a variable holds to which a value of a type is assigned. Dates and times become texts of the connection.
    pub(super) fn of(value: Value<'_>, ty: &SqlType, connection: Collation) -> Self {
        let fsp = ty.column.and_then(ColumnType::fsp).unwrap_or(0);
        let value = match value.into_owned() {
            Value::Bool(v) => Value::truth(v),
            value @ (Value::Date(_) | Value::DateTime(_) | Value::Time(_)) => {
                return Self::text(value.temporal_text(fsp), connection);
            }
            value => value,
        };
        let mut ty = match &value {
            Value::Null => return Self::default(),
            Value::UInt(_) => SqlType::uint(),
            Value::Double(_) => SqlType::of(ColumnType::Double),
            Value::Decimal(units, scale) => decimal_type(*units, *scale),
            Value::Text(_) => SqlType::text(ty.collation()),
            Value::Bytes(_) => SqlType::of(ColumnType::Varchar {
                chars: TEXT_CHARS,
                collation: Collation::BINARY,
            }),
            _ => SqlType::int(),
        };
        ty.nullable = false;
        // It is known before there are rows. A string of bytes is not the number that a binary literal may be.
        ty.literal = !ty.is_bytes();
        Self { value, ty }
    }

    /// A string.
    pub(super) fn text(text: String, collation: Collation) -> Self {
        let ty = SqlType::text(collation);
        Self::of(Value::text(text), &ty, collation)
    }

    /// What a variable holds to which a value of a column is assigned.
    pub(super) fn of_datum((value, ty): &(Datum, ColumnType), connection: Collation) -> Self {
        let value = of_datum(value.as_ref(), *ty);
        Self::of(value, &SqlType::of(*ty), connection)
    }

    /// What a variable holds to which the first value of a result's column is assigned.
    ///
    /// # Errors
    /// If the column has no values.
    pub(super) fn of_first(
        array: &ArrayRef,
        column: &ResultColumn,
        connection: Collation,
    ) -> Result<Self> {
        let ty = match (&column.members, column.ty) {
            (Some(members), _) => SqlType::of_members(members.clone()),
            (None, Some(ty)) => SqlType::of(ty),
            (None, None) => SqlType::NULL,
        };
        let values = Column::any(array)?;
        Ok(Self::of(values.get(0), &ty, connection))
    }

    /// The value with its type.
    pub(super) fn typed(self) -> (Value<'static>, SqlType) {
        (self.value, self.ty)
    }

    /// The value as it is shown; `None` for NULL and for bytes that are no text.
    pub(super) fn shown(&self) -> Option<String> {
        to_text(&self.value, &self.ty).map(|text| text.into_owned())
    }

    /// The value as that of a parameter.
    ///
    /// # Errors
    /// 1235 for a DECIMAL that no literal stands for.
    pub(super) fn parameter(&self) -> Result<Parameter> {
        Ok(match &self.value {
            Value::Int(v) => Parameter::int(*v),
            Value::UInt(v) => Parameter::unsigned(*v),
            Value::Double(v) => Parameter::double(*v)?,
            Value::Text(text) => Parameter::text(text.as_bytes()),
            Value::Bytes(bytes) => Parameter::bytes(bytes),
            Value::Decimal(..) => Parameter::decimal(self.shown().unwrap_or_default().as_bytes())?,
            // Nothing else is kept.
            Value::Null | Value::Bool(_) | Value::Date(_) | Value::DateTime(_) | Value::Time(_) => {
                Parameter::NULL
            }
        })
    }

    /// Bytes that it takes beside itself.
    fn size(&self) -> usize {
        match &self.value {
            Value::Text(text) => text.len(),
            Value::Bytes(bytes) => bytes.len(),
            _ => 0,
        }
    }
}

/// The type of a DECIMAL with so many digits.
fn decimal_type(units: Units, scale: u8) -> SqlType {
    let own = (1..=decimal::MAX_PRECISION).find(|precision| units.fits(*precision));
    let precision = own.unwrap_or(ColumnType::MAX_PRECISION).max(scale);
    SqlType::of(ColumnType::Decimal { precision, scale })
}

/// The variables. They are charged to the process as long as they are kept.
pub(super) struct UserVariables(Mutex<Kept>);

struct Kept {
    values: BTreeMap<String, UserValue>,
    /// Bytes that they take.
    bytes: usize,
    charge: Option<Charge>,
    memory: Arc<ProcessMemory>,
}

impl UserVariables {
    /// None.
    pub(super) fn new(memory: &Arc<ProcessMemory>) -> Self {
        Self(Mutex::new(Kept {
            values: BTreeMap::new(),
            bytes: 0,
            charge: None,
            memory: memory.clone(),
        }))
    }

    /// The value of a variable; NULL if it was not set.
    pub(super) fn get(&self, name: &str) -> UserValue {
        self.0.lock().values.get(name).cloned().unwrap_or_default()
    }

    /// Sets a variable.
    ///
    /// # Errors
    /// 1038; the variable is what it was then.
    pub(super) fn set(&self, name: String, value: UserValue) -> Result<()> {
        let kept = &mut *self.0.lock();
        let mut bytes = kept.bytes + value.size();
        match kept.values.get(&name) {
            Some(before) => bytes -= before.size(),
            None => bytes += name.capacity() + ENTRY,
        }
        match &mut kept.charge {
            Some(charge) => charge.resize(bytes)?,
            None => kept.charge = Some(kept.memory.charge(bytes)?),
        }
        kept.bytes = bytes;
        kept.values.insert(name, value);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "test code")]

    use super::*;

    const UTF8: Collation = Collation::UTF8MB4_BIN;

    #[test]
    fn variables_are_charged_as_long_as_they_are_kept() {
        let memory = ProcessMemory::new(2000);
        let variables = UserVariables::new(&memory);
        let text = |bytes: usize| UserValue::text("x".repeat(bytes), UTF8);
        variables.set("a".to_owned(), text(1000)).unwrap();
        assert!((1000..1500).contains(&memory.used()));
        let error = variables.set("b".to_owned(), text(1000)).unwrap_err();
        assert_eq!(error.errno, 1038);
        assert_eq!(variables.get("b"), UserValue::default());
        variables.set("a".to_owned(), UserValue::default()).unwrap();
        variables.set("b".to_owned(), text(1000)).unwrap();
        assert_eq!(variables.get("a"), UserValue::default());
        drop(variables);
        assert_eq!(memory.used(), 0);
    }

    #[test]
    fn values_have_the_types_of_user_variables() {
        let of = |value: Value<'static>, ty: SqlType| UserValue::of(value, &ty, UTF8).typed();
        let own = Collation::UTF8MB4_GENERAL_CI;
        let (value, ty) = of(Value::text("01"), SqlType::text(own));
        assert_eq!((value, ty.collation()), (Value::text("01"), own));
        assert_eq!(ty.coercibility, perigee_sql_type::Coercibility::Implicit);
        let (value, ty) = of(Value::Bool(true), SqlType::truth());
        assert_eq!((value, ty.column), (Value::Int(1), SqlType::int().column));
        let (value, ty) = of(Value::UInt(1999), SqlType::of(ColumnType::Year));
        assert_eq!(
            (value, ty.column),
            (Value::UInt(1999), SqlType::uint().column)
        );
        let float = SqlType::of(ColumnType::Float);
        let (value, ty) = of(Value::Double(0.5), float);
        assert_eq!(
            (value, ty.column),
            (Value::Double(0.5), Some(ColumnType::Double))
        );
        let (precision, scale) = (4, 2);
        let column = Some(ColumnType::Decimal { precision, scale });
        let units = Value::Decimal(Units::from(1050), 2);
        assert_eq!(of(units.clone(), SqlType::int()).1.column, column);
        let (value, ty) = of(Value::Date(0), SqlType::of(ColumnType::Date));
        assert_eq!((value, ty.is_text()), (Value::text("1970-01-01"), true));
        let (_, ty) = of(Value::bytes(vec![0x41]), SqlType::text(UTF8));
        assert!(ty.is_bytes() && !ty.literal);
        assert!(of(Value::Null, SqlType::int()).1.is_null());
    }

    #[test]
    fn parameters_have_the_types_of_their_variables() {
        let of = |value: Value<'static>| {
            let value = UserValue::of(value, &SqlType::text(UTF8), UTF8);
            value.parameter().unwrap()
        };
        assert_eq!(of(Value::text("1")), Parameter::text(b"1"));
        assert_eq!(of(Value::Int(-1)), Parameter::int(-1));
        assert_eq!(of(Value::UInt(u64::MAX)), Parameter::unsigned(u64::MAX));
        let decimal = Value::Decimal(Units::from(-150), 2);
        assert_eq!(of(decimal), Parameter::decimal(b"-1.50").unwrap());
        assert_eq!(of(Value::Null), Parameter::NULL);
    }
}
