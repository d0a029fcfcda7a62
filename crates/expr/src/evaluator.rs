//! What interpreter and JIT have in common: evaluating a program over many records of one page.

use perigee_value::ValueRef;

use crate::Type;

/// Values of one expression over a run of records, one lane per record.
#[derive(Clone, Debug, PartialEq)]
pub struct Vector {
    /// The lanes; a NULL lane holds zero or an empty string.
    pub lanes: Lanes,
    /// One byte per lane, 1 = not NULL; `None` if no lane is NULL.
    pub valid: Option<Vec<u8>>,
}

/// Physical form of a vector, given by the expression's type ([`Lanes::for_type`]).
#[derive(Clone, Debug, PartialEq)]
pub enum Lanes {
    /// Int, Bool (0 or 1), Date, DateTime, Time, and Decimal of at most 18 digits.
    I64(Vec<i64>),
    /// UInt.
    U64(Vec<u64>),
    /// Decimal of more than 18 digits.
    I128(Vec<i128>),
    /// Double.
    F64(Vec<f64>),
    /// String and Collated: lane `i` is `data[ends[i - 1]..ends[i]]`.
    Bytes {
        /// End of each lane in `data`.
        ends: Vec<u32>,
        /// All strings, one after the other.
        data: Vec<u8>,
    },
}

impl Vector {
    /// A vector without lanes for values of `ty`.
    #[must_use]
    pub fn new(ty: Type) -> Self {
        Self {
            lanes: Lanes::for_type(ty),
            valid: None,
        }
    }

    /// Number of lanes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lanes.len()
    }

    /// True if there is no lane.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Removes all lanes and keeps the memory.
    pub fn clear(&mut self) {
        self.valid = None;
        match &mut self.lanes {
            Lanes::I64(v) => v.clear(),
            Lanes::U64(v) => v.clear(),
            Lanes::I128(v) => v.clear(),
            Lanes::F64(v) => v.clear(),
            Lanes::Bytes { ends, data } => {
                ends.clear();
                data.clear();
            }
        }
    }

    /// True if the lane is NULL.
    ///
    /// # Panics
    /// If there is no such lane.
    #[must_use]
    pub fn is_null(&self, lane: usize) -> bool {
        self.valid.as_ref().is_some_and(|valid| valid[lane] == 0)
    }

    /// Appends a lane.
    ///
    /// # Panics
    /// If the value has not the form of the lanes.
    pub fn push(&mut self, value: ValueRef<'_>) {
        let len = self.len();
        match &mut self.valid {
            Some(valid) => valid.push(u8::from(!value.is_null())),
            None if value.is_null() => {
                let mut valid = vec![1; len];
                valid.push(0);
                self.valid = Some(valid);
            }
            None => {}
        }
        match (&mut self.lanes, value) {
            (Lanes::I64(v), ValueRef::Null) => v.push(0),
            (Lanes::I64(v), ValueRef::Int(x) | ValueRef::DateTime(x) | ValueRef::Time(x)) => {
                v.push(x);
            }
            (Lanes::I64(v), ValueRef::Date(x)) => v.push(i64::from(x)),
            (Lanes::I64(v), ValueRef::Bool(x)) => v.push(i64::from(x)),
            (Lanes::I64(v), ValueRef::Decimal(x)) => v.push(x as i64),
            (Lanes::U64(v), ValueRef::Null) => v.push(0),
            (Lanes::U64(v), ValueRef::UInt(x)) => v.push(x),
            (Lanes::I128(v), ValueRef::Null) => v.push(0),
            (Lanes::I128(v), ValueRef::Decimal(x)) => v.push(x),
            (Lanes::F64(v), ValueRef::Null) => v.push(0.0),
            (Lanes::F64(v), ValueRef::Double(x)) => v.push(x),
            (Lanes::Bytes { ends, data }, ValueRef::Null | ValueRef::String(_)) => {
                if let ValueRef::String(x) = value {
                    data.extend_from_slice(x);
                }
                let end = u32::try_from(data.len()).expect("strings of one page are below 4 GiB");
                ends.push(end);
            }
            (lanes, value) => panic!("E2: {value:?} in a vector of {lanes:?}"),
        }
    }

    /// The value of a lane, of type `ty`, which is the type the vector was made for.
    ///
    /// # Panics
    /// If there is no such lane or `ty` is not its type.
    #[must_use]
    pub fn get(&self, lane: usize, ty: Type) -> ValueRef<'_> {
        if self.is_null(lane) {
            return ValueRef::Null;
        }
        match (&self.lanes, ty) {
            (Lanes::I64(v), Type::Int) => ValueRef::Int(v[lane]),
            (Lanes::I64(v), Type::Bool) => ValueRef::Bool(v[lane] != 0),
            (Lanes::I64(v), Type::Date) => ValueRef::Date(v[lane] as i32),
            (Lanes::I64(v), Type::DateTime) => ValueRef::DateTime(v[lane]),
            (Lanes::I64(v), Type::Time) => ValueRef::Time(v[lane]),
            (Lanes::I64(v), Type::Decimal { .. }) => ValueRef::Decimal(i128::from(v[lane])),
            (Lanes::I128(v), Type::Decimal { .. }) => ValueRef::Decimal(v[lane]),
            (Lanes::U64(v), Type::UInt) => ValueRef::UInt(v[lane]),
            (Lanes::F64(v), Type::Double) => ValueRef::Double(v[lane]),
            (Lanes::Bytes { ends, data }, Type::String | Type::Collated(_)) => {
                let start = if lane == 0 {
                    0
                } else {
                    ends[lane - 1] as usize
                };
                ValueRef::String(&data[start..ends[lane] as usize])
            }
            (_, ty) => panic!("E2: a vector read as {ty}"),
        }
    }
}

impl Lanes {
    /// Number of lanes.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::I64(v) => v.len(),
            Self::U64(v) => v.len(),
            Self::I128(v) => v.len(),
            Self::F64(v) => v.len(),
            Self::Bytes { ends, .. } => ends.len(),
        }
    }

    /// Bytes of memory that the lanes take.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match self {
            Self::I64(v) => size_of_val(&v[..]),
            Self::U64(v) => size_of_val(&v[..]),
            Self::I128(v) => size_of_val(&v[..]),
            Self::F64(v) => size_of_val(&v[..]),
            Self::Bytes { ends, data } => size_of_val(&ends[..]) + data.len(),
        }
    }

    /// True if there is no lane.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Empty lanes of the form that values of `ty` take.
    #[must_use]
    pub fn for_type(ty: Type) -> Self {
        match ty {
            Type::Decimal { precision, .. } if precision > 18 => Self::I128(Vec::new()),
            Type::Bool
            | Type::Int
            | Type::Date
            | Type::DateTime
            | Type::Time
            | Type::Decimal { .. } => Self::I64(Vec::new()),
            Type::UInt => Self::U64(Vec::new()),
            Type::Double => Self::F64(Vec::new()),
            Type::String | Type::Collated(_) => Self::Bytes {
                ends: Vec::new(),
                data: Vec::new(),
            },
        }
    }
}

/// A program bound to a record layout, ready to run over records of a page.
///
/// `base` is a page or a single record; `records` are offsets of records in it. The caller
/// guarantees that each offset begins a record that the layout's shape accepts
/// (`RecordShape::record_len`), which verified pages give.
pub trait Evaluator: Send + Sync {
    /// For a Bool program: appends to `pass` the offsets of records for which it is true, in
    /// order, and to `failed` those whose evaluation is an error (overflow, range).
    fn filter(&self, base: &[u8], records: &[u16], pass: &mut Vec<u16>, failed: &mut Vec<u16>);

    /// Appends one lane per record to `out`, and to `failed` the positions (in `records`) whose
    /// evaluation is an error; their lanes are NULL.
    fn evaluate(&self, base: &[u8], records: &[u16], out: &mut Vector, failed: &mut Vec<u32>);

    /// Type of the program's value.
    fn result_type(&self) -> Type;
}
