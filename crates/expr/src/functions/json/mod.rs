//! Functions of JSON. A JSON value is its text in normal form.

mod argument;
mod fault;
mod places;
mod value;

use std::sync::Arc;

use perigee_value::json::{Edit, Json, Number, Path};

use super::{BYTES, Call, Function, INT, JSON, Kind, MANY, Outcome, TEXT, Value};
pub(super) use argument::Parsed;
use argument::Result;
pub use fault::JsonFault;
pub(super) use places::FUNCTIONS as PLACES;
pub(super) use value::FUNCTIONS as VALUE;
pub use value::Returned;

/// `value?` where both an error and NULL end the call.
macro_rules! given {
    ($value:expr) => {
        match $value? {
            Some(value) => value,
            None => return Ok(Value::Null),
        }
    };
}

/// A function of JSON: its parameters are values of any type.
const fn function(
    names: &'static [&'static str],
    arguments: (usize, usize),
    result: super::ResultType,
    about: &'static str,
    body: super::Body,
) -> Function {
    Function::new(names, arguments, &[Kind::Json], result, about, body).with_nulls()
}

pub(super) static FUNCTIONS: &[Function] = &[
    function(
        &["json_extract"],
        (2, MANY),
        JSON,
        "The values at the paths; `->` is the same.",
        extract,
    ),
    function(
        &["json_unquote"],
        (1, 1),
        TEXT,
        "A JSON string without its quotes; `->>` is this of JSON_EXTRACT.",
        unquote,
    ),
    function(
        &["json_quote"],
        (1, 1),
        TEXT,
        "The text as a JSON string.",
        |c| {
            if c.is_null(0) {
                return Ok(Value::Null);
            }
            if !c.is_text(0) {
                return Err(not_string(c).into());
            }
            Ok(Value::text(Json::String(c.shown(0)?).to_string()))
        },
    ),
    function(&["json_valid"], (1, 1), INT, "1 if it is JSON.", |c| {
        if c.is_null(0) {
            return Ok(Value::Null);
        }
        let is_valid = c.is_json(0) || (c.is_text(0) && Json::parse(&c.shown(0)?).is_ok());
        Ok(Value::truth(is_valid))
    }),
    function(
        &["json_type"],
        (1, 1),
        TEXT,
        "The name of the type of the value.",
        |c| Ok(Value::text(given!(c.document(0)).type_name())),
    ),
    function(
        &["json_pretty"],
        (1, 1),
        TEXT,
        "The document with each element and member on a line of its own.",
        |c| Ok(Value::text(given!(c.document(0)).pretty())),
    ),
    function(
        &["json_storage_size"],
        (1, 1),
        INT,
        "Bytes of the document as it is stored, which is its text.",
        |c| number(given!(c.document(0)).to_string().len()),
    ),
    function(
        &["json_storage_free"],
        (1, 1),
        INT,
        "Bytes that changes of the stored document left free: 0.",
        |c| {
            given!(c.document(0));
            number(0)
        },
    ),
    function(
        &["json_depth"],
        (1, 1),
        INT,
        "Values within each other, at most.",
        |c| number(given!(c.document(0)).depth()),
    ),
    function(
        &["json_length"],
        (1, 2),
        INT,
        "The number of elements or members; 1 of a scalar.",
        |c| {
            let document = given!(c.document(0));
            let path = given!(part(c, 1));
            match path.select(&document).first() {
                Some(value) => number(value.length()),
                None => Ok(Value::Null),
            }
        },
    ),
    function(
        &["json_keys"],
        (1, 2),
        JSON,
        "The names of the members, as an array.",
        |c| {
            let document = given!(c.document(0));
            let path = given!(part(c, 1));
            let Some(Json::Object(members)) = path.select(&document).first() else {
                return Ok(Value::Null);
            };
            let names = members
                .iter()
                .map(|(name, _)| Json::String(name.to_owned()));
            json(&Json::Array(names.collect()))
        },
    ),
    function(
        &["json_contains"],
        (2, 3),
        INT,
        "1 if the first document, or what is at the path in it, contains the second one.",
        |c| {
            let document = given!(c.document(0));
            let candidate = given!(c.document(1));
            let path = given!(part(c, 2));
            match path.select(&document).first() {
                Some(value) => Ok(Value::truth(value.contains(&candidate))),
                None => Ok(Value::Null),
            }
        },
    ),
    function(
        &["json_contains_path"],
        (3, MANY),
        INT,
        "1 if there is something at 'one' or 'all' of the paths.",
        contains_path,
    ),
    function(
        &["json_overlaps"],
        (2, 2),
        INT,
        "1 if both have an element or a member in common.",
        |c| {
            let left = given!(c.document(0));
            let right = given!(c.document(1));
            Ok(Value::truth(left.overlaps(&right)))
        },
    ),
    function(
        &["member of"],
        (2, 2),
        INT,
        "1 if the value is an element of the array.",
        |c| {
            let value = given!(c.value(0));
            let array = given!(c.document(1));
            Ok(Value::truth(value.is_member_of(&array)))
        },
    ),
    function(
        &["json_array"],
        (0, MANY),
        JSON,
        "An array of the values.",
        |c| {
            let elements = (0..c.count()).map(|number| c.element(number));
            json(&Json::Array(elements.collect::<Result<_>>()?))
        },
    ),
    function(
        &["json_object"],
        (0, MANY),
        JSON,
        "An object of names and values.",
        |c| {
            let member = |number: usize| {
                if c.is_null(number) {
                    return Err(JsonFault::NullName);
                }
                Ok((c.shown(number)?, c.element(number + 1)?))
            };
            let members = (0..c.count()).step_by(2).map(member);
            let members = members.collect::<Result<Vec<_>>>()?;
            json(&Json::Object(members.into_iter().collect()))
        },
    )
    .in_pairs(),
    function(
        &["json_set"],
        (3, MANY),
        JSON,
        "The document with values at paths.",
        |c| edit(c, Edit::Set),
    )
    .in_pairs(),
    function(
        &["json_insert"],
        (3, MANY),
        JSON,
        "The document with values at paths that had none.",
        |c| edit(c, Edit::Insert),
    )
    .in_pairs(),
    function(
        &["json_replace"],
        (3, MANY),
        JSON,
        "The document with other values at paths that had one.",
        |c| edit(c, Edit::Replace),
    )
    .in_pairs(),
    function(
        &["json_remove"],
        (2, MANY),
        JSON,
        "The document without what is at the paths.",
        |c| {
            let mut document = Arc::unwrap_or_clone(given!(c.document(0)));
            for number in 1..c.count() {
                let path = given!(c.single_path(number));
                if path.legs().is_empty() {
                    return Err(JsonFault::VacuousPath.into());
                }
                document.remove(&path);
            }
            json(&document)
        },
    ),
    function(
        &["cast as json"],
        (1, 1),
        JSON,
        "The value as JSON, a text parsed: `CAST(… AS JSON)`.",
        |c| match c.is_text(0) {
            true => {
                let document = given!(c.document(0));
                json(&document)
            }
            false => json(&given!(c.value(0))),
        },
    ),
    function(
        &["json element"],
        (1, 1),
        JSON,
        "The value as JSON, NULL as null; not a name that statements can call.",
        |c| match &c.arguments[0] {
            Value::Text(text) if c.is_json(0) => Ok(Value::text(text.to_string())),
            _ => json(&c.element(0)?),
        },
    ),
    function(
        &["json order"],
        (1, 1),
        BYTES,
        "The bytes by which comparisons and sorts compare JSON; not a name that statements can call.",
        |c| Ok(Value::bytes(given!(c.value(0)).sort_key())),
    ),
    function(
        &["json_merge_patch"],
        (2, MANY),
        JSON,
        "The documents merged; members of later ones replace those before (RFC 7396).",
        |c| merge(c, Json::merge_patch),
    ),
    function(
        &["json_merge_preserve"],
        (2, MANY),
        JSON,
        "The documents merged; all values are kept.",
        |c| merge(c, Json::merge_preserve),
    ),
];

fn json<'a>(value: &Json) -> Outcome<'a> {
    value.check_depth().map_err(|_| JsonFault::TooDeep)?;
    Ok(Value::text(value.to_string()))
}

/// The text that CAST to a type that is neither text nor JSON sees of a JSON value. Arrays and objects have none.
///
/// # Errors
/// [`JsonFault::Corrupt`] for a text that is not JSON.
pub fn json_scalar_text(text: &str, to_integer: bool) -> Result<Option<String>> {
    let value = Json::read(text).map_err(|error| JsonFault::Corrupt(error.to_string()))?;
    Ok(match &value {
        Json::Number(number @ (Number::Double(_) | Number::Decimal(_))) if to_integer => {
            Some(format!("{:.0}", number.to_f64().round_ties_even()))
        }
        _ => value.scalar_text(),
    })
}

fn number<'a>(value: usize) -> Outcome<'a> {
    Ok(Value::Int(value as i64))
}

fn not_string(c: &Call<'_>) -> JsonFault {
    let function = c.name;
    JsonFault::NotString {
        argument: 1,
        function,
    }
}

/// The path of an argument that may be left out; then it is that of the whole document.
fn part(c: &Call<'_>, argument: usize) -> Result<Option<Arc<Path>>> {
    if argument >= c.count() {
        let whole = Path::parse("$").expect("it is a path");
        return Ok(Some(Arc::new(whole)));
    }
    c.single_path(argument)
}

fn extract<'a>(c: &Call<'a>) -> Outcome<'a> {
    let document = given!(c.document(0));
    let mut found = Vec::new();
    let mut single = c.count() == 2;
    let mut paths = Vec::with_capacity(c.count() - 1);
    for number in 1..c.count() {
        paths.push(given!(c.path(number)));
    }
    for path in &paths {
        single &= path.is_single();
        found.extend(path.select(&document));
    }
    if found.is_empty() {
        return Ok(Value::Null);
    }
    match single {
        true => json(found[0]),
        false => json(&Json::Array(found.into_iter().cloned().collect())),
    }
}

/// A text in quotes is what they enclose; other texts are what they are.
fn unquote<'a>(c: &Call<'a>) -> Outcome<'a> {
    if c.is_null(0) {
        return Ok(Value::Null);
    }
    if c.is_json(0) {
        let value = given!(c.document(0));
        return Ok(Value::text(Arc::unwrap_or_clone(value).unquoted()));
    }
    if !c.is_text(0) {
        return Err(not_string(c).into());
    }
    let text = c.shown(0)?;
    if text.len() < 2 || !text.starts_with('"') || !text.ends_with('"') {
        return Ok(Value::text(text));
    }
    let value = Json::parse(&text).map_err(|error| c.invalid(0, error))?;
    Ok(Value::text(value.unquoted()))
}

fn contains_path<'a>(c: &Call<'a>) -> Outcome<'a> {
    let document = given!(c.document(0));
    if c.is_null(1) {
        return Ok(Value::Null);
    }
    let all = match c.shown(1)?.to_ascii_lowercase().as_str() {
        "one" => false,
        "all" => true,
        _ => return Err(JsonFault::OneOrAll(c.name).into()),
    };
    let mut found = all;
    for number in 2..c.count() {
        let path = given!(c.path(number));
        let here = !path.select(&document).is_empty();
        found = if all { found && here } else { found || here };
    }
    Ok(Value::truth(found))
}

fn edit<'a>(c: &Call<'a>, edit: Edit) -> Outcome<'a> {
    let mut document = Arc::unwrap_or_clone(given!(c.document(0)));
    for number in (1..c.count()).step_by(2) {
        let path = given!(c.single_path(number));
        document.edit(&path, c.element(number + 1)?, edit);
    }
    json(&document)
}

/// NULL merges with nothing.
fn merge<'a>(c: &Call<'a>, merge: fn(Json, Json) -> Json) -> Outcome<'a> {
    let mut merged = Arc::unwrap_or_clone(given!(c.document(0)));
    for number in 1..c.count() {
        merged = merge(merged, Arc::unwrap_or_clone(given!(c.document(number))));
    }
    json(&merged)
}
