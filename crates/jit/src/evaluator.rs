//! The evaluator: calls compiled code and takes care of its memory.

use std::fmt;

use perigee_expr::{Evaluator, Lanes, Program, Type, Vector};
use perigee_value::RowLayout;

use crate::JitError;
use crate::access::ColumnAccess;
use crate::code::{Builder, Call, Code, Entry};
use crate::compile::{Source, compile_evaluate, compile_filter};
use crate::constants::Constants;
use crate::facts::Facts;
use crate::gather;

/// A compiled program.
///
/// Its methods panic if a record does not keep to the layout's shape (J3), which verified pages
/// exclude, or if the output is not of the program's type.
pub struct JitEvaluator {
    ty: Type,
    /// Bytes that every record has at least (J1).
    record_len: usize,
    run: Run,
}

enum Run {
    /// The value of a column.
    Gather(ColumnAccess),
    Compiled(Box<Compiled>),
}

struct Compiled {
    /// Only for Bool programs.
    filter: Option<Entry>,
    evaluate: Entry,
    /// Whether lanes can be NULL.
    nullable: bool,
    /// Keeps the functions' memory.
    _code: Code,
    /// What the functions refer to.
    _constants: Constants,
}

impl JitEvaluator {
    /// Compiles a program for records of a layout; validates it.
    pub fn compile(program: &Program, layout: &RowLayout) -> Result<Self, JitError> {
        program.check(layout)?;
        let ty = program.result_type();
        let run = match program.as_column() {
            Some(column) => Run::Gather(ColumnAccess::new(layout, column)?),
            None => Run::Compiled(Box::new(compile(program, layout, ty)?)),
        };
        Ok(Self {
            ty,
            record_len: layout.shape.var_data_offset(),
            run,
        })
    }

    /// Establishes J1 for a call: every record has its constant part inside `base`.
    fn check_records(&self, base: &[u8], records: &[u16]) {
        let last = records.iter().copied().max().map_or(0, usize::from);
        assert!(
            records.is_empty() || last + self.record_len <= base.len(),
            "J3: a record at {last} leaves the page of {} bytes",
            base.len()
        );
    }
}

fn compile(program: &Program, layout: &RowLayout, ty: Type) -> Result<Compiled, JitError> {
    let facts = Facts::new(program, layout)?;
    let source = Source {
        program,
        facts: &facts,
        shape: layout.shape,
    };
    let mut constants = Constants::default();
    let mut builder = Builder::new()?;
    let mut ids = vec![compile_evaluate(&mut builder, &source, &mut constants)?];
    if ty == Type::Bool {
        ids.push(compile_filter(&mut builder, &source, &mut constants)?);
    }
    let (code, entries) = builder.finish(&ids)?;
    let root = facts.of(program.root());
    Ok(Compiled {
        filter: entries.get(1).copied(),
        evaluate: entries[0],
        nullable: root.nullable || root.fails,
        _code: code,
        _constants: constants,
    })
}

impl Compiled {
    /// Runs a function.
    ///
    /// # Safety
    /// `call.records` are `call.count` offsets below `call.limit` that [`JitEvaluator::check_records`]
    /// accepted, and the outputs have room for as many entries of the function's kind.
    unsafe fn run(entry: Entry, call: &mut Call) {
        // SAFETY: the function keeps to the invariants in `compile`, for which the caller vouches.
        let corrupt = unsafe { entry(call) };
        assert!(
            corrupt == 0,
            "J3: a record's variable-length items leave the page"
        );
    }
}

fn call(base: &[u8], records: &[u16], out: *mut u8, failed: *mut u8, valid: *mut u8) -> Call {
    let limit = base.as_ptr_range().end;
    let (count, records) = (records.len(), records.as_ptr());
    let base = base.as_ptr();
    Call {
        base,
        limit,
        records,
        count,
        out,
        failed,
        valid,
        out_count: 0,
        failed_count: 0,
    }
}

impl Evaluator for JitEvaluator {
    fn filter(&self, base: &[u8], records: &[u16], pass: &mut Vec<u16>, failed: &mut Vec<u16>) {
        let filter = match &self.run {
            Run::Compiled(compiled) => compiled.filter,
            Run::Gather(_) => None,
        };
        let filter = filter.expect("only Bool programs filter");
        self.check_records(base, records);
        pass.reserve(records.len());
        failed.reserve(records.len());
        let (out, bad) = (pass.spare_capacity_mut(), failed.spare_capacity_mut());
        let mut call = call(
            base,
            records,
            out.as_mut_ptr().cast(),
            bad.as_mut_ptr().cast(),
            std::ptr::null_mut(),
        );
        // SAFETY: the records are checked, each is written to one of the outputs at most, and
        // both have room for all; the counts are those of the entries written.
        unsafe {
            Compiled::run(filter, &mut call);
            pass.set_len(pass.len() + call.out_count);
            failed.set_len(failed.len() + call.failed_count);
        }
    }

    fn evaluate(&self, base: &[u8], records: &[u16], out: &mut Vector, failed: &mut Vec<u32>) {
        self.check_records(base, records);
        match &self.run {
            Run::Gather(column) => gather::gather(column, base, records, out),
            Run::Compiled(compiled) => compiled.evaluate(base, records, out, failed),
        }
    }

    fn result_type(&self) -> Type {
        self.ty
    }
}

impl Compiled {
    fn evaluate(&self, base: &[u8], records: &[u16], out: &mut Vector, failed: &mut Vec<u32>) {
        let count = records.len();
        let lanes = out.len();
        // Valid bytes: appended to those there are, or to ones for the lanes before, which are
        // kept only if a lane is NULL.
        let had_valid = out.valid.is_some();
        let mut valid = out.valid.take().unwrap_or_default();
        if self.nullable && !had_valid {
            valid.resize(lanes, 1);
        }
        let nulls = match &mut out.lanes {
            Lanes::I64(v) => self.append(base, records, v, &mut valid, failed),
            Lanes::U64(v) => self.append(base, records, v, &mut valid, failed),
            Lanes::I128(v) => self.append(base, records, v, &mut valid, failed),
            Lanes::F64(v) => self.append(base, records, v, &mut valid, failed),
            Lanes::Bytes { ends, data } => {
                let mut parts: Vec<[usize; 2]> = Vec::with_capacity(count);
                let nulls = self.append(base, records, &mut parts, &mut valid, failed);
                gather::append_strings(&parts, ends, data);
                nulls
            }
        };
        if had_valid && !self.nullable {
            valid.resize(lanes + count, 1);
        }
        out.valid = (had_valid || nulls > 0).then_some(valid);
    }

    /// Appends a lane of type `T` per record; gives the number of NULL lanes.
    fn append<T>(
        &self,
        base: &[u8],
        records: &[u16],
        out: &mut Vec<T>,
        valid: &mut Vec<u8>,
        failed: &mut Vec<u32>,
    ) -> usize {
        let count = records.len();
        out.reserve(count);
        failed.reserve(count);
        let mut marks = std::ptr::null_mut();
        if self.nullable {
            valid.reserve(count);
            marks = valid.spare_capacity_mut().as_mut_ptr().cast();
        }
        let (lanes, bad) = (out.spare_capacity_mut(), failed.spare_capacity_mut());
        let mut call = call(
            base,
            records,
            lanes.as_mut_ptr().cast(),
            bad.as_mut_ptr().cast(),
            marks,
        );
        // SAFETY: the caller checked the records; all outputs have room for an entry per record;
        // the function writes one lane (and one valid byte, if lanes can be NULL) per record and
        // as many failed positions as it counts.
        unsafe {
            Self::run(self.evaluate, &mut call);
            out.set_len(out.len() + count);
            failed.set_len(failed.len() + call.failed_count);
            if self.nullable {
                valid.set_len(valid.len() + count);
            }
        }
        call.out_count
    }
}

impl fmt::Debug for JitEvaluator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let run = match self.run {
            Run::Gather(_) => "gather",
            Run::Compiled(_) => "compiled",
        };
        f.debug_struct("JitEvaluator")
            .field("ty", &self.ty)
            .field("run", &run)
            .finish()
    }
}
