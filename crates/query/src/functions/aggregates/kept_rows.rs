//! Rows that an aggregate function keeps until all have come, one after the other in one piece of memory. That is their
//! state in plans, too.

use datafusion::common::{Result as DfResult, internal_datafusion_err};

/// Rows of `FIELDS` strings each: the length of a string in four bytes, then the string.
#[derive(Debug, Default)]
pub(super) struct KeptRows<const FIELDS: usize> {
    bytes: Vec<u8>,
    /// Where each row starts.
    starts: Vec<usize>,
}

/// Bytes of a length.
const LENGTH: usize = size_of::<u32>();

impl<const FIELDS: usize> KeptRows<FIELDS> {
    /// Number of rows.
    pub(super) fn len(&self) -> usize {
        self.starts.len()
    }

    /// True if there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// Adds a row.
    pub(super) fn push(&mut self, row: [&[u8]; FIELDS]) -> DfResult<()> {
        self.starts.push(self.bytes.len());
        for field in row {
            let length = u32::try_from(field.len());
            let length = length.map_err(|_| internal_datafusion_err!("Q1: a string of 4 GiB"))?;
            self.bytes.extend(length.to_le_bytes());
            self.bytes.extend(field);
        }
        Ok(())
    }

    /// The row in a place.
    pub(super) fn get(&self, place: usize) -> [&[u8]; FIELDS] {
        let mut rest = &self.bytes[self.starts[place]..];
        // Rows were written by `push`, so that all of their fields are there.
        [(); FIELDS].map(|()| taken(&mut rest).unwrap_or_default())
    }

    /// All rows as bytes.
    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Bytes of memory.
    pub(super) fn size(&self) -> usize {
        self.bytes.capacity() + size_of::<usize>() * self.starts.capacity()
    }
}

/// The rows of a state.
pub(super) fn rows_of<const FIELDS: usize>(
    mut state: &[u8],
) -> impl Iterator<Item = DfResult<[&[u8]; FIELDS]>> {
    std::iter::from_fn(move || {
        if state.is_empty() {
            return None;
        }
        let mut row = [&[][..]; FIELDS];
        for field in &mut row {
            match taken(&mut state) {
                Some(bytes) => *field = bytes,
                None => {
                    state = &[];
                    return Some(Err(internal_datafusion_err!(
                        "Q1: the state of an aggregate"
                    )));
                }
            }
        }
        Some(Ok(row))
    })
}

/// Takes the first string off.
fn taken<'b>(rest: &mut &'b [u8]) -> Option<&'b [u8]> {
    let (length, behind) = rest.split_first_chunk::<LENGTH>()?;
    let (field, behind) = behind.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    *rest = behind;
    Some(field)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_state_has_the_rows() {
        let mut rows = KeptRows::<2>::default();
        rows.push([b"a", b""]).unwrap();
        rows.push([b"", b"longer"]).unwrap();
        assert_eq!(rows.get(1), [&b""[..], b"longer"]);
        let read: DfResult<Vec<_>> = rows_of::<2>(rows.as_bytes()).collect();
        assert_eq!(read.unwrap(), [rows.get(0), rows.get(1)]);
        let cut = &rows.as_bytes()[..rows.as_bytes().len() - 1];
        assert!(rows_of::<2>(cut).any(|row| row.is_err()));
    }
}
