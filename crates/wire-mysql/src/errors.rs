//! The error a session answers with, and the MySQL errors it is built from: name, number, SQLSTATE
//! and message of each. Numbers, states and messages are what programs written for MySQL test for,
//! so they are MySQL's; a number once listed keeps its meaning.

use std::fmt;

/// A statement failed: what an ERR packet carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqlError {
    /// MySQL's error number.
    pub errno: u16,
    /// SQLSTATE, five ASCII characters.
    pub sqlstate: [u8; 5],
    /// What a person reads.
    pub message: String,
}

impl SqlError {
    /// An error with any number, state and message.
    #[must_use]
    pub fn new(errno: u16, sqlstate: [u8; 5], message: impl Into<String>) -> Self {
        Self {
            errno,
            sqlstate,
            message: message.into(),
        }
    }

    /// SQLSTATE as text; bytes that are not ASCII are shown as `?`.
    #[must_use]
    pub fn sqlstate_text(&self) -> String {
        self.sqlstate
            .iter()
            .map(|b| if b.is_ascii() { char::from(*b) } else { '?' })
            .collect()
    }
}

impl fmt::Display for SqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "ERROR {} ({}): {}",
            self.errno,
            self.sqlstate_text(),
            self.message
        )
    }
}

impl std::error::Error for SqlError {}

/// A MySQL error: `UNKNOWN_DATABASE.with(&[&name])` makes a [`SqlError`] of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownError {
    /// MySQL's symbol, for example `ER_BAD_DB_ERROR`.
    pub name: &'static str,
    /// MySQL's error number.
    pub errno: u16,
    /// SQLSTATE.
    pub sqlstate: [u8; 5],
    /// The message with `{}` where a detail goes.
    pub template: &'static str,
}

impl KnownError {
    /// How many details the message wants.
    #[must_use]
    pub fn holes(&self) -> usize {
        self.template.matches("{}").count()
    }

    /// The error with `details` in the holes of its message, in order.
    ///
    /// # Panics
    /// If there are not exactly as many details as holes.
    #[must_use]
    pub fn with(&self, details: &[&dyn fmt::Display]) -> SqlError {
        assert_eq!(details.len(), self.holes(), "W1: details of {}", self.name);
        let mut parts = self.template.split("{}");
        let mut message = parts.next().unwrap_or_default().to_owned();
        for (detail, part) in details.iter().zip(parts) {
            message.push_str(&detail.to_string());
            message.push_str(part);
        }
        SqlError::new(self.errno, self.sqlstate, message)
    }

    /// The error with a message of its own, for details that the template has no place for.
    #[must_use]
    pub fn saying(&self, message: impl Into<String>) -> SqlError {
        SqlError::new(self.errno, self.sqlstate, message)
    }

    /// True if `error` has this number.
    #[must_use]
    pub fn is(&self, error: &SqlError) -> bool {
        self.errno == error.errno
    }
}

macro_rules! known_errors {
    ($($constant:ident = $errno:literal, $state:literal, $name:literal, $template:literal;)*) => {
        $(
            #[doc = concat!("`", $name, "` (", $errno, "): ", $template)]
            pub const $constant: KnownError =
                KnownError { name: $name, errno: $errno, sqlstate: *$state, template: $template };
        )*
        /// Every error listed here, in the order of their numbers.
        pub const KNOWN_ERRORS: &[KnownError] = &[$($constant),*];
    };
}

#[rustfmt::skip] // one error a line, so that the list reads as a table
known_errors! {
    CANT_CREATE_TABLE = 1005, b"HY000", "ER_CANT_CREATE_TABLE", "Can't create table '{}' ({})";
    DB_CREATE_EXISTS = 1007, b"HY000", "ER_DB_CREATE_EXISTS", "Can't create database '{}'; database exists";
    DB_DROP_EXISTS = 1008, b"HY000", "ER_DB_DROP_EXISTS", "Can't drop database '{}'; database doesn't exist";
    DISK_FULL = 1021, b"HY000", "ER_DISK_FULL", "Disk full ({})";
    DUP_KEY = 1022, b"23000", "ER_DUP_KEY", "Can't write; duplicate key in table '{}'";
    GET_ERRNO = 1030, b"HY000", "ER_GET_ERRNO", "Got error {} from storage engine";
    OPEN_AS_READONLY = 1036, b"HY000", "ER_OPEN_AS_READONLY", "Table '{}' is read only";
    OUTOFMEMORY = 1037, b"HY001", "ER_OUTOFMEMORY", "Out of memory ({})";
    OUT_OF_SORTMEMORY = 1038, b"HY001", "ER_OUT_OF_SORTMEMORY", "Out of sort memory, consider increasing server sort buffer size";
    CON_COUNT_ERROR = 1040, b"08004", "ER_CON_COUNT_ERROR", "Too many connections";
    OUT_OF_RESOURCES = 1041, b"HY000", "ER_OUT_OF_RESOURCES", "Out of memory";
    BAD_HOST_ERROR = 1042, b"08S01", "ER_BAD_HOST_ERROR", "Can't get hostname for your address";
    HANDSHAKE_ERROR = 1043, b"08S01", "ER_HANDSHAKE_ERROR", "Bad handshake";
    DBACCESS_DENIED_ERROR = 1044, b"42000", "ER_DBACCESS_DENIED_ERROR", "Access denied for user '{}'@'{}' to database '{}'";
    ACCESS_DENIED_ERROR = 1045, b"28000", "ER_ACCESS_DENIED_ERROR", "Access denied for user '{}'@'{}' (using password: {})";
    NO_DB_ERROR = 1046, b"3D000", "ER_NO_DB_ERROR", "No database selected";
    UNKNOWN_COM_ERROR = 1047, b"08S01", "ER_UNKNOWN_COM_ERROR", "Unknown command";
    BAD_NULL_ERROR = 1048, b"23000", "ER_BAD_NULL_ERROR", "Column '{}' cannot be null";
    BAD_DB_ERROR = 1049, b"42000", "ER_BAD_DB_ERROR", "Unknown database '{}'";
    TABLE_EXISTS_ERROR = 1050, b"42S01", "ER_TABLE_EXISTS_ERROR", "Table '{}' already exists";
    BAD_TABLE_ERROR = 1051, b"42S02", "ER_BAD_TABLE_ERROR", "Unknown table '{}'";
    NON_UNIQ_ERROR = 1052, b"23000", "ER_NON_UNIQ_ERROR", "Column '{}' in {} is ambiguous";
    SERVER_SHUTDOWN = 1053, b"08S01", "ER_SERVER_SHUTDOWN", "Server shutdown in progress";
    BAD_FIELD_ERROR = 1054, b"42S22", "ER_BAD_FIELD_ERROR", "Unknown column '{}' in '{}'";
    WRONG_FIELD_WITH_GROUP = 1055, b"42000", "ER_WRONG_FIELD_WITH_GROUP", "'{}' isn't in GROUP BY";
    WRONG_VALUE_COUNT = 1058, b"21S01", "ER_WRONG_VALUE_COUNT", "Column count doesn't match value count";
    TOO_LONG_IDENT = 1059, b"42000", "ER_TOO_LONG_IDENT", "Identifier name '{}' is too long";
    DUP_FIELDNAME = 1060, b"42S21", "ER_DUP_FIELDNAME", "Duplicate column name '{}'";
    DUP_KEYNAME = 1061, b"42000", "ER_DUP_KEYNAME", "Duplicate key name '{}'";
    DUP_ENTRY = 1062, b"23000", "ER_DUP_ENTRY", "Duplicate entry '{}' for key '{}'";
    WRONG_FIELD_SPEC = 1063, b"42000", "ER_WRONG_FIELD_SPEC", "Incorrect column specifier for column '{}'";
    PARSE_ERROR = 1064, b"42000", "ER_PARSE_ERROR", "{} near '{}' at line {}";
    EMPTY_QUERY = 1065, b"42000", "ER_EMPTY_QUERY", "Query was empty";
    NONUNIQ_TABLE = 1066, b"42000", "ER_NONUNIQ_TABLE", "Not unique table/alias: '{}'";
    INVALID_DEFAULT = 1067, b"42000", "ER_INVALID_DEFAULT", "Invalid default value for '{}'";
    MULTIPLE_PRI_KEY = 1068, b"42000", "ER_MULTIPLE_PRI_KEY", "Multiple primary key defined";
    TOO_MANY_KEYS = 1069, b"42000", "ER_TOO_MANY_KEYS", "Too many keys specified; max {} keys allowed";
    TOO_MANY_KEY_PARTS = 1070, b"42000", "ER_TOO_MANY_KEY_PARTS", "Too many key parts specified; max {} parts allowed";
    TOO_LONG_KEY = 1071, b"42000", "ER_TOO_LONG_KEY", "Specified key was too long; max key length is {} bytes";
    KEY_COLUMN_DOES_NOT_EXITS = 1072, b"42000", "ER_KEY_COLUMN_DOES_NOT_EXITS", "Key column '{}' doesn't exist in table";
    TOO_BIG_FIELDLENGTH = 1074, b"42000", "ER_TOO_BIG_FIELDLENGTH", "Column length too big for column '{}' (max = {}); use BLOB or TEXT instead";
    WRONG_AUTO_KEY = 1075, b"42000", "ER_WRONG_AUTO_KEY", "Incorrect table definition; there can be only one auto column and it must be defined as a key";
    CANT_DROP_FIELD_OR_KEY = 1091, b"42000", "ER_CANT_DROP_FIELD_OR_KEY", "Can't DROP '{}'; check that column/key exists";
    UPDATE_TABLE_USED = 1093, b"HY000", "ER_UPDATE_TABLE_USED", "You can't specify target table '{}' for update in FROM clause";
    NO_SUCH_THREAD = 1094, b"HY000", "ER_NO_SUCH_THREAD", "Unknown thread id: {}";
    KILL_DENIED_ERROR = 1095, b"HY000", "ER_KILL_DENIED_ERROR", "You are not owner of thread {}";
    NO_TABLES_USED = 1096, b"HY000", "ER_NO_TABLES_USED", "No tables used";
    WRONG_DB_NAME = 1102, b"42000", "ER_WRONG_DB_NAME", "Incorrect database name '{}'";
    WRONG_TABLE_NAME = 1103, b"42000", "ER_WRONG_TABLE_NAME", "Incorrect table name '{}'";
    UNKNOWN_ERROR = 1105, b"HY000", "ER_UNKNOWN_ERROR", "{}";
    UNKNOWN_TABLE = 1109, b"42S02", "ER_UNKNOWN_TABLE", "Unknown table '{}' in {}";
    FIELD_SPECIFIED_TWICE = 1110, b"42000", "ER_FIELD_SPECIFIED_TWICE", "Column '{}' specified twice";
    INVALID_GROUP_FUNC_USE = 1111, b"HY000", "ER_INVALID_GROUP_FUNC_USE", "Invalid use of group function";
    TABLE_MUST_HAVE_COLUMNS = 1113, b"42000", "ER_TABLE_MUST_HAVE_COLUMNS", "A table must have at least 1 column";
    RECORD_FILE_FULL = 1114, b"HY000", "ER_RECORD_FILE_FULL", "The table '{}' is full";
    UNKNOWN_CHARACTER_SET = 1115, b"42000", "ER_UNKNOWN_CHARACTER_SET", "Unknown character set: '{}'";
    TOO_MANY_FIELDS = 1117, b"HY000", "ER_TOO_MANY_FIELDS", "Too many columns";
    TOO_BIG_ROWSIZE = 1118, b"42000", "ER_TOO_BIG_ROWSIZE", "Row size too large; the maximum row size is {} bytes";
    WRONG_VALUE_COUNT_ON_ROW = 1136, b"21S01", "ER_WRONG_VALUE_COUNT_ON_ROW", "Column count doesn't match value count at row {}";
    NO_SUCH_TABLE = 1146, b"42S02", "ER_NO_SUCH_TABLE", "Table '{}.{}' doesn't exist";
    NOT_ALLOWED_COMMAND = 1148, b"42000", "ER_NOT_ALLOWED_COMMAND", "The used command is not allowed with this server version";
    NET_PACKET_TOO_LARGE = 1153, b"08S01", "ER_NET_PACKET_TOO_LARGE", "Got a packet bigger than 'max_allowed_packet' bytes";
    NET_PACKETS_OUT_OF_ORDER = 1156, b"08S01", "ER_NET_PACKETS_OUT_OF_ORDER", "Got packets out of order";
    NET_UNCOMPRESS_ERROR = 1157, b"08S01", "ER_NET_UNCOMPRESS_ERROR", "Couldn't uncompress communication packet";
    NET_READ_ERROR = 1158, b"08S01", "ER_NET_READ_ERROR", "Got an error reading communication packets";
    NET_READ_INTERRUPTED = 1159, b"08S01", "ER_NET_READ_INTERRUPTED", "Got timeout reading communication packets";
    NET_ERROR_ON_WRITE = 1160, b"08S01", "ER_NET_ERROR_ON_WRITE", "Got an error writing communication packets";
    NET_WRITE_INTERRUPTED = 1161, b"08S01", "ER_NET_WRITE_INTERRUPTED", "Got timeout writing communication packets";
    WRONG_COLUMN_NAME = 1166, b"42000", "ER_WRONG_COLUMN_NAME", "Incorrect column name '{}'";
    BLOB_KEY_WITHOUT_LENGTH = 1170, b"42000", "ER_BLOB_KEY_WITHOUT_LENGTH", "BLOB/TEXT column '{}' used in key specification without a key length";
    KEY_DOES_NOT_EXITS = 1176, b"42000", "ER_KEY_DOES_NOT_EXITS", "Key '{}' doesn't exist in table '{}'";
    LOCK_OR_ACTIVE_TRANSACTION = 1192, b"HY000", "ER_LOCK_OR_ACTIVE_TRANSACTION", "Can't execute the given command because you have active locked tables or an active transaction";
    UNKNOWN_SYSTEM_VARIABLE = 1193, b"HY000", "ER_UNKNOWN_SYSTEM_VARIABLE", "Unknown system variable '{}'";
    WARNING_NOT_COMPLETE_ROLLBACK = 1196, b"HY000", "ER_WARNING_NOT_COMPLETE_ROLLBACK", "Some non-transactional changed tables couldn't be rolled back";
    LOCK_WAIT_TIMEOUT = 1205, b"HY000", "ER_LOCK_WAIT_TIMEOUT", "Lock wait timeout exceeded; try restarting transaction";
    WRONG_ARGUMENTS = 1210, b"HY000", "ER_WRONG_ARGUMENTS", "Incorrect arguments to {}";
    LOCK_DEADLOCK = 1213, b"40001", "ER_LOCK_DEADLOCK", "Deadlock found when trying to get lock; try restarting transaction";
    WRONG_NUMBER_OF_COLUMNS_IN_SELECT = 1222, b"21000", "ER_WRONG_NUMBER_OF_COLUMNS_IN_SELECT", "The used SELECT statements have a different number of columns";
    SPECIFIC_ACCESS_DENIED_ERROR = 1227, b"42000", "ER_SPECIFIC_ACCESS_DENIED_ERROR", "Access denied; you need (at least one of) the {} privilege(s) for this operation";
    WRONG_VALUE_FOR_VAR = 1231, b"42000", "ER_WRONG_VALUE_FOR_VAR", "Variable '{}' can't be set to the value of '{}'";
    WRONG_TYPE_FOR_VAR = 1232, b"42000", "ER_WRONG_TYPE_FOR_VAR", "Incorrect argument type to variable '{}'";
    NOT_SUPPORTED_YET = 1235, b"42000", "ER_NOT_SUPPORTED_YET", "This version of Perigee doesn't yet support '{}'";
    INCORRECT_GLOBAL_LOCAL_VAR = 1238, b"HY000", "ER_INCORRECT_GLOBAL_LOCAL_VAR", "Variable '{}' is a {} variable";
    OPERAND_COLUMNS = 1241, b"21000", "ER_OPERAND_COLUMNS", "Operand should contain {} column(s)";
    SUBQUERY_NO_1_ROW = 1242, b"21000", "ER_SUBQUERY_NO_1_ROW", "Subquery returns more than 1 row";
    UNKNOWN_STMT_HANDLER = 1243, b"HY000", "ER_UNKNOWN_STMT_HANDLER", "Unknown prepared statement handler ({}) given to {}";
    DERIVED_MUST_HAVE_ALIAS = 1248, b"42000", "ER_DERIVED_MUST_HAVE_ALIAS", "Every derived table must have its own alias";
    NOT_SUPPORTED_AUTH_MODE = 1251, b"08004", "ER_NOT_SUPPORTED_AUTH_MODE", "Client does not support authentication protocol requested by server; consider upgrading MySQL client";
    WARN_TOO_FEW_RECORDS = 1261, b"01000", "ER_WARN_TOO_FEW_RECORDS", "Row {} doesn't contain data for all columns";
    WARN_TOO_MANY_RECORDS = 1262, b"01000", "ER_WARN_TOO_MANY_RECORDS", "Row {} was truncated; it contained more data than there were input columns";
    WARN_NULL_TO_NOTNULL = 1263, b"22004", "ER_WARN_NULL_TO_NOTNULL", "Column set to default value; NULL supplied to NOT NULL column '{}' at row {}";
    WARN_DATA_OUT_OF_RANGE = 1264, b"22003", "ER_WARN_DATA_OUT_OF_RANGE", "Out of range value for column '{}' at row {}";
    WARN_DATA_TRUNCATED = 1265, b"01000", "WARN_DATA_TRUNCATED", "Data truncated for column '{}' at row {}";
    UNKNOWN_COLLATION = 1273, b"HY000", "ER_UNKNOWN_COLLATION", "Unknown collation: '{}'";
    UNKNOWN_STORAGE_ENGINE = 1286, b"42000", "ER_UNKNOWN_STORAGE_ENGINE", "Unknown storage engine '{}'";
    TRUNCATED_WRONG_VALUE = 1292, b"22007", "ER_TRUNCATED_WRONG_VALUE", "Truncated incorrect {} value: '{}'";
    UNSUPPORTED_PS = 1295, b"HY000", "ER_UNSUPPORTED_PS", "This command is not supported in the prepared statement protocol yet";
    INVALID_CHARACTER_STRING = 1300, b"HY000", "ER_INVALID_CHARACTER_STRING", "Invalid {} character string: '{}'";
    SP_DOES_NOT_EXIST = 1305, b"42000", "ER_SP_DOES_NOT_EXIST", "{} {} does not exist";
    QUERY_INTERRUPTED = 1317, b"70100", "ER_QUERY_INTERRUPTED", "Query execution was interrupted";
    NO_DEFAULT_FOR_FIELD = 1364, b"HY000", "ER_NO_DEFAULT_FOR_FIELD", "Field '{}' doesn't have a default value";
    DIVISION_BY_ZERO = 1365, b"22012", "ER_DIVISION_BY_ZERO", "Division by 0";
    TRUNCATED_WRONG_VALUE_FOR_FIELD = 1366, b"HY000", "ER_TRUNCATED_WRONG_VALUE_FOR_FIELD", "Incorrect {} value: '{}' for column '{}' at row {}";
    PS_MANY_PARAM = 1390, b"HY000", "ER_PS_MANY_PARAM", "Prepared statement contains too many placeholders";
    DATA_TOO_LONG = 1406, b"22001", "ER_DATA_TOO_LONG", "Data too long for column '{}' at row {}";
    STMT_HAS_NO_OPEN_CURSOR = 1421, b"HY000", "ER_STMT_HAS_NO_OPEN_CURSOR", "The statement ({}) has no open cursor.";
    TOO_BIG_SCALE = 1425, b"42000", "ER_TOO_BIG_SCALE", "Too big scale {} specified for column '{}'. Maximum is {}.";
    TOO_BIG_PRECISION = 1426, b"42000", "ER_TOO_BIG_PRECISION", "Too-big precision {} specified for '{}'. Maximum is {}.";
    M_BIGGER_THAN_D = 1427, b"42000", "ER_M_BIGGER_THAN_D", "For float(M,D), double(M,D) or decimal(M,D), M must be >= D (column '{}').";
    TOO_BIG_DISPLAYWIDTH = 1439, b"42000", "ER_TOO_BIG_DISPLAYWIDTH", "Display width out of range for column '{}' (max = {})";
    MAX_PREPARED_STMT_COUNT_REACHED = 1461, b"42000", "ER_MAX_PREPARED_STMT_COUNT_REACHED", "Can't create more than max_prepared_stmt_count statements (current value: {})";
    WRONG_VALUE = 1525, b"HY000", "ER_WRONG_VALUE", "Incorrect {} value: '{}'";
    WRONG_PARAMCOUNT_TO_NATIVE_FCT = 1582, b"42000", "ER_WRONG_PARAMCOUNT_TO_NATIVE_FCT", "Incorrect parameter count in the call to native function '{}'";
    DATA_OUT_OF_RANGE = 1690, b"22003", "ER_DATA_OUT_OF_RANGE", "{} value is out of range in '{}'";
    INDEX_CORRUPT = 1712, b"HY000", "ER_INDEX_CORRUPT", "Index {} is corrupted";
    CANT_EXECUTE_IN_READ_ONLY_TRANSACTION = 1792, b"25006", "ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION", "Cannot execute statement in a READ ONLY transaction.";
    MALFORMED_PACKET = 1835, b"HY000", "ER_MALFORMED_PACKET", "Malformed communication packet.";
    READ_ONLY_MODE = 1836, b"HY000", "ER_READ_ONLY_MODE", "Running in read-only mode";
    MUST_CHANGE_PASSWORD_LOGIN = 1862, b"HY000", "ER_MUST_CHANGE_PASSWORD_LOGIN", "Your password has expired. To log in you must change it using a client that supports expired passwords.";
    QUERY_TIMEOUT = 3024, b"HY000", "ER_QUERY_TIMEOUT", "Query execution was interrupted, maximum statement execution time exceeded";
    ACCOUNT_HAS_BEEN_LOCKED = 3118, b"HY000", "ER_ACCOUNT_HAS_BEEN_LOCKED", "Access denied for user '{}'@'{}'. Account is locked.";
    SECURE_TRANSPORT_REQUIRED = 3159, b"HY000", "ER_SECURE_TRANSPORT_REQUIRED", "Connections using insecure transport are prohibited while --require_secure_transport=ON.";
    CLIENT_LOCAL_FILES_DISABLED = 3948, b"42000", "ER_CLIENT_LOCAL_FILES_DISABLED", "Loading local data is disabled; this must be enabled on both the client and server sides";
    CLIENT_INTERACTION_TIMEOUT = 4031, b"HY000", "ER_CLIENT_INTERACTION_TIMEOUT", "The client was disconnected by the server because of inactivity. See wait_timeout and interactive_timeout for configuring this behavior.";
}

/// The listed error with this number.
#[must_use]
pub fn known_error(errno: u16) -> Option<&'static KnownError> {
    let at = KNOWN_ERRORS
        .binary_search_by_key(&errno, |known| known.errno)
        .ok()?;
    Some(&KNOWN_ERRORS[at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_ordered_and_its_states_are_ascii() {
        assert!(KNOWN_ERRORS.is_sorted_by(|a, b| a.errno < b.errno));
        for known in KNOWN_ERRORS {
            let valid = known
                .sqlstate
                .iter()
                .all(|b| b.is_ascii_digit() || b.is_ascii_uppercase());
            assert!(valid, "{}", known.name);
            assert_eq!(known_error(known.errno), Some(known));
        }
        assert_eq!(known_error(1), None);
    }

    #[test]
    fn details_fill_the_message_in_order() {
        let error = ACCESS_DENIED_ERROR.with(&[&"ann", &"localhost", &"YES"]);
        assert_eq!(error.errno, 1045);
        assert_eq!(
            error.to_string(),
            "ERROR 1045 (28000): Access denied for user 'ann'@'localhost' (using password: YES)"
        );
        assert!(ACCESS_DENIED_ERROR.is(&error));
        assert!(!BAD_DB_ERROR.is(&error));
    }

    #[test]
    #[should_panic(expected = "W1")]
    fn a_missing_detail_is_a_bug() {
        let _ = BAD_DB_ERROR.with(&[]);
    }

    #[test]
    fn a_message_of_its_own_keeps_number_and_state() {
        let error = PARSE_ERROR.saying("unexpected end");
        assert_eq!(
            (error.errno, &error.sqlstate, error.message.as_str()),
            (1064, b"42000", "unexpected end")
        );
    }
}
