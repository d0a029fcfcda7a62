//! What there is for some characters: pages of 256 characters, of which most are missing.

/// Characters of a page.
const PAGE: usize = 256;
/// Pages that there may be.
const PAGES: usize = 0x11_0000 / PAGE;
/// The place of what is missing.
const MISSING: u32 = u32::MAX;

/// A number for some characters.
#[derive(Debug)]
struct Pages {
    /// For each page its place among the entries plus 1, or 0.
    page_of: Vec<u16>,
    entries: Vec<[u32; PAGE]>,
}

impl Default for Pages {
    fn default() -> Self {
        Self {
            page_of: vec![0; PAGES],
            entries: Vec::new(),
        }
    }
}

impl Pages {
    #[inline]
    fn get(&self, char: char) -> Option<u32> {
        let (page, at) = (
            u32::from(char) as usize / PAGE,
            u32::from(char) as usize % PAGE,
        );
        let page = usize::from(self.page_of[page]).checked_sub(1)?;
        let entry = self.entries[page][at];
        (entry != MISSING).then_some(entry)
    }

    fn set(&mut self, char: char, entry: u32) {
        let (page, at) = (
            u32::from(char) as usize / PAGE,
            u32::from(char) as usize % PAGE,
        );
        if self.page_of[page] == 0 {
            self.entries.push([MISSING; PAGE]);
            self.page_of[page] = self.entries.len() as u16;
        }
        self.entries[usize::from(self.page_of[page]) - 1][at] = entry;
    }
}

/// The forms of characters.
#[derive(Debug, Default)]
pub(super) struct CharForms {
    /// Where a form begins among the bytes, and in the low byte how long it is.
    places: Pages,
    bytes: Vec<u8>,
}

impl CharForms {
    /// The forms that a function makes of what there is for characters.
    pub fn of<'e, E: ?Sized + 'e>(
        chars: impl Iterator<Item = (char, &'e E)>,
        form: impl Fn(&E, &mut String),
    ) -> Self {
        let mut out = Self::default();
        let mut own = String::new();
        for (char, from) in chars {
            own.clear();
            form(from, &mut own);
            assert!(own.len() < PAGE, "V3: the form of a character is short");
            out.places
                .set(char, (out.bytes.len() << 8 | own.len()) as u32);
            out.bytes.extend_from_slice(own.as_bytes());
        }
        out
    }

    /// The characters that have forms, in ascending order.
    pub fn chars(&self) -> impl Iterator<Item = char> {
        let pages = (0_u32..)
            .zip(&self.places.page_of)
            .filter(|(_, at)| **at > 0);
        let chars =
            pages.flat_map(|(page, _)| (0..PAGE as u32).map(move |at| page * PAGE as u32 + at));
        chars
            .filter_map(char::from_u32)
            .filter(|char| self.places.get(*char).is_some())
    }

    /// The form of a character; `None` if the table does not have it.
    #[inline]
    pub fn get(&self, char: char) -> Option<&[u8]> {
        let place = self.places.get(char)?;
        let (start, len) = (place as usize >> 8, place as usize & 0xff);
        Some(&self.bytes[start..start + len])
    }
}

/// A character for some characters.
#[derive(Debug, Default)]
pub(super) struct Chars(Pages);

impl Chars {
    #[inline]
    pub fn get(&self, char: char) -> Option<char> {
        self.0.get(char).and_then(char::from_u32)
    }

    pub fn set(&mut self, char: char, other: char) {
        self.0.set(char, other.into());
    }
}
