"""What PyMySQL sees of Perigee: run with the port and a directory for files. Every function named
check_… is a check of its own with a connection of its own; the first failure ends the run."""

import datetime
import json
import os
import sys
import threading
import time
from decimal import Decimal

import pymysql
from pymysql.constants import FIELD_TYPE, FLAG
from pymysql.cursors import DictCursor, SSCursor, SSDictCursor

PORT = int(sys.argv[1])
DIRECTORY = sys.argv[2]


def connect(**options):
    return pymysql.connect(host="127.0.0.1", port=PORT, user="root", **options)


def equal(got, wanted):
    assert got == wanted and type(got) is type(wanted), f"\n   got {got!r}\nwanted {wanted!r}"


def all_of(cursor, sql, arguments=None):
    cursor.execute(sql, arguments)
    return list(cursor.fetchall())


def fails(kind, number, text, cursor, sql):
    try:
        cursor.execute(sql)
    except pymysql.MySQLError as error:
        assert type(error) is kind, f"{sql}: {error!r}"
        equal(error.args, (number, text))
        return
    raise AssertionError(f"{sql} does not fail")


def json_table(value):
    """The first table in a plan."""
    if isinstance(value, list):
        return next(filter(None, map(json_table, value)), None)
    if not isinstance(value, dict):
        return None
    return value.get("table") or json_table(list(value.values()))


def check_connection(connection):
    equal(connection.get_server_info(), "8.0.43-perigee-0.1.0")
    assert connection.server_version.startswith("8.0.43")
    equal(connection.get_autocommit(), False)
    equal(connection.character_set_name(), "utf8mb4")
    connection.ping(reconnect=False)
    cursor = connection.cursor()
    equal(all_of(cursor, "SELECT VERSION(), DATABASE(), CONNECTION_ID()"),
          [("8.0.43-perigee-0.1.0", "p", connection.thread_id())])
    equal(all_of(cursor, "SELECT @@autocommit, @@character_set_client, @@max_allowed_packet"),
          [(0, "utf8mb4", 67108864)])
    connection.select_db("p")
    try:
        connection.select_db("nosuch")
        raise AssertionError("nosuch is selected")
    except pymysql.err.OperationalError as error:
        equal(error.args, (1049, "Unknown database 'nosuch'"))
    connection.set_charset("utf8mb4")
    equal(connection.show_warnings(), ())
    connection.close()
    assert not connection.open


def check_login_refused(connection):
    for options, number in [(dict(user="nobody"), 1045), (dict(password="x"), 1045),
                            (dict(database="nosuch"), 1049)]:
        options = {"host": "127.0.0.1", "port": PORT, "user": "root"} | options
        try:
            pymysql.connect(**options)
            raise AssertionError(f"{options} may log in")
        except pymysql.err.OperationalError as error:
            equal(error.args[0], number)


def check_types(connection):
    cursor = connection.cursor()
    cursor.execute(
        "CREATE TABLE types (t TINYINT, s SMALLINT, m MEDIUMINT, i INT NOT NULL, b BIGINT,"
        " u BIGINT UNSIGNED, d DECIMAL(15,2), f FLOAT, g DOUBLE, day DATE, at DATETIME(3),"
        " c CHAR(3), v VARCHAR(20), lap TIME(1), stamp TIMESTAMP(2), y YEAR, PRIMARY KEY (i),"
        " UNIQUE KEY (b), KEY (v))")
    equal(cursor.execute(
        "INSERT INTO types VALUES (-128, 32767, -8388608, 1, -9223372036854775808,"
        " 18446744073709551615, 1234567890123.45, 1.5, 1e100, '1998-12-01',"
        " '2024-02-29 23:59:59.123', 'abc', 'naïve 🦀', '-101:11:12.5',"
        " '2038-01-19 03:14:07.25', 94),"
        " (NULL, NULL, NULL, 2" + ", NULL" * 12 + ")"), 2)
    cursor.execute("SELECT * FROM types ORDER BY i")
    equal([(column[0], column[1], column[6]) for column in cursor.description], [
        ("t", FIELD_TYPE.TINY, True), ("s", FIELD_TYPE.SHORT, True), ("m", FIELD_TYPE.INT24, True),
        ("i", FIELD_TYPE.LONG, False), ("b", FIELD_TYPE.LONGLONG, True),
        ("u", FIELD_TYPE.LONGLONG, True), ("d", FIELD_TYPE.NEWDECIMAL, True),
        ("f", FIELD_TYPE.FLOAT, True), ("g", FIELD_TYPE.DOUBLE, True),
        ("day", FIELD_TYPE.DATE, True), ("at", FIELD_TYPE.DATETIME, True),
        ("c", FIELD_TYPE.STRING, True), ("v", FIELD_TYPE.VAR_STRING, True),
        ("lap", FIELD_TYPE.TIME, True), ("stamp", FIELD_TYPE.TIMESTAMP, True),
        ("y", FIELD_TYPE.YEAR, True)])
    fields = {field.name: field for field in cursor._result.fields}
    equal((fields["i"].table_name, fields["i"].org_name, fields["i"].db), ("types", "i", b"p"))
    assert fields["i"].flags & FLAG.PRI_KEY and fields["b"].flags & FLAG.UNIQUE_KEY
    assert fields["v"].flags & FLAG.MULTIPLE_KEY and fields["u"].flags & FLAG.UNSIGNED
    equal((fields["d"].length, fields["d"].scale), (17, 2))
    equal(list(cursor.fetchall()), [
        (-128, 32767, -8388608, 1, -9223372036854775808, 18446744073709551615,
         Decimal("1234567890123.45"), 1.5, 1e100, datetime.date(1998, 12, 1),
         datetime.datetime(2024, 2, 29, 23, 59, 59, 123000), "abc", "naïve 🦀",
         -datetime.timedelta(hours=101, minutes=11, seconds=12, milliseconds=500),
         datetime.datetime(2038, 1, 19, 3, 14, 7, 250000), 1994),
        (None, None, None, 2) + (None,) * 12])
    row = all_of(cursor, "SELECT 1/3, 7 DIV 2, 1e0, 1 = 1, NULL, 'x', DATE '1994-01-01',"
                         " COUNT(*), SUM(i), AVG(d), MIN(day) FROM types")[0]
    equal(row, (Decimal("0.3333"), 3, 1.0, 1, None, "x", datetime.date(1994, 1, 1), 2, Decimal(3),
                Decimal("1234567890123.450000"), datetime.date(1998, 12, 1)))
    equal([type(value) for value in row],
          [Decimal, int, float, int, type(None), str, datetime.date, int, Decimal, Decimal,
           datetime.date])


def check_cursors(connection):
    cursor = connection.cursor()
    cursor.execute("CREATE TABLE cursors (id INT PRIMARY KEY, name VARCHAR(10))")
    sql = "INSERT INTO cursors (id, name) VALUES (%s, %s)"
    equal(cursor.executemany(sql, [(i, f"n'{i}") for i in range(1, 1001)]), 1000)
    equal(cursor.rowcount, 1000)
    equal(cursor.execute("SELECT id, name FROM cursors WHERE id > %s ORDER BY id", (997,)), 3)
    equal(cursor.fetchone(), (998, "n'998"))
    equal(cursor.fetchmany(1), ((999, "n'999"),))
    equal(cursor.fetchall(), ((1000, "n'1000"),))
    equal(cursor.fetchone(), None)
    with connection.cursor(DictCursor) as rows:
        rows.execute("SELECT id AS number, name FROM cursors WHERE name = %(name)s",
                     {"name": "n'7"})
        equal(rows.fetchall(), [{"number": 7, "name": "n'7"}])
    with connection.cursor(SSDictCursor) as rows:
        rows.execute("SELECT COUNT(*) AS n FROM cursors")
        equal(rows.fetchone(), {"n": 1000})


def check_statements(connection):
    cursor = connection.cursor()
    equal(cursor.execute("CREATE DATABASE other"), 1)
    equal(cursor.execute("CREATE TABLE other.t (a INT NOT NULL, b DECIMAL(5,2) DEFAULT 1.50,"
                         " PRIMARY KEY (a), KEY by_b (b)) COMMENT 'x'"), 0)
    cursor.execute("USE other")
    equal(all_of(cursor, "SHOW DATABASES LIKE 'oth%'"), [("other",)])
    equal(all_of(cursor, "SHOW TABLES"), [("t",)])
    equal(all_of(cursor, "SHOW FULL TABLES"), [("t", "BASE TABLE")])
    columns = [("a", "int", "NO", "PRI", None, ""),
               ("b", "decimal(5,2)", "YES", "MUL", "1.50", "")]
    equal(all_of(cursor, "SHOW COLUMNS FROM t"), columns)
    equal(all_of(cursor, "DESCRIBE t"), columns)
    equal(all_of(cursor, "SHOW CREATE TABLE t"), [(
        "t",
        "CREATE TABLE `t` (\n  `a` int NOT NULL,\n  `b` decimal(5,2) DEFAULT '1.50',\n"
        "  PRIMARY KEY (`a`),\n  KEY `by_b` (`b`)\n"
        ") ENGINE=Perigee DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin COMMENT='x'")])
    equal(all_of(cursor, "SHOW VARIABLES LIKE 'ndp_mode'"), [("ndp_mode", "ON")])
    names = [name for name, _ in all_of(cursor, "SHOW STATUS")]
    assert {"Threads_connected", "Uptime", "ndp_pages_pushed"} <= set(names), names
    assert len(names) == len(set(names)), "a name comes twice: %s" % sorted(names)
    ndp = [name for name, _ in all_of(cursor, "SHOW STATUS LIKE 'ndp%'")]
    assert len(ndp) > 10 and len(ndp) == len(set(ndp)), ndp
    equal(all_of(cursor, "SELECT @@ndp_mode"), [("ON",)])
    cursor.execute("SET ndp_mode = OFF, @x = 5")
    equal(all_of(cursor, "SELECT @@ndp_mode, @x"), [("OFF", 5)])
    plan = all_of(cursor, "EXPLAIN SELECT a FROM t WHERE a = 1")
    equal([column[0] for column in cursor.description],
          ["id", "select_type", "table", "partitions", "type", "possible_keys", "key", "key_len",
           "ref", "rows", "filtered", "Extra"])
    equal([row[2] for row in plan], ["t"])
    (tree,), = all_of(cursor, "EXPLAIN ANALYZE SELECT a FROM t")
    assert tree.startswith("-> ") and "0 rows in " in tree and "pages_from_pool: 1" in tree, tree
    (text,), = all_of(cursor, "EXPLAIN FORMAT=JSON SELECT b, SUM(a) FROM t WHERE a > 1 GROUP BY b ORDER BY b")
    block = json.loads(text)["query_block"]
    assert float(block["cost_info"]["query_cost"]) > 0, text
    table = json_table(block)
    equal((table["table_name"], table["schema_name"]), ("t", "other"))
    assert "other.t.a > 1" in table["attached_condition"], text
    assert isinstance(table["ndp"]["used"], bool) and table["rows_examined_per_scan"] >= 0, text
    (text,), = all_of(cursor, "EXPLAIN ANALYZE FORMAT=JSON SELECT a FROM t")
    actual = json_table(json.loads(text))["actual"]
    equal((actual["rows"], actual["loops"]), (0, 1))
    (text,), = all_of(cursor, "EXPLAIN FORMAT=JSON SELECT * FROM t x JOIN t y ON x.a = y.a + 1")
    joined = json.loads(text)["query_block"]["nested_loop"]
    equal(sorted(json_table(one)["table_name"] for one in joined), ["x", "y"])
    equal(cursor.execute("DROP TABLE t"), 0)
    equal(all_of(cursor, "SHOW TABLES"), [])
    cursor.execute("DROP DATABASE other")
    equal(all_of(cursor, "SELECT DATABASE()"), [(None,)])


def check_explain_for_connection(connection):
    cursor = connection.cursor()
    cursor.execute("CREATE TABLE slow (id INT PRIMARY KEY)")
    cursor.execute("INSERT INTO slow VALUES " + ", ".join(f"({i})" for i in range(1000)))
    connection.commit()
    other = connect(database="p")
    number = other.thread_id()

    def run():
        try:
            other.cursor().execute("SELECT SUM(SLEEP(0.1)) FROM slow WHERE id > 3")
            raise AssertionError("it was not stopped")
        except pymysql.err.OperationalError as error:
            equal(error.args[0], 1317)

    runner = threading.Thread(target=run)
    runner.start()
    deadline = time.monotonic() + 30
    while True:
        try:
            (tree,), = all_of(cursor, f"EXPLAIN FORMAT=TREE FOR CONNECTION {number}")
            break
        except pymysql.MySQLError as error:
            equal(error.args[0], 3012)
            assert time.monotonic() < deadline, "no plan is shown"
    assert tree.startswith("-> Aggregate: ") and "on slow using PRIMARY" in tree, tree
    (row,) = all_of(cursor, f"EXPLAIN FOR CONNECTION {number}")
    equal(row[1:5], ("SIMPLE", "slow", None, "range"))
    cursor.execute(f"KILL QUERY {number}")
    runner.join()
    fails(pymysql.err.OperationalError, 3012, "EXPLAIN FOR CONNECTION command is supported only for"
          " SELECT/UPDATE/INSERT/DELETE/REPLACE", cursor, f"EXPLAIN FOR CONNECTION {number}")
    fails(pymysql.err.OperationalError, 1094, "Unknown thread id: 123456789", cursor,
          "EXPLAIN FOR CONNECTION 123456789")
    other.close()


def check_errors(connection):
    cursor = connection.cursor()
    cursor.execute("CREATE TABLE errors (id INT PRIMARY KEY, n TINYINT NOT NULL)")
    cursor.execute("INSERT INTO errors VALUES (1, 1)")
    err = pymysql.err
    fails(err.ProgrammingError, 1146, "Table 'p.nosuch' doesn't exist", cursor,
          "SELECT * FROM nosuch")
    fails(err.IntegrityError, 1062, "Duplicate entry '1' for key 'errors.PRIMARY'", cursor,
          "INSERT INTO errors VALUES (2, 2), (1, 1)")
    fails(err.ProgrammingError, 1064,
          "You have an error in your SQL syntax; check the manual that corresponds to your MySQL"
          " server version for the right syntax to use near 'errors' at line 1", cursor,
          "SELECT id FORM errors")
    fails(err.NotSupportedError, 1235,
          "This version of Perigee doesn't yet support 'LOCK INSTANCE'", cursor,
          "LOCK INSTANCE FOR BACKUP")
    fails(err.OperationalError, 1054, "Unknown column 'x' in 'field list'", cursor,
          "SELECT x FROM errors")
    fails(err.DataError, 1264, "Out of range value for column 'n' at row 1", cursor,
          "INSERT INTO errors VALUES (3, 300)")
    fails(err.IntegrityError, 1048, "Column 'n' cannot be null", cursor,
          "INSERT INTO errors VALUES (3, NULL)")
    fails(err.DataError, 1366,
          "Incorrect integer value: 'x' for column 'n' at row 2", cursor,
          "INSERT INTO errors VALUES (3, 3), (4, 'x')")
    fails(err.ProgrammingError, 1064,
          "You have an error in your SQL syntax; check the manual that corresponds to your MySQL"
          " server version for the right syntax to use near 'SELECT 2' at line 1", cursor,
          "SELECT 1; SELECT 2")
    # Every failed statement left nothing behind.
    equal(all_of(cursor, "SELECT * FROM errors"), [(1, 1)])


def check_transactions(connection):
    cursor = connection.cursor()
    cursor.execute("CREATE TABLE trx (id INT PRIMARY KEY)")
    connection.begin()
    cursor.execute("INSERT INTO trx VALUES (1)")
    connection.commit()
    equal(connection.show_warnings(), ())
    cursor.execute("INSERT INTO trx VALUES (2)")
    connection.rollback()
    equal(connection.show_warnings(), ())
    connection.autocommit(True)
    equal(connection.get_autocommit(), True)
    cursor.execute("INSERT INTO trx VALUES (3)")
    connection.rollback()
    equal(connection.show_warnings(), ())
    equal(all_of(cursor, "SELECT id FROM trx ORDER BY id"), [(1,), (3,)])
    in_transaction = pymysql.constants.SERVER_STATUS.SERVER_STATUS_IN_TRANS
    equal(connection.server_status & in_transaction, 0)
    connection.begin()
    equal(connection.server_status & in_transaction, in_transaction)
    equal(cursor.execute("UPDATE trx SET id = id + 1 WHERE id = 3"), 1)
    equal(cursor.execute("UPDATE trx SET id = 1 WHERE id = 1"), 0)
    connection.commit()
    equal(connection.server_status & in_transaction, 0)
    connection.autocommit(False)
    # PyMySQL keeps the status of OK packets only.
    equal(all_of(cursor, "SELECT 1"), [(1,)])
    cursor.execute("SET @x = 1")
    equal(connection.server_status & in_transaction, 0)
    equal(all_of(cursor, "SELECT id FROM trx ORDER BY id"), [(1,), (4,)])
    cursor.execute("SET @x = 1")
    equal(connection.server_status & in_transaction, in_transaction)
    connection.rollback()
    found = connect(database="p", client_flag=pymysql.constants.CLIENT.FOUND_ROWS)
    found_cursor = found.cursor()
    equal(found_cursor.execute("UPDATE trx SET id = 1 WHERE id = 1"), 1)
    equal(found_cursor.execute("INSERT INTO trx VALUES (1) ON DUPLICATE KEY UPDATE id = 1"), 1)
    found_cursor.execute("COMMIT RELEASE")
    try:
        found_cursor.execute("SELECT 1")
    except (pymysql.err.OperationalError, pymysql.err.InterfaceError):
        pass
    else:
        raise AssertionError("RELEASE leaves the connection open")
    connection.autocommit(True)


def check_several_statements(_):
    connection = connect(database="p", client_flag=pymysql.constants.CLIENT.MULTI_STATEMENTS)
    cursor = connection.cursor()
    cursor.execute("SELECT 1; CREATE TABLE several (id INT); SELECT 'two', 3;")
    equal(cursor.fetchall(), ((1,),))
    equal(cursor.nextset(), True)
    equal(cursor.description, None)
    equal(cursor.nextset(), True)
    equal(cursor.fetchall(), (("two", 3),))
    equal(cursor.nextset(), None)
    connection.close()


def check_local_files(_):
    connection = connect(database="p", local_infile=True)
    cursor = connection.cursor()
    cursor.execute("CREATE TABLE files (id INT PRIMARY KEY, d DATE, s VARCHAR(30), KEY (d))")
    path = os.path.join(DIRECTORY, "files.tbl")
    with open(path, "w", encoding="utf-8") as file:
        for i in range(100_000):
            file.write(f"{i}|1992-01-{i % 28 + 1:02}|line {i} é|\n")
    load = f"LOAD DATA LOCAL INFILE '{path}' INTO TABLE files FIELDS TERMINATED BY '|'" \
           " LINES TERMINATED BY '|\\n'"
    equal(cursor.execute(load), 100_000)
    # It is a part of the open transaction.
    connection.commit()
    equal(all_of(cursor, "SELECT COUNT(*), MAX(id), MIN(d), MAX(d) FROM files"),
          [(100_000, 99_999, datetime.date(1992, 1, 1), datetime.date(1992, 1, 28))])
    equal(all_of(cursor, "SELECT s FROM files WHERE id = 4711"), [("line 4711 é",)])
    # A wrong line: its number and column are named, and nothing of the file stays.
    with open(path, "w", encoding="utf-8") as file:
        file.write("200001|1992-01-01|a|\n200002|1992-02-30|b|\n")
    fails(pymysql.err.OperationalError, 1292,
          "Incorrect date value: '1992-02-30' for column 'd' at row 2", cursor, load)
    equal(all_of(cursor, "SELECT COUNT(*) FROM files WHERE id > 100000"), [(0,)])
    missing = os.path.join(DIRECTORY, "nosuch")
    try:
        cursor.execute(f"LOAD DATA LOCAL INFILE '{missing}' INTO TABLE files")
        raise AssertionError("a missing file is loaded")
    except pymysql.err.OperationalError as error:
        equal(error.args[0], 1017)
    equal(all_of(cursor, "SELECT 1"), [(1,)])
    connection.close()
    # A client that does not send files.
    connection = connect(database="p")
    fails(pymysql.err.OperationalError, 3948,
          "Loading local data is disabled; this must be enabled on both the client and server"
          " sides", connection.cursor(), load)
    connection.close()


def check_large_results(connection):
    cursor = connection.cursor()
    equal(cursor.execute("SELECT id, s FROM files ORDER BY id"), 100_000)
    rows = cursor.fetchall()
    equal(len(rows), 100_000)
    for i, row in enumerate(rows):
        equal(row, (i, f"line {i} é"))
    with connection.cursor(SSCursor) as stream:
        stream.execute("SELECT id FROM files ORDER BY id")
        equal(sum(row[0] for row in stream), 99_999 * 50_000)
    # Closed half-way: PyMySQL reads the rest, and the connection goes on.
    stream = connection.cursor(SSCursor)
    stream.execute("SELECT id, s FROM files ORDER BY id")
    equal(stream.fetchmany(3), [(0, "line 0 é"), (1, "line 1 é"), (2, "line 2 é")])
    stream.close()
    equal(all_of(cursor, "SELECT COUNT(*) FROM files"), [(100_000,)])
    # A connection that is dropped half-way does not disturb others.
    other = connect(database="p")
    stream = other.cursor(SSCursor)
    stream.execute("SELECT a.id, b.s FROM files a CROSS JOIN files b")
    stream.fetchone()
    other._force_close()
    equal(all_of(cursor, "SELECT COUNT(*) FROM files"), [(100_000,)])


def check_long_values(connection):
    cursor = connection.cursor()
    cursor.execute("CREATE TABLE wide (id INT PRIMARY KEY, s VARCHAR(2000))")
    text = "ä\\'\"\n\0%_" * 200
    cursor.execute("INSERT INTO wide VALUES (1, %s)", (text,))
    equal(all_of(cursor, "SELECT s FROM wide WHERE s = %s", (text,)), [(text,)])
    # A statement of more than 16 MiB comes in several frames.
    equal(all_of(cursor, "SELECT 1 /* " + "x" * (17 << 20) + " */"), [(1,)])


def check_long_columns(connection):
    cursor = connection.cursor()
    cursor.execute("CREATE TABLE longs (id INT PRIMARY KEY, t TINYTEXT, x TEXT, m MEDIUMTEXT,"
                   " l LONGTEXT, b BLOB NOT NULL, lb LONGBLOB)")
    text = "ä'\\🦀" * 400_000
    value = bytes(range(256)) * (5 << 12)
    equal(len(value), 5 << 20)
    cursor.execute(f"INSERT INTO longs VALUES (1, 't', %s, NULL, %s, x'', X'{value.hex()}')",
                   (text[:8000], text))
    cursor.execute("SELECT * FROM longs")
    fields = [(field.name, field.type_code, field.charsetnr, field.length, field.flags)
              for field in cursor._result.fields]
    blob, binary, not_null = FLAG.BLOB, FLAG.BINARY, FLAG.NOT_NULL
    equal(fields[1:], [
        ("t", FIELD_TYPE.BLOB, 45, 4 * 255, blob | binary),
        ("x", FIELD_TYPE.BLOB, 45, 4 * 65535, blob | binary),
        ("m", FIELD_TYPE.BLOB, 45, 4 * 16777215, blob | binary),
        ("l", FIELD_TYPE.BLOB, 45, 4294967295, blob | binary),
        ("b", FIELD_TYPE.BLOB, 63, 65535, blob | binary | not_null),
        ("lb", FIELD_TYPE.BLOB, 63, 4294967295, blob | binary)])
    equal(list(cursor.fetchall()), [(1, "t", text[:8000], None, text, b"", value)])
    equal(all_of(cursor, "SELECT LENGTH(lb), SUBSTRING(lb, 256, 3) FROM longs"),
          [(5 << 20, b"\xff\x00\x01")])
    # What is longer than max_allowed_packet ends the connection, as MySQL does it.
    try:
        cursor.execute("INSERT INTO longs (id, b) VALUES (2, '" + "x" * (65 << 20) + "')")
        raise AssertionError("a packet of 65 MiB is taken")
    except pymysql.MySQLError as error:
        assert error.args[0] in (1153, 2006, 2013), error
    with connect(database="p") as again:
        equal(all_of(again.cursor(), "SELECT COUNT(*) FROM longs"), [(0,)])


def check_json(connection):
    cursor = connection.cursor()
    cursor.execute("CREATE TABLE documents (id INT PRIMARY KEY, j JSON, n JSON NOT NULL)")
    cursor.execute("INSERT INTO documents VALUES (%s, %s, %s), (2, NULL, '[]')",
                   (1, '{"naïve":"🦀","b":[1,2.50]}', "true"))
    cursor.execute("SELECT id, j, n, j->'$.b' AS part, j->>'$.\"naïve\"' AS text FROM documents ORDER BY id")
    blob, binary, not_null = FLAG.BLOB, FLAG.BINARY, FLAG.NOT_NULL
    fields = {field.name: field for field in cursor._result.fields}
    described = [(name, fields[name].type_code, fields[name].charsetnr, fields[name].length,
                  fields[name].flags) for name in ("j", "n", "part")]
    equal(described, [
        ("j", FIELD_TYPE.JSON, 63, 4294967295, blob | binary),
        ("n", FIELD_TYPE.JSON, 63, 4294967295, blob | binary | not_null),
        ("part", FIELD_TYPE.JSON, fields["text"].charsetnr, 4294967295, blob | binary)])
    equal(list(cursor.fetchall()), [
        (1, '{"b": [1, 2.5], "naïve": "🦀"}', "true", "[1, 2.5]", "🦀"),
        (2, None, "[]", None, None)])
    fails(pymysql.err.OperationalError, 3140, 'Invalid JSON text: "Missing a name for object member."'
          " at position 1 in value for column 'j'.", cursor,
          "INSERT INTO documents VALUES (3, '{', '1')")
    equal(all_of(cursor, "SELECT id FROM documents WHERE j->'$.b[0]' = 1"), [(1,)])


def check_enum(connection):
    cursor = connection.cursor()
    cursor.execute("CREATE TABLE shirts (id INT PRIMARY KEY, size ENUM('small', 'größer') NOT NULL)")
    cursor.execute("INSERT INTO shirts VALUES (%s, %s), (2, 1)", (1, "größer"))
    for select in ("SELECT size FROM shirts ORDER BY size DESC", "SELECT size FROM shirts WHERE id = 1"):
        cursor.execute(select)
        field = cursor._result.fields[0]
        equal((field.type_code, field.length, field.flags),
              (FIELD_TYPE.STRING, 24, FLAG.ENUM | FLAG.BINARY | FLAG.NOT_NULL))
        equal(cursor.fetchone(), ("größer",))
    fails(pymysql.err.DataError, 1265, "Data truncated for column 'size' at row 1", cursor,
          "INSERT INTO shirts VALUES (3, 'large')")
    equal(all_of(cursor, "SELECT id, size + 0 FROM shirts WHERE size = 'small'"), [(2, 1)])


def check_set(connection):
    cursor = connection.cursor()
    cursor.execute("CREATE TABLE doors (id INT PRIMARY KEY, has SET('lock', 'größer', 'x') NOT NULL)")
    cursor.execute("INSERT INTO doors VALUES (%s, %s), (2, 4), (3, '')", (1, "x,größer"))
    for select in ("SELECT has FROM doors ORDER BY has DESC", "SELECT has FROM doors WHERE id = 1"):
        cursor.execute(select)
        field = cursor._result.fields[0]
        equal((field.type_code, field.length, field.flags),
              (FIELD_TYPE.STRING, 4 * 13, FLAG.SET | FLAG.BINARY | FLAG.NOT_NULL))
        equal(cursor.fetchone(), ("größer,x",))
    fails(pymysql.err.DataError, 1265, "Data truncated for column 'has' at row 1", cursor,
          "INSERT INTO doors VALUES (4, 'lock,key')")
    equal(all_of(cursor, "SELECT id, has + 0 FROM doors WHERE FIND_IN_SET('x', has) ORDER BY id"), [(1, 6), (2, 4)])


def check_bit(connection):
    cursor = connection.cursor()
    cursor.execute("CREATE TABLE bits (id INT PRIMARY KEY, a BIT(12) NOT NULL, b BIT(64), c BIT)")
    cursor.execute("INSERT INTO bits VALUES (1, b'101', 0xFFFFFFFFFFFFFFFF, 1), (2, %s, NULL, FALSE)", (65,))
    cursor.execute("SELECT a, b, c FROM bits ORDER BY id")
    equal([(field.type_code, field.length, field.flags) for field in cursor._result.fields],
          [(FIELD_TYPE.BIT, 12, FLAG.UNSIGNED | FLAG.NOT_NULL), (FIELD_TYPE.BIT, 64, FLAG.UNSIGNED),
           (FIELD_TYPE.BIT, 1, FLAG.UNSIGNED)])
    equal(cursor.fetchall(), ((b"\0\x05", b"\xff" * 8, b"\1"), (b"\0A", None, b"\0")))
    fails(pymysql.err.DataError, 1406, "Data too long for column 'a' at row 1", cursor,
          "INSERT INTO bits VALUES (3, 4096, 0, 0)")
    cursor.execute("SELECT MAX(a), COALESCE(b, 0), CONCAT(a) FROM bits WHERE id = 2 GROUP BY b, a")
    equal(cursor.fetchone(), (b"\0A", 0, b"\0A"))
    equal(all_of(cursor, "SELECT id FROM bits WHERE a = 65 AND NOT c"), [(2,)])


def main():
    with connect() as connection:
        connection.cursor().execute("CREATE DATABASE p")
    for name, check in list(globals().items()):
        if name.startswith("check_"):
            print(name, flush=True)
            connection = connect(database="p")
            check(connection)
            if connection.open:
                connection.close()
    print("all checks passed")


main()
