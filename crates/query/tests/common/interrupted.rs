//! A Page Store that has something happen between an NDP batch request and its answer.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::future::BoxFuture;
use perigee_page_api::{
    Capabilities, Fragment, NdpRead, NdpStream, PageError, PageStore, ReadPages, SliceKey,
    SliceStatus, StoreStatus,
};
use perigee_page_store::PageStoreService;
use perigee_types::{DbId, Lsn};

/// What happens; called for each request.
pub type Meanwhile = Arc<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>;

pub struct Interrupted {
    pub store: PageStoreService,
    pub meanwhile: Option<Meanwhile>,
    /// It does not know run-time filters.
    pub older: bool,
}

#[async_trait]
impl PageStore for Interrupted {
    async fn create_slice(&self, slice: SliceKey, epoch: u64) -> Result<(), PageError> {
        self.store.create_slice(slice, epoch).await
    }

    async fn delete_slice(&self, slice: SliceKey, epoch: u64, end: Lsn) -> Result<bool, PageError> {
        self.store.delete_slice(slice, epoch, end).await
    }

    async fn write_logs(&self, fragment: Fragment) -> Result<SliceStatus, PageError> {
        self.store.write_logs(fragment).await
    }

    async fn read_pages(&self, read: ReadPages) -> Result<Vec<Bytes>, PageError> {
        self.store.read_pages(read).await
    }

    async fn ndp_read(&self, mut read: NdpRead) -> Result<NdpStream, PageError> {
        if self.older {
            read.filters.clear();
        }
        if let Some(meanwhile) = &self.meanwhile {
            meanwhile().await;
        }
        self.store.ndp_read(read).await
    }

    async fn set_recycle_lsn(&self, db: DbId, lsn: Lsn) -> Result<(), PageError> {
        self.store.set_recycle_lsn(db, lsn).await
    }

    async fn slice_status(&self, slice: SliceKey) -> Result<SliceStatus, PageError> {
        self.store.slice_status(slice).await
    }

    async fn status(&self) -> Result<StoreStatus, PageError> {
        self.store.status().await
    }

    async fn capabilities(&self) -> Result<Capabilities, PageError> {
        match self.older {
            true => Ok(Capabilities::OLDEST),
            false => self.store.capabilities().await,
        }
    }
}
