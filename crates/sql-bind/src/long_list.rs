//! `x IN (…)` with a long list that the environment knows by a name: each value is compared as if it stood alone, but
//! none becomes an expression that stays.

use std::borrow::Cow;
use std::sync::Arc;

use perigee_expr::functions::Value;
use perigee_expr::scalar::{Context, Domain, Listed, Node, Nowhere, Scalar};
use perigee_sql_type::SqlType;
use perigee_value::ColumnType;
use sqlparser::ast::Expr;

use crate::comparison::{Compared, is_exact, same};
use crate::error::unsupported;
use crate::expression::joined;
use crate::{BindError, Binder, Result};

/// Values between two looks whether the statement was stopped.
const CHECKED: usize = 4096;

/// A literal of a long list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListItem<'l> {
    /// A whole number.
    Integer(i64),
    /// A string.
    Text(Cow<'l, str>),
}

/// The literals of a long list, in order.
pub type ListItems<'l> = Box<dyn Iterator<Item = ListItem<'l>> + 'l>;

impl ListItem<'_> {
    fn literal(&self) -> Scalar {
        match self {
            Self::Integer(number) => crate::literal::int(*number),
            Self::Text(text) => crate::literal::text(text),
        }
    }

    /// The value, if it is compared with an operand of a type as it is written.
    fn as_written(&self, operand: &SqlType) -> Option<Value<'_>> {
        match self {
            Self::Integer(number) => {
                let is_plain = is_exact(operand)
                    && operand.members.is_none()
                    && operand.column != Some(ColumnType::Year);
                is_plain.then_some(Value::Int(*number))
            }
            Self::Text(text) => {
                let is_plain = operand.is_text() && !operand.is_json();
                is_plain.then(|| Value::text(&**text))
            }
        }
    }
}

/// Values that are compared with one operand in one domain.
struct Group {
    domain: Domain,
    operand: Scalar,
    values: Listed,
}

impl Group {
    fn push(&mut self, value: &Value<'_>) -> Result<()> {
        match self.values.push(self.domain, value) {
            true => Ok(()),
            false => unsupported("a list of so many values like these"),
        }
    }
}

impl Binder<'_> {
    /// `x IN` the list of this name; `None` if there is none.
    pub(crate) fn in_long_list(&self, operand: &Expr, list: &[Expr]) -> Result<Option<Scalar>> {
        let [Expr::Identifier(name)] = list else {
            return Ok(None);
        };
        let Some(items) = self.environment.long_list(&name.value) else {
            return Ok(None);
        };
        let operand = self.repeated(self.operand(operand)?);
        let place = operand.place();
        let mut groups: Vec<Group> = Vec::new();
        for (number, item) in items.enumerate() {
            if number.is_multiple_of(CHECKED) {
                self.environment.check()?;
            }
            let as_written = item.as_written(&place.ty);
            if let (Some(value), Some(group)) = (as_written, groups.first_mut()) {
                group.push(&value)?;
                continue;
            }
            let Compared { domain, both } = self.compared(place.clone(), item.literal())?;
            let [left, right] = both;
            let is_own = |group: &&mut Group| group.domain == domain && same(&group.operand, &left);
            match groups.iter_mut().find(is_own) {
                Some(group) => group.push(&constant(&right)?)?,
                None => {
                    let mut group = Group {
                        domain,
                        operand: left,
                        values: Listed::default(),
                    };
                    group.push(&constant(&right)?)?;
                    groups.push(group);
                }
            }
        }
        let ty = SqlType::truth().nullable(place.ty.nullable);
        let listed = groups.into_iter().map(|group| {
            let values = Arc::new(group.values.sorted());
            let node = Node::Listed(group.domain, Box::new(group.operand), values);
            Scalar::new(node, ty.clone())
        });
        let any = listed.reduce(|left, right| joined(left, right, false));
        let any = any.ok_or_else(|| BindError::NotSupported("an empty IN list".into()))?;
        Ok(Some(operand.within(any)))
    }
}

/// The value of a literal as it is compared.
fn constant(scalar: &Scalar) -> Result<Value<'static>> {
    let value = scalar.evaluate(&[], &Context::new(&Nowhere));
    match value {
        Ok(value) => Ok(value.into_owned()),
        Err(_) => unsupported("a list of so many values like these"),
    }
}
