//! Random numbers, and waiting.

use std::time::{Duration, Instant};

use super::Kind::{Double, Int};
use super::{BYTES, Call, DOUBLE, Function, FunctionError, INT, Outcome, Value};

pub(super) static FUNCTIONS: &[Function] = &[
    Function::new(
        &["rand"],
        (0, 1),
        &[Int],
        DOUBLE,
        "A number from 0 to below 1; MySQL's sequence of a seed.",
        rand,
    )
    .with_nulls()
    .changing(),
    Function::new(
        &["random_bytes"],
        (1, 1),
        &[Int],
        BYTES,
        "So many random bytes, at most 1024.",
        |c| {
            let length = usize::try_from(c.int(0))
                .ok()
                .filter(|length| (1..=1024).contains(length));
            let length = length.ok_or(FunctionError::OutOfRange {
                kind: "length",
                function: c.name,
            })?;
            let words = (0..length.div_ceil(8)).flat_map(|_| c.environment.random().to_le_bytes());
            Ok(Value::bytes(words.take(length).collect::<Vec<u8>>()))
        },
    )
    .changing(),
    Function::new(
        &["sleep"],
        (1, 1),
        &[Double],
        INT,
        "0, after so many seconds.",
        sleep,
    )
    .with_nulls()
    .changing(),
];

/// MySQL's generator of two numbers.
pub struct Sequence {
    first: u64,
    second: u64,
}

impl Sequence {
    /// Both numbers are below it.
    const LIMIT: u64 = 0x3fff_ffff;

    fn new(seed: i64) -> Self {
        let seed = seed as u32;
        let first = seed.wrapping_mul(0x10001).wrapping_add(55_555_555);
        let second = seed.wrapping_mul(0x1000_0001);
        Self {
            first: u64::from(first) % Self::LIMIT,
            second: u64::from(second) % Self::LIMIT,
        }
    }

    fn next(&mut self) -> f64 {
        self.first = (self.first * 3 + self.second) % Self::LIMIT;
        self.second = (self.first + self.second + 33) % Self::LIMIT;
        self.first as f64 / Self::LIMIT as f64
    }
}

fn rand<'a>(c: &Call<'a>) -> Outcome<'a> {
    if !c.has(0) {
        // As many bits as a DOUBLE has digits.
        let bits = c.environment.random() >> 11;
        return Ok(Value::Double(bits as f64 / (1_u64 << 53) as f64));
    }
    let seed = if c.is_null(0) { 0 } else { c.int(0) };
    if !c.constant[0] {
        return Ok(Value::Double(Sequence::new(seed).next()));
    }
    let mut sequence = c.memo.sequence();
    let sequence = sequence.get_or_insert_with(|| Sequence::new(seed));
    Ok(Value::Double(sequence.next()))
}

/// How soon a statement that sleeps notices that it is to stop.
const LOOK: Duration = Duration::from_millis(20);

fn sleep<'a>(c: &Call<'a>) -> Outcome<'a> {
    if c.is_null(0) || c.double(0) < 0.0 {
        return Err(FunctionError::IncorrectArguments(c.name));
    }
    let begin = Instant::now();
    let time = Duration::try_from_secs_f64(c.double(0)).unwrap_or(Duration::MAX);
    loop {
        if c.environment.is_stopped() {
            return Err(FunctionError::Interrupted);
        }
        let left = time.saturating_sub(begin.elapsed());
        if left.is_zero() {
            return Ok(Value::Int(0));
        }
        c.environment.wait(left.min(LOOK));
    }
}
