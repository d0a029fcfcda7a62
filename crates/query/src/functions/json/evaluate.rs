//! What the functions compute.

use std::rc::Rc;

use perigee_value::json::{Edit, Json, Path};

use super::argument::Call;
use super::{Definition, Kind, Output};
use crate::error::{Result, SqlError};

/// No limit to the number of arguments.
const MANY: usize = usize::MAX;

/// `value?` where both an error and NULL end the call.
macro_rules! given {
    ($value:expr) => {
        match $value? {
            Some(value) => value,
            None => return Ok(None),
        }
    };
}

macro_rules! define {
    ($($name:literal ($least:expr, $most:expr $(, $pairs:ident)?) => $result:ident = $evaluate:expr;)*) => {
        &[$(Definition {
            name: $name,
            arguments: ($least, $most),
            pairs: define!(@ $($pairs)?),
            result: Kind::$result,
            evaluate: $evaluate,
        }),*]
    };
    (@ pairs) => { true };
    (@) => { false };
}

pub(super) static DEFINITIONS: &[Definition] = define! {
    "mysql_json_order" (1, 1) => Order = |c| {
        Ok(Some(Output::Order(given!(c.value(0)).sort_key())))
    };
    "mysql_json_extract" (2, MANY) => Json = extract;
    "mysql_json_unquote" (1, 1) => Text = unquote;
    "mysql_json_quote" (1, 1) => Text = |c| {
        if c.is_null(0) {
            return Ok(None);
        }
        if !c.is_text(0) {
            return Err(SqlError::incorrect_type(1, c.function));
        }
        Ok(Some(Output::Text(Json::String(c.text(0)?).to_string())))
    };
    "mysql_json_valid" (1, 1) => Int = |c| {
        if c.is_null(0) {
            return Ok(None);
        }
        let valid = c.is_json(0) || (c.is_text(0) && Json::parse(&c.text(0)?).is_ok());
        truth(valid)
    };
    "mysql_json_type" (1, 1) => Text = |c| {
        Ok(Some(Output::Text(given!(c.document(0)).type_name().to_owned())))
    };
    "mysql_json_depth" (1, 1) => Int = |c| number(given!(c.document(0)).depth());
    "mysql_json_length" (1, 2) => Int = |c| {
        let document = given!(c.document(0));
        let path = given!(part(c, 1));
        match path.select(&document).first() {
            Some(value) => number(value.length()),
            None => Ok(None),
        }
    };
    "mysql_json_keys" (1, 2) => Json = |c| {
        let document = given!(c.document(0));
        let path = given!(part(c, 1));
        let Some(Json::Object(members)) = path.select(&document).first() else {
            return Ok(None);
        };
        let names = members.iter().map(|(name, _)| Json::String(name.to_owned()));
        json(Json::Array(names.collect()))
    };
    "mysql_json_contains" (2, 3) => Int = |c| {
        let document = given!(c.document(0));
        let candidate = given!(c.document(1));
        let path = given!(part(c, 2));
        match path.select(&document).first() {
            Some(value) => truth(value.contains(&candidate)),
            None => Ok(None),
        }
    };
    "mysql_json_contains_path" (3, MANY) => Int = contains_path;
    "mysql_json_overlaps" (2, 2) => Int = |c| {
        let left = given!(c.document(0));
        let right = given!(c.document(1));
        truth(left.overlaps(&right))
    };
    "mysql_member_of" (2, 2) => Int = |c| {
        let value = given!(c.value(0));
        let array = given!(c.document(1));
        truth(value.is_member_of(&array))
    };
    "mysql_json_array" (0, MANY) => Json = |c| {
        let elements: Result<Vec<_>> = (0..c.count()).map(|number| c.element(number)).collect();
        json(Json::Array(elements?))
    };
    "mysql_json_object" (0, MANY, pairs) => Json = |c| {
        let member = |number: usize| {
            if c.is_null(number) {
                return Err(SqlError::json_null_name());
            }
            Ok((c.text(number)?, c.element(number + 1)?))
        };
        let members: Result<Vec<_>> = (0..c.count()).step_by(2).map(member).collect();
        json(Json::Object(members?.into_iter().collect()))
    };
    "mysql_json_set" (3, MANY, pairs) => Json = |c| edit(c, Edit::Set);
    "mysql_json_insert" (3, MANY, pairs) => Json = |c| edit(c, Edit::Insert);
    "mysql_json_replace" (3, MANY, pairs) => Json = |c| edit(c, Edit::Replace);
    "mysql_json_remove" (2, MANY) => Json = |c| {
        let mut document = Rc::unwrap_or_clone(given!(c.document(0)));
        for number in 1..c.count() {
            let path = given!(c.single_path(number));
            if path.legs().is_empty() {
                return Err(SqlError::json_vacuous_path());
            }
            document.remove(&path);
        }
        json(document)
    };
    "mysql_json_merge_patch" (2, MANY) => Json = |c| merge(c, Json::merge_patch);
    "mysql_json_merge_preserve" (2, MANY) => Json = |c| merge(c, Json::merge_preserve);
};

fn json(value: Json) -> Result<Option<Output>> {
    Ok(Some(Output::Json(value)))
}

fn truth(value: bool) -> Result<Option<Output>> {
    Ok(Some(Output::Int(i64::from(value))))
}

fn number(value: usize) -> Result<Option<Output>> {
    Ok(Some(Output::Int(value as i64)))
}

/// The path of an argument that may be left out; then it is that of the whole document.
fn part(c: &Call<'_>, argument: usize) -> Result<Option<Rc<Path>>> {
    if argument >= c.count() {
        let whole = Path::parse("$").expect("it is a path");
        return Ok(Some(Rc::new(whole)));
    }
    c.single_path(argument)
}

fn extract(c: &Call<'_>) -> Result<Option<Output>> {
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
        return Ok(None);
    }
    match single {
        true => json(found[0].clone()),
        false => json(Json::Array(found.into_iter().cloned().collect())),
    }
}

/// A text in quotes is what they enclose; other texts are what they are.
fn unquote(c: &Call<'_>) -> Result<Option<Output>> {
    if c.is_null(0) {
        return Ok(None);
    }
    if c.is_json(0) {
        let value = given!(c.document(0));
        return Ok(Some(Output::Text(Rc::unwrap_or_clone(value).unquoted())));
    }
    if !c.is_text(0) {
        return Err(SqlError::incorrect_type(1, c.function));
    }
    let text = c.text(0)?;
    if text.len() < 2 || !text.starts_with('"') || !text.ends_with('"') {
        return Ok(Some(Output::Text(text)));
    }
    let value = Json::parse(&text).map_err(|error| c.invalid(0, error))?;
    Ok(Some(Output::Text(value.unquoted())))
}

fn contains_path(c: &Call<'_>) -> Result<Option<Output>> {
    let document = given!(c.document(0));
    if c.is_null(1) {
        return Ok(None);
    }
    let all = match c.text(1)?.to_ascii_lowercase().as_str() {
        "one" => false,
        "all" => true,
        _ => return Err(SqlError::json_one_or_all(c.function)),
    };
    let mut found = all;
    for number in 2..c.count() {
        let path = given!(c.path(number));
        let here = !path.select(&document).is_empty();
        found = if all { found && here } else { found || here };
    }
    truth(found)
}

fn edit(c: &Call<'_>, edit: Edit) -> Result<Option<Output>> {
    let mut document = Rc::unwrap_or_clone(given!(c.document(0)));
    for number in (1..c.count()).step_by(2) {
        let path = given!(c.single_path(number));
        document.edit(&path, c.element(number + 1)?, edit);
    }
    json(document)
}

/// NULL merges with nothing.
fn merge(c: &Call<'_>, merge: fn(Json, Json) -> Json) -> Result<Option<Output>> {
    let mut merged = Rc::unwrap_or_clone(given!(c.document(0)));
    for number in 1..c.count() {
        merged = merge(merged, Rc::unwrap_or_clone(given!(c.document(number))));
    }
    json(merged)
}
