//! Assignments over one row, evaluated without a plan.

use perigee_engine::catalog::{ColumnDef, Table, TableDef};
use perigee_engine::scan::CancelToken;
use perigee_expr::functions::Value;
use perigee_expr::scalar::{Scalar, of_datum, to_datum};
use perigee_sql_bind::ColumnOf;
use perigee_sql_type::SqlType;
use perigee_value::{Datum, Now};
use sqlparser::ast::{Expr, Ident, ObjectName, ObjectNamePart};

use super::Converter;
use super::assign::{Assigned, Given};
use super::duplicate::NEW;
use super::target::Target;
use crate::error::{Result, SqlError};
use crate::session::{Session, scalars};

/// The assignments of ON DUPLICATE KEY UPDATE over the columns of the row in the way and those of the row to insert.
pub(super) struct OneRow {
    /// The expressions, by assignment; those that are DEFAULT have none.
    bound: Vec<Option<Scalar>>,
    /// The columns of the row to insert.
    new: Vec<ColumnDef>,
}

impl OneRow {
    /// Binds the expressions; `None` if one of them needs a plan.
    pub(super) fn new(
        session: &Session,
        (target, new): (&Target, &TableDef),
        assigned: &[Assigned],
        expressions: &[Expr],
        now: Now,
    ) -> Option<Self> {
        let columns = |name: &[Ident]| column_of(target, new, name);
        let bind = |assigned: &Assigned| {
            let expr = match (&assigned.value, &assigned.literal) {
                (Given::Default(_), _) => return Some(None),
                (Given::Item(_), Some(literal)) => Expr::value(literal.clone()),
                (Given::Item(item), None) => expressions[*item].clone(),
            };
            scalars::bound(session, &expr, now, &columns).map(Some)
        };
        let bound = assigned.iter().map(bind).collect::<Option<Vec<_>>>()?;
        let new = new.columns.clone();
        Some(Self { bound, new })
    }

    /// The assigned columns and their values; each expression sees what was assigned before it.
    ///
    /// # Errors
    /// If an expression fails, or a value does not fit its column.
    pub(super) fn values(
        &self,
        table: &Table,
        assigned: &[Assigned],
        (existing, new): (&[Datum], &[Datum]),
        (number, converter): (u64, &mut Converter),
        cancel: &CancelToken,
    ) -> Result<Vec<(usize, Datum)>> {
        let columns = &table.def.columns;
        let new = new.iter().zip(&self.new);
        let both = existing.iter().zip(columns).chain(new);
        let mut row: Vec<Value<'_>> = both.map(|(datum, def)| value(datum, def)).collect();
        let mut values = Vec::with_capacity(assigned.len());
        for (assigned, scalar) in assigned.iter().zip(&self.bound) {
            let def = &columns[assigned.column];
            let datum = match (&assigned.value, scalar) {
                (Given::Default(datum), _) => datum.clone(),
                (Given::Item(_), Some(scalar)) => {
                    let computed = scalars::evaluated(scalar, &row, cancel)?;
                    let (datum, from) = to_datum(computed, &scalar.ty);
                    converter.value(datum, from, def, number)?
                }
                (Given::Item(_), None) => return Err(SqlError::unknown("Q12: a value is bound")),
            };
            row[assigned.column] = value(&datum, def).into_owned();
            values.push((assigned.column, datum));
        }
        Ok(values)
    }
}

/// A stored value as expressions see it: that of an ENUM is its text.
pub(in crate::session) fn value<'v>(datum: &'v Datum, def: &'v ColumnDef) -> Value<'v> {
    match (datum, &def.members) {
        (Datum::UInt(number), Some(members)) => {
            Value::text(members.text(*number).unwrap_or_default())
        }
        _ => of_datum(datum.as_ref(), def.ty),
    }
}

fn column_of(target: &Target, new: &TableDef, name: &[Ident]) -> Option<ColumnOf> {
    let (column, qualifier) = name.split_last()?;
    if !qualifier.is_empty() {
        let parts = qualifier.iter().cloned().map(ObjectNamePart::Identifier);
        if !target.is_named(&ObjectName(parts.collect())) {
            return None;
        }
    }
    let table = &target.table.def;
    let (place, row, name) = match column.value.strip_prefix(NEW) {
        Some(name) => (table.columns.len(), new, name),
        None => (0, table, &*column.value),
    };
    let number = row.column(name)?;
    let def = &row.columns[number];
    let ty = match &def.members {
        Some(members) => SqlType::of_members(members.clone()),
        None => SqlType::of(def.ty),
    };
    Some(ColumnOf {
        place: place + number,
        ty: ty.nullable(def.nullable || place > 0),
    })
}
