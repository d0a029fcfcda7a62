//! Builds programs: infers result types by MySQL's rules, inserts the conversions that MySQL makes
//! silently, folds constants, and shares equal nodes.
//!
//! It refuses what this representation cannot say with MySQL's meaning (strings as numbers, dates
//! as numbers, decimals of more than 38 digits in comparisons); the caller keeps such expressions
//! to itself.

use perigee_value::{ColumnType, Datum, RowLayout, decimal, parse_text};

use crate::operations::order_of;
use crate::{
    Comparison, DateField, ExprError, Interpreter, Node, NodeId, Program, Type, validate,
    validate_values,
};

mod numbers;
mod types;

/// Digits that `/` adds to the scale of the dividend (MySQL's `div_precision_increment`).
const DIVISION_DIGITS: u8 = 4;

/// Builds one program node by node.
#[derive(Clone, Debug)]
pub struct Builder {
    nodes: Vec<Node>,
    types: Vec<Type>,
    /// Decimal digits that bound an integer node's magnitude.
    digits: Vec<u8>,
    /// Type and digits of each column that can be used.
    columns: Vec<Option<(Type, u8)>>,
}

impl Builder {
    /// A builder of programs over records of `layout`.
    #[must_use]
    pub fn new(layout: &RowLayout) -> Self {
        let usable = validate::layout_columns(layout);
        let columns = usable
            .into_iter()
            .zip(&layout.columns)
            .map(|(usable, column)| {
                let digits = match column.ty {
                    ColumnType::Int { bytes: 1, .. } => 3,
                    ColumnType::Year => 4,
                    ColumnType::Bit { bits } => perigee_value::bits::digits(bits),
                    ColumnType::Int { bytes: 2, .. } => 5,
                    ColumnType::Int { bytes: 3, .. } => 8,
                    ColumnType::Int { bytes: 4, .. } => 10,
                    _ => types::default_digits(Type::of(column.ty)),
                };
                usable.map(|ty| (ty, digits))
            });
        Self::with_columns(columns.collect())
    }

    /// A builder of programs over rows of values: column `i` has type `columns[i]`.
    #[must_use]
    pub fn over_values(columns: &[Type]) -> Self {
        let columns = columns
            .iter()
            .map(|ty| Some((*ty, types::default_digits(*ty))));
        Self::with_columns(columns.collect())
    }

    fn with_columns(columns: Vec<Option<(Type, u8)>>) -> Self {
        Self {
            nodes: Vec::new(),
            types: Vec::new(),
            digits: Vec::new(),
            columns,
        }
    }

    /// Type of a node.
    #[must_use]
    pub fn ty(&self, id: NodeId) -> Type {
        self.types[usize::from(id.0)]
    }

    /// The node's value if it is a constant.
    #[must_use]
    pub fn as_constant(&self, id: NodeId) -> Option<&Datum> {
        match &self.nodes[usize::from(id.0)] {
            Node::Constant { value, .. } => Some(value),
            _ => None,
        }
    }

    /// The program whose value is `root`, without nodes that it does not need.
    pub fn finish(self, root: NodeId) -> Result<Program, ExprError> {
        let columns: Vec<_> = self
            .columns
            .iter()
            .map(|column| column.map(|(ty, _)| ty))
            .collect();
        let mut needed = vec![false; self.nodes.len()];
        needed[usize::from(root.0)] = true;
        for (index, node) in self.nodes.iter().enumerate().rev() {
            if needed[index] {
                node.for_each_operand(|operand| needed[usize::from(operand.0)] = true);
            }
        }
        let mut renumbered = vec![NodeId(0); self.nodes.len()];
        let mut nodes = Vec::new();
        for (index, node) in self.nodes.iter().enumerate().take(usize::from(root.0) + 1) {
            if needed[index] {
                renumbered[index] = NodeId(nodes.len() as u16);
                nodes.push(node.with_operands(|id| renumbered[usize::from(id.0)]));
            }
        }
        validate::check(&nodes, &columns)?;
        Ok(Program { nodes })
    }

    // -- leaves ------------------------------------------------------------------------------

    /// A column.
    pub fn column(&mut self, index: u16) -> Result<NodeId, ExprError> {
        let column = self.columns.get(usize::from(index)).copied().flatten();
        let Some((ty, digits)) = column else {
            let node = NodeId(self.nodes.len() as u16);
            return Err(ExprError::Column {
                node,
                column: index,
                ty: Type::String,
            });
        };
        let id = self.push(Node::Column { index, ty })?;
        self.digits[usize::from(id.0)] = digits;
        Ok(id)
    }

    /// A constant of a type; NULL takes any.
    pub fn constant(&mut self, value: Datum, ty: Type) -> Result<NodeId, ExprError> {
        validate::check_constant(&value, ty)?;
        let digits = match value {
            Datum::Int(v) => decimal::digits(i128::from(v)),
            Datum::UInt(v) => decimal::digits(i128::from(v)),
            _ => types::default_digits(ty),
        };
        let id = self.push(Node::Constant { value, ty })?;
        self.digits[usize::from(id.0)] = digits;
        Ok(id)
    }

    /// NULL of a type.
    pub fn null(&mut self, ty: Type) -> Result<NodeId, ExprError> {
        self.constant(Datum::Null, ty)
    }

    /// An integer.
    pub fn int(&mut self, value: i64) -> Result<NodeId, ExprError> {
        self.constant(Datum::Int(value), Type::Int)
    }

    /// A decimal literal: `units` of 10^-`scale`, of no more precision than it needs.
    pub fn decimal(&mut self, units: i128, scale: u8) -> Result<NodeId, ExprError> {
        let precision = decimal::digits(units).max(scale).max(1);
        self.constant(Datum::Decimal(units), Type::Decimal { precision, scale })
    }

    /// A date: days since 1970-01-01.
    pub fn date(&mut self, days: i32) -> Result<NodeId, ExprError> {
        self.constant(Datum::Date(days), Type::Date)
    }

    /// A string.
    pub fn string(&mut self, text: &str) -> Result<NodeId, ExprError> {
        self.constant(Datum::String(text.as_bytes().to_vec()), Type::String)
    }

    // -- truth values ------------------------------------------------------------------------

    /// A comparison. Numbers are compared exactly unless one is a DOUBLE; a string constant is
    /// read as a date if the other side is one.
    pub fn compare(
        &mut self,
        op: Comparison,
        left: NodeId,
        right: NodeId,
    ) -> Result<NodeId, ExprError> {
        let (left, right) = self.comparable(left, right)?;
        self.push(Node::Compare { op, left, right })
    }

    /// `x BETWEEN low AND high`.
    pub fn between(
        &mut self,
        operand: NodeId,
        low: NodeId,
        high: NodeId,
    ) -> Result<NodeId, ExprError> {
        let low = self.compare(Comparison::GreaterOrEqual, operand, low)?;
        let high = self.compare(Comparison::LessOrEqual, operand, high)?;
        self.and(vec![low, high])
    }

    /// AND; numbers are compared with zero.
    pub fn and(&mut self, operands: Vec<NodeId>) -> Result<NodeId, ExprError> {
        let operands = self.conditions(operands, |node| match node {
            Node::And(inner) => Some(inner.clone()),
            _ => None,
        })?;
        if let [single] = operands[..] {
            Ok(single)
        } else {
            self.push(Node::And(operands))
        }
    }

    /// OR; numbers are compared with zero.
    pub fn or(&mut self, operands: Vec<NodeId>) -> Result<NodeId, ExprError> {
        let operands = self.conditions(operands, |node| match node {
            Node::Or(inner) => Some(inner.clone()),
            _ => None,
        })?;
        if let [single] = operands[..] {
            Ok(single)
        } else {
            self.push(Node::Or(operands))
        }
    }

    /// Operands as truth values, nested lists of the same operator spliced in.
    fn conditions(
        &mut self,
        operands: Vec<NodeId>,
        nested: impl Fn(&Node) -> Option<Vec<NodeId>>,
    ) -> Result<Vec<NodeId>, ExprError> {
        let mut flat = Vec::with_capacity(operands.len());
        for operand in operands {
            let operand = self.truth(operand)?;
            match nested(&self.nodes[usize::from(operand.0)]) {
                Some(inner) => flat.extend(inner),
                None => flat.push(operand),
            }
        }
        Ok(flat)
    }

    /// NOT; a number is compared with zero.
    pub fn not(&mut self, operand: NodeId) -> Result<NodeId, ExprError> {
        let operand = self.truth(operand)?;
        self.push(Node::Not(operand))
    }

    /// IS NULL.
    pub fn is_null(&mut self, operand: NodeId) -> Result<NodeId, ExprError> {
        self.push(Node::IsNull(operand))
    }

    /// A value as a truth value: a number is true if it is not zero.
    pub fn truth(&mut self, operand: NodeId) -> Result<NodeId, ExprError> {
        let ty = self.ty(operand);
        let zero = match ty {
            Type::Bool => return Ok(operand),
            Type::Int => Datum::Int(0),
            Type::UInt => Datum::UInt(0),
            Type::Decimal { .. } => Datum::Decimal(0),
            Type::Double => Datum::Double(0.0),
            _ => {
                return Err(ExprError::Operands {
                    what: "truth",
                    left: ty,
                    right: ty,
                });
            }
        };
        let zero = self.constant(zero, ty)?;
        self.push(Node::Compare {
            op: Comparison::NotEqual,
            left: operand,
            right: zero,
        })
    }

    /// `operand IN (constants)`, each with its type; NULL allowed.
    pub fn in_list(
        &mut self,
        operand: NodeId,
        list: &[(Datum, Type)],
    ) -> Result<NodeId, ExprError> {
        let has_null = list.iter().any(|(value, _)| value.is_null());
        let items = || list.iter().filter(|(value, _)| !value.is_null());
        if items().next().is_none() {
            return self.null(Type::Bool);
        }
        // The operand may have to become wider for one item, and then the others as well.
        let mut operand = match self.ty(operand) {
            Type::Bool => self.cast(operand, Type::Int)?,
            _ => operand,
        };
        let mut values = Vec::with_capacity(list.len());
        'widened: loop {
            values.clear();
            for item in items() {
                match self.with_item(operand, item)? {
                    (same, Some(value)) if same == operand => values.push(value),
                    (wider, Some(_)) => {
                        // Ends, because each step has another type or a greater scale.
                        operand = wider;
                        continue 'widened;
                    }
                    (_, None) => {
                        let left = self.ty(operand);
                        return Err(ExprError::Operands {
                            what: "IN",
                            left,
                            right: item.1,
                        });
                    }
                }
            }
            break;
        }
        let ty = self.ty(operand);
        let order = |a: &Datum, b: &Datum| order_of(ty, a.as_ref(), b.as_ref());
        values.sort_by(order);
        values.dedup_by(|a, b| order(a, b).is_eq());
        self.push(Node::In {
            operand,
            list: values,
            has_null,
        })
    }

    /// Operand and constant in a type in which they compare. Leaves no node of the constant
    /// behind, because lists are long.
    fn with_item(
        &mut self,
        operand: NodeId,
        (value, ty): &(Datum, Type),
    ) -> Result<(NodeId, Option<Datum>), ExprError> {
        validate::check_constant(value, *ty)?;
        if self.ty(operand).comparable(*ty) {
            return Ok((operand, Some(value.clone())));
        }
        let len = self.nodes.len();
        let item = self.constant(value.clone(), *ty)?;
        let (wider, item) = self.comparable(operand, item)?;
        let value = self.as_constant(item).cloned();
        if wider == operand {
            self.nodes.truncate(len);
            self.types.truncate(len);
            self.digits.truncate(len);
        }
        Ok((wider, value))
    }

    /// `operand LIKE pattern ESCAPE escape`.
    pub fn like(
        &mut self,
        operand: NodeId,
        pattern: &str,
        escape: char,
    ) -> Result<NodeId, ExprError> {
        self.push(Node::Like {
            operand,
            pattern: pattern.to_owned(),
            escape,
        })
    }

    // -- others ------------------------------------------------------------------------------

    /// EXTRACT, YEAR, MONTH, ...
    pub fn extract(&mut self, field: DateField, operand: NodeId) -> Result<NodeId, ExprError> {
        let id = self.push(Node::Extract { field, operand })?;
        self.digits[usize::from(id.0)] = if field == DateField::Year { 4 } else { 2 };
        Ok(id)
    }

    /// A string as one that compares in another collation; nothing if it does so already.
    pub fn collate(&mut self, operand: NodeId, ty: Type) -> Result<NodeId, ExprError> {
        match self.nodes[usize::from(operand.0)] {
            // Back to what it was.
            Node::Cast { operand, .. } if self.ty(operand) == ty => Ok(operand),
            _ => self.convert(operand, ty),
        }
    }

    /// SUBSTRING with constant positions.
    pub fn substring(
        &mut self,
        operand: NodeId,
        start: i64,
        length: Option<i64>,
    ) -> Result<NodeId, ExprError> {
        self.push(Node::Substring {
            operand,
            start,
            length,
        })
    }

    /// CASE WHEN: values take their common type.
    pub fn case(
        &mut self,
        branches: &[(NodeId, NodeId)],
        otherwise: Option<NodeId>,
    ) -> Result<NodeId, ExprError> {
        let values = branches.iter().map(|(_, value)| *value).chain(otherwise);
        let values: Vec<NodeId> = values.collect();
        let ty = self.common_type(&values)?;
        let mut converted = Vec::with_capacity(branches.len());
        for (condition, value) in branches {
            converted.push((self.truth(*condition)?, self.convert(*value, ty)?));
        }
        let otherwise = otherwise.map(|value| self.convert(value, ty)).transpose()?;
        self.push(Node::Case {
            branches: converted,
            otherwise,
            ty,
        })
    }

    /// IFNULL and COALESCE: the first value that is not NULL.
    pub fn coalesce(&mut self, values: &[NodeId]) -> Result<NodeId, ExprError> {
        let Some((last, others)) = values.split_last() else {
            return self.null(Type::Int);
        };
        let mut branches = Vec::with_capacity(others.len());
        for value in others {
            let null = self.is_null(*value)?;
            branches.push((self.not(null)?, *value));
        }
        if branches.is_empty() {
            return Ok(*last);
        }
        self.case(&branches, Some(*last))
    }

    // -- inside ------------------------------------------------------------------------------

    /// Adds a node, or finds its twin, or the constant that it comes to.
    fn push(&mut self, node: Node) -> Result<NodeId, ExprError> {
        if self.nodes.len() >= usize::from(u16::MAX) {
            return Err(ExprError::NodeCount(self.nodes.len()));
        }
        let node = self.fold(&node).unwrap_or(node);
        if let Some(index) = self.nodes.iter().position(|known| *known == node) {
            return Ok(NodeId(index as u16));
        }
        let ty = crate::program::node_type(&node, &self.types);
        self.digits.push(types::default_digits(ty));
        if let Node::Constant {
            value: Datum::Int(v),
            ..
        } = node
        {
            self.digits[self.nodes.len()] = decimal::digits(i128::from(v));
        }
        self.types.push(ty);
        self.nodes.push(node);
        Ok(NodeId((self.nodes.len() - 1) as u16))
    }

    /// The constant that a node over constants comes to, unless its evaluation is an error (then
    /// it stays, to be an error where it is evaluated) or the node is not valid.
    fn fold(&self, node: &Node) -> Option<Node> {
        let mut nodes = Vec::new();
        let mut ids = Vec::new();
        let mut all = true;
        node.for_each_operand(|id| {
            let operand = &self.nodes[usize::from(id.0)];
            all &= matches!(operand, Node::Constant { .. });
            nodes.push(operand.clone());
            ids.push(id);
        });
        if ids.is_empty() || !all {
            return None;
        }
        let place = |id| {
            ids.iter()
                .position(|known| *known == id)
                .unwrap_or_default()
        };
        nodes.push(node.with_operands(|id| NodeId(place(id) as u16)));
        let program = validate_values(nodes, &[]).ok()?;
        let ty = program.result_type();
        let value = Interpreter::over_values(&program, &[])
            .row(&[])
            .ok()?
            .to_datum();
        Some(Node::Constant { value, ty })
    }

    fn digits_of(&self, id: NodeId) -> u8 {
        self.digits[usize::from(id.0)]
    }

    /// Reads a string constant as the date type that the other side has.
    fn date_of_string(&mut self, text: &[u8]) -> Result<NodeId, ExprError> {
        let ty = ColumnType::DateTime { fsp: 6 };
        let value = parse_text(ty, text).map_err(|_| ExprError::Constant {
            value: Datum::String(text.to_vec()),
            ty: Type::DateTime,
        })?;
        match value {
            Datum::DateTime(micros) if micros % perigee_value::date::DAY_MICROS == 0 => {
                self.date((micros / perigee_value::date::DAY_MICROS) as i32)
            }
            value => self.constant(value, Type::DateTime),
        }
    }

    /// Reads a string constant as the time that the other side is.
    fn time_of_string(&mut self, text: &[u8]) -> Result<NodeId, ExprError> {
        let value = parse_text(ColumnType::Time { fsp: 6 }, text);
        let value = value.map_err(|_| ExprError::Constant {
            value: Datum::String(text.to_vec()),
            ty: Type::Time,
        })?;
        self.constant(value, Type::Time)
    }
}

#[cfg(test)]
mod tests;
