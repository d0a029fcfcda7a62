// What MySQL Connector/J sees of Perigee: run with the port and a directory for files. Every method
// named check… is a check of its own with a connection of its own; the first failure ends the run.

import java.io.ByteArrayInputStream;
import java.io.StringReader;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.*;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

public class Checks {
    static String port;
    static Path directory;

    interface Check {
        void run(Connection connection) throws Exception;
    }

    public static void main(String[] arguments) throws Exception {
        port = arguments[0];
        directory = Path.of(arguments[1]);
        try (Connection connection = connect("", "")) {
            connection.createStatement().execute("CREATE DATABASE j");
        }
        check("connection", Checks::connection);
        check("types", Checks::types);
        check("metadata", Checks::metadata);
        check("statements", Checks::statements);
        check("parameters", Checks::parameters);
        check("batches", Checks::batches);
        check("preparedTypes", Checks::preparedTypes);
        check("preparedAgain", Checks::preparedAgain);
        check("preparedParts", Checks::preparedParts);
        check("longValues", Checks::longValues);
        check("json", Checks::json);
        check("enums", Checks::enums);
        check("preparedStatements", Checks::preparedStatements);
        check("errors", Checks::errors);
        check("transactions", Checks::transactions);
        check("localFiles", Checks::localFiles);
        check("largeResults", Checks::largeResults);
        check("severalStatements", Checks::severalStatements);
        check("timeout", Checks::timeout);
        check("cancel", Checks::cancel);
        System.out.println("all checks passed");
    }

    static Connection connect(String schema, String properties) throws SQLException {
        String url = "jdbc:mysql://127.0.0.1:" + port + "/" + schema + properties;
        return DriverManager.getConnection(url, "root", "");
    }

    static void check(String name, Check check) throws Exception {
        System.out.println(name);
        try (Connection connection = connect("j", "")) {
            check.run(connection);
        }
    }

    static void equal(Object got, Object wanted) {
        if (!(got == null ? wanted == null : got.equals(wanted))) {
            throw new AssertionError("\n   got " + got + "\nwanted " + wanted);
        }
    }

    /** A query has a result soon: the server ends a session after its client has gone. */
    static void becomes(Connection connection, String sql, String wanted) throws Exception {
        for (int i = 0; i < 1000 && !query(connection, sql).equals(wanted); i++) {
            Thread.sleep(10);
        }
        equal(query(connection, sql), wanted);
    }

    /** All values of a result as text, a row a line. */
    static String show(ResultSet rows, String... columns) throws SQLException {
        List<String> lines = new ArrayList<>();
        while (rows.next()) {
            List<String> line = new ArrayList<>();
            if (columns.length == 0) {
                for (int i = 1; i <= rows.getMetaData().getColumnCount(); i++) {
                    line.add(rows.getString(i));
                }
            }
            for (String column : columns) {
                line.add(rows.getString(column));
            }
            lines.add(String.join("|", line.stream().map(String::valueOf).toList()));
        }
        rows.close();
        return String.join("\n", lines);
    }

    static String query(Connection connection, String sql) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            return show(statement.executeQuery(sql));
        }
    }

    static int update(Connection connection, String sql) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            return statement.executeUpdate(sql);
        }
    }

    static void fails(Connection connection, String sql, int number, String state, String text,
            Class<?> kind) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.execute(sql);
        } catch (SQLException error) {
            equal(error.getErrorCode() + " " + error.getSQLState() + " " + error.getMessage(),
                    number + " " + state + " " + text);
            if (!kind.isInstance(error)) {
                throw new AssertionError(sql + ": " + error.getClass());
            }
            return;
        }
        throw new AssertionError(sql + " does not fail");
    }

    static void connection(Connection connection) throws Exception {
        DatabaseMetaData metadata = connection.getMetaData();
        equal(metadata.getDatabaseProductName(), "MySQL");
        equal(metadata.getDatabaseProductVersion(), "8.0.43-perigee-0.1.0");
        equal(metadata.getDatabaseMajorVersion(), 8);
        equal(connection.isValid(1), true);
        equal(connection.getCatalog(), "j");
        equal(connection.getAutoCommit(), true);
        equal(connection.getTransactionIsolation(), Connection.TRANSACTION_REPEATABLE_READ);
        equal(query(connection, "SELECT VERSION(), DATABASE(), @@version_comment"),
                "8.0.43-perigee-0.1.0|j|Perigee");
        connection.setTransactionIsolation(Connection.TRANSACTION_READ_COMMITTED);
        equal(query(connection, "SELECT @@transaction_isolation"), "READ-COMMITTED");
        // Without TLS, with it, and demanding an authority for a certificate that signs itself.
        try (Connection plain = connect("j", "?sslMode=DISABLED")) {
            equal(query(plain, "SELECT 1"), "1");
        }
        try (Connection secret = connect("j", "?sslMode=REQUIRED")) {
            equal(query(secret, "SHOW STATUS LIKE 'Ssl_version'"), "Ssl_version|TLSv1.3");
        }
        try (Connection unknown = connect("j", "?sslMode=VERIFY_CA")) {
            throw new AssertionError("anybody may have signed the certificate");
        } catch (SQLException error) {
            equal(error.getSQLState(), "08S01");
        }
        try (Connection nobody = DriverManager.getConnection(
                "jdbc:mysql://127.0.0.1:" + port + "/j", "nobody", "x")) {
            throw new AssertionError("nobody may log in");
        } catch (SQLException error) {
            equal(error.getErrorCode() + " " + error.getSQLState(), "1045 28000");
        }
        try (Connection none = connect("nosuch", "")) {
            throw new AssertionError("nosuch is used");
        } catch (SQLException error) {
            equal(error.getErrorCode() + " " + error.getMessage(),
                    "1049 Unknown database 'nosuch'");
        }
    }

    static void types(Connection connection) throws Exception {
        update(connection, "CREATE TABLE types (t TINYINT, s SMALLINT UNSIGNED, m MEDIUMINT,"
                + " i INT NOT NULL, b BIGINT, u BIGINT UNSIGNED, d DECIMAL(15,2), f FLOAT,"
                + " g DOUBLE, day DATE, at DATETIME(6), c CHAR(3), v VARCHAR(20),"
                + " lap TIME(1), stamp TIMESTAMP NULL, y YEAR, PRIMARY KEY (i))");
        equal(update(connection, "INSERT INTO types VALUES (-128, 65535, -8388608, 1,"
                + " -9223372036854775808, 18446744073709551615, 1234567890123.45, 1.5, 1e100,"
                + " '1998-12-01', '2024-02-29 23:59:59.123456', 'abc', 'naïve 🦀',"
                + " '10:11:12.5', '2038-01-19 03:14:07', 94),"
                + " (NULL, NULL, NULL, 2" + ", NULL".repeat(12) + ")"),
                2);
        try (Statement statement = connection.createStatement();
                ResultSet rows = statement.executeQuery("SELECT * FROM types ORDER BY i")) {
            ResultSetMetaData metadata = rows.getMetaData();
            List<String> columns = new ArrayList<>();
            for (int i = 1; i <= metadata.getColumnCount(); i++) {
                columns.add(metadata.getColumnName(i) + " " + metadata.getColumnTypeName(i) + " "
                        + metadata.getPrecision(i) + " " + metadata.getScale(i) + " "
                        + metadata.getColumnClassName(i));
            }
            equal(String.join("\n", columns), String.join("\n",
                    "t TINYINT 3 0 java.lang.Integer",
                    "s SMALLINT UNSIGNED 5 0 java.lang.Integer",
                    "m MEDIUMINT 7 0 java.lang.Integer",
                    "i INT 10 0 java.lang.Integer",
                    "b BIGINT 19 0 java.lang.Long",
                    "u BIGINT UNSIGNED 20 0 java.math.BigInteger",
                    "d DECIMAL 15 2 java.math.BigDecimal",
                    "f FLOAT 12 0 java.lang.Float",
                    "g DOUBLE 22 0 java.lang.Double",
                    "day DATE 10 0 java.sql.Date",
                    "at DATETIME 26 0 java.time.LocalDateTime",
                    "c CHAR 3 0 java.lang.String",
                    "v VARCHAR 20 0 java.lang.String",
                    "lap TIME 12 0 java.sql.Time",
                    "stamp TIMESTAMP 19 0 java.sql.Timestamp",
                    "y YEAR 4 0 java.sql.Date"));
            equal(metadata.getTableName(1) + " " + metadata.getCatalogName(1), "types j");
            equal(metadata.isNullable(4), ResultSetMetaData.columnNoNulls);
            equal(metadata.isNullable(5), ResultSetMetaData.columnNullable);
            equal(metadata.isSigned(5) + " " + metadata.isSigned(6), "true false");
            rows.next();
            equal(rows.getByte("t"), (byte) -128);
            equal(rows.getInt("s"), 65535);
            equal(rows.getLong("b"), Long.MIN_VALUE);
            equal(rows.getObject("u"), new BigInteger("18446744073709551615"));
            equal(rows.getBigDecimal("d"), new BigDecimal("1234567890123.45"));
            equal(rows.getFloat("f"), 1.5f);
            equal(rows.getDouble("g"), 1e100);
            equal(rows.getDate("day"), Date.valueOf("1998-12-01"));
            equal(rows.getObject("day", LocalDate.class), LocalDate.of(1998, 12, 1));
            equal(rows.getTimestamp("at"), Timestamp.valueOf("2024-02-29 23:59:59.123456"));
            equal(rows.getObject("at", LocalDateTime.class),
                    LocalDateTime.of(2024, 2, 29, 23, 59, 59, 123456000));
            equal(rows.getString("c"), "abc");
            equal(rows.getString("v"), "naïve 🦀");
            rows.next();
            equal(rows.getLong("b"), 0L);
            equal(rows.wasNull(), true);
            equal(rows.getObject("d"), null);
            equal(rows.getDate("day"), null);
            equal(rows.next(), false);
        }
        try (Statement statement = connection.createStatement();
                ResultSet rows = statement.executeQuery("SELECT COUNT(*), SUM(i), AVG(d), 1/3,"
                        + " NULL, 'x', i = 1 FROM types WHERE i = 1 GROUP BY i")) {
            rows.next();
            List<Object> values = new ArrayList<>();
            for (int i = 1; i <= 7; i++) {
                values.add(rows.getObject(i));
            }
            equal(values, Arrays.asList(1L, new BigDecimal("1"),
                    new BigDecimal("1234567890123.450000"), new BigDecimal("0.3333"), null, "x",
                    1L));
        }
    }

    static void metadata(Connection connection) throws Exception {
        update(connection, "CREATE TABLE described (a INT NOT NULL, b VARCHAR(20) NOT NULL"
                + " DEFAULT 'x' COMMENT 'the b', c DECIMAL(15,2), day DATE,"
                + " PRIMARY KEY (b, a), UNIQUE KEY by_c (c), KEY by_day (day, a))");
        // By information_schema, whose truth values are numbers, and by SHOW.
        metadataOf(connection.getMetaData(), "0", "1");
        try (Connection asking = connect("j", "?useInformationSchema=false")) {
            metadataOf(asking.getMetaData(), "false", "true");
        }
    }

    static void metadataOf(DatabaseMetaData metadata, String no, String yes) throws Exception {
        String catalogs = show(metadata.getCatalogs());
        if (!Arrays.asList(catalogs.split("\n")).contains("j")) {
            throw new AssertionError(catalogs);
        }
        equal(show(metadata.getTables("j", null, "descri%", null), "TABLE_CAT", "TABLE_NAME",
                "TABLE_TYPE"), "j|described|TABLE");
        equal(show(metadata.getTables("j", null, "nosuch", new String[] {"TABLE"})), "");
        equal(show(metadata.getColumns("j", null, "described", "%"), "TABLE_NAME", "COLUMN_NAME",
                "DATA_TYPE", "TYPE_NAME", "COLUMN_SIZE", "DECIMAL_DIGITS", "IS_NULLABLE",
                "COLUMN_DEF", "REMARKS", "ORDINAL_POSITION"), String.join("\n",
                "described|a|4|INT|10|null|NO|null||1",
                "described|b|12|VARCHAR|20|null|NO|x|the b|2",
                "described|c|3|DECIMAL|15|2|YES|null||3",
                "described|day|91|DATE|10|null|YES|null||4"));
        equal(show(metadata.getPrimaryKeys("j", null, "described"), "COLUMN_NAME", "KEY_SEQ",
                "PK_NAME"), "a|2|PRIMARY\nb|1|PRIMARY");
        equal(show(metadata.getIndexInfo("j", null, "described", false, true), "NON_UNIQUE",
                "INDEX_NAME", "ORDINAL_POSITION", "COLUMN_NAME", "ASC_OR_DESC"), String.join("\n",
                no + "|by_c|1|c|A", no + "|PRIMARY|1|b|A", no + "|PRIMARY|2|a|A",
                yes + "|by_day|1|day|A", yes + "|by_day|2|a|A"));
        equal(show(metadata.getImportedKeys("j", null, "described")), "");
        equal(show(metadata.getProcedures("j", null, "%")), "");
        equal(show(metadata.getTablePrivileges("j", null, "described")), "");
    }

    static void statements(Connection connection) throws Exception {
        equal(update(connection, "CREATE DATABASE other"), 1);
        connection.setCatalog("other");
        equal(query(connection, "SELECT DATABASE()"), "other");
        equal(update(connection, "CREATE TABLE t (a INT NOT NULL, b DECIMAL(5,2),"
                + " PRIMARY KEY (a), KEY (b))"), 0);
        equal(update(connection, "INSERT INTO t VALUES (1, 1.5), (2, 2.25), (3, NULL)"), 3);
        equal(query(connection, "SELECT * FROM t WHERE b > 1 ORDER BY a DESC"),
                "2|2.25\n1|1.50");
        equal(query(connection, "SHOW DATABASES LIKE 'other'"), "other");
        equal(query(connection, "SHOW TABLES"), "t");
        equal(query(connection, "SHOW COLUMNS FROM t"),
                "a|int|NO|PRI|null|\nb|decimal(5,2)|YES|MUL|null|");
        equal(query(connection, "DESCRIBE t a"), "a|int|NO|PRI|null|");
        equal(query(connection, "SHOW CREATE TABLE t"), "t|CREATE TABLE `t` (\n"
                + "  `a` int NOT NULL,\n  `b` decimal(5,2) DEFAULT NULL,\n"
                + "  PRIMARY KEY (`a`),\n  KEY `b` (`b`)\n"
                + ") ENGINE=Perigee DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin");
        equal(query(connection, "SHOW VARIABLES WHERE Variable_name = 'autocommit'"),
                "autocommit|ON");
        equal(query(connection, "SHOW STATUS LIKE 'Threads_running'"), "Threads_running|1");
        String plan = query(connection, "EXPLAIN SELECT SUM(b) FROM t");
        equal(plan.startsWith("1|SIMPLE|t|"), true);
        String analyzed = query(connection, "EXPLAIN ANALYZE SELECT SUM(b) FROM t");
        equal(analyzed.contains("t"), true);
        // A warning reaches the driver.
        try (Statement statement = connection.createStatement()) {
            statement.execute("DROP TABLE IF EXISTS nosuch");
            equal(statement.getWarnings().getErrorCode() + " "
                    + statement.getWarnings().getMessage(), "1051 Unknown table 'other.nosuch'");
        }
        equal(query(connection, "SHOW WARNINGS"), "Note|1051|Unknown table 'other.nosuch'");
        update(connection, "SET ndp_mode = OFF");
        equal(query(connection, "SELECT @@ndp_mode"), "OFF");
        update(connection, "USE j");
        equal(update(connection, "DROP DATABASE other"), 1);
    }

    /** Statements that are prepared by the server, and those that the driver makes texts of. */
    static final String[] PREPARED = {"false", "true"};

    static Connection preparing(String prepared) throws SQLException {
        return connect("j", "?useServerPrepStmts=" + prepared);
    }

    static void parameters(Connection connection) throws Exception {
        for (String prepared : PREPARED) {
            try (Connection preparing = preparing(prepared)) {
                parametersOn(preparing);
            }
        }
    }

    static void parametersOn(Connection connection) throws Exception {
        update(connection, "DROP TABLE IF EXISTS parameters");
        update(connection, "CREATE TABLE parameters (id BIGINT NOT NULL, d DECIMAL(10,2),"
                + " day DATE, at DATETIME(3), s VARCHAR(40), PRIMARY KEY (id))");
        String insert = "INSERT INTO parameters VALUES (?, ?, ?, ?, ?)";
        try (PreparedStatement statement = connection.prepareStatement(insert)) {
            statement.setLong(1, 7);
            statement.setBigDecimal(2, new BigDecimal("12.30"));
            statement.setDate(3, Date.valueOf("2000-02-29"));
            statement.setTimestamp(4, Timestamp.valueOf("2001-02-03 04:05:06.789"));
            statement.setString(5, "it's \\ \"ä\"\n🦀");
            equal(statement.executeUpdate(), 1);
            statement.setLong(1, 8);
            statement.setNull(2, Types.DECIMAL);
            statement.setObject(3, LocalDate.of(1999, 12, 31));
            statement.setObject(4, null);
            statement.setString(5, "");
            equal(statement.executeUpdate(), 1);
        }
        String select = "SELECT d, day, at, s FROM parameters WHERE id = ? AND (s = ? OR day < ?)";
        try (PreparedStatement statement = connection.prepareStatement(select)) {
            statement.setInt(1, 7);
            statement.setString(2, "it's \\ \"ä\"\n🦀");
            statement.setDate(3, Date.valueOf("1990-01-01"));
            equal(show(statement.executeQuery()),
                    "12.30|2000-02-29|2001-02-03 04:05:06.789|it's \\ \"ä\"\n🦀");
            statement.setInt(1, 8);
            statement.setDate(3, Date.valueOf("2000-01-01"));
            equal(show(statement.executeQuery()), "null|1999-12-31|null|");
            statement.setInt(1, 9);
            equal(show(statement.executeQuery()), "");
        }
    }

    static void batches(Connection connection) throws Exception {
        for (String prepared : PREPARED) {
            for (String rewrite : new String[] {"false", "true"}) {
                batchesOn(connection, rewrite, prepared);
            }
        }
    }

    static void batchesOn(Connection connection, String rewrite, String prepared)
            throws Exception {
        update(connection, "CREATE TABLE batches (id INT NOT NULL, s VARCHAR(20),"
                + " PRIMARY KEY (id))");
        String properties = "?rewriteBatchedStatements=" + rewrite
                + "&useServerPrepStmts=" + prepared;
        try (Connection batching = connect("j", properties);
                PreparedStatement statement = batching.prepareStatement(
                        "INSERT INTO batches (id, s) VALUES (?, ?)")) {
            for (int i = 0; i < 500; i++) {
                statement.setInt(1, i);
                statement.setString(2, "row " + i);
                statement.addBatch();
            }
            int[] counts = statement.executeBatch();
            equal(counts.length, 500);
            equal(counts[499], rewrite.equals("true") ? Statement.SUCCESS_NO_INFO : 1);
            statement.setInt(1, 500);
            statement.setString(2, "new");
            statement.addBatch();
            statement.setInt(1, 3);
            statement.setString(2, "twice");
            statement.addBatch();
            try {
                statement.executeBatch();
                throw new AssertionError("3 is there twice");
            } catch (BatchUpdateException error) {
                equal(error.getErrorCode() + " " + error.getSQLState() + " "
                        + error.getMessage(),
                        "1062 23000 Duplicate entry '3' for key 'batches.PRIMARY'");
            }
        }
        // Rewritten, the batch is one statement and was undone as a whole.
        equal(query(connection, "SELECT COUNT(*), MAX(id), SUM(id) FROM batches"),
                rewrite.equals("true") ? "500|499|124750" : "501|500|125250");
        update(connection, "DROP TABLE batches");
    }

    /** A row with a value of every type, and one of NULLs, by each protocol. */
    static void preparedTypes(Connection connection) throws Exception {
        update(connection, "CREATE TABLE every (id INT PRIMARY KEY, t TINYINT, tu TINYINT UNSIGNED,"
                + " s SMALLINT, su SMALLINT UNSIGNED, m MEDIUMINT, i INT, iu INT UNSIGNED,"
                + " b BIGINT, bu BIGINT UNSIGNED, d DECIMAL(20,4), d0 DECIMAL(20,0), f FLOAT,"
                + " g DOUBLE, day DATE, at DATETIME, at3 DATETIME(3), at6 DATETIME(6), c CHAR(5),"
                + " v VARCHAR(40), lap TIME, stamp TIMESTAMP(3) NULL, y YEAR)");
        String insert = "INSERT INTO every VALUES (" + "?,".repeat(22) + "?)";
        int id = 0;
        for (String prepared : PREPARED) {
            try (Connection preparing = preparing(prepared);
                    PreparedStatement statement = preparing.prepareStatement(insert)) {
                for (int i = 1; i <= 23; i++) {
                    statement.setNull(i, Types.NULL);
                }
                statement.setInt(1, ++id);
                equal(statement.executeUpdate(), 1);
                statement.setInt(1, ++id);
                statement.setByte(2, Byte.MIN_VALUE);
                statement.setShort(3, (short) 255);
                statement.setShort(4, Short.MIN_VALUE);
                statement.setInt(5, 65535);
                statement.setInt(6, -8388608);
                statement.setInt(7, Integer.MIN_VALUE);
                statement.setLong(8, 4294967295L);
                statement.setLong(9, Long.MIN_VALUE);
                // As a BigInteger the driver would send it signed.
                statement.setBigDecimal(10, new BigDecimal("18446744073709551615"));
                statement.setBigDecimal(11, new BigDecimal("-1234567890123456.7890"));
                statement.setBigDecimal(12, new BigDecimal("12345678901234567890"));
                statement.setFloat(13, -1.25f);
                statement.setDouble(14, 1.7976931348623157e308);
                statement.setDate(15, Date.valueOf("9999-12-31"));
                statement.setTimestamp(16, Timestamp.valueOf("2024-02-29 00:00:00"));
                statement.setObject(17, LocalDateTime.of(2024, 2, 29, 1, 2, 3, 400_000_000));
                statement.setTimestamp(18, Timestamp.valueOf("1970-01-01 00:00:00.000001"));
                statement.setString(19, "ab'c");
                statement.setString(20, "naïve \\ \" 🦀\n?");
                statement.setTime(21, Time.valueOf("10:11:12"));
                statement.setTimestamp(22, Timestamp.valueOf("2038-01-19 03:14:07.999"));
                statement.setInt(23, 2155);
                equal(statement.executeUpdate(), 1);
                statement.setInt(1, ++id);
                statement.setBoolean(2, true);
                statement.setByte(3, (byte) 0);
                statement.setDouble(14, 0.1);
                statement.setBigDecimal(11, BigDecimal.ZERO);
                if (prepared.equals("true")) {
                    statement.setBytes(20, "bytes".getBytes("UTF-8"));
                } else {
                    // There are no literals of bytes.
                    statement.setString(20, "bytes");
                }
                equal(statement.executeUpdate(), 1);
            }
        }
        // What was stored does not depend on the protocol, nor does how it is shown.
        String all = "SELECT * FROM every WHERE id BETWEEN ? AND ? ORDER BY id";
        List<String> shown = new ArrayList<>();
        List<String> objects = new ArrayList<>();
        for (String prepared : PREPARED) {
            try (Connection preparing = preparing(prepared);
                    PreparedStatement statement = preparing.prepareStatement(all)) {
                for (int first : new int[] {1, 4}) {
                    statement.setInt(1, first);
                    statement.setInt(2, first + 2);
                    String rows = show(statement.executeQuery());
                    shown.add(rows.replaceAll("(?m)^\\d+", "id"));
                    ResultSet result = statement.executeQuery();
                    StringBuilder line = new StringBuilder();
                    while (result.next()) {
                        for (int i = 2; i <= 23; i++) {
                            Object value = result.getObject(i);
                            line.append(value == null ? null : value.getClass().getName()).append(
                                    " ").append(value).append(" ").append(result.wasNull()).append(
                                    "\n");
                        }
                    }
                    objects.add(line.toString());
                }
            }
        }
        for (int i = 1; i < 4; i++) {
            equal(shown.get(i), shown.get(0));
            equal(objects.get(i), objects.get(0));
        }
        equal(shown.get(0), String.join("\n",
                "id" + "|null".repeat(22),
                "id|-128|255|-32768|65535|-8388608|-2147483648|4294967295|-9223372036854775808"
                + "|18446744073709551615|-1234567890123456.7890|12345678901234567890|-1.25"
                + "|1.7976931348623157E308|9999-12-31|2024-02-29 00:00:00|2024-02-29 01:02:03.400"
                + "|1970-01-01 00:00:00.000001|ab'c|naïve \\ \" 🦀\n?"
                + "|10:11:12|2038-01-19 03:14:07.999|2155-01-01",
                "id|1|0|-32768|65535|-8388608|-2147483648|4294967295|-9223372036854775808"
                + "|18446744073709551615|0.0000|12345678901234567890|-1.25|0.1|9999-12-31"
                + "|2024-02-29 00:00:00|2024-02-29 01:02:03.400|1970-01-01 00:00:00.000001|ab'c"
                + "|bytes|10:11:12|2038-01-19 03:14:07.999|2155-01-01"));
    }

    /** The same statement with other types, other values, other columns of its table. */
    static void preparedAgain(Connection connection) throws Exception {
        try (Connection preparing = preparing("true")) {
            String sql = "SELECT s FROM batches_again WHERE id = ? OR s = ? ORDER BY id LIMIT ?";
            update(preparing, "CREATE TABLE batches_again (id INT PRIMARY KEY, s VARCHAR(20))");
            update(preparing, "INSERT INTO batches_again VALUES (1, 'one'), (2, '2'), (3, 'x')");
            try (PreparedStatement statement = preparing.prepareStatement(sql)) {
                equal(statement.getParameterMetaData().getParameterCount(), 3);
                equal(statement.getMetaData().getColumnName(1), "s");
                statement.setInt(3, 10);
                for (Object id : new Object[] {1, 1L, "1", new BigDecimal("1.0"), 1.0, (byte) 1}) {
                    statement.setObject(1, id);
                    statement.setString(2, "x");
                    equal(show(statement.executeQuery()), "one\nx");
                }
                statement.setNull(1, Types.INTEGER);
                equal(show(statement.executeQuery()), "x");
                statement.setInt(3, 0);
                equal(show(statement.executeQuery()), "");
                statement.clearParameters();
                statement.setInt(1, 2);
                statement.setString(2, "' OR 1=1 -- ");
                statement.setInt(3, 10);
                equal(show(statement.executeQuery()), "2");
                for (int i = 0; i < 300; i++) {
                    statement.setInt(1, i % 4);
                    equal(show(statement.executeQuery()),
                            new String[] {"", "one", "2", "x"}[i % 4]);
                }
                update(preparing, "DROP TABLE batches_again");
                update(preparing, "CREATE TABLE batches_again (s BIGINT, id INT PRIMARY KEY)");
                update(preparing, "INSERT INTO batches_again VALUES (77, 1)");
                statement.setInt(1, 1);
                statement.setInt(2, 5);
                equal(show(statement.executeQuery()), "77");
                update(preparing, "DROP TABLE batches_again");
                try {
                    statement.executeQuery();
                    throw new AssertionError("the table is gone");
                } catch (SQLException error) {
                    equal(error.getErrorCode() + " " + error.getSQLState(), "1146 42S02");
                }
            }
            // The values have the types that they were given.
            try (PreparedStatement statement =
                    preparing.prepareStatement("SELECT ?, ?, ?, ?, ? 'name', - ?")) {
                statement.setInt(1, -5);
                statement.setBigDecimal(2, new BigDecimal("1.50"));
                statement.setDate(3, Date.valueOf("2000-01-31"));
                statement.setNull(4, Types.VARCHAR);
                statement.setString(5, "text");
                statement.setInt(6, -6);
                ResultSet rows = statement.executeQuery();
                equal(rows.getMetaData().getColumnLabel(1), "?");
                equal(rows.getMetaData().getColumnLabel(5), "name");
                rows.next();
                equal(rows.getObject(1), -5L);
                equal(rows.getObject(2), new BigDecimal("1.50"));
                equal(rows.getObject(3), Date.valueOf("2000-01-31"));
                equal(rows.getObject(4), null);
                equal(rows.getObject(5), "text");
                equal(rows.getObject(6), 6L);
            }
        }
    }

    /** Values that are sent in parts, and results that are read in parts. */
    static void preparedParts(Connection connection) throws Exception {
        try (Connection preparing = connect("j",
                "?useServerPrepStmts=true&useCursorFetch=true&defaultFetchSize=10")) {
            update(preparing, "CREATE TABLE parts (id INT PRIMARY KEY, s VARCHAR(2000))");
            String text = "é\\'x".repeat(400);
            String insert = "INSERT INTO parts VALUES (?, ?)";
            try (PreparedStatement statement = preparing.prepareStatement(insert)) {
                statement.setInt(1, 1);
                statement.setCharacterStream(2, new StringReader(text));
                equal(statement.executeUpdate(), 1);
                statement.setInt(1, 2);
                statement.setBinaryStream(2, new ByteArrayInputStream(text.getBytes("UTF-8")));
                equal(statement.executeUpdate(), 1);
                for (int i = 3; i <= 100; i++) {
                    statement.setInt(1, i);
                    statement.setString(2, "row " + i);
                    statement.addBatch();
                }
                equal(statement.executeBatch().length, 98);
            }
            // There are no cursors: the driver gets all rows at once, and need not know.
            String select = "SELECT id, s FROM parts WHERE id >= ? ORDER BY id";
            try (PreparedStatement statement = preparing.prepareStatement(select)) {
                statement.setInt(1, 1);
                try (ResultSet rows = statement.executeQuery()) {
                    for (int i = 1; i <= 100; i++) {
                        equal(rows.next(), true);
                        equal(rows.getInt(1), i);
                        equal(rows.getString(2), i <= 2 ? text : "row " + i);
                    }
                    equal(rows.next(), false);
                }
            }
        }
    }

    static void longValues(Connection connection) throws Exception {
        update(connection, "CREATE TABLE longs (id INT PRIMARY KEY, x TEXT, l LONGTEXT, b LONGBLOB)");
        byte[] bytes = new byte[5 << 20];
        new java.util.Random(1).nextBytes(bytes);
        String text = "é\\'x🦀".repeat(200_000);
        for (String server : new String[] {"true", "false"}) {
            try (Connection preparing = connect("j", "?useServerPrepStmts=" + server)) {
                String insert = "INSERT INTO longs VALUES (?, ?, ?, ?)";
                int id = server.equals("true") ? 1 : 4;
                try (PreparedStatement statement = preparing.prepareStatement(insert)) {
                    statement.setInt(1, id);
                    statement.setString(2, "short");
                    statement.setString(3, text);
                    if (server.equals("true")) {
                        statement.setBytes(4, bytes);
                        equal(statement.executeUpdate(), 1);
                        statement.setInt(1, id + 1);
                        statement.setCharacterStream(3, new StringReader(text));
                        statement.setBinaryStream(4, new ByteArrayInputStream(bytes));
                    } else {
                        statement.setNull(4, Types.BLOB);
                    }
                    equal(statement.executeUpdate(), 1);
                }
            }
        }
        try (Connection preparing = connect("j", "?useServerPrepStmts=true")) {
            String update = "UPDATE longs SET b = ?, x = 'other' WHERE id = ?";
            try (PreparedStatement statement = preparing.prepareStatement(update)) {
                byte[] fewer = Arrays.copyOf(bytes, 3 << 20);
                statement.setBytes(1, fewer);
                statement.setInt(2, 2);
                // The driver counts rows that were found.
                equal(statement.executeUpdate(), 1);
                equal(statement.executeUpdate(), 1);
            }
            String select = "SELECT x, l, b, LENGTH(b) FROM longs WHERE id = ?";
            try (PreparedStatement statement = preparing.prepareStatement(select)) {
                for (int id = 1; id <= 2; id++) {
                    statement.setInt(1, id);
                    try (ResultSet rows = statement.executeQuery()) {
                        equal(rows.next(), true);
                        equal(rows.getString(1), id == 1 ? "short" : "other");
                        equal(rows.getString(2).equals(text), true);
                        byte[] wanted = Arrays.copyOf(bytes, id == 1 ? 5 << 20 : 3 << 20);
                        equal(Arrays.equals(rows.getBytes(3), wanted), true);
                        equal(rows.getInt(4), wanted.length);
                        ResultSetMetaData metadata = rows.getMetaData();
                        equal(metadata.getColumnType(1), Types.LONGVARCHAR);
                        equal(metadata.getColumnTypeName(2), "LONGTEXT");
                        equal(metadata.getColumnTypeName(3), "LONGBLOB");
                        equal(metadata.getColumnType(3), Types.LONGVARBINARY);
                        equal(rows.next(), false);
                    }
                }
            }
        }
        try (ResultSet rows = connection.createStatement().executeQuery(
                "SELECT l, b FROM longs ORDER BY id")) {
            for (int length : new int[] {5 << 20, 3 << 20, -1}) {
                equal(rows.next(), true);
                equal(rows.getString(1).equals(text), true);
                byte[] got = rows.getBytes(2);
                equal(length < 0 ? got == null
                        : Arrays.equals(got, Arrays.copyOf(bytes, length)), true);
            }
        }
    }

    static void enums(Connection connection) throws Exception {
        update(connection, "CREATE TABLE shirts (id INT PRIMARY KEY, size ENUM('small', 'é🦀'))");
        for (String server : new String[] {"true", "false"}) {
            try (Connection preparing = connect("j", "?useServerPrepStmts=" + server)) {
                update(preparing, "DELETE FROM shirts");
                String insert = "INSERT INTO shirts VALUES (?, ?)";
                try (PreparedStatement statement = preparing.prepareStatement(insert)) {
                    statement.setInt(1, 1);
                    statement.setString(2, "é🦀");
                    equal(statement.executeUpdate(), 1);
                }
                String select = "SELECT size, size + 0 FROM shirts WHERE size = ?";
                try (PreparedStatement statement = preparing.prepareStatement(select)) {
                    statement.setString(1, "é🦀");
                    try (ResultSet rows = statement.executeQuery()) {
                        // What the driver calls an ENUM.
                        equal(rows.getMetaData().getColumnTypeName(1), "CHAR");
                        equal(rows.getMetaData().getColumnClassName(1), "java.lang.String");
                        equal(rows.next(), true);
                        equal(rows.getString(1), "é🦀");
                        equal(rows.getInt(2), 2);
                        equal(rows.next(), false);
                    }
                }
            }
        }
    }

    static void json(Connection connection) throws Exception {
        update(connection, "CREATE TABLE documents (id INT PRIMARY KEY, j JSON)");
        for (String server : new String[] {"true", "false"}) {
            try (Connection preparing = connect("j", "?useServerPrepStmts=" + server)) {
                update(preparing, "DELETE FROM documents");
                String insert = "INSERT INTO documents VALUES (?, ?)";
                try (PreparedStatement statement = preparing.prepareStatement(insert)) {
                    statement.setInt(1, 1);
                    statement.setString(2, "{\"s\":\"é🦀\",\"n\":[1,2]}");
                    equal(statement.executeUpdate(), 1);
                }
                String select = "SELECT j, j->'$.n' AS part FROM documents WHERE j->'$.n[1]' = ?";
                try (PreparedStatement statement = preparing.prepareStatement(select)) {
                    statement.setInt(1, 2);
                    try (ResultSet rows = statement.executeQuery()) {
                        equal(rows.getMetaData().getColumnTypeName(1), "JSON");
                        equal(rows.getMetaData().getColumnTypeName(2), "JSON");
                        equal(rows.getMetaData().getColumnClassName(1), "java.lang.String");
                        equal(rows.next(), true);
                        equal(rows.getString(1), "{\"n\": [1, 2], \"s\": \"é🦀\"}");
                        equal(rows.getObject(2), "[1, 2]");
                        equal(rows.next(), false);
                    }
                }
            }
        }
    }

    static void preparedStatements(Connection connection) throws Exception {
        try (Connection preparing = preparing("true")) {
            becomes(connection, "SHOW STATUS LIKE 'Prepared_stmt_count'", "Prepared_stmt_count|0");
            PreparedStatement one = preparing.prepareStatement("SELECT 1");
            PreparedStatement two = preparing.prepareStatement("SHOW TABLES LIKE 'nosuch'");
            equal(show(one.executeQuery()) + show(two.executeQuery()), "1");
            equal(query(connection, "SHOW STATUS LIKE 'Prepared_stmt_count'"),
                    "Prepared_stmt_count|2");
            one.close();
            equal(query(preparing, "SHOW STATUS LIKE 'Prepared_stmt_count'"),
                    "Prepared_stmt_count|1");
            // What the server does not prepare the driver sends as text.
            try (PreparedStatement begin = preparing.prepareStatement("BEGIN")) {
                equal(begin.execute(), false);
            }
            update(preparing, "COMMIT");
            String strict = "?useServerPrepStmts=true&emulateUnsupportedPstmts=false";
            String[] wrong = {"SELEC ?", "SELECT ? FROM nosuch", "SELECT x FROM parts WHERE id = ?",
                "BEGIN"};
            int[] numbers = {1064, 1146, 1054, 1295};
            for (int i = 0; i < wrong.length; i++) {
                try (Connection refused = connect("j", strict)) {
                    refused.prepareStatement(wrong[i]);
                    throw new AssertionError(wrong[i] + " is prepared");
                } catch (SQLException error) {
                    equal(error.getErrorCode(), numbers[i]);
                }
            }
            update(connection, "SET GLOBAL max_prepared_stmt_count = 1");
            fails(preparing, "PREPARE s FROM 'SELECT 1'", 1461, "42000",
                    "Can't create more than max_prepared_stmt_count statements (current value: 1)",
                    SQLSyntaxErrorException.class);
            update(connection, "SET GLOBAL max_prepared_stmt_count = DEFAULT");
            // In SQL.
            update(preparing, "PREPARE s FROM 'SELECT ? + ?, ?'");
            update(preparing, "SET @a = 3, @b = 'b'");
            equal(query(preparing, "EXECUTE s USING @a, @a, @b"), "6|b");
            fails(preparing, "EXECUTE s USING @a", 1210, "HY000", "Incorrect arguments to EXECUTE",
                    SQLException.class);
            update(preparing, "SET @text = 'SELECT id FROM parts WHERE id < ?'");
            update(preparing, "PREPARE S FROM @text");
            equal(query(preparing, "EXECUTE s USING @a"), "1\n2");
            update(preparing, "DROP PREPARE s");
            fails(preparing, "EXECUTE s", 1243, "HY000",
                    "Unknown prepared statement handler (s) given to EXECUTE", SQLException.class);
            fails(preparing, "DEALLOCATE PREPARE s", 1243, "HY000",
                    "Unknown prepared statement handler (s) given to DEALLOCATE PREPARE",
                    SQLException.class);
        }
        becomes(connection, "SHOW STATUS LIKE 'Prepared_stmt_count'", "Prepared_stmt_count|0");
    }

    static void errors(Connection connection) throws Exception {
        update(connection, "CREATE TABLE errors (id INT PRIMARY KEY, n TINYINT NOT NULL)");
        update(connection, "INSERT INTO errors VALUES (1, 1)");
        fails(connection, "SELECT * FROM nosuch", 1146, "42S02", "Table 'j.nosuch' doesn't exist",
                SQLSyntaxErrorException.class);
        fails(connection, "INSERT INTO errors VALUES (2, 2), (1, 1)", 1062, "23000",
                "Duplicate entry '1' for key 'errors.PRIMARY'",
                SQLIntegrityConstraintViolationException.class);
        fails(connection, "SELECT id FORM errors", 1064, "42000",
                "You have an error in your SQL syntax; check the manual that corresponds to your"
                + " MySQL server version for the right syntax to use near 'errors' at line 1",
                SQLSyntaxErrorException.class);
        fails(connection, "LOCK INSTANCE FOR BACKUP", 1235, "42000",
                "This version of Perigee doesn't yet support 'LOCK INSTANCE'",
                SQLSyntaxErrorException.class);
        fails(connection, "SELECT x FROM errors", 1054, "42S22",
                "Unknown column 'x' in 'field list'", SQLSyntaxErrorException.class);
        // java.sql.DataTruncation knows only the state 22001, whatever the server says.
        fails(connection, "INSERT INTO errors VALUES (3, 300)", 1264, "22001",
                "Data truncation: Out of range value for column 'n' at row 1",
                DataTruncation.class);
        fails(connection, "INSERT INTO errors VALUES (3, NULL)", 1048, "23000",
                "Column 'n' cannot be null", SQLIntegrityConstraintViolationException.class);
        fails(connection, "KILL QUERY 4000000", 1094, "HY000", "Unknown thread id: 4000000",
                SQLException.class);
        fails(connection, "SET nosuch = 1", 1193, "HY000", "Unknown system variable 'nosuch'",
                SQLException.class);
        equal(query(connection, "SELECT * FROM errors"), "1|1");
    }

    static void transactions(Connection connection) throws Exception {
        update(connection, "CREATE TABLE trx (id INT PRIMARY KEY)");
        connection.setAutoCommit(false);
        equal(query(connection, "SELECT @@autocommit"), "0");
        update(connection, "INSERT INTO trx VALUES (1)");
        connection.commit();
        update(connection, "INSERT INTO trx VALUES (2)");
        connection.rollback();
        equal(query(connection, "SHOW WARNINGS"), "");
        update(connection, "UPDATE trx SET id = 5");
        java.sql.Savepoint savepoint = connection.setSavepoint("here");
        update(connection, "DELETE FROM trx");
        connection.rollback(savepoint);
        connection.commit();
        connection.setAutoCommit(true);
        connection.setReadOnly(true);
        connection.setReadOnly(false);
        equal(query(connection, "SELECT id FROM trx ORDER BY id"), "5");
    }

    static void localFiles(Connection connection) throws Exception {
        update(connection, "CREATE TABLE files (id INT PRIMARY KEY, d DATE, s VARCHAR(30),"
                + " KEY (d))");
        StringBuilder lines = new StringBuilder();
        for (int i = 0; i < 100_000; i++) {
            lines.append(i + "|1992-01-" + String.format("%02d", i % 28 + 1) + "|line " + i
                    + " é|\n");
        }
        Path path = Files.writeString(directory.resolve("files.tbl"), lines);
        String load = "LOAD DATA LOCAL INFILE '" + path + "' INTO TABLE files"
                + " FIELDS TERMINATED BY '|' LINES TERMINATED BY '|\\n'";
        fails(connection, load, 3948, "42000", "Loading local data is disabled; this must be"
                + " enabled on both the client and server sides", SQLException.class);
        try (Connection loading = connect("j", "?allowLoadLocalInfile=true")) {
            equal(update(loading, load), 100_000);
            Files.writeString(path, "100001|1992-01-01|a|\n100002|1992-01-01|\n");
            fails(loading, load, 1261, "01000",
                    "Row 2 doesn't contain data for all columns (column 's' is missing)",
                    SQLException.class);
            equal(query(loading, "SELECT COUNT(*), MAX(id), MIN(d), MAX(d) FROM files"),
                    "100000|99999|1992-01-01|1992-01-28");
        }
    }

    static void largeResults(Connection connection) throws Exception {
        try (Statement statement = connection.createStatement();
                ResultSet rows = statement.executeQuery("SELECT id, s FROM files ORDER BY id")) {
            for (int i = 0; i < 100_000; i++) {
                equal(rows.next(), true);
                equal(rows.getInt(1), i);
                equal(rows.getString(2), "line " + i + " é");
            }
            equal(rows.next(), false);
        }
        // Row by row, closed half-way.
        try (Statement statement = connection.createStatement()) {
            statement.setFetchSize(Integer.MIN_VALUE);
            ResultSet rows = statement.executeQuery("SELECT id FROM files ORDER BY id");
            for (int i = 0; i < 1000; i++) {
                equal(rows.next(), true);
                equal(rows.getInt(1), i);
            }
            rows.close();
        }
        equal(query(connection, "SELECT COUNT(*) FROM files"), "100000");
        // Never more than asked for.
        try (Statement statement = connection.createStatement()) {
            equal(show(statement.executeQuery("SELECT id FROM files ORDER BY id DESC LIMIT 2")),
                    "99999\n99998");
        }
    }

    static void severalStatements(Connection connection) throws Exception {
        fails(connection, "SELECT 1; SELECT 2", 1064, "42000",
                "You have an error in your SQL syntax; check the manual that corresponds to your"
                + " MySQL server version for the right syntax to use near 'SELECT 2' at line 1",
                SQLSyntaxErrorException.class);
        try (Connection several = connect("j", "?allowMultiQueries=true");
                Statement statement = several.createStatement()) {
            equal(statement.execute("SELECT 1; CREATE TABLE several (id INT); SELECT 'two', 3"),
                    true);
            equal(show(statement.getResultSet()), "1");
            equal(statement.getMoreResults(), false);
            equal(statement.getUpdateCount(), 0);
            equal(statement.getMoreResults(), true);
            equal(show(statement.getResultSet()), "two|3");
            equal(statement.getMoreResults(), false);
            equal(statement.getUpdateCount(), -1);
        }
    }

    /** A query that takes hours. */
    static final String ENDLESS =
            "SELECT COUNT(*) FROM files a, files b, files c WHERE a.id + b.id + c.id = 7";

    static void timeout(Connection connection) throws Exception {
        try (Statement statement = connection.createStatement()) {
            statement.setQueryTimeout(1);
            long begin = System.nanoTime();
            try {
                statement.executeQuery(ENDLESS);
                throw new AssertionError("the query ends");
            } catch (SQLTimeoutException error) {
                long millis = (System.nanoTime() - begin) / 1_000_000;
                equal(millis > 900 && millis < 3000, true);
            }
        }
        equal(query(connection, "SELECT COUNT(*) FROM files"), "100000");
    }

    static void cancel(Connection connection) throws Exception {
        try (Statement statement = connection.createStatement()) {
            Thread canceller = new Thread(() -> {
                try {
                    Thread.sleep(500);
                    statement.cancel();
                } catch (Exception error) {
                    throw new AssertionError(error);
                }
            });
            canceller.start();
            try {
                statement.executeQuery(ENDLESS);
                throw new AssertionError("the query ends");
            } catch (SQLException error) {
                // The driver gives its own exception, or makes one of 1317 without the number: which,
                // depends on what it hears of first.
                String kind = error.getClass().getSimpleName();
                if (!List.of("MySQLStatementCancelledException", "MySQLQueryInterruptedException")
                        .contains(kind)) {
                    throw new AssertionError(error);
                }
            }
            canceller.join();
        }
        equal(query(connection, "SELECT COUNT(*) FROM files"), "100000");
    }
}
