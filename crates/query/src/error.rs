//! Errors as MySQL reports them: number, SQLSTATE, message.
//!
//! Every error a statement can end with is one line of the registry below, so that number, state
//! and text stand in one place. Errors travel through DataFusion boxed as external errors and come
//! out again in [`SqlError::from`].

use std::fmt;

use datafusion::common::SchemaError;
use datafusion::error::DataFusionError;
use perigee_engine::EngineError;

/// SQLSTATE: five digits and capital letters.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SqlState([u8; 5]);

impl SqlState {
    /// The state that a text is, if it is one.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        let bytes: [u8; 5] = text.as_bytes().try_into().ok()?;
        let is_plain = |byte: &u8| byte.is_ascii_digit() || byte.is_ascii_uppercase();
        bytes.iter().all(is_plain).then_some(Self(bytes))
    }

    /// Of errors that have none of their own.
    pub const UNKNOWN: Self = Self(*b"HY000");

    /// That of an error of the registry.
    const fn of(text: &str) -> Self {
        match text.as_bytes() {
            [a, b, c, d, e] => Self([*a, *b, *c, *d, *e]),
            _ => panic!("SQLSTATE has five characters"),
        }
    }

    /// Its text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        // It is ASCII.
        str::from_utf8(&self.0).unwrap_or("HY000")
    }

    /// Its bytes.
    #[must_use]
    pub fn bytes(self) -> [u8; 5] {
        self.0
    }
}

impl fmt::Debug for SqlState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for SqlState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An error of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqlError {
    /// MySQL's error number.
    pub errno: u16,
    /// SQLSTATE.
    pub sqlstate: SqlState,
    /// Text for the user.
    pub message: String,
}

impl fmt::Display for SqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}): {}", self.errno, self.sqlstate, self.message)
    }
}

impl std::error::Error for SqlError {}

/// What statements return.
pub type Result<T, E = SqlError> = std::result::Result<T, E>;

/// One line of the registry: number, SQLSTATE, text with its parameters in braces.
pub type RegistryEntry = (u16, &'static str, &'static str);

macro_rules! registry {
    ($($(#[$doc:meta])* $name:ident($errno:literal, $state:literal $(, $arg:ident)*) => $text:literal;)*) => {
        /// Every error a statement can end with.
        pub const REGISTRY: &[RegistryEntry] = &[$(($errno, $state, $text)),*];

        impl SqlError {
            $(
                $(#[$doc])*
                #[must_use]
                pub fn $name($($arg: impl fmt::Display),*) -> Self {
                    Self { errno: $errno, sqlstate: const { SqlState::of($state) }, message: format!($text) }
                }
            )*
        }
    };
}

registry! {
    /// CREATE DATABASE of a schema that exists.
    schema_exists(1007, "HY000", schema) => "Can't create database '{schema}'; database exists";
    /// DROP DATABASE of a schema that does not exist.
    drop_unknown_schema(1008, "HY000", schema) => "Can't drop database '{schema}'; database doesn't exist";
    /// A change of what the server makes of what it knows.
    schema_access_denied(1044, "42000", user, host, schema) => "Access denied for user '{user}'@'{host}' to database '{schema}'";
    /// A file of the server that cannot be made.
    file_not_created(1, "HY000", file, errno, text) => "Can't create/write to file '{file}' (OS errno {errno} - {text})";
    /// A file of the server that cannot be read to its end.
    file_not_read(2, "HY000", file, errno, text) => "Error reading file '{file}' (OS errno {errno} - {text})";
    /// A file of the server that is not there.
    file_not_found(29, "HY000", file, errno, text) => "File '{file}' not found (OS errno {errno} - {text})";
    /// A file of the server that cannot be written.
    file_not_written(1026, "HY000", file, errno, text) => "Error writing file '{file}' (OS errno {errno} - {text})";
    /// LOAD DATA of something that is not a file.
    file_not_readable(1085, "HY000", file) => "The file '{file}' must be in the database directory or be readable by all";
    /// INTO OUTFILE of a file that exists.
    file_exists(1086, "HY000", file) => "File '{file}' already exists";
    /// A file of the server in a place that is not for files of statements.
    no_secure_file(1290, "HY000") => "The MySQL server is running with the --secure-file-priv option so it cannot execute this statement";
    /// A GRANT of what the account itself does not have.
    access_denied(1045, "28000", user, host, with_password) => "Access denied for user '{user}'@'{host}' (using password: {with_password})";
    /// A name without a schema, and no USE before.
    no_schema_selected(1046, "3D000") => "No database selected";
    /// NULL for a NOT NULL column.
    null_not_allowed(1048, "23000", column) => "Column '{column}' cannot be null";
    /// USE of, or reference to, an unknown schema.
    unknown_schema(1049, "42000", schema) => "Unknown database '{schema}'";
    /// CREATE TABLE of a table that exists.
    table_exists(1050, "42S01", table) => "Table '{table}' already exists";
    /// DROP TABLE of a table that does not exist.
    unknown_table(1051, "42S02", table) => "Unknown table '{table}'";
    /// A primary key with INVISIBLE.
    invisible_primary_key(3522, "HY000") => "A primary key index cannot be invisible";
    /// A table of invisible columns.
    no_visible_column(4028, "HY000") => "A table must have at least one visible column.";
    /// A key whose expression is JSON.
    functional_index_json(3753, "HY000") => "Cannot create a functional index on a function that returns a JSON or GEOMETRY value.";
    /// A key whose expression names the column that numbers rows.
    functional_index_auto_increment(3754, "HY000", key) => "Functional index '{key}' cannot refer to an auto-increment column";
    /// A primary key with an expression.
    functional_primary_key(3756, "HY000") => "The primary key cannot be a functional index";
    /// A key whose expression is a TEXT or BLOB.
    functional_index_long(3757, "HY000") => "Cannot create a functional index on an expression that returns a BLOB or TEXT. Please consider using CAST.";
    /// A key whose expression has a function, a variable or a query that it may not have.
    functional_index_function(3758, "HY000", key) => "Expression of functional index '{key}' contains a disallowed function.";
    /// A key whose expression is a column.
    functional_index_column(3762, "HY000") => "Functional index on a column is not supported. Consider using a regular index instead.";
    /// A column that goes or gets another name, and is in the expression of a key.
    functional_index_dependency(3837, "HY000", column) => "Column '{column}' has a functional index dependency and cannot be dropped or renamed.";
    /// A column name that fits several tables.
    ambiguous_column(1052, "23000", column, clause) => "Column '{column}' in {clause} is ambiguous";
    /// A column that does not exist.
    unknown_column(1054, "42S22", column, clause) => "Unknown column '{column}' in '{clause}'";
    /// A change of a table that the session has locked for reading.
    table_locked_for_reading(1099, "HY000", table) => "Table '{table}' was locked with a READ lock and can't be updated";
    /// A table that a session uses that has locked others.
    table_not_locked(1100, "HY000", table) => "Table '{table}' was not locked with LOCK TABLES";
    /// What cannot be done while tables are locked.
    active_locks(1192, "HY000") => "Can't execute the given command because you have active locked tables or an active transaction";
    /// A change in a session that has locked all tables for reading.
    read_locked(1223, "HY000") => "Can't execute the query because you have a conflicting read lock";
    /// A selected column that is neither grouped nor aggregated.
    not_grouped(1055, "42000", column) => "Expression of SELECT list is not in GROUP BY clause and contains nonaggregated column '{column}' which is not functionally dependent on columns in GROUP BY clause; this is incompatible with sql_mode=only_full_group_by";
    /// A column beside aggregates, and no GROUP BY.
    mixed_groups(1140, "42000", column) => "In aggregated query without GROUP BY, an expression of SELECT list contains nonaggregated column '{column}'; this is incompatible with sql_mode=only_full_group_by";
    /// Two columns of one name.
    duplicate_column(1060, "42S21", column) => "Duplicate column name '{column}'";
    /// Two indexes of one name.
    duplicate_key_name(1061, "42000", key) => "Duplicate key name '{key}'";
    /// A row whose key exists.
    duplicate_entry(1062, "23000", value, key) => "Duplicate entry '{value}' for key '{key}'";
    /// Text that does not parse.
    syntax(1064, "42000", near, line) => "You have an error in your SQL syntax; check the manual that corresponds to your MySQL server version for the right syntax to use near '{near}' at line {line}";
    /// An empty statement.
    empty_query(1065, "42000") => "Query was empty";
    /// Two tables of one FROM with one name.
    duplicate_alias(1066, "42000", table) => "Not unique table/alias: '{table}'";
    /// A DEFAULT that does not fit the column.
    invalid_default(1067, "42000", column) => "Invalid default value for '{column}'";
    /// ON UPDATE of a column that does not keep that point in time.
    invalid_on_update(1294, "HY000", column) => "Invalid ON UPDATE clause for '{column}' column";
    /// Two primary keys.
    multiple_primary_keys(1068, "42000") => "Multiple primary key defined";
    /// A prefix that a part of a key cannot be.
    wrong_prefix_key(1089, "HY000") => "Incorrect prefix key; the used key part isn't a string, the used length is longer than the key part, or the storage engine doesn't support unique prefix keys";
    /// A part of a key without a character.
    empty_key_part(1391, "HY000", column) => "Key part '{column}' length cannot be 0";
    /// More keys than there may be.
    too_many_keys(1069, "42000", limit) => "Too many keys specified; max {limit} keys allowed";
    /// More columns in a key than there may be.
    too_many_key_parts(1070, "42000", limit) => "Too many key parts specified; max {limit} parts allowed";
    /// A key longer than there may be.
    key_too_long(1071, "42000", limit) => "Specified key was too long; max key length is {limit} bytes";
    /// A key over a column that does not exist.
    unknown_key_column(1072, "42000", column) => "Key column '{column}' doesn't exist in table";
    /// A CHAR that is too long.
    column_too_long(1074, "42000", column, limit) => "Column length too big for column '{column}' (max = {limit}); use BLOB or TEXT instead";
    /// KILL of a connection that does not exist.
    unknown_thread(1094, "HY000", id) => "Unknown thread id: {id}";
    /// EXPLAIN in a form that there is not.
    unknown_explain_format(1791, "HY000", name) => "Unknown EXPLAIN format name: '{name}'";
    /// STATEMENT_DIGEST of what is no statement.
    digest_argument(3676, "HY000", statement) => "Could not parse argument to digest function: \"{statement}\".";
    /// EXPLAIN FOR CONNECTION of one that runs no plan, or none yet.
    explain_not_supported(3012, "HY000") => "EXPLAIN FOR CONNECTION command is supported only for SELECT/UPDATE/INSERT/DELETE/REPLACE";
    /// KILL of somebody else's connection.
    kill_denied(1095, "HY000", id) => "You are not owner of thread {id}";
    /// A TEXT or BLOB column with a default.
    long_default(1101, "42000", column) => "BLOB, TEXT, GEOMETRY or JSON column '{column}' can't have a default value";
    /// A table without columns.
    no_columns(1113, "42000") => "A table must have at least 1 column";
    /// `SELECT *` without FROM.
    no_tables_used(1096, "HY000") => "No tables used";
    /// What is neither of the others.
    unknown(1105, "HY000", message) => "{message}";
    /// A column listed twice in INSERT.
    column_twice(1110, "42000", column) => "Column '{column}' specified twice";
    /// An aggregate where none may be.
    invalid_group_function(1111, "HY000") => "Invalid use of group function";
    /// A character set that does not exist.
    unknown_charset(1115, "42000", name) => "Unknown character set: '{name}'";
    /// More columns than there may be.
    too_many_columns(1117, "HY000") => "Too many columns";
    /// A row longer than a page holds.
    row_too_long(1118, "42000", limit) => "Row size too large. The maximum row size for the used table type, not counting BLOBs, is {limit}. This includes storage overhead, check the manual. You have to change some columns to TEXT or BLOBs";
    /// INSERT with the wrong number of values.
    value_count(1136, "21S01", row) => "Column count doesn't match value count at row {row}";
    /// REVOKE and SHOW GRANTS of what is not granted.
    no_such_grant(1141, "42000", user, host) => "There is no such grant defined for user '{user}' on host '{host}'";
    /// A statement that an account has no privilege for.
    table_access_denied(1142, "42000", command, user, host, table) => "{command} command denied to user '{user}'@'{host}' for table '{table}'";
    /// A statement that reads a column of a table that it may only change.
    column_access_denied(1143, "42000", command, user, host, column, table) => "{command} command denied to user '{user}'@'{host}' for column '{column}' in table '{table}'";
    /// REVOKE of what is not granted for a routine.
    no_such_routine_grant(1403, "42000", user, host, routine) => "There is no such grant defined for user '{user}' on host '{host}' on routine '{routine}'";
    /// GRANT and REVOKE of a role or an account that does not exist.
    unknown_authorization(3523, "HY000", user, host) => "Unknown authorization ID `{user}`@`{host}`";
    /// SET ROLE of a role that the account does not have.
    role_not_granted(3530, "HY000", role, account) => "{role} is not granted to {account}";
    /// RENAME USER of a role.
    role_is_not_renamed(3532, "HY000") => "Renaming of a role identifier is forbidden";
    /// A role of `mandatory_roles` that is to be dropped or revoked.
    mandatory_role(3628, "HY000", role) => "The role {role} is a mandatory role and can't be revoked or dropped. The restriction can be lifted by excluding the role identifier from the global variable mandatory_roles.";
    /// GRANT of a role to one of its own roles.
    role_granted_to_itself(4027, "HY000", account, role) => "User account {account} is directly or indirectly granted to the role {role}. The GRANT would create a loop";
    /// A privilege that cannot be granted for a table.
    illegal_grant(1144, "42000") => "Illegal GRANT/REVOKE command; please consult the manual to see which privileges can be used";
    /// REVOKE of what is not granted for a table.
    no_such_table_grant(1147, "42000", user, host, table) => "There is no such grant defined for user '{user}' on host '{host}' on table '{table}'";
    /// A table that does not exist.
    no_such_table(1146, "42S02", schema, table) => "Table '{schema}.{table}' doesn't exist";
    /// SELECT … INTO of a query with several rows.
    several_rows(1172, "42000") => "Result consisted of more than one row";
    /// SELECT … INTO of a query without rows (a warning).
    no_data(1329, "02000") => "No data - zero rows fetched, selected, or processed";
    /// A column name that no table may have.
    wrong_column_name(1166, "42000", column) => "Incorrect column name '{column}'";
    /// A key over a TEXT or BLOB column.
    long_key(1170, "42000", column) => "BLOB/TEXT column '{column}' used in key specification without a key length";
    /// A primary key over a column that may be NULL.
    primary_key_null(1171, "42000") => "All parts of a PRIMARY KEY must be NOT NULL; if you need NULL in a key, use UNIQUE instead";
    /// SHOW INDEX and the like with a key that does not exist.
    unknown_key(1176, "42000", key, table) => "Key '{key}' doesn't exist in table '{table}'";
    /// `WITH x (a, b) AS (SELECT 1)`.
    column_list(1353, "HY000") => "In definition of view, derived table or common table expression, SELECT list and column names list have different column counts";
    /// DROP TABLE of a view, or the other way round.
    wrong_object(1347, "HY000", schema, name, what) => "'{schema}.{name}' is not {what}";
    /// INTO in a view.
    view_clause(1350, "HY000", clause) => "View's SELECT contains a '{clause}' clause";
    /// A view that means something else in each session.
    view_variable(1351, "HY000") => "View's SELECT contains a variable or parameter";
    /// A view of a table that only this session has.
    view_temporary(1352, "HY000", table) => "View's SELECT refers to a temporary table '{table}'";
    /// A view whose tables are not there any more.
    broken_view(1356, "HY000", schema, view) => "View '{schema}.{view}' references invalid table(s) or column(s) or function(s) or definer/invoker of view lack rights to use them";
    /// WITH CHECK OPTION of a view whose rows cannot be changed.
    check_not_updatable(1368, "HY000", schema, view) => "CHECK OPTION on non-updatable view '{schema}.{view}'";
    /// A row that a view WITH CHECK OPTION does not show.
    check_failed(1369, "HY000", schema, view) => "CHECK OPTION failed '{schema}.{view}'";
    /// INSERT into a view of several tables, without its columns.
    insert_into_join(1394, "HY000", schema, view) => "Can not insert into join view '{schema}.{view}' without fields list";
    /// DELETE from a view of several tables.
    delete_from_join(1395, "HY000", schema, view) => "Can not delete from join view '{schema}.{view}'";
    /// INSERT into columns of several tables.
    several_tables(1393, "HY000", schema, view) => "Can not modify more than one base table through a join view '{schema}.{view}'";
    /// A column of a view that is computed.
    column_not_updatable(1348, "HY000", column) => "Column '{column}' is not updatable";
    /// INSERT into a view that is no more than a query.
    not_insertable(1471, "HY000", table, statement) => "The target table {table} of the {statement} is not insertable-into";
    /// INSERT into a view whose table has further columns, which need values.
    view_no_default(1423, "HY000", schema, view) => "Field of view '{schema}.{view}' underlying table doesn't have a default value";
    /// The definer of a view is not there.
    no_such_definer(1449, "HY000", user, host) => "The user specified as a definer ('{user}'@'{host}') does not exist";
    /// RENAME TABLE of a view into another schema.
    view_schema_change(1450, "HY000", from, to) => "Changing schema from '{from}' to '{to}' is not allowed.";
    /// A variable that does not exist.
    unknown_variable(1193, "HY000", name) => "Unknown system variable '{name}'";
    /// A generated column with an expression that it may not have.
    generated_function(3102, "HY000", column) => "Expression of generated column '{column}' contains a disallowed function.";
    /// A foreign key that would change a generated column.
    generated_foreign_key(3104, "HY000", action) => "Cannot define foreign key with {action} clause on a generated column.";
    /// A value for a generated column.
    generated_value(3105, "HY000", column, table) => "The value specified for generated column '{column}' in table '{table}' is not allowed.";
    /// What generated columns do not have.
    generated_unsupported(3106, "HY000", action) => "'{action}' is not supported for generated columns.";
    /// A generated column that is computed from a later one.
    generated_order(3107, "HY000") => "Generated column can refer only to generated columns defined prior to it.";
    /// A column that goes, from which another one is computed.
    generated_dependency(3108, "HY000", column) => "Column '{column}' has a generated column dependency.";
    /// A generated column that is computed from the one that numbers rows.
    generated_auto_increment(3109, "HY000", column) => "Generated column '{column}' cannot refer to auto-increment column.";
    /// OF with a table that is not in FROM.
    unresolved_lock_table(3568, "HY000", table) => "Unresolved table name {table} in locking clause.";
    /// SET TRANSACTION in a transaction.
    transaction_in_progress(1568, "25001") => "Transaction characteristics can't be changed while a transaction is in progress";
    /// A write in a read-only transaction.
    read_only_transaction(1792, "25006") => "Cannot execute statement in a READ ONLY transaction.";
    /// A savepoint that does not exist.
    unknown_savepoint(1305, "42000", name) => "SAVEPOINT {name} does not exist";
    /// A table that is changed and is none that can be.
    not_updatable(1288, "HY000", table, statement) => "The target table {table} of the {statement} is not updatable";
    /// DELETE of a table that the statement does not read.
    unknown_delete_table(1109, "42S02", table) => "Unknown table '{table}' in MULTI DELETE";
    /// START TRANSACTION WITH CONSISTENT SNAPSHOT where it has no meaning (a warning).
    snapshot_ignored(138, "HY000") => "InnoDB: WITH CONSISTENT SNAPSHOT was ignored because this phrase can only be used with REPEATABLE READ isolation level.";
    /// A wrong number of values for a prepared statement.
    wrong_arguments_to(1210, "HY000", command) => "Incorrect arguments to {command}";
    /// A wrong use of two clauses.
    wrong_usage(1221, "HY000", a, b) => "Incorrect usage of {a} and {b}";
    /// UNION of queries with different numbers of columns.
    union_columns(1222, "21000") => "The used SELECT statements have a different number of columns";
    /// A statement that needs a privilege for the whole server.
    privilege_needed(1227, "42000", privileges) => "Access denied; you need (at least one of) the {privileges} privilege(s) for this operation";
    /// SET GLOBAL of a variable of sessions only.
    session_variable(1228, "HY000", name) => "Variable '{name}' is a SESSION variable and can't be used with SET GLOBAL";
    /// SET SESSION of a global variable.
    global_variable(1229, "HY000", name) => "Variable '{name}' is a GLOBAL variable and should be set with SET GLOBAL";
    /// A value that a variable cannot have.
    wrong_value_for_variable(1231, "42000", name, value) => "Variable '{name}' can't be set to the value of '{value}'";
    /// A value of the wrong type for a variable.
    wrong_type_for_variable(1232, "42000", name) => "Incorrect argument type to variable '{name}'";
    /// What this server does not do.
    not_supported(1235, "42000", feature) => "This version of Perigee doesn't yet support '{feature}'";
    /// SET of a read-only variable.
    read_only_variable(1238, "HY000", name) => "Variable '{name}' is a read only variable";
    /// A tuple of the wrong size.
    operand_columns(1241, "21000", count) => "Operand should contain {count} column(s)";
    /// A scalar subquery with several rows.
    subquery_rows(1242, "21000") => "Subquery returns more than 1 row";
    /// A prepared statement that does not exist.
    unknown_statement(1243, "HY000", statement, command) => "Unknown prepared statement handler ({statement}) given to {command}";
    /// A derived table without a name.
    derived_alias(1248, "42000") => "Every derived table must have its own alias";
    /// A line of LOAD DATA with too few fields.
    too_few_fields(1261, "01000", row) => "Row {row} doesn't contain data for all columns";
    /// A line of LOAD DATA with too many fields.
    too_many_fields(1262, "01000", row) => "Row {row} was truncated; it contained more data than there were input columns";
    /// A number outside its column's range.
    out_of_range(1264, "22003", column, row) => "Out of range value for column '{column}' at row {row}";
    /// A value that does not fit its type exactly.
    data_truncated(1265, "01000", column, row) => "Data truncated for column '{column}' at row {row}";
    /// COLLATE clauses that do not go together.
    mix_of_collations(1267, "HY000", a, b) => "Illegal mix of collations ({a}) and ({b}) for operation";
    /// A literal whose bytes are no text of its character set.
    invalid_text(1300, "HY000", charset) => "Invalid {charset} character string";
    /// A collation of another character set.
    collation_of_charset(1253, "42000", collation, charset) => "COLLATION '{collation}' is not valid for CHARACTER SET '{charset}'";
    /// A collation that does not exist.
    unknown_collation(1273, "HY000", name) => "Unknown collation: '{name}'";
    /// A storage engine that does not exist.
    unknown_engine(1286, "42000", name) => "Unknown storage engine '{name}'";
    /// A value that is not of the type (as a warning, or in a condition).
    truncated_wrong_value(1292, "22007", kind, value) => "Truncated incorrect {kind} value: '{value}'";
    /// A time zone that is not known.
    unknown_zone(1298, "HY000", name) => "Unknown or incorrect time zone: '{name}'";
    /// A time that clocks skipped when they were set forward.
    invalid_timestamp(1299, "HY000", column, row) => "Invalid TIMESTAMP value in column '{column}' at row {row}";
    /// A temporal value that is none, for a column.
    incorrect_temporal_for_column(1292, "22007", kind, value, column, row) => "Incorrect {kind} value: '{value}' for column '{column}' at row {row}";
    /// A statement that cannot be prepared.
    not_preparable(1295, "HY000") => "This command is not supported in the prepared statement protocol yet";
    /// DROP of a column or key that a table does not have.
    cant_drop(1091, "42000", name) => "Can't DROP '{name}'; check that column/key exists";
    /// ALTER TABLE that would leave no column.
    cant_drop_all(1090, "42000") => "You can't delete all columns with ALTER TABLE; use DROP TABLE instead";
    /// NULL in a column that is to be NOT NULL.
    invalid_null(1138, "22004") => "Invalid use of NULL value";
    /// A name that no key may have.
    wrong_index_name(1280, "42000", name) => "Incorrect index name '{name}'";
    /// A function that does not exist.
    unknown_function(1305, "42000", name) => "FUNCTION {name} does not exist";
    /// An account that exists, or does not.
    user_operation_failed(1396, "HY000", operation, users) => "Operation {operation} failed for {users}";
    /// GRANT to an account that does not exist.
    grant_creates_no_user(1410, "42000") => "You are not allowed to create a user with GRANT";
    /// A user's name that is too long.
    user_too_long(1470, "HY000", user) => "String '{user}' is too long for user name (should be no longer than 32)";
    /// An authentication plugin that does not exist.
    unknown_plugin(1524, "HY000", name) => "Plugin '{name}' is not loaded";
    /// A statement of an account whose password has expired.
    must_change_password(1820, "HY000") => "You must reset your password using ALTER USER statement before executing this statement.";
    /// AS with what is none of the plugin's hashes.
    password_format(1827, "HY000") => "The password hash doesn't have the expected format.";
    /// CREATE USER of an account that exists, with IF NOT EXISTS (a note).
    user_exists(3163, "HY000", user) => "Authorization ID {user} already exists.";
    /// DROP and ALTER USER of an account that does not exist, with IF EXISTS (a note).
    user_missing(3162, "HY000", user) => "Authorization ID {user} does not exist.";
    /// A dynamic privilege for a schema or a table.
    illegal_privilege_level(3619, "HY000", privileges) => "Illegal privilege level specified for {privileges}";
    /// AUTO_INCREMENT has handed out all numbers.
    numbers_exhausted(1467, "HY000") => "Failed to read auto-increment value from storage engine";
    /// Two AUTO_INCREMENT columns, or one without a key.
    wrong_auto_increment(1075, "42000") => "Incorrect table definition; there can be only one auto column and it must be defined as a key";
    /// A BIT of more bits than there can be.
    too_wide(1439, "42000", column, most) => "Display width out of range for column '{column}' (max = {most})";
    /// Two members of an ENUM or a SET are the same.
    duplicated_value(1291, "HY000", column, value, ty) => "Column '{column}' has duplicated value '{value}' in {ty}";
    /// A member of an ENUM or a SET has more than 255 characters.
    too_long_value(1097, "HY000", column) => "Too long enumeration/set value for column {column}.";
    /// An ENUM or a SET has more members than there can be.
    too_many_values(1097, "HY000", column, ty) => "Too many strings for column {column} and {ty}";
    /// AUTO_INCREMENT of a column that is no integer.
    wrong_column_specifier(1063, "42000", column) => "Incorrect column specifier for column '{column}'";
    /// A statement that was killed.
    interrupted(1317, "70100") => "Query execution was interrupted";
    /// Division by zero (a warning, or an error of strict INSERT).
    division_by_zero(1365, "22012") => "Division by 0";
    /// A value that is not of the column's type.
    incorrect_value(1366, "HY000", kind, value, column, row) => "Incorrect {kind} value: '{value}' for column '{column}' at row {row}";
    /// A column without value and default.
    no_default(1364, "HY000", column) => "Field '{column}' doesn't have a default value";
    /// An argument that is no value for a function.
    wrong_value_for_function(1411, "HY000", kind, value, function) => "Incorrect {kind} value: '{value}' for function {function}";
    /// A parameter that is no value of its type.
    illegal_value(1367, "22007", kind, value) => "Illegal {kind} '{value}' value found during parsing";
    /// A prepared statement with more parameters than the protocol counts.
    too_many_placeholders(1390, "HY000") => "Prepared statement contains too many placeholders";
    /// A statement with too many parentheses or CASEs, one inside the other.
    too_nested(1436, "HY000", limit) => "Thread stack overrun: parentheses or CASEs of more than {limit} levels, one inside the other";
    /// A statement that is nested too deep.
    too_deep(1436, "HY000", limit) => "Thread stack overrun: an expression of more than {limit} operators, one inside the other";
    /// A statement with too many terms or branches.
    too_long(1436, "HY000", limit) => "Thread stack overrun: a condition or a UNION of more than {limit} parts";
    /// A statement whose common table expressions and repeated operands stand for too much.
    too_large(1436, "HY000", limit) => "Thread stack overrun: a statement that stands for more than {limit} expressions";
    /// More tables in one FROM than MySQL has.
    too_many_tables(1116, "HY000", limit) => "Too many tables; MySQL can only use {limit} tables in a join";
    /// A SELECT that ran longer than `max_execution_time`.
    execution_time(3024, "HY000") => "Query execution was interrupted, maximum statement execution time exceeded";
    /// A recursive query of more steps than `cte_max_recursion_depth`.
    recursion_depth(3636, "HY000", steps) => "Recursive query aborted after {steps} iterations. Try increasing @@cte_max_recursion_depth to a larger value.";
    /// A string longer than its column.
    data_too_long(1406, "22001", column, row) => "Data too long for column '{column}' at row {row}";
    /// A DECIMAL whose scale is too big.
    scale_too_big(1425, "42000", scale, column, limit) => "Too big scale {scale} specified for column '{column}'. Maximum is {limit}.";
    /// A DECIMAL whose precision is too big.
    precision_too_big(1426, "42000", precision, column, limit) => "Too big precision {precision} specified for '{column}'. Maximum is {limit}.";
    /// A DECIMAL with more scale than precision.
    scale_above_precision(1427, "42000", column) => "For float(M,D), double(M,D) or decimal(M,D), M must be >= D (column '{column}').";
    /// More prepared statements than may be.
    too_many_prepared(1461, "42000", limit) => "Can't create more than max_prepared_stmt_count statements (current value: {limit})";
    /// A temporal literal that is none.
    incorrect_literal(1525, "HY000", kind, value) => "Incorrect {kind} value: '{value}'";
    /// A YEAR of another number of digits.
    invalid_year_length(1818, "HY000") => "Supports only YEAR or YEAR(4) column.";
    /// JSON_QUOTE of what is no string.
    incorrect_type(3064, "HY000", argument, function) => "Incorrect type for argument {argument} in function {function}.";
    /// Text for a JSON column that is no JSON.
    invalid_json_text(3140, "22032", reason, at, column) => "Invalid JSON text: \"{reason}\" at position {at} in value for column '{column}'.";
    /// An argument that is no JSON.
    invalid_json_argument(3141, "22032", argument, function, reason, at) => "Invalid JSON text in argument {argument} to function {function}: \"{reason}\" at position {at}.";
    /// A path that is none.
    invalid_json_path(3143, "42000", at) => "Invalid JSON path expression. The error is around character position {at}.";
    /// Bytes where JSON is wanted.
    json_of_binary(3144, "22032", charset) => "Cannot create a JSON value from a string with CHARACTER SET '{charset}'.";
    /// An argument of a type that has no JSON text.
    invalid_json_type(3146, "22032", argument, function) => "Invalid data type for JSON data in argument {argument} to function {function}; a JSON string or JSON type is required.";
    /// A wildcard where a path must lead to one value.
    json_path_wildcard(3149, "42000") => "In this situation, path expressions may not contain the * and ** tokens or an array range.";
    /// A key over a JSON column.
    json_key(3152, "42000", column) => "JSON column '{column}' supports indexing only via generated columns on a specified JSON path.";
    /// JSON_REMOVE of the whole document.
    json_vacuous_path(3153, "42000") => "The path expression '$' is not allowed in this context.";
    /// JSON_CONTAINS_PATH with neither 'one' nor 'all'.
    json_one_or_all(3154, "42000", function) => "The oneOrAll argument to {function} may take these values: 'one' or 'all'.";
    /// Too many arrays and objects within each other.
    json_too_deep(3157, "22032") => "The JSON document exceeds the maximum depth.";
    /// JSON_OBJECT with NULL for a name.
    json_null_name(3158, "22032") => "JSON documents may not contain NULL member names.";
    /// JSON_ARRAY_INSERT at what is not an element.
    json_not_cell(3165, "42000") => "A path expression is not a path to a cell in an array.";
    /// JSON_TABLE found nothing for a column.
    json_table_missing(3665, "22035", column) => "Missing value for JSON_TABLE column '{column}'";
    /// JSON_TABLE found an array or an object for a column of scalars.
    json_table_scalar(3666, "2203F", column) => "Can't store an array or an object in the scalar JSON_TABLE column '{column}'";
    /// JSON_TABLE found a value that its column cannot hold.
    json_table_range(3669, "22003", column) => "Value is out of range for JSON_TABLE's column '{column}'";
    /// JSON_TABLE found a value that is not of its column's type.
    json_table_cast(3156, "22018", column) => "Invalid JSON value for CAST to column '{column}' of JSON_TABLE";
    /// JSON_VALUE … ERROR ON ERROR with a value that is not of its type.
    json_cast(3156, "22018", function) => "Invalid JSON value for CAST in function {function}";
    /// JSON_VALUE … ERROR ON EMPTY that found nothing.
    json_missing_value(3966, "22035", function) => "No value was found by '{function}' on the specified path.";
    /// Wrong number of arguments of a function.
    wrong_arguments(1582, "42000", name) => "Incorrect parameter count in the call to native function '{name}'";
    /// An exact number outside its type.
    numeric_range(1690, "22003", kind, expression) => "{kind} value is out of range in '{expression}'";
    /// More writers than there are slots.
    too_many_transactions(1637, "HY000") => "Too many active concurrent transactions";
    /// A wrong argument of LOAD DATA's options.
    wrong_separator(1083, "42000") => "Field separator argument is not what is expected; check the manual";
    /// A query that needs more memory than it may have.
    out_of_memory(1038, "HY001", detail) => "Out of memory for this statement, consider raising query_memory_limit: {detail}";
    /// All connections together need more memory than there is for them.
    process_out_of_memory(1038, "HY001", detail) => "Out of memory for the statements of all connections: {detail}";
    /// A text whose tokens and trees need more memory than a statement may have.
    parser_capacity(3170, "HY000", limit) => "Memory capacity of {limit} bytes for 'query_memory_limit' exceeded. Parser bailed out for this query.";
    /// LOAD DATA without LOCAL, or where the client does not allow it.
    load_not_allowed(3948, "42000") => "Loading local data is disabled; this must be enabled on both the client and server sides";
    /// A row was changed by others since the transaction's snapshot was made.
    record_changed(1020, "HY000", table) => "Record has changed since last read in table '{table}'";
    /// A lock was not to be had in time.
    lock_timeout(1205, "HY000") => "Lock wait timeout exceeded; try restarting transaction";
    /// Transactions would have waited for each other for ever.
    deadlock(1213, "40001") => "Deadlock found when trying to get lock; try restarting transaction";
    /// A table was changed by DDL since the statement began.
    table_changed(1412, "HY000") => "Table definition has changed, please retry transaction";
    /// A ROWS frame with a distance that is not a whole number.
    frame_bound(3586, "HY000") => "Window '<unnamed window>': frame start or end is negative, NULL or of non-integral type";
    /// A RANGE frame with a distance, over a type that has no distances or over several expressions.
    frame_order_type(3587, "HY000") => "Window '<unnamed window>' with RANGE N PRECEDING/FOLLOWING frame requires exactly one ORDER BY expression, of numeric or temporal type";
    /// A RANGE frame over dates whose distance is a number.
    frame_of_dates(3588, "HY000") => "Window '<unnamed window>' with RANGE frame has ORDER BY expression of datetime type. Only INTERVAL bound value allowed.";
    /// A RANGE frame over numbers whose distance is an interval.
    frame_of_numbers(3589, "HY000") => "Window '<unnamed window>' with RANGE frame has ORDER BY expression of numeric type, INTERVAL bound value not allowed.";
    /// NOWAIT, and a row is locked.
    locked_no_wait(3572, "HY000") => "Statement aborted because lock(s) could not be acquired immediately and NOWAIT is set.";
    /// A store, or this node, has no room on its disk.
    disk_full(1021, "HY000", detail) => "Disk full ({detail})";
    /// The log of a commit or of a change of definition is not durable in time; it may be later.
    outcome_open(1180, "HY000", detail) => "Got error during COMMIT: {detail}";
    /// A statement that failed in a transaction could not be undone alone.
    transaction_undone(3101, "40000", what, why) => "{what}; the whole transaction is rolled back, because storage does not let the statement be undone alone: {why}";
    /// Storage does not serve what is asked.
    storage(1030, "HY000", detail) => "Got error from storage: {detail}";
    /// Stored bytes contradict their checksum or format.
    corrupt(1712, "HY000", detail) => "Index or table is corrupted: {detail}";
    /// The server is going away.
    shutting_down(1053, "08S01") => "Server shutdown in progress";
    /// A name that is too long.
    name_too_long(1059, "42000", name) => "Identifier name '{name}' is too long";
    /// A foreign key that InnoDB does not have.
    cannot_add_foreign_key(1215, "HY000") => "Cannot add foreign key constraint";
    /// A foreign key that has not as many columns as it refers to.
    wrong_foreign_key(1239, "42000", key) => "Incorrect foreign key definition for '{key}': Key reference and table reference don't match";
    /// A row that is referred to.
    row_is_referenced(1451, "23000", key) => "Cannot delete or update a parent row: a foreign key constraint fails ({key})";
    /// A row that would refer to none.
    no_referenced_row(1452, "23000", key) => "Cannot add or update a child row: a foreign key constraint fails ({key})";
    /// DROP of an index that a foreign key needs.
    index_needed(1553, "HY000", index) => "Cannot drop index '{index}': needed in a foreign key constraint";
    /// TRUNCATE of a table that is referred to.
    truncate_referenced(1701, "42000", schema, table, key) => "Cannot truncate a table referenced in a foreign key constraint (`{schema}`.`{table}`, CONSTRAINT `{key}`)";
    /// A row that follows another would get a key that exists.
    duplicate_in_child(1761, "23000", table, row, child, index) => "Foreign key constraint for table '{table}', record '{row}' would lead to a duplicate entry in table '{child}', key '{index}'";
    /// A foreign key to a table without the index that it needs.
    no_referenced_index(1822, "HY000", key, table) => "Failed to add the foreign key constraint. Missing index for constraint '{key}' in the referenced table '{table}'";
    /// A foreign key to a table that does not exist.
    no_referenced_table(1824, "HY000", table) => "Failed to open the referenced table '{table}'";
    /// Two foreign keys of one name.
    foreign_key_exists(1826, "HY000", name) => "Duplicate foreign key constraint name '{name}'";
    /// DROP of a column of a foreign key.
    foreign_key_column_needed(1828, "HY000", column, key) => "Cannot drop column '{column}': needed in a foreign key constraint '{key}'";
    /// DROP of a column that is referred to.
    referenced_column_dropped(1829, "HY000", column, key, table) => "Cannot drop column '{column}': needed in a foreign key constraint '{key}' of table '{table}'";
    /// SET NULL of a column that cannot be NULL.
    foreign_key_not_null(1830, "HY000", column, key) => "Column '{column}' cannot be NOT NULL: needed in a foreign key constraint '{key}' SET NULL";
    /// Another type for a column of a foreign key.
    foreign_key_column_changed(1832, "HY000", column, key) => "Cannot change column '{column}': used in a foreign key constraint '{key}'";
    /// Another type for a column that is referred to.
    referenced_column_changed(1833, "HY000", column, key, table) => "Cannot change column '{column}': used in a foreign key constraint '{key}' of table '{table}'";
    /// Foreign keys that go on for too long.
    cascade_depth(3008, "HY000", depth) => "Foreign key cascade delete/update exceeds max depth of {depth}.";
    /// DROP of a table that is referred to.
    table_is_referenced(3730, "HY000", table, key, child) => "Cannot drop table '{table}' referenced by a foreign key constraint '{key}' on table '{child}'.";
    /// A foreign key to a column that does not exist.
    no_referenced_column(3734, "HY000", column, key, table) => "Failed to add the foreign key constraint. Missing column '{column}' for constraint '{key}' in the referenced table '{table}'";
    /// A foreign key to a column of another type.
    incompatible_columns(3780, "HY000", column, referenced, key) => "Referencing column '{column}' and referenced column '{referenced}' in foreign key constraint '{key}' are incompatible.";
    /// CHECK with what has no truth value.
    check_not_boolean(3812, "HY000", name) => "An expression of non-boolean type specified to a check constraint '{name}'.";
    /// CHECK of a column that names another one.
    check_other_column(3813, "HY000", name) => "Column check constraint '{name}' references other column.";
    /// CHECK with a function that gives another value each time.
    check_named_function(3814, "HY000", name, function) => "An expression of a check constraint '{name}' contains disallowed function: {function}.";
    /// CHECK with a subquery.
    check_function(3815, "HY000", name) => "An expression of a check constraint '{name}' contains disallowed function.";
    /// CHECK with a variable.
    check_variable(3816, "HY000", name) => "An expression of a check constraint '{name}' cannot refer to a user or system variable.";
    /// CHECK of the column that numbers rows.
    check_auto_increment(3818, "HY000", name) => "Check constraint '{name}' cannot refer to an auto-increment column.";
    /// A row that does not keep a CHECK constraint.
    check_violated(3819, "HY000", name) => "Check constraint '{name}' is violated.";
    /// CHECK of a column that does not exist.
    check_unknown_column(3820, "HY000", name, column) => "Check constraint '{name}' refers to non-existing column '{column}'.";
    /// A CHECK constraint that does not exist.
    check_not_found(3821, "HY000", name) => "Check constraint '{name}' is not found in the table.";
    /// Two CHECK constraints of one name.
    check_exists(3822, "HY000", name) => "Duplicate check constraint name '{name}'.";
    /// CHECK of a column that a foreign key changes.
    check_of_foreign_key(3823, "HY000", column, name, key) => "Column '{column}' cannot be used in a check constraint '{name}': needed in a foreign key constraint '{key}' referential action.";
    /// A name that constraints of several kinds have.
    several_constraints(3939, "HY000", name) => "Table has multiple constraints with the name '{name}'. Please use constraint specific 'DROP' clause.";
    /// A constraint that does not exist.
    constraint_not_found(3940, "HY000", name) => "Constraint '{name}' does not exist.";
    /// DROP or RENAME of a column that a CHECK constraint uses.
    column_of_check(3959, "HY000", name, column) => "Check constraint '{name}' uses column '{column}', hence column cannot be dropped or renamed.";
    /// A table for which another storage engine is asked for.
    other_engine(1266, "HY000", table) => "Using storage engine Perigee for table '{table}'";
    /// CREATE PROCEDURE of one that exists.
    procedure_exists(1304, "42000", name) => "PROCEDURE {name} already exists";
    /// CREATE PROCEDURE in a procedure.
    program_in_program(1303, "2F003", what) => "Can't create a {what} from within another stored routine";
    /// A procedure that does not exist.
    no_such_procedure(1305, "42000", name) => "PROCEDURE {name} does not exist";
    /// CREATE TRIGGER of one that exists.
    trigger_exists(1359, "HY000") => "Trigger already exists";
    /// A trigger that does not exist.
    no_such_trigger(1360, "HY000") => "Trigger does not exist";
    /// A trigger that gives a column of a row a value that it may not change.
    row_not_updatable(1362, "HY000", row, timing) => "Updating of {row} row is not allowed in {timing}trigger";
    /// A trigger that names a row that its event does not have.
    no_such_row_in_trigger(1363, "HY000", row, event) => "There is no {row} row in {event} trigger";
    /// A statement that may not run while rows of another one are changed.
    not_in_trigger(1336, "0A000", what) => "{what} is not allowed in stored function or trigger";
    /// A result set of a trigger.
    result_set_in(1415, "0A000", what) => "Not allowed to return a result set from a {what}";
    /// An end of the transaction in a trigger.
    commit_in_trigger(1422, "HY000") => "Explicit or implicit commit is not allowed in stored function or trigger.";
    /// A trigger of a temporary table.
    trigger_on_temporary(1361, "HY000", table) => "Trigger's '{table}' is view or temporary table";
    /// A trigger in another schema than its table.
    trigger_in_wrong_schema(1435, "HY000") => "Trigger in wrong schema";
    /// A trigger that changes a table of the statement that fires it.
    table_in_use(1442, "HY000", table) => "Can't update table '{table}' in stored function/trigger because it is already used by statement which invoked this stored function/trigger.";
    /// A trigger that sets autocommit.
    autocommit_in_trigger(1445, "HY000") => "Not allowed to set autocommit from a stored function or trigger";
    /// FOLLOWS or PRECEDES with the name of another kind of trigger.
    no_referenced_trigger(3011, "HY000", name) => "Referenced trigger '{name}' for the given action time and event type does not exist.";
    /// LEAVE or ITERATE of what there is not around it.
    no_such_label(1308, "42000", what, label) => "{what} with no matching label: {label}";
    /// A label within a block or loop of the same label.
    label_redefined(1309, "42000", label) => "Redefining label {label}";
    /// A label behind END that is not the one before BEGIN.
    end_label(1310, "42000", label) => "End-label {label} without match";
    /// RETURN in a procedure.
    return_in_procedure(1313, "42000") => "RETURN is only allowed in a FUNCTION";
    /// A statement that a program may not have.
    not_in_programs(1314, "0A000", what) => "{what} is not allowed in stored procedures";
    /// CALL with too few or too many arguments.
    wrong_argument_count(1318, "42000", name, expected, got) => "Incorrect number of arguments for PROCEDURE {name}; expected {expected}, got {got}";
    /// A condition that was not declared.
    undefined_condition(1319, "42000", name) => "Undefined CONDITION: {name}";
    /// A cursor over what is no query.
    bad_cursor_query(1322, "42000") => "Cursor statement must be a SELECT";
    /// A cursor over SELECT … INTO.
    cursor_into(1323, "42000") => "Cursor SELECT must not have INTO";
    /// A cursor that was not declared.
    undefined_cursor(1324, "42000", name) => "Undefined CURSOR: {name}";
    /// OPEN of an open cursor.
    cursor_open(1325, "24000") => "Cursor is already open";
    /// FETCH or CLOSE of a closed cursor.
    cursor_closed(1326, "24000") => "Cursor is not open";
    /// A variable that was not declared.
    undeclared_variable(1327, "42000", name) => "Undeclared variable: {name}";
    /// FETCH into too few or too many variables.
    fetch_variables(1328, "HY000") => "Incorrect number of FETCH variables";
    /// Two parameters of one name.
    duplicate_parameter(1330, "42000", name) => "Duplicate parameter: {name}";
    /// Two variables of one name.
    duplicate_variable(1331, "42000", name) => "Duplicate variable: {name}";
    /// Two conditions of one name.
    duplicate_condition(1332, "42000", name) => "Duplicate condition: {name}";
    /// Two cursors of one name.
    duplicate_cursor(1333, "42000", name) => "Duplicate cursor: {name}";
    /// DECLARE of a variable behind that of a cursor or handler.
    variable_after_cursor(1337, "42000") => "Variable or condition declaration after cursor or handler declaration";
    /// DECLARE of a cursor behind that of a handler.
    cursor_after_handler(1338, "42000") => "Cursor declaration after handler declaration";
    /// CASE without a branch that fits.
    case_not_found(1339, "20000") => "Case not found for CASE statement";
    /// A procedure that may not be used so.
    routine_access_denied(1370, "42000", command, user, host, name) => "{command} command denied to user '{user}'@'{host}' for routine '{name}'";
    /// SQLSTATE of success, or of nothing.
    bad_state(1407, "42000", state) => "Bad SQLSTATE: '{state}'";
    /// Two handlers of a block for the same condition.
    duplicate_handler(1413, "42000") => "Duplicate handler declared in the same block";
    /// CALL with a value in the place of what is given back.
    argument_is_no_variable(1414, "42000", number, name) => "OUT or INOUT argument {number} for routine {name} is not a variable or NEW pseudo-variable in BEFORE trigger";
    /// A procedure that calls itself too deep.
    recursion_limit(1456, "HY000", limit, name) => "Recursive limit {limit} (as set by the max_sp_recursion_depth variable) was exceeded for routine {name}";
    /// RESIGNAL outside handlers.
    resignal_without_handler(1645, "0K000") => "RESIGNAL when handler not active";
    /// SIGNAL of a condition that is an error number.
    signal_without_state(1646, "HY000") => "SIGNAL/RESIGNAL can only use a CONDITION defined with SQLSTATE";
    /// SIGNAL with too much text.
    signal_item_too_long(1648, "22001", item) => "Data too long for condition item '{item}'";
    /// GET DIAGNOSTICS of a condition that there is not.
    no_such_condition(1758, "35000") => "Invalid condition number";
    /// GET STACKED DIAGNOSTICS outside handlers.
    no_handler(1887, "0Z002") => "GET STACKED DIAGNOSTICS when handler not active";
    /// SIGNAL of a warning.
    signalled_warning(1642, "01000") => "Unhandled user-defined warning condition";
    /// SIGNAL of what was not found.
    signalled_not_found(1643, "02000") => "Unhandled user-defined not found condition";
    /// SIGNAL of an error.
    signalled_error(1644, "HY000") => "Unhandled user-defined exception condition";
    /// Another frontend has opened the database: this one ends. Drivers take it for a broken connection.
    taken_over(1053, "08S01", why) => "Server shutdown in progress: {why}";
}

impl SqlError {
    /// An error that ended a statement from outside (the client went away, say), with its own
    /// number.
    #[must_use]
    pub fn interrupted_by(errno: u16, message: &str) -> Self {
        Self {
            errno,
            sqlstate: SqlState::UNKNOWN,
            message: message.to_owned(),
        }
    }

    /// What SIGNAL raises of a state.
    #[must_use]
    pub fn signalled(state: SqlState) -> Self {
        let error = match &state.as_str()[..2] {
            "01" => Self::signalled_warning(),
            "02" => Self::signalled_not_found(),
            _ => Self::signalled_error(),
        };
        Self {
            sqlstate: state,
            ..error
        }
    }

    /// True for errors with which the whole transaction is rolled back, not only the statement.
    #[must_use]
    pub fn ends_transaction(&self) -> bool {
        // MySQL's and MariaDB's: deadlock, and a snapshot that another transaction overtook.
        matches!(self.errno, 1213 | 1020)
    }

    /// True for error 1235.
    #[must_use]
    pub fn is_not_supported(&self) -> bool {
        self.errno == 1235
    }

    /// Boxes this error so that it travels through DataFusion.
    #[must_use]
    pub fn into_df(self) -> DataFusionError {
        DataFusionError::External(Box::new(self))
    }
}

impl From<EngineError> for SqlError {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::NoSuchSchema(name) => Self::unknown_schema(name),
            EngineError::SchemaExists(name) => Self::schema_exists(name),
            EngineError::NoSuchTable(name) => match name.split_once('.') {
                Some((schema, table)) => Self::no_such_table(schema, table),
                None => Self::unknown_table(name),
            },
            EngineError::TableExists(name) => Self::table_exists(name),
            EngineError::NumbersExhausted => Self::numbers_exhausted(),
            EngineError::BadDefinition(text) => Self::not_supported(text),
            EngineError::DuplicateKey { index, value } => Self::duplicate_entry(value, index),
            EngineError::Refused(refusal) => (*refusal).into(),
            EngineError::RowTooLong { limit, .. } => Self::row_too_long(limit),
            EngineError::KeyTooLong { limit, .. } => Self::key_too_long(limit),
            EngineError::Evaluation(text) => evaluation(&text),
            EngineError::TooManyTransactions(_) => Self::too_many_transactions(),
            EngineError::Cancelled => Self::interrupted(),
            EngineError::TableChanged(_) => Self::table_changed(),
            EngineError::Corrupt(text) => Self::corrupt(text),
            EngineError::ShuttingDown => Self::shutting_down(),
            EngineError::Storage(e) if e.is_fenced() => Self::taken_over(e),
            EngineError::Deadlock => Self::deadlock(),
            EngineError::LockTimeout => Self::lock_timeout(),
            EngineError::LockedNoWait => Self::locked_no_wait(),
            EngineError::RecordChanged { table } => Self::record_changed(table),
            other @ EngineError::OutcomeOpen { .. } => Self::outcome_open(other),
            other if is_disk_full(&other) => Self::disk_full(other),
            other => Self::storage(other),
        }
    }
}

/// True if a store has no room on its disk, or this node for a temporary file.
fn is_disk_full(error: &EngineError) -> bool {
    match error {
        EngineError::Storage(error) => error.is_disk_full(),
        EngineError::TemporaryFile { full, .. } => *full,
        _ => false,
    }
}

/// An evaluation error of a program: all of them are values outside their type.
fn evaluation(text: &str) -> SqlError {
    SqlError {
        errno: 1690,
        sqlstate: SqlState::of("22003"),
        message: text.to_owned(),
    }
}

impl From<perigee_sql_type::MixOfCollations> for SqlError {
    fn from(mix: perigee_sql_type::MixOfCollations) -> Self {
        let [a, b] = [mix.0, mix.1].map(|(collation, how)| format!("{},{how}", collation.name()));
        Self::mix_of_collations(a, b)
    }
}

impl From<DataFusionError> for SqlError {
    fn from(error: DataFusionError) -> Self {
        match error.find_root() {
            DataFusionError::External(inner) => from_external(inner.as_ref()),
            DataFusionError::NotImplemented(text)
                if text.contains("logical expression AggregateFunction") =>
            {
                Self::invalid_group_function()
            }
            DataFusionError::NotImplemented(text) => Self::not_supported(first_line(text)),
            DataFusionError::ResourcesExhausted(text) => Self::out_of_memory(first_line(text)),
            DataFusionError::SchemaError(schema, _) => from_schema_error(schema),
            DataFusionError::Plan(text) => from_plan_text(text),
            DataFusionError::Execution(text) if text.contains("more than one row") => {
                Self::subquery_rows()
            }
            DataFusionError::ArrowError(arrow, _) => from_arrow(arrow),
            other => Self::unknown(first_line(&other.to_string())),
        }
    }
}

fn from_external(inner: &(dyn std::error::Error + Send + Sync + 'static)) -> SqlError {
    if let Some(sql) = inner.downcast_ref::<SqlError>() {
        return sql.clone();
    }
    match inner.downcast_ref::<EngineError>() {
        Some(engine) => engine.clone().into(),
        None => SqlError::unknown(inner),
    }
}

fn from_arrow(error: &datafusion::arrow::error::ArrowError) -> SqlError {
    use datafusion::arrow::error::ArrowError;
    match error {
        ArrowError::ExternalError(inner) => from_external(inner.as_ref()),
        ArrowError::ArithmeticOverflow(text) => evaluation(text),
        ArrowError::CastError(text) => evaluation(text),
        other => SqlError::unknown(other),
    }
}

fn from_schema_error(error: &SchemaError) -> SqlError {
    let flat = |c: &datafusion::common::Column| match &c.relation {
        Some(r) => format!("{}.{}", r.table(), c.name),
        None => c.name.clone(),
    };
    match error {
        SchemaError::FieldNotFound { field, .. } => {
            SqlError::unknown_column(flat(field), "field list")
        }
        SchemaError::AmbiguousReference { field } => {
            SqlError::ambiguous_column(&field.name, "field list")
        }
        SchemaError::DuplicateUnqualifiedField { name }
        | SchemaError::DuplicateQualifiedField { name, .. } => SqlError::duplicate_column(name),
    }
}

/// Planning errors that DataFusion gives as text only.
fn from_plan_text(text: &str) -> SqlError {
    if text.contains("must be in GROUP BY") || text.contains("must appear in the GROUP BY") {
        let column = text.split('"').nth(1).unwrap_or("?");
        return SqlError::not_grouped(column.rsplit('.').next().unwrap_or(column));
    }
    let number = |text: &str| {
        text.split(|c: char| !c.is_ascii_digit())
            .find(|n| !n.is_empty())
            .unwrap_or("?")
            .to_owned()
    };
    if text.contains("could not parse compound identifier from") {
        // Of other clauses the names are looked up before.
        let names: Vec<_> = text.split('"').skip(1).step_by(2).collect();
        return SqlError::unknown_column(names.join("."), "group statement");
    }
    if text.contains("Order by column out of bounds") {
        return SqlError::unknown_column(number(text), "order clause");
    }
    if text.contains("Order by index starts at 1") {
        return SqlError::unknown_column("0", "order clause");
    }
    if let Some(table) = text.strip_prefix("Invalid qualifier ") {
        return SqlError::unknown_table(first_line(table));
    }
    if text.contains("names given as column alias") {
        return SqlError::column_list();
    }
    if text.contains("Cannot find column with position") {
        return SqlError::unknown_column(number(text), "group statement");
    }
    if text.contains("different number of columns") {
        return SqlError::union_columns();
    }
    if text.contains("should only return one column") {
        return SqlError::operand_columns(1);
    }
    if text.contains("Aggregate function calls cannot")
        || text.contains("Aggregate functions are not allowed")
    {
        return SqlError::invalid_group_function();
    }
    SqlError::not_supported(first_line(text))
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registry_has_five_character_states() {
        for (errno, state, text) in REGISTRY {
            assert_eq!(state.len(), 5, "{errno} {text}");
        }
    }

    #[test]
    fn errors_survive_datafusion() {
        let error = SqlError::numeric_range("BIGINT", "(a + 1)");
        let wrapped = error.clone().into_df().context("while running");
        assert_eq!(SqlError::from(wrapped), error);
        let engine = EngineError::DuplicateKey {
            index: "t.PRIMARY".into(),
            value: "1-2".into(),
        };
        let error = SqlError::from(DataFusionError::External(Box::new(engine)));
        assert_eq!(
            error.to_string(),
            "1062 (23000): Duplicate entry '1-2' for key 't.PRIMARY'"
        );
    }
}
