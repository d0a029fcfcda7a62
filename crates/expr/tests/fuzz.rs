//! Damaged programs: the decoder and the validator refuse them, or they run. Whatever the validator
//! lets through has one form, and gives a value or an error for every record.

use perigee_expr::arbitrary::Generator;
use perigee_expr::{Interpreter, Program};
use perigee_testkit::Fuzz;
use perigee_types::{Reader, Writer};

/// Layouts that programs are checked against; an input names one by its first byte.
const LAYOUTS: usize = 12;

#[test]
fn damaged_programs_are_refused_or_run() {
    let mut generator = Generator::new(4);
    let tables: Vec<_> = (0..LAYOUTS)
        .map(|_| {
            let layout = generator.layout();
            let record = generator.record(&layout);
            (layout, record)
        })
        .collect();
    let mut corpus = Vec::new();
    for number in 0..25 * LAYOUTS {
        let mut w = Writer::new();
        w.u8((number % LAYOUTS) as u8);
        generator
            .program(&tables[number % LAYOUTS].0)
            .encode(&mut w);
        corpus.push(w.into_bytes());
    }
    let mut values = 0;
    Fuzz::new(corpus).run("programs", |bytes| {
        let mut r = Reader::new(bytes, "program");
        let Ok(number) = r.u8() else { return false };
        let (layout, record) = &tables[usize::from(number) % LAYOUTS];
        let Ok(program) = Program::decode(&mut r) else {
            return false;
        };
        if r.finish().is_err() || program.check(layout).is_err() {
            return false;
        }
        let mut w = Writer::new();
        w.u8(number);
        program.encode(&mut w);
        assert!(w.into_bytes() == bytes, "one program, one form");
        let interpreter = Interpreter::new(&program, layout);
        values += u64::from(interpreter.record(record).is_ok());
        let _ = program.columns();
        true
    });
    assert!(values > 0, "no program gives a value");
}
