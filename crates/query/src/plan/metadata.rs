//! What MySQL clients are told about columns travels as metadata of Arrow fields.

use datafusion::common::metadata::FieldMetadata;
use std::collections::HashMap;

use datafusion::arrow::datatypes::{DataType, Field};
use perigee_value::{Collation, ColumnType, Members, MembersKind};

use crate::functions::types::is_string;

const SCHEMA: &str = "mysql.schema";
const TABLE: &str = "mysql.table";
const COLUMN: &str = "mysql.column";
const TYPE: &str = "mysql.type";
const FLAGS: &str = "mysql.flags";
/// The collation of a string, unless it is `utf8mb4_bin`.
const COLLATION: &str = "mysql.collation";
/// Of a form.
const FORM: &str = "mysql.form";
/// Of a form of a constant: the text that it is of.
const FORM_OF: &str = "mysql.form.of";
/// The members of an ENUM or a SET, each behind its length in bytes and a colon.
const MEMBERS: &str = "mysql.members";
/// Of a SET's members.
const SET: &str = "mysql.set";

/// Where a column comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// Schema of the table.
    pub schema: String,
    /// Table.
    pub table: String,
    /// Name in the table's definition.
    pub column: String,
    /// Type as SHOW COLUMNS writes it.
    pub ty: String,
    /// The protocol's column flags.
    pub flags: u16,
}

/// The metadata of a table's column; `fsp` for types with fractional seconds.
#[must_use]
pub fn of_column(origin: &Origin, fsp: Option<u8>) -> HashMap<String, String> {
    let mut map: HashMap<String, String> = [
        (SCHEMA, origin.schema.clone()),
        (TABLE, origin.table.clone()),
        (COLUMN, origin.column.clone()),
        (TYPE, origin.ty.clone()),
        (FLAGS, origin.flags.to_string()),
    ]
    .into_iter()
    .map(|(key, value)| (key.to_owned(), value))
    .collect();
    if let Some(fsp) = fsp {
        map.insert(crate::functions::text::FSP_KEY.to_owned(), fsp.to_string());
    }
    map
}

/// Notes the collation of a string.
pub fn set_collation(metadata: &mut HashMap<String, String>, collation: Collation) {
    match collation {
        Collation::UTF8MB4_BIN => metadata.remove(COLLATION),
        other => metadata.insert(COLLATION.to_owned(), other.name().to_owned()),
    };
}

/// Notes the collation of a string, whichever it is: over a field that says another one.
pub fn name_collation(metadata: &mut HashMap<String, String>, collation: Collation) {
    metadata.insert(COLLATION.to_owned(), collation.name().to_owned());
}

/// Notes that a string is a form, which compares as bytes.
pub fn set_form(metadata: &mut HashMap<String, String>) {
    metadata.insert(FORM.to_owned(), String::new());
}

/// Notes the text that a form is of.
pub fn set_text_of_form(metadata: &mut HashMap<String, String>, text: &str) {
    metadata.insert(FORM_OF.to_owned(), text.to_owned());
}

/// True for strings that are forms.
#[must_use]
pub fn is_form(field: &Field) -> bool {
    field.metadata().contains_key(FORM)
}

/// Notes the text that a literal is the form of.
#[must_use]
pub fn with_text(text: &str) -> FieldMetadata {
    let notes = [(FORM, ""), (FORM_OF, text)];
    let notes = notes.map(|(key, value)| (key.to_owned(), value.to_owned()));
    FieldMetadata::from(HashMap::from(notes))
}

/// The text that a form is of, if it was noted.
#[must_use]
pub fn text_of_form(field: &Field) -> Option<&str> {
    field.metadata().get(FORM_OF).map(String::as_str)
}

/// Notes the type of a value that is no column's.
pub fn declare(metadata: &mut HashMap<String, String>, ty: &ColumnType) {
    metadata.insert(TYPE.to_owned(), ty.to_string());
    let fsp = ty.fsp().unwrap_or(0).to_string();
    metadata.insert(crate::functions::text::FSP_KEY.to_owned(), fsp);
}

/// The type that a field declares, as SHOW COLUMNS writes it: that of a column and of what is one value of
/// several.
#[must_use]
pub fn declared(field: &Field) -> Option<&str> {
    field.metadata().get(TYPE).map(String::as_str)
}

/// The collation of a field, if it is one of strings.
#[must_use]
pub fn collation(field: &Field) -> Collation {
    let name = field.metadata().get(COLLATION);
    name.and_then(|name| Collation::named(name))
        .unwrap_or(Collation::UTF8MB4_BIN)
}

/// Notes the members of an ENUM or a SET.
pub fn set_members(metadata: &mut HashMap<String, String>, members: &Members) {
    let texts = members.texts().iter();
    let texts = texts.map(|text| format!("{}:{text}", text.len()));
    metadata.insert(MEMBERS.to_owned(), texts.collect());
    if members.kind() == MembersKind::Set {
        metadata.insert(SET.to_owned(), String::new());
    }
    set_collation(metadata, members.collation());
}

/// The members of a field, if it is that of an ENUM or SET column.
#[must_use]
pub fn members(field: &Field) -> Option<Members> {
    let mut rest = field.metadata().get(MEMBERS)?.as_str();
    let mut texts = Vec::new();
    while let Some((length, text)) = rest.split_once(':') {
        let length = length.parse::<usize>().ok()?;
        texts.push(text.get(..length)?.to_owned());
        rest = &text[length..];
    }
    let kind = match field.metadata().contains_key(SET) {
        true => MembersKind::Set,
        false => MembersKind::Enum,
    };
    Members::of(kind, texts, collation(field)).ok()
}

/// True for texts of an ENUM or SET column.
#[must_use]
pub fn is_enum(field: &Field) -> bool {
    field.metadata().contains_key(MEMBERS)
}

/// Gives a string the collation of the strings it is computed from: of different ones `utf8mb4_bin`.
pub fn pass_collation<'f>(from: impl Iterator<Item = &'f Field>, to: &mut Field) {
    let of_column =
        |field: &&Field| origin(field).is_some() || field.metadata().contains_key(COLLATION);
    let texts = from.filter(|field| is_string(field.data_type()));
    let mut collations = texts.filter(of_column).map(collation);
    if let Some(first) = collations.next()
        && collations.all(|other| other == first)
    {
        let mut metadata = to.metadata().clone();
        set_collation(&mut metadata, first);
        to.set_metadata(metadata);
    }
}

/// True for NULL without a type.
#[must_use]
pub fn is_null(field: &Field) -> bool {
    field.data_type() == &DataType::Null
}

/// Where a field comes from, if it is a column.
#[must_use]
pub fn origin(field: &Field) -> Option<Origin> {
    let get = |key: &str| field.metadata().get(key).cloned();
    Some(Origin {
        schema: get(SCHEMA)?,
        table: get(TABLE)?,
        column: get(COLUMN)?,
        ty: get(TYPE)?,
        flags: get(FLAGS)?.parse().ok()?,
    })
}

/// True for values of a YEAR column.
#[must_use]
pub fn is_year(field: &Field) -> bool {
    field.metadata().get(TYPE).is_some_and(|ty| ty == "year")
}

/// True for values of a CHAR, ENUM or SET column, which have no trailing spaces.
#[must_use]
pub fn is_char(field: &Field) -> bool {
    let ty = field.metadata().get(TYPE);
    is_enum(field) || ty.is_some_and(|ty| ty.starts_with("char("))
}
