//! Data: rows from the `tpchgen` crate in TPC-H's own text form (`a|b|c|` and a newline).

use std::fmt::Display;
use std::io::{self, Write};

use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator,
    PartSuppGenerator, RegionGenerator, SupplierGenerator,
};

/// Writes all rows of a table at a scale factor; returns how many.
///
/// # Errors
/// If writing fails, or if there is no such table.
pub fn write_table(table: &str, scale: f64, out: &mut dyn Write) -> io::Result<u64> {
    match table {
        "region" => write_rows(RegionGenerator::new(scale, 1, 1).iter(), out),
        "nation" => write_rows(NationGenerator::new(scale, 1, 1).iter(), out),
        "supplier" => write_rows(SupplierGenerator::new(scale, 1, 1).iter(), out),
        "customer" => write_rows(CustomerGenerator::new(scale, 1, 1).iter(), out),
        "part" => write_rows(PartGenerator::new(scale, 1, 1).iter(), out),
        "partsupp" => write_rows(PartSuppGenerator::new(scale, 1, 1).iter(), out),
        "orders" => write_rows(OrderGenerator::new(scale, 1, 1).iter(), out),
        "lineitem" => write_rows(LineItemGenerator::new(scale, 1, 1).iter(), out),
        _ => Err(io::Error::new(
            io::ErrorKind::NotFound,
            format!("no TPC-H table {table}"),
        )),
    }
}

fn write_rows<R: Display>(rows: impl Iterator<Item = R>, out: &mut dyn Write) -> io::Result<u64> {
    let mut count = 0;
    for row in rows {
        writeln!(out, "{row}")?;
        count += 1;
    }
    Ok(count)
}

/// About how many rows a table has at a scale factor, for progress bars.
#[must_use]
pub fn row_count(table: &str, scale: f64) -> u64 {
    let per_scale = match table {
        "region" => return 5,
        "nation" => return 25,
        "supplier" => 10_000.0,
        "customer" => 150_000.0,
        "part" => 200_000.0,
        "partsupp" => 800_000.0,
        "orders" => 1_500_000.0,
        _ => 6_001_215.0,
    };
    (per_scale * scale) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_the_form_that_load_data_reads() {
        let mut out = Vec::new();
        assert_eq!(write_table("nation", 0.01, &mut out).expect("memory"), 25);
        let text = String::from_utf8(out).expect("ASCII");
        assert!(text.starts_with("0|ALGERIA|0|"), "{text}");
        assert!(
            text.lines()
                .all(|line| line.ends_with('|') && line.matches('|').count() == 4)
        );
    }

    #[test]
    fn an_unknown_table_is_an_error() {
        assert!(write_table("nations", 0.01, &mut Vec::new()).is_err());
    }
}
