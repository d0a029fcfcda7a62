//! [`GeneratedColumns`]: the columns of a table whose values are computed from the others of their row.

use perigee_engine::Engine;
use perigee_engine::catalog::{ColumnDef, Hidden, Table, TableDef};
use perigee_engine::scan::CancelToken;
use perigee_expr::functions::Value;
use perigee_expr::scalar::{Scalar, to_datum};
use perigee_sql_bind::Binder;
use perigee_value::{ColumnType, Datum, Zone};

use super::dml::value_of;
use super::insert::value_error;
use super::row_expr::{self, RowOf};
use super::scalars;
use crate::error::{Result, SqlError};

/// Makes of a value, with its type, one of a column.
pub(super) type Convert<'c> = dyn FnMut(Datum, ColumnType, &ColumnDef) -> Result<Datum> + 'c;

/// The generated columns of a table, in its order: each depends on earlier ones only.
#[derive(Debug)]
pub(super) struct GeneratedColumns(Vec<Column>);

#[derive(Debug)]
struct Column {
    place: usize,
    value: Scalar,
    /// The columns that it is computed from.
    from: Vec<usize>,
}

impl GeneratedColumns {
    /// Those of a definition, for a session with a time zone; `None` if there are none.
    ///
    /// # Errors
    /// If an expression cannot be read.
    pub(super) fn of(def: &TableDef, zone: Zone) -> Result<Option<Self>> {
        let row = RowOf(def, zone);
        let mut columns = Vec::new();
        for (place, column) in def.columns.iter().enumerate() {
            let Some(generated) = &column.generated else {
                continue;
            };
            let expr = row_expr::parsed(&generated.expression)?;
            let value = Binder::new(&row).stored(&expr)?;
            columns.push(Column {
                place,
                from: value.places(),
                value,
            });
        }
        Ok((!columns.is_empty()).then_some(Self(columns)))
    }

    /// The first column that is kept as VIRTUAL and has another value in another time zone: rows contain the values, which
    /// every session would have to see in its own.
    ///
    /// # Errors
    /// If an expression cannot be read.
    pub(super) fn zoned(def: &TableDef) -> Result<Option<&ColumnDef>> {
        /// Any zone but UTC.
        const OTHER: Zone = Zone::Offset(3600);
        let (Some(here), Some(there)) = (Self::of(def, Zone::Utc)?, Self::of(def, OTHER)?) else {
            return Ok(None);
        };
        let both = here.0.iter().zip(&there.0);
        let differs = |(here, there): &(&Column, &Column)| {
            let column = &def.columns[here.place];
            let ty = here.value.ty.column;
            let crosses = ty.is_some_and(|ty| ty.is_timestamp() != column.ty.is_timestamp());
            let is_virtual = column.generated.as_ref().is_some_and(|own| !own.stored);
            is_virtual && (crosses || !here.value.is_same(&there.value))
        };
        let mut found = both.filter(differs);
        Ok(found.next().map(|(here, _)| &def.columns[here.place]))
    }

    /// Computes all of them in a row without values outside of it.
    ///
    /// # Errors
    /// Those of evaluation and conversion.
    pub(super) fn fill(
        &self,
        def: &TableDef,
        row: &mut [Datum],
        convert: &mut Convert<'_>,
        cancel: &CancelToken,
    ) -> Result<()> {
        for column in &self.0 {
            row[column.place] = column.compute(def, row, convert, cancel)?;
        }
        Ok(())
    }

    /// Makes those of a row what they were `before`, to follow once more.
    pub(super) fn forget(def: &TableDef, (before, row): (&[Datum], &mut [Datum])) {
        for (place, column) in def.columns.iter().enumerate() {
            if column.generated.is_some() {
                row[place] = before[place].clone();
            }
        }
    }

    /// Computes those of a row that was another one `before` which follow from columns that changed.
    ///
    /// # Errors
    /// Those of evaluation and conversion, and what storage says.
    pub(super) async fn follow(
        &self,
        (engine, table): (&Engine, &Table),
        (before, row): (&[Datum], &mut [Datum]),
        convert: &mut (dyn FnMut(Datum, ColumnType, &ColumnDef) -> Result<Datum> + Send),
        cancel: &CancelToken,
    ) -> Result<()> {
        let mut whole: Option<Vec<Datum>> = None;
        for column in &self.0 {
            let changed = |place: &usize| row[*place] != before[*place];
            if !column.from.iter().any(changed) {
                continue;
            }
            let whole = match &mut whole {
                Some(whole) => whole,
                none => {
                    let mut all = self.needed(row);
                    if table.has_long() {
                        engine.fetch_long(&mut all).await?;
                    }
                    none.insert(all)
                }
            };
            let value = column.compute(&table.def, whole, convert, cancel)?;
            whole[column.place] = value.clone();
            row[column.place] = value;
        }
        Ok(())
    }

    /// The row with NULL for what no column is computed from.
    fn needed(&self, row: &[Datum]) -> Vec<Datum> {
        let mut needed = vec![Datum::Null; row.len()];
        for place in self.0.iter().flat_map(|column| &column.from) {
            needed[*place] = row[*place].clone();
        }
        needed
    }

    /// True if one of them is computed from a column.
    pub(super) fn uses(&self, place: usize) -> bool {
        self.0.iter().any(|column| column.from.contains(&place))
    }

    /// True if a hidden one is computed from a column.
    pub(super) fn uses_in_keys(&self, def: &TableDef, place: usize) -> bool {
        let is_hidden = |column: &&Column| def.columns[column.place].hidden.is_some();
        let mut hidden = self.0.iter().filter(is_hidden);
        hidden.any(|column| column.from.contains(&place))
    }

    /// The first of some columns that is a generated one.
    pub(super) fn first_of<'d>(def: &'d TableDef, columns: &[usize]) -> Option<&'d ColumnDef> {
        let mut columns = columns.iter().map(|place| &def.columns[*place]);
        columns.find(|column| column.generated.is_some())
    }
}

impl Column {
    fn compute(
        &self,
        def: &TableDef,
        row: &[Datum],
        convert: &mut Convert<'_>,
        cancel: &CancelToken,
    ) -> Result<Datum> {
        let mut values = vec![Value::Null; row.len()];
        for place in &self.from {
            values[*place] = value_of(&row[*place], &def.columns[*place]);
        }
        let value = scalars::evaluated(&self.value, &values, cancel)?;
        let (value, ty) = to_datum(value, &self.value.ty);
        let column = &def.columns[self.place];
        if column.hidden == Some(Hidden::Expression) {
            // Conditions take it for the expression, so it is that, whatever the mode.
            let own = column.coerce(value, ty, Zone::Utc);
            let expression = column.generated.as_ref().map(|own| &*own.expression);
            let name = expression.unwrap_or_default();
            return own.map_err(|error| value_error(&error, name, 1));
        }
        convert(value, ty, column)
    }
}

/// 3105: a statement gives a value for a generated column.
pub(super) fn given(table: &Table, column: &ColumnDef) -> SqlError {
    SqlError::generated_value(&column.name, &table.def.name)
}
