//! The frontend's metrics.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use perigee_engine::Engine;
use perigee_engine::buffer::PoolCounters;
use perigee_engine::scan::ScanCounters;
use perigee_engine::txn::TransactionFigures;
use perigee_page_api::TransportBytes;
use perigee_query::{Frontend, FrontendFigures};
use perigee_sal::{Sal, SliceProgress};
use perigee_status::{Kind, Metrics, Value};
use perigee_types::{Lsn, PAGE_SIZE};
use perigee_wire_mysql::{ConnectionRegistry, Counters};

use super::Part;

/// A frontend as it is shown.
pub(crate) struct FrontendPart {
    pub engine: Arc<Engine>,
    pub frontend: Arc<Frontend>,
    pub registry: ConnectionRegistry,
    /// What crosses the sockets to each Page Store; none if it is in this process.
    pub transport: Vec<Arc<TransportBytes>>,
}

/// What a frontend did and where it stands.
#[derive(Debug, Default)]
pub(super) struct Figures {
    clients: Counters,
    connected: usize,
    /// Connections that run a statement.
    running: usize,
    sql: FrontendFigures,
    transactions: TransactionFigures,
    pool: PoolCounters,
    /// In pages.
    pool_capacity: usize,
    log: LogFigures,
    scans: ScanCounters,
}

/// The log and the slices, as the storage abstraction layer knows them.
#[derive(Debug, Default)]
struct LogFigures {
    bytes: u64,
    last: Lsn,
    durable: Lsn,
    cv: Lsn,
    unpersisted: u64,
    slices: Vec<SliceProgress>,
    /// A store has no room for more data.
    short_of_room: bool,
    /// What waits for its store, and for how long.
    outages: Vec<(String, Duration)>,
}

impl Part for FrontendPart {
    fn title(&self) -> &'static str {
        "Frontend"
    }

    fn metrics(&self) -> Metrics {
        let mut metrics = metrics(&self.figures());
        if !self.transport.is_empty() {
            metrics.append(network(&self.transport));
        }
        metrics
    }

    fn health(&self) -> Result<(), String> {
        self.engine.sal().check().map_err(|e| e.to_string())
    }
}

impl FrontendPart {
    fn figures(&self) -> Figures {
        let connections = self.registry.list();
        let running = connections.iter().filter(|c| c.command == "Query").count();
        let (sal, pool) = (self.engine.sal(), self.engine.pool());
        // What is ahead is asked for last, so that it is.
        let (cv, durable) = (sal.cv_lsn(), sal.durable_lsn());
        let scans = ScanCounters::default();
        scans.absorb(self.engine.scan_counters());
        Figures {
            clients: self.registry.counters(),
            connected: connections.len(),
            running,
            sql: self.frontend.figures(),
            transactions: self.engine.transaction_figures(),
            pool: pool.counters(),
            pool_capacity: pool.capacity(),
            log: LogFigures {
                bytes: sal.log_bytes(),
                cv,
                durable,
                last: sal.last_lsn(),
                unpersisted: sal.unpersisted_bytes(),
                slices: sal.slices(),
                short_of_room: !sal.has_room(),
                outages: outages(sal),
            },
            scans,
        }
    }
}

fn outages(sal: &Sal) -> Vec<(String, Duration)> {
    let outages = sal.outages().into_iter();
    outages.map(|o| (o.of, o.since.elapsed())).collect()
}

/// The metrics of a frontend.
pub(super) fn metrics(figures: &Figures) -> Metrics {
    let mut metrics = Metrics::default();
    ndp(&mut metrics, &figures.scans);
    statements(&mut metrics, &figures.sql);
    transactions(&mut metrics, &figures.transactions);
    connections(&mut metrics, figures);
    log(&mut metrics, &figures.log);
    pool(&mut metrics, figures);
    metrics
}

/// The metrics of a frontend whose Page Stores are processes of their own, in the order in which it
/// was given them.
pub(super) fn network(stores: &[Arc<TransportBytes>]) -> Metrics {
    let mut metrics = Metrics::default();
    metrics.section("Page Stores");
    let mut counter = |name, help, value: fn((u64, u64)) -> u64| {
        let values = stores.iter().enumerate().map(|(number, bytes)| {
            let value = value(bytes.snapshot());
            (vec![number.to_string()], Value::Integer(value))
        });
        metrics.add(name, help, Kind::Counter, &["store"], values);
    };
    counter(
        "perigee_frontend_page_store_received_bytes_total",
        "Bytes received from a Page Store",
        |(_, received)| received,
    );
    counter(
        "perigee_frontend_page_store_sent_bytes_total",
        "Bytes sent to a Page Store",
        |(sent, _)| sent,
    );
    metrics
}

fn ndp(metrics: &mut Metrics, scans: &ScanCounters) {
    let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let time = |nanos: &AtomicU64| Duration::from_nanos(get(nanos));
    metrics
        .section("Near-data processing")
        .counter(
            "perigee_frontend_ndp_scans_total",
            "Scans with near-data processing",
            get(&scans.scans),
        )
        .counter(
            "perigee_frontend_scan_batches_total",
            "Batch reads of all scans",
            get(&scans.batches),
        )
        .counter(
            "perigee_frontend_ndp_pages_pushed_total",
            "Leaf pages that storage reduced",
            get(&scans.pages_pushed),
        )
        .counter(
            "perigee_frontend_ndp_pages_compiled_total",
            "Those of them that compiled code reduced",
            get(&scans.pages_compiled),
        )
        .counters(
            "perigee_frontend_ndp_pages_declined_total",
            "Leaf pages that storage returned as they are",
            &["reason"],
            [
                ("descriptor", get(&scans.pages_declined_descriptor)),
                ("busy", get(&scans.pages_declined_busy)),
                ("page", get(&scans.pages_declined_page)),
                ("forced", get(&scans.pages_declined_forced)),
            ],
        )
        .counter(
            "perigee_frontend_scan_pages_from_pool_total",
            "Leaf pages that scans found in the buffer pool",
            get(&scans.pages_from_pool),
        )
        .counter(
            "perigee_frontend_scan_pages_read_total",
            "Leaf pages that scans read whole",
            get(&scans.pages_read),
        )
        .counter(
            "perigee_frontend_ndp_ambiguous_records_total",
            "Records that storage could not decide on and returned whole",
            get(&scans.ambiguous_records),
        )
        .counter(
            "perigee_frontend_ndp_filtered_rows_total",
            "Rows that run-time filters left out",
            get(&scans.rows_filtered),
        )
        .counter(
            "perigee_frontend_ndp_key_batches_total",
            "Reads of which storage returned the rows of some keys",
            get(&scans.key_batches),
        )
        .counter(
            "perigee_frontend_ndp_keys_fetched_total",
            "Keys of these reads",
            get(&scans.keys_fetched),
        )
        .counter(
            "perigee_frontend_ndp_samples_total",
            "Samples of pages that were taken for estimates",
            get(&scans.samples),
        )
        .counter(
            "perigee_frontend_ndp_pages_sampled_total",
            "Leaf pages of these samples",
            get(&scans.pages_sampled),
        )
        .counter(
            "perigee_frontend_ndp_storage_read_bytes_total",
            "Bytes of pages that storage went through",
            get(&scans.bytes_read_in_storage),
        )
        .counter(
            "perigee_frontend_scan_shipped_bytes_total",
            "Bytes of results and pages that came from storage",
            get(&scans.bytes_shipped),
        )
        .counter(
            "perigee_frontend_ndp_storage_cpu_seconds_total",
            "CPU time that storage spent",
            time(&scans.storage_cpu_nanos),
        )
        .counter(
            "perigee_frontend_scan_cpu_seconds_total",
            "CPU time that scans took here",
            time(&scans.frontend_cpu_nanos),
        )
        .counter(
            "perigee_frontend_scan_rows_total",
            "Rows and partial aggregates that scans delivered",
            get(&scans.rows),
        );
}

fn statements(metrics: &mut Metrics, sql: &FrontendFigures) {
    metrics
        .section("Statements")
        .counters(
            "perigee_frontend_statements_total",
            "Statements, those that failed among them",
            &["kind"],
            sql.statements.iter().copied(),
        )
        .counter(
            "perigee_frontend_fast_statements_total",
            "Statements that ran without planning",
            sql.fast_statements,
        )
        .gauge(
            "perigee_frontend_prepared_statements",
            "Prepared statements",
            sql.prepared_statements,
        )
        .gauge(
            "perigee_frontend_query_memory_bytes",
            "Memory of all connections for commands, statements and what is kept for them",
            sql.query_memory,
        );
}

fn transactions(metrics: &mut Metrics, of: &TransactionFigures) {
    metrics
        .section("Transactions")
        .counter(
            "perigee_frontend_transactions_committed_total",
            "Transactions committed that had locked or written something",
            of.committed,
        )
        .counter(
            "perigee_frontend_transactions_rolled_back_total",
            "Transactions rolled back that had locked or written something",
            of.rolled_back,
        )
        .gauge(
            "perigee_frontend_transactions_ending_late",
            "Transactions that commit or roll back in the background, because storage does not let them end yet",
            of.late,
        )
        .gauge(
            "perigee_frontend_transactions_active",
            "Transactions that have locked or written something",
            of.active,
        )
        .counter(
            "perigee_frontend_lock_waits_total",
            "Waits for locks of others",
            of.lock_waits,
        )
        .counter(
            "perigee_frontend_deadlocks_total",
            "Deadlocks found",
            of.deadlocks,
        )
        .counter(
            "perigee_frontend_lock_timeouts_total",
            "Waits for locks that took too long",
            of.lock_timeouts,
        )
        .gauge("perigee_frontend_read_views", "Open read views", of.views)
        .gauge(
            "perigee_frontend_oldest_read_view_seconds",
            "Age of the oldest read view",
            of.oldest_view,
        )
        .gauge(
            "perigee_frontend_history_length",
            "Ended transactions whose undo is not purged",
            of.history,
        );
}

fn connections(metrics: &mut Metrics, figures: &Figures) {
    let clients = &figures.clients;
    metrics
        .section("Connections")
        .gauge(
            "perigee_frontend_connections",
            "Clients connected",
            figures.connected,
        )
        .gauge(
            "perigee_frontend_running_statements",
            "Statements that run now",
            figures.running,
        )
        .counter(
            "perigee_frontend_connections_total",
            "Connections accepted",
            clients.connections,
        )
        .counter(
            "perigee_frontend_connections_refused_total",
            "Connections refused because there were too many",
            clients.refused_connections,
        )
        .counter(
            "perigee_frontend_logins_crowded_out_total",
            "Unfinished logins that were ended because there were too many",
            clients.crowded_out,
        )
        .counter(
            "perigee_frontend_failed_logins_total",
            "Connections that failed to log in",
            clients.aborted_connects,
        )
        .counter(
            "perigee_frontend_aborted_clients_total",
            "Connections that ended without saying so",
            clients.aborted_clients,
        )
        .counter(
            "perigee_frontend_client_received_bytes_total",
            "Bytes received from clients",
            clients.bytes_received,
        )
        .counter(
            "perigee_frontend_client_sent_bytes_total",
            "Bytes sent to clients",
            clients.bytes_sent,
        );
}

fn log(metrics: &mut Metrics, log: &LogFigures) {
    metrics
        .section("Log and slices")
        .counter(
            "perigee_frontend_log_bytes_total",
            "Bytes of log groups made",
            log.bytes,
        )
        .gauge(
            "perigee_frontend_last_lsn",
            "LSN of the last log group",
            log.last.0,
        )
        .gauge(
            "perigee_frontend_durable_lsn",
            "Everything up to it is in the Log Store",
            log.durable.0,
        )
        .gauge(
            "perigee_frontend_cv_lsn",
            "CV-LSN: everything up to it is in the Page Stores",
            log.cv.0,
        )
        .gauge(
            "perigee_frontend_unpersisted_log_bytes",
            "Log that no Page Store is known to have",
            log.unpersisted,
        )
        .gauge(
            "perigee_frontend_short_of_room",
            "1 while a store has no room for more data than its reserve",
            u64::from(log.short_of_room),
        );
    let of_one = |(of, lasts): &(String, Duration)| (vec![of.clone()], Value::from(*lasts));
    metrics.add(
        "perigee_frontend_storage_outage_seconds",
        "For how long a store has not taken what it is sent; nothing is shown without an outage",
        Kind::Gauge,
        &["of"],
        log.outages.iter().map(of_one),
    );
    let mut gauge = |name, help, value: fn(&SliceProgress) -> u64| {
        let of_one = |slice: &SliceProgress| {
            let labels = vec![slice.slice.0.to_string(), slice.store.to_string()];
            (labels, Value::Integer(value(slice)))
        };
        let slices = log.slices.iter().map(of_one);
        metrics.add(name, help, Kind::Gauge, &["slice", "store"], slices);
    };
    gauge(
        "perigee_frontend_slice_persistent_lsn",
        "Slice persistent LSN, as far as its Page Store has said",
        |s| s.persistent.0,
    );
    gauge(
        "perigee_frontend_slice_backlog_bytes",
        "Log that waits for consolidation, as its Page Store last said",
        |s| s.backlog,
    );
}

fn pool(metrics: &mut Metrics, figures: &Figures) {
    let bytes = |pages: usize| (pages * PAGE_SIZE) as u64;
    metrics
        .section("Buffer pool")
        .counter(
            "perigee_frontend_buffer_pool_hits_total",
            "Pages found in the buffer pool",
            figures.pool.hits,
        )
        .counter(
            "perigee_frontend_buffer_pool_misses_total",
            "Pages read from Page Stores into the buffer pool",
            figures.pool.misses,
        )
        .gauge(
            "perigee_frontend_buffer_pool_bytes",
            "Memory that pages take",
            bytes(figures.pool.resident),
        )
        .gauge(
            "perigee_frontend_buffer_pool_lent_bytes",
            "Memory of the buffer pool that near-data scans have for what storage sent them",
            figures.pool.lent as u64,
        )
        .gauge(
            "perigee_frontend_buffer_pool_capacity_bytes",
            "Memory that pages may take",
            bytes(figures.pool_capacity),
        );
}
