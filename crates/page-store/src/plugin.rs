//! What interprets NDP descriptors. To the store itself a descriptor is an untyped byte string
//! (taurus-ndp section IV.D); [`PerigeePlugin`] is Perigee's own interpreter, `perigee_ndp`.

use std::sync::Arc;

use bytes::Bytes;
use perigee_ndp::{Backend, Descriptor, Execution, NdpError, Scanner};
use perigee_page::PageRef;
use perigee_page_api::give_way;

/// Makes programs of descriptors. One instance serves all threads.
pub trait NdpPlugin: Send + Sync + 'static {
    /// Decodes, checks and compiles a descriptor. The store keeps what it gets and asks again only
    /// when it has forgotten it.
    ///
    /// # Errors
    /// Why the descriptor is not taken: its version, its form, or what it asks for. The store
    /// declines every page of the request then.
    fn prepare(&self, descriptor: &Bytes) -> Result<Arc<dyn NdpProgram>, String>;
}

/// A descriptor made ready to run.
pub trait NdpProgram: Send + Sync + 'static {
    /// A run over some pages of one request, by one thread.
    fn run(&self) -> Box<dyn NdpRun>;

    /// True if it runs machine code.
    fn is_compiled(&self) -> bool;
}

/// What became of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageOutcome {
    /// It is in the result.
    Taken,
    /// It is not what the descriptor describes, and left no trace.
    Declined,
    /// The result must be taken first, and the page be given again.
    Full,
}

/// A run in progress.
pub trait NdpRun {
    /// Takes in the page with this index in the request.
    fn page(&mut self, index: u32, page: &[u8]) -> PageOutcome;

    /// The page that comes after the next one, in case that can be made use of.
    fn announce(&mut self, _page: &[u8]) {}

    /// Rows that wait to be taken.
    fn rows(&self) -> usize;

    /// Bytes of memory that these rows take, about.
    fn bytes(&self) -> usize;

    /// The result for the pages since the last call; the run goes on with nothing.
    fn take(&mut self) -> Bytes;
}

/// Perigee's NDP.
#[derive(Clone, Copy, Debug)]
pub struct PerigeePlugin {
    /// How programs are run.
    pub backend: Backend,
}

impl PerigeePlugin {
    /// NDP whose programs are interpreted instead of compiled.
    #[must_use]
    pub fn interpreting() -> Self {
        Self {
            backend: Backend::Interpreter,
        }
    }
}

impl Default for PerigeePlugin {
    fn default() -> Self {
        Self {
            backend: Backend::Jit,
        }
    }
}

impl NdpPlugin for PerigeePlugin {
    fn prepare(&self, descriptor: &Bytes) -> Result<Arc<dyn NdpProgram>, String> {
        let scanner = Descriptor::decode(descriptor)
            .and_then(|descriptor| Scanner::new(descriptor, self.backend))
            .map_err(|error| error.to_string())?;
        Ok(Arc::new(PerigeeProgram(Arc::new(scanner))))
    }
}

struct PerigeeProgram(Arc<Scanner>);

impl NdpProgram for PerigeeProgram {
    fn run(&self) -> Box<dyn NdpRun> {
        let run = Execution::new(self.0.clone());
        Box::new(PerigeeRun(run.pausing(give_way)))
    }

    fn is_compiled(&self) -> bool {
        self.0.is_compiled()
    }
}

struct PerigeeRun(Execution);

impl NdpRun for PerigeeRun {
    fn page(&mut self, index: u32, page: &[u8]) -> PageOutcome {
        let taken = match PageRef::new(page) {
            Ok(page) => self.0.page(index, page),
            Err(_) => return PageOutcome::Declined,
        };
        match taken {
            Ok(()) => PageOutcome::Taken,
            Err(NdpError::Full) => PageOutcome::Full,
            Err(error) => {
                tracing::debug!("page declined: {error}");
                PageOutcome::Declined
            }
        }
    }

    fn announce(&mut self, page: &[u8]) {
        if let Ok(page) = page.try_into() {
            self.0.announce(page);
        }
    }

    fn rows(&self) -> usize {
        self.0.rows()
    }

    fn bytes(&self) -> usize {
        self.0.bytes()
    }

    fn take(&mut self) -> Bytes {
        self.0.take().encode()
    }
}
