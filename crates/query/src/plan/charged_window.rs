//! [`ChargedWindowExec`]: a window operator whose rows are charged to the statement. DataFusion's operators hold
//! rows without asking for memory: `WindowAggExec` all of its input, `BoundedWindowAggExec` as many as its frames
//! reach. They get their input through a node that charges what they hold, and give their results in batches of the
//! usual size that share nothing: who counts memory counts what is shared again for each batch.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch, UInt64Array};
use datafusion::arrow::compute::take_record_batch;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::hash_utils::{RandomState, create_hashes};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result as DfResult, ScalarValue, Statistics, internal_datafusion_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{WindowFrame, WindowFrameBound, WindowFrameUnits};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::window::WindowExpr;
use datafusion::physical_expr_common::utils::evaluate_expressions_to_arrays;
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, InputOrderMode, PlanProperties,
};
use futures::{StreamExt, TryStreamExt, stream};
use parking_lot::Mutex;

use super::held_rows::{Before, HeldRows, HeldTexts};
use super::state::BATCH_ROWS;
use crate::texts::{compact, with_columns};

/// Bytes of one result that is computed: as a scalar, then in an array.
const RESULT: usize = size_of::<ScalarValue>() + size_of::<i128>();

/// Bytes of a partition whose end is not known, for each function.
const PARTITION: usize = 1 << 10;

/// A window operator, charged.
#[derive(Debug)]
pub struct ChargedWindowExec {
    window: Arc<dyn ExecutionPlan>,
    functions: Vec<Arc<dyn WindowExpr>>,
    before: Before,
    /// Rows of different partitions come mixed: no partition ends before the input does.
    mixed: bool,
}

impl ChargedWindowExec {
    /// The charged form of a node, if it is a window operator.
    pub fn of(node: &Arc<dyn ExecutionPlan>) -> Option<Arc<dyn ExecutionPlan>> {
        let (functions, before, mixed) = if let Some(window) = node.downcast_ref::<WindowAggExec>()
        {
            (window.window_expr(), Before::All, false)
        } else {
            let window = node.downcast_ref::<BoundedWindowAggExec>()?;
            let functions = window.window_expr();
            let mixed = !matches!(window.input_order_mode, InputOrderMode::Sorted);
            (functions, rows_before(functions), mixed)
        };
        Some(Arc::new(Self {
            functions: functions.to_vec(),
            window: node.clone(),
            before,
            mixed,
        }))
    }
}

/// Rows before those without a result that the frames of functions reach.
fn rows_before(functions: &[Arc<dyn WindowExpr>]) -> Before {
    let mut most = 0;
    for function in functions {
        match reach(function.get_window_frame()) {
            Before::All => return Before::All,
            Before::Rows(rows) => most = most.max(rows),
        }
    }
    Before::Rows(most)
}

fn reach(frame: &WindowFrame) -> Before {
    match &frame.start_bound {
        // Its functions go on from what they have computed.
        start if start.is_unbounded() => Before::Rows(0),
        WindowFrameBound::Preceding(ScalarValue::UInt64(Some(rows)))
            if frame.units == WindowFrameUnits::Rows =>
        {
            Before::Rows(usize::try_from(*rows).unwrap_or(usize::MAX))
        }
        WindowFrameBound::Preceding(_) => Before::All,
        WindowFrameBound::CurrentRow | WindowFrameBound::Following(_) => Before::Rows(0),
    }
}

/// What a window operator holds, with the charge for it.
#[derive(Debug)]
struct Held {
    state: Mutex<State>,
    /// For all but the texts.
    reservation: MemoryReservation,
}

#[derive(Debug)]
struct State {
    rows: HeldRows,
    texts: HeldTexts,
    /// Hashes of the partitions whose end is not known.
    partitions: HashSet<u64>,
    functions: usize,
}

impl Held {
    fn new(before: Before, functions: usize, reservation: MemoryReservation) -> Self {
        let state = State {
            rows: HeldRows::new(before),
            texts: HeldTexts::new(reservation.new_empty()),
            partitions: HashSet::new(),
            functions,
        };
        Self {
            state: Mutex::new(state),
            reservation,
        }
    }

    /// Adds rows of some partitions, whose results will take so many bytes; gives the rows that the operator is to
    /// have.
    fn add(
        &self,
        batch: &RecordBatch,
        results: usize,
        partitions: Vec<u64>,
    ) -> DfResult<RecordBatch> {
        let mut state = self.state.lock();
        state.rows.add(batch, results)?;
        state.partitions.extend(partitions);
        let partitions = state.partitions.len() * state.functions * PARTITION;
        let bytes = state.rows.bytes() + partitions;
        self.reservation.try_resize(bytes)?;
        state.texts.charged(batch)
    }

    /// So many rows have got their results.
    fn finished(&self, rows: usize) {
        let mut state = self.state.lock();
        let before = state.rows.bytes();
        state.rows.finished(rows);
        self.reservation.shrink(before - state.rows.bytes());
    }
}

/// Hashes of the partitions that rows belong to.
fn partitions(function: &Arc<dyn WindowExpr>, batch: &RecordBatch) -> DfResult<Vec<u64>> {
    let keys = evaluate_expressions_to_arrays(function.partition_by(), batch)?;
    let mut hashes = vec![0; batch.num_rows()];
    create_hashes(&keys, &RandomState::with_seed(0), &mut hashes)?;
    Ok(hashes)
}

/// Bytes that the results of some rows take. A text may be repeated for all of them.
fn result_bytes(functions: &[Arc<dyn WindowExpr>], batch: &RecordBatch) -> DfResult<usize> {
    let mut each = 0;
    for function in functions {
        let is_text = matches!(
            function.field()?.data_type(),
            DataType::Utf8
                | DataType::LargeUtf8
                | DataType::Utf8View
                | DataType::Binary
                | DataType::LargeBinary
                | DataType::BinaryView
        );
        each += RESULT;
        if is_text {
            let arguments = function.evaluate_args(batch)?;
            each += 2 * arguments.iter().map(longest).max().unwrap_or(0);
        }
    }
    Ok(each.saturating_mul(batch.num_rows()))
}

/// Bytes of the longest text of a column; 0 for other values.
fn longest(column: &ArrayRef) -> usize {
    fn most<T: AsRef<[u8]>>(items: impl Iterator<Item = Option<T>>) -> usize {
        let lengths = items.flatten().map(|item| item.as_ref().len());
        lengths.max().unwrap_or(0)
    }
    match column.data_type() {
        DataType::Utf8 => most(column.as_string::<i32>().iter()),
        DataType::LargeUtf8 => most(column.as_string::<i64>().iter()),
        DataType::Utf8View => most(column.as_string_view().iter()),
        DataType::Binary => most(column.as_binary::<i32>().iter()),
        DataType::LargeBinary => most(column.as_binary::<i64>().iter()),
        DataType::BinaryView => most(column.as_binary_view().iter()),
        _ => 0,
    }
}

/// Copies of the parts of a batch, as large as others expect them.
fn parts(batch: RecordBatch) -> impl Iterator<Item = DfResult<RecordBatch>> {
    let rows = batch.num_rows();
    (0..rows).step_by(BATCH_ROWS).map(move |at| {
        let end = rows.min(at + BATCH_ROWS);
        let part = match end - at {
            all if all == rows => batch.clone(),
            _ => take_record_batch(
                &batch,
                &UInt64Array::from_iter_values(at as u64..end as u64),
            )?,
        };
        with_columns(&part, |column| Ok(compact(column.clone())))
    })
}

impl DisplayAs for ChargedWindowExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ChargedWindowExec")
    }
}

#[allow(
    deprecated,
    reason = "with_new_children is deprecated and still required"
)]
impl ExecutionPlan for ChargedWindowExec {
    fn name(&self) -> &str {
        "ChargedWindowExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.window.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.window]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> DfResult<TreeNodeRecursion>,
    ) -> DfResult<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let charged = match &children[..] {
            [window] => Self::of(window),
            _ => None,
        };
        charged.ok_or_else(|| internal_datafusion_err!("Q17: the child is a window operator"))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> DfResult<SendableRecordBatchStream> {
        let name = format!("{}[{partition}]", self.window.name());
        let reservation = MemoryConsumer::new(name).register(context.memory_pool());
        let functions = self.functions.len();
        let held = Arc::new(Held::new(self.before, functions, reservation));
        let children = self.window.children().into_iter().cloned();
        let inputs = children.map(|input| {
            Arc::new(ChargedInput {
                input,
                functions: self.functions.clone(),
                mixed: self.mixed,
                held: held.clone(),
            }) as Arc<dyn ExecutionPlan>
        });
        let window = self.window.clone().with_new_children(inputs.collect())?;
        let results = window.execute(partition, context)?;
        let results = results.map(move |batch| -> DfResult<_> {
            let batch = batch?;
            held.finished(batch.num_rows());
            Ok(stream::iter(parts(batch)))
        });
        let schema = self.schema();
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            schema,
            results.try_flatten(),
        )))
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(partition)]
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        _: &StatisticsArgs,
    ) -> DfResult<Arc<Statistics>> {
        Ok(inputs[0].clone())
    }
}

/// The input of a window operator in one of its runs.
#[derive(Debug)]
struct ChargedInput {
    input: Arc<dyn ExecutionPlan>,
    functions: Vec<Arc<dyn WindowExpr>>,
    mixed: bool,
    held: Arc<Held>,
}

impl DisplayAs for ChargedInput {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ChargedInput")
    }
}

#[allow(
    deprecated,
    reason = "with_new_children is deprecated and still required"
)]
impl ExecutionPlan for ChargedInput {
    fn name(&self) -> &str {
        "ChargedInput"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> DfResult<TreeNodeRecursion>,
    ) -> DfResult<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        Err(internal_datafusion_err!(
            "Q17: an input that runs is not planned"
        ))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> DfResult<SendableRecordBatchStream> {
        let rows = self.input.execute(partition, context)?;
        let (functions, held, mixed) = (self.functions.clone(), self.held.clone(), self.mixed);
        let rows = rows.map(move |batch| -> DfResult<_> {
            let batch = batch?;
            let results = result_bytes(&functions, &batch)?;
            let partitions = match (mixed, functions.first()) {
                (true, Some(function)) => partitions(function, &batch)?,
                _ => Vec::new(),
            };
            held.add(&batch, results, partitions)
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }
}
