//! Reads on their way. A flight brings some pages into the pool; everybody who wants one of them
//! joins it. A flight goes on whether or not somebody awaits it.
//!
//! What has landed is not pinned: a scan that waits for its reader does not keep others from the
//! pool. It keeps the bytes instead, until it has used them.

use std::sync::Arc;

use futures::future::{BoxFuture, Shared};

use perigee_page_api::PageError;
use perigee_sal::SalError;

use super::Page;
use crate::{EngineError, errand};

/// A read of some pages. Its output is sorted by page id: the pages as they were when the flight
/// began, because a page that is out of the pool does not change.
pub(super) type Flight = Shared<BoxFuture<'static, Result<Arc<[Page]>, EngineError>>>;

/// A page in the pool, or on its way to it.
#[derive(Clone)]
pub enum PageLoad {
    /// It is in the pool: the page as it was when it was asked for.
    Resident(Page),
    /// It is being read.
    Loading(FlightSeat),
}

/// A place in a flight.
#[derive(Clone)]
pub struct FlightSeat {
    pub(super) page: perigee_types::PageId,
    pub(super) flight: Flight,
}

impl FlightSeat {
    /// Waits until the page is there, or the statement is stopped.
    pub async fn land(self) -> Result<Page, EngineError> {
        let pages = errand::wait(self.flight).await?;
        match pages.binary_search_by_key(&self.page, |p| p.get().id()) {
            Ok(at) => Ok(pages[at].clone()),
            // The others are there.
            Err(_) => {
                let text = format!("{} was freed", self.page);
                Err(SalError::Page(PageError::NotFound(text)).into())
            }
        }
    }
}

impl PageLoad {
    /// The page; waits until it is there, or the statement is stopped.
    pub async fn land(self) -> Result<Page, EngineError> {
        match self {
            Self::Resident(page) => Ok(page),
            Self::Loading(seat) => seat.land().await,
        }
    }
}

impl std::fmt::Debug for PageLoad {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Resident(page) => f.debug_tuple("Resident").field(&page.get().id()).finish(),
            Self::Loading(seat) => f.debug_tuple("Loading").field(&seat.page).finish(),
        }
    }
}
