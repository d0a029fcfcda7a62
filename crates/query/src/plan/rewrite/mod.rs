//! Rewrites a SELECT's syntax tree so that DataFusion plans it with MySQL's meaning.
//!
//! Every node is either understood or refused with error 1235: nothing is ignored silently.
//! Identifiers become lower case (names are compared without case, like MySQL with
//! `lower_case_table_names=1`) and keep their spelling as result names. Every table reference gets a
//! number, under which the catalog finds its alias and hints.

mod any_value;
mod casts;
mod expansion;
pub(crate) mod expression;
mod frame;
mod function;
mod having;
mod scope;
mod source;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use datafusion::logical_expr::ScalarUDF;
use datafusion::sql::sqlparser::ast::{
    Cte, Distinct, Expr, GroupByExpr, Ident, Join, LimitClause, LockClause, ObjectName,
    ObjectNamePart, Offset, OffsetRows, OrderBy, OrderByExpr, OrderByKind, Query, Select,
    SelectItem, SelectItemQualifiedWildcardKind, SetExpr, SetOperator, SetQuantifier, TableAlias,
    TableFactor, TableWithJoins, Value,
};

use expansion::{Common, Expansion, MAX_TABLES};
pub(crate) use expression::{call, check_collation, text_collation};
pub(crate) use function::is_aggregate_name;
use perigee_sql_bind::query::Query as Bound;
use scope::Scope;
pub use source::{SelectLists, Source};

use crate::access::IndexChoice;
use crate::error::{Result, SqlError};
use crate::interrupt;
use crate::plan::union;

/// What the rewriter needs to know about the session.
pub trait Environment {
    /// The schema of unqualified names, if one is selected.
    fn current_schema(&self) -> Option<&str>;
    /// The names of a table's columns; all names are in lower case.
    ///
    /// # Errors
    /// 1049 or 1146 if there is no such table.
    fn columns(&self, schema: &str, table: &str) -> Result<Vec<String>>;
    /// Value of a system variable as a literal expression; scope is `global`, `session` or none.
    ///
    /// # Errors
    /// 1193.
    fn variable(&self, scope: Option<&str>, name: &str) -> Result<Expr>;
    /// Value of a user variable as a literal expression.
    fn user_variable(&self, name: &str) -> Expr;
    /// A function of the session, such as `DATABASE()`, as a literal expression; `None` if the
    /// name is none.
    fn session_function(&self, name: &str) -> Option<Expr>;
    /// Microseconds since 1970 when the statement began.
    fn now(&self) -> i64;
    /// True if a column that the groups do not decide is an error.
    fn only_full_group_by(&self) -> bool {
        true
    }
}

/// A reference to a table in the statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableAccess {
    /// Number of the SELECT it stands in, from 1, in order of the text.
    pub select: usize,
    /// Schema.
    pub schema: String,
    /// Table.
    pub table: String,
    /// Its name in the statement.
    pub alias: String,
    /// What a hint says about near-data processing.
    pub ndp_hint: Option<bool>,
    /// What a hint says about filters of joins.
    pub join_filter_hint: Option<bool>,
    /// STRAIGHT_JOIN: it is joined in the order of FROM.
    pub straight: bool,
    /// What USE, FORCE and IGNORE INDEX leave of its indexes.
    pub indexes: IndexChoice,
}

/// The outcome.
#[derive(Clone, Debug)]
pub struct Rewritten {
    /// The statement for DataFusion.
    pub query: Box<Query>,
    /// All table references, by number.
    pub accesses: Vec<TableAccess>,
    /// Names of result columns: explicit ones by position if there is no `*`.
    pub names: OutputNames,
    /// FOR UPDATE and FOR SHARE of the whole query, which DataFusion does not see.
    pub locks: Vec<LockClause>,
    /// Columns of the widest SELECT, GROUP BY or ORDER BY.
    pub columns: usize,
    /// Functions of this statement: one for each long list.
    pub functions: Vec<Arc<ScalarUDF>>,
    /// The query as the binder understands it, if it does; this is planned first.
    pub bound: Option<Arc<Bound>>,
    /// Why there is no statement for DataFusion, if there is none.
    pub refused: Option<SqlError>,
}

/// Names of result columns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutputNames {
    /// Names by position, if the first SELECT has no `*`.
    pub by_position: Option<Vec<String>>,
    /// Names by the alias that DataFusion sees.
    pub by_alias: HashMap<String, String>,
}

/// The hint that limits a statement's time.
pub(crate) const TIME_LIMIT: &str = "MAX_EXECUTION_TIME";

/// What a hint for a table is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HintKind {
    Pushdown,
    JoinFilter,
}

/// A hint for a table of a SELECT.
struct TableHint {
    table: String,
    kind: HintKind,
    yes: bool,
}

/// Separates the table's name and the number of the reference in names that DataFusion sees. A
/// table name cannot contain it.
pub const ACCESS_SEPARATOR: &str = "/@";

/// Rewrites a query.
///
/// # Errors
/// 1235 for what is not supported, and errors of names.
pub fn rewrite(
    mut query: Box<Query>,
    source: Source<'_>,
    environment: &dyn Environment,
) -> Result<Rewritten> {
    let mut rewriter = Rewriter {
        environment,
        source: SelectLists::new(source),
        accesses: Vec::new(),
        selects: 0,
        current_select: 0,
        ctes: Vec::new(),
        expansion: Expansion::default(),
        aliases: HashMap::new(),
        hints: Vec::new(),
        tables: Vec::new(),
        scopes: Vec::new(),
        hidden: HashSet::new(),
        output: Output::default(),
        columns: 0,
        functions: Vec::new(),
    };
    let locks = std::mem::take(&mut query.locks);
    rewriter.query(&mut query)?;
    let by_position = rewriter.names_by_position(&query);
    let names = OutputNames {
        by_position,
        by_alias: rewriter.aliases,
    };
    Ok(Rewritten {
        query,
        accesses: rewriter.accesses,
        names,
        locks,
        columns: rewriter.columns,
        functions: rewriter.functions,
        bound: None,
        refused: None,
    })
}

struct Rewriter<'a> {
    environment: &'a dyn Environment,
    source: SelectLists<'a>,
    accesses: Vec<TableAccess>,
    selects: usize,
    current_select: usize,
    /// The common table expressions in scope, with the names of their columns.
    ctes: Vec<Common>,
    expansion: Expansion,
    /// Spelling of aliases.
    aliases: HashMap<String, String>,
    /// Hints of the SELECT at hand: table (lower case), push or not.
    hints: Vec<TableHint>,
    /// Names of the tables in the FROM at hand.
    tables: Vec<String>,
    /// What the FROM at hand delivers, and those of the queries around it, the outermost first.
    scopes: Vec<Scope>,
    /// Names of the select list that hide columns of the FROM, in clauses where they do.
    hidden: HashSet<String>,
    /// What the SELECT seen last delivers.
    output: Output,
    /// Columns of the widest SELECT, GROUP BY or ORDER BY.
    columns: usize,
    /// Functions of the long lists.
    functions: Vec<Arc<ScalarUDF>>,
}

/// What a SELECT delivers.
#[derive(Debug, Default)]
struct Output {
    /// Names of its columns in lower case; of columns with one name the first only.
    names: Vec<String>,
    /// A name that is there twice.
    twice: Option<String>,
    /// Names given with AS.
    aliases: HashSet<String>,
    /// Its FROM, for the ORDER BY that follows it.
    from: Scope,
}

/// Error 1235.
fn unsupported<T>(feature: impl std::fmt::Display) -> Result<T> {
    Err(SqlError::not_supported(feature))
}

/// Refuses a clause that is present.
fn refuse(present: bool, feature: &str) -> Result<()> {
    if present {
        unsupported(feature)
    } else {
        Ok(())
    }
}

/// An identifier in the form that DataFusion sees.
fn normal(ident: &Ident) -> Ident {
    Ident::with_quote('"', ident.value.to_lowercase())
}

/// The identifiers of a name.
fn parts(name: &ObjectName) -> Result<Vec<&Ident>> {
    fn ident(part: &ObjectNamePart) -> Result<&Ident> {
        match part {
            ObjectNamePart::Identifier(ident) => Ok(ident),
            ObjectNamePart::Function(_) => unsupported("a function as a name"),
        }
    }
    name.0.iter().map(ident).collect()
}

impl Rewriter<'_> {
    fn query(&mut self, query: &mut Query) -> Result<()> {
        refuse(
            !query.locks.is_empty(),
            "FOR UPDATE, FOR SHARE in a subquery",
        )?;
        refuse(query.for_clause.is_some(), "FOR")?;
        refuse(query.fetch.is_some(), "FETCH")?;
        refuse(
            query.settings.is_some() || query.format_clause.is_some(),
            "SETTINGS, FORMAT",
        )?;
        refuse(!query.pipe_operators.is_empty(), "|>")?;
        let scope = self.ctes.len();
        if let Some(with) = &mut query.with {
            refuse(with.recursive, "WITH RECURSIVE")?;
            for cte in &mut with.cte_tables {
                self.cte(cte, scope)?;
            }
        }
        self.set_expr(&mut query.body)?;
        let of_select = matches!(query.body.as_ref(), SetExpr::Select(_));
        hide_union(query)?;
        if let Some(order_by) = &mut query.order_by {
            self.order_by(order_by, of_select)?;
        }
        if !self.environment.only_full_group_by()
            && let SetExpr::Select(select) = query.body.as_mut()
        {
            let order_by = match query.order_by.as_mut().map(|order_by| &mut order_by.kind) {
                Some(OrderByKind::Expressions(exprs)) => exprs.as_mut_slice(),
                _ => &mut [],
            };
            any_value::any_values(select, order_by);
        }
        if let Some(limit) = query.limit_clause.take() {
            query.limit_clause = Some(self.limit(limit)?);
        }
        self.ctes.truncate(scope);
        Ok(())
    }

    fn cte(&mut self, cte: &mut Cte, scope: usize) -> Result<()> {
        refuse(
            cte.from.is_some() || cte.materialized.is_some(),
            "WITH … AS MATERIALIZED",
        )?;
        let before = self.expansion;
        self.expansion.depth = 0;
        self.query(&mut cte.query)?;
        self.table_alias(&mut cte.alias)?;
        let name = cte.alias.name.value.clone();
        if self.ctes[scope..].iter().any(|known| known.name == name) {
            return Err(SqlError::duplicate_alias(name));
        }
        let columns = self.derived_columns(&cte.alias);
        let common = self.expansion.common(name, columns, &before)?;
        self.ctes.push(common);
        Ok(())
    }

    /// Names of the columns of a derived table whose query was the last one seen.
    fn derived_columns(&mut self, alias: &TableAlias) -> Vec<String> {
        let names = std::mem::take(&mut self.output.names);
        match &alias.columns[..] {
            [] => names,
            columns => columns.iter().map(|c| c.name.value.clone()).collect(),
        }
    }

    fn table_alias(&mut self, alias: &mut TableAlias) -> Result<()> {
        refuse(alias.at.is_some(), "AT")?;
        alias.name = normal(&alias.name);
        for column in &mut alias.columns {
            refuse(column.data_type.is_some(), "types of alias columns")?;
            let name = normal(&column.name);
            self.aliases
                .insert(name.value.clone(), column.name.value.clone());
            column.name = name;
        }
        Ok(())
    }

    fn set_expr(&mut self, body: &mut SetExpr) -> Result<()> {
        match body {
            SetExpr::Select(select) => self.select(select),
            SetExpr::Query(query) => self.query(query),
            SetExpr::SetOperation {
                op,
                left,
                right,
                set_quantifier,
            } => {
                refuse(*op != SetOperator::Union, "INTERSECT, EXCEPT")?;
                let known = matches!(
                    set_quantifier,
                    SetQuantifier::All | SetQuantifier::Distinct | SetQuantifier::None
                );
                refuse(!known, "UNION BY NAME")?;
                for (number, part) in [left, right].into_iter().enumerate() {
                    let output = std::mem::take(&mut self.output);
                    self.set_expr(part)?;
                    if number > 0 {
                        self.output = output;
                    }
                    if let SetExpr::Select(select) = part.as_mut()
                        && !self.environment.only_full_group_by()
                    {
                        any_value::any_values(select, &mut []);
                    }
                }
                Ok(())
            }
            SetExpr::Values(_) => unsupported("VALUES"),
            SetExpr::Table(_) => unsupported("TABLE"),
            _ => unsupported("a changing statement inside a query"),
        }
    }

    /// An ORDER BY; names of tables' columns mean those of the SELECT before it, if it is of one.
    fn order_by(&mut self, order_by: &mut OrderBy, of_select: bool) -> Result<()> {
        refuse(order_by.interpolate.is_some(), "INTERPOLATE")?;
        let OrderByKind::Expressions(exprs) = &mut order_by.kind else {
            return unsupported("ORDER BY ALL");
        };
        let output = std::mem::take(&mut self.output);
        let names = output.names.iter().cloned().collect();
        let hidden = std::mem::replace(&mut self.hidden, names);
        self.scopes.push(match of_select {
            true => output.from.clone(),
            false => Scope::default(),
        });
        self.order_exprs(exprs)?;
        self.scopes.pop();
        self.hidden = hidden;
        self.output = output;
        Ok(())
    }

    fn order_exprs(&mut self, exprs: &mut [OrderByExpr]) -> Result<()> {
        self.columns = self.columns.max(exprs.len());
        for OrderByExpr {
            expr,
            options,
            with_fill,
        } in exprs
        {
            refuse(with_fill.is_some(), "WITH FILL")?;
            refuse(options.nulls_first.is_some(), "NULLS FIRST, NULLS LAST")?;
            self.expr(expr)?;
        }
        Ok(())
    }

    fn limit(&mut self, limit: LimitClause) -> Result<LimitClause> {
        let (limit, offset) = match limit {
            LimitClause::LimitOffset {
                limit,
                offset,
                limit_by,
            } => {
                refuse(!limit_by.is_empty(), "LIMIT BY")?;
                (limit, offset.map(|o| o.value))
            }
            LimitClause::OffsetCommaLimit { offset, limit } => (Some(limit), Some(offset)),
        };
        let count = |expr: &Expr| {
            let text = expr.to_string();
            let is_parameter =
                matches!(expr, Expr::Value(v) if matches!(v.value, Value::Placeholder(_)));
            refuse(is_parameter, "parameters in text")?;
            if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
                return Err(SqlError::syntax(&text, 1));
            }
            let count: u64 = text.parse().map_err(|_| SqlError::syntax(&text, 1))?;
            Ok(i64::try_from(count).unwrap_or(i64::MAX))
        };
        let skipped = offset.as_ref().map(&count).transpose()?;
        let wanted = limit.as_ref().map(&count).transpose()?;
        let number = |count: i64| Expr::value(Value::Number(count.to_string(), false));
        // No table has so many rows that the last one could not be numbered.
        let limit = wanted.filter(|n| n.checked_add(skipped.unwrap_or(0)).is_some());
        let (limit, offset) = (limit.map(number), skipped.map(number));
        let offset = offset.map(|value| Offset {
            value,
            rows: OffsetRows::None,
        });
        Ok(LimitClause::LimitOffset {
            limit,
            offset,
            limit_by: Vec::new(),
        })
    }

    fn select(&mut self, select: &mut Select) -> Result<()> {
        refuse(select.top.is_some(), "TOP")?;
        refuse(select.exclude.is_some(), "EXCLUDE")?;
        refuse(select.into.is_some(), "SELECT … INTO")?;
        refuse(!select.lateral_views.is_empty(), "LATERAL VIEW")?;
        refuse(
            select.prewhere.is_some() || select.qualify.is_some(),
            "PREWHERE, QUALIFY",
        )?;
        refuse(!select.connect_by.is_empty(), "CONNECT BY")?;
        refuse(
            !select.cluster_by.is_empty() || !select.sort_by.is_empty(),
            "CLUSTER BY, SORT BY",
        )?;
        refuse(!select.distribute_by.is_empty(), "DISTRIBUTE BY")?;
        refuse(!select.named_window.is_empty(), "WINDOW")?;
        refuse(select.value_table_mode.is_some(), "SELECT AS")?;
        refuse(
            matches!(select.distinct, Some(Distinct::On(_))),
            "DISTINCT ON",
        )?;
        if let Some(modifiers) = select.select_modifiers.take() {
            refuse(modifiers.straight_join, "STRAIGHT_JOIN")?;
            refuse(modifiers.sql_calc_found_rows, "SQL_CALC_FOUND_ROWS")?;
            refuse(
                modifiers.sql_small_result || modifiers.sql_big_result,
                "SQL_SMALL_RESULT",
            )?;
            refuse(modifiers.sql_buffer_result, "SQL_BUFFER_RESULT")?;
            // HIGH_PRIORITY and SQL_NO_CACHE have no meaning in MySQL 8 either.
        }
        interrupt::check()?;
        having::as_filter(select, !self.scopes.is_empty())?;
        self.selects += 1;
        self.expansion.selects += 1;
        let outer = (
            self.current_select,
            std::mem::take(&mut self.hints),
            std::mem::take(&mut self.tables),
            std::mem::take(&mut self.hidden),
        );
        self.scopes.push(Scope::default());
        self.current_select = self.selects;
        self.hints = hints(select)?;
        select.optimizer_hints.clear();

        if is_dual(&select.from) {
            select.from.clear();
        }
        let mut from = Scope::default();
        for table in &mut select.from {
            from = from.beside(self.table_with_joins(table)?);
        }
        self.scopes.pop();
        self.scopes.push(from);
        if let Some(hint) = self.hints.first() {
            let table = &hint.table;
            let text = format!("a hint for '{table}', which this SELECT does not read");
            return unsupported(text);
        }
        let mut output = self.projection(select)?;
        if let Some(selection) = &mut select.selection {
            self.condition(selection)?;
        }
        match &mut select.group_by {
            GroupByExpr::All(_) => return unsupported("GROUP BY ALL"),
            GroupByExpr::Expressions(exprs, modifiers) => {
                refuse(!modifiers.is_empty(), "WITH ROLLUP")?;
                self.columns = self.columns.max(exprs.len());
                for expr in exprs {
                    self.expr(expr)?;
                }
            }
        }
        if let Some(having) = &mut select.having {
            self.hidden.clone_from(&output.aliases);
            self.condition(having)?;
        }
        (self.current_select, self.hints, self.tables, self.hidden) = outer;
        output.from = self.scopes.pop().unwrap_or_default();
        self.output = output;
        Ok(())
    }

    /// What a hint of the SELECT says about a table that it reads; each says it once.
    fn take_hint(&mut self, table: &str, kind: HintKind) -> Option<bool> {
        let is_it = |hint: &TableHint| hint.table == table && hint.kind == kind;
        let at = self.hints.iter().position(is_it)?;
        Some(self.hints.swap_remove(at).yes)
    }

    /// Gives every expression of the select list a name that is its own, and remembers the name
    /// that users see.
    fn projection(&mut self, select: &mut Select) -> Result<Output> {
        let texts = self.source.items(select.select_token.0.span.start);
        let items = std::mem::take(&mut select.projection);
        let mut output = Output::default();
        let mut used = self.starred(&items, select.from.is_empty(), &mut output)?;
        self.columns = self.columns.max(self.width(&items));
        let mut numbers: HashMap<String, usize> = HashMap::new();
        for (i, mut item) in items.into_iter().enumerate() {
            let (expr, name) = match &mut item {
                SelectItem::Wildcard(_) => {
                    let from = self.scopes.last();
                    match from.and_then(Scope::star) {
                        None => select.projection.push(item),
                        Some(columns) => {
                            let columns = columns.iter().map(|column| column.name());
                            let columns = columns.map(SelectItem::UnnamedExpr);
                            select.projection.extend(columns);
                        }
                    }
                    continue;
                }
                SelectItem::QualifiedWildcard(kind, _) => {
                    qualified_wildcard(kind)?;
                    select.projection.push(item);
                    continue;
                }
                SelectItem::ExprWithAliases { .. } => return unsupported("several aliases"),
                SelectItem::ExprWithAlias { expr, alias } => {
                    output.aliases.insert(alias.value.to_lowercase());
                    (expr, alias.value.clone())
                }
                SelectItem::UnnamedExpr(expr) => {
                    let text = texts.get(i).copied().unwrap_or_default();
                    let name = shown_name(expr, text);
                    let name = self.source.lists().written(&name).unwrap_or(name);
                    (expr, shortened(name))
                }
            };
            let column = matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
            let mut expr = std::mem::replace(expr, null());
            self.expr(&mut expr)?;
            let own = name.to_lowercase();
            let mut alias = own.clone();
            if used.contains(&own) {
                output.twice = Some(name.clone());
            } else {
                output.names.push(own.clone());
            }
            // The number that this name was told apart with last.
            let n = numbers.entry(own.clone()).or_insert(1);
            while !used.insert(alias.clone()) {
                *n += 1;
                alias = format!("{own}#{n}");
            }
            let keep = column && alias == own && matches!(item, SelectItem::UnnamedExpr(_));
            self.aliases.insert(alias.clone(), name);
            select.projection.push(if keep && is_column(&expr) {
                SelectItem::UnnamedExpr(expr)
            } else {
                SelectItem::ExprWithAlias {
                    expr,
                    alias: Ident::with_quote('"', alias),
                }
            });
        }
        Ok(output)
    }

    /// Columns of a select list.
    fn width(&self, items: &[SelectItem]) -> usize {
        let from = self.scopes.last();
        let of_star = |table: Option<&str>| {
            let columns = from.iter().flat_map(|from| &from.columns);
            columns
                .filter(|c| table.is_none_or(|t| t == c.table))
                .count()
        };
        let of_item = |item: &SelectItem| match item {
            SelectItem::Wildcard(_) => of_star(None),
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
                let table = parts(name).ok().and_then(|idents| idents.last().copied());
                of_star(Some(
                    &table.map(|ident| normal(ident).value).unwrap_or_default(),
                ))
            }
            _ => 1,
        };
        items.iter().map(of_item).sum()
    }

    /// The names that the `*` of a select list stand for, which go into its output.
    fn starred(
        &self,
        items: &[SelectItem],
        from_nothing: bool,
        output: &mut Output,
    ) -> Result<HashSet<String>> {
        let mut used = HashSet::new();
        let from = self.scopes.last().cloned().unwrap_or_default();
        let mut add = |name: &str| {
            if used.insert(name.to_owned()) {
                output.names.push(name.to_owned());
            } else {
                output.twice = Some(name.to_owned());
            }
        };
        for item in items {
            let (SelectItem::Wildcard(options) | SelectItem::QualifiedWildcard(_, options)) = item
            else {
                continue;
            };
            refuse(*options != Default::default(), "* with options")?;
            if from_nothing {
                return Err(SqlError::no_tables_used());
            }
            match item {
                SelectItem::QualifiedWildcard(
                    SelectItemQualifiedWildcardKind::ObjectName(name),
                    _,
                ) => {
                    let table = parts(name)?.last().map(|ident| normal(ident).value);
                    let table = table.unwrap_or_default();
                    from.names_of(&table).for_each(&mut add);
                }
                _ => from.columns.iter().for_each(|c| add(&c.column)),
            }
        }
        Ok(used)
    }

    /// Names of the first SELECT's columns, if it has no `*`.
    fn names_by_position(&self, query: &Query) -> Option<Vec<String>> {
        let mut body = &query.body;
        let select = loop {
            match body.as_ref() {
                SetExpr::Select(select) => match union::found(select) {
                    Some(inner) => body = &inner.body,
                    None => break select,
                },
                SetExpr::Query(inner) => body = &inner.body,
                SetExpr::SetOperation { left, .. } => body = left,
                _ => return None,
            }
        };
        let name = |item: &SelectItem| match item {
            SelectItem::ExprWithAlias { alias, .. } => self.aliases.get(&alias.value).cloned(),
            SelectItem::UnnamedExpr(Expr::Identifier(ident)) => {
                self.aliases.get(&ident.value).cloned()
            }
            SelectItem::UnnamedExpr(Expr::CompoundIdentifier(idents)) => idents
                .last()
                .and_then(|ident| self.aliases.get(&ident.value).cloned()),
            _ => None,
        };
        select.projection.iter().map(name).collect()
    }

    fn table_with_joins(&mut self, table: &mut TableWithJoins) -> Result<Scope> {
        let mut left = self.table_factor(&mut table.relation)?;
        for Join {
            relation,
            global,
            join_operator,
        } in &mut table.joins
        {
            refuse(*global, "GLOBAL JOIN")?;
            let right = self.table_factor(relation)?;
            left = self.join(join_operator, left, right)?;
        }
        Ok(left)
    }

    fn table_factor(&mut self, factor: &mut TableFactor) -> Result<Scope> {
        match factor {
            TableFactor::Table { .. } => self.table(factor),
            TableFactor::Derived {
                lateral,
                subquery,
                alias,
                sample,
            } => {
                refuse(*lateral, "LATERAL")?;
                refuse(sample.is_some(), "TABLESAMPLE")?;
                let Some(alias) = alias else {
                    return Err(SqlError::derived_alias());
                };
                self.table_alias(alias)?;
                self.add_table(&alias.name.value)?;
                self.query(subquery)?;
                match self.output.twice.take() {
                    Some(name) if alias.columns.is_empty() => Err(SqlError::duplicate_column(name)),
                    _ => {
                        let columns = self.derived_columns(alias);
                        Ok(Scope::of_table(&alias.name.value, columns))
                    }
                }
            }
            TableFactor::NestedJoin {
                table_with_joins,
                alias,
            } => {
                refuse(alias.is_some(), "an alias of a join")?;
                self.table_with_joins(table_with_joins)
            }
            _ => unsupported("this kind of table"),
        }
    }

    /// Notes the name of a table in the FROM at hand.
    fn add_table(&mut self, name: &str) -> Result<()> {
        if self.tables.iter().any(|known| known == name) {
            return Err(SqlError::duplicate_alias(name));
        }
        if self.tables.len() == MAX_TABLES {
            return Err(SqlError::too_many_tables(MAX_TABLES));
        }
        self.tables.push(name.to_owned());
        Ok(())
    }

    fn table(&mut self, factor: &mut TableFactor) -> Result<Scope> {
        let TableFactor::Table {
            name,
            alias,
            args,
            with_hints,
            version,
            with_ordinality,
            partitions,
            json_path,
            sample,
            index_hints,
        } = factor
        else {
            return unsupported("this kind of table");
        };
        refuse(args.is_some() || *with_ordinality, "table functions")?;
        refuse(!with_hints.is_empty() || version.is_some(), "WITH (…)")?;
        refuse(!partitions.is_empty(), "PARTITION")?;
        refuse(json_path.is_some(), "JSON paths")?;
        refuse(sample.is_some(), "TABLESAMPLE")?;
        refuse(
            !index_hints.is_empty(),
            "USE INDEX, FORCE INDEX, IGNORE INDEX",
        )?;
        let idents = parts(name)?;
        let (schema, table) = match idents[..] {
            [table] => (None, table.value.to_lowercase()),
            [schema, table] => (
                Some(schema.value.to_lowercase()),
                table.value.to_lowercase(),
            ),
            _ => return unsupported("names of three parts"),
        };
        if let Some(alias) = alias {
            refuse(!alias.columns.is_empty(), "column names of a table's alias")?;
            self.table_alias(alias)?;
        }
        let alias_name = alias
            .as_ref()
            .map_or_else(|| table.clone(), |a| a.name.value.clone());
        self.add_table(&alias_name)?;
        let common = self.ctes.iter().rfind(|known| known.name == table);
        if let (None, Some(common)) = (&schema, common) {
            self.expansion.name(common)?;
            let scope = Scope::of_table(&alias_name, common.columns.clone());
            *name = ObjectName(vec![ObjectNamePart::Identifier(Ident::with_quote(
                '"', table,
            ))]);
            return Ok(scope);
        }
        let schema = match (schema, self.environment.current_schema()) {
            (Some(schema), _) => schema,
            (None, Some(schema)) => schema.to_owned(),
            (None, None) => return Err(SqlError::no_schema_selected()),
        };
        let columns = self.environment.columns(&schema, &table)?;
        let scope = Scope::of_table(&alias_name, columns);
        let ndp_hint = self.take_hint(&alias_name, HintKind::Pushdown);
        let join_filter_hint = self.take_hint(&alias_name, HintKind::JoinFilter);
        let number = self.accesses.len();
        let unique = format!("{table}{ACCESS_SEPARATOR}{number}");
        *name = ObjectName(vec![
            ObjectNamePart::Identifier(Ident::with_quote('"', &schema)),
            ObjectNamePart::Identifier(Ident::with_quote('"', unique)),
        ]);
        *alias = Some(TableAlias {
            explicit: true,
            name: Ident::with_quote('"', &alias_name),
            columns: Vec::new(),
            at: None,
        });
        let select = self.current_select;
        self.accesses.push(TableAccess {
            select,
            schema,
            table,
            alias: alias_name,
            ndp_hint,
            join_filter_hint,
            straight: false,
            indexes: IndexChoice::default(),
        });
        Ok(scope)
    }
}

/// Makes a UNION the only table of a SELECT, which gives its columns their types.
fn hide_union(query: &mut Query) -> Result<()> {
    if !matches!(query.body.as_ref(), SetExpr::SetOperation { .. }) {
        return Ok(());
    }
    let outer = expression::empty_query()?.body;
    let body = std::mem::replace(&mut query.body, outer);
    if let SetExpr::Select(outer) = query.body.as_mut() {
        union::hide(body, outer);
    }
    Ok(())
}

fn null() -> Expr {
    Expr::value(Value::Null)
}

fn is_column(expr: &Expr) -> bool {
    matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_))
}

fn is_dual(from: &[TableWithJoins]) -> bool {
    match from {
        [
            TableWithJoins {
                relation:
                    TableFactor::Table {
                        name, alias: None, ..
                    },
                joins,
            },
        ] => joins.is_empty() && name.to_string().eq_ignore_ascii_case("dual"),
        _ => false,
    }
}

/// What MySQL names the column of an expression without alias.
fn shown_name(expr: &Expr, text: &str) -> String {
    match expr {
        Expr::Identifier(ident) if !ident.value.starts_with('@') => ident.value.clone(),
        Expr::CompoundIdentifier(idents) if !text.starts_with('@') => {
            idents.last().map(|i| i.value.clone()).unwrap_or_default()
        }
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(s) | Value::DoubleQuotedString(s) => s.clone(),
            Value::Null => "NULL".to_owned(),
            _ => text.to_owned(),
        },
        _ => text.to_owned(),
    }
}

/// Bytes of the name of a column that was given none: as many as MySQL has. Clients keep no room for more.
const MAX_SHOWN: usize = 256;

/// As much of a name as is shown.
fn shortened(mut name: String) -> String {
    name.truncate(name.floor_char_boundary(MAX_SHOWN));
    name
}

fn qualified_wildcard(kind: &mut SelectItemQualifiedWildcardKind) -> Result<()> {
    let SelectItemQualifiedWildcardKind::ObjectName(name) = kind else {
        return unsupported("* of an expression");
    };
    let Some(table) = parts(name)?.last().map(|ident| normal(ident)) else {
        return unsupported("* of nothing");
    };
    *name = ObjectName(vec![ObjectNamePart::Identifier(table)]);
    Ok(())
}

/// The hints NDP_PUSHDOWN(t) and NO_NDP_PUSHDOWN(t); others than these and MAX_EXECUTION_TIME(n), which the
/// session looks for, are refused.
fn hints(select: &Select) -> Result<Vec<TableHint>> {
    let mut found = Vec::new();
    for (name, tables) in hints_of(select)? {
        let (kind, yes) = match name.as_str() {
            "NDP_PUSHDOWN" => (HintKind::Pushdown, true),
            "NO_NDP_PUSHDOWN" => (HintKind::Pushdown, false),
            "NDP_JOIN_FILTER" => (HintKind::JoinFilter, true),
            "NO_NDP_JOIN_FILTER" => (HintKind::JoinFilter, false),
            TIME_LIMIT if tables.trim().parse::<u64>().is_ok() => continue,
            other => return unsupported(format!("the hint {other}")),
        };
        for table in tables.split(',') {
            let table = table.trim().trim_matches('`').to_lowercase();
            found.push(TableHint { table, kind, yes });
        }
    }
    Ok(found)
}

/// The hints of a SELECT: names in upper case, and what stands in the parentheses.
///
/// # Errors
/// 1235 for what is no hint.
pub(crate) fn hints_of(select: &Select) -> Result<Vec<(String, &str)>> {
    let mut found = Vec::new();
    for hint in &select.optimizer_hints {
        let mut rest = hint.text.trim();
        while !rest.is_empty() {
            let parts = rest.split_once('(');
            let parts = parts.and_then(|(name, tail)| Some((name, tail.split_once(')')?)));
            let Some((name, (arguments, tail))) = parts else {
                return unsupported(format!("the hint {rest}"));
            };
            found.push((name.trim().to_ascii_uppercase(), arguments));
            rest = tail.trim();
        }
    }
    Ok(found)
}
