//! `x IN (…)` with a list of many literals, which [`crate::parse::LongLists`] cut out of the text: one function whose
//! values are an array. Each statement has such functions of its own.
//!
//! [`LongList`] stands in a plan until types are known, [`Members`] afterwards. The values are kept as rows of Arrow's
//! format, sorted: a few bytes for each, and the same for all types.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use datafusion::arrow::datatypes::{DataType, Float32Type, Float64Type};
use datafusion::arrow::row::{Row, RowConverter, Rows, SortField};
use datafusion::common::{Result as DfResult, internal_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};

use crate::interrupt;

/// What the names of these functions begin with.
const NAME: &str = "mysql_in_list";

/// Values between two looks whether the statement was stopped.
const CHECKED: usize = 4096;

/// The placeholder.
#[derive(Debug)]
pub struct LongList {
    name: String,
    values: ArrayRef,
    signature: Signature,
}

impl LongList {
    /// The list of a statement with this number.
    #[must_use]
    pub fn new(number: usize, values: ArrayRef) -> Self {
        Self {
            name: format!("{NAME}@{number}"),
            values,
            signature: Signature::any(1, Volatility::Immutable),
        }
    }

    /// Its values as they were written: integers or texts.
    #[must_use]
    pub fn values(&self) -> &ArrayRef {
        &self.values
    }
}

impl PartialEq for LongList {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.values, &other.values)
    }
}

impl Eq for LongList {}

impl Hash for LongList {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for LongList {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DfResult<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        internal_err!("Q1: the typing pass left {} in a plan", self.name)
    }
}

/// The function: true if its argument is one of the values.
#[derive(Debug)]
pub struct Members {
    name: String,
    set: Arc<Set>,
    signature: Signature,
}

/// Sorted values.
#[derive(Debug)]
struct Set {
    converter: RowConverter,
    rows: Rows,
    order: Vec<u32>,
    /// True if a value is NULL: what equals no other may equal it.
    has_null: bool,
}

impl Members {
    /// The values of a list as the operand's type has them.
    ///
    /// # Errors
    /// For types that have no order; 1317.
    pub fn new(list: &LongList, values: ArrayRef) -> DfResult<Self> {
        let field = SortField::new(values.data_type().clone());
        let converter = RowConverter::new(vec![field])?;
        let mut rows = converter.empty_rows(values.len(), 0);
        for start in (0..values.len()).step_by(CHECKED) {
            interrupt::check_df()?;
            let part = values.slice(start, CHECKED.min(values.len() - start));
            converter.append(&mut rows, &[one_zero(&part)])?;
        }
        let mut order: Vec<u32> = (0..rows.num_rows() as u32).collect();
        order.sort_unstable_by(|a, b| rows.row(*a as usize).cmp(&rows.row(*b as usize)));
        Ok(Self {
            name: list.name.clone(),
            set: Arc::new(Set {
                converter,
                rows,
                order,
                has_null: values.null_count() > 0,
            }),
            signature: Signature::any(1, Volatility::Immutable),
        })
    }
}

/// Floating-point numbers without the negative zero, which is equal to zero and has another place in Arrow's order.
fn one_zero(values: &ArrayRef) -> ArrayRef {
    match values.data_type() {
        DataType::Float64 => {
            let values = values.as_primitive::<Float64Type>();
            Arc::new(values.unary::<_, Float64Type>(|value| value + 0.0))
        }
        DataType::Float32 => {
            let values = values.as_primitive::<Float32Type>();
            Arc::new(values.unary::<_, Float32Type>(|value| value + 0.0))
        }
        _ => values.clone(),
    }
}

impl PartialEq for Members {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.set, &other.set)
    }
}

impl Eq for Members {}

impl Hash for Members {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for Members {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DfResult<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let [operand] = &args.args[..] else {
            return internal_err!("Q1: {} has one argument", self.name);
        };
        interrupt::check_df()?;
        let operand = operand.to_array(args.number_rows)?;
        let Set {
            converter,
            rows,
            order,
            has_null,
        } = self.set.as_ref();
        let wanted = converter.convert_columns(&[one_zero(&operand)])?;
        let is_member = |wanted: Row<'_>| {
            let found = order.binary_search_by(|at| rows.row(*at as usize).cmp(&wanted));
            found.is_ok()
        };
        let members = wanted.iter().enumerate().map(|(at, wanted)| {
            let is_null = operand.is_null(at);
            let found = !is_null && is_member(wanted);
            (found || !(is_null || *has_null)).then_some(found)
        });
        let members: BooleanArray = members.collect();
        Ok(ColumnarValue::Array(Arc::new(members)))
    }
}
