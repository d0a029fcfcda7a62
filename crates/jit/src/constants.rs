//! Data that compiled code refers to by address: patterns, tables, descriptions of operations.
//!
//! Items are shared (`Arc`) and never changed, so that their addresses stay valid for reading
//! until the collection is dropped, wherever it moves.

use std::any::Any;
use std::sync::Arc;

/// Everything that one evaluator's code refers to.
#[derive(Default)]
pub(crate) struct Constants(Vec<Arc<dyn Any + Send + Sync>>);

impl Constants {
    /// Keeps an item and gives its address.
    pub(crate) fn keep<T: Any + Send + Sync>(&mut self, item: T) -> *const T {
        let item = Arc::new(item);
        let address = Arc::as_ptr(&item);
        self.0.push(item);
        address
    }

    /// Keeps bytes and gives the address of the first.
    pub(crate) fn keep_bytes(&mut self, bytes: &[u8]) -> *const u8 {
        let bytes: Arc<Box<[u8]>> = Arc::new(bytes.into());
        let address = bytes.as_ptr();
        self.0.push(bytes);
        address
    }
}
