//! The store that bad input is sent to: a table with columns of most types, pages that are none of
//! its leaves, another slice, another tenant; and the requests that cases begin with.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use perigee_expr::{AggregateFunction, Comparison, Node, NodeId, Program, Type};
use perigee_ndp::{Aggregate, Descriptor, KeyRange};
use perigee_page::{PageKind, RecordHeader};
use perigee_page_api::{NdpRead, PageStore, SliceKey};
use perigee_page_store::{Config, PageStoreService};
use perigee_redo::Op;
use perigee_types::{DbId, IndexId, Lsn, PageId, RollPtr, SliceId, TrxId};
use perigee_value::{Collation, ColumnType, Datum, RowLayout, encode_row, key};

use super::language::Line;
use super::support::{Model, SLICE, UndoFormat, small};

/// Leaves of the table, and rows of each.
pub const LEAVES: u64 = 12;
const ROWS: i64 = 50;

/// Pages that are no leaves of the table.
const INNER: u64 = 100;
const UNDO: u64 = 101;
const OTHER_INDEX: u64 = 102;
const OTHER_SHAPE: u64 = 103;
const SECONDARY: u64 = 104;

/// Below it pages are gone.
const RECYCLE: Lsn = Lsn(4);

const INDEX: IndexId = IndexId(1);
const SECONDARY_INDEX: IndexId = IndexId(2);
const WATERMARK: TrxId = TrxId(50);

pub struct World {
    pub store: Arc<PageStoreService>,
    /// The table's slice.
    pub model: Model,
}

const INT: ColumnType = ColumnType::Int {
    bytes: 4,
    unsigned: false,
};

/// id, quantity, price, discount, shipped, changed, flag, comment, big, raw, note.
pub fn layout() -> RowLayout {
    let text = Collation::UTF8MB4_BIN;
    let varchar = |chars, collation| ColumnType::Varchar { chars, collation };
    let columns = [
        (INT, false),
        (INT, true),
        (
            ColumnType::Decimal {
                precision: 12,
                scale: 2,
            },
            false,
        ),
        (ColumnType::Double, true),
        (ColumnType::Date, false),
        (ColumnType::DateTime { fsp: 0 }, true),
        (
            ColumnType::Char {
                chars: 1,
                collation: text,
            },
            false,
        ),
        (varchar(40, text), true),
        (
            ColumnType::Int {
                bytes: 8,
                unsigned: true,
            },
            true,
        ),
        (varchar(16, Collation::BINARY), true),
        (
            ColumnType::Long {
                prefix: 2,
                collation: text,
            },
            true,
        ),
    ];
    RowLayout::clustered(&columns, &[0]).expect("a layout")
}

/// quantity, id.
fn secondary_layout() -> RowLayout {
    RowLayout::secondary(&[(INT, true), (INT, false)]).expect("a layout")
}

/// Row `i` of the table.
pub fn row(i: i64) -> Vec<Datum> {
    let text = |text: String| Datum::String(text.into_bytes());
    let or_null = |every: i64, value: Datum| match i % every {
        0 => Datum::Null,
        _ => value,
    };
    vec![
        Datum::Int(i),
        or_null(7, Datum::Int(i * 37 % 50)),
        Datum::Decimal(i128::from(i) * 1001),
        or_null(11, Datum::Double(i as f64 / 100.0)),
        Datum::Date(8000 + (i % 2500) as i32),
        or_null(5, Datum::DateTime(i * 86_400_000_000)),
        text(["A", "N", "R"][(i % 3) as usize].to_owned()),
        or_null(13, text(format!("comment number {i}"))),
        or_null(3, Datum::UInt(u64::MAX - i as u64)),
        or_null(4, Datum::String(vec![0xff, i as u8])),
        or_null(2, text("a note".to_owned())),
    ]
}

fn header() -> RecordHeader {
    RecordHeader {
        trx: TrxId(3),
        roll: RollPtr(0),
        ..RecordHeader::default()
    }
}

/// Operations that make a leaf with these rows.
fn leaf(
    db: DbId,
    index: IndexId,
    kind: PageKind,
    layout: &RowLayout,
    rows: &[Vec<Datum>],
) -> Vec<Op> {
    let mut records = Vec::new();
    for row in rows {
        encode_row(layout, row, header(), &mut records).expect("a row of the layout");
    }
    let (level, shape) = match kind {
        PageKind::Inner => (1, layout.shape.inner()),
        _ => (0, layout.shape),
    };
    let none = PageId(0);
    let format = Op::Format {
        kind,
        level,
        db,
        index,
        shape,
        prev: none,
        next: none,
    };
    let insert = (!records.is_empty()).then(|| Op::Insert {
        slot: 0,
        trx: TrxId(3),
        records: records.into(),
    });
    [Some(format), insert].into_iter().flatten().collect()
}

/// Rows of a leaf of the table.
fn rows_of(page: u64) -> Vec<Vec<Datum>> {
    let first = (page as i64 - 1) * ROWS;
    (first..first + ROWS).map(row).collect()
}

fn table_leaf(db: DbId, page: PageId) -> Vec<Op> {
    leaf(db, INDEX, PageKind::Clustered, &layout(), &rows_of(page.0))
}

/// Pages that are no leaves of the table.
fn other_pages(db: DbId, page: PageId, lsn: Lsn) -> Vec<Op> {
    match page.0 {
        UNDO => UndoFormat::change(db, page, lsn, true).ops,
        INNER => leaf(db, INDEX, PageKind::Inner, &layout(), &[]),
        OTHER_INDEX => {
            let rows = rows_of(1);
            leaf(db, IndexId(77), PageKind::Clustered, &layout(), &rows)
        }
        OTHER_SHAPE => {
            let layout = RowLayout::clustered(&[(INT, false), (INT, true)], &[0]);
            let layout = layout.expect("a layout");
            let rows: Vec<_> = rows_of(1)
                .into_iter()
                .map(|row| row[..2].to_vec())
                .collect();
            leaf(db, INDEX, PageKind::Clustered, &layout, &rows)
        }
        _ => {
            let layout = secondary_layout();
            let rows = rows_of(1).into_iter();
            let mut rows: Vec<_> = rows
                .map(|row| vec![row[1].clone(), row[0].clone()])
                .collect();
            rows.sort_by_cached_key(|row| {
                let mut bytes = Vec::new();
                key::encode_key(&layout, row, &mut bytes).expect("a key");
                bytes
            });
            leaf(db, SECONDARY_INDEX, PageKind::Secondary, &layout, &rows)
        }
    }
}

async fn write(store: &PageStoreService, model: &mut Model, pages: &[u64]) {
    let (prev, db, lsn) = (model.lsn, model.slice.db, model.lsn.next());
    let group = model.group(pages, |page, _| match page.0 {
        INNER..=SECONDARY => other_pages(db, page, lsn),
        _ => table_leaf(db, page),
    });
    let fragment = model.fragment(prev, &[group]);
    store.write_logs(fragment).await.expect("log is taken");
}

impl World {
    pub async fn new(dir: &Path) -> Self {
        let config = Config {
            ndp_threads: 1,
            ..small()
        };
        let store = PageStoreService::open(dir, config).expect("a store");
        let other = |db, slice| SliceKey {
            db: DbId(db),
            slice: SliceId(slice),
        };
        let slices = [SLICE, other(SLICE.db.0, 4), other(8, 3)];
        let [mut model, mut slice, mut tenant] = slices.map(Model::new);
        for model in [&model, &slice, &tenant] {
            let made = store.create_slice(model.slice, 1).await;
            made.expect("a slice is made");
        }
        for page in 1..=LEAVES {
            write(&store, &mut model, &[page]).await;
        }
        let others: Vec<u64> = (INNER..=SECONDARY).collect();
        write(&store, &mut model, &others).await;
        // Up to the same LSN.
        for page in 1001..=1001 + LEAVES {
            write(&store, &mut slice, &[page]).await;
        }
        write(&store, &mut tenant, &[1, 2, 3, 4]).await;
        let set = store.set_recycle_lsn(SLICE.db, RECYCLE).await;
        set.expect("the recycle LSN is set");
        Self {
            store: Arc::new(store),
            model,
        }
    }

    /// A well-formed request but for what `lines` say.
    pub fn request(&self, base: &str, lines: &[Line], descriptor: Bytes) -> NdpRead {
        let pages = match base {
            "secondary" => vec![PageId(SECONDARY)],
            _ => (1..=LEAVES).map(PageId).collect(),
        };
        let mut read = NdpRead {
            epoch: perigee_page_api::ANY_EPOCH,
            slice: SLICE,
            lsn: self.model.lsn,
            pages,
            descriptor,
            filters: Vec::new(),
            enough: None,
        };
        for line in lines {
            let number = || line.value.parse::<u32>().expect("a number");
            match line.key.as_str() {
                "tenant" => read.slice.db = DbId(number()),
                "slice" => read.slice.slice = SliceId(number()),
                "lsn" => read.lsn = self.lsn(&line.value),
                "pages" => read.pages = pages_of(&line.value),
                _ => {}
            }
        }
        read
    }

    /// `newest`, `newest+1`, `recycle`, `recycle-1`, or a number.
    fn lsn(&self, text: &str) -> Lsn {
        match text {
            "newest" => self.model.lsn,
            "newest+1" => self.model.lsn.next(),
            "recycle" => RECYCLE,
            "recycle-1" => Lsn(RECYCLE.0 - 1),
            number => Lsn(number.parse().expect("an LSN")),
        }
    }
}

/// `1 2 3`, `1..12`, `5 * 1000`, `none`.
fn pages_of(text: &str) -> Vec<PageId> {
    let number = |text: &str| text.trim().parse::<u64>().expect("a page");
    if text == "none" {
        return Vec::new();
    }
    if let Some((page, times)) = text.split_once('*') {
        return vec![PageId(number(page)); number(times) as usize];
    }
    let words = text.split_whitespace();
    words
        .flat_map(|word| match word.split_once("..") {
            Some((first, last)) => number(first)..=number(last),
            None => number(word)..=number(word),
        })
        .map(PageId)
        .collect()
}

fn column(index: u16, ty: Type) -> Node {
    Node::Column { index, ty }
}

const PRICE: Type = Type::Decimal {
    precision: 12,
    scale: 2,
};

/// `quantity < 24`.
fn few() -> Program {
    let limit = Node::Constant {
        value: Datum::Int(24),
        ty: Type::Int,
    };
    let less = Node::Compare {
        op: Comparison::Less,
        left: NodeId(0),
        right: NodeId(1),
    };
    Program {
        nodes: vec![column(1, Type::Int), limit, less],
    }
}

/// A well-formed descriptor.
pub fn descriptor(base: &str) -> Descriptor {
    let program = |node| Program { nodes: vec![node] };
    let all = Descriptor::new(SLICE.db, INDEX, layout(), WATERMARK);
    let filter = Descriptor {
        projection: vec![0, 1, 7],
        predicate: Some(few()),
        ..all.clone()
    };
    let grouped = Aggregate {
        group_by: vec![program(column(6, Type::String))],
        functions: vec![
            (AggregateFunction::CountAll, None),
            (AggregateFunction::Sum, Some(program(column(2, PRICE)))),
            (
                AggregateFunction::Min,
                Some(program(column(7, Type::String))),
            ),
        ],
    };
    match base {
        "rows" => Descriptor {
            projection: (0..layout().columns.len() as u16).collect(),
            ..all
        },
        "filter" => filter,
        "range" => {
            let bound = |id| {
                let mut bytes = Vec::new();
                key::encode_key(&layout(), &[Datum::Int(id)], &mut bytes).expect("a key");
                bytes
            };
            Descriptor {
                range: KeyRange {
                    lower: std::ops::Bound::Included(bound(100)),
                    upper: std::ops::Bound::Excluded(bound(200)),
                },
                ..filter
            }
        }
        "count" => Descriptor {
            aggregate: Some(Aggregate {
                group_by: Vec::new(),
                functions: vec![(AggregateFunction::CountAll, None)],
            }),
            ..all
        },
        "group" => Descriptor {
            aggregate: Some(grouped),
            ..filter
        },
        "secondary" => Descriptor {
            index: SECONDARY_INDEX,
            layout: secondary_layout(),
            projection: vec![1, 0],
            ..all
        },
        other => panic!("{other} is no base"),
    }
}
