//! What interprets NDP descriptors. To the store itself a descriptor is an untyped byte string
//! (taurus-ndp section IV.D); [`PerigeePlugin`] is Perigee's own interpreter, `perigee_ndp`.

use std::any::Any;
use std::sync::Arc;

use bytes::Bytes;
use perigee_ndp::{
    AggregateBudget, Backend, DESCRIPTOR_VERSION, Descriptor, EXPRESSION_VERSION, Execution,
    FILTER_VERSION, Filter, Filters, GroupMemory, JoinTable, NdpError, Scanner,
};
use perigee_page::PageRef;
use perigee_page_api::{Capabilities, give_way};

/// Makes programs of descriptors. One instance serves all threads.
pub trait NdpPlugin: Send + Sync + 'static {
    /// Decodes, checks and compiles a descriptor. The store keeps what it gets and asks again only
    /// when it has forgotten it.
    ///
    /// # Errors
    /// Why the descriptor is not taken: its version, its form, or what it asks for. The store
    /// declines every page of the request then.
    fn prepare(&self, descriptor: &Bytes) -> Result<Arc<dyn NdpProgram>, String>;

    /// What it knows.
    fn capabilities(&self) -> Capabilities {
        Capabilities::OLDEST
    }

    /// Decodes and checks a run-time filter, or a join table. The store keeps what it gets and asks again only when it
    /// has forgotten it.
    ///
    /// # Errors
    /// Why it is not taken; requests go without it then.
    fn prepare_filter(&self, _filter: &Bytes) -> Result<PreparedFilter, String> {
        Err("run-time filters are not known".to_owned())
    }
}

/// A filter or a join table that is ready to be used.
#[derive(Clone)]
pub struct PreparedFilter {
    /// Only the plugin that made it knows what it is.
    pub ready: Arc<dyn Any + Send + Sync>,
    /// Bytes of memory that it takes, about.
    pub bytes: usize,
}

/// What a run gets from the store.
pub struct RunResources<'a> {
    /// Filters and join tables that the plugin prepared.
    pub filters: &'a [PreparedFilter],
    /// Bytes of memory that the groups of all runs of the request may take,
    pub group_bytes: usize,
    /// of which there are so many at a time,
    pub runs: usize,
    /// and whom they are charged to.
    pub memory: Arc<dyn GroupMemory>,
    /// So many rows are enough of the run.
    pub enough: Option<u64>,
}

/// A descriptor made ready to run.
pub trait NdpProgram: Send + Sync + 'static {
    /// A run over some pages of one request, by one thread. It goes without filters that are not for this
    /// descriptor.
    fn run(&self, resources: RunResources<'_>) -> Box<dyn NdpRun>;

    /// True if it runs machine code.
    fn is_compiled(&self) -> bool;

    /// True if it cannot be run without something that requests bring along, like a join table.
    fn needs_more(&self) -> bool {
        false
    }

    /// True if that is among these.
    fn runs_with(&self, _filters: &[PreparedFilter]) -> bool {
        true
    }
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

    /// True if it has given out as many rows as are enough, so that those of later pages are not needed: such a page
    /// may be left out.
    fn has_enough(&self) -> bool {
        false
    }

    /// Answers the page with this index as one of which no row is needed.
    fn leave_out(&mut self, index: u32) -> PageOutcome;

    /// The page that comes after the next one, in case that can be made use of.
    fn announce(&mut self, _page: &[u8]) {}

    /// Rows that wait to be taken.
    fn rows(&self) -> usize;

    /// Bytes of memory that these rows take, about.
    fn bytes(&self) -> usize;

    /// Records that each filter left out since the last call; nothing if none has.
    fn dropped(&mut self) -> Vec<u64> {
        Vec::new()
    }

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

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            descriptor: DESCRIPTOR_VERSION.into(),
            expression: EXPRESSION_VERSION.into(),
            filter: FILTER_VERSION.into(),
        }
    }

    fn prepare_filter(&self, filter: &Bytes) -> Result<PreparedFilter, String> {
        if JoinTable::is_one(filter) {
            let table = JoinTable::decode(filter).map_err(|error| error.to_string())?;
            let bytes = table.memory();
            let ready = Arc::new(table);
            return Ok(PreparedFilter { ready, bytes });
        }
        let decoded = Filter::decode(filter).map_err(|error| error.to_string())?;
        Ok(PreparedFilter {
            ready: Arc::new(decoded),
            bytes: FILTER_BYTES_PER_BYTE * filter.len(),
        })
    }
}

/// Memory of a filter for each byte of its content: listed keys are kept in tables.
const FILTER_BYTES_PER_BYTE: usize = 2;

struct PerigeeProgram(Arc<Scanner>);

impl PerigeeProgram {
    /// The table that the program joins with, if it is among these.
    fn table(&self, filters: &[PreparedFilter]) -> Option<Arc<JoinTable>> {
        let mut tables = filters
            .iter()
            .filter_map(|filter| filter.ready.clone().downcast::<JoinTable>().ok());
        tables.find(|table| self.0.joins_with(table))
    }
}

impl NdpProgram for PerigeeProgram {
    fn run(&self, resources: RunResources<'_>) -> Box<dyn NdpRun> {
        let RunResources {
            filters,
            group_bytes,
            runs,
            memory,
            enough,
        } = resources;
        let grouping = &self.0.descriptor().grouping;
        let budget = AggregateBudget::of(grouping.memory_of(group_bytes) / runs.max(1));
        let mut run = Execution::charged(self.0.clone(), budget, Some(memory))
            .pausing(give_way)
            .remembering()
            .until(enough);
        let layout = &self.0.descriptor().layout;
        let mut bound = Vec::new();
        let mut places = Vec::new();
        for (place, filter) in filters.iter().enumerate() {
            let Ok(filter) = filter.ready.clone().downcast::<Filter>() else {
                continue;
            };
            match filter.check(layout) {
                Ok(()) => {
                    bound.push(filter);
                    places.push(place);
                }
                Err(error) => tracing::debug!("filter left out: {error}"),
            }
        }
        let table = self.table(filters);
        if !bound.is_empty() || table.is_some() {
            let filters = Filters::bind(layout, &bound).expect("they were checked");
            run.set_filters(filters.with_table(table));
        }
        Box::new(PerigeeRun {
            run,
            places,
            filters: filters.len(),
        })
    }

    fn is_compiled(&self) -> bool {
        self.0.is_compiled()
    }

    fn needs_more(&self) -> bool {
        self.0.descriptor().join.is_some()
    }

    fn runs_with(&self, filters: &[PreparedFilter]) -> bool {
        !self.needs_more() || self.table(filters).is_some()
    }
}

struct PerigeeRun {
    run: Execution,
    /// Which of the filters it runs,
    places: Vec<usize>,
    /// of so many.
    filters: usize,
}

impl NdpRun for PerigeeRun {
    fn page(&mut self, index: u32, page: &[u8]) -> PageOutcome {
        match PageRef::new(page) {
            Ok(page) => outcome(self.run.page(index, page)),
            Err(_) => PageOutcome::Declined,
        }
    }

    fn has_enough(&self) -> bool {
        self.run.has_enough()
    }

    fn leave_out(&mut self, index: u32) -> PageOutcome {
        outcome(self.run.leave_out(index))
    }

    fn announce(&mut self, page: &[u8]) {
        if let Ok(page) = page.try_into() {
            self.run.announce(page);
        }
    }

    fn rows(&self) -> usize {
        self.run.rows()
    }

    fn bytes(&self) -> usize {
        self.run.bytes()
    }

    fn dropped(&mut self) -> Vec<u64> {
        let counts = self.run.take_dropped();
        if counts.iter().all(|count| *count == 0) {
            return Vec::new();
        }
        let mut dropped = vec![0; self.filters];
        for (place, count) in self.places.iter().zip(counts) {
            dropped[*place] = count;
        }
        dropped
    }

    fn take(&mut self) -> Bytes {
        self.run.take().encode()
    }
}

fn outcome(taken: Result<(), NdpError>) -> PageOutcome {
    match taken {
        Ok(()) => PageOutcome::Taken,
        Err(NdpError::Full) => PageOutcome::Full,
        Err(error) => {
            tracing::debug!("page declined: {error}");
            PageOutcome::Declined
        }
    }
}
