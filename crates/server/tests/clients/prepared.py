"""What MySQL Connector/Python sees of Perigee's prepared statements, with its own code and with that
of the C library, each with and without compression: run with the port. Every function named check_… is a check of its own with a
connection of its own; the first failure ends the run."""

import datetime
import sys
from decimal import Decimal

import mysql.connector

PORT = int(sys.argv[1])


def connect(pure, **options):
    return mysql.connector.connect(
        host="127.0.0.1", port=PORT, user="root", use_pure=pure, autocommit=True,
        collation="utf8mb4_bin", **options)


def equal(got, wanted):
    assert got == wanted and type(got) is type(wanted), f"\n   got {got!r}\nwanted {wanted!r}"


def rows_of(cursor):
    """All rows; text as text. The driver's own code takes text for bytes if its collation compares
    bytes, here as with MySQL."""
    return [tuple(value.decode() if isinstance(value, (bytes, bytearray)) else value for value in row)
            for row in cursor.fetchall()]


def fails(number, cursor, sql, arguments=()):
    try:
        cursor.execute(sql, arguments)
        cursor.fetchall()
    except mysql.connector.Error as error:
        equal(error.errno, number)
        return
    raise AssertionError(f"{sql} does not fail")


# No YEAR: the driver in Python does not know it in binary rows. No TIME: the one in C sends it as a
# time of day.
COLUMNS = ("id INT PRIMARY KEY, t TINYINT, tu TINYINT UNSIGNED, s SMALLINT, m MEDIUMINT UNSIGNED,"
           " i INT, b BIGINT, bu BIGINT UNSIGNED, d DECIMAL(15,2), f FLOAT, g DOUBLE, day DATE,"
           " at DATETIME, at6 DATETIME(6), c CHAR(4), v VARCHAR(30), stamp TIMESTAMP,"
           " w DECIMAL(65,30)")

VALUES = (-128, 255, -32768, 16777215, -2147483648, -9223372036854775808, 9223372036854775807,
          Decimal("-1234567890123.45"), 0.5, -98304.5, datetime.date(1, 1, 1),
          datetime.datetime(2024, 2, 29, 23, 59, 59),
          datetime.datetime(1969, 12, 31, 23, 59, 59, 999999), "a'b", "naïve \\ \"🦀\" ?",
          datetime.datetime(2038, 1, 19, 3, 14, 7),
          Decimal("-" + "9" * 35 + "." + "0" * 29 + "1"))


def check_types(connection):
    plain = connection.cursor()
    plain.execute("DROP TABLE IF EXISTS types")
    plain.execute(f"CREATE TABLE types ({COLUMNS})")
    cursor = connection.cursor(prepared=True)
    insert = "INSERT INTO types VALUES (" + ", ".join(["?"] * 18) + ")"
    cursor.execute(insert, (1,) + VALUES)
    equal(cursor.rowcount, 1)
    cursor.execute(insert, (2,) + (None,) * 17)
    cursor.execute(insert, (3, 1) + (None,) * 16)
    # What goes in comes out, and the same as by text.
    plain.execute("SELECT * FROM types ORDER BY id")
    by_text = rows_of(plain)
    equal(by_text[0], (1,) + VALUES)
    equal(by_text[1], (2,) + (None,) * 17)
    cursor.execute("SELECT * FROM types ORDER BY id")
    equal(rows_of(cursor), by_text)
    equal(cursor.column_names[:3], ("id", "t", "tu"))
    # Each value finds its row.
    for name, value in zip([column.split()[0] for column in COLUMNS.split(", ")][1:], VALUES):
        cursor.execute(f"SELECT id FROM types WHERE {name} = ?", (value,))
        equal(rows_of(cursor), [(1,)])
    cursor.execute("SELECT COUNT(*), SUM(t), AVG(d), MAX(at), 1/3, NULL FROM types WHERE id < ?",
                   (2,))
    equal(rows_of(cursor), [(1, Decimal(-128), Decimal("-1234567890123.450000"), VALUES[11],
                               Decimal("0.3333"), None)])
    span = datetime.timedelta(hours=101, minutes=11, seconds=12, microseconds=1)
    cursor.execute("SELECT CAST(? AS TIME(6)), CAST(? AS TIME)", ("101:11:12.000001", "00:00:00"))
    equal(rows_of(cursor), [(span, datetime.timedelta())])


def check_long_values(connection):
    plain = connection.cursor()
    plain.execute("DROP TABLE IF EXISTS longs")
    plain.execute("CREATE TABLE longs (id INT PRIMARY KEY, l LONGTEXT, b LONGBLOB)")
    text, value = "ä🦀" * 300_000, bytes(range(256)) * (5 << 12)
    cursor = connection.cursor(prepared=True)
    cursor.execute("INSERT INTO longs VALUES (?, ?, ?)", (1, text, value))
    cursor.execute("INSERT INTO longs VALUES (?, ?, ?)", (2, "", b"\xff"))
    for select in (cursor, plain):
        select.execute("SELECT id, l, b FROM longs ORDER BY id")
        rows = [(id, l.decode() if isinstance(l, (bytes, bytearray)) else l, bytes(b))
                for id, l, b in select.fetchall()]
        assert rows == [(1, text, value), (2, "", b"\xff")]
    cursor.execute("SELECT id FROM longs WHERE b = ?", (value,))
    equal(rows_of(cursor), [(1,)])
    cursor.execute("UPDATE longs SET b = ?, l = NULL WHERE b = ?", (b"\x00", b"\xff"))
    equal(cursor.rowcount, 1)
    cursor.execute("SELECT LENGTH(b), l FROM longs WHERE id = 2")
    equal(rows_of(cursor), [(1, None)])


def check_json(connection):
    plain = connection.cursor()
    plain.execute("DROP TABLE IF EXISTS documents")
    plain.execute("CREATE TABLE documents (id INT PRIMARY KEY, j JSON)")
    cursor = connection.cursor(prepared=True)
    cursor.execute("INSERT INTO documents VALUES (?, ?)", (1, '{"s":"naïve 🦀","n":[1,2]}'))
    cursor.execute("INSERT INTO documents VALUES (?, ?)", (2, None))
    fails(3140, cursor, "INSERT INTO documents VALUES (?, ?)", (3, "{"))
    fails(3140, cursor, "INSERT INTO documents VALUES (?, ?)", (3, 3))
    text = lambda value: value.decode() if isinstance(value, (bytes, bytearray)) else value
    for select in (cursor, plain):
        select.execute("SELECT id, j, j->'$.n' FROM documents ORDER BY id")
        equal([tuple(map(text, row)) for row in select.fetchall()],
              [(1, '{"n": [1, 2], "s": "naïve 🦀"}', "[1, 2]"), (2, None, None)])
    for path, value in [("$.s", "naïve 🦀"), ("$.n[1]", 2), ("$.n[0]", 1.0)]:
        cursor.execute("SELECT id FROM documents WHERE JSON_EXTRACT(j, ?) = ?", (path, value))
        equal(rows_of(cursor), [(1,)])
    cursor.execute("UPDATE documents SET j = JSON_SET(j, ?, ?) WHERE id = ?", ("$.n[5]", "x", 1))
    cursor.execute("SELECT JSON_UNQUOTE(JSON_EXTRACT(j, ?)) FROM documents WHERE id = 1", ("$.n[last]",))
    equal([tuple(map(text, row)) for row in cursor.fetchall()], [("x",)])


def check_enum(connection):
    plain = connection.cursor()
    plain.execute("DROP TABLE IF EXISTS shirts")
    plain.execute("CREATE TABLE shirts (id INT PRIMARY KEY, size ENUM('small', 'größer'))")
    cursor = connection.cursor(prepared=True)
    for row in ((1, "größer"), (2, 1), (3, None)):
        cursor.execute("INSERT INTO shirts VALUES (?, ?)", row)
    fails(1265, cursor, "INSERT INTO shirts VALUES (?, ?)", (4, "large"))
    for parameter, found in (("größer", 1), (1, 2), ("small ", 2)):
        cursor.execute("SELECT id FROM shirts WHERE size = ?", (parameter,))
        equal(rows_of(cursor), [(found,)])
    cursor.execute("UPDATE shirts SET size = ? WHERE id = ?", ("small", 3))
    cursor.execute("SELECT size, COUNT(*) FROM shirts GROUP BY size ORDER BY size")
    equal(rows_of(cursor), [("small", 2), ("größer", 1)])


def check_bit_and_set(connection):
    plain = connection.cursor()
    plain.execute("DROP TABLE IF EXISTS rights")
    plain.execute("CREATE TABLE rights (id INT PRIMARY KEY, b BIT(12), s SET('read', 'write'))")
    cursor = connection.cursor(prepared=True)
    for row in ((1, 5, "write,read"), (2, b"A", 2), (3, None, None)):
        cursor.execute("INSERT INTO rights VALUES (?, ?, ?)", row)
    fails(1406, cursor, "INSERT INTO rights VALUES (?, ?, ?)", (4, 4096, ""))
    fails(1265, cursor, "INSERT INTO rights VALUES (?, ?, ?)", (4, 1, "execute"))
    cursor.execute("SELECT id, HEX(b), b + 0, CONCAT(s) FROM rights WHERE b >= ? OR s IS NULL ORDER BY id", (5,))
    equal(rows_of(cursor),
          [(1, "5", 5, "read,write"), (2, "41", 65, "write"), (3, None, None, None)])
    cursor.execute("SELECT id FROM rights WHERE s = ?", ("read,write",))
    equal(rows_of(cursor), [(1,)])


def check_again(connection):
    cursor = connection.cursor(prepared=True)
    sql = "SELECT id FROM types WHERE id = ? OR v = ?"
    for arguments, rows in [((1, "x"), [(1,)]), (("2", None), [(2,)]), ((Decimal("3.0"), ""), [(3,)]),
                            ((None, VALUES[14]), [(1,)]), ((9, "' OR 1 = 1 -- "), [])] * 20:
        cursor.execute(sql, arguments)
        equal(rows_of(cursor), rows)
    cursor.executemany("INSERT INTO types (id, i) VALUES (?, ?)", [(i, -i) for i in range(10, 60)])
    cursor.execute("SELECT COUNT(*), SUM(i) FROM types WHERE id >= ?", (10,))
    equal(rows_of(cursor), [(50, Decimal(-sum(range(10, 60))))])
    cursor.execute("SELECT id FROM types WHERE id >= ? ORDER BY id LIMIT ?", (10, 2))
    equal(rows_of(cursor), [(10,), (11,)])
    cursor.execute("SHOW TABLES")
    assert ("types",) in rows_of(cursor)


def check_temporary_tables(connection):
    """A statement means what its name means when it runs; tables of the session go with it, or when it is reset."""
    plain = connection.cursor()
    plain.execute("DROP TABLE IF EXISTS hides")
    plain.execute("CREATE TABLE hides (id INT PRIMARY KEY, v VARCHAR(10))")
    plain.execute("INSERT INTO hides VALUES (1, 'lasting')")
    cursor = connection.cursor(prepared=True)
    select = "SELECT * FROM hides WHERE id = ?"
    # The driver in C wants as many columns as there were.
    make = "CREATE TEMPORARY TABLE hides (id INT PRIMARY KEY, v VARCHAR(10), KEY (v))"
    for end in ("DROP TABLE hides", "DROP TEMPORARY TABLE hides"):
        cursor.execute(select, (1,))
        equal(rows_of(cursor), [(1, "lasting")])
        plain.execute(make)
        plain.execute("INSERT INTO hides VALUES (1, 'own')")
        cursor.execute(select, (1,))
        equal(rows_of(cursor), [(1, "own")])
        plain.execute(end)
    cursor.execute(select, (1,))
    equal(rows_of(cursor), [(1, "lasting")])
    for reset in (connection.cmd_reset_connection,
                  lambda: connection.cmd_change_user(username="root", database="p")):
        plain.execute(make)
        try:
            reset()
        except mysql.connector.NotSupportedError:
            # The driver in Python changes no user over a compressed connection.
            plain.execute("DROP TEMPORARY TABLE hides")
        plain = connection.cursor()
        plain.execute("SELECT * FROM p.hides")
        equal(rows_of(plain), [(1, "lasting")])


def check_long(connection):
    """Texts of more than an envelope of the compressed protocol holds, there and back."""
    plain = connection.cursor()
    plain.execute("DROP TABLE IF EXISTS long_values")
    plain.execute("CREATE TABLE long_values (id INT PRIMARY KEY, v LONGTEXT)")
    texts = ["", "short", "x" * 20_000_000, "".join(str(i) for i in range(300_000))]
    for i, text in enumerate(texts):
        plain.execute("INSERT INTO long_values VALUES (%s, %s)", (i, text))
    plain.execute("SELECT v FROM long_values ORDER BY id")
    assert [row[0] for row in rows_of(plain)] == texts


def check_errors(connection):
    cursor = connection.cursor(prepared=True)
    fails(1064, cursor, "SELEC ?", (1,))
    fails(1146, cursor, "SELECT * FROM nosuch WHERE a = ?", (1,))
    fails(1062, cursor, "INSERT INTO types (id) VALUES (?)", (1,))
    fails(1264, cursor, "INSERT INTO types (id, t) VALUES (?, ?)", (4, 300))
    fails(1295, cursor, "USE p")
    cursor.execute("SELECT ?", ("on it goes",))
    equal(rows_of(cursor), [("on it goes",)])
    connection.reset_session()
    cursor = connection.cursor(prepared=True)
    cursor.execute("SELECT id FROM types WHERE id = ?", (1,))
    equal(rows_of(cursor), [(1,)])


def main():
    with connect(True) as connection:
        connection.cursor().execute("CREATE DATABASE p")
    for pure, compress in [(True, False), (False, False), (True, True), (False, True)]:
        for name, check in list(globals().items()):
            if name.startswith("check_"):
                print(name, "pure" if pure else "C", "compressed" if compress else "", flush=True)
                with connect(pure, database="p", compress=compress) as connection:
                    check(connection)
    print("all checks passed")


main()
