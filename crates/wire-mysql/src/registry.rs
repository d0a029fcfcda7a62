//! Who is connected and what each runs: the source of SHOW PROCESSLIST and of the server's
//! counters, and the way KILL reaches a statement in another connection.
//!
//! Invariants
//! - An id names one connection at a time and is not given again while that one lives.
//! - A connection's entry goes with its [`Registration`], also when its task panics.
//! - Who has logged in has a seat, of which there are so many; who has not is one of the unfinished
//!   logins, which have a bound of their own.
//! - KILL QUERY reaches only a statement that runs at that moment: each statement has a token of
//!   its own. KILL of a connection also reaches the statement that is just about to begin.
//!
//! Locks: the map's, then an entry's; neither is held across an await.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::Mutex;

use crate::cancel::{CancelReason, CancelToken};
use crate::unfinished::{Place, Unfinished};

/// Most bytes of a statement that a list shows; a bulk INSERT may have millions.
const MAX_SHOWN: usize = 16 * 1024;

/// What SHOW PROCESSLIST shows of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessInfo {
    /// The connection's id.
    pub id: u32,
    /// The user, once logged in.
    pub user: Option<String>,
    /// The client's address.
    pub peer: SocketAddr,
    /// The current database.
    pub database: Option<String>,
    /// MySQL's word for what it does: `Sleep`, `Query`, `Connect` and so on.
    pub command: &'static str,
    /// How long it has been doing that.
    pub elapsed: Duration,
    /// `Killed` once it was told to stop, else what the session says.
    pub state: String,
    /// The text of the statement that runs, its first 16 KiB at most.
    pub statement: Option<String>,
}

/// Numbers that grow while the server runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Connections accepted, refused ones among them (`Connections`).
    pub connections: u64,
    /// Connections that failed to log in (`Aborted_connects`).
    pub aborted_connects: u64,
    /// Connections that ended without COM_QUIT (`Aborted_clients`).
    pub aborted_clients: u64,
    /// Connections refused because there were too many.
    pub refused_connections: u64,
    /// Unfinished logins that were ended because there were too many.
    pub crowded_out: u64,
    /// Commands received (`Questions`).
    pub questions: u64,
    /// Bytes read from clients (`Bytes_received`).
    pub bytes_received: u64,
    /// Bytes sent to clients (`Bytes_sent`).
    pub bytes_sent: u64,
}

/// The counters as they are counted.
#[derive(Debug, Default)]
pub(crate) struct LiveCounters {
    pub(crate) connections: AtomicU64,
    pub(crate) aborted_connects: AtomicU64,
    pub(crate) aborted_clients: AtomicU64,
    pub(crate) refused_connections: AtomicU64,
    pub(crate) crowded_out: AtomicU64,
    pub(crate) questions: AtomicU64,
    pub(crate) bytes_received: AtomicU64,
    pub(crate) bytes_sent: AtomicU64,
}

/// Counts something.
pub(crate) fn count(counter: &AtomicU64, n: usize) {
    counter.fetch_add(n as u64, Ordering::Relaxed);
}

/// No connection has the id that KILL names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no connection has the id {0}")]
pub struct NoSuchConnection(pub u32);

/// All connections of a server. Clones are the same registry.
#[derive(Clone, Debug)]
pub struct ConnectionRegistry {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    connections: Mutex<Connections>,
    counters: LiveCounters,
    started: Instant,
}

#[derive(Debug, Default)]
struct Connections {
    entries: BTreeMap<u32, Arc<Entry>>,
    last_id: u32,
    /// Connections that have logged in.
    seated: usize,
    unfinished: Unfinished<CancelToken>,
}

/// One connection.
#[derive(Debug)]
struct Entry {
    id: u32,
    peer: SocketAddr,
    /// Cancelled when the connection is to end.
    kill: CancelToken,
    activity: Mutex<Activity>,
}

#[derive(Debug)]
struct Activity {
    user: Option<String>,
    database: Option<String>,
    command: &'static str,
    since: Instant,
    state: String,
    statement: Option<Bytes>,
    /// The token of the statement that runs.
    token: Option<CancelToken>,
}

impl Default for ConnectionRegistry {
    fn default() -> Self {
        let shared = Shared {
            connections: Mutex::default(),
            counters: LiveCounters::default(),
            started: Instant::now(),
        };
        Self {
            shared: Arc::new(shared),
        }
    }
}

impl ConnectionRegistry {
    /// An empty registry.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of connections (`Threads_connected`).
    #[must_use]
    pub fn len(&self) -> usize {
        self.shared.connections.lock().entries.len()
    }

    /// True if nobody is connected.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How long the server has been running.
    #[must_use]
    pub fn uptime(&self) -> Duration {
        self.shared.started.elapsed()
    }

    /// The counters now.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let live = &self.shared.counters;
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counters {
            connections: get(&live.connections),
            aborted_connects: get(&live.aborted_connects),
            aborted_clients: get(&live.aborted_clients),
            refused_connections: get(&live.refused_connections),
            crowded_out: get(&live.crowded_out),
            questions: get(&live.questions),
            bytes_received: get(&live.bytes_received),
            bytes_sent: get(&live.bytes_sent),
        }
    }

    /// Every connection, in the order of ids.
    #[must_use]
    pub fn list(&self) -> Vec<ProcessInfo> {
        let entries: Vec<_> = self
            .shared
            .connections
            .lock()
            .entries
            .values()
            .cloned()
            .collect();
        entries.iter().map(|entry| entry.info()).collect()
    }

    /// KILL QUERY: tells the statement that runs in connection `id` to stop. Without a statement
    /// nothing happens.
    pub fn kill_query(&self, id: u32) -> Result<(), NoSuchConnection> {
        self.entry(id)?.cancel_statement(CancelReason::KillQuery);
        Ok(())
    }

    /// KILL: ends connection `id`, and the statement it runs.
    pub fn kill_connection(&self, id: u32) -> Result<(), NoSuchConnection> {
        let entry = self.entry(id)?;
        entry.kill.cancel(CancelReason::KillConnection);
        entry.cancel_statement(CancelReason::KillConnection);
        Ok(())
    }

    /// Tells every statement to stop.
    pub(crate) fn cancel_all(&self, reason: CancelReason) {
        let entries: Vec<_> = self
            .shared
            .connections
            .lock()
            .entries
            .values()
            .cloned()
            .collect();
        for entry in entries {
            entry.cancel_statement(reason);
        }
    }

    /// The counters, for counting.
    pub(crate) fn live_counters(&self) -> &LiveCounters {
        &self.shared.counters
    }

    /// A new connection, which has to log in. If more than `most` have to, one of them is told to
    /// go.
    pub(crate) fn register(&self, peer: SocketAddr, most: usize) -> Registration {
        let mut connections = self.shared.connections.lock();
        let id = connections.free_id();
        let entry = Arc::new(Entry {
            id,
            peer,
            kill: CancelToken::new(),
            activity: Mutex::new(Activity {
                user: None,
                database: None,
                command: "Connect",
                since: Instant::now(),
                state: String::new(),
                statement: None,
                token: None,
            }),
        });
        connections.entries.insert(id, Arc::clone(&entry));
        let kill = entry.kill.clone();
        let (place, crowded_out) = connections.unfinished.begin(peer.ip(), kill, most);
        drop(connections);
        if let Some(kill) = crowded_out {
            count(&self.shared.counters.crowded_out, 1);
            kill.cancel(CancelReason::CrowdedOut);
        }
        Registration {
            registry: self.clone(),
            handle: ConnectionHandle { entry },
            login: Some(place),
        }
    }

    fn entry(&self, id: u32) -> Result<Arc<Entry>, NoSuchConnection> {
        let connections = self.shared.connections.lock();
        connections
            .entries
            .get(&id)
            .cloned()
            .ok_or(NoSuchConnection(id))
    }
}

impl Connections {
    /// The next id nobody has; ids wrap, 0 is nobody's.
    fn free_id(&mut self) -> u32 {
        loop {
            self.last_id = self.last_id.wrapping_add(1);
            if self.last_id != 0 && !self.entries.contains_key(&self.last_id) {
                return self.last_id;
            }
        }
    }
}

impl Entry {
    fn info(&self) -> ProcessInfo {
        let activity = self.activity.lock();
        let cancelled = activity
            .token
            .as_ref()
            .is_some_and(CancelToken::is_cancelled);
        let state = if cancelled || self.kill.is_cancelled() {
            "Killed"
        } else {
            &activity.state
        };
        let shown = |bytes: &Bytes| {
            String::from_utf8_lossy(&bytes[..bytes.len().min(MAX_SHOWN)]).into_owned()
        };
        ProcessInfo {
            id: self.id,
            user: activity.user.clone(),
            peer: self.peer,
            database: activity.database.clone(),
            command: activity.command,
            elapsed: activity.since.elapsed(),
            state: state.to_owned(),
            statement: activity.statement.as_ref().map(shown),
        }
    }

    fn cancel_statement(&self, reason: CancelReason) {
        if let Some(token) = &self.activity.lock().token {
            token.cancel(reason);
        }
    }
}

/// A connection's own entry, for the session that serves it.
#[derive(Clone, Debug)]
pub struct ConnectionHandle {
    entry: Arc<Entry>,
}

impl ConnectionHandle {
    /// The connection's id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.entry.id
    }

    /// Says which database is the current one; to be called when a statement (USE) changes it.
    pub fn set_database(&self, database: Option<String>) {
        self.entry.activity.lock().database = database;
    }

    /// Says what the statement does at the moment, for SHOW PROCESSLIST; forgotten at its end.
    pub fn set_state(&self, state: impl Into<String>) {
        self.entry.activity.lock().state = state.into();
    }

    /// Says who logged in.
    pub(crate) fn set_user(&self, user: &str) {
        self.entry.activity.lock().user = Some(user.to_owned());
    }

    /// Cancelled when the connection is to end.
    pub(crate) fn kill_token(&self) -> &CancelToken {
        &self.entry.kill
    }

    /// A command begins; the token tells it to stop.
    pub(crate) fn begin(&self, command: &'static str, statement: Option<Bytes>) -> CancelToken {
        let token = CancelToken::new();
        {
            let mut activity = self.entry.activity.lock();
            activity.command = command;
            activity.since = Instant::now();
            activity.statement = statement;
            activity.token = Some(token.clone());
        }
        // Looked at after the token can be found, so that a KILL in between is not lost.
        if let Some(reason) = self.entry.kill.reason() {
            token.cancel(reason);
        }
        token
    }

    /// The command is done.
    pub(crate) fn end(&self) {
        let mut activity = self.entry.activity.lock();
        activity.command = "Sleep";
        activity.since = Instant::now();
        activity.state.clear();
        activity.statement = None;
        activity.token = None;
    }
}

/// A connection's place in the registry, given up when dropped.
#[derive(Debug)]
pub(crate) struct Registration {
    registry: ConnectionRegistry,
    handle: ConnectionHandle,
    /// Its place among the unfinished logins, until it has a seat.
    login: Option<Place>,
}

impl Registration {
    /// The entry.
    pub(crate) fn handle(&self) -> &ConnectionHandle {
        &self.handle
    }

    /// The client has logged in: gives it one of `seats`, or false if all are taken.
    pub(crate) fn take_seat(&mut self, seats: usize) -> bool {
        let Some(place) = self.login else {
            return true;
        };
        let mut connections = self.registry.shared.connections.lock();
        if connections.seated >= seats {
            return false;
        }
        connections.seated += 1;
        connections.unfinished.end(place);
        self.login = None;
        true
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut connections = self.registry.shared.connections.lock();
        connections.entries.remove(&self.handle.id());
        match self.login {
            Some(place) => connections.unfinished.end(place),
            None => connections.seated -= 1,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn peer() -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], 4000))
    }

    #[test]
    fn ids_are_not_given_twice_and_come_back() {
        let registry = ConnectionRegistry::new();
        let first = registry.register(peer(), 10);
        assert_eq!(first.handle().id(), 1);
        registry.shared.connections.lock().last_id = u32::MAX - 1;
        let last = registry.register(peer(), 10);
        let wrapped = registry.register(peer(), 10);
        assert_eq!((last.handle().id(), wrapped.handle().id()), (u32::MAX, 2));
        drop(first);
        assert_eq!(registry.len(), 2);
        assert_eq!(registry.kill_query(1), Err(NoSuchConnection(1)));
    }

    #[test]
    fn seats_are_for_those_who_have_logged_in() {
        let registry = ConnectionRegistry::new();
        let mut first = registry.register(peer(), 10);
        let mut second = registry.register(peer(), 10);
        assert!(first.take_seat(1) && !second.take_seat(1));
        assert!(first.take_seat(1), "it has one");
        drop(first);
        assert!(second.take_seat(1));
    }

    #[test]
    fn an_unfinished_login_too_many_ends_the_oldest() {
        let registry = ConnectionRegistry::new();
        let mut seated = registry.register(peer(), 1);
        assert!(seated.take_seat(1));
        let old = registry.register(peer(), 1);
        let new = registry.register(peer(), 1);
        let reasons = [&seated, &old, &new].map(|r| r.handle().kill_token().reason());
        assert_eq!(reasons, [None, Some(CancelReason::CrowdedOut), None]);
        assert_eq!(registry.counters().crowded_out, 1);
        drop((old, new, seated));
        assert!(registry.is_empty());
    }

    #[test]
    fn kill_query_reaches_only_the_statement_that_runs() {
        let registry = ConnectionRegistry::new();
        let place = registry.register(peer(), 10);
        registry.kill_query(1).unwrap();
        let token = place.handle().begin("Query", None);
        assert!(!token.is_cancelled(), "an earlier KILL QUERY has no effect");
        registry.kill_query(1).unwrap();
        assert_eq!(token.reason(), Some(CancelReason::KillQuery));
        assert!(!place.handle().kill_token().is_cancelled());
        place.handle().end();
        assert!(!place.handle().begin("Query", None).is_cancelled());
    }

    #[test]
    fn kill_connection_reaches_the_next_statement_too() {
        let registry = ConnectionRegistry::new();
        let place = registry.register(peer(), 10);
        registry.kill_connection(1).unwrap();
        assert!(place.handle().kill_token().is_cancelled());
        let token = place.handle().begin("Query", None);
        assert_eq!(token.reason(), Some(CancelReason::KillConnection));
    }

    #[test]
    fn the_list_tells_what_each_connection_does() {
        let registry = ConnectionRegistry::new();
        let place = registry.register(peer(), 10);
        let handle = place.handle();
        assert_eq!(registry.list()[0].command, "Connect");
        handle.set_user("root");
        handle.set_database(Some("tpch".into()));
        let _token = handle.begin("Query", Some("SELECT 1".into()));
        handle.set_state("scanning");
        let info = registry.list().remove(0);
        assert_eq!(
            (info.id, info.command, info.state.as_str()),
            (1, "Query", "scanning")
        );
        assert_eq!(info.statement.as_deref(), Some("SELECT 1"));
        assert_eq!(
            (info.user.as_deref(), info.database.as_deref()),
            (Some("root"), Some("tpch"))
        );
        registry.kill_query(1).unwrap();
        assert_eq!(registry.list()[0].state, "Killed");
        handle.end();
        let info = registry.list().remove(0);
        assert_eq!(
            (info.command, info.state.as_str(), info.statement),
            ("Sleep", "", None)
        );
    }
}
