//! CREATE and DROP.

use datafusion::sql::sqlparser::ast::{
    CharacterLength, ColumnDef as AstColumn, ColumnOption, CommentDef, CreateTable,
    CreateTableOptions, DataType, ExactNumberInfo, Expr, IndexColumn, ObjectName, SqlOption,
    TableConstraint, Value,
};
use perigee_engine::EngineError;
use perigee_engine::catalog::{ColumnDef, IndexDef, TableDef};
use perigee_value::{Collation, ColumnType, Datum};

use super::Session;
use super::insert::literal_datum;
use crate::error::{Result, SqlError};
use crate::parse::check_charset;
use crate::plan::rewrite::check_collation;

/// Most columns of a key, as in MySQL.
const MAX_KEY_PARTS: usize = 16;

/// Longest name, as in MySQL.
const MAX_NAME: usize = 64;

pub(super) async fn create_schema(
    session: &mut Session,
    name: &str,
    if_not_exists: bool,
) -> Result<()> {
    let schema = checked_name(name)?;
    match session.frontend.engine.create_schema(&schema).await {
        Err(EngineError::SchemaExists(_)) if if_not_exists => {
            session.warn("Note", &SqlError::schema_exists(schema));
            Ok(())
        }
        outcome => outcome.map_err(SqlError::from),
    }
}

/// Returns the number of tables that were dropped.
pub(super) async fn drop_schema(session: &mut Session, name: &str, if_exists: bool) -> Result<u64> {
    let schema = name.to_lowercase();
    match session.frontend.engine.drop_schema(&schema).await {
        Ok(tables) => {
            if session.schema.as_deref() == Some(&schema) {
                session.schema = None;
            }
            Ok(tables as u64)
        }
        Err(EngineError::NoSuchSchema(_)) => {
            let error = SqlError::drop_unknown_schema(name);
            if !if_exists {
                return Err(error);
            }
            session.warn("Note", &error);
            Ok(0)
        }
        Err(error) => Err(error.into()),
    }
}

pub(super) async fn drop_tables(
    session: &mut Session,
    if_exists: bool,
    names: &[ObjectName],
) -> Result<()> {
    let mut found = Vec::new();
    let mut missing = Vec::new();
    for name in names {
        let (schema, table) = session.resolve(name)?;
        match session.table(&schema, &table) {
            Ok(_) => found.push((schema, table)),
            Err(_) => missing.push(format!("{schema}.{table}")),
        }
    }
    if !missing.is_empty() {
        // As in MySQL 8, nothing is dropped if one of the tables is missing.
        let error = SqlError::unknown_table(missing.join(","));
        if !if_exists {
            return Err(error);
        }
        session.warn("Note", &error);
    }
    for (schema, table) in found {
        session.frontend.engine.drop_table(&schema, &table).await?;
    }
    Ok(())
}

fn checked_name(name: &str) -> Result<String> {
    if name.is_empty() || name.ends_with(' ') || name.chars().count() > MAX_NAME {
        return Err(SqlError::not_supported(format!("the name '{name}'")));
    }
    if name.contains(crate::plan::rewrite::ACCESS_SEPARATOR) {
        return Err(SqlError::not_supported(format!("the name '{name}'")));
    }
    Ok(name.to_lowercase())
}

pub(super) async fn create_table(session: &mut Session, table: CreateTable) -> Result<()> {
    let (schema, name) = session.resolve(&table.name)?;
    checked_name(&name)?;
    if !session.frontend.engine.schemas().contains(&schema) {
        return Err(SqlError::unknown_schema(schema));
    }
    if session.table(&schema, &name).is_ok() {
        let error = SqlError::table_exists(&name);
        if table.if_not_exists {
            session.warn("Note", &error);
            return Ok(());
        }
        return Err(error);
    }
    let def = definition(session, schema, name, table)?;
    match session.frontend.engine.create_table(def).await {
        Ok(_) => Ok(()),
        Err(EngineError::TableExists(name)) => {
            let table = name.rsplit('.').next().unwrap_or(&name).to_owned();
            Err(SqlError::table_exists(table))
        }
        Err(error) => Err(error.into()),
    }
}

fn unsupported<T>(feature: impl std::fmt::Display) -> Result<T> {
    Err(SqlError::not_supported(feature))
}

fn refuse(present: bool, feature: &str) -> Result<()> {
    if present {
        unsupported(feature)
    } else {
        Ok(())
    }
}

fn definition(
    session: &mut Session,
    schema: String,
    name: String,
    table: CreateTable,
) -> Result<TableDef> {
    refuse(table.temporary, "CREATE TEMPORARY TABLE")?;
    refuse(table.or_replace, "CREATE OR REPLACE TABLE")?;
    refuse(table.query.is_some(), "CREATE TABLE … SELECT")?;
    refuse(
        table.like.is_some() || table.clone.is_some(),
        "CREATE TABLE … LIKE",
    )?;
    refuse(table.partition_by.is_some(), "PARTITION BY")?;
    refuse(
        table.external || table.transient || table.volatile,
        "this kind of table",
    )?;
    refuse(
        table.inherits.is_some() || table.on_commit.is_some(),
        "this kind of table",
    )?;
    let mut def = TableDef {
        schema,
        name,
        columns: Vec::new(),
        primary_key: Vec::new(),
        indexes: Vec::new(),
        comment: String::new(),
    };
    table_options(session, &table, &mut def)?;
    let mut keys = Keys::default();
    for column in &table.columns {
        let (column, inline) = column_definition(column)?;
        if def.column(&column.name).is_some() {
            return Err(SqlError::duplicate_column(&column.name));
        }
        let number = def.columns.len() as u16;
        def.columns.push(column);
        match inline {
            Some(Inline::Primary) => keys.primary(vec![number])?,
            Some(Inline::Unique) => keys.add(None, vec![number], true),
            None => {}
        }
    }
    if def.columns.is_empty() {
        return Err(SqlError::no_columns());
    }
    for constraint in &table.constraints {
        constraint_keys(constraint, &def, &mut keys)?;
    }
    keys.finish(&mut def)?;
    Ok(def)
}

fn table_options(session: &mut Session, table: &CreateTable, def: &mut TableDef) -> Result<()> {
    if let Some(comment) = &table.comment {
        def.comment = comment_text(comment);
    }
    let options = match &table.table_options {
        CreateTableOptions::None => return Ok(()),
        CreateTableOptions::Plain(options) => options,
        _ => return unsupported("these table options"),
    };
    for option in options {
        match option {
            SqlOption::Comment(comment) => def.comment = comment_text(comment),
            SqlOption::KeyValue { key, value } => {
                let key = key.value.to_ascii_uppercase();
                let text = option_text(value);
                let key = key.strip_prefix("DEFAULT ").unwrap_or(&key);
                match key {
                    "CHARSET" | "CHARACTER SET" => check_charset(&text)?,
                    "COLLATE" => check_collation(&text)?,
                    "ENGINE" => check_engine(session, &text, def)?,
                    "COMMENT" => def.comment = text,
                    other => return unsupported(format!("the table option {other}")),
                }
            }
            SqlOption::NamedParenthesizedList(list)
                if list.key.value.eq_ignore_ascii_case("ENGINE") && list.values.is_empty() =>
            {
                let engine = list
                    .name
                    .as_ref()
                    .map_or("", |name| name.value.as_str())
                    .to_owned();
                check_engine(session, &engine, def)?;
            }
            other => return unsupported(format!("the table option {other}")),
        }
    }
    Ok(())
}

fn check_engine(session: &mut Session, engine: &str, def: &TableDef) -> Result<()> {
    match engine.to_ascii_lowercase().as_str() {
        "perigee" => Ok(()),
        "innodb" => {
            let message = format!("Using storage engine Perigee for table '{}'", def.name);
            session.warn(
                "Warning",
                &SqlError {
                    errno: 1266,
                    sqlstate: "HY000",
                    message,
                },
            );
            Ok(())
        }
        _ => Err(SqlError::unknown_engine(engine)),
    }
}

fn comment_text(comment: &CommentDef) -> String {
    match comment {
        CommentDef::WithEq(text) | CommentDef::WithoutEq(text) => text.clone(),
    }
}

fn option_text(value: &Expr) -> String {
    match value {
        Expr::Value(value) => value
            .value
            .clone()
            .into_string()
            .unwrap_or_else(|| value.to_string()),
        Expr::Identifier(ident) => ident.value.clone(),
        other => other.to_string(),
    }
}

enum Inline {
    Primary,
    Unique,
}

fn column_definition(column: &AstColumn) -> Result<(ColumnDef, Option<Inline>)> {
    let name = column.name.value.clone();
    if name.is_empty() || name.ends_with(' ') || name.chars().count() > MAX_NAME {
        return Err(SqlError::wrong_column_name(name));
    }
    let ty = column_type(&name, &column.data_type)?;
    let mut def = ColumnDef {
        name,
        ty,
        nullable: true,
        default: None,
        comment: String::new(),
    };
    let mut inline = None;
    let mut default = None;
    for option in &column.options {
        match &option.option {
            ColumnOption::Null => def.nullable = true,
            ColumnOption::NotNull => def.nullable = false,
            ColumnOption::Default(value) => default = Some(value),
            ColumnOption::PrimaryKey(_) => {
                def.nullable = false;
                inline = Some(Inline::Primary);
            }
            ColumnOption::Unique(_) => inline = Some(Inline::Unique),
            ColumnOption::Comment(text) => def.comment.clone_from(text),
            ColumnOption::CharacterSet(name) => check_charset(&name.to_string())?,
            ColumnOption::Collation(name) => check_collation(&name.to_string())?,
            ColumnOption::ForeignKey(_) => return unsupported("REFERENCES"),
            ColumnOption::Check(_) => return unsupported("CHECK"),
            ColumnOption::Generated { .. } => return unsupported("generated columns"),
            ColumnOption::OnUpdate(_) => return unsupported("ON UPDATE"),
            ColumnOption::DialectSpecific(tokens) => {
                let text: Vec<_> = tokens.iter().map(ToString::to_string).collect();
                return unsupported(text.join(" "));
            }
            other => return unsupported(format!("the column option {other}")),
        }
    }
    if let Some(default) = default {
        let value = literal_datum(default, def.ty).map_err(|e| match e.errno {
            1235 => e,
            _ => SqlError::invalid_default(&def.name),
        })?;
        if value.is_null() && !def.nullable {
            return Err(SqlError::invalid_default(&def.name));
        }
        // DEFAULT NULL is what a nullable column has anyway.
        def.default = Some(value).filter(|v| !v.is_null());
    }
    Ok((def, inline))
}

/// A column's type; everything but the types of `ColumnType` is refused.
fn column_type(column: &str, ty: &DataType) -> Result<ColumnType> {
    let int = |bytes, unsigned| Ok(ColumnType::Int { bytes, unsigned });
    let collation = Collation::UTF8MB4_BIN;
    match ty {
        DataType::Bool | DataType::Boolean | DataType::TinyInt(_) => int(1, false),
        DataType::TinyIntUnsigned(_) => int(1, true),
        DataType::SmallInt(_) | DataType::Int2(_) => int(2, false),
        DataType::SmallIntUnsigned(_) | DataType::Int2Unsigned(_) => int(2, true),
        DataType::MediumInt(_) => int(3, false),
        DataType::MediumIntUnsigned(_) => int(3, true),
        DataType::Int(_) | DataType::Integer(_) | DataType::Int4(_) => int(4, false),
        DataType::IntUnsigned(_) | DataType::IntegerUnsigned(_) | DataType::Int4Unsigned(_) => {
            int(4, true)
        }
        DataType::BigInt(_) | DataType::Int8(_) => int(8, false),
        DataType::BigIntUnsigned(_) | DataType::Int8Unsigned(_) => int(8, true),
        DataType::Decimal(info) | DataType::Numeric(info) | DataType::Dec(info) => {
            decimal(column, *info)
        }
        DataType::Float(ExactNumberInfo::None) | DataType::Float4 => Ok(ColumnType::Float),
        DataType::Double(ExactNumberInfo::None)
        | DataType::DoublePrecision
        | DataType::Float8
        | DataType::Real => Ok(ColumnType::Double),
        DataType::Date => Ok(ColumnType::Date),
        DataType::Datetime(fsp) => match u8::try_from(fsp.unwrap_or(0)).ok().filter(|f| *f <= 6) {
            Some(fsp) => Ok(ColumnType::DateTime { fsp }),
            None => Err(SqlError::precision_too_big(fsp.unwrap_or(0), column, 6)),
        },
        DataType::Char(length) | DataType::Character(length) => {
            let chars = length_of(length.as_ref(), 1)?;
            if chars > 255 {
                return Err(SqlError::column_too_long(column, 255));
            }
            Ok(ColumnType::Char {
                chars: chars as u16,
                collation,
            })
        }
        DataType::Varchar(length) | DataType::CharacterVarying(length) => {
            if length.is_none() {
                return Err(SqlError::syntax("", 1));
            }
            // 65,535 bytes of at most four a character.
            let chars = length_of(length.as_ref(), 0)?;
            if chars > 16_383 {
                return Err(SqlError::column_too_long(column, 16_383));
            }
            Ok(ColumnType::Varchar {
                chars: chars as u16,
                collation,
            })
        }
        other => unsupported(format!("the type {other}")),
    }
}

fn decimal(column: &str, info: ExactNumberInfo) -> Result<ColumnType> {
    let (precision, scale) = match info {
        ExactNumberInfo::None => (10, 0),
        ExactNumberInfo::Precision(p) => (p, 0),
        ExactNumberInfo::PrecisionAndScale(p, s) => (p, s),
    };
    let precision = if precision == 0 { 10 } else { precision };
    let most = u64::from(ColumnType::MAX_PRECISION);
    if scale < 0 || scale as u64 > u64::from(ColumnType::MAX_SCALE) {
        return Err(SqlError::scale_too_big(
            scale,
            column,
            ColumnType::MAX_SCALE,
        ));
    }
    if precision > 65 {
        return Err(SqlError::precision_too_big(precision, column, 65));
    }
    if precision > most {
        return unsupported(format!("DECIMAL of more than {most} digits"));
    }
    if scale as u64 > precision {
        return Err(SqlError::scale_above_precision(column));
    }
    Ok(ColumnType::Decimal {
        precision: precision as u8,
        scale: scale as u8,
    })
}

fn length_of(length: Option<&CharacterLength>, default: u64) -> Result<u64> {
    match length {
        None => Ok(default),
        Some(CharacterLength::IntegerLength { length, unit: None }) => Ok(*length),
        Some(other) => unsupported(format!("CHAR({other})")),
    }
}

/// Keys while they are collected.
#[derive(Default)]
struct Keys {
    primary: Option<Vec<u16>>,
    others: Vec<(Option<String>, Vec<u16>, bool)>,
}

impl Keys {
    fn primary(&mut self, columns: Vec<u16>) -> Result<()> {
        match self.primary.replace(columns) {
            Some(_) => Err(SqlError::multiple_primary_keys()),
            None => Ok(()),
        }
    }

    fn add(&mut self, name: Option<String>, columns: Vec<u16>, unique: bool) {
        self.others.push((name, columns, unique));
    }

    /// Names the keys that have none after their first column, as MySQL does.
    fn finish(self, def: &mut TableDef) -> Result<()> {
        if let Some(primary) = self.primary {
            for column in &primary {
                def.columns[usize::from(*column)].nullable = false;
            }
            def.primary_key = primary;
        }
        let given: Vec<String> = self
            .others
            .iter()
            .filter_map(|(name, ..)| name.clone())
            .collect();
        for (name, columns, unique) in self.others {
            let name = match name {
                Some(name) => name,
                None => {
                    let base = def.columns[usize::from(columns[0])].name.clone();
                    let taken = |name: &str| {
                        given.iter().any(|n| n.eq_ignore_ascii_case(name))
                            || def
                                .indexes
                                .iter()
                                .any(|i| i.name.eq_ignore_ascii_case(name))
                    };
                    let mut name = base.clone();
                    let mut n = 1;
                    while taken(&name) {
                        n += 1;
                        name = format!("{base}_{n}");
                    }
                    name
                }
            };
            if name.eq_ignore_ascii_case("PRIMARY") {
                return unsupported("an index named PRIMARY");
            }
            if def
                .indexes
                .iter()
                .any(|i| i.name.eq_ignore_ascii_case(&name))
            {
                return Err(SqlError::duplicate_key_name(name));
            }
            def.indexes.push(IndexDef {
                name,
                columns,
                unique,
            });
        }
        Ok(())
    }
}

fn constraint_keys(constraint: &TableConstraint, def: &TableDef, keys: &mut Keys) -> Result<()> {
    let name = |a: &Option<datafusion::sql::sqlparser::ast::Ident>,
                b: &Option<datafusion::sql::sqlparser::ast::Ident>| {
        b.as_ref().or(a.as_ref()).map(|ident| ident.value.clone())
    };
    match constraint {
        TableConstraint::PrimaryKey(key) => {
            refuse(key.characteristics.is_some(), "DEFERRABLE")?;
            let columns = key_columns(&key.columns, def)?;
            keys.primary(columns)
        }
        TableConstraint::Unique(key) => {
            refuse(key.characteristics.is_some(), "DEFERRABLE")?;
            let columns = key_columns(&key.columns, def)?;
            keys.add(name(&key.name, &key.index_name), columns, true);
            Ok(())
        }
        TableConstraint::Index(key) => {
            let columns = key_columns(&key.columns, def)?;
            keys.add(key.name.as_ref().map(|n| n.value.clone()), columns, false);
            Ok(())
        }
        TableConstraint::ForeignKey(_) => unsupported("FOREIGN KEY"),
        TableConstraint::Check(_) => unsupported("CHECK"),
        TableConstraint::FulltextOrSpatial(_) => unsupported("FULLTEXT and SPATIAL indexes"),
        _ => unsupported("this constraint"),
    }
}

fn key_columns(columns: &[IndexColumn], def: &TableDef) -> Result<Vec<u16>> {
    if columns.len() > MAX_KEY_PARTS {
        return Err(SqlError::too_many_key_parts(MAX_KEY_PARTS));
    }
    let mut numbers = Vec::new();
    for column in columns {
        if column.column.options.asc == Some(false) {
            return unsupported("descending indexes");
        }
        let name = match &column.column.expr {
            Expr::Identifier(ident) => &ident.value,
            Expr::Function(_) => return unsupported("indexes of column prefixes"),
            _ => return unsupported("functional indexes"),
        };
        let number = def
            .columns
            .iter()
            .position(|c| c.name.eq_ignore_ascii_case(name))
            .ok_or_else(|| SqlError::unknown_key_column(name))? as u16;
        if numbers.contains(&number) {
            return Err(SqlError::duplicate_column(name));
        }
        numbers.push(number);
    }
    Ok(numbers)
}

/// A default as SQL writes it.
pub(super) fn default_text(column: &ColumnDef) -> Option<String> {
    let value = column.default.as_ref()?;
    let mut text = String::new();
    perigee_value::format_value(column.ty, value.as_ref(), &mut text);
    let _: &Datum = value;
    Some(text)
}

/// A string as SQL writes it.
pub(super) fn quoted(text: &str) -> String {
    Value::SingleQuotedString(text.to_owned())
        .to_string()
        .replace('\\', "\\\\")
}
