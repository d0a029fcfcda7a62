//! Function calls: aggregates, window functions, and the scalar functions that have an
//! implementation with MySQL's meaning. Others are refused.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, DateTimeField, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArgumentList, FunctionArguments, Interval, Value, WindowType,
};

use perigee_expr::functions;

use super::expression::{binary, call, cast_call, literal, nested, string};
use super::{Rewriter, frame, refuse, unsupported};
use crate::error::{Result, SqlError};
use crate::functions::cast::Target;
use crate::functions::choice::{CASE, COALESCE};
use crate::functions::{dates, exact, library, sum_argument};

/// MySQL's name and ours, for functions whose results have the type of their argument.
const EXACT: &[(&str, &str)] = &[
    ("abs", "mysql_abs"),
    ("sign", "mysql_sign"),
    ("floor", "mysql_floor"),
    ("ceil", "mysql_ceil"),
    ("ceiling", "mysql_ceil"),
    ("round", "mysql_round"),
    ("truncate", "mysql_truncate"),
];

/// Window functions that DataFusion computes as MySQL does, and how many arguments they take.
const WINDOW_FUNCTIONS: &[(&str, std::ops::RangeInclusive<usize>)] = &[
    ("row_number", 0..=0),
    ("rank", 0..=0),
    ("dense_rank", 0..=0),
    ("percent_rank", 0..=0),
    ("cume_dist", 0..=0),
    ("ntile", 1..=1),
    ("lag", 1..=3),
    ("lead", 1..=3),
    ("first_value", 1..=1),
    ("last_value", 1..=1),
    ("nth_value", 2..=2),
];

/// Aggregate functions over DOUBLEs, by MySQL's names and DataFusion's.
const STATISTICS: &[(&str, &str)] = &[
    ("std", "stddev_pop"),
    ("stddev", "stddev_pop"),
    ("stddev_pop", "stddev_pop"),
    ("stddev_samp", "stddev"),
    ("variance", "var_pop"),
    ("var_pop", "var_pop"),
    ("var_samp", "var"),
];

/// Aggregate functions over bits, and what they give for no rows.
const BITS: &[(&str, &str)] = &[("bit_and", "-1"), ("bit_or", "0"), ("bit_xor", "0")];

/// True for MySQL's name of an aggregate function.
pub(crate) fn is_aggregate_name(name: &str) -> bool {
    let is = |known: &(&str, &str)| known.0 == name;
    matches!(name, "count" | "sum" | "avg" | "min" | "max")
        || STATISTICS.iter().any(is)
        || BITS.iter().any(is)
}

/// Functions of EXTRACT's fields.
const FIELDS: &[(&str, &str)] = &[
    ("year", "year"),
    ("quarter", "quarter"),
    ("month", "month"),
    ("day", "day"),
    ("dayofmonth", "day"),
    ("hour", "hour"),
    ("minute", "minute"),
    ("second", "second"),
];

impl Rewriter<'_> {
    pub(super) fn function(&mut self, expr: &mut Expr) -> Result<()> {
        let Expr::Function(function) = expr else {
            return Ok(());
        };
        refuse(function.filter.is_some(), "FILTER")?;
        refuse(!function.within_group.is_empty(), "WITHIN GROUP")?;
        refuse(
            function.null_treatment.is_some(),
            "IGNORE NULLS, RESPECT NULLS",
        )?;
        refuse(function.uses_odbc_syntax, "{fn …}")?;
        refuse(
            !matches!(function.parameters, FunctionArguments::None),
            "parameters",
        )?;
        let name = function
            .name
            .to_string()
            .trim_matches('`')
            .to_ascii_lowercase();
        if let Some(WindowType::WindowSpec(spec)) = &mut function.over {
            refuse(spec.window_name.is_some(), "WINDOW")?;
            for part in &mut spec.partition_by {
                self.expr(part)?;
            }
            self.order_exprs(&mut spec.order_by)?;
            if let Some(frame) = &mut spec.window_frame {
                frame::frame(frame, spec.order_by.len())?;
            }
        } else {
            refuse(function.over.is_some(), "WINDOW")?;
        }
        match name.as_str() {
            "count" | "sum" | "avg" | "min" | "max" => {
                *expr = self.aggregate(&name, function)?;
                return Ok(());
            }
            name if function.over.is_some() && self.window_function(name, function)? => {
                return Ok(());
            }
            name if is_aggregate_name(name) => {
                *expr = self.of_numbers(name, function)?;
                return Ok(());
            }
            _ => refuse(function.over.is_some(), &format!("{name} OVER"))?,
        }
        if let Some(session) = self.session_function(&name, function)? {
            *expr = session;
            return Ok(());
        }
        let args = plain_arguments(
            &name,
            std::mem::replace(&mut function.args, FunctionArguments::None),
        )?;
        *expr = self.scalar(&name, args)?;
        Ok(())
    }

    fn aggregate(&mut self, name: &str, function: &mut Function) -> Result<Expr> {
        let FunctionArguments::List(list) = &mut function.args else {
            return Err(SqlError::wrong_arguments(name.to_uppercase()));
        };
        refuse(!list.clauses.is_empty(), "clauses in an aggregate")?;
        let [argument] = &mut list.args[..] else {
            if name == "count" && !list.args.is_empty() {
                return unsupported("COUNT(DISTINCT) of several expressions");
            }
            return Err(SqlError::wrong_arguments(name.to_uppercase()));
        };
        let over = function.over.is_some();
        refuse(
            over && list.duplicate_treatment.is_some(),
            "DISTINCT … OVER",
        )?;
        function.name = plain_name(name);
        match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Wildcard)
                if list.duplicate_treatment.is_some() || name != "count" =>
            {
                return Err(SqlError::syntax("*)", 1));
            }
            FunctionArg::Unnamed(FunctionArgExpr::Wildcard) => {
                return Ok(Expr::Function(function.clone()));
            }
            FunctionArg::Unnamed(FunctionArgExpr::Expr(argument)) => {
                self.expr(argument)?;
                if matches!(name, "sum" | "avg") {
                    let inner = std::mem::replace(argument, literal(Value::Null));
                    *argument = call(sum_argument::SUM_ARGUMENT, vec![inner]);
                }
            }
            _ => return Err(SqlError::wrong_arguments(name.to_uppercase())),
        }
        if name != "avg" {
            return Ok(Expr::Function(function.clone()));
        }
        // AVG is SUM / COUNT, by MySQL's division.
        let with_name = |name: &str| {
            let mut part = function.clone();
            part.name = plain_name(name);
            Expr::Function(part)
        };
        Ok(nested(binary(
            with_name("sum"),
            BinaryOperator::Divide,
            with_name("count"),
        )))
    }

    /// True for a window function, whose arguments are rewritten.
    fn window_function(&mut self, name: &str, function: &mut Function) -> Result<bool> {
        let Some((_, counts)) = WINDOW_FUNCTIONS.iter().find(|(known, _)| *known == name) else {
            return Ok(false);
        };
        let args = std::mem::replace(&mut function.args, FunctionArguments::None);
        let mut args = plain_arguments(name, args)?;
        if !counts.contains(&args.len()) {
            return Err(SqlError::syntax(")", 1));
        }
        for arg in &mut args {
            self.expr(arg)?;
        }
        function.name = plain_name(name);
        function.args = arguments(args);
        Ok(true)
    }

    /// An aggregate function whose argument is made a number of one type.
    fn of_numbers(&mut self, name: &str, function: &mut Function) -> Result<Expr> {
        let args = std::mem::replace(&mut function.args, FunctionArguments::None);
        let mut args = plain_arguments(name, args)?;
        let [argument] = &mut args[..] else {
            return Err(SqlError::wrong_arguments(name.to_uppercase()));
        };
        self.expr(argument)?;
        let mut argument = std::mem::replace(argument, literal(Value::Null));
        if let Some((_, ours)) = STATISTICS.iter().find(|(mysql, _)| *mysql == name) {
            argument = cast_call(argument, Target::Double);
            function.name = plain_name(ours);
            function.args = arguments(vec![argument]);
            return Ok(Expr::Function(function.clone()));
        }
        function.name = plain_name(name);
        function.args = arguments(vec![cast_call(argument, Target::Unsigned)]);
        let known = BITS.iter().find(|(known, _)| *known == name);
        let neutral = known.map_or("0", |(_, neutral)| neutral);
        let neutral = cast_call(string(neutral), Target::Unsigned);
        Ok(call(
            COALESCE,
            vec![Expr::Function(function.clone()), neutral],
        ))
    }

    /// Functions whose value the session or the clock gives.
    fn session_function(&mut self, name: &str, function: &Function) -> Result<Option<Expr>> {
        let arguments = match &function.args {
            FunctionArguments::None => Vec::new(),
            FunctionArguments::List(list) => list.args.clone(),
            FunctionArguments::Subquery(_) => return unsupported("a subquery as arguments"),
        };
        let fsp = match &arguments[..] {
            [] => 0,
            [FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(value)))] => {
                match value.value.to_string().parse::<u8>() {
                    Ok(fsp) if fsp <= 6 => fsp,
                    _ => return Ok(None),
                }
            }
            _ => return Ok(None),
        };
        let now = self.environment.now();
        let datetime = |micros: i64| {
            let unit = 10i64.pow(u32::from(6 - fsp));
            let micros = micros - micros.rem_euclid(unit);
            let mut text = String::new();
            perigee_value::date::format_micros(micros, fsp, &mut text);
            cast_call(string(text), Target::DateTime(fsp))
        };
        let value = match name {
            "now" | "current_timestamp" | "localtime" | "localtimestamp" | "sysdate"
            | "utc_timestamp" => datetime(now),
            "curtime" | "current_time" | "utc_time" => {
                let unit = 10i64.pow(u32::from(6 - fsp));
                let micros = now.rem_euclid(perigee_value::date::DAY_MICROS);
                let mut text = String::new();
                perigee_value::time::format_time(micros - micros % unit, fsp, &mut text);
                cast_call(string(text), Target::Time(fsp))
            }
            "curdate" | "current_date" | "utc_date" if arguments.is_empty() => {
                let mut text = String::new();
                perigee_value::date::format_day(
                    perigee_value::date::split_micros(now).0,
                    &mut text,
                );
                cast_call(string(text), Target::Date)
            }
            _ if arguments.is_empty() => match self.environment.session_function(name) {
                Some(value) => value,
                None => return Ok(None),
            },
            _ => return Ok(None),
        };
        Ok(Some(value))
    }

    fn scalar(&mut self, name: &str, mut args: Vec<Expr>) -> Result<Expr> {
        let wrong = || Err(SqlError::wrong_arguments(name.to_uppercase()));
        match (name, args.len()) {
            ("date_add" | "adddate" | "date_sub" | "subdate", 2) => {
                let minus = name.ends_with("sub") || name.starts_with("sub");
                let count = args.pop().unwrap_or(literal(Value::Null));
                let mut date = args.pop().unwrap_or(literal(Value::Null));
                self.expr(&mut date)?;
                let interval = match count {
                    Expr::Interval(interval) => interval,
                    days if matches!(name, "adddate" | "subdate") => day_interval(days),
                    _ => return wrong(),
                };
                return self.date_add(date, interval, minus);
            }
            ("timestampadd", 3) => {
                let (mut date, count) = (args.remove(2), args.remove(1));
                self.expr(&mut date)?;
                let unit =
                    word(&args[0]).ok_or_else(|| SqlError::wrong_arguments("TIMESTAMPADD"))?;
                return self.date_add(date, interval_of(count, &unit)?, false);
            }
            ("timestampdiff" | "get_format", 2..) => {
                // A keyword, no column.
                if let Some(word) = word(&args[0]) {
                    args[0] = string(word);
                }
            }
            ("if", 3) => {
                self.condition(&mut args[0])?;
                for branch in &mut args[1..] {
                    self.expr(branch)?;
                }
                return Ok(call(CASE, args));
            }
            _ => {}
        }
        for arg in &mut args {
            self.expr(arg)?;
        }
        if let Some((_, field)) = FIELDS.iter().find(|(mysql, _)| *mysql == name) {
            if args.len() != 1 {
                return wrong();
            }
            return Ok(call(dates::EXTRACT, vec![string(*field), args.remove(0)]));
        }
        if let Some((_, ours)) = EXACT.iter().find(|(mysql, _)| *mysql == name) {
            return match exact::accepts(ours, args.len()) {
                Some(true) => Ok(call(ours, args)),
                _ => wrong(),
            };
        }
        if let Some(function) = functions::named(name) {
            return match function.accepts(args.len()) {
                true => Ok(call(&library::name_of(function), args)),
                false => wrong(),
            };
        }
        self.desugared(name, args)
    }

    /// Functions that are other expressions.
    fn desugared(&mut self, name: &str, mut args: Vec<Expr>) -> Result<Expr> {
        let count = args.len();
        let mut next = || args.remove(0);
        Ok(match (name, count) {
            ("ifnull", 2) => call(COALESCE, vec![next(), next()]),
            ("coalesce", 1..) => call(COALESCE, args),
            ("nullif", 2) => {
                let (a, b) = (next(), next());
                let equal = binary(a.clone(), BinaryOperator::Eq, b);
                call(CASE, vec![equal, literal(Value::Null), a])
            }
            ("isnull", 1) => Expr::IsNull(Box::new(nested(next()))),
            ("mod", 2) => nested(binary(next(), BinaryOperator::Modulo, next())),
            ("date", 1) => cast_call(next(), Target::Date),
            (
                "ifnull" | "coalesce" | "nullif" | "isnull" | "mod" | "date" | "if" | "date_add"
                | "date_sub" | "adddate" | "subdate" | "timestampadd",
                _,
            ) => return Err(SqlError::wrong_arguments(name.to_uppercase())),
            _ => return unsupported(format!("the function {}", name.to_uppercase())),
        })
    }
}

/// A word that stands for itself, in lower case and without the prefix of ODBC.
fn word(expr: &Expr) -> Option<String> {
    let Expr::Identifier(ident) = expr else {
        return None;
    };
    let word = ident.value.to_ascii_lowercase();
    Some(word.strip_prefix("sql_tsi_").unwrap_or(&word).to_owned())
}

/// `INTERVAL count unit`.
fn interval_of(count: Expr, unit: &str) -> Result<Interval> {
    let unit = match unit {
        "microsecond" => DateTimeField::Microsecond,
        "second" => DateTimeField::Second,
        "minute" => DateTimeField::Minute,
        "hour" => DateTimeField::Hour,
        "day" => DateTimeField::Day,
        "week" => DateTimeField::Week(None),
        "month" => DateTimeField::Month,
        "quarter" => DateTimeField::Quarter,
        "year" => DateTimeField::Year,
        other => return unsupported(format!("TIMESTAMPADD({other}, …)")),
    };
    Ok(Interval {
        leading_field: Some(unit),
        ..day_interval(count)
    })
}

fn day_interval(days: Expr) -> Interval {
    Interval {
        value: Box::new(days),
        leading_field: Some(DateTimeField::Day),
        leading_precision: None,
        last_field: None,
        fractional_seconds_precision: None,
    }
}

fn plain_name(name: &str) -> datafusion::sql::sqlparser::ast::ObjectName {
    use datafusion::sql::sqlparser::ast::{Ident, ObjectName, ObjectNamePart};
    ObjectName(vec![ObjectNamePart::Identifier(Ident::with_quote(
        '"', name,
    ))])
}

fn arguments(args: Vec<Expr>) -> FunctionArguments {
    let args = args
        .into_iter()
        .map(|arg| FunctionArg::Unnamed(FunctionArgExpr::Expr(arg)));
    FunctionArguments::List(FunctionArgumentList {
        duplicate_treatment: None,
        args: args.collect(),
        clauses: Vec::new(),
    })
}

/// The arguments of a scalar function.
fn plain_arguments(name: &str, args: FunctionArguments) -> Result<Vec<Expr>> {
    let list = match args {
        FunctionArguments::None => return Ok(Vec::new()),
        FunctionArguments::List(list) => list,
        FunctionArguments::Subquery(_) => return unsupported("a subquery as arguments"),
    };
    refuse(
        list.duplicate_treatment.is_some(),
        &format!("DISTINCT in {name}"),
    )?;
    refuse(!list.clauses.is_empty(), &format!("clauses in {name}"))?;
    list.args
        .into_iter()
        .map(|arg| match arg {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Ok(expr),
            _ => Err(SqlError::wrong_arguments(name.to_uppercase())),
        })
        .collect()
}
