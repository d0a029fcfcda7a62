//! The Log Store's metrics.

use perigee_log_store::{DatabaseFigures, Figures, LATENCY_BOUNDS, Latencies, LogStoreService};
use perigee_status::{Histogram, Kind, Metrics, Value};

use super::Part;

/// A Log Store as it is shown.
pub(crate) struct LogStorePart(pub LogStoreService);

impl Part for LogStorePart {
    fn title(&self) -> &'static str {
        "Log Store"
    }

    fn metrics(&self) -> Metrics {
        metrics(&self.0.figures())
    }

    fn health(&self) -> Result<(), String> {
        self.0.check().map_err(|e| e.to_string())
    }
}

/// The metrics of a Log Store.
pub(super) fn metrics(figures: &Figures) -> Metrics {
    let mut metrics = Metrics::default();
    databases(&mut metrics, &figures.databases);
    let stats = &figures.stats;
    metrics
        .section("Appends")
        .counter(
            "perigee_log_store_appends_total",
            "Appends acknowledged",
            stats.appends,
        )
        .counter(
            "perigee_log_store_append_bytes_total",
            "Bytes of log appended",
            stats.append_bytes,
        )
        .histogram(
            "perigee_log_store_append_seconds",
            "Time of an append, from the call to the answer",
            histogram(&figures.append_time),
        )
        .histogram(
            "perigee_log_store_sync_seconds",
            "Time of a sync of a file",
            histogram(&figures.sync_time),
        )
        .section("Reads")
        .counter(
            "perigee_log_store_cached_reads_total",
            "Reads answered from memory",
            stats.cached_reads,
        )
        .counter(
            "perigee_log_store_disk_reads_total",
            "Reads answered from the disk",
            stats.disk_reads,
        )
        .gauge(
            "perigee_log_store_cache_bytes",
            "Memory that recent appends take",
            figures.cache_bytes,
        )
        .gauge(
            "perigee_log_store_cache_capacity_bytes",
            "Memory that recent appends may take",
            figures.cache_capacity_bytes,
        );
    metrics
}

fn databases(metrics: &mut Metrics, databases: &[DatabaseFigures]) {
    metrics.section("Databases");
    let mut gauge = |name, help, value: fn(&DatabaseFigures) -> u64| {
        let of_one = |database: &DatabaseFigures| {
            let labels = vec![database.db.0.to_string()];
            (labels, Value::Integer(value(database)))
        };
        metrics.add(
            name,
            help,
            Kind::Gauge,
            &["db"],
            databases.iter().map(of_one),
        );
    };
    gauge(
        "perigee_log_store_db_last_lsn",
        "LSN of the last log group",
        |d| d.last_lsn.0,
    );
    gauge(
        "perigee_log_store_db_log_bytes",
        "Bytes of log in its PLogs",
        |d| d.bytes,
    );
    gauge("perigee_log_store_db_plogs", "PLogs", |d| d.plogs);
    gauge(
        "perigee_log_store_db_open_plogs",
        "PLogs that are not sealed",
        |d| d.open_plogs,
    );
    gauge(
        "perigee_log_store_db_damaged_plogs",
        "PLogs that are not served because their files are damaged",
        |d| d.damaged_plogs,
    );
    gauge(
        "perigee_log_store_db_damaged",
        "1 if the database is not served because its files are damaged",
        |d| u64::from(d.damaged),
    );
}

fn histogram(latencies: &Latencies) -> Histogram {
    Histogram {
        bounds: &LATENCY_BOUNDS,
        counts: latencies.counts.to_vec(),
        sum: latencies.sum.as_secs_f64(),
    }
}
