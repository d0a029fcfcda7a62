//! Answers of MariaDB to many expressions at once.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::process::Stdio;

use crate::MariaDb;

/// The text of an expression's value, `None` for NULL, or the number of its error.
pub type Answer = Result<Option<Vec<u8>>, u16>;

/// Settings of the session, a line each.
const SETTINGS: &str = "SET SESSION sql_mode = 'STRICT_TRANS_TABLES', time_zone = '+00:00';\n\
                        SET NAMES utf8mb4 COLLATE utf8mb4_bin;\n";

impl MariaDb {
    /// The values of expressions, each of which stands on one line.
    ///
    /// # Errors
    /// If the client is not installed or does not run.
    ///
    /// # Panics
    /// If it prints anything but values and errors.
    pub fn answers(&self, expressions: &[String]) -> io::Result<Vec<Answer>> {
        let mut script = SETTINGS.to_owned();
        for (number, expression) in expressions.iter().enumerate() {
            let _ = writeln!(script, "SELECT {number}, HEX(CONCAT('', {expression}));");
        }
        let mut child = self
            .client()
            .args(["--batch", "--force", "-N"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let mut input = child.stdin.take().expect("it is piped");
        let writer = std::thread::spawn(move || input.write_all(script.as_bytes()));
        let output = child.wait_with_output()?;
        writer.join().expect("it does not panic")?;
        let mut values = values(&String::from_utf8_lossy(&output.stdout));
        let errors = errors(&String::from_utf8_lossy(&output.stderr));
        let answer = |number: usize| match values.remove(&number) {
            Some(value) => Ok(value),
            None => Err(errors[&number]),
        };
        Ok((0..expressions.len()).map(answer).collect())
    }
}

fn values(output: &str) -> HashMap<usize, Option<Vec<u8>>> {
    let value = |line: &str| {
        let (number, digits) = line.split_once('\t')?;
        let pairs = digits.as_bytes().chunks(2);
        let bytes = pairs.map(|pair| {
            let pair = std::str::from_utf8(pair).ok()?;
            u8::from_str_radix(pair, 16).ok()
        });
        let value = match digits {
            "NULL" => None,
            _ => Some(bytes.collect::<Option<Vec<u8>>>()?),
        };
        Some((number.parse().ok()?, value))
    };
    let lines = output.lines();
    lines
        .map(|line| value(line).expect("a number and digits"))
        .collect()
}

/// The numbers of errors such as `ERROR 1690 (22003) at line 12: …`.
fn errors(output: &str) -> HashMap<usize, u16> {
    let before = SETTINGS.lines().count() + 1;
    let error = |line: &str| {
        let errno = line
            .strip_prefix("ERROR ")?
            .split(' ')
            .next()?
            .parse()
            .ok()?;
        let at = line.split("at line ").nth(1)?.split(':').next()?;
        Some((at.parse::<usize>().ok()? - before, errno))
    };
    output.lines().filter_map(error).collect()
}
