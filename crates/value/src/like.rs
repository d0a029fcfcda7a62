//! LIKE: patterns compiled once, matched against UTF-8 text character by character.
//!
//! `%` stands for any number of characters, `_` for one; the character after the escape character
//! stands for itself. There is no padding: `'a '` is not LIKE `'a'`.

use crate::Collation;
use crate::collation::{compared_by, weight};
use crate::string::starts_char;

/// A compiled LIKE pattern. Matching takes time at most proportional to text length times
/// pattern length and allocates for nothing but weights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LikePattern {
    shape: Shape,
    collation: Collation,
}

/// The frequent forms, which need no backtracking, and the rest.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Shape {
    /// `abc`
    Exact(Box<[u8]>),
    /// `abc%`
    Prefix(Box<[u8]>),
    /// `%abc`
    Suffix(Box<[u8]>),
    /// `%abc%`
    Contains(Box<[u8]>),
    /// Literals separated by `%`: `a%b%c`, every one without `_`.
    Pieces {
        /// What the text begins with.
        prefix: Box<[u8]>,
        /// What follows in this order, without overlap.
        middle: Box<[Box<[u8]>]>,
        /// What the text ends with.
        suffix: Box<[u8]>,
    },
    /// Anything with `_`.
    Tokens(Box<[Token]>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    /// These bytes.
    Literal(Box<[u8]>),
    /// `_`
    One,
    /// `%`
    Any,
}

impl LikePattern {
    /// Compiles a pattern for texts that compare character by character.
    #[must_use]
    pub fn new(pattern: &str, escape: char) -> Self {
        Self::collated(pattern, escape, Collation::UTF8MB4_BIN)
    }

    /// Compiles a pattern for texts of a collation: characters are alike if they have one weight. The
    /// escape character is only itself.
    #[must_use]
    pub fn collated(pattern: &str, escape: char, collation: Collation) -> Self {
        let weigh = match collation {
            Collation::UTF8MB4_GENERAL_CI => weight,
            _ => |char| char,
        };
        Self {
            shape: Shape::new(tokenize(pattern, escape, weigh)),
            collation,
        }
    }

    /// True if `text` is LIKE the pattern.
    #[must_use]
    pub fn matches(&self, text: &[u8]) -> bool {
        self.shape.matches(&compared_by(self.collation, text))
    }

    /// What every matching text, or its weights, begins with (for key ranges).
    #[must_use]
    pub fn literal_prefix(&self) -> &[u8] {
        self.shape.literal_prefix()
    }
}

impl Shape {
    fn new(tokens: Vec<Token>) -> Self {
        if tokens.contains(&Token::One) {
            return Self::Tokens(tokens.into());
        }
        let mut pieces = vec![Vec::new()];
        for token in tokens {
            match token {
                Token::Literal(bytes) => pieces.last_mut().expect("never empty").extend(bytes),
                _ => pieces.push(Vec::new()),
            }
        }
        let suffix = pieces.pop().expect("never empty").into_boxed_slice();
        if pieces.is_empty() {
            return Self::Exact(suffix);
        }
        let prefix = pieces.remove(0).into_boxed_slice();
        let middle: Box<[Box<[u8]>]> = pieces.into_iter().map(Vec::into_boxed_slice).collect();
        match (prefix.is_empty(), &*middle, suffix.is_empty()) {
            (_, [], true) => Self::Prefix(prefix),
            (true, [], false) => Self::Suffix(suffix),
            (true, [_], true) => Self::Contains(middle[0].clone()),
            _ => Self::Pieces {
                prefix,
                middle,
                suffix,
            },
        }
    }

    fn matches(&self, text: &[u8]) -> bool {
        match self {
            Self::Exact(literal) => text == &**literal,
            Self::Prefix(literal) => text.starts_with(literal),
            Self::Suffix(literal) => text.ends_with(literal),
            Self::Contains(literal) => find(text, literal).is_some(),
            Self::Pieces {
                prefix,
                middle,
                suffix,
            } => {
                let inner = text.strip_prefix(&**prefix);
                let Some(mut rest) = inner.and_then(|rest| rest.strip_suffix(&**suffix)) else {
                    return false;
                };
                middle.iter().all(|piece| match find(rest, piece) {
                    Some(at) => {
                        rest = &rest[at + piece.len()..];
                        true
                    }
                    None => false,
                })
            }
            Self::Tokens(tokens) => matches_tokens(text, tokens),
        }
    }

    fn literal_prefix(&self) -> &[u8] {
        match self {
            Self::Exact(literal) | Self::Prefix(literal) => literal,
            Self::Pieces { prefix, .. } => prefix,
            Self::Tokens(tokens) => match tokens.first() {
                Some(Token::Literal(literal)) => literal,
                _ => &[],
            },
            Self::Suffix(_) | Self::Contains(_) => &[],
        }
    }
}

/// Splits into literals, whose characters `weigh` replaces, `_` and `%`; adjacent `%` become one.
fn tokenize(pattern: &str, escape: char, weigh: fn(char) -> char) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut literal = String::new();
    let mut chars = pattern.chars();
    while let Some(next) = chars.next() {
        // The escape character comes first: it may be `%` or `_` itself. At the end of the
        // pattern it stands for itself.
        let wildcard = match next {
            _ if next == escape => {
                literal.push(weigh(chars.next().unwrap_or(next)));
                continue;
            }
            '%' => Token::Any,
            '_' => Token::One,
            _ => {
                literal.push(weigh(next));
                continue;
            }
        };
        if !literal.is_empty() {
            tokens.push(Token::Literal(
                std::mem::take(&mut literal).into_bytes().into(),
            ));
        }
        if wildcard != Token::Any || tokens.last() != Some(&Token::Any) {
            tokens.push(wildcard);
        }
    }
    if !literal.is_empty() {
        tokens.push(Token::Literal(literal.into_bytes().into()));
    }
    tokens
}

/// Matches from left to right; after a failure only the last `%` takes one character more, which
/// is enough, because an earlier one could not do better.
fn matches_tokens(text: &[u8], tokens: &[Token]) -> bool {
    let (mut at, mut token) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    loop {
        let step = match tokens.get(token) {
            None if at == text.len() => return true,
            None => None,
            Some(Token::Any) => {
                if token + 1 == tokens.len() {
                    return true;
                }
                retry = Some((at, token));
                Some(0)
            }
            Some(Token::One) => (at < text.len()).then(|| char_len(&text[at..])),
            Some(Token::Literal(bytes)) => text[at..].starts_with(bytes).then_some(bytes.len()),
        };
        match (step, retry) {
            (Some(step), _) => {
                at += step;
                token += 1;
            }
            (None, Some((from, any))) if from < text.len() => {
                at = from + char_len(&text[from..]);
                retry = Some((at, any));
                token = any + 1;
            }
            (None, _) => return false,
        }
    }
}

/// Bytes of the character that `text`, which is not empty, begins with.
fn char_len(text: &[u8]) -> usize {
    text[1..]
        .iter()
        .position(|byte| starts_char(*byte))
        .map_or(text.len(), |next| next + 1)
}

/// Offset of the first occurrence of `literal`.
fn find(text: &[u8], literal: &[u8]) -> Option<usize> {
    let Some((first, rest)) = literal.split_first() else {
        return Some(0);
    };
    let last = text.len().checked_sub(literal.len())?;
    let mut from = 0;
    while from <= last {
        let at = from + text[from..=last].iter().position(|byte| byte == first)?;
        if text[at + 1..].starts_with(rest) {
            return Some(at);
        }
        from = at + 1;
    }
    None
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
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
