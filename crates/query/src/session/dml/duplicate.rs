//! ON DUPLICATE KEY UPDATE: assignments over the row in the way and the row to insert.

use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::physical_plan::execution_plan::reset_plan_states;
use perigee_engine::catalog::{ColumnDef, Table, TableDef};
use perigee_engine::scan::CancelToken;
use perigee_value::{Datum, Now};
use sqlparser::ast::{
    Assignment, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, InsertAliases,
    ObjectName, TableFactor, TableWithJoins, VisitMut, VisitorMut,
};

use super::assign::{Assigned, Given, Unresolved};
use super::evaluated::Evaluated;
use super::one_row::OneRow;
use super::target::Target;
use super::{Converter, CurrentRows};
use crate::access::table_schema;
use crate::error::{Result, SqlError};
use crate::parse::Piece;
use crate::session::select::{self, Prepared, Reading, Special};
use crate::session::transaction::Work;
use crate::session::{Session, bound};

/// Begins the names of the columns with the values that an INSERT would have inserted.
pub(in crate::session) const NEW: &str = "/@new.";

/// ON DUPLICATE KEY UPDATE, ready to be evaluated over the row in the way and the row to insert.
pub(in crate::session) struct OnDuplicate {
    targets: Vec<Target>,
    assigned: Vec<Assigned>,
    evaluation: Evaluation,
}

/// How its expressions are evaluated.
enum Evaluation {
    /// One after the other.
    Bound(OneRow),
    /// One after the other, over both rows and what a plan makes of their subqueries.
    Applied(Evaluated, Planned),
}

/// A plan over both rows.
struct Planned {
    rows: Arc<CurrentRows>,
    prepared: Box<Prepared>,
}

impl OnDuplicate {
    /// Binds or plans the assignments.
    ///
    /// # Errors
    /// Unknown columns, expressions that are not supported.
    pub(in crate::session) async fn new(
        session: &Session,
        work: &mut Work,
        (table, name): (&Arc<Table>, &ObjectName),
        (assignments, alias): (Vec<Assignment>, Option<&InsertAliases>),
        (piece, cancel, now): (Piece<'_>, &CancelToken, Now),
        (inserted, brought): (&[usize], &[ColumnDef]),
    ) -> Result<Self> {
        let mut unresolved = Unresolved::new(assignments)?;
        let mut names = NewNames {
            table,
            alias,
            inserted,
        };
        for expr in &mut unresolved.expressions {
            if let ControlFlow::Break(error) = expr.visit(&mut names) {
                return Err(error);
            }
        }
        let expressions = &unresolved.expressions;
        let targets = vec![Target {
            table: table.clone(),
            access: 0,
            alias: table.def.name.to_lowercase(),
            places: Vec::new(),
            in_view: false,
        }];
        let assigned = unresolved.resolve(&targets, &[], now)?;
        let mut new = table.def.clone();
        new.columns.extend_from_slice(brought);
        let both = (&targets[0], &new);
        if let Some(bound) = OneRow::new(session, both, &assigned, expressions, now) {
            return Ok(Self {
                targets,
                assigned,
                evaluation: Evaluation::Bound(bound),
            });
        }
        let mut expressions = expressions.clone();
        for assigned in &assigned {
            if let (Given::Item(item), Some(literal)) = (&assigned.value, &assigned.literal) {
                expressions[*item] = Expr::value(literal.clone());
            }
        }
        let from = [table_of(name.clone())];
        let both = ((&table.def, &new), &from[..], NEW);
        let given = unresolved.assigned(&expressions);
        let mut change = bound::over_both(session, both, &given, (piece, now))?;
        change.narrow(&[]);
        let evaluated = Evaluated::new(&change, &assigned, &targets);
        let query = Arc::new(change.query);
        let references = query.tables.len();
        let (rows, reading) = reading(session, work, (&table.def, &new), references, cancel).await;
        let prepared = Box::new(select::plan(session, &query, reading).await?);
        Ok(Self {
            targets,
            assigned,
            evaluation: Evaluation::Applied(evaluated, Planned { rows, prepared }),
        })
    }

    /// What is assigned, given the row in the way and the one to insert.
    ///
    /// # Errors
    /// If an expression fails, or a value does not fit its column.
    pub(in crate::session) async fn values(
        &mut self,
        session: &Session,
        (existing, new): (&[Datum], &[Datum]),
        (number, converter): (u64, &mut Converter),
        cancel: &CancelToken,
    ) -> Result<Vec<(usize, Datum)>> {
        match &mut self.evaluation {
            Evaluation::Bound(bound) => {
                let table = &self.targets[0].table;
                let (rows, given) = ((existing, new), (number, converter));
                bound.values(table, &self.assigned, rows, given, cancel)
            }
            Evaluation::Applied(evaluated, planned) => {
                let batch = planned.row(session, existing, new, cancel).await?;
                let values = evaluated.over(&self.targets, &batch, cancel)?;
                values.row(0, 0, number, converter)
            }
        }
    }
}

impl Planned {
    /// What the plan gives for two rows.
    async fn row(
        &mut self,
        session: &Session,
        existing: &[Datum],
        new: &[Datum],
        cancel: &CancelToken,
    ) -> Result<RecordBatch> {
        self.rows.set(&[existing, new].concat())?;
        self.prepared.plan = reset_plan_states(self.prepared.plan.clone())?;
        let mut stream = session.frontend.start(&self.prepared);
        while let Some(batch) = select::guarded(&mut stream, cancel).await? {
            if batch.num_rows() > 0 {
                return Ok(batch);
            }
        }
        Err(SqlError::unknown("Q13: assignments over a row give a row"))
    }
}

/// What a plan over both rows reads.
async fn reading(
    session: &Session,
    work: &mut Work,
    both: (&TableDef, &TableDef),
    references: usize,
    cancel: &CancelToken,
) -> (Arc<CurrentRows>, Reading) {
    let rows = CurrentRows::new(both_rows(both));
    let mut reading = match references {
        1 => Reading::snapshot(session.current_view(), cancel),
        _ => work.reading(cancel).await,
    };
    let special = Special {
        rows: Some(rows.clone()),
        ..Special::default()
    };
    reading.special.insert(0, special);
    (rows, reading)
}

/// A table as FROM has it.
pub(in crate::session) fn table_of(name: ObjectName) -> TableWithJoins {
    TableWithJoins {
        relation: TableFactor::Table {
            name,
            alias: None,
            args: None,
            with_hints: Vec::new(),
            version: None,
            with_ordinality: false,
            partitions: Vec::new(),
            json_path: None,
            sample: None,
            index_hints: Vec::new(),
        },
        joins: Vec::new(),
    }
}

/// The columns of the row in the way, then those of the row to insert.
fn both_rows((table, inserted): (&TableDef, &TableDef)) -> SchemaRef {
    let existing = table_schema(table);
    let new = |field: &Arc<Field>| {
        let name = format!("{NEW}{}", field.name());
        Arc::new(field.as_ref().clone().with_name(name).with_nullable(true))
    };
    let inserted = table_schema(inserted);
    let existing = existing.fields().iter().cloned();
    let both: Vec<_> = existing.chain(inserted.fields().iter().map(new)).collect();
    Arc::new(Schema::new(both))
}

/// Names the values of the row to insert: `VALUES(a)`, `new.a`.
struct NewNames<'a> {
    table: &'a Table,
    alias: Option<&'a InsertAliases>,
    /// Table columns that the INSERT gives values for, in its order.
    inserted: &'a [usize],
}

impl NewNames<'_> {
    fn column(&self, column: usize) -> Expr {
        let name = self.table.def.columns[column].name.to_lowercase();
        Expr::Identifier(Ident::with_quote('`', format!("{NEW}{name}")))
    }

    fn named(&self, name: &str) -> Result<Expr> {
        let column = self.table.def.column(name);
        column
            .map(|column| self.column(column))
            .ok_or_else(|| SqlError::unknown_column(name, "field list"))
    }

    /// A column of the row alias, which may have names of its own.
    fn of_alias(&self, qualified: bool, name: &str) -> Option<Expr> {
        let columns = self.alias?.col_aliases.as_deref().unwrap_or_default();
        if columns.is_empty() {
            return if qualified {
                self.named(name).ok()
            } else {
                None
            };
        }
        let at = columns
            .iter()
            .position(|c| c.value.eq_ignore_ascii_case(name))?;
        Some(self.column(*self.inserted.get(at)?))
    }

    fn is_alias(&self, name: &Ident) -> bool {
        let alias = self.alias.map(|alias| alias.row_alias.to_string());
        alias.is_some_and(|alias| alias.trim_matches('`').eq_ignore_ascii_case(&name.value))
    }
}

impl VisitorMut for NewNames<'_> {
    type Break = SqlError;

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
        let new = match &*expr {
            Expr::Identifier(name) => self.of_alias(false, &name.value),
            Expr::CompoundIdentifier(names) => match &names[..] {
                [table, column] if self.is_alias(table) => self.of_alias(true, &column.value),
                _ => None,
            },
            Expr::Function(function)
                if function.name.to_string().eq_ignore_ascii_case("values") =>
            {
                match argument(&function.args) {
                    Some(name) => match self.named(&name.value) {
                        Ok(new) => Some(new),
                        Err(error) => return ControlFlow::Break(error),
                    },
                    None => None,
                }
            }
            _ => None,
        };
        if let Some(new) = new {
            *expr = new;
        }
        ControlFlow::Continue(())
    }
}

/// The column that is the only argument of a function.
fn argument(args: &FunctionArguments) -> Option<&Ident> {
    let FunctionArguments::List(list) = args else {
        return None;
    };
    match &list.args[..] {
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Identifier(name)))] => Some(name),
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::CompoundIdentifier(names)))] => {
            names.last()
        }
        _ => None,
    }
}
