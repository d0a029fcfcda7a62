//! LIKE: patterns compiled once, matched against UTF-8 text character by character.
//!
//! `%` stands for any number of characters, `_` for one; the character after the escape character
//! stands for itself. There is no padding: `'a '` is not LIKE `'a'`.

use memchr::memmem::Finder;

use crate::Collation;
use crate::string::starts_char;

/// Stands for `%` in a compiled pattern: a byte that UTF-8 does not have.
const ANY: u8 = 0xFF;

/// Stands for `_`.
const ONE: u8 = 0xFE;

/// Literals between `%` for which searches are prepared. A prepared search takes more memory than most literals, and
/// a pattern may have millions of them.
const PREPARED: usize = 16;

/// Steps of matching between two looks whether to go on: some hundred microseconds.
const STEPS: u32 = 1 << 16;

/// A compiled LIKE pattern, of about its text's size. Matching allocates for nothing but alike characters. It takes time
/// proportional to the text's length, or with `_` inside of a piece between two `%` at most to text length times
/// the piece's length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LikePattern {
    shape: Shape,
    collation: Collation,
}

/// The frequent forms, which need no wildcards while matching, and the rest.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Shape {
    /// `abc`
    Exact(Box<[u8]>),
    /// `abc%`
    Prefix(Box<[u8]>),
    /// `%abc`
    Suffix(Box<[u8]>),
    /// `%abc%`
    Contains(Needle),
    /// Some literals separated by `%`: `a%b%c`, every one without `_`.
    Pieces {
        /// What the text begins with.
        prefix: Box<[u8]>,
        /// What follows in this order, without overlap.
        middle: Box<[Needle]>,
        /// What the text ends with.
        suffix: Box<[u8]>,
    },
    /// Anything else: literals with [`ANY`] and [`ONE`].
    Wild(Box<[u8]>),
}

/// What is searched for in a text, in time proportional to the text's length.
#[derive(Clone, Debug)]
struct Needle(Box<Finder<'static>>);

impl Needle {
    fn new(literal: &[u8]) -> Self {
        Self(Box::new(Finder::new(literal).into_owned()))
    }

    /// What follows the first occurrence.
    fn behind<'t>(&self, text: &'t [u8]) -> Option<&'t [u8]> {
        let at = self.0.find(text)?;
        Some(&text[at + self.0.needle().len()..])
    }
}

impl PartialEq for Needle {
    fn eq(&self, other: &Self) -> bool {
        self.0.needle() == other.0.needle()
    }
}

impl Eq for Needle {}

impl LikePattern {
    /// Compiles a pattern for texts that compare character by character.
    #[must_use]
    pub fn new(pattern: &str, escape: char) -> Self {
        Self::collated(pattern, escape, Collation::UTF8MB4_BIN)
    }

    /// Compiles a pattern for texts of a collation: characters are alike if the collation says so. The
    /// escape character is only itself.
    #[must_use]
    pub fn collated(pattern: &str, escape: char, collation: Collation) -> Self {
        let alike = |char| collation.alike(char);
        Self {
            shape: Shape::new(compile(pattern, escape, alike)),
            collation,
        }
    }

    /// True if `text` is LIKE the pattern.
    #[must_use]
    pub fn matches(&self, text: &[u8]) -> bool {
        let always = &mut || true;
        self.matches_while(text, always).unwrap_or_default()
    }

    /// As [`LikePattern::matches`]; `None` if `go_on`, which is asked now and then, said no before that was known.
    pub fn matches_while(&self, text: &[u8], go_on: &mut impl FnMut() -> bool) -> Option<bool> {
        let text = self.collation.alike_text(text);
        self.shape.matches(&text, go_on)
    }

    /// What every matching text, or one whose characters are alike, begins with (for key ranges).
    #[must_use]
    pub fn literal_prefix(&self) -> &[u8] {
        self.shape.literal_prefix()
    }
}

impl Shape {
    fn new(compiled: Vec<u8>) -> Self {
        let pieces: Vec<&[u8]> = split(&compiled, ANY).take(PREPARED + 3).collect();
        if compiled.contains(&ONE) || pieces.len() > PREPARED + 2 {
            return Self::Wild(compiled.into());
        }
        let (prefix, middle, suffix) = match pieces[..] {
            [prefix, ref middle @ .., suffix] => (prefix, middle, suffix),
            _ => return Self::Exact(compiled.into()),
        };
        match (prefix.is_empty(), middle, suffix.is_empty()) {
            (_, [], true) => Self::Prefix(prefix.into()),
            (true, [], false) => Self::Suffix(suffix.into()),
            (true, [only], true) => Self::Contains(Needle::new(only)),
            _ => Self::Pieces {
                prefix: prefix.into(),
                middle: middle.iter().map(|piece| Needle::new(piece)).collect(),
                suffix: suffix.into(),
            },
        }
    }

    fn matches(&self, text: &[u8], go_on: &mut impl FnMut() -> bool) -> Option<bool> {
        Some(match self {
            Self::Exact(literal) => text == &**literal,
            Self::Prefix(literal) => text.starts_with(literal),
            Self::Suffix(literal) => text.ends_with(literal),
            Self::Contains(needle) => needle.behind(text).is_some(),
            Self::Pieces {
                prefix,
                middle,
                suffix,
            } => {
                let inner = text.strip_prefix(&**prefix);
                let inner = inner.and_then(|rest| rest.strip_suffix(&**suffix));
                let mut pieces = middle.iter();
                let rest = inner
                    .and_then(|inner| pieces.try_fold(inner, |rest, piece| piece.behind(rest)));
                rest.is_some()
            }
            Self::Wild(compiled) => {
                let mut walk = Walk { go_on, steps: 0 };
                return walk.matches(text, compiled).ok();
            }
        })
    }

    fn literal_prefix(&self) -> &[u8] {
        match self {
            Self::Exact(literal) | Self::Prefix(literal) => literal,
            Self::Pieces { prefix, .. } => prefix,
            Self::Wild(compiled) => {
                let mut literals = compiled.split(|byte| matches!(*byte, ANY | ONE));
                literals.next().unwrap_or_default()
            }
            Self::Suffix(_) | Self::Contains(_) => &[],
        }
    }
}

/// A pattern, with `\\` as escape character, that matches the texts of alike characters if the pattern matches the text;
/// of that pattern it is the pattern itself.
#[must_use]
pub fn alike_pattern(pattern: &str, collation: Collation) -> String {
    const ESCAPE: char = '\\';
    let mut out = String::with_capacity(pattern.len());
    let mut chars = pattern.chars();
    while let Some(next) = chars.next() {
        let literal = match next {
            '%' | '_' => {
                out.push(next);
                continue;
            }
            ESCAPE => collation.alike(chars.next().unwrap_or(ESCAPE)),
            next => collation.alike(next),
        };
        if matches!(literal, '%' | '_' | ESCAPE) {
            out.push(ESCAPE);
        }
        out.push(literal);
    }
    out
}

/// A pattern as its literals, whose characters `alike` replaces, [`ONE`] and [`ANY`], of which adjacent ones become one.
fn compile(pattern: &str, escape: char, alike: impl Fn(char) -> char) -> Vec<u8> {
    let mut compiled = Vec::with_capacity(pattern.len());
    let literal = |compiled: &mut Vec<u8>, character: char| {
        let mut bytes = [0; 4];
        compiled.extend_from_slice(alike(character).encode_utf8(&mut bytes).as_bytes());
    };
    let mut chars = pattern.chars();
    while let Some(next) = chars.next() {
        // The escape character comes first: it may be `%` or `_` itself. At the end of the
        // pattern it stands for itself.
        match next {
            _ if next == escape => literal(&mut compiled, chars.next().unwrap_or(next)),
            '%' if compiled.last() == Some(&ANY) => {}
            '%' => compiled.push(ANY),
            '_' => compiled.push(ONE),
            _ => literal(&mut compiled, next),
        }
    }
    compiled
}

/// What is between the places of a byte.
fn split(bytes: &[u8], at: u8) -> impl Iterator<Item = &[u8]> {
    bytes.split(move |byte| *byte == at)
}

/// The statement does not need the answer any more.
struct Stopped;

/// Matching a text with a pattern that has wildcards.
struct Walk<'g, F> {
    go_on: &'g mut F,
    steps: u32,
}

impl<F: FnMut() -> bool> Walk<'_, F> {
    fn step(&mut self) -> Result<(), Stopped> {
        self.steps = self.steps.wrapping_add(1);
        match self.steps.is_multiple_of(STEPS) && !(self.go_on)() {
            true => Err(Stopped),
            false => Ok(()),
        }
    }

    /// True if the text matches. From left to right each piece is taken where it is found first: a later place
    /// leaves less to the pieces that follow.
    fn matches(&mut self, text: &[u8], compiled: &[u8]) -> Result<bool, Stopped> {
        let Some(last) = compiled.iter().rposition(|byte| *byte == ANY) else {
            let rest = self.behind_prefix(text, compiled)?;
            return Ok(rest.is_some_and(<[u8]>::is_empty));
        };
        let (pieces, last) = (&compiled[..last], &compiled[last + 1..]);
        let mut pieces = split(pieces, ANY);
        let first = pieces.next().unwrap_or_default();
        let Some(mut rest) = self.behind_prefix(text, first)? else {
            return Ok(false);
        };
        for piece in pieces {
            match self.behind(rest, piece)? {
                Some(behind) => rest = behind,
                None => return Ok(false),
            }
        }
        let Some(end) = last_chars(rest, characters(last)) else {
            return Ok(false);
        };
        let rest = self.behind_prefix(end, last)?;
        Ok(rest.is_some_and(<[u8]>::is_empty))
    }

    /// What follows a piece that the text begins with.
    fn behind_prefix<'t>(
        &mut self,
        text: &'t [u8],
        piece: &[u8],
    ) -> Result<Option<&'t [u8]>, Stopped> {
        let mut rest = text;
        for (i, literal) in split(piece, ONE).enumerate() {
            self.step()?;
            if i > 0 {
                match rest.is_empty() {
                    true => return Ok(None),
                    false => rest = &rest[char_len(rest)..],
                }
            }
            match rest.strip_prefix(literal) {
                Some(behind) => rest = behind,
                None => return Ok(None),
            }
        }
        Ok(Some(rest))
    }

    /// What follows the first place of a piece.
    fn behind<'t>(&mut self, text: &'t [u8], piece: &[u8]) -> Result<Option<&'t [u8]>, Stopped> {
        let ones = piece.iter().take_while(|byte| **byte == ONE).count();
        let Some(mut rest) = self.behind_prefix(text, &piece[..ones])? else {
            return Ok(None);
        };
        let piece = &piece[ones..];
        let literal = split(piece, ONE).next().unwrap_or_default();
        let tail = &piece[literal.len()..];
        let search = Finder::new(literal);
        loop {
            self.step()?;
            let Some(at) = search.find(rest) else {
                return Ok(None);
            };
            let found = self.behind_prefix(&rest[at + literal.len()..], tail)?;
            if found.is_some() {
                return Ok(found);
            }
            rest = &rest[at + char_len(&rest[at..])..];
        }
    }
}

/// Characters that a piece stands for.
fn characters(piece: &[u8]) -> usize {
    piece.iter().filter(|byte| starts_char(**byte)).count()
}

/// So many characters at the end of a text.
fn last_chars(text: &[u8], count: usize) -> Option<&[u8]> {
    let Some(before) = count.checked_sub(1) else {
        return Some(&[]);
    };
    let places = text.iter().enumerate().rev();
    let mut starts = places.filter(|(_, byte)| starts_char(**byte));
    starts.nth(before).map(|(at, _)| &text[at..])
}

/// Bytes of the character that `text`, which is not empty, begins with.
fn char_len(text: &[u8]) -> usize {
    text[1..]
        .iter()
        .position(|byte| starts_char(*byte))
        .map_or(text.len(), |next| next + 1)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::collation::general_ci::weight;
    use proptest::prelude::*;

    fn like(text: &str, pattern: &str) -> bool {
        LikePattern::new(pattern, '\\').matches(text.as_bytes())
    }

    #[test]
    fn shapes() {
        assert!(like("forest green", "forest%") && !like("a forest", "forest%"));
        assert!(like("large brass", "%brass") && !like("brass plate", "%brass"));
        assert!(!like("a special case request b", "%special%requests%"));
        assert!(like("the special new requests", "%special%requests%"));
        assert!(like("", "") && like("", "%") && !like("", "_") && !like("a", ""));
        assert!(like("aé€", "___") && !like("aé€", "____"));
        assert!(like("xayb", "%a_b%") && like("aab", "a%b") && !like("ab", "a%_b"));
        assert!(!like("a ", "a") && !like("ab", "ab%b"));
        assert!(like("aXbXc", "a%X%c") && !like("aXc", "a%X%X%c"));
    }

    #[test]
    fn wildcards_between_and_around_literals() {
        assert!(like("xxaéby", "%a_b_") && !like("xxaéb", "%a_b_") && !like("xxaéby", "%a_b"));
        assert!(like("aab", "%a_") && like("aaxb", "%a_b") && !like("ab", "%a_b%"));
        assert!(like("abcabd", "%ab_%abd") && !like("abcabd", "%ab__%abd"));
        assert!(like("€€a", "__%a") && !like("€a", "__%a") && like("a€€", "a%__"));
        assert!(like("a-b-c", "a_b%_c") && !like("a-b", "a_b%_b"));
        let many = "%x".repeat(2 * PREPARED);
        assert!(like(&"yx".repeat(2 * PREPARED), &many));
        assert!(!like(&"yx".repeat(2 * PREPARED - 1), &many));
        assert!(!like(&"yx".repeat(2 * PREPARED - 1), &format!("{many}%")));
    }

    #[test]
    fn matching_stops_when_it_is_told_to() {
        let text = "x".repeat(4000);
        let pattern = LikePattern::new(&format!("%{}y%", "x_".repeat(1000)), '\\');
        let mut asked = 0;
        let go_on = &mut || {
            asked += 1;
            asked < 3
        };
        assert_eq!(pattern.matches_while(text.as_bytes(), go_on), None);
        assert_eq!(asked, 3);
        assert!(!pattern.matches(text.as_bytes()));
    }

    #[test]
    fn a_pattern_takes_no_more_than_its_text() {
        for pattern in ["%x_", "%x", "_", "x"] {
            let pattern = pattern.repeat(1000);
            let bytes = match LikePattern::new(&pattern, '\\').shape {
                Shape::Wild(bytes) | Shape::Exact(bytes) => bytes,
                shape => panic!("{shape:?}"),
            };
            assert!(bytes.len() <= pattern.len());
        }
    }

    #[test]
    fn escapes() {
        assert!(like("50%", "50\\%") && !like("500", "50\\%"));
        assert!(like("a_b", "a\\_b") && !like("axb", "a\\_b"));
        assert!(like("a\\", "a\\") && like("a\\b", "a\\\\b") && like("ab", "a\\b"));
        assert!(LikePattern::new("a%%b", '%').matches(b"a%b"));
        assert!(!LikePattern::new("a%%b", '%').matches(b"axb"));
        assert!(LikePattern::new("10|_%", '|').matches(b"10_x"));
    }

    #[test]
    fn prefixes_for_ranges() {
        let prefix = |p| LikePattern::new(p, '\\').literal_prefix().to_vec();
        assert_eq!(prefix("abc%"), b"abc");
        assert_eq!(prefix("abc%d"), b"abc");
        assert_eq!(prefix("ab_d"), b"ab");
        assert_eq!(prefix("%d"), b"");
        assert_eq!(prefix("a\\%"), b"a%");
    }

    #[test]
    fn characters_of_one_weight_are_alike() {
        let like = |text: &str, pattern: &str| {
            let pattern = LikePattern::collated(pattern, 'x', Collation::UTF8MB4_GENERAL_CI);
            pattern.matches(text.as_bytes())
        };
        assert!(like("Straße", "STRA_e") && like("Éclair", "ec%R") && like("😀", "🚀"));
        assert!(like("STRAßE", "%s%") && !like("STRAẞE", "%ss%"));
        assert!(like("a%B", "Ax%b") && !like("axB", "Ax%b"), "the escape");
        assert!(like("aXb", "AXB"), "another letter than the escape");
        assert!(!like("a ", "a"), "no padding");
        let prefix = LikePattern::collated("é%", '\\', Collation::UTF8MB4_GENERAL_CI);
        assert_eq!(prefix.literal_prefix(), b"E");
    }

    /// The definition, by recursion.
    fn model(text: &[char], pattern: &[char]) -> bool {
        match pattern {
            [] => text.is_empty(),
            ['%', rest @ ..] => (0..=text.len()).any(|skip| model(&text[skip..], rest)),
            ['_', rest @ ..] => !text.is_empty() && model(&text[1..], rest),
            ['\\', c, rest @ ..] => text.first() == Some(c) && model(&text[1..], rest),
            [c, rest @ ..] => text.first() == Some(c) && model(&text[1..], rest),
        }
    }

    proptest! {
        #[test]
        fn equals_the_definition(text in "[abé%]{0,8}", pattern in "[abé%_\\\\]{0,8}") {
            let (t, p): (Vec<char>, Vec<char>) = (text.chars().collect(), pattern.chars().collect());
            prop_assert_eq!(like(&text, &pattern), model(&t, &p));
        }

        #[test]
        fn equals_the_definition_over_weights(
            text in "[aAéE%]{0,8}",
            pattern in "[aAéÉ%_\\\\]{0,8}",
        ) {
            let weigh = |text: &str| text.chars().map(weight).collect::<Vec<char>>();
            let collated = LikePattern::collated(&pattern, '\\', Collation::UTF8MB4_GENERAL_CI);
            let expected = model(&weigh(&text), &weigh(&pattern));
            prop_assert_eq!(collated.matches(text.as_bytes()), expected);
        }

        #[test]
        fn any_bytes_are_fine(text in prop::collection::vec(any::<u8>(), 0..20), pattern: String) {
            let _ = LikePattern::new(&pattern, '\\').matches(&text);
        }
    }
}
