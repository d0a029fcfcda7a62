//! What near-data processing the Page Stores know: stores of several versions may serve one
//! database while they are replaced one after the other.

use std::time::Duration;

use futures::future::join_all;
use parking_lot::Mutex;
use perigee_page_api::Capabilities;
use tokio::time::sleep;

use crate::retry::once;
use crate::sal::Shared;

/// How often stores are asked. One that was replaced is taken for what it was that long, which costs time
/// only: it declines what it does not know.
const LOOK: Duration = Duration::from_secs(5);

/// A store that does not answer in this time is left as it was.
const PATIENCE: Duration = Duration::from_secs(1);

/// What a store knows, once it has answered.
#[derive(Debug, Default)]
pub(crate) struct Known(Mutex<Option<Capabilities>>);

impl Known {
    /// Nothing before the first answer.
    pub fn get(&self) -> Option<Capabilities> {
        *self.0.lock()
    }
}

/// Asks the stores from time to time, until the layer ends.
pub(crate) async fn run(shared: &Shared) {
    loop {
        let ask = |store: &crate::sal::Store| {
            let api = store.api.clone();
            async move { once("capabilities of a page store", PATIENCE, api.capabilities()).await }
        };
        let answers = join_all(shared.stores.iter().map(ask)).await;
        for (store, answer) in shared.stores.iter().zip(answers) {
            if let Ok(answer) = answer {
                *store.known.0.lock() = Some(answer);
            }
        }
        sleep(LOOK).await;
    }
}

/// What all stores know that have answered; `None` if none has.
pub(crate) fn common(shared: &Shared) -> Option<Capabilities> {
    let known = shared.stores.iter().filter_map(|store| store.known.get());
    known.reduce(Capabilities::common)
}
