//! Function calls: those of the library, those that are part of the binder because they look at types, and those of
//! the session.

use perigee_expr::functions::{self, Argument, Kind, Memo, Value, ValueType};
use perigee_expr::scalar::{Call, Node, Rounding, Scalar, Target, value_type};
use perigee_sql_type::{Coercibility, MixOfCollations, SqlType, TEXT_CHARS, common_collation};
use perigee_value::date::{DAY_MICROS, split_micros};
use perigee_value::{Collation, ColumnType};
use sqlparser::ast::{
    CeilFloorKind, DateTimeField, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments,
    TrimWhereField,
};

use crate::arithmetic::{as_number, unrounded};
use crate::cast::cast_to;
use crate::error::unsupported;
use crate::expression::text_of_binary;
use crate::interval::field_named;
use crate::{BindError, Binder, Result};

/// The functions that round.
const ROUNDING: &[(&str, Rounding)] = &[
    ("abs", Rounding::Abs),
    ("sign", Rounding::Sign),
    ("floor", Rounding::Floor),
    ("ceil", Rounding::Ceil),
    ("ceiling", Rounding::Ceil),
    ("round", Rounding::Round),
    ("truncate", Rounding::Truncate),
];

/// How a function rounds; `None` for those that do not.
fn rounding(name: &str) -> Option<Rounding> {
    let found = ROUNDING.iter().find(|(known, _)| *known == name);
    found.map(|(_, kind)| *kind)
}

/// COLLATION, CHARSET or COERCIBILITY of a value; what is no string is binary.
fn told_of(name: &str, ty: &SqlType) -> Scalar {
    let collation = ty.column.and_then(ColumnType::collation);
    let collation = collation.unwrap_or(Collation::BINARY);
    match name {
        "collation" => crate::literal::text(collation.name()),
        "charset" => crate::literal::text(collation.charset().name()),
        _ => crate::literal::int(ty.coercibility.number()),
    }
}

impl Binder<'_> {
    pub(crate) fn function(&self, function: &Function) -> Result<Scalar> {
        let is_plain = function.filter.is_none()
            && function.within_group.is_empty()
            && function.null_treatment.is_none()
            && !function.uses_odbc_syntax
            && function.over.is_none()
            && matches!(function.parameters, FunctionArguments::None);
        let name = function.name.to_string();
        let name = name.trim_matches('`').to_ascii_lowercase();
        if !is_plain {
            return unsupported(format_args!("this form of {name}"));
        }
        let arguments = arguments(&name, &function.args)?;
        if let Some(value) = self.session_function(&name, &arguments)? {
            return Ok(value);
        }
        self.scalar(&name, &arguments)
    }

    /// Functions whose value the session or the clock gives.
    fn session_function(&self, name: &str, arguments: &[&Expr]) -> Result<Option<Scalar>> {
        let fsp = match arguments {
            [] => 0,
            [Expr::Value(value)] => match value.value.to_string().parse::<u8>() {
                Ok(fsp) if fsp <= 6 => fsp,
                _ => return Ok(None),
            },
            _ => return Ok(None),
        };
        let now = self.environment.now();
        let now = match name.starts_with("utc_") || name == "unix_timestamp" {
            true => now.utc,
            false => now.local(),
        };
        let cut = |micros: i64| micros - micros.rem_euclid(10i64.pow(u32::from(6 - fsp)));
        let (value, column) = match name {
            "now" | "current_timestamp" | "localtime" | "localtimestamp" | "sysdate"
            | "utc_timestamp" => (Value::DateTime(cut(now)), ColumnType::DateTime { fsp }),
            "curtime" | "current_time" | "utc_time" => {
                let micros = cut(now.rem_euclid(DAY_MICROS));
                (Value::Time(micros), ColumnType::Time { fsp })
            }
            "curdate" | "current_date" | "utc_date" if arguments.is_empty() => {
                (Value::Date(split_micros(now).0), ColumnType::Date)
            }
            "unix_timestamp" if arguments.is_empty() => {
                let seconds = now.div_euclid(1_000_000);
                let (bytes, unsigned) = (8, false);
                (Value::Int(seconds), ColumnType::Int { bytes, unsigned })
            }
            _ if arguments.is_empty() => {
                let literal = self.environment.session_function(name);
                return literal.map(|literal| self.expression(&literal)).transpose();
            }
            _ => return Ok(None),
        };
        let ty = SqlType::of(column).nullable(false);
        Ok(Some(Scalar::new(Node::Constant(value), ty)))
    }

    fn scalar(&self, name: &str, args: &[&Expr]) -> Result<Scalar> {
        let wrong = || Err(BindError::WrongArguments(name.to_uppercase()));
        match (name, args) {
            ("date_add" | "adddate" | "date_sub" | "subdate", [date, count]) => {
                let minus = name.ends_with("sub") || name.starts_with("sub");
                let date = self.expression(date)?;
                return match count {
                    Expr::Interval(interval) => self.date_add(date, interval, minus),
                    days if matches!(name, "adddate" | "subdate") => {
                        let days = self.expression(days)?;
                        let days = if minus { self.negative(days)? } else { days };
                        self.added(date, days, "day")
                    }
                    _ => wrong(),
                };
            }
            ("timestampadd", [unit, count, date]) => {
                let date = self.expression(date)?;
                return match word(unit) {
                    Some(unit) => self.added(date, self.expression(count)?, &unit),
                    None => wrong(),
                };
            }
            ("timestampdiff" | "get_format", [unit, rest @ ..]) => {
                // A keyword, no column.
                if let Some(word) = word(unit) {
                    let mut all = vec![crate::literal::text(&word)];
                    for argument in rest {
                        all.push(self.expression(argument)?);
                    }
                    return self.library(name, all);
                }
            }
            ("if", [condition, then, otherwise]) => {
                let whens = vec![self.condition(condition)?];
                let values = vec![self.expression(then)?, self.expression(otherwise)?];
                return self.chosen(whens, values);
            }
            ("collation" | "charset" | "coercibility", [one]) => {
                return Ok(told_of(name, &self.operand(one)?.ty));
            }
            ("json_value", _) => return self.json_value(args),
            ("unix_timestamp", [_, ..]) => return self.unix_timestamp(args),
            ("from_unixtime", [_, ..]) => return self.moment_of_seconds(args),
            ("mod", [left, right]) => {
                let (left, right) = (self.number(left)?, self.number(right)?);
                return self.arithmetic(left, perigee_expr::Arithmetic::Modulo, right);
            }
            _ => {}
        }
        // Whether a binary literal is a number, each function says.
        let takes_numbers = functions::named(name).is_some() || rounding(name).is_some();
        let bound = args.iter().map(|arg| match takes_numbers {
            true => self.number(arg),
            false => self.expression(arg),
        });
        self.of_values(name, bound.collect::<Result<Vec<_>>>()?)
    }

    /// UNIX_TIMESTAMP of a point in time: of a TIMESTAMP what is stored, of anything else what it means in the session's
    /// time zone.
    fn unix_timestamp(&self, args: &[&Expr]) -> Result<Scalar> {
        let [moment] = args else {
            return Err(BindError::WrongArguments("UNIX_TIMESTAMP".into()));
        };
        let moment = self.stored(moment)?;
        let zone = self.zone();
        let is_stamp = moment.ty.column.is_some_and(ColumnType::is_timestamp);
        let arguments = match zone.is_utc() || is_stamp {
            true => vec![moment],
            false => vec![moment, crate::literal::text(&zone.to_string())],
        };
        self.library("unix_timestamp", arguments)
    }

    /// FROM_UNIXTIME, perhaps by a format, in the session's time zone.
    fn moment_of_seconds(&self, args: &[&Expr]) -> Result<Scalar> {
        let zone = self.zone();
        let mut bound = args
            .iter()
            .map(|arg| self.expression(arg))
            .collect::<Result<Vec<_>>>()?;
        if zone.is_utc() || bound.len() > 2 {
            return self.library("from_unixtime", bound);
        }
        let format = bound.drain(1..).next();
        let utc = self.library("from_unixtime", bound)?;
        let local = self.in_zone(utc, zone)?;
        match format {
            Some(format) => self.library("date_format", vec![local, format]),
            None => Ok(local),
        }
    }

    /// A function of values.
    fn of_values(&self, name: &str, mut args: Vec<Scalar>) -> Result<Scalar> {
        let wrong = || Err(BindError::WrongArguments(name.to_uppercase()));
        if let Some(field) = field_named(name) {
            return match (args.pop(), args.is_empty()) {
                (Some(value), true) => self.extract(field, value),
                _ => wrong(),
            };
        }
        if let Some(kind) = rounding(name) {
            return self.rounding(kind, args);
        }
        if functions::named(name).is_some() {
            return self.library(name, args);
        }
        let count = args.len();
        let mut next = || args.remove(0);
        match (name, count) {
            ("ifnull", 2) | ("coalesce", 1..) => self.coalesce(args),
            ("nullif", 2) => {
                let (a, b) = (next(), next());
                self.null_if(a, b)
            }
            ("isnull", 1) => {
                let is_null = Node::IsNull(Box::new(next()));
                Ok(Scalar::new(is_null, SqlType::truth().nullable(false)))
            }
            ("date", 1) => cast_to(next(), Target::Date),
            ("ifnull" | "coalesce" | "nullif" | "isnull" | "mod" | "date" | "if", _) => wrong(),
            _ => unsupported(format_args!("the function {}", name.to_uppercase())),
        }
    }

    fn rounding(&self, kind: Rounding, mut args: Vec<Scalar>) -> Result<Scalar> {
        let places = match (kind, args.len()) {
            (Rounding::Truncate, 2) | (Rounding::Round, 2) => match args.pop() {
                Some(places) => match places.constant() {
                    Some(Value::Int(places)) => *places,
                    _ => return unsupported("ROUND or TRUNCATE to a computed number of places"),
                },
                None => 0,
            },
            (Rounding::Truncate, _) => return Err(BindError::WrongArguments("TRUNCATE".into())),
            _ => 0,
        };
        match (args.pop(), args.is_empty()) {
            (Some(operand), true) => self.rounded(kind, operand, places),
            _ => Err(BindError::WrongArguments(
                format!("{kind:?}").to_uppercase(),
            )),
        }
    }

    /// A function of the library.
    pub(crate) fn library(&self, name: &str, args: Vec<Scalar>) -> Result<Scalar> {
        let Some(function) = functions::named(name) else {
            return unsupported(format_args!("the function {}", name.to_uppercase()));
        };
        if !function.accepts(args.len()) {
            return Err(BindError::WrongArguments(name.to_uppercase()));
        }
        let args = match ["greatest", "least"].contains(&function.name()) {
            true => {
                let texts = args.into_iter().map(text_of_binary);
                self.unified(texts.collect())?.0
            }
            false => args,
        };
        let mut arguments = Vec::with_capacity(args.len());
        for (number, argument) in args.into_iter().enumerate() {
            let is_number = matches!(
                function.parameter(number),
                Kind::Int | Kind::Bits | Kind::Double | Kind::Seconds | Kind::Number
            );
            let is_string = matches!(
                function.parameter(number),
                Kind::Text | Kind::Bytes | Kind::Json | Kind::Date | Kind::DateTime | Kind::Time
            );
            arguments.push(match (is_number, is_string) {
                (true, _) => unrounded(as_number(argument)?),
                (_, true) if function.name() != "conv" => self.string(text_of_binary(argument))?,
                _ => text_of_binary(argument),
            });
        }
        let has_json = arguments.iter().any(|argument| argument.ty.is_json());
        for (number, argument) in arguments.iter_mut().enumerate() {
            // Its bytes are those of its own character set.
            let takes_bytes = function.parameter(number) == Kind::Bytes || function.name() == "hex";
            if takes_bytes && !function.collates {
                *argument = self.in_own_bytes(std::mem::replace(argument, Scalar::null()))?;
            }
            if argument.ty.is_json()
                && let Some(target) = target_of_json(function.parameter(number))
            {
                *argument = cast_to(std::mem::replace(argument, Scalar::null()), target)?;
            }
        }
        let over_bytes = function.is_over_bytes(arguments.iter().map(|a| value_type(&a.ty)));
        let is_string = |a: &&Scalar| a.ty.is_text() || a.ty.is_bytes();
        let strings = arguments.iter().filter(is_string);
        let strings = strings.map(|a| (a.ty.collation(), a.ty.coercibility));
        let has_bytes = arguments.iter().any(|argument| argument.ty.is_bytes());
        let (collation, coercibility) = match has_bytes {
            // Texts that are taken out of JSON compare as JSON's strings do.
            _ if has_json => (Collation::UTF8MB4_BIN, Coercibility::Implicit),
            true => (Collation::BINARY, Coercibility::Implicit),
            false if strings.clone().next().is_none() => {
                (self.environment.collation(), Coercibility::Coercible)
            }
            false => common_collation(strings.clone())?,
        };
        if coercibility == Coercibility::None && function.collates {
            let mut all = strings;
            if let Some(one) = all.next()
                && let Some(other) = all.find(|other| other.0 != one.0)
            {
                return Err(MixOfCollations(one, other).into());
            }
        }
        let ty = {
            let known = arguments.iter().map(|a| Argument {
                ty: value_type(&a.ty),
                constant: match a.constant() {
                    Some(Value::Text(text)) => Some(&**text),
                    _ => None,
                },
            });
            let known: Vec<_> = known.collect();
            type_of(function.result_type(&known), collation, coercibility)
        };
        let call = Call {
            function,
            arguments,
            collation: if function.collates {
                collation
            } else {
                Collation::UTF8MB4_BIN
            },
            over_bytes,
            memo: Memo::default(),
        };
        Ok(Scalar::new(Node::Call(Box::new(call)), ty))
    }

    /// Functions with a syntax of their own.
    pub(crate) fn syntax_function(&self, expr: &Expr) -> Result<Scalar> {
        match expr {
            Expr::MemberOf(member) => {
                let args = [&member.value, &member.array].map(|one| self.expression(one));
                self.library("member of", args.into_iter().collect::<Result<_>>()?)
            }
            Expr::Extract {
                field, expr: inner, ..
            } => {
                let value = self.expression(inner)?;
                let name = field.to_string().to_lowercase();
                match field_named(&name) {
                    Some(field) => self.extract(field, value),
                    None => {
                        let name = crate::literal::text(&name);
                        self.library("extract_fields", vec![name, value])
                    }
                }
            }
            Expr::Substring {
                expr: inner,
                substring_from,
                substring_for,
                ..
            } => {
                let mut args = vec![self.expression(inner)?];
                for part in [substring_from, substring_for].into_iter().flatten() {
                    args.push(self.expression(part)?);
                }
                self.library("substring", args)
            }
            Expr::Position { expr: what, r#in } => {
                let args = vec![self.expression(what)?, self.expression(r#in)?];
                self.library("locate", args)
            }
            Expr::Trim {
                trim_where,
                trim_what,
                expr: inner,
                trim_characters: None,
            } => {
                let name = match trim_where {
                    None | Some(TrimWhereField::Both) => "trim",
                    Some(TrimWhereField::Leading) => "ltrim",
                    Some(TrimWhereField::Trailing) => "rtrim",
                };
                let mut args = vec![self.expression(inner)?];
                if let Some(what) = trim_what {
                    args.push(self.expression(what)?);
                }
                self.library(name, args)
            }
            Expr::Floor { expr: inner, field } | Expr::Ceil { expr: inner, field }
                if matches!(
                    field,
                    CeilFloorKind::DateTimeField(DateTimeField::NoDateTime)
                ) =>
            {
                let kind = match expr {
                    Expr::Floor { .. } => Rounding::Floor,
                    _ => Rounding::Ceil,
                };
                self.rounded(kind, self.expression(inner)?, 0)
            }
            other => unsupported(other),
        }
    }
}

/// What JSON becomes for a parameter of a kind; `None` if the function takes it as it is.
fn target_of_json(kind: Kind) -> Option<Target> {
    Some(match kind {
        Kind::Json => return None,
        Kind::Text | Kind::Bytes | Kind::Any => Target::Char(None),
        Kind::Int => Target::Signed,
        Kind::Bits => Target::Unsigned,
        Kind::Double | Kind::Seconds | Kind::Number => Target::Double,
        Kind::Date => Target::Date,
        Kind::DateTime => Target::DateTime(6),
        Kind::Time => Target::Time(6),
    })
}

/// A word that stands for itself, in lower case and without the prefix of ODBC.
fn word(expr: &Expr) -> Option<String> {
    let Expr::Identifier(ident) = expr else {
        return None;
    };
    let word = ident.value.to_ascii_lowercase();
    Some(word.strip_prefix("sql_tsi_").unwrap_or(&word).to_owned())
}

fn arguments<'a>(name: &str, arguments: &'a FunctionArguments) -> Result<Vec<&'a Expr>> {
    let list = match arguments {
        FunctionArguments::None => return Ok(Vec::new()),
        FunctionArguments::List(list) => list,
        FunctionArguments::Subquery(_) => return unsupported("a subquery as arguments"),
    };
    if list.duplicate_treatment.is_some() || !list.clauses.is_empty() {
        return unsupported(format_args!("DISTINCT or clauses in {name}"));
    }
    let plain = list.args.iter().map(|argument| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Ok(expr),
        _ => Err(BindError::WrongArguments(name.to_uppercase())),
    });
    plain.collect()
}

/// The type of a function's results.
fn type_of(ty: ValueType, collation: Collation, coercibility: Coercibility) -> SqlType {
    let text = |collation| {
        let column = ColumnType::Varchar {
            chars: TEXT_CHARS,
            collation,
        };
        SqlType {
            coercibility: coercibility.min(Coercibility::Coercible),
            ..SqlType::of(column)
        }
    };
    match ty {
        ValueType::Null => SqlType::NULL,
        ValueType::Int => SqlType::int(),
        ValueType::UInt => SqlType::uint(),
        ValueType::Double => SqlType::of(ColumnType::Double),
        ValueType::Decimal { precision, scale } => {
            SqlType::of(ColumnType::Decimal { precision, scale })
        }
        ValueType::Text if collation.is_text() => text(collation),
        ValueType::Text => text(Collation::UTF8MB4_BIN),
        ValueType::Json => SqlType::of(ColumnType::Json),
        ValueType::Bytes => text(Collation::BINARY),
        ValueType::Date => SqlType::of(ColumnType::Date),
        ValueType::DateTime { fsp } => SqlType::of(ColumnType::DateTime { fsp }),
        ValueType::Time { fsp } => SqlType::of(ColumnType::Time { fsp }),
    }
}
