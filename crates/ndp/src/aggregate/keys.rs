//! Group keys of a run of rows, and the codes by which they are told apart.
//!
//! A code is the key's values one after the other, each delimiting itself, so that two keys are
//! equal if and only if their codes are: NULL equals NULL, strings are equal if their collation says
//! so, -0.0 equals 0.0. Codes of at most 16 bytes are *packed* into a number; longer ones are bytes.

use std::borrow::Cow;

use perigee_expr::{Lanes, Vector};
use perigee_value::{Collation, string};

use crate::gather::Gather;

/// How the values of one key are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyPart {
    /// What of a string counts.
    pub(crate) text: Text,
    /// Bytes that tell two numbers apart; strings have a length instead.
    pub(crate) width: u8,
    /// Whether it can be NULL.
    pub(crate) nullable: bool,
}

impl KeyPart {
    /// How values are told apart that were given out: a form has no other form.
    pub(crate) fn given_out(self) -> Self {
        Self {
            text: Text::Bytes,
            ..self
        }
    }
}

/// What of a string tells it apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Text {
    /// All bytes.
    Bytes,
    /// All but trailing spaces.
    Trimmed,
    /// Its form in a collation.
    Form(Collation),
}

impl Text {
    pub(crate) fn of(self, text: &[u8]) -> Cow<'_, [u8]> {
        match self {
            Self::Bytes => Cow::Borrowed(text),
            Self::Trimmed => Cow::Borrowed(string::trim_end(text)),
            Self::Form(collation) => collation.form(text),
        }
    }
}

/// Values of one key for a run of rows.
#[derive(Clone, Copy)]
pub(crate) enum KeyValues<'a> {
    /// As they were evaluated.
    Lanes(&'a Vector),
    /// A string column, read straight from the records.
    Items {
        gather: &'a Gather,
        base: &'a [u8],
        records: &'a [u16],
    },
}

/// Codes of a run of rows.
#[derive(Default)]
pub(crate) struct RowCodes {
    packed: Vec<Code>,
    /// The code at hand of those that do not fit.
    bytes: Vec<u8>,
}

/// Longest packed code.
const PACKED: usize = 16;

/// A code in the making; the bytes behind its end are zeros. Most codes are short enough for the first
/// word, which is much less work.
#[derive(Clone, Copy)]
struct Code {
    words: [u64; 2],
    /// Bytes of the code; more than 16 if it is too long, and then nothing more is written.
    len: u8,
}

const EMPTY: Code = Code {
    words: [0; 2],
    len: 0,
};
const TOO_LONG: u8 = 0xff;
const WORD: usize = 8;

impl Code {
    /// Appends the low `width` bytes of a value that has zeros above them, if they fit.
    #[inline]
    fn append(&mut self, value: u128, width: usize) {
        let len = usize::from(self.len);
        if len + width > PACKED {
            self.len = TOO_LONG;
            return;
        }
        let value = value << (8 * len);
        self.words[0] |= value as u64;
        self.words[1] |= (value >> 64) as u64;
        self.len += width as u8;
    }

    /// As [`Code::append`], of at least one and at most 8 bytes.
    #[inline]
    fn append_word(&mut self, value: u64, width: usize) {
        let len = usize::from(self.len);
        if len + width <= WORD {
            // Not `<<`, which would check what the line above has.
            self.words[0] |= value.wrapping_shl(8 * len as u32);
            self.len = (len + width) as u8;
        } else {
            self.append(value.into(), width);
        }
    }

    /// Appends a string.
    fn append_text(&mut self, text: &[u8]) {
        let mut window = [0; PACKED];
        match window.get_mut(1..=text.len()) {
            Some(to) => {
                to.copy_from_slice(text);
                let code = u128::from_le_bytes(window) | (text.len() as u128 + 1);
                self.append(code, text.len() + 1);
            }
            None => self.len = TOO_LONG,
        }
    }

    /// Appends the first `len` bytes of a window on a string, fewer than 8; those behind them are
    /// masked away.
    #[inline]
    fn append_short_text(&mut self, window: u64, len: usize) {
        let mask = 1_u64.wrapping_shl(8 * len as u32).wrapping_sub(1);
        self.append_word((window & mask) << 8 | (len as u64 + 1), len + 1);
    }
}

/// First byte of a nullable value or of a string that is NULL; strings begin with length + 1.
const NULL: u8 = 0;
const NOT_NULL: u8 = 1;

impl KeyValues<'_> {
    /// The string of a row; `None` if it is NULL.
    #[inline]
    pub(crate) fn string(&self, row: usize) -> Option<&[u8]> {
        match self {
            Self::Items {
                gather,
                base,
                records,
            } => gather
                .item(base, records[row])
                .map(|(start, end)| &base[start..end]),
            Self::Lanes(Vector {
                lanes: Lanes::Bytes { ends, data },
                valid,
            }) => {
                let null = valid.as_ref().is_some_and(|valid| valid[row] == 0);
                let start = if row == 0 { 0 } else { ends[row - 1] as usize };
                (!null).then(|| &data[start..ends[row] as usize])
            }
            Self::Lanes(_) => panic!("N1: only strings have bytes"),
        }
    }

    /// Appends the value of a row to `to`. Strings are given out as what tells them apart, so that
    /// partial rows of one group carry one and the same key.
    pub(crate) fn push(&self, part: &KeyPart, row: usize, to: &mut Vector) {
        let valid = match (self, &mut to.lanes) {
            (Self::Lanes(from), lanes) if !matches!(lanes, Lanes::Bytes { .. }) => {
                match (lanes, &from.lanes) {
                    (Lanes::I64(to), Lanes::I64(from)) => to.push(from[row]),
                    (Lanes::U64(to), Lanes::U64(from)) => to.push(from[row]),
                    (Lanes::I128(to), Lanes::I128(from)) => to.push(from[row]),
                    (Lanes::F64(to), Lanes::F64(from)) => to.push(from[row] + 0.0),
                    _ => panic!("N1: values of one key have one form"),
                }
                from.valid.as_ref().is_none_or(|valid| valid[row] != 0)
            }
            (_, Lanes::Bytes { ends, data }) => {
                let string = self.string(row);
                data.extend_from_slice(&part.text.of(string.unwrap_or_default()));
                ends.push(data.len() as u32);
                string.is_some()
            }
            _ => panic!("N1: only strings are items"),
        };
        if let Some(own) = &mut to.valid {
            own.push(valid.into());
        } else if !valid {
            let mut own = vec![1; to.len()];
            own[to.len() - 1] = 0;
            to.valid = Some(own);
        }
    }
}

impl RowCodes {
    /// Packs the keys of `rows` rows, as far as they fit.
    pub(crate) fn load(&mut self, parts: &[KeyPart], keys: &[KeyValues<'_>], rows: usize) {
        self.packed.clear();
        self.packed.resize(rows, EMPTY);
        for (part, key) in parts.iter().zip(keys) {
            match key {
                KeyValues::Items {
                    gather,
                    base,
                    records,
                } => {
                    self.pack_strings(part, base, gather.items(base, records));
                }
                KeyValues::Lanes(vector) => self.pack_lanes(part, vector),
            }
        }
    }

    fn pack_lanes(&mut self, part: &KeyPart, vector: &Vector) {
        let valid = vector.valid.as_deref();
        match &vector.lanes {
            Lanes::I64(lanes) => self.pack_numbers(part, lanes.iter().map(|v| *v as u128), valid),
            Lanes::U64(lanes) => self.pack_numbers(part, lanes.iter().map(|v| *v as u128), valid),
            Lanes::I128(lanes) => self.pack_numbers(part, lanes.iter().map(|v| *v as u128), valid),
            Lanes::F64(lanes) => {
                self.pack_numbers(
                    part,
                    lanes.iter().map(|v| (v + 0.0).to_bits().into()),
                    valid,
                );
            }
            Lanes::Bytes { ends, data } => {
                let mut start = 0;
                let spans = ends.iter().enumerate().map(|(row, &end)| {
                    let span = (start, end as usize);
                    start = end as usize;
                    valid.is_none_or(|valid| valid[row] != 0).then_some(span)
                });
                self.pack_strings(part, data, spans);
            }
        }
    }

    fn pack_numbers(
        &mut self,
        part: &KeyPart,
        values: impl Iterator<Item = u128>,
        valid: Option<&[u8]>,
    ) {
        let width = usize::from(part.width);
        for (row, (code, value)) in self.packed.iter_mut().zip(values).enumerate() {
            if part.nullable {
                let not_null = valid.is_none_or(|valid| valid[row] != 0);
                code.append_word(if not_null { NOT_NULL } else { NULL }.into(), 1);
                if !not_null {
                    continue;
                }
            }
            match width {
                PACKED => code.append(value, width),
                WORD => code.append_word(value as u64, width),
                _ => code.append_word(value as u64 & ((1 << (8 * width)) - 1), width),
            }
        }
    }

    fn pack_strings(
        &mut self,
        part: &KeyPart,
        data: &[u8],
        spans: impl Iterator<Item = Option<(usize, usize)>>,
    ) {
        match part.text {
            Text::Bytes => self.pack_bytes(data, spans, |(start, end)| end.wrapping_sub(start)),
            Text::Trimmed => {
                let len = |(start, end)| string::trim_end(&data[start..end]).len();
                self.pack_bytes(data, spans, len);
            }
            Text::Form(collation) => self.pack_forms(collation, data, spans),
        }
    }

    /// Packs strings as their bytes, of which so many count.
    #[inline(always)]
    fn pack_bytes(
        &mut self,
        data: &[u8],
        spans: impl Iterator<Item = Option<(usize, usize)>>,
        len: impl Fn((usize, usize)) -> usize,
    ) {
        let mut codes = self.packed.iter_mut();
        for span in spans {
            let code = codes.next().expect("one for each row");
            let Some((start, end)) = span else {
                code.append_word(NULL.into(), 1);
                continue;
            };
            let len = len((start, end));
            match data.get(start..start + WORD) {
                Some(window) if len < WORD => {
                    let window = window.try_into().expect("it is a word");
                    code.append_short_text(u64::from_le_bytes(window), len);
                }
                _ => code.append_text(&data[start..end][..len]),
            }
        }
    }

    fn pack_forms(
        &mut self,
        collation: Collation,
        data: &[u8],
        spans: impl Iterator<Item = Option<(usize, usize)>>,
    ) {
        for (code, span) in self.packed.iter_mut().zip(spans) {
            match span {
                Some((start, end)) => code.append_text(&collation.form(&data[start..end])),
                None => code.append_word(NULL.into(), 1),
            }
        }
    }

    /// The packed code of a row, if its key fits.
    #[inline]
    pub(crate) fn packed(&self, row: usize) -> Option<u128> {
        let Code { words, len } = self.packed[row];
        let code = u128::from(words[1]) << 64 | u128::from(words[0]);
        (len != TOO_LONG).then_some(code)
    }

    /// The code of a row as bytes.
    pub(crate) fn bytes(&mut self, parts: &[KeyPart], keys: &[KeyValues<'_>], row: usize) -> &[u8] {
        self.bytes.clear();
        for (part, key) in parts.iter().zip(keys) {
            encode(part, key, row, &mut self.bytes);
        }
        &self.bytes
    }
}

fn encode(part: &KeyPart, key: &KeyValues<'_>, row: usize, out: &mut Vec<u8>) {
    let vector = match key {
        KeyValues::Lanes(vector) if !matches!(vector.lanes, Lanes::Bytes { .. }) => vector,
        _ => {
            let string = key.string(row);
            out.push(if string.is_some() { NOT_NULL } else { NULL });
            let string = part.text.of(string.unwrap_or_default());
            out.extend_from_slice(&(string.len() as u32).to_le_bytes());
            out.extend_from_slice(&string);
            return;
        }
    };
    if vector.valid.as_ref().is_some_and(|valid| valid[row] == 0) {
        out.push(NULL);
        return;
    }
    out.push(NOT_NULL);
    match &vector.lanes {
        Lanes::I64(lanes) => out.extend_from_slice(&lanes[row].to_le_bytes()),
        Lanes::U64(lanes) => out.extend_from_slice(&lanes[row].to_le_bytes()),
        Lanes::I128(lanes) => out.extend_from_slice(&lanes[row].to_le_bytes()),
        Lanes::F64(lanes) => out.extend_from_slice(&(lanes[row] + 0.0).to_bits().to_le_bytes()),
        Lanes::Bytes { .. } => panic!("N1: strings were encoded above"),
    }
}
