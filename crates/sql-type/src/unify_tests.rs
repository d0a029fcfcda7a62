//! MySQL's and MariaDB's result types, pair by pair.

use super::*;

fn int(bytes: u8) -> ColumnType {
    ColumnType::Int {
        bytes,
        unsigned: false,
    }
}

fn uint(bytes: u8) -> ColumnType {
    ColumnType::Int {
        bytes,
        unsigned: true,
    }
}

fn bit(bits: u8) -> ColumnType {
    ColumnType::Bit { bits }
}

fn decimal(precision: u8, scale: u8) -> ColumnType {
    ColumnType::Decimal { precision, scale }
}

fn varchar(chars: u16) -> ColumnType {
    ColumnType::Varchar {
        chars,
        collation: Collation::UTF8MB4_BIN,
    }
}

fn long(prefix: u8, collation: Collation) -> ColumnType {
    ColumnType::Long { prefix, collation }
}

/// The type of one value of several.
fn ty(parts: impl IntoIterator<Item = Part>) -> Result<Option<ColumnType>, Clash> {
    Ok(unify(parts)?.map(|all| all.ty))
}

/// The name of the type of one value of several.
fn of(types: &[ColumnType]) -> String {
    match ty(types.iter().copied().map(Part::new)) {
        Ok(Some(ty)) => ty.to_string(),
        Ok(None) => "null".to_owned(),
        Err(Clash(a, b)) => format!("{a} and {b}"),
    }
}

#[test]
fn pairs_have_mariadbs_types() {
    use ColumnType::{Date, Double, Float, Json, Year};
    let binary = ColumnType::Varchar {
        chars: 8,
        collation: Collation::BINARY,
    };
    let char5 = ColumnType::Char {
        chars: 5,
        collation: Collation::UTF8MB4_BIN,
    };
    let text = long(2, Collation::UTF8MB4_BIN);
    let (datetime, datetime6) = (
        ColumnType::DateTime { fsp: 0 },
        ColumnType::DateTime { fsp: 6 },
    );
    let (time, time3) = (ColumnType::Time { fsp: 0 }, ColumnType::Time { fsp: 3 });
    let cases = [
        (int(1), int(4), "int"),
        (int(4), int(8), "bigint"),
        (int(8), uint(8), "decimal(20,0)"),
        (int(1), uint(1), "smallint"),
        (int(4), uint(4), "bigint"),
        (uint(4), uint(8), "bigint unsigned"),
        (int(4), decimal(5, 2), "decimal(12,2)"),
        (uint(8), decimal(5, 2), "decimal(22,2)"),
        (int(1), decimal(5, 2), "decimal(5,2)"),
        (decimal(5, 2), decimal(50, 10), "decimal(50,10)"),
        (int(1), Float, "float"),
        (int(4), Float, "double"),
        (Float, Float, "float"),
        (Float, Double, "double"),
        (decimal(5, 2), Float, "double"),
        (Year, Year, "year"),
        (Year, Float, "float"),
        (Year, uint(4), "int unsigned"),
        (Year, decimal(5, 2), "decimal(6,2)"),
        (bit(5), bit(12), "bit(12)"),
        (bit(5), int(1), "smallint"),
        (bit(33), uint(4), "bigint unsigned"),
        (bit(64), int(4), "decimal(20,0)"),
        (bit(5), Year, "smallint unsigned"),
        (bit(5), decimal(5, 2), "decimal(5,2)"),
        (bit(64), decimal(5, 2), "decimal(22,2)"),
        (bit(5), Double, "double"),
        (bit(5), Date, "varchar(10)"),
        (bit(12), varchar(3), "varchar(4)"),
        (bit(12), binary, "varbinary(8)"),
        (Date, Date, "date"),
        (Date, datetime, "datetime"),
        (datetime, datetime6, "datetime(6)"),
        (Date, ColumnType::Timestamp { fsp: 3 }, "datetime(3)"),
        (time, time3, "time(3)"),
        (Date, int(4), "varchar(11)"),
        (datetime6, int(8), "varchar(26)"),
        (Date, varchar(4), "varchar(10)"),
        (time3, varchar(10), "varchar(14)"),
        (decimal(5, 2), varchar(3), "varchar(7)"),
        (Float, varchar(10), "varchar(12)"),
        (Double, varchar(10), "varchar(22)"),
        (int(4), char5, "char(11)"),
        (char5, varchar(3), "varchar(5)"),
        (char5, Date, "char(10)"),
        (varchar(10), text, "text"),
        (varchar(10), binary, "varbinary(40)"),
        (int(8), binary, "varbinary(20)"),
        (text, binary, "blob"),
        (Json, Json, "json"),
        (Json, int(4), "longtext"),
        (Json, varchar(10), "longtext"),
        (Json, binary, "longblob"),
    ];
    for (a, b, expected) in cases {
        assert_eq!(of(&[a, b]), expected, "{a} and {b}");
        assert_eq!(of(&[b, a]), expected, "{b} and {a}");
    }
    assert_eq!(of(&[time, Date]), "time and date");
}

#[test]
fn many_types_are_merged_one_after_the_other() {
    assert_eq!(of(&[]), "null");
    assert_eq!(of(&[int(4)]), "int");
    assert_eq!(of(&[int(4), uint(4), uint(8)]), "decimal(20,0)");
    assert_eq!(of(&[decimal(3, 0), decimal(3, 3), int(8)]), "decimal(22,3)");
    assert_eq!(of(&[int(4), ColumnType::Date, int(8)]), "varchar(20)");
    // No type has all digits of these; those behind the point stay.
    assert_eq!(of(&[decimal(65, 0), decimal(30, 30)]), "decimal(76,30)");
}

#[test]
fn a_literal_counts_with_the_digits_that_it_has() {
    let one = Part::constant(int(8), Some(1));
    let parts = [one, Part::new(decimal(2, 1))];
    assert_eq!(ty(parts), Ok(Some(decimal(2, 1))));
    assert_eq!(ty([one, one]), Ok(Some(int(8))));
    assert_eq!(
        ty([one, Part::constant(varchar(3), None)]),
        Ok(Some(varchar(3)))
    );
}

#[test]
fn a_columns_collation_goes_before_a_literals() {
    let ci = ColumnType::Varchar {
        chars: 3,
        collation: Collation::UTF8MB4_GENERAL_CI,
    };
    // What a function makes of literals is none, and as soft.
    let computed = Part::new(varchar(3)).with_coercibility(Coercibility::Coercible);
    for soft in [Part::constant(varchar(3), None), computed] {
        assert_eq!(ty([soft, Part::new(ci)]), Ok(Some(ci)));
        assert_eq!(ty([Part::new(ci), soft]), Ok(Some(ci)));
        assert_eq!(ty([soft, Part::new(ci), soft]), Ok(Some(ci)));
    }
    assert_eq!(
        ty([Part::new(varchar(3)), Part::new(ci)]),
        Ok(Some(varchar(3)))
    );
}
