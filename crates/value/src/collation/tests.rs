//! Tests of all collations.
#![allow(clippy::unwrap_used, reason = "tests")]

use proptest::prelude::*;

use super::*;

fn form(collation: Collation, text: &str) -> String {
    String::from_utf8(collation.form(text.as_bytes()).into_owned()).unwrap()
}

fn order(collation: Collation, a: &str, b: &str) -> Ordering {
    collation.compare(a.as_bytes(), b.as_bytes())
}

fn equal(collation: Collation, a: &str, b: &str) -> bool {
    order(collation, a, b).is_eq()
}

const GENERAL: Collation = Collation::UTF8MB4_GENERAL_CI;
const UNICODE: Collation = Collation::UTF8MB4_UNICODE_CI;
const UNICODE_520: Collation = Collation::UTF8MB4_UNICODE_520_CI;
const AI_CI: Collation = Collation::UTF8MB4_0900_AI_CI;
const AS_CS: Collation = Collation::UTF8MB4_0900_AS_CS;

#[test]
fn names_and_numbers_are_found() {
    for collation in Collation::all() {
        assert_eq!(Collation::named(collation.name()), Some(collation));
        assert!(usize::from(collation.0) < NUMBERS);
    }
    assert_eq!(
        Collation::named("UTF8MB4_Bin"),
        Some(Collation::UTF8MB4_BIN)
    );
    assert_eq!(Collation::named("utf8mb4_tlh_ci"), None);
    assert!(!Collation(300).is_text() && Collation(300).name() == "unknown");
}

#[test]
fn variants_of_a_character_have_one_general_weight() {
    assert_eq!(form(GENERAL, "aAäÅ "), "AAAA");
    assert_eq!(form(GENERAL, "Straße"), "STRASE");
    assert_eq!(form(GENERAL, "ñµøæ"), "N\u{39c}\u{d8}\u{c6}");
    assert_eq!(form(GENERAL, "ωώ я"), "\u{3a9}\u{3a9} \u{42f}");
    assert_eq!(form(GENERAL, "ａ中"), "\u{ff21}中");
    assert_eq!(
        form(GENERAL, "😀\u{10ffff}\u{fffd}"),
        "\u{fffd}\u{fffd}\u{fffd}"
    );
}

#[test]
fn general_weights_are_their_own_weights_and_spare_what_patterns_are_made_of() {
    for char in '\u{0}'..=char::MAX {
        let weighed = general_ci::weight(char);
        assert_eq!(general_ci::weight(weighed), weighed, "{char:?}");
        let plain = ['%', '_', '\\', ' '].contains(&weighed);
        assert!(!plain || weighed == char, "{char:?}");
        assert!(u32::from(weighed) <= 0xffff, "{char:?}");
    }
}

#[test]
fn unicode_collations_know_expansions_ligatures_and_marks() {
    for collation in [UNICODE, UNICODE_520, AI_CI] {
        assert!(equal(collation, "Straße", "STRASSE"), "{collation:?}");
        assert!(equal(collation, "ﬁn", "fin"), "{collation:?}");
        assert!(equal(collation, "e\u{301}", "É"), "{collation:?}");
        assert!(equal(collation, "a\0b", "AB"), "{collation:?}");
        assert!(order(collation, "a", "B").is_lt(), "{collation:?}");
        assert!(order(collation, "_", "0").is_lt(), "{collation:?}");
        assert!(order(collation, "9", "a").is_lt(), "{collation:?}");
        assert!(order(collation, "z", "я").is_lt(), "{collation:?}");
        assert!(order(collation, "я", "一").is_lt(), "{collation:?}");
    }
    assert!(equal(UNICODE, "😀", "🚀") && !equal(UNICODE_520, "😀", "🚀"));
    assert!(equal(UNICODE_520, "ø", "O") && !equal(UNICODE, "ø", "O"));
    assert!(
        equal(AI_CI, "가", "\u{1100}\u{1161}") && !equal(UNICODE_520, "가", "\u{1100}\u{1161}")
    );
}

#[test]
fn levels_count_one_after_the_other() {
    assert!(order(AS_CS, "a", "A").is_lt() && order(AS_CS, "A", "á").is_lt());
    assert!(order(AS_CS, "áb", "ac").is_lt() && order(AS_CS, "aB", "áa").is_gt());
    assert!(order(AS_CS, "ab", "Ab").is_lt() && order(AS_CS, "Ab", "aBc").is_lt());
    assert!(!equal(AS_CS, "ß", "ss") && equal(AS_CS, "a", "a\0"));
    assert!(equal(AS_CS, "e\u{301}", "é"));
}

#[test]
fn spaces_count_where_nothing_is_padded() {
    for collation in Collation::all() {
        assert_eq!(
            equal(collation, "a", "a  "),
            collation.pads(),
            "{collation:?}"
        );
    }
    assert!(
        equal(UNICODE, "a", "a\u{a0} \0"),
        "a space that does not break weighs as one"
    );
    assert_eq!(order(GENERAL, "A\t", "a"), Ordering::Less);
    assert_eq!(order(UNICODE, "A\t", "a"), Ordering::Less);
    assert_eq!(order(AI_CI, "A\t", "a"), Ordering::Greater);
    assert_eq!(order(GENERAL, "a  B", "A"), Ordering::Greater);
}

#[test]
fn characters_are_alike_one_by_one() {
    let alike = |collation: Collation, a: char, b: char| collation.alike(a) == collation.alike(b);
    assert!(alike(UNICODE, 'a', 'Á') && alike(UNICODE, '%', '％') && !alike(UNICODE, 's', 'ß'));
    assert!(!alike(UNICODE, '😀', '🚀') && alike(GENERAL, '😀', '🚀'));
    assert!(alike(AI_CI, 'a', 'Á') && !alike(AS_CS, 'a', 'A') && alike(AS_CS, 'Å', '\u{212b}'));
    for collation in Collation::all() {
        for char in '\0'..='\u{30000}' {
            let other = collation.alike(char);
            assert_eq!(collation.alike(other), other, "{collation:?} {char:?}");
        }
    }
}

#[test]
fn characters_of_one_byte_order_by_their_weights() {
    let swedish = Collation::LATIN1_SWEDISH_CI;
    assert!(equal(swedish, "ü", "y") && equal(swedish, "ÄÖ", "äö "));
    assert!(order(swedish, "z", "å").is_lt() && order(swedish, "Å", "ä").is_lt());
    assert!(order(Collation::LATIN1_BIN, "€", "é").is_lt() && order(swedish, "ÿ", "ł").is_lt());
    assert!(order(Collation::LATIN1_GENERAL_CI, "A", "á").is_lt());
    assert!(order(Collation::LATIN1_GENERAL_CI, "á", "B").is_lt());
    assert!(equal(Collation::ASCII_GENERAL_CI, "a", "A") && !equal(Collation::ASCII_BIN, "a", "A"));
    assert_eq!(Charset::Latin1.bytes_of("a€ł"), &b"a\x80?"[..]);
    assert_eq!(Charset::Latin1.text_of(b"\xe9\x80").as_deref(), Some("é€"));
    assert!(Charset::Latin1.has("é€") && !Charset::Latin1.has("ł") && !Charset::Ascii.has("é"));
}

#[test]
fn every_character_has_a_form() {
    for collation in Collation::all().filter(|collation| collation.is_text()) {
        for char in '\0'..=char::MAX {
            let text = char.to_string();
            let form = form(collation, &text);
            assert!(form.len() <= 80, "{collation:?} {char:?}");
            assert_eq!(
                collation.compare(text.as_bytes(), text.as_bytes()),
                Ordering::Equal
            );
        }
    }
}

fn any_collation() -> impl Strategy<Value = Collation> {
    prop::sample::select(Collation::all().collect::<Vec<_>>())
}

proptest! {
    #[test]
    fn comparing_is_comparing_forms(
        collation in any_collation(),
        a in "[\t !aAbBsSßéÉ😀가ﬁ\u{301}\u{0}\u{a0}%_ 一ø]{0,6}",
        b in "[\t !aAbBsSßéÉ😀가ﬁ\u{301}\u{0}\u{a0}%_ 一ø]{0,6}",
    ) {
        let (x, y) = (collation.form(a.as_bytes()), collation.form(b.as_bytes()));
        let expected = match collation.pads() {
            true => string::compare(&x, &y),
            false => x.cmp(&y),
        };
        prop_assert_eq!(order(collation, &a, &b), expected);
        prop_assert_eq!(order(collation, &b, &a), expected.reverse());
        prop_assert_eq!(x == y, expected.is_eq());
        let both = [a.as_bytes(), b.as_bytes()].concat();
        let both = collation.form(&both);
        let prefix = collation.form_prefix(a.as_bytes());
        let prefix = match collation.pads() {
            true => string::trim_end(&prefix),
            false => &prefix,
        };
        prop_assert!(both.starts_with(prefix) || b.is_empty());
    }

    #[test]
    fn any_bytes_have_a_form(
        collation in any_collation(),
        a in prop::collection::vec(any::<u8>(), 0..12),
        b in prop::collection::vec(any::<u8>(), 0..12),
    ) {
        let order = collation.compare(&a, &b);
        prop_assert_eq!(collation.compare(&b, &a), order.reverse());
        let _ = (collation.form(&a), collation.alike_text(&b));
    }
}
