//! Opening: the redo phase (taurus-2020 section 5.3). The frontend has nothing of its own; the end
//! of the log is on the Log Store, the geometry in the superblock, and where each slice stands on
//! its Page Store.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures::future::try_join_all;
use perigee_crash::{Point, reach};
use perigee_log_api::{LogEntry, LogError, LogStore, PlogInfo, PlogKey};
use perigee_page_api::{PageError, PageStore, ReadPages, SliceKey, SliceStatus};
use perigee_types::{Lsn, SliceId};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use crate::distribute::{self, decode};
use crate::log_buffer::Buffer;
use crate::plogs::{PlogList, PlogWriter};
use crate::retry::{Patience, retry};
use crate::sal::{Shared, Start};
use crate::{Geometry, SUPERBLOCK, SalConfig, SalError, fence, flush, maintain, superblock};

/// Bytes of log read at a time.
const READ_BYTES: u64 = 4 << 20;

/// Buffers that may wait between flusher and distributor. Their bytes are bounded by throttling.
const DISTRIBUTOR_QUEUE: usize = 1024;

/// A slice that a Page Store has: on which store it was found, and where it stands.
type Found = Vec<(SliceId, usize, SliceStatus)>;

/// Slices that their Page Stores have and do not serve.
type Damaged = BTreeMap<SliceId, PageError>;

struct Opening {
    config: SalConfig,
    log: Arc<dyn LogStore>,
    stores: Vec<Arc<dyn PageStore>>,
    patience: Patience,
}

/// Opens the database and starts the layer's tasks.
pub(crate) async fn open(
    config: SalConfig,
    log: Arc<dyn LogStore>,
    stores: Vec<Arc<dyn PageStore>>,
) -> Result<Arc<Shared>, SalError> {
    if stores.is_empty() {
        return Err(SalError::Incompatible(
            "a database needs a page store".to_owned(),
        ));
    }
    let patience = Patience {
        call: config.call_timeout,
        total: config.open_timeout,
    };
    let opening = Opening {
        config,
        log,
        stores,
        patience,
    };
    // Each opening has an epoch of its own, above the ids of all PLogs that there are: no earlier
    // writer makes, extends or deletes a PLog any more.
    let epoch = opening.begin_epoch().await?;
    let serves = Instant::now() + opening.config.least_opening;
    reach(Point::EpochKnown);
    let plogs = opening.list().await?;
    let plogs = opening.seal(&plogs, epoch).await?;
    reach(Point::PlogsSealed);
    if plogs.last().is_some_and(|p| p.plog.plog.0 >= epoch) {
        let text = format!("another frontend has opened {}", opening.config.db);
        return Err(LogError::Fenced(text).into());
    }
    let (found, damaged) = opening.fence_slices(epoch).await?;
    reach(Point::SlicesFenced);
    let (first, last) = opening.extent_of_log(&plogs, &found, &damaged)?;
    let (found, unfilled) = unfilled(found, first);
    opening.check_slices(&found, first, last)?;
    let geometry = match last {
        Lsn(0) => opening.new_geometry()?,
        _ => {
            opening
                .find_geometry((&plogs, epoch), first, &found, &damaged)
                .await?
        }
    };
    opening.check_places(&geometry, &found)?;
    opening.check_places(&geometry, &unfilled)?;

    let list = PlogList::new(&plogs);
    let start = Start {
        geometry,
        epoch,
        last,
        plogs: list,
        damaged,
    };
    let shared = Shared::new(
        opening.config.clone(),
        opening.log.clone(),
        opening.stores.clone(),
        start,
    );
    let started = async {
        tokio::select! {
            resent = opening.resend(&shared, &plogs, &found, last) => resent?,
            never = maintain::recycle_while_opening(&shared, last) => match never {},
        }
        opening.check_unfilled(&shared, &unfilled, first)?;
        reach(Point::LogResent);
        sleep_until(serves).await;
        opening.start(&shared, last).await
    };
    let started = started.await;
    if started.is_err() {
        shared.fail(SalError::ShutDown);
        drop(shared.end_tasks());
    }
    started.map(|()| shared)
}

impl Opening {
    async fn begin_epoch(&self) -> Result<u64, SalError> {
        Ok(retry("beginning an epoch", self.patience, || {
            self.log.begin_epoch(self.config.db)
        })
        .await?)
    }

    async fn list(&self) -> Result<Vec<PlogInfo>, SalError> {
        Ok(retry("listing PLogs", self.patience, || {
            self.log.list(self.config.db)
        })
        .await?)
    }

    /// Seals what earlier writers left open, so that they cannot append any more, and lists again.
    async fn seal(&self, plogs: &[PlogInfo], epoch: u64) -> Result<Vec<PlogInfo>, SalError> {
        for info in plogs.iter().filter(|p| !p.sealed) {
            let seal = || self.log.seal(info.plog, epoch);
            retry(&format!("sealing {}", info.plog), self.patience, seal).await?;
        }
        self.list().await
    }

    /// First and last LSN of the log, which must not have a hole. Of an empty one, the LSN that comes
    /// next and the one before it.
    fn extent_of_log(
        &self,
        plogs: &[PlogInfo],
        found: &Found,
        damaged: &Damaged,
    ) -> Result<(Lsn, Lsn), SalError> {
        let mut written = plogs.iter().filter(|p| p.length > 0);
        let Some(oldest) = written.next() else {
            let last = self.end_of_deleted_log(plogs, found, damaged);
            return Ok((last.next(), last));
        };
        let mut last = oldest;
        for next in written {
            if next.first_lsn != last.last_lsn.next() {
                return Err(SalError::Inconsistent(format!(
                    "log is missing: {} ends with {}, {} begins with {} (L1)",
                    last.plog, last.last_lsn, next.plog, next.first_lsn
                )));
            }
            last = next;
        }
        Ok((oldest.first_lsn, last.last_lsn))
    }

    /// Where a log ended all of whose groups were deleted; 0 if that is not certain, or if there
    /// never were any.
    ///
    /// Truncation leaves the last PLog that has log in it. In earlier versions it left the last PLog,
    /// even if that was empty. That the youngest PLog has the number of its epoch proves
    /// that nothing is missing: its writer made it when it had something to write, so its opening had
    /// finished before, and had sent the Page Stores whatever was in older PLogs; it is empty, so
    /// nothing was acknowledged since. And as truncation waits until every slice has everything up to
    /// the end of the log, the end is where they all stand. Otherwise log may have been lost.
    fn end_of_deleted_log(&self, plogs: &[PlogInfo], found: &Found, damaged: &Damaged) -> Lsn {
        let complete = plogs.last().is_some_and(|p| p.plog.plog.0 == p.epoch);
        let Some((_, _, status)) = found.first() else {
            return Lsn(0);
        };
        let end = status.persistent_lsn;
        let all = found.iter().all(|(_, _, s)| s.persistent_lsn == end);
        if !complete || !all || !damaged.is_empty() {
            return Lsn(0);
        }
        if end > Lsn(0) {
            let db = self.config.db;
            tracing::warn!("{db}: all PLogs are empty; every slice has everything up to {end}");
        }
        end
    }

    /// All slices of the database; from now on they refuse earlier writers. Those that are damaged
    /// are apart: the rest of the database is served without them.
    async fn fence_slices(&self, epoch: u64) -> Result<(Found, Damaged), SalError> {
        let per_store = self
            .stores
            .iter()
            .enumerate()
            .map(|(number, store)| async move {
                let what = format!("page store {number}");
                let status = retry(&what, self.patience, || store.status()).await?;
                let (mut found, mut damaged) = (Found::new(), Damaged::new());
                for (key, _) in status
                    .slices
                    .iter()
                    .filter(|(key, _)| key.db == self.config.db)
                {
                    match retry(&what, self.patience, || store.create_slice(*key, epoch)).await {
                        Ok(()) => {}
                        Err(error @ PageError::Corrupt(_)) => {
                            tracing::error!("{key} cannot be used: {error}");
                            damaged.insert(key.slice, error);
                            continue;
                        }
                        Err(error) => return Err(error.into()),
                    }
                    let status = retry(&what, self.patience, || store.slice_status(*key)).await?;
                    found.push((key.slice, number, status));
                }
                Ok::<_, SalError>((found, damaged))
            });
        let (found, damaged): (Vec<Found>, Vec<Damaged>) =
            try_join_all(per_store).await?.into_iter().unzip();
        Ok((found.concat(), damaged.into_iter().flatten().collect()))
    }

    /// Page Stores hold nothing that the log does not have, and miss nothing that it no longer has.
    /// Slices that have nothing at all are left to [`Opening::check_unfilled`].
    fn check_slices(&self, found: &Found, first: Lsn, last: Lsn) -> Result<(), SalError> {
        let db = self.config.db;
        for (slice, store, status) in found {
            let persistent = status.persistent_lsn;
            if persistent > last {
                return Err(SalError::Inconsistent(format!(
                    "log was lost: {slice} of {db} on page store {store} has everything up to \
                     {persistent}, the log ends with {last} (L1)"
                )));
            }
            if persistent > Lsn(0) && persistent.next() < first {
                return Err(self.lost(*slice, *store, persistent, first));
            }
        }
        Ok(())
    }

    fn lost(&self, slice: SliceId, store: usize, persistent: Lsn, first: Lsn) -> SalError {
        let db = self.config.db;
        SalError::Inconsistent(format!(
            "{slice} of {db} on page store {store} was lost or is old: it has everything up to \
             {persistent}, the log begins with {first} (P6)"
        ))
    }

    /// A slice that has nothing, while the log begins later than the database, was made by a
    /// frontend that died before it told it where it begins: then what was sent again has brought it.
    /// Otherwise the slice was lost.
    fn check_unfilled(
        &self,
        shared: &Shared,
        unfilled: &Found,
        first: Lsn,
    ) -> Result<(), SalError> {
        let slices = shared.slices.read();
        match unfilled.iter().find(|(id, _, _)| !slices.contains_key(id)) {
            Some((slice, store, _)) => Err(self.lost(*slice, *store, Lsn(0), first)),
            None => Ok(()),
        }
    }

    fn new_geometry(&self) -> Result<Geometry, SalError> {
        let stores = self.stores.len() as u32;
        let geometry = Geometry {
            extent_pages: Geometry::EXTENT_PAGES,
            width: if self.config.width == 0 {
                stores
            } else {
                self.config.width
            },
            slice_pages: self.config.slice_pages,
            stores,
        };
        geometry.check().map_err(SalError::Incompatible)?;
        Ok(geometry)
    }

    /// The geometry of an existing database: from the superblock's page or, if slice 0 does not
    /// have it yet, from the first log group.
    async fn find_geometry(
        &self,
        (plogs, epoch): (&[PlogInfo], u64),
        first: Lsn,
        found: &Found,
        damaged: &Damaged,
    ) -> Result<Geometry, SalError> {
        let db = self.config.db;
        if first == Lsn(1) {
            let plog = plogs
                .iter()
                .find(|p| p.length > 0)
                .expect("the log is not empty");
            let read = || self.log.read(plog.plog, 0, 1);
            let entries = retry(&format!("reading {}", plog.plog), self.patience, read).await?;
            let entry = entries.into_iter().next().ok_or_else(|| empty(plog.plog))?;
            let groups = decode(&buffer(entry))?;
            return superblock::from_group(db, &groups[0]);
        }
        let slice = SliceKey {
            db,
            slice: SliceId(0),
        };
        if let Some(error) = damaged.get(&slice.slice) {
            return Err(error.clone().into());
        }
        let Some((_, store, status)) = found.iter().find(|(id, _, _)| *id == slice.slice) else {
            return Err(SalError::Inconsistent(format!(
                "{slice} is on none of the page stores, or has lost what it had (P6)"
            )));
        };
        let read = || {
            let read = ReadPages {
                slice,
                epoch,
                lsn: status.persistent_lsn,
                pages: vec![SUPERBLOCK],
            };
            self.stores[*store].read_pages(read)
        };
        let pages = retry("reading the superblock", self.patience, read).await?;
        superblock::from_page(db, pages.first().map_or(&[], |p| &p[..]))
    }

    fn check_places(&self, geometry: &Geometry, found: &Found) -> Result<(), SalError> {
        let db = self.config.db;
        let given = self.stores.len();
        if geometry.stores as usize != given {
            return Err(SalError::Incompatible(format!(
                "{db} was made with {} page stores, {given} are given",
                geometry.stores
            )));
        }
        for (slice, store, _) in found {
            let expected = geometry.store_of(*slice);
            if *store != expected {
                return Err(SalError::Incompatible(format!(
                    "{slice} of {db} is on page store {store} and belongs on {expected}: \
                     the page stores are not in the order of before"
                )));
            }
        }
        Ok(())
    }

    /// Starts the tasks, and makes the superblock of a new database.
    async fn start(&self, shared: &Arc<Shared>, last: Lsn) -> Result<(), SalError> {
        let writer = PlogWriter::new(self.log.clone(), &self.config, shared.epoch);
        let (sender, receiver) = mpsc::channel(DISTRIBUTOR_QUEUE);
        shared.spawn("flusher", flush::run(shared.clone(), writer, sender));
        shared.spawn("distributor", distribute::run(shared.clone(), receiver));
        shared.spawn("maintenance", maintain::run(shared.clone()));
        shared.spawn("fence", fence::run(shared.clone()));

        if last == Lsn(0) {
            let first = superblock::first_group(self.config.db, &shared.geometry);
            let lsn = shared.append(first);
            assert_eq!(lsn, Lsn(1), "L1: the superblock is the first group");
            shared.wait(|p| p.persistent >= lsn).await?;
            reach(Point::SuperblockMade);
        }
        Ok(())
    }

    /// Sends the slices what they miss of the log up to `end`: distributes it again, from where the
    /// first of them is. Each skips what it has.
    async fn resend(
        &self,
        shared: &Arc<Shared>,
        plogs: &[PlogInfo],
        found: &Found,
        end: Lsn,
    ) -> Result<(), SalError> {
        for (id, _, status) in found {
            shared.add_slice(*id, *status);
        }
        let behind = found.iter().map(|(_, _, s)| s.persistent_lsn).min();
        let behind = behind.unwrap_or(Lsn(0));
        shared.all_is_persistent(behind);
        let mut log = LogReader::new(self, plogs, behind);
        while let Some(entries) = log.next().await? {
            for entry in entries.into_iter().filter(|e| e.last_lsn > behind) {
                shared
                    .unpersisted
                    .fetch_add(entry.payload.len(), Ordering::Relaxed);
                distribute::distribute(shared, &buffer(entry)).await?;
            }
            shared.wait_for_room().await?;
        }
        shared
            .wait(|p| p.persistent >= end || end <= behind)
            .await?;
        shared.all_is_persistent(end);
        Ok(())
    }
}

/// Reads the log, as far as it lies in PLogs that end above an LSN.
struct LogReader<'o> {
    opening: &'o Opening,
    /// Those that are not read to their end.
    plogs: &'o [PlogInfo],
    above: Lsn,
    /// How far the first of them is read.
    offset: u64,
}

impl<'o> LogReader<'o> {
    fn new(opening: &'o Opening, plogs: &'o [PlogInfo], above: Lsn) -> Self {
        Self {
            opening,
            plogs,
            above,
            offset: 0,
        }
    }

    /// Some next entries; `None` at the end.
    async fn next(&mut self) -> Result<Option<Vec<LogEntry>>, SalError> {
        while let Some((info, rest)) = self.plogs.split_first() {
            if self.offset >= info.length || info.last_lsn <= self.above {
                (self.plogs, self.offset) = (rest, 0);
                continue;
            }
            let Opening { log, patience, .. } = self.opening;
            let read = || log.read(info.plog, self.offset, READ_BYTES);
            let entries = retry(&format!("reading {}", info.plog), *patience, read).await?;
            self.offset = entries.last().ok_or_else(|| empty(info.plog))?.next_offset;
            return Ok(Some(entries));
        }
        Ok(None)
    }
}

/// Sets the slices apart that have nothing at all. If all log there ever was is there still, they get it
/// as others do, from its beginning.
fn unfilled(found: Found, first: Lsn) -> (Found, Found) {
    let is_filled = |status: &SliceStatus| status.sequence > 0 || first <= Lsn(1);
    found.into_iter().partition(|(_, _, s)| is_filled(s))
}

fn buffer(entry: LogEntry) -> Buffer {
    Buffer {
        first: entry.first_lsn,
        last: entry.last_lsn,
        groups: entry.payload,
    }
}

fn empty(plog: PlogKey) -> SalError {
    SalError::Inconsistent(format!("{plog} ends before its length"))
}
