//! Memcomparable keys: the bytes of two encoded keys compare as SQL compares the values
//! (`docs/format/key.md`). Values that SQL calls equal have equal bytes; no encoded part is a
//! prefix of another of its type, so that parts concatenate to keys and the first parts of a key
//! are a prefix of its bytes.

use crate::overflow::is_plausible;
use crate::time::is_valid_time;
use crate::{
    Collation, ColumnType, Datum, MAX_KEY_LEN, RowError, RowLayout, ValueError, ValueErrorKind,
    ValueRef, Wide, bits, date, decimal, string,
};

/// First byte of a nullable part that is NULL.
const NULL: u8 = 0;
/// First byte of a nullable part that is not NULL.
const NOT_NULL: u8 = 1;

// In strings with PAD SPACE three codes take the place of the space, so that the end of a string
// compares as endless spaces would; bytes above the space move up by two.
/// A space in a run that ends before a byte below the space.
const SPACE_LOW: u8 = 0x20;
/// The end of the string.
const STRING_END: u8 = 0x21;
/// A space in a run that ends before a byte above the space.
const SPACE_HIGH: u8 = 0x22;
/// How far bytes above the space move.
const SHIFT: u8 = 2;

// In strings without padding a zero byte is followed by 0xff, and two zero bytes are the end.
const BINARY_ESCAPE: u8 = 0xff;

/// Appends the encoding of the first `values.len()` parts of the layout's key: a whole key, or a
/// prefix for ranges.
pub fn encode_key(layout: &RowLayout, values: &[Datum], out: &mut Vec<u8>) -> Result<(), RowError> {
    if values.len() > layout.key.len() {
        return Err(RowError::ColumnCount {
            expected: layout.key.len(),
            got: values.len(),
        });
    }
    encode_parts(layout, values.iter().map(Datum::as_ref), out)
}

/// Appends the encoded key of a row given in the layout's column order.
///
/// # Panics
/// If `row` has fewer values than the layout has columns.
pub fn encode_key_of_row(
    layout: &RowLayout,
    row: &[Datum],
    out: &mut Vec<u8>,
) -> Result<(), RowError> {
    encode_parts(
        layout,
        layout
            .key
            .iter()
            .map(|column| row[usize::from(*column)].as_ref()),
        out,
    )
}

fn encode_parts<'a>(
    layout: &RowLayout,
    values: impl Iterator<Item = ValueRef<'a>>,
    out: &mut Vec<u8>,
) -> Result<(), RowError> {
    let start = out.len();
    for (value, column) in values.zip(&layout.key) {
        let place = &layout.columns[usize::from(*column)];
        encode_part(place.ty, place.null_bit.is_some(), value, out).map_err(|error| {
            RowError::Column {
                column: *column,
                error,
            }
        })?;
    }
    match out.len() - start {
        len if len > MAX_KEY_LEN => Err(RowError::KeyTooLong(len)),
        _ => Ok(()),
    }
}

/// Appends the encoding of one value. Fails if it is not a value of the type; whether integers
/// and decimals are within the type's range is checked, so that no value is cut.
pub fn encode_part(
    ty: ColumnType,
    nullable: bool,
    value: ValueRef<'_>,
    out: &mut Vec<u8>,
) -> Result<(), ValueError> {
    match (ty.collation(), value) {
        (Some(collation), ValueRef::String(text)) => {
            if collation.is_text() && !text.is_ascii() && std::str::from_utf8(text).is_err() {
                return Err(ValueError::new(ValueErrorKind::Incorrect, ty, text));
            }
            let form = ValueRef::String(&collation.form(text));
            encode_form_part(ty, nullable, form, out)
        }
        _ => encode_form_part(ty, nullable, value, out),
    }
}

/// As [`encode_part`]; a string is given as its form in the type's collation already.
pub fn encode_form_part(
    ty: ColumnType,
    nullable: bool,
    value: ValueRef<'_>,
    out: &mut Vec<u8>,
) -> Result<(), ValueError> {
    if value.is_null() {
        if !nullable {
            return Err(ValueError::new(ValueErrorKind::NullNotAllowed, ty, b"NULL"));
        }
        // Parts of fixed width keep it, so that the columns behind them have constant offsets.
        out.push(NULL);
        out.resize(out.len() + usize::from(ty.stored_width().unwrap_or(0)), 0);
        return Ok(());
    }
    if nullable {
        out.push(NOT_NULL);
    }
    match (ty, value) {
        (_, ValueRef::String(form)) if ty.is_string() => {
            encode_form(ty, form, out);
            Ok(())
        }
        _ if ty.is_wide() => {
            out.extend_from_slice(crate::record::stored_wide(ty, value)?.as_bytes());
            Ok(())
        }
        _ => {
            let width = usize::from(ty.stored_width().unwrap_or(0));
            let bits = ordered_bits(ty, value)?;
            out.extend_from_slice(&bits.to_be_bytes()[16 - width..]);
            Ok(())
        }
    }
}

/// The stored bits of a value of fixed width, in its low bytes, so arranged that unsigned
/// comparison gives SQL's order.
pub(crate) fn ordered_bits(ty: ColumnType, value: ValueRef<'_>) -> Result<u128, ValueError> {
    let bits = crate::record::stored_bits(ty, value)?;
    let width = u32::from(ty.stored_width().unwrap_or(0));
    let sign = 1 << (8 * width - 1);
    Ok(match ty {
        _ if ty.is_unsigned() => bits,
        ColumnType::Float | ColumnType::Double => {
            if bits == sign {
                // -0 and 0 are equal.
                sign
            } else if bits & sign == 0 {
                bits | sign
            } else {
                !bits & (sign | (sign - 1))
            }
        }
        _ => bits ^ sign,
    })
}

/// Stored bits from the bits of a key part: the inverse of [`ordered_bits`].
pub(crate) fn unordered_bits(ty: ColumnType, bits: u128) -> u128 {
    let width = u32::from(ty.stored_width().unwrap_or(0));
    let sign = 1 << (8 * width - 1);
    match ty {
        _ if ty.is_unsigned() => bits,
        ColumnType::Float | ColumnType::Double if bits & sign == 0 => !bits & (sign | (sign - 1)),
        _ => bits ^ sign,
    }
}

fn encode_form(ty: ColumnType, form: &[u8], out: &mut Vec<u8>) {
    if ty.collation().is_some_and(Collation::pads) {
        encode_padded(string::trim_end(form), out);
        out.push(STRING_END);
        return;
    }
    encode_unpadded(form, out);
    out.extend_from_slice(&[0, 0]);
}

/// Encodes bytes of which all count.
fn encode_unpadded(form: &[u8], out: &mut Vec<u8>) {
    for byte in form {
        out.push(*byte);
        if *byte == 0 {
            out.push(BINARY_ESCAPE);
        }
    }
}

/// Encodes UTF-8 without trailing spaces: byte for byte.
fn encode_padded(text: &[u8], out: &mut Vec<u8>) {
    let mut rest = text;
    while let Some((byte, behind)) = rest.split_first() {
        match byte {
            b' ' => {
                let next = rest
                    .iter()
                    .position(|byte| *byte != b' ')
                    .unwrap_or(rest.len());
                let low = rest.get(next).is_some_and(|byte| *byte < b' ');
                let code = if low { SPACE_LOW } else { SPACE_HIGH };
                out.resize(out.len() + next, code);
                rest = &rest[next..];
                continue;
            }
            0..b' ' => out.push(*byte),
            _ => out.push(byte + SHIFT),
        }
        rest = behind;
    }
}

/// What the encodings of all strings that begin with `prefix` begin with (the first bytes of a
/// part after its NULL byte). It can be shorter than necessary, as trailing spaces of a padded `prefix` are left out; a range made of it may hold more strings, never fewer. `None` for bytes that
/// are not UTF-8 and for the binary collation.
#[must_use]
pub fn encode_string_prefix(ty: ColumnType, prefix: &[u8]) -> Option<Vec<u8>> {
    let collation = ty.collation()?;
    if collation == Collation::BINARY || std::str::from_utf8(prefix).is_err() {
        return None;
    }
    let mut out = Vec::with_capacity(prefix.len());
    let form = collation.form_prefix(prefix);
    match collation.pads() {
        true => encode_padded(string::trim_end(&form), &mut out),
        false => encode_unpadded(&form, &mut out),
    }
    Some(out)
}

/// The least byte string above all that begin with `prefix`; `None` if there is none.
#[must_use]
pub fn prefix_upper(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != 0xff)?;
    let mut upper = prefix[..=last].to_vec();
    upper[last] += 1;
    Some(upper)
}

/// Reads one part; gives the value and the bytes behind it. Strings come back without their
/// trailing spaces if they are padded, and as their forms ([`Collation::form`]).
pub fn decode_part(
    ty: ColumnType,
    nullable: bool,
    bytes: &[u8],
) -> Result<(Datum, &[u8]), ValueError> {
    let corrupt = || ValueError::new(ValueErrorKind::Corrupt, ty, bytes);
    let (null, body) = match (nullable, bytes.split_first()) {
        (false, _) => (false, bytes),
        (true, Some((&NULL, body))) => (true, body),
        (true, Some((&NOT_NULL, body))) => (false, body),
        _ => return Err(corrupt()),
    };
    let Some(width) = ty.stored_width() else {
        if null {
            return Ok((Datum::Null, body));
        }
        let decoded = match ty.collation().is_some_and(Collation::pads) {
            true => decode_padded(body),
            false => decode_unpadded(body),
        };
        let (text, rest) = decoded.ok_or_else(corrupt)?;
        check_stored(ty, ValueRef::String(&text))?;
        return Ok((Datum::String(text), rest));
    };
    let (part, rest) = body
        .split_at_checked(usize::from(width))
        .ok_or_else(corrupt)?;
    if null {
        return Ok((Datum::Null, rest));
    }
    let value = match part.first_chunk() {
        Some(wide) if ty.is_wide() => ValueRef::Wide(Wide::from_bytes(*wide)),
        _ => crate::record::value_of_bits(ty, read_key_bits(ty, part)),
    };
    check_stored(ty, value).map(|()| (value.to_datum(), rest))
}

/// Stored bits of a key part of fixed width.
pub(crate) fn read_key_bits(ty: ColumnType, part: &[u8]) -> u128 {
    let mut bytes = [0; 16];
    bytes[16 - part.len()..].copy_from_slice(part);
    unordered_bits(ty, u128::from_be_bytes(bytes))
}

/// Checks that stored bits are a value of the type.
pub(crate) fn check_stored(ty: ColumnType, value: ValueRef<'_>) -> Result<(), ValueError> {
    let fine = match (ty, value) {
        (ColumnType::Decimal { precision, .. }, ValueRef::Decimal(v)) => {
            decimal::fits(v, precision)
        }
        (ColumnType::Decimal { precision, .. }, ValueRef::Wide(v)) => v.units().fits(precision),
        (_, ValueRef::Date(v)) => date::is_stored_day(v),
        (_, ValueRef::DateTime(v)) => ty.has_micros(v),
        (_, ValueRef::Time(v)) => is_valid_time(v),
        (ColumnType::Year, ValueRef::UInt(v)) => date::is_valid_year(v),
        (ColumnType::Bit { bits }, ValueRef::UInt(v)) => v <= bits::greatest(bits),
        (_, ValueRef::Double(v)) => v.is_finite(),
        (ColumnType::Int { bytes: 3, unsigned }, value) => {
            let (least, greatest) = ColumnType::int_range(3, unsigned);
            let value = match value {
                ValueRef::UInt(v) => i128::from(v),
                ValueRef::Int(v) => i128::from(v),
                _ => return Ok(()),
            };
            (least..=greatest).contains(&value)
        }
        (_, ValueRef::String(text)) => {
            ty.collation() == Some(Collation::BINARY)
                || text.is_ascii()
                || std::str::from_utf8(text).is_ok()
        }
        (_, ValueRef::Overflow(reference)) => is_plausible(ty, reference),
        _ => true,
    };
    if fine {
        return Ok(());
    }
    let shown = format!("{value:?}");
    Err(ValueError::new(
        ValueErrorKind::Corrupt,
        ty,
        shown.as_bytes(),
    ))
}

fn decode_padded(bytes: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let end = bytes.iter().position(|byte| *byte == STRING_END)?;
    let text = bytes[..end]
        .iter()
        .map(|byte| match *byte {
            SPACE_LOW | SPACE_HIGH => b' ',
            low @ ..SPACE_LOW => low,
            high => high - SHIFT,
        })
        .collect();
    Some((text, &bytes[end + 1..]))
}

fn decode_unpadded(bytes: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut text = Vec::new();
    let mut rest = bytes;
    loop {
        rest = match rest {
            [0, 0, rest @ ..] => return Some((text, rest)),
            [0, BINARY_ESCAPE, rest @ ..] => {
                text.push(0);
                rest
            }
            [0, ..] | [] => return None,
            [byte, rest @ ..] => {
                text.push(*byte);
                rest
            }
        };
    }
}

#[cfg(test)]
mod tests;
