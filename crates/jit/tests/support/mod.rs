//! Pages of records and the comparison of both evaluators over them.

use perigee_expr::{Evaluator, Interpreter, Lanes, Program, Type, Vector};
use perigee_jit::{JitError, JitEvaluator};
use perigee_page::RecordHeader;
use perigee_value::{Datum, RowLayout, encode_row};

/// Records one after the other at odd distances, as on a page.
pub struct Page {
    pub bytes: Vec<u8>,
    pub records: Vec<u16>,
}

impl Page {
    pub fn new(layout: &RowLayout, rows: &[Vec<Datum>]) -> Self {
        let (mut bytes, mut records) = (vec![0xa5; 3], Vec::new());
        for row in rows {
            records.push(u16::try_from(bytes.len()).unwrap());
            encode_row(layout, row, RecordHeader::default(), &mut bytes).unwrap();
        }
        Self { bytes, records }
    }
}

/// What an evaluator makes of a page.
struct Outcome {
    vector: Vector,
    failed: Vec<u32>,
    /// Of Bool programs: records that pass and that fail.
    filtered: Option<(Vec<u16>, Vec<u16>)>,
}

/// Runs an evaluator over a page in three calls that append to each other.
fn outcome(evaluator: &dyn Evaluator, page: &Page) -> Outcome {
    let ty = evaluator.result_type();
    let (mut vector, mut failed) = (Vector::new(ty), Vec::new());
    let (mut pass, mut failed_records) = (Vec::new(), Vec::new());
    for records in page.records.chunks(page.records.len().div_ceil(3).max(1)) {
        evaluator.evaluate(&page.bytes, records, &mut vector, &mut failed);
        if ty == Type::Bool {
            evaluator.filter(&page.bytes, records, &mut pass, &mut failed_records);
        }
    }
    let filtered = (ty == Type::Bool).then_some((pass, failed_records));
    Outcome {
        vector,
        failed,
        filtered,
    }
}

/// Lanes as text; doubles by their bits, so that they compare exactly.
fn lanes(vector: &Vector) -> String {
    match &vector.lanes {
        Lanes::F64(lanes) => {
            let bits: Vec<u64> = lanes.iter().map(|v| v.to_bits()).collect();
            format!("{lanes:?} {bits:x?}")
        }
        lanes => format!("{lanes:?}"),
    }
}

/// Asserts that compiled code and interpreter agree over a page; false if the program was too
/// large to compile.
pub fn assert_same(program: &Program, layout: &RowLayout, page: &Page) -> bool {
    let interpreter = Interpreter::new(program, layout);
    let jit = match JitEvaluator::compile(program, layout) {
        Ok(jit) => jit,
        Err(JitError::TooLarge { .. }) => return false,
        Err(error) => panic!("{error}\n{program:#?}"),
    };
    assert_eq!(jit.result_type(), interpreter.result_type());
    let (expected, found) = (outcome(&interpreter, page), outcome(&jit, page));
    let context = || format!("{program:#?}\nover {layout:#?}\n{:?}", page.bytes);
    assert_eq!(
        found.failed,
        expected.failed,
        "failed positions of {}",
        context()
    );
    assert_eq!(
        found.vector.valid,
        expected.vector.valid,
        "valid bytes of {}",
        context()
    );
    assert_eq!(
        lanes(&found.vector),
        lanes(&expected.vector),
        "lanes of {}",
        context()
    );
    assert_eq!(found.filtered, expected.filtered, "filter of {}", context());
    true
}
