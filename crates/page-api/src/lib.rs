//! What a Page Store offers: the [`PageStore`] trait, its messages and errors (taurus-2020 section
//! 3.4; taurus-ndp sections IV.C and IV.D).
//!
//! The API carries log groups down and pages or NDP results up, all as opaque bytes: it knows
//! neither the page format nor the NDP descriptor, so that other database engines could use it.

mod error;
mod store;

pub use error::PageError;
pub use store::{
    Fragment, NdpDecline, NdpItem, NdpRead, NdpReply, NdpStream, NdpUsage, PageStore, ReadPages,
    SliceKey, SliceStatus, StoreStatus,
};
