//! Which page lies in which slice, and which slice on which Page Store.
//!
//! Neighbouring extents go to different slices, so that a batch read of neighbouring pages keeps
//! all Page Stores busy: the slices of a *group* of `width` slices are striped. Page numbers grow,
//! so slices come into being group by group.

use perigee_types::{DecodeError, PageId, Reader, SliceId, Writer};

/// How the pages of a database are spread. Fixed when the database is made; kept in its superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Consecutive pages that lie in one slice.
    pub extent_pages: u32,
    /// Slices over which consecutive extents are spread.
    pub width: u32,
    /// Pages of a slice.
    pub slice_pages: u64,
    /// Number of Page Stores.
    pub stores: u32,
}

impl Geometry {
    /// Pages of an extent: 1 MiB, long enough for sequential work, short enough to spread a small
    /// table.
    pub const EXTENT_PAGES: u32 = 64;

    /// Says what is wrong with the numbers, if anything.
    pub fn check(&self) -> Result<(), String> {
        if self.extent_pages == 0 || self.width == 0 || self.stores == 0 || self.slice_pages == 0 {
            return Err(format!("geometry has a zero: {self:?}"));
        }
        if !self
            .slice_pages
            .is_multiple_of(u64::from(self.extent_pages))
        {
            return Err(format!(
                "a slice of {} pages is not a multiple of the extent of {} pages",
                self.slice_pages, self.extent_pages
            ));
        }
        if u64::from(self.width)
            .checked_mul(self.slice_pages)
            .is_none()
        {
            return Err(format!(
                "{} slices of {} pages are more than can be numbered",
                self.width, self.slice_pages
            ));
        }
        Ok(())
    }

    /// The slice of a page.
    ///
    /// # Panics
    /// If the page lies beyond the last slice that can be named, 2^32 slices away.
    #[must_use]
    pub fn slice_of(&self, page: PageId) -> SliceId {
        let width = u64::from(self.width);
        let group = page.0 / (width * self.slice_pages);
        let stripe = page.0 / u64::from(self.extent_pages) % width;
        SliceId(u32::try_from(group * width + stripe).expect("slices are numbered in 32 bits"))
    }

    /// Number, among the database's Page Stores, of the one that holds a slice.
    #[must_use]
    pub fn store_of(&self, slice: SliceId) -> usize {
        (slice.0 % self.stores) as usize
    }

    /// Appends the encoded form.
    pub fn encode(&self, w: &mut Writer) {
        w.u32(self.extent_pages)
            .u32(self.width)
            .u64(self.slice_pages)
            .u32(self.stores);
    }

    /// Reads what [`Geometry::encode`] wrote.
    pub fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let geometry = Self {
            extent_pages: r.u32()?,
            width: r.u32()?,
            slice_pages: r.u64()?,
            stores: r.u32()?,
        };
        geometry.check().map_err(|_| DecodeError::new("geometry"))?;
        Ok(geometry)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const SMALL: Geometry = Geometry {
        extent_pages: 4,
        width: 3,
        slice_pages: 8,
        stores: 2,
    };

    #[test]
    fn every_slice_gets_its_share_in_extents() {
        let mut pages: BTreeMap<SliceId, Vec<u64>> = BTreeMap::new();
        for page in 0..48 {
            pages
                .entry(SMALL.slice_of(PageId(page)))
                .or_default()
                .push(page);
        }
        assert_eq!(pages.len(), 6);
        assert!(pages.values().all(|p| p.len() == 8), "{pages:?}");
        assert_eq!(pages[&SliceId(0)], [0, 1, 2, 3, 12, 13, 14, 15]);
        assert_eq!(pages[&SliceId(4)][..4], [28, 29, 30, 31]);
    }

    #[test]
    fn the_superblock_lies_in_the_first_slice_of_the_first_store_whatever_the_geometry() {
        for (extent_pages, width, slice_pages, stores) in [(64, 1, 64, 1), (2, 7, 2, 5)] {
            let geometry = Geometry {
                extent_pages,
                width,
                slice_pages,
                stores,
            };
            let slice = geometry.slice_of(PageId(1));
            assert_eq!((slice, geometry.store_of(slice)), (SliceId(0), 0));
        }
    }

    #[test]
    fn the_encoded_form_comes_back() {
        let mut w = Writer::new();
        SMALL.encode(&mut w);
        let bytes = w.into_bytes();
        assert_eq!(
            Geometry::decode(&mut Reader::new(&bytes, "test")),
            Ok(SMALL)
        );
        for slice_pages in [0, 9, u64::MAX - 3] {
            let wrong = Geometry {
                slice_pages,
                ..SMALL
            };
            let mut w = Writer::new();
            wrong.encode(&mut w);
            assert!(Geometry::decode(&mut Reader::new(&w.into_bytes(), "test")).is_err());
        }
    }
}
