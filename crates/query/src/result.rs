//! What statements give back: result sets and OKs, described as MySQL clients want them, but without
//! a wire format.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{DataType, Field};
use perigee_value::{Collation, ColumnType, Members};

use crate::error::Result;
use crate::functions::cast::fsp_of;
use crate::functions::types::{is_bytes, is_json};
use crate::plan::metadata;

/// A column of a result set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResultColumn {
    /// Name in the result.
    pub name: String,
    /// Name in the table's definition; empty for an expression.
    pub org_name: String,
    /// Table; empty for an expression.
    pub table: String,
    /// Schema of the table; empty for an expression.
    pub schema: String,
    /// Type; `None` for a column of the literal NULL. That of an ENUM is the one of its numbers, while rows
    /// have its texts.
    pub ty: Option<ColumnType>,
    /// The values of an ENUM.
    pub members: Option<Arc<Members>>,
    /// The value is never NULL.
    pub not_null: bool,
    /// Part of the primary key.
    pub primary_key: bool,
    /// Part of a unique index.
    pub unique_key: bool,
    /// Part of an index that is not unique.
    pub multiple_key: bool,
}

/// Bits of the metadata's column flags, with the protocol's values.
pub mod flags {
    /// Part of the primary key.
    pub const PRIMARY_KEY: u16 = 2;
    /// Part of a unique index.
    pub const UNIQUE_KEY: u16 = 4;
    /// Part of an index that is not unique.
    pub const MULTIPLE_KEY: u16 = 8;
}

/// The outcome of a statement without result set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OkResult {
    /// Rows changed.
    pub affected_rows: u64,
    /// First number that AUTO_INCREMENT generated, otherwise the last one given; 0 if none.
    pub last_insert_id: u64,
    /// Number of warnings.
    pub warnings: u16,
    /// Text such as `Records: 3  Duplicates: 0  Warnings: 0`.
    pub info: String,
}

/// Takes the results of a text, one after the other: either `columns`, `rows`…, `finish`, or `ok`.
#[async_trait]
pub trait ResultSink: Send {
    /// A result set begins.
    async fn columns(&mut self, columns: &[ResultColumn]) -> Result<()>;
    /// A result set begins whose columns are those of other results, too, which a sink may know by
    /// their address.
    async fn shared_columns(&mut self, columns: &Arc<[ResultColumn]>) -> Result<()> {
        self.columns(columns).await
    }
    /// Rows of it; arrays have the Arrow type of their column's type.
    async fn rows(&mut self, batch: &RecordBatch) -> Result<()>;
    /// It ends.
    async fn finish(&mut self, warnings: u16) -> Result<()>;
    /// A statement without result set ends.
    async fn ok(&mut self, ok: OkResult) -> Result<()>;
}

/// A file of the client, for LOAD DATA LOCAL.
#[async_trait]
pub trait LocalFile: Send {
    /// Asks for it.
    async fn open(&mut self, name: &str) -> Result<()>;
    /// Its next bytes, `None` at its end.
    async fn read(&mut self) -> Result<Option<Bytes>>;
}

/// A result kept in memory, for callers inside the process.
#[derive(Clone, Debug, Default)]
pub struct Collected {
    /// Columns, if it is a result set.
    pub columns: Vec<ResultColumn>,
    /// Its rows.
    pub batches: Vec<RecordBatch>,
    /// The outcome if it is none.
    pub ok: Option<OkResult>,
}

/// Keeps results in memory.
#[derive(Debug, Default)]
pub struct Collector {
    /// All results so far.
    pub results: Vec<Collected>,
}

#[async_trait]
impl ResultSink for Collector {
    async fn columns(&mut self, columns: &[ResultColumn]) -> Result<()> {
        self.results.push(Collected {
            columns: columns.to_vec(),
            ..Collected::default()
        });
        Ok(())
    }

    async fn rows(&mut self, batch: &RecordBatch) -> Result<()> {
        if let Some(last) = self.results.last_mut() {
            last.batches.push(batch.clone());
        }
        Ok(())
    }

    async fn finish(&mut self, _: u16) -> Result<()> {
        Ok(())
    }

    async fn ok(&mut self, ok: OkResult) -> Result<()> {
        self.results.push(Collected {
            ok: Some(ok),
            ..Collected::default()
        });
        Ok(())
    }
}

/// No file: LOAD DATA fails with 3948.
#[derive(Debug, Default)]
pub struct NoFile;

#[async_trait]
impl LocalFile for NoFile {
    async fn open(&mut self, _: &str) -> Result<()> {
        Err(crate::SqlError::load_not_allowed())
    }

    async fn read(&mut self) -> Result<Option<Bytes>> {
        Ok(None)
    }
}

pub use perigee_sql_type::TEXT_CHARS;

/// Describes a field of a plan's output.
#[must_use]
pub fn column_of(field: &Field, name: &str) -> ResultColumn {
    let origin = metadata::origin(field).unwrap_or_default();
    let members = metadata::members(field);
    let ty = match &members {
        Some(members) => Some(members.ty()),
        None => type_of(field),
    };
    let has = |flag: u16| origin.flags & flag != 0;
    ResultColumn {
        name: name.to_owned(),
        org_name: origin.column,
        table: origin.table,
        schema: origin.schema,
        ty,
        members: members.map(Arc::new),
        not_null: !field.is_nullable(),
        primary_key: has(flags::PRIMARY_KEY),
        unique_key: has(flags::UNIQUE_KEY),
        multiple_key: has(flags::MULTIPLE_KEY),
    }
}

/// A type of long values by the name that SHOW COLUMNS gives it.
fn long_type(name: &str, text: Collation) -> Option<ColumnType> {
    let collations = [text, Collation::BINARY];
    let types = collations
        .into_iter()
        .flat_map(|collation| (1..=4).map(move |prefix| ColumnType::Long { prefix, collation }));
    types.into_iter().find(|ty| ty.to_string() == name)
}

/// The bits of a BIT by the name that SHOW COLUMNS gives it.
fn bits_of(name: &str) -> Option<u8> {
    name.strip_prefix("bit(")?.strip_suffix(')')?.parse().ok()
}

/// The type of a field's values; that of an ENUM's texts is one of texts. `None` for NULL.
#[must_use]
pub fn type_of(field: &Field) -> Option<ColumnType> {
    let declared = metadata::declared(field).unwrap_or_default();
    let collation = metadata::collation(field);
    let int = |bytes, unsigned| Some(ColumnType::Int { bytes, unsigned });
    if let Some(bits) = bits_of(declared)
        && field.data_type().is_unsigned_integer()
    {
        return Some(ColumnType::Bit { bits });
    }
    match field.data_type() {
        DataType::Null => None,
        DataType::Boolean | DataType::Int64 => int(8, false),
        DataType::Int8 => int(1, false),
        DataType::Int16 => int(2, false),
        DataType::Int32 if declared.starts_with("mediumint") => int(3, false),
        DataType::Int32 => int(4, false),
        DataType::UInt8 => int(1, true),
        DataType::UInt16 if declared == "year" => Some(ColumnType::Year),
        DataType::UInt16 => int(2, true),
        DataType::UInt32 if declared.starts_with("mediumint") => int(3, true),
        DataType::UInt32 => int(4, true),
        DataType::UInt64 => int(8, true),
        DataType::Decimal128(precision, scale) | DataType::Decimal256(precision, scale) => {
            Some(ColumnType::Decimal {
                precision: (*precision).min(ColumnType::MAX_PRECISION),
                scale: u8::try_from(*scale).unwrap_or(0),
            })
        }
        DataType::Float32 => Some(ColumnType::Float),
        DataType::Float64 => Some(ColumnType::Double),
        DataType::Date32 => Some(ColumnType::Date),
        DataType::Timestamp(..) if declared.starts_with("timestamp") => {
            Some(ColumnType::Timestamp { fsp: fsp_of(field) })
        }
        DataType::Timestamp(..) => Some(ColumnType::DateTime { fsp: fsp_of(field) }),
        DataType::Duration(..) => Some(ColumnType::Time { fsp: fsp_of(field) }),
        _ => {
            let length = |prefix: &str| {
                let rest = declared.strip_prefix(prefix)?;
                rest.strip_suffix(')')?.parse::<u16>().ok()
            };
            if is_json(field.data_type()) {
                return Some(ColumnType::Json);
            }
            if let Some(ty) = long_type(declared, collation) {
                return Some(ty);
            }
            if is_bytes(field.data_type()) {
                let collation = Collation::BINARY;
                if let Some(chars) = length("varbinary(") {
                    return Some(ColumnType::Varchar { chars, collation });
                }
                return Some(ColumnType::Long {
                    prefix: 4,
                    collation,
                });
            }
            if let Some(chars) = length("char(") {
                return Some(ColumnType::Char { chars, collation });
            }
            let chars = length("varchar(").unwrap_or(TEXT_CHARS);
            Some(ColumnType::Varchar { chars, collation })
        }
    }
}
