//! System variables: which there are, what they may be set to, and their values.

use std::collections::BTreeMap;
use std::str::FromStr;

use perigee_engine::ndp::MAX_JOIN_TABLE_MEMORY;
use perigee_sql_bind::{Modes, WrongModes};
use perigee_value::{Charset, Collation, Zone};
use sqlparser::ast::{Expr, Value};

use super::server_file::SECURE_FILE_PRIV;
use crate::error::{Result, SqlError};
use crate::parse::{Scope, collation_named, roles_of};

/// Where a variable can be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Settable {
    /// SESSION and GLOBAL.
    Both,
    /// GLOBAL only.
    Global,
    /// SESSION only.
    Session,
    /// Nowhere.
    Never,
}

/// What a variable's value is.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    /// ON or OFF.
    Switch,
    /// An integer in a range.
    Integer(u64, u64),
    /// A number in a range.
    Number(f64, f64),
    /// An integer in a range, or AUTO.
    IntegerOrAuto(u64, u64),
    /// A number in a range, or AUTO.
    NumberOrAuto(f64, f64),
    /// One of some words.
    Word(&'static [&'static str]),
    /// Any text.
    Text,
    /// Accepted only with the value it has, because another one would change what statements mean
    /// and is not supported.
    Fixed,
    /// A character set that utf8mb4 covers; NULL where `true`.
    Charset(bool),
    /// A collation.
    Collation,
    /// A list of SQL modes.
    Modes,
    /// A time zone.
    Zone,
    /// A list of roles.
    Roles,
}

struct Definition {
    name: &'static str,
    settable: Settable,
    kind: Kind,
    default: &'static str,
}

const ISOLATION: Kind = Kind::Word(&[
    "READ-UNCOMMITTED",
    "READ-COMMITTED",
    "REPEATABLE-READ",
    "SERIALIZABLE",
]);

/// The value of what is decided by itself.
const AUTO: &str = "AUTO";

const fn both(name: &'static str, kind: Kind, default: &'static str) -> Definition {
    Definition {
        name,
        settable: Settable::Both,
        kind,
        default,
    }
}

const fn global(name: &'static str, kind: Kind, default: &'static str) -> Definition {
    Definition {
        name,
        settable: Settable::Global,
        kind,
        default,
    }
}

const fn never(name: &'static str, kind: Kind, default: &'static str) -> Definition {
    Definition {
        name,
        settable: Settable::Never,
        kind,
        default,
    }
}

const fn session(name: &'static str, kind: Kind, default: &'static str) -> Definition {
    Definition {
        name,
        settable: Settable::Session,
        kind,
        default,
    }
}

const DAYS: u64 = 31_536_000;

/// The time at which statements begin, in seconds since 1970; 0 is the clock's.
pub const TIMESTAMP: &str = "timestamp";

/// The last second that it may say.
const LAST_SECOND: f64 = 2_147_483_647.0;

/// The time zone in which TIMESTAMPs are read and shown.
pub const TIME_ZONE: &str = "time_zone";

/// Whether statistics of tables are gathered anew when many rows have changed.
pub const RECALCULATE: &str = "innodb_stats_auto_recalc";

/// Whether all roles of an account are active after a login.
pub const ACTIVATE_ALL_ROLES: &str = "activate_all_roles_on_login";

/// The roles that everybody has.
pub const MANDATORY_ROLES: &str = "mandatory_roles";

/// Whether who makes a routine may call, alter and drop it.
pub const AUTOMATIC_PRIVILEGES: &str = "automatic_sp_privileges";

/// All variables, by name.
static DEFINITIONS: &[Definition] = &[
    global(ACTIVATE_ALL_ROLES, Kind::Switch, "OFF"),
    both("auto_increment_increment", Kind::Integer(1, 65_535), "1"),
    both("auto_increment_offset", Kind::Integer(1, 65_535), "1"),
    both("autocommit", Kind::Switch, "ON"),
    global(AUTOMATIC_PRIVILEGES, Kind::Switch, "ON"),
    both("character_set_client", Kind::Charset(false), "utf8mb4"),
    both("character_set_connection", Kind::Charset(false), "utf8mb4"),
    both("character_set_database", Kind::Fixed, "utf8mb4"),
    never("character_set_filesystem", Kind::Text, "binary"),
    both("character_set_results", Kind::Charset(true), "utf8mb4"),
    both("character_set_server", Kind::Charset(false), "utf8mb4"),
    never("character_set_system", Kind::Text, "utf8mb3"),
    both("collation_connection", Kind::Collation, "utf8mb4_bin"),
    both("collation_database", Kind::Fixed, "utf8mb4_bin"),
    both("collation_server", Kind::Collation, "utf8mb4_bin"),
    both("completion_type", Kind::Fixed, "NO_CHAIN"),
    both(
        "cte_max_recursion_depth",
        Kind::Integer(0, 4_294_967_295),
        "1000",
    ),
    never("datadir", Kind::Text, ""),
    never(
        "default_authentication_plugin",
        Kind::Text,
        "mysql_native_password",
    ),
    both("default_storage_engine", Kind::Fixed, "Perigee"),
    both("div_precision_increment", Kind::Fixed, "4"),
    never("event_scheduler", Kind::Text, "DISABLED"),
    both(
        "explain_format",
        Kind::Word(&["TRADITIONAL", "JSON", "TREE"]),
        "TRADITIONAL",
    ),
    both("explicit_defaults_for_timestamp", Kind::Fixed, "ON"),
    both("foreign_key_checks", Kind::Switch, "ON"),
    global("general_log", Kind::Fixed, "OFF"),
    both("group_concat_max_len", Kind::Integer(4, u64::MAX), "1024"),
    never("gtid_mode", Kind::Word(&["OFF"]), "OFF"),
    never("have_openssl", Kind::Text, "DISABLED"),
    never("have_ssl", Kind::Text, "DISABLED"),
    never("hostname", Kind::Text, "localhost"),
    global("init_connect", Kind::Fixed, ""),
    never("innodb_autoinc_lock_mode", Kind::Integer(0, 2), "2"),
    global("innodb_flush_log_at_trx_commit", Kind::Fixed, "1"),
    both("innodb_lock_wait_timeout", Kind::Integer(1, 1 << 30), "50"),
    both("innodb_snapshot_isolation", Kind::Switch, "OFF"),
    global(RECALCULATE, Kind::Switch, "ON"),
    both("interactive_timeout", Kind::Integer(1, DAYS), "28800"),
    never("license", Kind::Text, "Apache-2.0"),
    global("local_infile", Kind::Fixed, "ON"),
    both(
        "lock_wait_timeout",
        Kind::Integer(1, 31_536_000),
        "31536000",
    ),
    never("log_bin", Kind::Switch, "OFF"),
    never("log_output", Kind::Text, "FILE"),
    global("log_queries_not_using_indexes", Kind::Switch, "OFF"),
    both("long_query_time", Kind::Number(0.0, 31_536_000.0), "10"),
    never("lower_case_table_names", Kind::Integer(0, 2), "1"),
    global(MANDATORY_ROLES, Kind::Roles, ""),
    global(
        "max_allowed_packet",
        Kind::Integer(1024, 1 << 30),
        "67108864",
    ),
    never("max_connections", Kind::Integer(1, 100_000), "151"),
    both("max_error_count", Kind::Integer(0, 65_535), "1024"),
    both("max_execution_time", Kind::Integer(0, 4_294_967_295), "0"),
    global(
        "max_prepared_stmt_count",
        Kind::Integer(0, 4_194_304),
        "16382",
    ),
    both("max_sp_recursion_depth", Kind::Integer(0, 255), "0"),
    never("max_user_connections", Kind::Integer(0, 100_000), "0"),
    both("ndp_group_memory", Kind::Integer(1024, 1 << 30), "16777216"),
    both(
        "ndp_group_method",
        Kind::Word(&[AUTO, "HASH", "SORT"]),
        AUTO,
    ),
    both(
        "ndp_index_conditions",
        Kind::Word(&["OFF", "ON", "ALWAYS"]),
        "ON",
    ),
    both("ndp_join_filters", Kind::Switch, "ON"),
    both(
        "ndp_join_table_memory",
        Kind::Integer(1024, MAX_JOIN_TABLE_MEMORY as u64),
        "16777216",
    ),
    both("ndp_join_tables", Kind::Switch, "ON"),
    both(
        "ndp_key_batches",
        Kind::Word(&["OFF", "ON", "ALWAYS"]),
        "ON",
    ),
    both("ndp_max_filter_factor", Kind::NumberOrAuto(0.0, 1.0), AUTO),
    both("ndp_max_pages_look_ahead", Kind::Integer(0, 65_536), "0"),
    both("ndp_min_pages", Kind::IntegerOrAuto(0, u64::MAX), AUTO),
    both("ndp_min_rows_per_group", Kind::NumberOrAuto(0.0, 1e9), AUTO),
    both(
        "ndp_min_width_reduction",
        Kind::NumberOrAuto(0.0, 1.0),
        AUTO,
    ),
    both("ndp_mode", Kind::Word(&["OFF", "ON", "REPLICA_ON"]), "ON"),
    both("ndp_top_filters", Kind::Switch, "ON"),
    both("net_buffer_length", Kind::Integer(1024, 1 << 20), "16384"),
    both("net_read_timeout", Kind::Integer(1, DAYS), "30"),
    both("net_write_timeout", Kind::Integer(1, DAYS), "60"),
    both("optimizer_join_order", Kind::Switch, "ON"),
    both(
        "optimizer_late_columns",
        Kind::Word(&["OFF", "ON", "ALWAYS"]),
        "ON",
    ),
    both("optimizer_sample_pages", Kind::Integer(0, 4096), "64"),
    both("optimizer_sample_time", Kind::Integer(1, 60_000), "100"),
    both("parallel_default_dop", Kind::Integer(0, 1024), "0"),
    never("performance_schema", Kind::Switch, "OFF"),
    never(
        "performance_schema_digests_size",
        Kind::Integer(0, 1_048_576),
        "10000",
    ),
    never("port", Kind::Integer(0, 65_535), "3306"),
    both("price_gib_returned", Kind::Number(0.0, 1e6), "0.0007"),
    both("price_gib_scanned", Kind::Number(0.0, 1e6), "0.002"),
    both("price_hour_of_frontend", Kind::Number(0.0, 1e6), "0.0665"),
    both("price_hour_of_storage", Kind::Number(0.0, 1e6), "0.0665"),
    both("price_thousand_requests", Kind::Number(0.0, 1e6), "0.0004"),
    never("protocol_version", Kind::Integer(10, 10), "10"),
    both(
        "query_memory_limit",
        Kind::Integer(1 << 20, u64::MAX),
        "1073741824",
    ),
    never(
        "query_memory_total",
        Kind::Integer(0, u64::MAX),
        "2147483648",
    ),
    global("read_only", Kind::Fixed, "OFF"),
    never("require_secure_transport", Kind::Switch, "OFF"),
    never(SECURE_FILE_PRIV, Kind::Text, ""),
    never("server_id", Kind::Integer(0, u32::MAX as u64), "1"),
    never("skip_networking", Kind::Switch, "OFF"),
    global("slow_query_log", Kind::Switch, "OFF"),
    global("slow_query_log_file", Kind::Text, ""),
    never("socket", Kind::Text, ""),
    both("sql_auto_is_null", Kind::Fixed, "OFF"),
    both("sql_big_selects", Kind::Fixed, "ON"),
    both("sql_log_bin", Kind::Switch, "OFF"),
    both("sql_mode", Kind::Modes, DEFAULT_MODES),
    both("sql_notes", Kind::Switch, "ON"),
    both("sql_quote_show_create", Kind::Switch, "ON"),
    both("sql_safe_updates", Kind::Fixed, "OFF"),
    both("sql_select_limit", Kind::Fixed, "18446744073709551615"),
    both("sql_warnings", Kind::Switch, "OFF"),
    never("ssl_ca", Kind::Text, ""),
    never("ssl_cert", Kind::Text, ""),
    never("ssl_key", Kind::Text, ""),
    global("super_read_only", Kind::Fixed, "OFF"),
    never("system_time_zone", Kind::Text, "UTC"),
    both(TIME_ZONE, Kind::Zone, "SYSTEM"),
    session(TIMESTAMP, Kind::Number(0.0, LAST_SECOND), "0"),
    never("tls_version", Kind::Text, ""),
    both("transaction_isolation", ISOLATION, "REPEATABLE-READ"),
    both("transaction_read_only", Kind::Switch, "OFF"),
    both("tx_isolation", ISOLATION, "REPEATABLE-READ"),
    both("tx_read_only", Kind::Switch, "OFF"),
    both("unique_checks", Kind::Switch, "ON"),
    never("version", Kind::Text, ""),
    never("version_comment", Kind::Text, "Perigee"),
    never(
        "version_compile_machine",
        Kind::Text,
        std::env::consts::ARCH,
    ),
    never("version_compile_os", Kind::Text, std::env::consts::OS),
    both("wait_timeout", Kind::Integer(1, DAYS), "28800"),
];

const DEFAULT_MODES: &str = "ONLY_FULL_GROUP_BY,STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,\
    ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION";

fn definition(name: &str) -> Result<&'static Definition> {
    DEFINITIONS
        .binary_search_by(|d| d.name.cmp(name))
        .map(|at| &DEFINITIONS[at])
        .map_err(|_| SqlError::unknown_variable(name))
}

/// Values of all variables: the global ones, or those of a session.
#[derive(Clone, Debug)]
pub struct Variables {
    /// `None` is NULL.
    values: BTreeMap<&'static str, Option<String>>,
    /// What `sql_mode` says.
    modes: Modes,
    /// What `time_zone` says.
    zone: Zone,
}

impl Variables {
    /// The defaults, for a server of this version.
    #[must_use]
    pub fn new(version: &str) -> Self {
        let mut values: BTreeMap<_, _> = DEFINITIONS
            .iter()
            .map(|d| (d.name, Some(d.default.to_owned())))
            .collect();
        values.insert("version", Some(version.to_owned()));
        values.insert(SECURE_FILE_PRIV, None);
        let modes = Modes::parse(DEFAULT_MODES).expect("the default is valid");
        Self {
            values,
            modes,
            zone: Zone::Utc,
        }
    }

    /// The time that SET timestamp said, in microseconds since 1970.
    #[must_use]
    pub fn fixed_time(&self) -> Option<i64> {
        let seconds = self.number(TIMESTAMP);
        (seconds > 0.0).then(|| (seconds * 1e6).round() as i64)
    }

    /// The modes of `sql_mode`.
    #[must_use]
    pub fn modes(&self) -> Modes {
        self.modes
    }

    /// The time zone.
    #[must_use]
    pub fn zone(&self) -> Zone {
        self.zone
    }

    /// The value as text.
    ///
    /// # Errors
    /// 1193.
    pub fn get(&self, name: &str) -> Result<Option<&str>> {
        let name = definition(name)?.name;
        Ok(self.values[name].as_deref())
    }

    /// The collation of the connection.
    #[must_use]
    pub fn collation(&self) -> Collation {
        self.collation_of("collation_connection")
    }

    /// The collation that is the value of a variable.
    #[must_use]
    pub fn collation_of(&self, variable: &str) -> Collation {
        let name = self.values.get(variable);
        let name = name.and_then(Option::as_deref);
        name.and_then(Collation::named)
            .unwrap_or(Collation::UTF8MB4_BIN)
    }

    /// The value of a switch that there is.
    #[must_use]
    pub fn is_on(&self, name: &str) -> bool {
        self.get(name).ok().flatten() == Some("ON")
    }

    /// The value of a number that there is.
    #[must_use]
    pub fn number(&self, name: &str) -> f64 {
        self.parsed(name).unwrap_or_default()
    }

    /// The value of a number; `None` if it is AUTO.
    #[must_use]
    pub fn parsed<T: FromStr>(&self, name: &str) -> Option<T> {
        self.get(name).ok().flatten()?.parse().ok()
    }

    /// The value of an integer that there is.
    #[must_use]
    pub fn integer(&self, name: &str) -> u64 {
        self.parsed(name).unwrap_or_default()
    }

    /// The value as SELECT @@name gives it.
    ///
    /// # Errors
    /// 1193.
    pub fn literal(&self, name: &str) -> Result<Expr> {
        let definition = definition(name)?;
        let value = match (&self.values[definition.name], definition.kind) {
            (None, _) => Value::Null,
            (Some(text), _) if text == "ON" || text == "OFF" => match definition.kind {
                Kind::Word(_) => Value::SingleQuotedString(text.clone()),
                _ => Value::Number(u8::from(text == "ON").to_string(), false),
            },
            (Some(text), Kind::IntegerOrAuto(..) | Kind::NumberOrAuto(..)) if text == AUTO => {
                Value::SingleQuotedString(text.clone())
            }
            (
                Some(text),
                Kind::Integer(..)
                | Kind::Number(..)
                | Kind::IntegerOrAuto(..)
                | Kind::NumberOrAuto(..),
            ) => Value::Number(text.clone(), false),
            (Some(text), Kind::Fixed) if text.parse::<u64>().is_ok() => {
                Value::Number(text.clone(), false)
            }
            (Some(text), _) => Value::SingleQuotedString(text.clone()),
        };
        Ok(Expr::value(value))
    }

    /// All names and values, as SHOW VARIABLES lists them.
    pub fn all(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.values
            .iter()
            .map(|(name, value)| (*name, value.as_deref().unwrap_or("")))
    }

    /// Checks a value, `None` for NULL, and gives its normal form.
    ///
    /// # Errors
    /// 1193, 1231 and their kin.
    pub fn check(scope: Scope, name: &str, value: Option<&str>) -> Result<Option<String>> {
        let definition = definition(name)?;
        match definition.settable {
            Settable::Never => return Err(SqlError::read_only_variable(name)),
            Settable::Session if scope == Scope::Global => {
                return Err(SqlError::session_variable(name));
            }
            Settable::Global if scope != Scope::Global => {
                return Err(SqlError::global_variable(name));
            }
            _ => {}
        }
        let Some(value) = value else {
            return match definition.kind {
                Kind::Charset(true) => Ok(None),
                _ => Err(SqlError::wrong_value_for_variable(name, "NULL")),
            };
        };
        normal(definition, value).map(Some)
    }

    /// Sets a checked value.
    pub fn set(&mut self, name: &str, value: Option<String>) {
        if let Ok(definition) = definition(name) {
            // Two names of one thing.
            let twin = match definition.name {
                "transaction_isolation" => Some("tx_isolation"),
                "tx_isolation" => Some("transaction_isolation"),
                "transaction_read_only" => Some("tx_read_only"),
                "tx_read_only" => Some("transaction_read_only"),
                _ => None,
            };
            if let Some(twin) = twin {
                self.values.insert(twin, value.clone());
            }
            if definition.kind == Kind::Modes {
                let modes = Modes::parse(value.as_deref().unwrap_or_default());
                self.modes = modes.unwrap_or(self.modes);
            }
            if definition.kind == Kind::Zone {
                self.zone = value.as_deref().and_then(Zone::named).unwrap_or(self.zone);
            }
            if let Some((other, value)) = companion(definition.name, value.as_deref()) {
                self.values.insert(other, Some(value));
            }
            self.values.insert(definition.name, value);
        }
    }

    /// The compiled-in default.
    ///
    /// # Errors
    /// 1193.
    pub fn default_of(name: &str) -> Result<String> {
        Ok(definition(name)?.default.to_owned())
    }
}

/// A character set's variable changes with that of its collation, and the other way round.
fn companion(name: &str, value: Option<&str>) -> Option<(&'static str, String)> {
    let charset = |name: Option<&str>| name.and_then(Charset::named);
    let of_collation = |name: Option<&str>| {
        let collation = name.and_then(Collation::named);
        collation.map(|collation| collation.charset().name().to_owned())
    };
    let default = |name| charset(name).map(|own| own.default_collation().name().to_owned());
    match name {
        "character_set_connection" => default(value).map(|v| ("collation_connection", v)),
        "character_set_server" => default(value).map(|v| ("collation_server", v)),
        "collation_connection" => of_collation(value).map(|v| ("character_set_connection", v)),
        "collation_server" => of_collation(value).map(|v| ("character_set_server", v)),
        _ => None,
    }
}

fn normal(definition: &Definition, value: &str) -> Result<String> {
    let wrong = || SqlError::wrong_value_for_variable(definition.name, value);
    match definition.kind {
        Kind::Switch => match value.to_ascii_uppercase().as_str() {
            "ON" | "1" | "TRUE" => Ok("ON".to_owned()),
            "OFF" | "0" | "FALSE" => Ok("OFF".to_owned()),
            _ => Err(wrong()),
        },
        Kind::IntegerOrAuto(..) | Kind::NumberOrAuto(..) if value.eq_ignore_ascii_case(AUTO) => {
            Ok(AUTO.to_owned())
        }
        Kind::Integer(least, greatest) | Kind::IntegerOrAuto(least, greatest) => {
            let number: i128 = value
                .parse()
                .map_err(|_| SqlError::wrong_type_for_variable(definition.name))?;
            // Out of range is cut, as in MySQL.
            Ok(number
                .clamp(i128::from(least), i128::from(greatest))
                .to_string())
        }
        Kind::Number(least, greatest) | Kind::NumberOrAuto(least, greatest) => {
            let number: f64 = value
                .parse()
                .map_err(|_| SqlError::wrong_type_for_variable(definition.name))?;
            if !(least..=greatest).contains(&number) {
                return Err(wrong());
            }
            Ok(number.to_string())
        }
        Kind::Word(words) => {
            let numbered = value.parse::<usize>().ok().and_then(|n| words.get(n));
            let word = words
                .iter()
                .find(|w| w.eq_ignore_ascii_case(value))
                .or(numbered);
            word.map(|w| (*w).to_owned()).ok_or_else(wrong)
        }
        Kind::Text => Ok(value.to_owned()),
        Kind::Roles => match roles_of(value) {
            Some(_) => Ok(value.to_owned()),
            None => Err(wrong()),
        },
        Kind::Fixed => {
            let same = value.eq_ignore_ascii_case(definition.default)
                || (definition.default == "OFF" && value == "0")
                || (definition.default == "ON" && value == "1");
            if same {
                return Ok(definition.default.to_owned());
            }
            Err(SqlError::not_supported(format!(
                "{} = '{value}'",
                definition.name
            )))
        }
        // Results are not converted, and NULL means that, too.
        Kind::Charset(true) if value.eq_ignore_ascii_case("binary") => Ok("binary".to_owned()),
        Kind::Charset(_) => charset(value),
        Kind::Modes => match Modes::parse(value) {
            Ok(modes) => Ok(modes.to_string()),
            Err(WrongModes::Unknown(name)) => {
                Err(SqlError::wrong_value_for_variable(definition.name, name))
            }
            Err(WrongModes::NotSupported(name)) => {
                Err(SqlError::not_supported(format!("sql_mode {name}")))
            }
        },
        Kind::Collation => Ok(collation_named(value)?.name().to_owned()),
        Kind::Zone => Zone::normal_name(value).ok_or_else(|| SqlError::unknown_zone(value)),
    }
}

/// Character sets that MySQL knows.
const KNOWN_CHARSETS: &[&str] = &[
    "armscii8", "big5", "binary", "cp1250", "cp1251", "cp1256", "cp1257", "cp850", "cp852",
    "cp866", "cp932", "dec8", "eucjpms", "euckr", "gb18030", "gb2312", "gbk", "geostd8", "greek",
    "hebrew", "hp8", "keybcs2", "koi8r", "koi8u", "latin1", "latin2", "latin5", "latin7", "macce",
    "macroman", "sjis", "swe7", "tis620", "ucs2", "ujis", "utf16", "utf16le", "utf32",
];

/// A character set of the connection: those whose texts are UTF-8.
///
/// # Errors
/// 1235 for others.
pub fn charset(name: &str) -> Result<String> {
    match name.to_ascii_lowercase().as_str() {
        known @ ("utf8mb4" | "utf8" | "utf8mb3" | "ascii") => Ok(known.to_owned()),
        other if KNOWN_CHARSETS.contains(&other) => Err(SqlError::not_supported(format!(
            "the character set {other}"
        ))),
        other => Err(SqlError::unknown_charset(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_are_sorted_and_their_defaults_valid() {
        assert!(DEFINITIONS.is_sorted_by(|a, b| a.name < b.name));
        for d in DEFINITIONS {
            assert!(normal(d, d.default).is_ok(), "{}", d.name);
        }
    }

    #[test]
    fn values_are_checked() {
        let check = |name, value| Variables::check(Scope::Session, name, Some(value));
        assert_eq!(
            check("ndp_mode", "replica_on"),
            Ok(Some("REPLICA_ON".into()))
        );
        assert_eq!(check("autocommit", "0"), Ok(Some("OFF".into())));
        assert_eq!(check("wait_timeout", "0"), Ok(Some("1".into())));
        assert_eq!(
            check("sql_mode", "strict_trans_tables, NO_ZERO_DATE"),
            Ok(Some("STRICT_TRANS_TABLES,NO_ZERO_DATE".into()))
        );
        let errno = |name, value| check(name, value).expect_err("it is refused").errno;
        assert_eq!(errno("nope", "1"), 1193);
        assert_eq!(errno("version", "1"), 1238);
        let global = Variables::check(Scope::Global, TIMESTAMP, Some("1"));
        assert_eq!(global.expect_err("it is refused").errno, 1228);
        assert_eq!(errno("max_allowed_packet", "1"), 1229);
        assert_eq!(errno("ndp_mode", "maybe"), 1231);
        assert_eq!(errno("ndp_min_pages", "x"), 1232);
        assert_eq!(errno("sql_mode", "ANSI_QUOTE"), 1231);
        assert_eq!(errno("sql_mode", "ALLOW_INVALID_DATES"), 1235);
        assert_eq!(errno(TIME_ZONE, "Europe/Bonn"), 1298);
        assert_eq!(check(TIME_ZONE, "+5:30"), Ok(Some("+05:30".into())));
        assert_eq!(errno("character_set_client", "latin1"), 1235);
        assert_eq!(
            Variables::check(Scope::Session, "character_set_results", None),
            Ok(None)
        );
    }
}
