//! [`Target`]: a table whose rows a query's result names, so that they can be locked and changed: the
//! query delivers their clustered keys in columns of their own.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::Schema;
use perigee_engine::catalog::{HIDDEN_ROW_ID, Table};
use perigee_sql_bind::query::{self, Change, Origin};
use perigee_value::{Datum, RecordView, key};
use sqlparser::ast::ObjectName;

use crate::error::{Result, SqlError};
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
    /// The places of the key's columns in the query's output, once they are known.
    pub places: Vec<usize>,
    /// It is a table of a view: the statement does not know its name and its columns.
    pub in_view: bool,
}

/// The tables of the outermost FROM, those of views among them, without derived tables.
pub(in crate::session) fn targets(session: &Session, change: &Change) -> Result<Vec<Target>> {
    let sources = change.sources.iter();
    let all = sources.flat_map(|source| {
        let references = source.references.iter();
        references.map(move |reference| (source, *reference))
    });
    let targets = all.map(|(source, reference)| {
        let target = Target::new(session, &change.query.tables[reference])?;
        Ok(Target {
            in_view: source.is_view,
            ..target
        })
    });
    targets.collect()
}

impl Target {
    /// The table of a reference; where its key is in the query's output is not known yet.
    ///
    /// # Errors
    /// If the table is not there any more, or is another one.
    pub(in crate::session) fn new(session: &Session, reference: &query::Table) -> Result<Self> {
        let table = session.stored_table(reference)?;
        bound::check_current(reference, &table.def)?;
        Ok(Self {
            table,
            access: reference.reference,
            alias: reference.alias.to_string(),
            places: Vec::new(),
            in_view: false,
        })
    }

    /// True if a name in the statement means this table.
    pub(in crate::session) fn is_named(&self, name: &ObjectName) -> bool {
        let parts: Vec<String> = name
            .0
            .iter()
            .filter_map(|part| Some(part.as_ident()?.value.to_lowercase()))
            .collect();
        match &parts[..] {
            _ if self.in_view => false,
            [table] => *table == self.alias,
            [schema, table] => *table == self.alias && *schema == self.table.def.shown_schema(),
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

    /// The rows' keys in a batch of the query's output; none where an outer join found no row.
    pub(in crate::session) fn keys(
        &self,
        batch: &RecordBatch,
        schema: &Schema,
    ) -> Result<Vec<Option<Vec<u8>>>> {
        let clustered = self.table.clustered();
        let layout = &clustered.layout;
        let columns = self.places.iter();
        let columns = columns.map(|at| Column::new(batch.column(*at), schema.field(*at)));
        let columns = columns.collect::<Result<Vec<_>>>()?;
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
