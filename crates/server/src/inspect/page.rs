//! `perigee inspect page`: one page version from the files of a Page Store, from a running one, or
//! from a file that holds a page.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use clap::Args;
use perigee_page::PageRef;
use perigee_page_api::{PageError, PageStore, PageStoreClient, ReadPages, SliceKey};
use perigee_types::{DbId, Lsn, PageId};

use super::{print, store_dir};

/// Which page, where it lies, and what to do with it.
#[derive(Debug, Args)]
pub struct PageArgs {
    /// Number of the page; 1 is the superblock
    #[arg(value_name = "PAGE", required_unless_present = "file")]
    page: Option<u64>,
    /// Read the files in this directory of a Page Store or of `perigee serve`
    #[arg(
        long,
        value_name = "DIR",
        group = "source",
        default_value = "perigee-data"
    )]
    data: PathBuf,
    /// Ask a running Page Store
    #[arg(long, value_name = "ADDRESS", group = "source")]
    page_store: Option<String>,
    /// Look at the bytes in a file
    #[arg(long, value_name = "FILE", group = "source", conflicts_with_all = ["page", "lsn", "database"])]
    file: Option<PathBuf>,
    /// The version as of this LSN; the newest if not given
    #[arg(long, value_name = "LSN")]
    lsn: Option<u64>,
    /// Number of the database
    #[arg(long, value_name = "N", default_value_t = 1)]
    database: u32,
    /// Write the bytes of the page to a file
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
}

/// Prints the page. It is printed as far as it can be read, then an error says what is wrong.
pub async fn run(args: PageArgs) -> Result<(), String> {
    let (db, lsn) = (DbId(args.database), args.lsn.map(Lsn));
    let (origin, bytes) = match (&args.file, &args.page_store, args.page) {
        (Some(file), _, _) => {
            let bytes =
                std::fs::read(file).map_err(|e| format!("cannot read {}: {e}", file.display()))?;
            (file.display().to_string(), bytes.into())
        }
        (None, Some(address), Some(page)) => {
            let (slice, bytes) = ask(address, db, PageId(page), lsn)
                .await
                .map_err(|e| format!("{address}: {e}"))?;
            (format!("{slice} at {address}"), bytes)
        }
        (None, None, Some(page)) => {
            let dir = store_dir(&args.data, "pages");
            let (slice, bytes) = perigee_page_store::read_page(&dir, db, PageId(page), lsn)
                .map_err(|e| e.to_string())?;
            (format!("{slice} in {}", dir.display()), bytes)
        }
        (None, _, None) => return Err("which page? Give its number".to_owned()),
    };
    if let Some(save) = &args.save {
        write(save, &bytes)?;
    }
    let page = PageRef::new(&bytes[..]).map_err(|e| format!("{origin}: {e}"))?;
    page.verify().map_err(|e| format!("{origin}: {e}"))?;
    print(&format!("{origin}\n{}", page.dump()))?;
    page.verify_checksum()
        .map_err(|e| format!("{origin}: {e}"))?;
    print("checksum and structure are good\n")
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), String> {
    std::fs::write(path, bytes).map_err(|e| format!("cannot write {}: {e}", path.display()))
}

/// Asks a running Page Store, which must be asked by slice: each slice of the database until one
/// has the page.
async fn ask(
    address: &str,
    db: DbId,
    page: PageId,
    lsn: Option<Lsn>,
) -> Result<(SliceKey, Bytes), PageError> {
    let uri = match address.contains("://") {
        true => address.to_owned(),
        false => format!("http://{address}"),
    };
    let store = PageStoreClient::new(&uri, Default::default())?;
    let slices = store.status().await?.slices;
    for (slice, status) in slices.into_iter().filter(|(key, _)| key.db == db) {
        let newest = status.persistent_lsn;
        let read = ReadPages {
            epoch: perigee_page_api::ANY_EPOCH,
            slice,
            lsn: lsn.map_or(newest, |lsn| lsn.min(newest)),
            pages: vec![page],
        };
        match store.read_pages(read).await {
            Err(PageError::NotFound(_)) => {}
            Err(error) => return Err(error),
            Ok(pages) => {
                let bytes = pages.into_iter().next().expect("a page was asked for");
                return Ok((slice, bytes));
            }
        }
    }
    let when = lsn.map_or(String::new(), |lsn| format!(" at {lsn}"));
    Err(PageError::NotFound(format!("{page} of {db}{when}")))
}
