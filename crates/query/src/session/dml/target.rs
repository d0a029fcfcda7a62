//! [`Target`]: a table whose rows a query's result names, so that they can be locked and changed: the
//! query delivers their clustered keys in columns of their own.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::Schema;
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, ObjectName, Query, Select, SelectItem, SetExpr,
};
use perigee_engine::catalog::{HIDDEN_ROW_ID, Table};
use perigee_sql_bind::query::{self, Origin};
use perigee_value::{Datum, RecordView, key};

use crate::access::ROW_ID;
use crate::error::{Result, SqlError};
use crate::plan::rewrite::TableAccess;
use crate::session::{Session, bound};
use crate::values::Column;

/// Begins the names of columns that are not shown to the user, who cannot write them without quotes.
pub(in crate::session) const HIDDEN: &str = "/@";

/// One table of a query's outermost FROM.
#[derive(Clone, Debug)]
pub(in crate::session) struct Target {
    pub table: Arc<Table>,
    /// Number of the reference.
    pub access: usize,
    /// Its name in the statement.
    pub alias: String,
    /// The places of the key's columns in the query's output; without them they are found by name.
    pub places: Option<Vec<usize>>,
}

/// The tables of the outermost FROM, without derived tables.
pub(in crate::session) fn targets(
    session: &Session,
    accesses: &[TableAccess],
) -> Result<Vec<Target>> {
    let outermost = |(_, access): &(usize, &TableAccess)| access.select == 1;
    let accesses = accesses.iter().enumerate().filter(outermost);
    accesses
        .map(|(number, access)| {
            Ok(Target {
                table: session.table(&access.schema, &access.table)?,
                access: number,
                alias: access.alias.clone(),
                places: None,
            })
        })
        .collect()
}

/// [`targets`] of a bound statement.
///
/// # Errors
/// 1412 if a definition was changed since it was bound.
pub(in crate::session) fn bound_targets(
    session: &Session,
    query: &query::Query,
) -> Result<Vec<Target>> {
    let targets = targets(session, &bound::references(query))?;
    for target in &targets {
        bound::check_is(&query.tables[target.access].definition, &target.table.def)?;
    }
    Ok(targets)
}

/// The outermost SELECT.
pub(in crate::session) fn select_of(query: &mut Query) -> Result<&mut Select> {
    match query.body.as_mut() {
        SetExpr::Select(select) => Ok(select),
        _ => Err(SqlError::not_supported("this form of query")),
    }
}

/// An identifier in the form that DataFusion sees.
pub(super) fn ident(name: impl Into<String>) -> Ident {
    Ident::with_quote('"', name)
}

impl Target {
    /// True if a name in the statement means this table.
    pub(in crate::session) fn is_named(&self, name: &ObjectName) -> bool {
        let parts: Vec<String> = name
            .0
            .iter()
            .filter_map(|part| Some(part.as_ident()?.value.to_lowercase()))
            .collect();
        match &parts[..] {
            [table] => *table == self.alias,
            [schema, table] => *table == self.alias && *schema == self.table.def.schema,
            _ => false,
        }
    }

    /// The columns of the key.
    pub(in crate::session) fn key_columns(&self) -> Vec<Origin> {
        let clustered = self.table.clustered();
        let column = |place: &u16| Origin {
            reference: self.access,
            column: match clustered.columns[usize::from(*place)] {
                // It stands behind the others.
                HIDDEN_ROW_ID => self.table.def.columns.len(),
                column => usize::from(column),
            },
        };
        clustered.layout.key.iter().map(column).collect()
    }

    /// Has the query deliver the key.
    pub(in crate::session) fn add_key(&self, select: &mut Select) {
        let layout = &self.table.clustered().layout;
        for (number, column) in layout.key.iter().enumerate() {
            let name = match self.table.clustered().columns[usize::from(*column)] {
                HIDDEN_ROW_ID => ROW_ID.to_owned(),
                column => self.table.def.columns[usize::from(column)]
                    .name
                    .to_lowercase(),
            };
            select.projection.push(SelectItem::ExprWithAlias {
                expr: Expr::CompoundIdentifier(vec![ident(&self.alias), ident(name)]),
                alias: ident(self.key_column(number)),
            });
        }
    }

    /// Name in the query's output of a column of the key.
    fn key_column(&self, number: usize) -> String {
        format!("{HIDDEN}key{}.{number}", self.access)
    }

    /// The rows' keys in a batch of the query's output; none where an outer join found no row.
    pub(in crate::session) fn keys(
        &self,
        batch: &RecordBatch,
        schema: &Schema,
    ) -> Result<Vec<Option<Vec<u8>>>> {
        let clustered = self.table.clustered();
        let layout = &clustered.layout;
        let columns = (0..layout.key.len())
            .map(|number| {
                let at = match &self.places {
                    Some(places) => places[number],
                    None => {
                        let at = schema.index_of(&self.key_column(number));
                        at.map_err(SqlError::unknown)?
                    }
                };
                Column::new(batch.column(at), schema.field(at))
            })
            .collect::<Result<Vec<_>>>()?;
        (0..batch.num_rows())
            .map(|row| {
                let values = columns.iter().zip(&layout.key).map(|(column, place)| {
                    let def = clustered.columns[usize::from(*place)];
                    self.stored(column.datum(row), def)
                });
                let values: Vec<Datum> = values.collect();
                if values.contains(&Datum::Null) {
                    return Ok(None);
                }
                self.key(&values).map(Some)
            })
            .collect()
    }

    /// The value that is stored of a table's column whose value is shown: of an ENUM its number.
    fn stored(&self, value: Datum, column: u16) -> Datum {
        let def = self.table.def.columns.get(usize::from(column));
        match (def.and_then(|def| def.members.as_ref()), &value) {
            // Any other text stands for what IGNORE stores.
            (Some(members), Datum::String(text)) => {
                Datum::UInt(members.number(text).unwrap_or_default())
            }
            _ => value,
        }
    }

    /// The clustered key of values in the key's order.
    pub(super) fn key(&self, values: &[Datum]) -> Result<Vec<u8>> {
        let mut key = Vec::new();
        key::encode_key(&self.table.clustered().layout, values, &mut key)
            .map_err(SqlError::corrupt)?;
        Ok(key)
    }
}

/// The values of a clustered record, in the order of the table's columns.
pub(in crate::session) fn row_of(table: &Table, record: &[u8]) -> Vec<Datum> {
    let view = RecordView::new(&table.clustered().layout, record);
    let columns = 0..table.def.columns.len();
    columns.map(|c| view.value(c).to_datum()).collect()
}
