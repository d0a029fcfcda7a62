//! Wire form of operations and groups: `docs/format/redo.md`.

use bytes::Bytes;
use perigee_page::{PageKind, RecordShape};
use perigee_types::{DbId, DecodeError, IndexId, Lsn, PAGE_SIZE, PageId, Reader, TrxId, Writer};

use crate::{Change, Group, Op};

/// Tags of the operations; never reused for another meaning.
mod tag {
    pub const FORMAT: u8 = 1;
    pub const INSERT: u8 = 2;
    pub const REMOVE: u8 = 3;
    pub const REPLACE: u8 = 4;
    pub const SET_HEADER: u8 = 5;
    pub const SET_LINKS: u8 = 6;
    pub const WRITE: u8 = 7;
    pub const FREE: u8 = 8;
}

impl Op {
    fn encode(&self, w: &mut Writer) {
        match self {
            Self::Format {
                kind,
                level,
                db,
                index,
                shape,
                prev,
                next,
            } => {
                w.u8(tag::FORMAT)
                    .u8(*kind as u8)
                    .u8(*level)
                    .u32(db.0)
                    .u32(index.0);
                w.u16(shape.fixed_len)
                    .u16(shape.key_offset)
                    .u16(shape.key_len);
                w.u8(shape.var_count)
                    .u8(shape.header_len)
                    .u64(prev.0)
                    .u64(next.0);
            }
            Self::Insert { slot, trx, records } => {
                w.u8(tag::INSERT)
                    .u16(*slot)
                    .u64(trx.0)
                    .u16(short(records))
                    .raw(records);
            }
            Self::Remove { slot, count, trx } => {
                w.u8(tag::REMOVE).u16(*slot).u16(*count).u64(trx.0);
            }
            Self::Replace { slot, trx, record } => {
                w.u8(tag::REPLACE)
                    .u16(*slot)
                    .u64(trx.0)
                    .u16(short(record))
                    .raw(record);
            }
            Self::SetHeader { slot, trx, header } => {
                w.u8(tag::SET_HEADER)
                    .u16(*slot)
                    .u64(trx.0)
                    .u16(short(header))
                    .raw(header);
            }
            Self::SetLinks { prev, next } => {
                w.u8(tag::SET_LINKS).u64(prev.0).u64(next.0);
            }
            Self::Write { offset, bytes } => {
                w.u8(tag::WRITE).u16(*offset).u16(short(bytes)).raw(bytes);
            }
            Self::Free => {
                w.u8(tag::FREE);
            }
        }
    }

    fn decode(r: &mut Reader<'_>, source: &Bytes) -> Result<Self, DecodeError> {
        Ok(match r.u8()? {
            tag::FORMAT => {
                let kind = PageKind::from_u8(r.u8()?).ok_or(DecodeError::new("redo: page kind"))?;
                Self::Format {
                    kind,
                    level: r.u8()?,
                    db: DbId(r.u32()?),
                    index: IndexId(r.u32()?),
                    shape: RecordShape {
                        fixed_len: r.u16()?,
                        key_offset: r.u16()?,
                        key_len: r.u16()?,
                        var_count: r.u8()?,
                        header_len: r.u8()?,
                    },
                    prev: PageId(r.u64()?),
                    next: PageId(r.u64()?),
                }
            }
            tag::INSERT => Self::Insert {
                slot: r.u16()?,
                trx: TrxId(r.u64()?),
                records: short_bytes(r, source)?,
            },
            tag::REMOVE => Self::Remove {
                slot: r.u16()?,
                count: r.u16()?,
                trx: TrxId(r.u64()?),
            },
            tag::REPLACE => Self::Replace {
                slot: r.u16()?,
                trx: TrxId(r.u64()?),
                record: short_bytes(r, source)?,
            },
            tag::SET_HEADER => Self::SetHeader {
                slot: r.u16()?,
                trx: TrxId(r.u64()?),
                header: short_bytes(r, source)?,
            },
            tag::SET_LINKS => Self::SetLinks {
                prev: PageId(r.u64()?),
                next: PageId(r.u64()?),
            },
            tag::WRITE => Self::Write {
                offset: r.u16()?,
                bytes: short_bytes(r, source)?,
            },
            tag::FREE => Self::Free,
            _ => return Err(DecodeError::new("redo: unknown operation")),
        })
    }

    /// The operation in one line, payloads by their length.
    #[must_use]
    pub fn dump(&self) -> String {
        match self {
            Self::Format {
                kind,
                level,
                db,
                index,
                shape,
                prev,
                next,
            } => format!(
                "format {kind:?} level {level} {db} {index} fixed {} key {}+{} vars {} prev {} next {}",
                shape.fixed_len, shape.key_offset, shape.key_len, shape.var_count, prev.0, next.0
            ),
            Self::Insert { slot, trx, records } => {
                format!("insert at {slot} {} bytes {trx}", records.len())
            }
            Self::Remove { slot, count, trx } => format!("remove {count} from {slot} {trx}"),
            Self::Replace { slot, trx, record } => {
                format!("replace {slot} by {} bytes {trx}", record.len())
            }
            Self::SetHeader { slot, trx, .. } => format!("set header of {slot} {trx}"),
            Self::SetLinks { prev, next } => format!("links prev {} next {}", prev.0, next.0),
            Self::Write { offset, bytes } => format!("write {} bytes at {offset}", bytes.len()),
            Self::Free => "free".to_owned(),
        }
    }
}

impl Group {
    /// Appends the group's wire form.
    pub fn encode(&self, w: &mut Writer) {
        let mut body = Writer::new();
        body.u16(count(self.changes.len()));
        for change in &self.changes {
            body.u64(change.page.0).u16(count(change.ops.len()));
            for op in &change.ops {
                op.encode(&mut body);
            }
        }
        w.u64(self.lsn.0).bytes(&body.into_bytes());
    }

    /// Decodes all groups in `bytes`; payloads of operations share the buffer.
    pub fn decode_all(bytes: &Bytes) -> Result<Vec<Self>, DecodeError> {
        let mut r = Reader::new(bytes, "redo: group");
        let mut groups = Vec::new();
        while r.remaining() > 0 {
            let lsn = Lsn(r.u64()?);
            let body = r.bytes()?;
            groups.push(Self {
                lsn,
                changes: decode_changes(body, bytes)?,
            });
        }
        Ok(groups)
    }
}

fn decode_changes(body: &[u8], source: &Bytes) -> Result<Vec<Change>, DecodeError> {
    let mut r = Reader::new(body, "redo: group body");
    let n = r.u16()?;
    let mut changes = Vec::with_capacity(usize::from(n));
    for _ in 0..n {
        let page = PageId(r.u64()?);
        let n_ops = r.u16()?;
        let ops = (0..n_ops)
            .map(|_| Op::decode(&mut r, source))
            .collect::<Result<_, _>>()?;
        changes.push(Change { page, ops });
    }
    r.finish()?;
    Ok(changes)
}

fn count(n: usize) -> u16 {
    u16::try_from(n).expect("a mini-transaction has fewer than 65,536 changes")
}

/// Length of a payload, which always fits a page.
fn short(payload: &Bytes) -> u16 {
    assert!(
        payload.len() <= PAGE_SIZE,
        "redo payload of {} bytes",
        payload.len()
    );
    payload.len() as u16
}

fn short_bytes(r: &mut Reader<'_>, source: &Bytes) -> Result<Bytes, DecodeError> {
    let len = usize::from(r.u16()?);
    if len > PAGE_SIZE {
        return Err(DecodeError::new("redo: payload longer than a page"));
    }
    Ok(source.slice_ref(r.raw(len)?))
}
