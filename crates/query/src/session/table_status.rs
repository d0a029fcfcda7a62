//! What SHOW lists besides definitions: counters, indexes, table status, connections, and the
//! constants of a server (engines, collations, character sets).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use perigee_catalog_views::describe::{self, ENGINE, ENGINE_COMMENT, KeyPart, Size};
use perigee_engine::catalog::{Table, ViewDef};

use super::Session;
use super::money::Prices;
use super::rowset::{Rowset, text};
use super::show::number;
use perigee_value::{Charset, Collation};

use crate::error::Result;
use crate::parse::{Filter, Scope};

/// The session layer's counters, those of scans and of what was decided for table
/// accesses, and the source's. Those of scans and accesses are the session's own, or with GLOBAL those
/// of all; the others are the process's.
async fn counters(session: &Session, scope: Scope) -> Vec<(String, u64)> {
    let frontend = &session.frontend;
    let connections = session.info.connections.list();
    let running = connections.iter().filter(|c| c.command == "Query").count();
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let mut all: Vec<(String, u64)> = vec![
        (
            "perigee_fast_statements".to_owned(),
            count(&frontend.fast_statements),
        ),
        (
            "perigee_history_length".to_owned(),
            frontend.engine.history_length() as u64,
        ),
        ("Questions".to_owned(), count(&frontend.questions)),
        ("Threads_connected".to_owned(), connections.len() as u64),
        ("Threads_running".to_owned(), running as u64),
        ("Uptime".to_owned(), frontend.started.elapsed().as_secs()),
    ];
    let ndp = match scope {
        Scope::Global => &frontend.ndp_counters,
        Scope::Session | Scope::NextTransaction => &session.ndp_counters,
    };
    all.extend(ndp.iter().map(|(name, value)| (name.to_owned(), value)));
    let (by_statements, in_background) = frontend.engine.analyses();
    all.push(("perigee_tables_analyzed".to_owned(), by_statements));
    all.push((
        "perigee_tables_analyzed_in_background".to_owned(),
        in_background,
    ));
    let (logged, lost) = frontend.slow_log.counts();
    all.push(("Slow_queries".to_owned(), logged + lost));
    all.push(("perigee_slow_log_lost".to_owned(), lost));
    let prepared = frontend.prepared.all();
    all.extend(prepared.map(|(name, value)| (name.to_owned(), value)));
    let statements = frontend.statements.all();
    all.extend(statements.map(|(name, value)| (format!("Com_{name}"), value)));
    let scans = frontend.engine.scan_counters().snapshot();
    let from_source = frontend.status.status().await;
    let shipped = "perigee_pages_shipped";
    if !from_source.iter().any(|(name, _)| name == shipped) {
        let pages: u64 = scans
            .iter()
            .filter(|(name, _)| *name == "pages_read" || name.starts_with("pages_declined"))
            .map(|(_, pages)| pages)
            .sum();
        all.push((shipped.to_owned(), pages));
    }
    let counted = match scope {
        Scope::Global => frontend.engine.scan_counters(),
        Scope::Session | Scope::NextTransaction => &session.scans,
    };
    let cost = Prices::of(&session.variables).cost(counted);
    all.push(("ndp_cost_microdollars".to_owned(), cost.micros()));
    let shown = counted.snapshot().into_iter();
    all.extend(shown.map(|(name, value)| (format!("ndp_{name}"), value)));
    all.extend(from_source);
    all
}

/// The counters, and what is known of the session's connection, as texts by name.
pub(super) async fn values(session: &Session, scope: Scope) -> Vec<(String, String)> {
    let counters = counters(session, scope).await.into_iter();
    let mut all: Vec<_> = counters
        .map(|(name, value)| (name, value.to_string()))
        .collect();
    let encryption = session.info.encryption.clone().unwrap_or_default();
    all.push(("Ssl_cipher".to_owned(), encryption.cipher));
    all.push(("Ssl_version".to_owned(), encryption.version.to_owned()));
    all.sort_by_key(|(name, _)| name.to_lowercase());
    all
}

/// SHOW STATUS.
pub(super) async fn status(
    session: &Session,
    scope: Scope,
    filter: Option<&Filter>,
) -> Result<Rowset> {
    let mut rows = Rowset::new(&["Variable_name", "Value"]);
    for (name, value) in values(session, scope).await {
        rows.push(vec![text(name), text(value)]);
    }
    rows.filter(filter)?;
    Ok(rows)
}

/// SHOW INDEX.
pub(super) fn indexes(table: Option<&Table>) -> Rowset {
    let mut rows = Rowset::new(&[
        "Table",
        "#Non_unique",
        "Key_name",
        "#Seq_in_index",
        "Column_name",
        "Collation",
        "#Cardinality",
        "#Sub_part",
        "Packed",
        "Null",
        "Index_type",
        "Comment",
        "Index_comment",
        "Visible",
        "Expression",
    ]);
    let keys = table
        .into_iter()
        .flat_map(|table| describe::keys(&table.def).map(move |key| (table, key)));
    for (table, key) in keys {
        for (i, column) in key.columns.iter().enumerate() {
            let part = KeyPart::of(&table.def, *column);
            rows.push(vec![
                text(&table.def.name),
                number(u8::from(!key.unique)),
                text(key.name),
                number(i + 1),
                part.name().and_then(text),
                text(describe::direction(&key, i)),
                number(describe::cardinality(table, &key.columns[..=i])),
                part.length.and_then(number),
                None,
                text(if part.nullable { "YES" } else { "" }),
                text("BTREE"),
                text(""),
                text(""),
                text(if key.invisible { "NO" } else { "YES" }),
                part.expression.and_then(text),
            ]);
        }
    }
    rows
}

/// SHOW TABLE STATUS of tables with what AUTO_INCREMENT hands out next, and of views with what is to be said of them.
pub(super) fn tables(
    tables: &[(Arc<Table>, Option<u64>)],
    views: &[(Arc<ViewDef>, String)],
) -> Rowset {
    let mut rows = Rowset::new(&[
        "Name",
        "Engine",
        "#Version",
        "Row_format",
        "#Rows",
        "#Avg_row_length",
        "#Data_length",
        "#Max_data_length",
        "#Index_length",
        "#Data_free",
        "#Auto_increment",
        "Create_time",
        "Update_time",
        "Check_time",
        "Collation",
        "#Checksum",
        "Create_options",
        "Comment",
    ]);
    let of_table = |(table, next_number): &(Arc<Table>, Option<u64>)| {
        let size = Size::of(table);
        vec![
            text(&table.def.name),
            text(ENGINE),
            number(10),
            text("Dynamic"),
            number(size.rows),
            number(size.row()),
            number(size.data),
            number(0),
            number(size.index),
            number(0),
            next_number.map(|next| next.to_string()),
            None,
            None,
            None,
            text(table.def.collation.name()),
            None,
            text(""),
            text(&table.def.comment),
        ]
    };
    let of_view = |(view, comment): &(Arc<ViewDef>, String)| {
        let mut row = vec![None; 18];
        row[0] = text(&view.name);
        row[17] = text(comment);
        row
    };
    let mut all: Vec<_> = tables.iter().map(of_table).collect();
    all.extend(views.iter().map(of_view));
    // The first column is the name.
    all.sort_by(|a, b| a[0].cmp(&b[0]));
    all.into_iter().for_each(|row| rows.push(row));
    rows
}

/// SHOW PROCESSLIST.
pub(super) fn processes(session: &Session, full: bool) -> Rowset {
    let mut rows = Rowset::new(&[
        "#Id", "User", "Host", "db", "Command", "#Time", "State", "Info",
    ]);
    let visible = session.info.connections.list().into_iter();
    for process in visible.filter(|process| session.sees_connections_of(&process.user)) {
        let cut = |statement: String| match full {
            true => statement,
            false => statement.chars().take(100).collect(),
        };
        rows.push(vec![
            number(process.id),
            text(process.user),
            text(process.host),
            process.schema,
            text(process.command),
            number(process.seconds),
            text(""),
            process.statement.map(cut),
        ]);
    }
    rows
}

/// SHOW ENGINES.
pub(super) fn engines() -> Rowset {
    let mut rows = Rowset::new(&[
        "Engine",
        "Support",
        "Comment",
        "Transactions",
        "XA",
        "Savepoints",
    ]);
    rows.push(vec![
        text(ENGINE),
        text("DEFAULT"),
        text(ENGINE_COMMENT),
        text("YES"),
        text("NO"),
        text("NO"),
    ]);
    rows
}

/// SHOW COLLATION.
pub(super) fn collations(filter: Option<&Filter>) -> Result<Rowset> {
    let mut rows = Rowset::new(&[
        "Collation",
        "Charset",
        "#Id",
        "Default",
        "Compiled",
        "#Sortlen",
        "Pad_attribute",
    ]);
    for collation in Collation::all() {
        let is_default = describe::is_default(collation);
        rows.push(vec![
            text(collation.name()),
            text(collation.charset().name()),
            number(u64::from(collation.0)),
            text(if is_default { "Yes" } else { "" }),
            text("Yes"),
            number(1),
            text(describe::pad_attribute(collation)),
        ]);
    }
    rows.filter(filter)?;
    Ok(rows)
}

/// SHOW CHARACTER SET.
pub(super) fn character_sets(filter: Option<&Filter>) -> Result<Rowset> {
    let mut rows = Rowset::new(&["Charset", "Description", "Default collation", "#Maxlen"]);
    for charset in Charset::ALL {
        rows.push(vec![
            text(charset.name()),
            text(charset.description()),
            text(charset.default_collation().name()),
            number(charset.max_len()),
        ]);
    }
    rows.filter(filter)?;
    Ok(rows)
}
