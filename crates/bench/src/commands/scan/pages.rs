//! Leaf pages of lineitem in memory, as a load fills them.

use perigee_page::{PageKind, PageMut, PageRef, RecordHeader};
use perigee_types::{DbId, IndexId, PAGE_SIZE, PageId};
use perigee_value::{Collation, ColumnType, Place, RowLayout, date, encode_text_row};
use tpchgen::generators::LineItemGenerator;

use perigee_workload::WorkloadError;

/// Scale factor of the data; its pages are repeated until there are enough.
const SCALE: f64 = 0.3;

/// Number of columns of lineitem.
const COLUMNS: usize = 16;
pub const QUANTITY: u16 = 4;
pub const EXTENDEDPRICE: u16 = 5;
pub const DISCOUNT: u16 = 6;
pub const TAX: u16 = 7;
pub const RETURNFLAG: u16 = 8;
pub const LINESTATUS: u16 = 9;
pub const SHIPDATE: u16 = 10;

pub fn lineitem() -> RowLayout {
    let int = ColumnType::Int {
        bytes: 4,
        unsigned: false,
    };
    let money = ColumnType::Decimal {
        precision: 15,
        scale: 2,
    };
    let collation = Collation::UTF8MB4_BIN;
    let text = |chars| ColumnType::Char { chars, collation };
    let date = ColumnType::Date;
    let types: [ColumnType; COLUMNS] = [
        int,
        int,
        int,
        int,
        money,
        money,
        money,
        money,
        text(1),
        text(1),
        date,
        date,
        date,
        text(25),
        text(10),
        ColumnType::Varchar {
            chars: 44,
            collation,
        },
    ];
    RowLayout::clustered(&types.map(|ty| (ty, false)), &[0, 3]).expect("lineitem has a layout")
}

pub type Page = Box<[u8; PAGE_SIZE]>;

pub fn page_ref(page: &Page) -> PageRef<'_> {
    PageRef::new(&page[..]).expect("made by us")
}

/// So many bytes of leaf pages of lineitem, filled as a load fills them; they are the same few again where
/// the generator's do not suffice.
pub fn pages(layout: &RowLayout, bytes: usize) -> Result<Vec<Page>, WorkloadError> {
    let broken =
        |e: &dyn std::fmt::Display| WorkloadError::Unexpected(format!("lineitem page: {e}"));
    let mut pages: Vec<Page> = Vec::new();
    let mut records = Vec::new();
    let mut count = 0;
    let room = PAGE_SIZE * 15 / 16;
    for item in LineItemGenerator::new(SCALE, 1, 1).iter() {
        let text = item.to_string();
        let mut fields = [None; COLUMNS];
        for (field, text) in fields.iter_mut().zip(text.split('|')) {
            *field = Some(text.as_bytes());
        }
        let before = records.len();
        encode_text_row(layout, &fields, RecordHeader::default(), &mut records)
            .map_err(|e| broken(&e))?;
        count += 1;
        if pages.len() * PAGE_SIZE >= bytes {
            break;
        }
        if records.len() + 2 * count > room {
            let rest = records.split_off(before);
            pages.push(page(layout, pages.len(), &records).map_err(|e| broken(&e))?);
            (records, count) = (rest, 1);
        }
    }
    let distinct = pages.len();
    while pages.len() * PAGE_SIZE < bytes {
        pages.push(pages[pages.len() - distinct].clone());
    }
    Ok(pages)
}

fn page(
    layout: &RowLayout,
    number: usize,
    records: &[u8],
) -> Result<Page, perigee_page::PageFormatError> {
    let mut bytes = Box::new([0; PAGE_SIZE]);
    let mut page = PageMut::new(&mut bytes);
    let id = PageId(number as u64 + 64);
    let links = (PageId(0), PageId(0));
    page.format(
        id,
        (PageKind::Clustered, 0),
        (DbId(1), IndexId(1)),
        layout.shape,
        links,
    )?;
    page.insert(0, records)?;
    Ok(bytes)
}

/// Where a record has a column of fixed width.
pub fn offset_of(layout: &RowLayout, column: u16) -> usize {
    match layout.columns[usize::from(column)].place {
        Place::Fixed { offset } => usize::from(offset),
        other => panic!("numbers and dates have fixed places, not {other:?}"),
    }
}

/// Where a record says at which of its bytes a column of varying width ends.
pub fn item_of(layout: &RowLayout, column: u16) -> usize {
    match layout.columns[usize::from(column)].place {
        Place::Var { item } => usize::from(layout.shape.fixed_len) + 2 * usize::from(item),
        other => panic!("texts vary in width, unlike {other:?}"),
    }
}

/// Where the records of a page begin, in the order of their keys.
pub fn records(page: &Page) -> impl Iterator<Item = usize> {
    let slots = usize::from(page_ref(page).slot_count());
    let directory = &page[PAGE_SIZE - 2 * slots..];
    let slots = directory.rchunks_exact(2);
    slots.map(|slot| usize::from(u16::from_le_bytes([slot[0], slot[1]])))
}

pub fn u16_at(page: &Page, at: usize) -> usize {
    usize::from(u16::from_le_bytes(
        page[at..at + 2].try_into().expect("2 bytes"),
    ))
}

pub fn i32_at(page: &Page, at: usize) -> i32 {
    i32::from_le_bytes(page[at..at + 4].try_into().expect("4 bytes"))
}

pub fn i64_at(page: &Page, at: usize) -> i64 {
    i64::from_le_bytes(page[at..at + 8].try_into().expect("8 bytes"))
}

/// A day, in days since 1970-01-01.
pub fn day(year: i32, month: u8, day: u8) -> i32 {
    let civil = date::Civil { year, month, day };
    civil.to_days().expect("a date")
}

/// Reads every byte, as fast as one thread can.
pub fn read_all(pages: &[Page]) -> u64 {
    let mut sums = [0_u64; 8];
    for page in pages {
        for line in page.chunks_exact(64) {
            for (sum, word) in sums.iter_mut().zip(line.chunks_exact(8)) {
                *sum = sum.wrapping_add(u64::from_le_bytes(word.try_into().expect("8 bytes")));
            }
        }
    }
    std::hint::black_box(sums.iter().fold(0, |a, b| a ^ b))
}
