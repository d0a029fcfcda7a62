//! Values that are longer than a record: cut into pieces, and joined again.
//!
//! The record with the name has as much of the value as fits into it; further records go on with it:
//!
//! ```text
//! "c" length of the name, 2 bytes BE, name, number, 4 bytes BE
//! ```
//!
//! All pieces of a value change together (`super::journal`), so that no part of an old value is ever behind one
//! of a new value.

use std::collections::BTreeMap;

use perigee_page::PLAIN_HEADER_LEN;

use super::journal::{Changes, Entries};
use super::store::LONGEST;
use crate::EngineError;
use crate::btree::{KeySpan, Tree};
use crate::buffer::Access;

/// Begins the names of further pieces.
const FURTHER: u8 = b'c';

/// Longest value: more than the longest statement that may define something.
const MAX_VALUE_LEN: usize = 64 << 20;

/// What the names of a value's further pieces begin with.
fn further(key: &[u8]) -> Vec<u8> {
    let len = key.len() as u16; // keys of the tree are shorter
    [&[FURTHER], &len.to_be_bytes()[..], key].concat()
}

fn further_key(key: &[u8], number: u32) -> Vec<u8> {
    [further(key).as_slice(), &number.to_be_bytes()].concat()
}

/// The name of the value that a further piece belongs to.
fn value_key(name: &[u8]) -> Option<&[u8]> {
    let (&FURTHER, rest) = name.split_first()? else {
        return None;
    };
    let (len, rest) = rest.split_first_chunk::<2>()?;
    let (key, number) = rest.split_at_checked(usize::from(u16::from_be_bytes(*len)))?;
    (number.len() == 4).then_some(key)
}

/// Bytes of a value that fit into the record with this name.
fn room(name: &[u8]) -> usize {
    LONGEST - PLAIN_HEADER_LEN - 4 - name.len()
}

/// The changes of records that make changes of values of any length.
///
/// # Errors
/// [`EngineError::BadDefinition`] if a value is longer than [`MAX_VALUE_LEN`]; or what storage says.
pub(super) async fn cut(tree: &Tree, changes: &Changes) -> Result<Changes, EngineError> {
    let mut records = Changes::new();
    for (key, value) in changes {
        let old = count(tree, key).await?;
        let new = match value {
            Some(value) => cut_value(&mut records, key, value)?,
            None => {
                records.insert(key.clone(), None);
                0
            }
        };
        records.extend((new..old).map(|number| (further_key(key, number), None)));
    }
    Ok(records)
}

/// Adds the pieces of a value; returns the number of further ones.
fn cut_value(records: &mut Changes, key: &[u8], value: &[u8]) -> Result<u32, EngineError> {
    let len = value.len();
    if len > MAX_VALUE_LEN {
        let text = format!("its definition takes {len} bytes, the limit is {MAX_VALUE_LEN}");
        return Err(EngineError::BadDefinition(text));
    }
    let (first, rest) = value.split_at(len.min(room(key)));
    records.insert(key.to_vec(), Some(first.to_vec()));
    let mut number = 0;
    for piece in rest.chunks(room(&further_key(key, 0))) {
        records.insert(further_key(key, number), Some(piece.to_vec()));
        number += 1;
    }
    Ok(number)
}

/// The number of further pieces that the tree has of a value.
async fn count(tree: &Tree, key: &[u8]) -> Result<u32, EngineError> {
    let mut cursor = tree.range(KeySpan::prefix(&further(key)), false, Access::Point);
    let mut count = 0;
    while let Some(run) = cursor.next().await? {
        count += run.slots.len() as u32;
    }
    Ok(count)
}

/// Joins the values in `entries`, the records of the tree.
///
/// # Errors
/// [`EngineError::Corrupt`] if a piece is missing.
pub(super) fn join(entries: &mut Entries) -> Result<(), EngineError> {
    let mut pieces = entries.split_off([FURTHER].as_slice());
    entries.append(&mut pieces.split_off([FURTHER + 1].as_slice()));
    let mut counts = BTreeMap::<Vec<u8>, u32>::new();
    for (name, piece) in pieces {
        let key = value_key(&name).ok_or_else(|| lost(&name))?;
        let number = counts.entry(key.to_vec()).or_default();
        if name != further_key(key, *number) {
            return Err(lost(key));
        }
        *number += 1;
        let value = entries.get_mut(key).ok_or_else(|| lost(key))?;
        value.extend(piece);
    }
    Ok(())
}

fn lost(key: &[u8]) -> EngineError {
    let name = String::from_utf8_lossy(key);
    EngineError::Corrupt(format!("catalog entry {name}: a piece is missing"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The records of values that are new.
    fn cut_new(values: &Entries) -> Entries {
        let mut records = Changes::new();
        for (key, value) in values {
            cut_value(&mut records, key, value).expect("they are short enough");
        }
        let present = |(key, value): (_, Option<_>)| (key, value.expect("nothing is removed"));
        records.into_iter().map(present).collect()
    }

    fn values() -> Entries {
        let value = |len: usize| (0..len).map(|at| (at % 251) as u8).collect();
        let lens = [
            0,
            1,
            room(b"t0"),
            room(b"t0") + 1,
            3 * LONGEST,
            100 * LONGEST,
        ];
        let named = |(number, len)| (format!("t{number}").into_bytes(), value(len));
        lens.into_iter().enumerate().map(named).collect()
    }

    #[test]
    fn values_of_any_length_are_joined_again() {
        let values = values();
        let mut records = cut_new(&values);
        assert!(records.len() > values.len() + 100);
        for (name, piece) in &records {
            assert!(piece.len() <= room(name));
        }
        join(&mut records).expect("all pieces are there");
        assert_eq!(records, values);
        let longest = cut_value(&mut Changes::new(), b"t", &vec![0; MAX_VALUE_LEN + 1]);
        assert!(matches!(longest, Err(EngineError::BadDefinition(_))));
    }

    #[test]
    fn a_missing_piece_is_noticed_unless_it_is_the_last() {
        let records = cut_new(&values());
        let names: Vec<_> = records.keys().filter(|key| key[0] == FURTHER).collect();
        for name in &names {
            let mut less = records.clone();
            less.remove(*name);
            let next = [&name[..name.len() - 1], &[name[name.len() - 1] + 1]].concat();
            assert_eq!(join(&mut less).is_err(), records.contains_key(&next));
        }
        for bad in [&b"c"[..], b"c\0", b"c\0\x01t\0\0\0", b"c\0\x01x\0\0\0\0"] {
            let mut more = records.clone();
            more.insert(bad.to_vec(), Vec::new());
            assert!(join(&mut more).is_err(), "{bad:?}");
        }
    }
}
