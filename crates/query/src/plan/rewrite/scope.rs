//! The columns that a FROM delivers: what `*` stands for, and whose column a name means where USING and
//! NATURAL make one column of two.
//!
//! DataFusion knows nothing of USING: such a join becomes one with ON, and where it is in scope names
//! without a table get one, and `*` becomes a list.

use std::collections::HashSet;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Ident, JoinConstraint, JoinOperator, ObjectName, Value,
};

use super::{Rewriter, normal, parts, unsupported};
use crate::error::{Result, SqlError};

/// Where errors of USING are.
const CLAUSE: &str = "from clause";

/// A column that a FROM delivers; both names are in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Delivered {
    pub table: String,
    pub column: String,
}

/// The columns of a FROM or of an operand of a join, in the order of `*`.
#[derive(Clone, Debug, Default)]
pub(super) struct Scope {
    pub columns: Vec<Delivered>,
    /// The columns of its tables, each table's in their order; they are not all delivered where some became one.
    tables: Vec<Delivered>,
    /// Columns of several tables became one.
    merged: bool,
}

/// Whose column a name is.
enum Owner<'s> {
    Column(&'s Delivered),
    /// DataFusion finds it, or finds that it is ambiguous.
    Obvious,
    Nobody,
}

/// The kinds of joins there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Inner,
    Left,
    Right,
}

impl Kind {
    fn operator(self, constraint: JoinConstraint) -> JoinOperator {
        match (self, &constraint) {
            (Self::Inner, JoinConstraint::None) => JoinOperator::CrossJoin(constraint),
            (Self::Inner, _) => JoinOperator::Inner(constraint),
            (Self::Left, _) => JoinOperator::Left(constraint),
            (Self::Right, _) => JoinOperator::Right(constraint),
        }
    }
}

impl Delivered {
    /// Its qualified name.
    pub fn name(&self) -> Expr {
        let ident = |name: &str| Ident::with_quote('"', name);
        Expr::CompoundIdentifier(vec![ident(&self.table), ident(&self.column)])
    }
}

impl Scope {
    /// The columns of one table.
    pub fn of_table(table: &str, columns: Vec<String>) -> Self {
        let columns = columns.into_iter().map(|column| Delivered {
            table: table.to_owned(),
            column,
        });
        let columns: Vec<_> = columns.collect();
        Self {
            tables: columns.clone(),
            columns,
            merged: false,
        }
    }

    /// The columns of both.
    pub fn beside(mut self, right: Self) -> Self {
        self.columns.extend(right.columns);
        self.tables.extend(right.tables);
        self.merged |= right.merged;
        self
    }

    /// What `*` stands for, if that is not all columns of all tables.
    pub fn star(&self) -> Option<&[Delivered]> {
        self.merged.then_some(&self.columns[..])
    }

    /// Names of the columns of a table.
    pub fn names_of<'s>(&'s self, table: &'s str) -> impl Iterator<Item = &'s str> {
        let own = self.tables.iter().filter(move |own| own.table == table);
        own.map(|own| own.column.as_str())
    }

    /// The two operands of a join by USING, whose columns `names` become one: that of the right operand
    /// where rows of the left one may be missing.
    fn merge(self, right: Self, names: &[String], kind: Kind) -> Self {
        let tables = [&self.tables[..], &right.tables].concat();
        let (first, second) = match kind {
            Kind::Right => (right, self),
            Kind::Inner | Kind::Left => (self, right),
        };
        let is_merged = |column: &Delivered| names.contains(&column.column);
        let (common, rest): (Vec<_>, Vec<_>) = first.columns.into_iter().partition(is_merged);
        let others = second.columns.into_iter().filter(|c| !is_merged(c));
        Self {
            columns: common.into_iter().chain(rest).chain(others).collect(),
            tables,
            merged: true,
        }
    }

    /// The only column with a name.
    fn only(&self, name: &str) -> Result<&Delivered> {
        let mut found = self.columns.iter().filter(|column| column.column == name);
        match (found.next(), found.next()) {
            (Some(only), None) => Ok(only),
            (None, _) => Err(SqlError::unknown_column(name, CLAUSE)),
            (Some(_), Some(_)) => Err(SqlError::ambiguous_column(name, CLAUSE)),
        }
    }

    fn owner(&self, name: &str) -> Owner<'_> {
        match self.only(name) {
            Ok(column) if self.merged => Owner::Column(column),
            Err(error) if error.errno == SqlError::unknown_column(name, CLAUSE).errno => {
                Owner::Nobody
            }
            _ => Owner::Obvious,
        }
    }
}

impl Rewriter<'_> {
    /// The qualified name of a column that is named without its table, if it needs one.
    pub(super) fn qualified(&self, name: &str) -> Option<Expr> {
        if self.hidden.contains(name) {
            return None;
        }
        for scope in self.scopes.iter().rev() {
            match scope.owner(name) {
                Owner::Column(column) => return Some(column.name()),
                Owner::Obvious => return None,
                Owner::Nobody => {}
            }
        }
        None
    }

    /// Rewrites a join; returns what it delivers.
    pub(super) fn join(
        &mut self,
        operator: &mut JoinOperator,
        left: Scope,
        right: Scope,
    ) -> Result<Scope> {
        let (kind, constraint) =
            match std::mem::replace(operator, Kind::Inner.operator(JoinConstraint::None)) {
                JoinOperator::Join(c) | JoinOperator::Inner(c) | JoinOperator::CrossJoin(c) => {
                    (Kind::Inner, c)
                }
                JoinOperator::Left(c) | JoinOperator::LeftOuter(c) => (Kind::Left, c),
                JoinOperator::Right(c) | JoinOperator::RightOuter(c) => (Kind::Right, c),
                JoinOperator::StraightJoin(_) => return unsupported("STRAIGHT_JOIN"),
                _ => return unsupported("this kind of join"),
            };
        let names = match constraint {
            JoinConstraint::None if kind == Kind::Inner => return Ok(left.beside(right)),
            JoinConstraint::None => return Err(SqlError::syntax("", 1)),
            JoinConstraint::On(mut condition) => {
                let both = left.beside(right);
                self.within(&both, |rewriter| rewriter.condition(&mut condition))?;
                *operator = kind.operator(JoinConstraint::On(condition));
                return Ok(both);
            }
            JoinConstraint::Using(columns) => using_names(&columns)?,
            JoinConstraint::Natural => common_names(&left, &right),
        };
        let mut condition = None;
        for name in &names {
            let equal = Expr::BinaryOp {
                left: Box::new(left.only(name)?.name()),
                op: BinaryOperator::Eq,
                right: Box::new(right.only(name)?.name()),
            };
            condition = Some(match condition.take() {
                None => equal,
                Some(others) => Expr::BinaryOp {
                    left: Box::new(others),
                    op: BinaryOperator::And,
                    right: Box::new(equal),
                },
            });
        }
        let constraint = match condition {
            Some(mut condition) => {
                self.condition(&mut condition)?;
                JoinConstraint::On(condition)
            }
            None if kind == Kind::Inner => JoinConstraint::None,
            None => JoinConstraint::On(Expr::value(Value::Boolean(true))),
        };
        *operator = kind.operator(constraint);
        Ok(left.merge(right, &names, kind))
    }

    /// Does something with names that are looked for in a scope first.
    fn within<T>(&mut self, scope: &Scope, work: impl FnOnce(&mut Self) -> T) -> T {
        let from = self.scopes.last_mut().map(std::mem::take);
        if let Some(last) = self.scopes.last_mut() {
            last.clone_from(scope);
        }
        let done = work(self);
        if let (Some(last), Some(from)) = (self.scopes.last_mut(), from) {
            *last = from;
        }
        done
    }
}

/// The names of USING, each once.
fn using_names(columns: &[ObjectName]) -> Result<Vec<String>> {
    let mut names = Vec::with_capacity(columns.len());
    for column in columns {
        let [ident] = parts(column)?[..] else {
            return unsupported("USING with qualified names");
        };
        let name = normal(ident).value;
        if !names.contains(&name) {
            names.push(name);
        }
    }
    Ok(names)
}

/// The names that both operands of a NATURAL join have.
fn common_names(left: &Scope, right: &Scope) -> Vec<String> {
    let of_right: HashSet<&str> = right.columns.iter().map(|c| c.column.as_str()).collect();
    let mut seen = HashSet::new();
    let of_left = left.columns.iter().map(|c| c.column.as_str());
    let common = of_left.filter(|name| of_right.contains(name) && seen.insert(*name));
    common.map(str::to_owned).collect()
}
