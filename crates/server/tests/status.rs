//! What processes show of themselves over HTTP, against what clients are told and what was done.
#![allow(clippy::unwrap_used, reason = "test code")]

mod support;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use perigee_testkit::Exposition;
use perigee_workload::{Client, Cluster, Embedded};
use support::{args, binary, cluster, options};
use tempfile::TempDir;

/// How long something may take that happens at once.
const PATIENCE: Duration = Duration::from_secs(30);

/// Where a process of a cluster in `dir` says that it shows its status.
fn shown_at(dir: &Path, name: &str) -> SocketAddr {
    let log = std::fs::read_to_string(dir.join(format!("{name}.log"))).unwrap();
    address_in(&log).unwrap_or_else(|| panic!("{name} shows nothing:\n{log}"))
}

/// The address that a log says the status is shown at, the last time it does.
fn address_in(log: &str) -> Option<SocketAddr> {
    let (_, after) = log.rsplit_once("shows its status at http://")?;
    after.split('/').next()?.parse().ok()
}

/// What is answered to some bytes: status and body.
fn answer(address: SocketAddr, request: &[u8]) -> (u16, String) {
    let mut socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    // It may be refused before all is sent.
    let _ = socket.write_all(request);
    let mut answer = Vec::new();
    let _ = socket.read_to_end(&mut answer);
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.split(' ').nth(1).unwrap_or("0").parse().unwrap();
    (status, body.to_owned())
}

fn get(address: SocketAddr, path: &str) -> (u16, String) {
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    answer(address, request.as_bytes())
}

fn metrics(address: SocketAddr) -> Exposition {
    let (status, body) = get(address, "/metrics");
    assert_eq!(status, 200, "{body}");
    Exposition::parse(&body).unwrap_or_else(|why| panic!("{why}\n{body}"))
}

/// One figure without labels.
fn figure(metrics: &Exposition, name: &str) -> f64 {
    let found = metrics.get(name, &[]);
    found.unwrap_or_else(|| panic!("{name} is not there once"))
}

/// What holds of every process: title of its page, its role, the beginnings of its own metrics' names.
fn check_process(address: SocketAddr, title: &str, role: &str, prefixes: &[&str]) {
    let (status, page) = get(address, "/");
    assert_eq!(status, 200);
    assert!(
        page.contains(&format!("<h1>Perigee {title}</h1>")),
        "{page}"
    );
    assert_eq!(get(address, "/healthz"), (200, "ok\n".to_owned()));
    assert_eq!(get(address, "/other").0, 404);
    let posted = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi";
    assert_eq!(answer(address, posted).0, 405);
    assert_ne!(answer(address, b"\0\xff nonsense\r\n\r\n").0, 200);
    let long = [b"GET / HTTP/1.1\r\nA: ", "a".repeat(1 << 20).as_bytes()].concat();
    assert_ne!(answer(address, &long).0, 200);
    let metrics = metrics(address);
    let role = [("role", role), ("version", env!("CARGO_PKG_VERSION"))];
    assert_eq!(metrics.get("perigee_build_info", &role), Some(1.0));
    assert!(figure(&metrics, "process_cpu_seconds_total") > 0.0);
    for name in metrics.types.keys() {
        let known = prefixes.iter().any(|prefix| name.starts_with(prefix));
        let common = name.starts_with("process_") || name == "perigee_build_info";
        assert!(known || common, "{name}");
    }
    for prefix in prefixes {
        let own = metrics.types.keys().filter(|name| name.starts_with(prefix));
        assert!(own.count() > 10, "{prefix}");
    }
    // Page and metrics are of one list: every figure without labels has its line on the page.
    for name in metrics.types.keys() {
        if metrics.get(name, &[]).is_some() && name != "perigee_build_info" {
            let there = page.contains(&format!("<tr title=\"{name}\">"));
            let labelled = metrics
                .samples
                .keys()
                .any(|(own, l)| own == name && !l.is_empty());
            assert!(there || labelled, "{name} is not on the page");
        }
    }
}

#[test]
fn every_process_shows_what_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let _cluster = cluster(dir.path(), 2, &[]);
    let at = |name| shown_at(dir.path(), name);
    let log = ["perigee_log_store_"];
    check_process(at("log-store"), "Log Store", "log-store", &log);
    let pages = ["perigee_page_store_"];
    for name in ["page-store-0", "page-store-1"] {
        check_process(at(name), "Page Store", "page-store", &pages);
    }
    let frontend = ["perigee_frontend_"];
    check_process(at("frontend"), "Frontend", "frontend", &frontend);
    // Both stores have pages of the database, and the frontend knows what they have.
    let slices = metrics(at("frontend"));
    let own = "perigee_frontend_slice_persistent_lsn";
    for (store, name) in ["page-store-0", "page-store-1"].into_iter().enumerate() {
        let metrics = metrics(at(name));
        let lsn = "perigee_page_store_slice_persistent_lsn";
        let there = metrics.samples.keys().filter(|(name, _)| name == lsn);
        let number = store.to_string();
        let known = slices.samples.keys().filter(|(name, labels)| {
            name == own && labels.get("store").is_some_and(|store| *store == number)
        });
        assert_eq!(there.count(), known.count(), "{name}");
    }
}

#[test]
fn one_process_shows_all_of_its_roles_on_one_page() {
    let dir = tempfile::tempdir().unwrap();
    let _server = Embedded::start(&binary(), dir.path(), &[]).unwrap();
    let roles = [
        "perigee_frontend_",
        "perigee_page_store_",
        "perigee_log_store_",
    ];
    let address = shown_at(dir.path(), "serve");
    let title = "frontend, Page Store and Log Store";
    check_process(address, title, "serve", &roles);
    let (_, page) = get(address, "/?refresh=5");
    for role in ["Frontend", "Page Store", "Log Store", "Process"] {
        assert!(page.contains(&format!("<h2>{role}</h2>")), "{role}");
    }
    for section in ["Slices", "Near-data processing", "Appends", "Buffer pool"] {
        assert!(page.contains(&format!("<h3>{section}</h3>")), "{section}");
    }
    assert!(page.contains("http-equiv=\"refresh\""));
}

/// Rows of the table of these tests: some hundred pages.
const ROWS: u32 = 20_000;

async fn make_table(client: &mut Client) {
    client.execute("CREATE DATABASE s").await.unwrap();
    client
        .execute("CREATE TABLE s.t (id INT PRIMARY KEY, v INT NOT NULL, pad VARCHAR(200))")
        .await
        .unwrap();
    let ids: Vec<u32> = (0..ROWS).collect();
    for ids in ids.chunks(2000) {
        let pad = "x".repeat(120);
        let rows = ids.iter().map(|id| format!("({id},{},'{pad}')", id % 100));
        let rows: Vec<_> = rows.collect();
        let insert = format!("INSERT INTO s.t VALUES {}", rows.join(","));
        client.execute(&insert).await.unwrap();
    }
}

const QUERY: &str = "SELECT SUM(v) FROM s.t WHERE v < 10";

/// Runs the query with near-data processing, and checks its answer. When this returns, all it did is
/// counted.
async fn scan(client: &mut Client) {
    client.execute("SET ndp_min_pages = 0").await.unwrap();
    let sum = client.number(QUERY).await.unwrap();
    assert_eq!(sum as u32, ROWS / 100 * 45);
    // The statement before is over when this one begins.
    client.query("SELECT 1").await.unwrap();
}

/// A cluster with the table, whose frontend has none of it in memory and has counted nothing; storage
/// declines every tenth page.
async fn fresh(frontend_args: &[&str]) -> (TempDir, Cluster) {
    let dir = tempfile::tempdir().unwrap();
    let mut options = options(dir.path(), 2, frontend_args);
    // Several slices, so that both stores have pages of the table.
    // Also after a restart, when the port to serve on is chosen.
    let status = ["--status-listen", "127.0.0.1:0", "--slice-size", "1MiB"];
    options.frontend_args.extend(args(&status));
    options.page_store_args = args(&["--decline-every", "10"]);
    let mut cluster = Cluster::start(options).unwrap();
    let mut client = cluster.client(None).await.unwrap();
    make_table(&mut client).await;
    client.close().await.unwrap();
    let args = cluster.frontend_args().to_vec();
    cluster.restart_frontend_with(args).unwrap();
    (dir, cluster)
}

/// Both ends count the same work, each what it knows of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_work_of_a_scan_is_counted_at_both_ends() {
    let (dir, cluster) = fresh(&[]).await;
    let mut client = cluster.client(None).await.unwrap();
    scan(&mut client).await;
    let frontend = metrics(shown_at(dir.path(), "frontend"));
    let stores = ["page-store-0", "page-store-1"].map(|name| metrics(shown_at(dir.path(), name)));
    let of = |name: &str| figure(&frontend, &format!("perigee_frontend_{name}"));
    let stored = |name: &str| -> f64 {
        let each = stores.iter().map(|metrics| {
            let value = figure(metrics, &format!("perigee_page_store_{name}"));
            assert!(value > 0.0, "{name}");
            value
        });
        each.sum()
    };
    assert_eq!(of("ndp_scans_total"), 1.0);
    let (pushed, reduced) = (
        of("ndp_pages_pushed_total"),
        stored("ndp_pages_reduced_total"),
    );
    assert!(pushed > 100.0, "{pushed}");
    assert_eq!(pushed, reduced);
    assert_eq!(of("ndp_pages_compiled_total"), pushed);
    let declined = |metrics: &Exposition, role: &str, reason: &str| {
        let name = format!("perigee_{role}_ndp_pages_declined_total");
        metrics.get(&name, &[("reason", reason)]).unwrap()
    };
    for reason in ["descriptor", "busy", "page", "forced"] {
        let at_stores: f64 = stores
            .iter()
            .map(|metrics| declined(metrics, "page_store", reason))
            .sum();
        let at_frontend = declined(&frontend, "frontend", reason);
        assert_eq!(at_frontend, at_stores, "{reason}");
        // Each store declines the tenth, the twentieth and so on of each request.
        let share = at_frontend / (pushed + at_frontend);
        let is_forced = reason == "forced";
        assert_eq!(
            is_forced,
            (0.05..=0.1).contains(&share),
            "{reason}: {share}"
        );
    }
    assert_eq!(
        of("ndp_storage_read_bytes_total"),
        stored("ndp_read_bytes_total")
    );
    assert_eq!(of("scan_pages_read_total"), 0.0);
    assert_eq!(
        of("scan_shipped_bytes_total"),
        stored("ndp_shipped_bytes_total")
    );
    let (cpu, stores_cpu) = (
        of("ndp_storage_cpu_seconds_total"),
        stored("ndp_cpu_seconds_total"),
    );
    assert!((cpu - stores_cpu).abs() < 1e-6, "{cpu} {stores_cpu}");
    assert!(of("scan_cpu_seconds_total") > 0.0);
    assert!(stored("ndp_requests_total") >= 2.0);
    assert_eq!(stored("descriptor_entries"), 2.0, "one in each store");
    // Requests that come at the same time may each find that it is not there yet.
    assert!(stored("descriptor_misses_total") >= 2.0);
    assert!(stored("descriptor_miss_seconds_total") > 0.0);
    // What crossed the sockets is more than what is in the messages.
    let name = "perigee_frontend_page_store_received_bytes_total";
    assert!(frontend.sum(name, &[]) > of("scan_shipped_bytes_total"));
    let sent = stored("sent_bytes_total");
    assert!(sent >= frontend.sum(name, &[]), "{sent}");

    // SHOW STATUS and EXPLAIN ANALYZE are of the same counters.
    for (name, metric) in [
        ("ndp_pages_pushed", "ndp_pages_pushed_total"),
        ("ndp_ambiguous_records", "ndp_ambiguous_records_total"),
        ("ndp_bytes_shipped", "scan_shipped_bytes_total"),
        ("ndp_scans", "ndp_scans_total"),
    ] {
        let show = format!("SHOW GLOBAL STATUS LIKE '{name}'");
        assert_eq!(client.number(&show).await.unwrap(), of(metric), "{name}");
    }
    client.close().await.unwrap();
}

/// Scans that keep the Page Stores busy for seconds, page by page: work stops between pages, and none
/// of these takes long.
fn long_query() -> String {
    let scan = |n| format!("SELECT COUNT(*) AS n FROM s.t WHERE pad LIKE '%{n}x%{n}%'");
    let scans: Vec<_> = (0..200).map(scan).collect();
    format!("SELECT SUM(n) FROM ({}) u", scans.join(" UNION ALL "))
}

/// NDP batch reads under way in both Page Stores, and the pages that they have reduced so far.
fn work(dir: &Path) -> (f64, f64) {
    let of = |name| {
        let metrics = metrics(shown_at(dir, name));
        let of = |name: &str| figure(&metrics, &format!("perigee_page_store_{name}"));
        (of("ndp_jobs"), of("ndp_pages_reduced_total"))
    };
    let (one, other) = (of("page-store-0"), of("page-store-1"));
    (one.0 + other.0, one.1 + other.1)
}

/// Work that has not begun again for so long has ended.
const QUIET: Duration = Duration::from_millis(500);

/// How long Page Stores work on after a client says KILL QUERY.
async fn stopping(dir: &Path, client: &mut Client, mut victim: Client) -> (Duration, Client) {
    let id = victim.number("SELECT CONNECTION_ID()").await.unwrap();
    let running = tokio::spawn(async move {
        let result = victim.query(&long_query()).await;
        (victim, result)
    });
    let deadline = Instant::now() + PATIENCE;
    while work(dir).0 == 0.0 {
        assert!(Instant::now() < deadline, "no scan begins");
    }
    let begin = Instant::now();
    client.execute(&format!("KILL QUERY {id}")).await.unwrap();
    // Between two scans there is no work either: it has ended when there is none for a while.
    let (mut last, mut reduced) = (begin, work(dir).1);
    while last.elapsed() < QUIET {
        assert!(Instant::now() < deadline, "scans go on");
        let now = work(dir);
        if now != (0.0, reduced) {
            (last, reduced) = (Instant::now(), now.1);
        }
    }
    let took = last - begin;
    let (victim, result) = running.await.unwrap();
    let error = result.unwrap_err().to_string();
    assert!(error.contains("1317"), "{error}");
    (took, victim)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_reaches_the_page_stores_within_100_ms() {
    let (dir, cluster) = fresh(&[]).await;
    let mut client = cluster.client(None).await.unwrap();
    let mut victim = cluster.client(None).await.unwrap();
    victim.execute("SET ndp_min_pages = 0").await.unwrap();
    let mut times = Vec::new();
    for _ in 0..5 {
        let (took, again) = stopping(dir.path(), &mut client, victim).await;
        times.push(took);
        victim = again;
    }
    println!("work went on for {times:?}");
    // Beside other tests it takes longer by what these do meanwhile, and by what asking takes. If the store
    // did not hear of it, each would take as long as the query does.
    times.sort_unstable();
    assert!(times[1] < Duration::from_millis(100), "{times:?}");
}

/// Values of the counters that EXPLAIN ANALYZE shows.
async fn analyzed(client: &mut Client) -> impl Fn(&str) -> u64 + use<> {
    let rows = client.query(&format!("EXPLAIN ANALYZE {QUERY}")).await;
    let text = rows.unwrap()[0][0].clone().unwrap();
    move |name| {
        let line = text.lines().find_map(|line| {
            let line = line.trim().strip_prefix(name)?;
            line.strip_prefix(": ")?.parse().ok()
        });
        line.unwrap_or_else(|| panic!("no {name} in\n{text}"))
    }
}

/// All that an access did is told of each query.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_tells_what_its_access_did() {
    let (_dir, cluster) = fresh(&["--all-ambiguous"]).await;
    let mut client = cluster.client(None).await.unwrap();
    client.execute("SET ndp_min_pages = 0").await.unwrap();
    let value = analyzed(&mut client).await;
    let asked = value("pages_pushed") + value("pages_declined_forced");
    let total = asked + value("pages_from_pool");
    assert!(value("pages_pushed") > 100 && value("pages_declined_forced") > 10);
    for reason in ["descriptor", "busy", "page"] {
        assert_eq!(value(&format!("pages_declined_{reason}")), 0, "{reason}");
    }
    assert_eq!(value("bytes_read_in_storage"), asked * 16_384);
    // Storage decided on no record.
    assert!(value("ambiguous_records") > u64::from(ROWS) * 8 / 10);
    assert!(value("bytes_shipped") > value("pages_declined_forced") * 16_384);
    for clock in ["storage_cpu_nanos", "frontend_cpu_nanos"] {
        let nanos = value(clock);
        assert!((1_000..60_000_000_000).contains(&nanos), "{clock}: {nanos}");
    }
    // A plain scan brings the pages into the buffer pool; then they come from there.
    client.execute("SET ndp_mode = OFF").await.unwrap();
    assert_eq!(client.number(QUERY).await.unwrap() as u32, ROWS / 100 * 45);
    client.execute("SET ndp_mode = ON").await.unwrap();
    let value = analyzed(&mut client).await;
    assert_eq!(
        (value("pages_pushed"), value("pages_from_pool")),
        (0, total)
    );
    assert_eq!((value("storage_cpu_nanos"), value("bytes_shipped")), (0, 0));
    assert!(value("frontend_cpu_nanos") > 0);
    client.close().await.unwrap();
}

/// SHOW STATUS shows the session's own scans, and those of all with GLOBAL.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_sees_its_own_scans() {
    let (_dir, cluster) = fresh(&[]).await;
    let mut first = cluster.client(None).await.unwrap();
    let mut second = cluster.client(None).await.unwrap();
    scan(&mut first).await;
    let own = "SHOW STATUS LIKE 'ndp_pages_pushed'";
    let all = "SHOW GLOBAL STATUS LIKE 'ndp_pages_pushed'";
    let pushed = first.number(own).await.unwrap();
    assert!(pushed > 100.0, "{pushed}");
    assert_eq!(second.number(own).await.unwrap(), 0.0);
    scan(&mut second).await;
    let again = second.number(own).await.unwrap();
    assert!(again > 100.0, "{again}");
    assert_eq!(first.number(own).await.unwrap(), pushed);
    for client in [&mut first, &mut second] {
        assert_eq!(client.number(all).await.unwrap(), pushed + again);
    }
}

/// The difference that some work makes to a figure of a process.
struct Watched {
    address: SocketAddr,
    before: Exposition,
}

impl Watched {
    fn new(address: SocketAddr) -> Self {
        let before = metrics(address);
        Self { address, before }
    }

    fn grown(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let now = metrics(self.address).get(name, labels).unwrap();
        now - self.before.get(name, labels).unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_transactions_and_log_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let server = Embedded::start(&binary(), dir.path(), &[]).unwrap();
    let mut client = server.client(None).await.unwrap();
    make_table(&mut client).await;
    let watched = Watched::new(shown_at(dir.path(), "serve"));
    for statement in [
        "BEGIN",
        "UPDATE s.t SET v = v + 1 WHERE id = 1",
        "UPDATE s.t SET v = v + 1 WHERE id BETWEEN 5 AND 9",
        "COMMIT",
        "INSERT INTO s.t VALUES (-1, 5, 'y')",
        "DELETE FROM s.t WHERE id = -1",
        "BEGIN",
        "REPLACE INTO s.t VALUES (3, 3, 'z')",
        "ROLLBACK",
    ] {
        client.execute(statement).await.unwrap();
    }
    for _ in 0..4 {
        client
            .query("SELECT v FROM s.t WHERE id = 7")
            .await
            .unwrap();
    }
    client
        .query("SELECT COUNT(*) FROM s.t WHERE pad LIKE '%q%'")
        .await
        .unwrap();
    for (kind, times) in [
        ("begin", 2.0),
        ("commit", 1.0),
        ("rollback", 1.0),
        ("update", 2.0),
        ("insert", 1.0),
        ("replace", 1.0),
        ("delete", 1.0),
        ("select", 5.0),
    ] {
        let name = "perigee_frontend_statements_total";
        assert_eq!(watched.grown(name, &[("kind", kind)]), times, "{kind}");
    }
    let shown = client
        .number("SHOW STATUS LIKE 'Com_update'")
        .await
        .unwrap();
    assert_eq!(shown, 2.0);
    let grown = |name: &str| watched.grown(&format!("perigee_{name}"), &[]);
    assert!(grown("frontend_fast_statements_total") >= 4.0);
    assert_eq!(grown("frontend_transactions_committed_total"), 3.0);
    assert_eq!(grown("frontend_transactions_rolled_back_total"), 1.0);
    assert_eq!(grown("frontend_connections_total"), 0.0);
    // Each commit was synced; and what there is of log is made into pages.
    assert!(grown("log_store_appends_total") >= 3.0);
    assert!(grown("log_store_append_bytes_total") > 0.0);
    assert!(grown("log_store_sync_seconds_count") >= 3.0);
    let end = Instant::now() + PATIENCE;
    loop {
        let now = metrics(watched.address);
        let at = |name: &str| figure(&now, &format!("perigee_frontend_{name}"));
        assert!(at("cv_lsn") <= at("durable_lsn") && at("durable_lsn") <= at("last_lsn"));
        let waits = figure(&now, "perigee_page_store_backlog_bytes");
        if waits == 0.0 && at("cv_lsn") == at("last_lsn") {
            let versions = "perigee_page_store_slice_versions";
            assert!(now.sum(versions, &[]) > 100.0);
            let of = |name: &str| figure(&now, &format!("perigee_log_store_{name}"));
            assert_eq!(of("append_seconds_count"), of("appends_total"));
            let log = now.sum("perigee_log_store_db_log_bytes", &[]);
            // What is in the pages may be gone from the log already.
            assert!(log > 0.0, "{log}");
            break;
        }
        assert!(Instant::now() < end, "the Page Store does not catch up");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(grown("page_store_consolidated_fragments_total") > 0.0);
    assert!(grown("page_store_versions_written_total") > 0.0);
    client.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conflicts_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let server = Embedded::start(&binary(), dir.path(), &[]).unwrap();
    let mut first = server.client(None).await.unwrap();
    make_table(&mut first).await;
    let mut second = server.client(None).await.unwrap();
    for client in [&mut first, &mut second] {
        client
            .execute("SET SESSION innodb_lock_wait_timeout = 1")
            .await
            .unwrap();
    }
    let watched = Watched::new(shown_at(dir.path(), "serve"));
    let grown = |name: &str| watched.grown(&format!("perigee_frontend_{name}"), &[]);
    let lock = |id: u32| format!("SELECT v FROM s.t WHERE id = {id} FOR UPDATE");
    first.execute("BEGIN").await.unwrap();
    first.query(&lock(1)).await.unwrap();
    assert_eq!(grown("transactions_active"), 1.0);
    let late = second.query(&lock(1)).await.unwrap_err().to_string();
    assert!(late.contains("1205"), "{late}");
    let waits = grown("lock_waits_total");
    assert!(waits >= 1.0);
    assert_eq!(grown("lock_timeouts_total"), 1.0);
    assert_eq!(grown("deadlocks_total"), 0.0);
    second.execute("BEGIN").await.unwrap();
    second.query(&lock(2)).await.unwrap();
    // The second waits for the first, which then would wait for the second.
    let text = lock(1);
    let waiting = tokio::spawn(async move {
        let outcome = second.query(&text).await;
        (second, outcome)
    });
    let end = Instant::now() + PATIENCE;
    while grown("lock_waits_total") <= waits {
        assert!(Instant::now() < end, "nobody waits");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let refused = first.query(&lock(2)).await;
    let (second, waited) = waiting.await.unwrap();
    let errors = [refused, waited].map(|outcome| outcome.err().map(|e| e.to_string()));
    let deadlock = errors.iter().flatten().any(|e| e.contains("1213"));
    assert!(deadlock, "{errors:?}");
    assert_eq!(grown("deadlocks_total"), 1.0);
    drop((first, second));
}

/// A process that is killed in the end.
struct Process {
    child: Child,
    dir: TempDir,
}

impl Process {
    fn start(arguments: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let log = std::fs::File::create(dir.path().join("log")).unwrap();
        let child = Command::new(binary())
            .args(arguments)
            .args(["--data", "data", "--ready-file", "ready"])
            .current_dir(dir.path())
            .env_remove("PERIGEE_LOG")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        Self { child, dir }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log")).unwrap()
    }

    /// Waits until it serves; gives its log.
    fn ready(&mut self) -> String {
        let end = Instant::now() + PATIENCE;
        while !self.dir.path().join("ready").exists() {
            let ended = self.child.try_wait().unwrap();
            assert!(ended.is_none(), "{}", self.log());
            assert!(Instant::now() < end, "{}", self.log());
            std::thread::sleep(Duration::from_millis(5));
        }
        self.log()
    }

    /// Waits for it to refuse to start; gives its log.
    fn refusal(&mut self) -> String {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                assert_eq!(status.code(), Some(1), "{}", self.log());
                return self.log();
            }
            assert!(Instant::now() < end, "{}", self.log());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A free port for which that of the status is free too, and a socket that keeps the latter.
fn pair_of_ports() -> (u16, TcpListener) {
    loop {
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        let above = port.checked_add(1000);
        let taken = above.and_then(|port| TcpListener::bind(("127.0.0.1", port)).ok());
        if let Some(taken) = taken {
            return (port, taken);
        }
    }
}

#[test]
fn where_the_status_is_shown_is_for_the_operator_to_say() {
    for role in ["serve", "log-store", "page-store"] {
        // An address that was asked for must be free.
        let (port, taken) = pair_of_ports();
        let address = taken.local_addr().unwrap().to_string();
        let listen = format!("127.0.0.1:{port}");
        let arguments = [role, "--listen", &listen, "--status-listen", &address];
        let refusal = Process::start(&arguments).refusal();
        let wanted = format!(
            "{address} is in use by another process; stop it or choose another address with \
             --status-listen"
        );
        assert!(refusal.contains(&wanted), "{role}: {refusal}");
        // One that was not asked for need not be.
        let log = Process::start(&[role, "--listen", &listen]).ready();
        assert!(
            log.contains("no status page") && log.contains(&address),
            "{log}"
        );
        assert_eq!(address_in(&log), None);
        drop(taken);
        let mut process = Process::start(&[role, "--listen", &listen]);
        let shown = address_in(&process.ready());
        assert_eq!(shown.map(|a| a.to_string()), Some(address), "{role}");
        assert_eq!(get(shown.unwrap(), "/healthz").0, 200);
        drop(process);
        let arguments = [role, "--listen", "127.0.0.1:0", "--status-listen", "off"];
        let log = Process::start(&arguments).ready();
        assert!(!log.contains("status"), "{log}");
        let arguments = [
            role,
            "--listen",
            "127.0.0.1:0",
            "--status-listen",
            "[::1]:0",
        ];
        let mut process = Process::start(&arguments);
        let shown = address_in(&process.ready()).unwrap();
        assert!(shown.is_ipv6() && get(shown, "/").0 == 200);
    }
}

/// Clients who take all the places there are, and send nothing, keep nobody from working.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_lookers_do_not_keep_the_process_from_work() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Embedded::start(&binary(), dir.path(), &[]).unwrap();
    let address = shown_at(dir.path(), "serve");
    let idle: Vec<_> = (0..100)
        .map(|_| TcpStream::connect(address).unwrap())
        .collect();
    let mut client = server.client(None).await.unwrap();
    let begin = Instant::now();
    for n in 0..100 {
        let answer = client.number(&format!("SELECT {n}")).await.unwrap();
        assert_eq!(answer as u32, n);
    }
    assert!(begin.elapsed() < Duration::from_secs(10));
    client.close().await.unwrap();
    // Nor from ending.
    let begin = Instant::now();
    tokio::task::block_in_place(|| server.stop()).unwrap();
    assert!(begin.elapsed() < Duration::from_secs(10));
    drop(idle);
}
