//! One table with a column of each type, and in each the values at the ends of the type, none, and some that meet
//! those of other columns.

/// A column and its values.
#[derive(Clone, Copy, Debug)]
pub struct Typed {
    /// Its name.
    pub name: &'static str,
    /// Its type, as CREATE TABLE takes it.
    pub ty: &'static str,
    /// Literals; the last one is NULL. The rows of the table have one after the other, from the first one on again.
    pub values: &'static [&'static str],
}

impl Typed {
    /// True if values are shown in digits that need not all be equal.
    pub fn is_float(&self) -> bool {
        matches!(self.ty, "FLOAT" | "DOUBLE")
    }

    /// True for a BIT.
    pub fn is_bit(&self) -> bool {
        self.ty.starts_with("BIT")
    }

    /// True for a TIME.
    pub fn is_time(&self) -> bool {
        matches!(self.ty, "TIME" | "TIME(3)")
    }
}

/// Rows of the table.
pub const ROWS: usize = 6;

const fn typed(name: &'static str, ty: &'static str, values: &'static [&'static str]) -> Typed {
    Typed { name, ty, values }
}

/// All columns.
pub const COLUMNS: &[Typed] = &[
    typed("t", "TINYINT", &["-128", "127", "0", "1", "NULL"]),
    typed(
        "s",
        "SMALLINT UNSIGNED",
        &["0", "65535", "2020", "7", "NULL"],
    ),
    typed(
        "i",
        "INT",
        &[
            "-2147483648",
            "2147483647",
            "20200229",
            "100000",
            "1",
            "NULL",
        ],
    ),
    typed(
        "n",
        "INT UNSIGNED",
        &["0", "4294967295", "12", "101112", "NULL"],
    ),
    typed(
        "b",
        "BIGINT",
        &[
            "-9223372036854775808",
            "9223372036854775807",
            "20200229101112",
            "1",
            "NULL",
        ],
    ),
    typed(
        "u",
        "BIGINT UNSIGNED",
        &[
            "0",
            "18446744073709551615",
            "9223372036854775808",
            "1",
            "NULL",
        ],
    ),
    typed(
        "d",
        "DECIMAL(5,2)",
        &["-999.99", "999.99", "0.00", "12.50", "1.00", "NULL"],
    ),
    typed(
        "e",
        "DECIMAL(20,8)",
        &[
            "-999999999999.99999999",
            "20200229.00000000",
            "12.5",
            "0.00000001",
            "NULL",
        ],
    ),
    typed(
        "w",
        "DECIMAL(38,0)",
        &[
            "99999999999999999999999999999999999999",
            "-99999999999999999999999999999999999999",
            "1",
            "NULL",
        ],
    ),
    typed(
        "x",
        "DECIMAL(65,10)",
        &[
            "9999999999999999999999999999999999999999999999999999999.5000000000",
            "-12.5",
            "1",
            "NULL",
        ],
    ),
    typed("f", "FLOAT", &["0.5", "-1.25", "1", "2020", "NULL"]),
    typed(
        "r",
        "DOUBLE",
        &["1e308", "-1e308", "0.1", "12.5", "1", "NULL"],
    ),
    typed("y", "YEAR", &["1901", "2155", "2020", "2001", "NULL"]),
    typed(
        "da",
        "DATE",
        &[
            "'1000-01-01'",
            "'9999-12-31'",
            "'2020-02-29'",
            "'1969-12-31'",
            "NULL",
        ],
    ),
    typed(
        "dt",
        "DATETIME",
        &[
            "'1000-01-01 00:00:00'",
            "'9999-12-31 23:59:59'",
            "'2020-02-29 00:00:00'",
            "'2020-02-29 10:11:12'",
            "NULL",
        ],
    ),
    typed(
        "d6",
        "DATETIME(6)",
        &[
            "'2020-02-29 10:11:12.000000'",
            "'9999-12-31 23:59:59.999999'",
            "'2020-02-29 10:11:12.345678'",
            "'1677-01-01 00:00:00.5'",
            "NULL",
        ],
    ),
    typed(
        "ts",
        "TIMESTAMP NULL",
        &[
            "'1970-01-01 00:00:01'",
            "'2038-01-19 03:14:07'",
            "'2020-02-29 00:00:00'",
            "NULL",
        ],
    ),
    typed(
        "ti",
        "TIME",
        &[
            "'-838:59:59'",
            "'838:59:59'",
            "'00:00:00'",
            "'10:11:12'",
            "NULL",
        ],
    ),
    typed(
        "t3",
        "TIME(3)",
        &["'10:11:12.345'", "'-00:00:00.5'", "'10:11:12'", "NULL"],
    ),
    typed(
        "c",
        "CHAR(10)",
        &[
            "''",
            "'abc'",
            "'2020-02-29'",
            "'12.50'",
            "'10:11:12'",
            "NULL",
        ],
    ),
    typed(
        "v",
        "VARCHAR(30)",
        &[
            "''",
            "' abc'",
            "'2020-02-29 10:11:12'",
            "'1'",
            "'12.5x'",
            "NULL",
        ],
    ),
    typed(
        "g",
        "VARCHAR(10) COLLATE utf8mb4_general_ci",
        &["'ABC'", "'äbc'", "'A'", "'1'", "NULL"],
    ),
    typed("tx", "TEXT", &["''", "'abc'", "'1'", "NULL"]),
    typed("vb", "BLOB", &["''", "'abc'", "'1'", "NULL"]),
    typed(
        "m",
        "ENUM('A', 'abc', '1')",
        &["'A'", "'abc'", "'1'", "NULL"],
    ),
    typed(
        "se",
        "SET('A', 'abc', '1')",
        &["'A'", "'abc,A'", "'1'", "''", "NULL"],
    ),
    typed("bi", "BIT(12)", &["0", "4095", "65", "1", "NULL"]),
];

/// Statements that make the tables: `m`, a second one with the same rows, and one for pairs of rows.
pub fn create() -> Vec<String> {
    let columns = COLUMNS
        .iter()
        .map(|column| format!("{} {}", column.name, column.ty));
    let columns: Vec<_> = columns.collect();
    let mut statements = vec![format!(
        "CREATE TABLE m (id INT PRIMARY KEY, {}, z INT NOT NULL DEFAULT 0)",
        columns.join(", ")
    )];
    for row in 0..ROWS {
        let values = COLUMNS
            .iter()
            .map(|column| column.values[row % column.values.len()]);
        let values: Vec<_> = values.collect();
        statements.push(format!(
            "INSERT INTO m VALUES ({row}, {}, 0)",
            values.join(", ")
        ));
    }
    statements.push("CREATE TABLE n LIKE m".to_owned());
    statements.push("INSERT INTO n SELECT * FROM m".to_owned());
    statements.push("CREATE TABLE found (a INT, b INT)".to_owned());
    statements
}
