//! LOAD DATA as an INSERT or REPLACE of the values of its lines: in a transaction, with REPLACE or IGNORE, with
//! assignments. The lines come a thousand at a time.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::try_unfold;
use parking_lot::Mutex;
use perigee_engine::catalog::{ColumnDef, Table};
use perigee_engine::scan::CancelToken;
use perigee_value::ColumnType;
use sqlparser::ast::{
    Assignment, AssignmentTarget, Expr, Ident, Insert, Query, SetExpr, TableObject, Value,
    VisitMut, VisitorMut,
};

use super::Blocks;
use super::lines::{self, Format};
use crate::error::{Result, SqlError};
use crate::parse::{Existing, Field, LoadData, Piece, Script, Statement};
use crate::result::{LocalFile, OkResult};
use crate::session::Session;
use crate::session::insert::{RowBlock, Targets, run_blocks};
use crate::session::user_variables::UserValue;

/// Lines of which rows are made together.
const LINES: usize = 1000;

/// True if lines cannot go to the engine as they are.
pub(super) fn are_needed(session: &Session, table: &Table, statement: &LoadData) -> bool {
    let mut fields = statement.columns.iter().flatten();
    !session.commits_each_statement()
        || !table.def.triggers.is_empty()
        || statement.existing != Existing::Refused
        || !statement.assignments.is_empty()
        || fields.any(|field| matches!(field, Field::Variable(_)))
}

/// Runs a LOAD DATA.
pub(super) async fn run(
    session: &mut Session,
    (statement, meaning): (&LoadData, Meaning),
    file: &mut dyn LocalFile,
    piece: Piece<'_>,
    cancel: &CancelToken,
) -> Result<OkResult> {
    let insert = meaning.insert(statement)?;
    file.open(&statement.file).await?;
    let variables = Arc::new(Mutex::new(Variables::new()));
    let lines = Lines {
        blocks: Blocks::new(&meaning.format, statement.ignore_lines),
        file,
        block: Bytes::new(),
        meaning,
        row: 0,
        variables: variables.clone(),
    };
    let blocks = try_unfold(lines, |mut lines| async move {
        Ok(lines.next().await?.map(|block| (block, lines)))
    });
    let done = run_blocks(session, insert, &mut blocks.boxed(), piece, cancel).await?;
    let collation = session.variables.collation();
    for (name, text) in std::mem::take(&mut *variables.lock()) {
        let value = text.map(|text| UserValue::text(text, collation));
        session
            .user_variables
            .set(name, value.unwrap_or_default())?;
    }
    let skipped = done.records - done.inserted;
    let info = format!(
        "Records: {}  Deleted: {}  Skipped: {skipped}  Warnings: {}",
        done.records, done.deleted, done.warnings
    );
    Ok(OkResult {
        affected_rows: done.inserted + done.deleted,
        last_insert_id: done.last_insert_id,
        info,
        ..OkResult::default()
    })
}

/// The variables of a line.
type Variables = HashMap<String, Option<String>>;

/// What the fields of a line mean.
pub(super) struct Meaning {
    format: Format,
    fields: Vec<Field>,
    /// For each field that is the value of a column, and that of the assignments, its column; in the order of the INSERT.
    given: Vec<usize>,
    assignments: Vec<(String, Expr)>,
    /// The columns that fields are for.
    columns: HashMap<String, ColumnDef>,
    existing: Existing,
}

impl Meaning {
    /// What they mean to a statement.
    ///
    /// # Errors
    /// 1235.
    pub(super) fn of(table: &Arc<Table>, statement: &LoadData) -> Result<Self> {
        let fields = match &statement.columns {
            Some(fields) => fields.clone(),
            None => {
                let all = Targets::named(table, &[])?;
                let name = |column: &usize| table.def.columns[*column].name.clone();
                let names = all.columns().iter().map(name);
                names.map(Field::Column).collect()
            }
        };
        let assignments = assignments(&statement.assignments)?;
        let assigned: HashSet<_> = assignments.iter().map(|(name, _)| name).collect();
        let def = |name: &String| table.def.columns.iter().find(|def| def.name == *name);
        let is_given = |(_, field): &(usize, &Field)| match field {
            // A generated column has a field that is not used.
            Field::Column(name) => {
                !assigned.contains(name) && def(name).is_none_or(|def| def.generated.is_none())
            }
            Field::Variable(_) => false,
        };
        let given = fields.iter().enumerate().filter(is_given);
        let given = given.map(|(at, _)| at).collect();
        let column = |field: &Field| match field {
            Field::Column(name) => Some((name.clone(), def(name)?.clone())),
            Field::Variable(_) => None,
        };
        Ok(Self {
            format: Format::new(&statement.fields, &statement.lines),
            columns: fields.iter().filter_map(column).collect(),
            given,
            fields,
            assignments,
            existing: statement.existing,
        })
    }

    /// The statement that inserts the rows.
    fn insert(&self, statement: &LoadData) -> Result<Insert> {
        let given = self.given.iter().map(|at| match &self.fields[*at] {
            Field::Column(name) | Field::Variable(name) => name,
        });
        let assigned = self.assignments.iter().map(|(name, _)| name);
        let columns = given.chain(assigned);
        let columns: Vec<_> = columns
            .map(|name| Ident::with_quote('`', name).to_string())
            .collect();
        let verb = match self.existing {
            Existing::Refused => "INSERT",
            Existing::Ignored => "INSERT IGNORE",
            Existing::Replaced => "REPLACE",
        };
        let text = format!("{verb} INTO t ({}) VALUES ()", columns.join(", "));
        let script = Script::new(&text)?;
        let piece = script.pieces().next().map(Piece::parse).transpose()?;
        let Some(Statement::Insert(mut insert)) = piece else {
            return Err(SqlError::unknown("Q16: LOAD DATA is no INSERT"));
        };
        insert.table = TableObject::TableName(statement.table.clone());
        if let Some(query) = &mut insert.source
            && let SetExpr::Values(values) = &mut *query.body
        {
            values.rows.clear();
        }
        Ok(*insert)
    }

    /// The values of a line, and its variables.
    fn row(
        &self,
        fields: &[lines::Field<'_>],
        warnings: &mut Vec<SqlError>,
        row: u64,
    ) -> Result<(Vec<Expr>, Variables)> {
        let wrong = match fields.len().cmp(&self.fields.len()) {
            std::cmp::Ordering::Less => Some(SqlError::too_few_fields(row)),
            std::cmp::Ordering::Equal => None,
            std::cmp::Ordering::Greater => Some(SqlError::too_many_fields(row)),
        };
        match wrong {
            Some(error) if self.existing == Existing::Ignored => {
                // MySQL says it of each field that is missing.
                let times = self.fields.len().saturating_sub(fields.len()).max(1);
                warnings.extend(std::iter::repeat_n(error, times));
            }
            Some(error) => return Err(error),
            None => {}
        }
        let given = self.given.iter().map(|at| match fields.get(*at) {
            Some(field) => literal(field),
            None => Expr::Identifier(Ident::new("DEFAULT")),
        });
        let mut values: Vec<_> = given.collect();
        if self.assignments.is_empty() {
            return Ok((values, Variables::new()));
        }
        let mut named = Named {
            columns: HashMap::new(),
            variables: HashMap::new(),
            depth: 0,
        };
        let mut variables = Variables::new();
        for (at, field) in self.fields.iter().enumerate() {
            let value = fields.get(at).unwrap_or(&None);
            match field {
                Field::Column(name) => {
                    let value = typed(value, self.columns.get(name));
                    named.columns.insert(name, value);
                }
                Field::Variable(name) => {
                    let text = value.as_ref().map(|text| String::from_utf8_lossy(text));
                    variables.insert(name.clone(), text.map(|text| text.into_owned()));
                    named.variables.insert(name, literal(value));
                }
            }
        }
        values.extend(self.assignments.iter().map(|(_, expr)| {
            let mut expr = expr.clone();
            let _ = expr.visit(&mut named);
            expr
        }));
        Ok((values, variables))
    }
}

fn assignments(assignments: &[Assignment]) -> Result<Vec<(String, Expr)>> {
    let one = |assignment: &Assignment| {
        let AssignmentTarget::ColumnName(name) = &assignment.target else {
            return Err(SqlError::not_supported("an assignment to several columns"));
        };
        let last = name.0.last().and_then(|part| part.as_ident());
        let name = last.map(|ident| ident.value.to_lowercase());
        Ok((name.unwrap_or_default(), assignment.value.clone()))
    };
    assignments.iter().map(one).collect()
}

/// A field as a literal.
fn literal(field: &lines::Field<'_>) -> Expr {
    let value = match field.as_deref() {
        None => Value::Null,
        Some(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => Value::SingleQuotedString(text.to_owned()),
            Err(_) => {
                let digits = bytes.iter().map(|byte| format!("{byte:02x}"));
                Value::HexStringLiteral(digits.collect())
            }
        },
    };
    Expr::value(value)
}

/// The field of a column as its value: a number, if it is one and the column has numbers.
fn typed(field: &lines::Field<'_>, column: Option<&ColumnDef>) -> Expr {
    let has_numbers = column.is_some_and(|def| {
        let is_number = matches!(
            def.ty,
            ColumnType::Int { .. }
                | ColumnType::Decimal { .. }
                | ColumnType::Float
                | ColumnType::Double
                | ColumnType::Year
        );
        is_number && def.members.is_none()
    });
    let is_plain = |text: &str| {
        let digits = text.strip_prefix('-').unwrap_or(text);
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
        let all = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        all(whole) && all(fraction)
    };
    let text = field
        .as_deref()
        .and_then(|text| std::str::from_utf8(text).ok());
    match text.filter(|text| has_numbers && is_plain(text)) {
        Some(text) => Expr::value(Value::Number(text.to_owned(), false)),
        None => literal(field),
    }
}

/// Values for names in an assignment.
struct Named<'m> {
    columns: HashMap<&'m String, Expr>,
    variables: HashMap<&'m String, Expr>,
    /// Subqueries around, whose columns are not the file's.
    depth: usize,
}

impl VisitorMut for Named<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let ident = match &*expr {
            Expr::Identifier(ident) => ident,
            Expr::CompoundIdentifier(parts) => match parts.last() {
                Some(ident) => ident,
                None => return ControlFlow::Continue(()),
            },
            _ => return ControlFlow::Continue(()),
        };
        let name = ident.value.to_lowercase();
        let value = match name.strip_prefix('@') {
            Some(variable) if ident.quote_style.is_none() => {
                self.variables.get(&variable.to_owned())
            }
            _ if self.depth > 0 => None,
            _ => self.columns.get(&name),
        };
        if let Some(value) = value {
            // A negative number keeps together.
            *expr = Expr::Nested(Box::new(value.clone()));
        }
        ControlFlow::Continue(())
    }
}

/// The lines that are still to come.
struct Lines<'f> {
    blocks: Blocks,
    file: &'f mut dyn LocalFile,
    /// What is left of the block at hand.
    block: Bytes,
    meaning: Meaning,
    /// Lines that were taken.
    row: u64,
    /// Those of the last line.
    variables: Arc<Mutex<Variables>>,
}

impl Lines<'_> {
    async fn next(&mut self) -> Result<Option<RowBlock>> {
        if self.block.is_empty() {
            match self.blocks.next(self.file).await? {
                Some(block) => self.block = block,
                None => return Ok(None),
            }
        }
        let format = &self.meaning.format;
        let mut end = 0;
        for _ in 0..LINES {
            match format.first_line(&self.block[end..]) {
                Some(len) => end += len,
                None => {
                    end = self.block.len();
                    break;
                }
            }
        }
        let lines = self.block.split_to(end);
        let mut block = RowBlock {
            rows: Vec::new(),
            warnings: Vec::new(),
        };
        let mut fields: Vec<lines::Field<'_>> = Vec::new();
        for line in format.lines(&lines) {
            self.row += 1;
            fields.clear();
            format
                .split(line, &mut fields)
                .map_err(|_| super::unclosed(self.row))?;
            let (row, variables) = self.meaning.row(&fields, &mut block.warnings, self.row)?;
            block.rows.push(row);
            if !variables.is_empty() {
                *self.variables.lock() = variables;
            }
        }
        Ok(Some(block))
    }
}
