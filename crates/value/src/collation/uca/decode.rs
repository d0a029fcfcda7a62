//! The files of weights, which `scripts/collation-weights` makes.
//!
//! A file begins with the number of its characters; these follow in ascending order. A character is a byte, whose
//! upper three bits are how many characters are left out before it (7: so many more as a number behind the byte says),
//! and whose lower five bits are the number of its collation elements. An element begins with its primary weight: 0, or
//! 1 + the zigzag code of the difference to the weight before it that is not 0. If the file has levels, a byte follows,
//! whose lower five bits are the tertiary weight; the upper ones tell the secondary weight: 0 for 0x20, 1 for 0, 2 for a
//! number that follows. Numbers are little-endian in groups of seven bits, of which all but the last have bit 7.

/// A collation element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Element {
    pub primary: u16,
    pub secondary: u16,
    pub tertiary: u8,
}

/// The secondary weight of most characters.
pub(super) const COMMON_SECONDARY: u16 = 0x20;
/// The tertiary weight of most characters.
pub(super) const COMMON_TERTIARY: u8 = 2;

/// The characters of a file and their elements.
#[derive(Default)]
pub(super) struct Elements {
    /// Each character, and where its elements end.
    chars: Vec<(char, usize)>,
    elements: Vec<Element>,
}

impl Elements {
    /// The characters in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = (char, &[Element])> {
        let starts = std::iter::once(0).chain(self.chars.iter().map(|(_, end)| *end));
        let chars = self.chars.iter().zip(starts);
        chars.map(|((char, end), start)| (*char, &self.elements[start..*end]))
    }
}

struct Bytes<'f>(&'f [u8]);

impl Bytes<'_> {
    fn byte(&mut self) -> u8 {
        let (first, rest) = self
            .0
            .split_first()
            .expect("V3: a file of weights is whole");
        self.0 = rest;
        *first
    }

    fn number(&mut self) -> u32 {
        let (mut number, mut shift) = (0, 0);
        loop {
            let byte = self.byte();
            number |= u32::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return number;
            }
            shift += 7;
        }
    }

    fn element(&mut self, last: &mut i32, has_levels: bool) -> Element {
        let primary = match self.number().checked_sub(1) {
            None => 0,
            Some(code) => {
                let half = (code >> 1) as i32;
                *last += if code & 1 == 0 { half } else { -half - 1 };
                *last as u16
            }
        };
        let levels = match has_levels {
            true => self.byte(),
            false => COMMON_TERTIARY,
        };
        Element {
            primary,
            secondary: match levels >> 5 {
                0 => COMMON_SECONDARY,
                1 => 0,
                _ => self.number() as u16,
            },
            tertiary: levels & 0x1f,
        }
    }
}

/// Reads a file.
///
/// # Panics
/// If it is not one: the files are parts of the program.
pub(super) fn decode(file: &[u8], has_levels: bool) -> Elements {
    let mut bytes = Bytes(file);
    let mut out = Elements::default();
    let (mut next, mut last) = (0, 0);
    for _ in 0..bytes.number() {
        let head = bytes.byte();
        let skipped = match u32::from(head >> 5) {
            7 => 7 + bytes.number(),
            few => few,
        };
        let char = char::from_u32(next + skipped).expect("V3: weights are those of characters");
        next = u32::from(char) + 1;
        for _ in 0..head & 0x1f {
            out.elements.push(bytes.element(&mut last, has_levels));
        }
        out.chars.push((char, out.elements.len()));
    }
    assert!(
        bytes.0.is_empty(),
        "V3: a file of weights ends with its last character"
    );
    out
}
