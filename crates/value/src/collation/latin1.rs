//! The bytes of MySQL's `latin1`, which is Windows' code page 1252 with its gaps filled.

/// The characters of the bytes 80 to 9f.
const HIGH_CONTROLS: [char; 32] = [
    '€', '\u{81}', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\u{8d}', 'Ž',
    '\u{8f}', //
    '\u{90}', '‘', '’', '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', '\u{9d}', 'ž', 'Ÿ',
];

/// The character that a byte is.
#[must_use]
pub fn char_of(byte: u8) -> char {
    match byte {
        0x80..=0x9f => HIGH_CONTROLS[usize::from(byte) - 0x80],
        _ => char::from(byte),
    }
}

/// The byte that a character is; `None` if it is none.
#[inline]
#[must_use]
pub fn byte_of(char: char) -> Option<u8> {
    match u32::from(char) {
        code @ (0..0x80 | 0xa0..0x100) => Some(code as u8),
        _ => {
            let place = HIGH_CONTROLS.iter().position(|other| *other == char)?;
            Some(place as u8 + 0x80)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_and_characters_are_one_to_one() {
        for byte in 0..=u8::MAX {
            assert_eq!(byte_of(char_of(byte)), Some(byte));
        }
        assert_eq!(byte_of('\u{80}'), None);
        assert_eq!(byte_of('ł'), None);
    }
}
