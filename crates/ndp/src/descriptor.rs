//! [`Descriptor`]: what a scan sends so that a Page Store can reduce pages (taurus-ndp section
//! IV.C.1). To everyone but this crate it is an untyped byte string.

use std::num::NonZeroU64;
use std::ops::Bound;

use bytes::Bytes;
use perigee_expr::{AggregateFunction, Program, Type};
use perigee_types::{DbId, DecodeError, IndexId, Reader, TrxId, Writer, checksum};
use perigee_value::RowLayout;

use crate::NdpError;
use crate::batch::MAX_COLUMNS;
use crate::join::Join;

/// Aggregation of everything that passes the predicate.
#[derive(Clone, Debug, PartialEq)]
pub struct Aggregate {
    /// Grouping expressions; none for a scalar aggregate.
    pub group_by: Vec<Program>,
    /// Functions with their argument; `CountAll` has none.
    pub functions: Vec<(AggregateFunction, Option<Program>)>,
}

/// How storage finds the group of a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GroupMethod {
    /// A table of groups: the fewest steps for each row while all groups fit.
    #[default]
    Hash,
    /// Runs of rows are sorted by their key and merged, in each phase with equal keys merged: more steps for each
    /// row, less memory for each group, and partial rows come in the order of their keys.
    Sort,
}

/// How storage groups, in how much memory. It changes what a scan costs and never its groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Grouping {
    /// How the group of a row is found.
    pub method: GroupMethod,
    /// Most bytes for the groups of a request, if not all that a store has for one.
    pub memory: Option<NonZeroU64>,
}

impl Grouping {
    /// Bytes for the groups of a request where there are so many.
    #[must_use]
    pub fn memory_of(&self, most: usize) -> usize {
        let asked = self
            .memory
            .and_then(|asked| usize::try_from(asked.get()).ok());
        asked.map_or(most, |asked| asked.min(most))
    }
}

/// A range of encoded keys. The bounds are prefixes: an included upper bound takes in every key
/// that starts with it, an excluded lower bound leaves out every key that starts with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRange {
    /// Where it begins.
    pub lower: Bound<Vec<u8>>,
    /// Where it ends.
    pub upper: Bound<Vec<u8>>,
}

/// What is to be done with the pages of a scan.
#[derive(Clone, Debug, PartialEq)]
pub struct Descriptor {
    /// Database of the pages.
    pub db: DbId,
    /// Index whose leaves are scanned.
    pub index: IndexId,
    /// Layout of the leaf records.
    pub layout: RowLayout,
    /// Keys outside are left out: the leaves at either end of a range scan have such keys.
    pub range: KeyRange,
    /// Records of a page are delivered in descending key order.
    pub reverse: bool,
    /// Columns to deliver, in this order; meaningless with an aggregate. They are those of `layout`, or with a join of
    /// joined records ([`Join::layout`]), as are the aggregate's.
    pub projection: Vec<u16>,
    /// A Bool program; records for which it is not true are left out.
    pub predicate: Option<Program>,
    /// What the records that pass are joined with.
    pub join: Option<Join>,
    /// Deliver partial aggregate states instead of rows.
    pub aggregate: Option<Aggregate>,
    /// How the aggregate's groups are found.
    pub grouping: Grouping,
    /// Low watermark of the read view: transactions below it are visible, whatever they did.
    pub watermark: TrxId,
}

impl KeyRange {
    /// Every key.
    pub const ALL: Self = Self {
        lower: Bound::Unbounded,
        upper: Bound::Unbounded,
    };
}

/// Greatest version of the wire form: 1 groups by hashing in what memory the store has, and sums no doubles; 2 joins
/// nothing.
pub const DESCRIPTOR_VERSION: u8 = 3;
const MAGIC: [u8; 4] = *b"PNDD";
/// Magic, checksum, version.
const HEADER_LEN: usize = 9;
/// Greatest length of an encoded descriptor: many long IN lists.
pub const MAX_DESCRIPTOR_LEN: usize = 32 << 20;
/// Greatest number of grouping expressions, and of functions, of an aggregation.
pub const MAX_AGGREGATES: usize = 1024;

impl Descriptor {
    /// A scan of whole pages that delivers nothing but row counts; set the public fields for more.
    #[must_use]
    pub fn new(db: DbId, index: IndexId, layout: RowLayout, watermark: TrxId) -> Self {
        Self {
            db,
            index,
            layout,
            range: KeyRange::ALL,
            reverse: false,
            projection: Vec::new(),
            predicate: None,
            join: None,
            aggregate: None,
            grouping: Grouping::default(),
            watermark,
        }
    }

    /// The least version of the wire form that says all of it, which is the one that it is written in.
    #[must_use]
    pub fn version(&self) -> u8 {
        let sums_doubles = self.aggregate.iter().any(Aggregate::sums_doubles);
        match sums_doubles || self.grouping != Grouping::default() {
            _ if self.join.is_some() => 3,
            true => 2,
            false => 1,
        }
    }

    /// The programs over what is delivered or aggregated: records of [`Descriptor::row_layout`].
    pub(crate) fn row_programs(&self) -> impl Iterator<Item = &Program> {
        let join = self.join.iter();
        let condition = join.filter_map(|join| join.condition.as_ref());
        condition.chain(self.aggregate.iter().flat_map(Aggregate::programs))
    }

    /// The layout of what is delivered or aggregated: joined records, or those of the scan.
    ///
    /// # Errors
    /// [`NdpError::Descriptor`] if a join does not fit the scan's layout.
    pub fn row_layout(&self) -> Result<RowLayout, NdpError> {
        match &self.join {
            Some(join) => join.layout(&self.layout),
            None => Ok(self.layout.clone()),
        }
    }

    /// The wire form: `docs/format/descriptor.md`.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        let mut w = Writer::new();
        let version = self.version();
        w.raw(&MAGIC).u32(0).u8(version);
        w.u32(self.db.0).u32(self.index.0).u64(self.watermark.0);
        w.u8(u8::from(self.reverse));
        self.layout.encode(&mut w);
        encode_bound(&self.range.lower, &mut w);
        encode_bound(&self.range.upper, &mut w);
        w.u16(self.projection.len() as u16);
        for column in &self.projection {
            w.u16(*column);
        }
        encode_program(self.predicate.as_ref(), &mut w);
        w.u8(u8::from(self.aggregate.is_some()));
        if let Some(Aggregate {
            group_by,
            functions,
        }) = &self.aggregate
        {
            w.u16(group_by.len() as u16).u16(functions.len() as u16);
            for program in group_by {
                program.encode(&mut w);
            }
            for (function, argument) in functions {
                w.u8(function_code(*function));
                encode_program(argument.as_ref(), &mut w);
            }
        }
        if version >= 2 {
            w.u8(match self.grouping.method {
                GroupMethod::Hash => 1,
                GroupMethod::Sort => 2,
            });
            w.u64(self.grouping.memory.map_or(0, NonZeroU64::get));
        }
        if let Some(join) = &self.join {
            join.encode(&mut w);
        }
        let mut bytes = w.into_bytes();
        let crc = checksum(&bytes[8..]);
        bytes[4..8].copy_from_slice(&crc.to_le_bytes());
        bytes.into()
    }

    /// Reads the wire form and validates everything in it.
    ///
    /// # Errors
    /// [`NdpError::UnknownVersion`] if it is of another version than this program knows;
    /// [`NdpError::Descriptor`] if anything else is wrong with it.
    pub fn decode(bytes: &[u8]) -> Result<Self, NdpError> {
        let invalid = |what: &str| NdpError::Descriptor {
            what: what.to_owned(),
        };
        if bytes.len() < HEADER_LEN || bytes.len() > MAX_DESCRIPTOR_LEN {
            return Err(invalid("its length is out of bounds"));
        }
        if bytes[..4] != MAGIC {
            return Err(invalid("no magic number"));
        }
        if bytes[4..8] != checksum(&bytes[8..]).to_le_bytes() {
            return Err(invalid("checksum does not match"));
        }
        let version = bytes[8];
        if !(1..=DESCRIPTOR_VERSION).contains(&version) {
            return Err(NdpError::UnknownVersion {
                found: version,
                known: DESCRIPTOR_VERSION,
            });
        }
        let decoded = Self::decode_body(version, &bytes[HEADER_LEN..]);
        let descriptor = decoded.map_err(|e| NdpError::Descriptor {
            what: e.to_string(),
        })?;
        descriptor.validate()?;
        // A batch names the descriptor by the hash of its bytes, so there is one way to write it.
        if descriptor.version() != version {
            return Err(invalid("it is not of the version that it says"));
        }
        Ok(descriptor)
    }

    fn decode_body(version: u8, bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut r = Reader::new(bytes, "descriptor");
        let (db, index) = (DbId(r.u32()?), IndexId(r.u32()?));
        let watermark = TrxId(r.u64()?);
        let reverse = decode_flag(&mut r)?;
        let layout = RowLayout::decode(&mut r)?;
        let range = KeyRange {
            lower: decode_bound(&mut r)?,
            upper: decode_bound(&mut r)?,
        };
        let columns = r.u16()?;
        let projection = (0..columns).map(|_| r.u16()).collect::<Result<_, _>>()?;
        let predicate = decode_program(&mut r)?;
        let aggregate = if decode_flag(&mut r)? {
            let (groups, functions) = (r.u16()?, r.u16()?);
            let group_by = (0..groups)
                .map(|_| Program::decode(&mut r))
                .collect::<Result<_, DecodeError>>()?;
            let functions = (0..functions)
                .map(|_| Ok((decode_function(&mut r)?, decode_program(&mut r)?)))
                .collect::<Result<_, DecodeError>>()?;
            Some(Aggregate {
                group_by,
                functions,
            })
        } else {
            None
        };
        let grouping = match version {
            1 => Grouping::default(),
            _ => decode_grouping(&mut r)?,
        };
        let join = match version {
            3 => Some(Join::decode(&mut r)?),
            _ => None,
        };
        r.finish()?;
        Ok(Self {
            db,
            index,
            layout,
            range,
            reverse,
            projection,
            predicate,
            join,
            aggregate,
            grouping,
            watermark,
        })
    }

    /// Checks that it describes something that storage does: programs against the layout,
    /// column numbers, argument types, limits.
    pub fn validate(&self) -> Result<(), NdpError> {
        let invalid = |what: String| Err(NdpError::Descriptor { what });
        let mut w = Writer::new();
        self.layout.encode(&mut w);
        let layout = w.into_bytes();
        if RowLayout::decode(&mut Reader::new(&layout, "layout")).as_ref() != Ok(&self.layout) {
            return invalid("its layout does not follow from the column types".to_owned());
        }
        let rows = match &self.join {
            Some(join) => &join.validate(&self.layout)?,
            None => &self.layout,
        };
        let columns = rows.columns.len();
        if self.projection.len() > MAX_COLUMNS {
            return invalid(format!("{} columns are projected", self.projection.len()));
        }
        if let Some(column) = self.projection.iter().find(|c| usize::from(**c) >= columns) {
            return invalid(format!("column {column} of {columns} is projected"));
        }
        if self.watermark > TrxId::MAX {
            return invalid(format!("watermark {} is no transaction id", self.watermark));
        }
        let over_scan = self.predicate.iter().map(|program| (program, &self.layout));
        for (program, layout) in over_scan.chain(self.row_programs().map(|p| (p, rows))) {
            if let Err(error) = program.check(layout) {
                return invalid(error.to_string());
            }
        }
        if let Some(predicate) = &self.predicate
            && predicate.result_type() != Type::Bool
        {
            return invalid("its predicate is no condition".to_owned());
        }
        let groups = |aggregate: &Aggregate| !aggregate.group_by.is_empty();
        if self.grouping != Grouping::default() && !self.aggregate.as_ref().is_some_and(groups) {
            return invalid("it says how to group and has no groups".to_owned());
        }
        self.aggregate.as_ref().map_or(Ok(()), Aggregate::validate)
    }

    /// Names the descriptor: in the echo that batches carry, and in descriptor caches. Whoever
    /// caches must compare the bytes too: tenants choose their descriptors.
    #[must_use]
    pub fn hash(&self) -> u64 {
        hash_bytes(&self.encode())
    }
}

/// [`Descriptor::hash`] of an encoded descriptor: FNV-1a over its bytes, 64 bits.
#[must_use]
pub fn hash_bytes(encoded: &[u8]) -> u64 {
    encoded.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

impl Aggregate {
    /// All its programs.
    pub fn programs(&self) -> impl Iterator<Item = &Program> {
        let arguments = self
            .functions
            .iter()
            .filter_map(|(_, argument)| argument.as_ref());
        self.group_by.iter().chain(arguments)
    }

    fn sums_doubles(&self) -> bool {
        self.functions.iter().any(|(function, argument)| {
            let ty = argument.as_ref().map(Program::result_type);
            *function == AggregateFunction::Sum && ty == Some(Type::Double)
        })
    }

    fn validate(&self) -> Result<(), NdpError> {
        let invalid = |what: String| Err(NdpError::Descriptor { what });
        let (groups, functions) = (self.group_by.len(), self.functions.len());
        if groups + functions == 0 || groups > MAX_AGGREGATES || functions > MAX_AGGREGATES {
            return invalid(format!(
                "{groups} grouping expressions, {functions} functions"
            ));
        }
        for (function, argument) in &self.functions {
            let argument = argument.as_ref().map(Program::result_type);
            let fits = match (function, argument) {
                (AggregateFunction::CountAll, argument) => argument.is_none(),
                (_, None) => false,
                (AggregateFunction::Count, _) => true,
                (AggregateFunction::Sum, Some(ty)) => matches!(
                    ty,
                    Type::Int | Type::UInt | Type::Decimal { .. } | Type::Double
                ),
                (AggregateFunction::Min | AggregateFunction::Max, Some(_)) => true,
            };
            if !fits {
                return invalid(format!(
                    "{function:?} over {argument:?} is not done in storage"
                ));
            }
        }
        Ok(())
    }
}

fn function_code(function: AggregateFunction) -> u8 {
    match function {
        AggregateFunction::CountAll => 1,
        AggregateFunction::Count => 2,
        AggregateFunction::Sum => 3,
        AggregateFunction::Min => 4,
        AggregateFunction::Max => 5,
    }
}

fn decode_function(r: &mut Reader<'_>) -> Result<AggregateFunction, DecodeError> {
    Ok(match r.u8()? {
        1 => AggregateFunction::CountAll,
        2 => AggregateFunction::Count,
        3 => AggregateFunction::Sum,
        4 => AggregateFunction::Min,
        5 => AggregateFunction::Max,
        _ => return Err(DecodeError::new("descriptor: aggregate function")),
    })
}

fn decode_grouping(r: &mut Reader<'_>) -> Result<Grouping, DecodeError> {
    let method = match r.u8()? {
        1 => GroupMethod::Hash,
        2 => GroupMethod::Sort,
        _ => return Err(DecodeError::new("descriptor: grouping")),
    };
    let memory = NonZeroU64::new(r.u64()?);
    Ok(Grouping { method, memory })
}

fn encode_program(program: Option<&Program>, w: &mut Writer) {
    w.u8(u8::from(program.is_some()));
    if let Some(program) = program {
        program.encode(w);
    }
}

fn decode_program(r: &mut Reader<'_>) -> Result<Option<Program>, DecodeError> {
    decode_flag(r)?.then(|| Program::decode(r)).transpose()
}

fn encode_bound(bound: &Bound<Vec<u8>>, w: &mut Writer) {
    match bound {
        Bound::Unbounded => w.u8(0),
        Bound::Included(prefix) => w.u8(1).bytes(prefix),
        Bound::Excluded(prefix) => w.u8(2).bytes(prefix),
    };
}

fn decode_bound(r: &mut Reader<'_>) -> Result<Bound<Vec<u8>>, DecodeError> {
    Ok(match r.u8()? {
        0 => Bound::Unbounded,
        1 => Bound::Included(r.bytes()?.to_vec()),
        2 => Bound::Excluded(r.bytes()?.to_vec()),
        _ => return Err(DecodeError::new("descriptor: key range")),
    })
}

fn decode_flag(r: &mut Reader<'_>) -> Result<bool, DecodeError> {
    match r.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(DecodeError::new("descriptor: flag")),
    }
}
