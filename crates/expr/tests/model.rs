//! The interpreter against a naive model: recursion over the tree, decimals as digit strings of
//! unlimited length, LIKE by definition. Also: what the builder builds is valid.
#![allow(clippy::unwrap_used, reason = "tests")]

mod model {
    pub mod eval;
}

use model::eval::{Value, evaluate};
use perigee_expr::arbitrary::Generator;
use perigee_expr::{
    Arithmetic, Builder, Comparison, DateField, Evaluator, Interpreter, NodeId, Type, Vector,
};
use perigee_value::{Datum, RecordView, RowLayout, ValueRef};
use proptest::prelude::*;

fn cases(default: u32) -> u32 {
    std::env::var("PERIGEE_CASES")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(default)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(1500)))]

    #[test]
    fn interpreter_equals_the_model(seed: u64) {
        let mut generator = Generator::new(seed);
        let layout = generator.layout();
        for _ in 0..4 {
            let program = generator.program(&layout);
            let interpreter = Interpreter::new(&program, &layout);
            for _ in 0..6 {
                let record = generator.record(&layout);
                let row = RecordView::new(&layout, &record).row().unwrap();
                let expected = evaluate(&program, &row);
                let got = interpreter.record(&record).map(|v| Value::of(v, program.result_type()));
                prop_assert_eq!(&got.ok(), &expected, "{}\n{:?}", program.dump(), row);

                let types: Vec<Type> =
                    layout.columns.iter().map(|column| Type::of(column.ty)).collect();
                let values: Vec<ValueRef<'_>> = row.iter().map(Datum::as_ref).collect();
                let over_values = Interpreter::over_values(&program, &types);
                let got = over_values.row(&values).map(|v| Value::of(v, program.result_type()));
                prop_assert_eq!(got.ok(), expected);
            }
        }
    }

    #[test]
    fn runs_of_records_equal_single_records(seed: u64) {
        let mut generator = Generator::new(seed);
        let layout = generator.layout();
        let (mut base, mut records) = (Vec::new(), Vec::new());
        for _ in 0..8 {
            records.push(base.len() as u16);
            base.extend(generator.record(&layout));
        }
        let predicate = Interpreter::new(&generator.predicate(&layout), &layout);
        let (mut pass, mut failed) = (Vec::new(), Vec::new());
        predicate.filter(&base, &records, &mut pass, &mut failed);
        let program = generator.program(&layout);
        let values = Interpreter::new(&program, &layout);
        let ty = values.result_type();
        let (mut out, mut bad) = (Vector::new(ty), Vec::new());
        values.evaluate(&base, &records, &mut out, &mut bad);
        prop_assert_eq!(out.len(), records.len());
        for (position, offset) in records.iter().enumerate() {
            let record = &base[usize::from(*offset)..];
            match predicate.record(record) {
                Ok(value) => {
                    prop_assert_eq!(pass.contains(offset), value == ValueRef::Bool(true));
                    prop_assert!(!failed.contains(offset));
                }
                Err(_) => prop_assert!(failed.contains(offset) && !pass.contains(offset)),
            }
            match values.record(record) {
                Ok(value) => prop_assert_eq!(out.get(position, ty), value),
                Err(_) => prop_assert!(bad.contains(&(position as u32)) && out.is_null(position)),
            }
        }
    }

    #[test]
    fn what_the_builder_builds_is_valid(seed: u64, steps in prop::collection::vec(any::<[u8; 4]>(), 1..30)) {
        let mut generator = Generator::new(seed);
        let layout = generator.layout();
        let mut builder = Builder::new(&layout);
        let mut ids: Vec<NodeId> =
            (0..layout.columns.len() as u16).map(|i| builder.column(i).unwrap()).collect();
        for step in steps {
            ids.extend(build(&mut builder, &mut generator, &layout, &ids, step));
        }
        let record = generator.record(&layout);
        let row = RecordView::new(&layout, &record).row().unwrap();
        for id in &ids {
            let ty = builder.ty(*id);
            let program = builder.clone().finish(*id).unwrap();
            prop_assert_eq!(program.check(&layout), Ok(()), "{}", program.dump());
            prop_assert_eq!(program.result_type(), ty);
            let interpreter = Interpreter::new(&program, &layout);
            let got = interpreter.record(&record).map(|v| Value::of(v, ty)).ok();
            prop_assert_eq!(got, evaluate(&program, &row), "{}", program.dump());
        }
    }
}

/// One random step of building; steps that the builder refuses add nothing.
fn build(
    b: &mut Builder,
    generator: &mut Generator,
    layout: &RowLayout,
    ids: &[NodeId],
    step: [u8; 4],
) -> Option<NodeId> {
    let [what, x, y, z] = step;
    let id = |n: u8| ids[usize::from(n) % ids.len()];
    let column = &layout.columns[usize::from(z) % layout.columns.len()];
    let operators = [
        Arithmetic::Add,
        Arithmetic::Subtract,
        Arithmetic::Multiply,
        Arithmetic::Divide,
        Arithmetic::IntDivide,
        Arithmetic::Modulo,
    ];
    let comparisons = [
        Comparison::Equal,
        Comparison::Less,
        Comparison::NullSafeEqual,
    ];
    match what % 14 {
        0 => b.constant(generator.value(column.ty), Type::of(column.ty)),
        1 | 2 => b.compare(comparisons[usize::from(z) % 3], id(x), id(y)),
        3 => b.and(vec![id(x), id(y)]),
        4 => b.or(vec![id(x), id(y)]),
        5 => b.not(id(x)),
        6..9 => b.arithmetic(operators[usize::from(z) % 6], id(x), id(y)),
        9 => b.negate(id(x)),
        10 => {
            let item = (generator.value(column.ty), Type::of(column.ty));
            b.in_list(
                id(x),
                &[item, (Datum::Null, Type::Int)][..1 + usize::from(y % 2)],
            )
        }
        11 => b.case(&[(id(x), id(y))], Some(id(z))),
        12 => b.coalesce(&[id(x), id(y)]),
        _ => b.extract(DateField::Month, id(x)),
    }
    .ok()
    .filter(|id| b.clone().finish(*id).is_ok())
}
