//! The Page Store's metrics.

use std::sync::Arc;

use perigee_page_api::TransportBytes;
use perigee_page_store::{
    DECLINE_REASONS, DescriptorFigures, Figures, FilterFigures, LogFigures, NdpFigures,
    PageStoreService, PoolFigures, SliceFigures,
};
use perigee_status::{Kind, Metrics, Value};

use super::Part;

/// A Page Store as it is shown.
pub(crate) struct PageStorePart {
    pub store: Arc<PageStoreService>,
    /// What crosses its sockets; `None` if it has none.
    pub transport: Option<Arc<TransportBytes>>,
}

impl Part for PageStorePart {
    fn title(&self) -> &'static str {
        "Page Store"
    }

    fn metrics(&self) -> Metrics {
        let mut metrics = metrics(&self.store.figures());
        if let Some(bytes) = &self.transport {
            metrics.append(network(bytes.snapshot()));
        }
        metrics
    }

    fn health(&self) -> Result<(), String> {
        self.store.check().map_err(|e| e.to_string())
    }
}

/// The metrics of a Page Store.
pub(super) fn metrics(figures: &Figures) -> Metrics {
    let mut metrics = Metrics::default();
    ndp(&mut metrics, &figures.ndp);
    descriptors(&mut metrics, &figures.descriptors);
    filters(&mut metrics, &figures.filters);
    slices(&mut metrics, &figures.slices);
    log(&mut metrics, &figures.log);
    pool(&mut metrics, &figures.pool);
    metrics
}

/// The metrics of a Page Store that is a process of its own: bytes sent and received.
pub(super) fn network((sent, received): (u64, u64)) -> Metrics {
    let mut metrics = Metrics::default();
    metrics
        .section("Network")
        .counter(
            "perigee_page_store_received_bytes_total",
            "Bytes received from frontends",
            received,
        )
        .counter(
            "perigee_page_store_sent_bytes_total",
            "Bytes sent to frontends",
            sent,
        );
    metrics
}

fn ndp(metrics: &mut Metrics, ndp: &NdpFigures) {
    metrics
        .section("Near-data processing")
        .counter(
            "perigee_page_store_ndp_requests_total",
            "NDP batch reads received",
            ndp.requests,
        )
        .counter(
            "perigee_page_store_ndp_pages_reduced_total",
            "Pages reduced",
            ndp.pages_reduced,
        )
        .counters(
            "perigee_page_store_ndp_pages_declined_total",
            "Pages returned as they are",
            &["reason"],
            DECLINE_REASONS.into_iter().zip(ndp.pages_declined),
        )
        .counter(
            "perigee_page_store_ndp_read_bytes_total",
            "Bytes of pages gone through",
            ndp.bytes_read,
        )
        .counter(
            "perigee_page_store_ndp_shipped_bytes_total",
            "Bytes of results and declined pages",
            ndp.bytes_shipped,
        )
        .counter(
            "perigee_page_store_ndp_cpu_seconds_total",
            "CPU time of reducing pages",
            ndp.cpu,
        )
        .gauge(
            "perigee_page_store_ndp_jobs",
            "NDP batch reads under way",
            ndp.jobs,
        )
        .gauge(
            "perigee_page_store_ndp_queued_chunks",
            "Chunks of pages that wait for a thread",
            ndp.queued_chunks,
        )
        .gauge(
            "perigee_page_store_ndp_queue_limit_chunks",
            "Chunks of pages that may wait; beyond it pages are declined",
            ndp.queue_limit,
        )
        .gauge(
            "perigee_page_store_ndp_threads_at_work",
            "NDP threads at work",
            ndp.threads_at_work,
        )
        .gauge("perigee_page_store_ndp_threads", "NDP threads", ndp.threads)
        .gauge(
            "perigee_page_store_ndp_group_memory_bytes",
            "Memory that groups of aggregations take",
            ndp.group_bytes,
        );
}

fn descriptors(metrics: &mut Metrics, descriptors: &DescriptorFigures) {
    metrics
        .section("Descriptor cache")
        .counter(
            "perigee_page_store_descriptor_hits_total",
            "Requests whose descriptor was known",
            descriptors.hits,
        )
        .counter(
            "perigee_page_store_descriptor_misses_total",
            "Descriptors that were not known: decoded, checked and compiled",
            descriptors.misses,
        )
        .counter(
            "perigee_page_store_descriptor_refused_total",
            "Those of them that were found wanting",
            descriptors.refused,
        )
        .counter(
            "perigee_page_store_descriptor_miss_seconds_total",
            "Time that decoding and compiling took",
            descriptors.miss_time,
        )
        .counter(
            "perigee_page_store_descriptor_hit_seconds_total",
            "Time that looking up known descriptors took",
            descriptors.hit_time,
        )
        .counter(
            "perigee_page_store_descriptor_evictions_total",
            "Descriptors that made room for others",
            descriptors.evictions,
        )
        .gauge(
            "perigee_page_store_descriptor_entries",
            "Descriptors that are known",
            descriptors.entries,
        )
        .gauge(
            "perigee_page_store_descriptor_memory_bytes",
            "Memory they take, about",
            descriptors.bytes,
        );
}

fn filters(metrics: &mut Metrics, filters: &FilterFigures) {
    metrics
        .section("Filter cache")
        .counter(
            "perigee_page_store_filter_hits_total",
            "Run-time filters of requests that were known",
            filters.hits,
        )
        .counter(
            "perigee_page_store_filter_misses_total",
            "Filters that came with their content and were decoded",
            filters.misses,
        )
        .counter(
            "perigee_page_store_filter_missing_total",
            "Filters that requests named and that were not there",
            filters.missing,
        )
        .counter(
            "perigee_page_store_filter_refused_total",
            "Filters that were found wanting",
            filters.refused,
        )
        .counter(
            "perigee_page_store_filter_evictions_total",
            "Filters that made room for others",
            filters.evictions,
        )
        .gauge(
            "perigee_page_store_filter_entries",
            "Filters that are known",
            filters.entries,
        )
        .gauge(
            "perigee_page_store_filter_memory_bytes",
            "Memory they take, about",
            filters.bytes,
        );
}

fn slices(metrics: &mut Metrics, slices: &[SliceFigures]) {
    metrics.section("Slices");
    let mut gauge = |name, help, value: fn(&SliceFigures) -> u64| {
        let of_one = |slice: &SliceFigures| {
            let labels = [slice.key.db.0, slice.key.slice.0];
            let labels = labels.map(|number| number.to_string()).to_vec();
            (labels, Value::Integer(value(slice)))
        };
        let labels = &["db", "slice"];
        metrics.add(name, help, Kind::Gauge, labels, slices.iter().map(of_one));
    };
    gauge(
        "perigee_page_store_slice_persistent_lsn",
        "Slice persistent LSN: everything up to it is on disk",
        |s| s.status.persistent_lsn.0,
    );
    gauge(
        "perigee_page_store_slice_consolidated_lsn",
        "Everything up to it is in page versions",
        |s| s.status.consolidated_lsn.0,
    );
    gauge(
        "perigee_page_store_slice_recycle_lsn",
        "Recycle LSN: older versions may be dropped",
        |s| s.recycle_lsn.0,
    );
    gauge(
        "perigee_page_store_slice_backlog_bytes",
        "Log that waits for consolidation",
        |s| s.status.backlog_bytes,
    );
    gauge(
        "perigee_page_store_slice_pages",
        "Pages with a version on disk",
        |s| s.pages,
    );
    gauge(
        "perigee_page_store_slice_versions",
        "Page versions on disk",
        |s| s.versions,
    );
    gauge(
        "perigee_page_store_slice_live_bytes",
        "Bytes of the newest version of every page",
        |s| s.live_bytes,
    );
    gauge(
        "perigee_page_store_slice_disk_bytes",
        "Bytes of its files",
        |s| s.disk_bytes,
    );
    gauge(
        "perigee_page_store_slice_damaged",
        "1 if the slice is not served because its files are damaged",
        |s| u64::from(s.damaged),
    );
}

fn log(metrics: &mut Metrics, log: &LogFigures) {
    metrics
        .section("Log and page versions")
        .counter(
            "perigee_page_store_log_fragments_total",
            "Fragments of log written",
            log.fragments,
        )
        .counter(
            "perigee_page_store_log_bytes_total",
            "Bytes of log written",
            log.bytes,
        )
        .counter(
            "perigee_page_store_consolidated_fragments_total",
            "Fragments of log whose changes are in page versions",
            log.consolidated_fragments,
        )
        .counter(
            "perigee_page_store_versions_written_total",
            "Page versions written by consolidation",
            log.versions_written,
        )
        .gauge(
            "perigee_page_store_backlog_bytes",
            "Log that waits for consolidation",
            log.backlog_bytes,
        )
        .counter(
            "perigee_page_store_pages_read_total",
            "Pages read as they are, declined ones among them",
            log.pages_read,
        );
}

fn pool(metrics: &mut Metrics, pool: &PoolFigures) {
    metrics
        .section("Pool of page versions")
        .counter(
            "perigee_page_store_pool_hits_total",
            "Page versions found in memory",
            pool.hits,
        )
        .counter(
            "perigee_page_store_pool_misses_total",
            "Page versions not found in memory",
            pool.misses,
        )
        .gauge(
            "perigee_page_store_pool_bytes",
            "Memory that page versions take",
            pool.bytes,
        )
        .gauge(
            "perigee_page_store_pool_capacity_bytes",
            "Memory that page versions may take",
            pool.capacity_bytes,
        );
}
