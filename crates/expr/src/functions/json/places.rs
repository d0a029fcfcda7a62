//! Functions of places in a JSON value: where strings are, and new elements of arrays.

use std::sync::Arc;

use perigee_value::LikePattern;
use perigee_value::json::{Json, Leg, Path, Search};

use super::super::{Call, Function, FunctionError, JSON, MANY, Outcome, Value};
use super::argument::Result;
use super::{JsonFault, function, json};

/// The escape character of a pattern.
const ESCAPE: char = '\\';

pub(in crate::functions) static FUNCTIONS: &[Function] = &[
    function(
        &["json_array_append"],
        (3, MANY),
        JSON,
        "The document with values behind the last elements of the arrays at paths.",
        |c| edit(c, |document, path, value| document.append_at(path, value)),
    )
    .in_pairs(),
    function(
        &["json_array_insert"],
        (3, MANY),
        JSON,
        "The document with values before the elements at paths.",
        |c| {
            for number in (1..c.count()).step_by(2) {
                if let Some(path) = c.single_path(number)?
                    && !matches!(path.legs().last(), Some(Leg::Cell(_)))
                {
                    return Err(JsonFault::NotCell.into());
                }
            }
            edit(c, |document, path, value| document.insert_at(path, value))
        },
    )
    .in_pairs(),
    function(
        &["json_search"],
        (3, MANY),
        JSON,
        "The path of 'one' string like the pattern, or the paths of 'all'; then the escape character and where to look.",
        search,
    ),
];

fn edit<'a>(c: &Call<'a>, edit: fn(&mut Json, &Path, Json)) -> Outcome<'a> {
    let Some(document) = c.document(0)? else {
        return Ok(Value::Null);
    };
    let mut document = Arc::unwrap_or_clone(document);
    for number in (1..c.count()).step_by(2) {
        let Some(path) = c.single_path(number)? else {
            return Ok(Value::Null);
        };
        edit(&mut document, &path, c.element(number + 1)?);
    }
    json(&document)
}

fn search<'a>(c: &Call<'a>) -> Outcome<'a> {
    let Some(document) = c.document(0)? else {
        return Ok(Value::Null);
    };
    if c.is_null(1) || c.is_null(2) {
        return Ok(Value::Null);
    }
    let most = match c.shown(1)?.to_ascii_lowercase().as_str() {
        "one" => 1,
        "all" => usize::MAX,
        _ => return Err(JsonFault::OneOrAll(c.name).into()),
    };
    let pattern = LikePattern::new(&c.shown(2)?, escape(c)?);
    let environment = c.environment;
    let mut go_on = || !environment.is_stopped();
    let mut is_wanted = |text: &str| pattern.matches_while(text.as_bytes(), &mut go_on);
    let mut search = Search::new(&mut is_wanted, most);
    for path in paths(c)? {
        let Some(path) = path else {
            return Ok(Value::Null);
        };
        if search.at(&document, &path).is_none() {
            return Err(FunctionError::Interrupted);
        }
    }
    let mut found = search.finish().into_iter().map(Json::String);
    match (found.next(), found.next()) {
        (None, _) => Ok(Value::Null),
        (Some(only), None) => json(&only),
        (Some(first), Some(second)) => {
            let all = [first, second].into_iter().chain(found);
            json(&Json::Array(all.collect()))
        }
    }
}

/// The paths behind the escape character; without any, that of the whole document.
fn paths(c: &Call<'_>) -> Result<Vec<Option<Arc<Path>>>> {
    if c.count() <= 4 {
        let whole = Path::parse("$").expect("it is a path");
        return Ok(vec![Some(Arc::new(whole))]);
    }
    (4..c.count()).map(|number| c.path(number)).collect()
}

/// The escape character: one character, or the usual one for NULL and an empty text.
fn escape(c: &Call<'_>) -> Result<char, FunctionError> {
    if !c.has(3) || c.is_null(3) {
        return Ok(ESCAPE);
    }
    let text = c.shown(3)?;
    let mut chars = text.chars();
    match (chars.next(), chars.next()) {
        (escape, None) => Ok(escape.unwrap_or(ESCAPE)),
        _ => Err(FunctionError::IncorrectArguments("ESCAPE")),
    }
}
