//! Running plans, on threads of their own: a plan that computes without a pause must not keep
//! connections, KILL and storage waiting.
//!
//! Nor may it keep other plans waiting. An evaluation holds its thread until it pauses, which may take seconds for
//! values of megabytes. So there are [`THREADS`] threads for each processor, and the operating system shares the
//! processors out among them. Other plans wait only when that many evaluations that do not pause run at a time;
//! these end with their statement, whose token the threads know ([`crate::interrupt`]).

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use datafusion::arrow::array::RecordBatch;
use datafusion::common::Result as DfResult;
use datafusion::common::utils::memory::get_record_batch_memory_size;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use futures::future::BoxFuture;
use futures::{Stream, StreamExt};
use perigee_engine::scan::ScanCounters;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::running_plans::Begun;
use crate::access::count_scans;
use crate::error::SqlError;
use crate::interrupt::{self, Watched};
use crate::memory::{Charge, ProcessMemory};

/// Batches that wait for the session. Each is some thousand rows: the plan computes the next while
/// one is sent.
const BATCHES_WAITING: usize = 2;

/// Threads for each processor. Most are idle: a query has one task a processor in each of its stages.
const THREADS: usize = 16;

/// Stack of a thread that plans run on: conditions are as deep as statements may make them. Memory is taken
/// when it is used.
const STACK: usize = 64 << 20;

/// The threads that plans run on.
pub(super) struct Workers(Option<Runtime>);

impl Workers {
    /// Starts the threads for so many processors.
    pub(super) fn start(processors: usize) -> io::Result<Self> {
        interrupt::watch_tasks();
        let runtime = Builder::new_multi_thread()
            .worker_threads(THREADS * processors.max(1))
            .thread_name("query")
            .thread_stack_size(STACK)
            .enable_all()
            .build()?;
        Ok(Self(Some(runtime)))
    }

    /// Begins to run a plan; what its scans do is added to `scans` when it ends.
    pub(super) fn run(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        context: Arc<TaskContext>,
        scans: Arc<ScanCounters>,
        memory: Arc<ProcessMemory>,
        begun: Begun,
    ) -> Running {
        let (to, batches) = mpsc::channel(BATCHES_WAITING);
        let running = plan.clone();
        let run = async move {
            match execute_stream(plan, context) {
                Ok(stream) => {
                    let mut stream = stream.map(|batch| charged(batch?, &memory));
                    while let Some(batch) = stream.next().await {
                        if to.send(batch).await.is_err() {
                            return;
                        }
                    }
                }
                // The session may have gone.
                Err(error) => drop(to.send(Err(error)).await),
            }
        };
        let runtime = self.0.as_ref().expect("it is there until the drop");
        let run: BoxFuture<'static, ()> = match interrupt::token() {
            Some(token) => Box::pin(Watched::new(Box::pin(run), token)),
            None => Box::pin(run),
        };
        Running {
            batches,
            task: runtime.spawn(run),
            taken: None,
            ended: false,
            plan: running,
            scans,
            _begun: begun,
        }
    }
}

/// A batch that waits for the session, with the charge for it.
fn charged(batch: RecordBatch, memory: &Arc<ProcessMemory>) -> DfResult<(RecordBatch, Charge)> {
    let charge = memory.charge(get_record_batch_memory_size(&batch));
    charge
        .map(|charge| (batch, charge))
        .map_err(SqlError::into_df)
}

impl Drop for Workers {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            // Waiting for threads is not allowed in asynchronous code.
            runtime.shutdown_background();
        }
    }
}

/// The batches of a plan that runs; dropping it stops the plan.
pub(super) struct Running {
    batches: mpsc::Receiver<DfResult<(RecordBatch, Charge)>>,
    /// For the batch that was taken last.
    taken: Option<Charge>,
    task: JoinHandle<()>,
    ended: bool,
    plan: Arc<dyn ExecutionPlan>,
    scans: Arc<ScanCounters>,
    /// Others see that it runs.
    _begun: Begun,
}

impl Stream for Running {
    type Item = DfResult<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.ended {
            return Poll::Ready(None);
        }
        self.taken = None;
        if let Some(batch) = ready!(self.batches.poll_recv(cx)) {
            let batch = batch.map(|(batch, charge)| {
                self.taken = Some(charge);
                batch
            });
            return Poll::Ready(Some(batch));
        }
        let outcome = ready!(Pin::new(&mut self.task).poll(cx));
        self.ended = true;
        match outcome {
            // A panic is not the end of a result.
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            _ => Poll::Ready(None),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
        count_scans(&self.plan, &self.scans);
    }
}
