//! NDP descriptors that a Page Store cannot run.

use futures::StreamExt;
use perigee_expr::{Comparison, Node, NodeId, Program, Type};
use perigee_ndp::Descriptor;
use perigee_page_api::{
    NdpDecline, NdpItem, NdpRead, PageStore, PageStoreClient, ReadPages, SliceKey,
};
use perigee_types::{DbId, IndexId, PageId, SliceId, TrxId, checksum};
use perigee_value::{ColumnType, RowLayout};
use perigee_workload::Role;

use crate::support::{address, cluster};
use crate::tables::{check_good, fill};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn descriptors_that_cannot_be_right_are_declined() {
    let dir = tempfile::tempdir().unwrap();
    let mut cluster = cluster(dir.path(), 1, &[]);
    let mut client = cluster.client(None).await.unwrap();
    client.execute("CREATE DATABASE f").await.unwrap();
    fill(&mut client, "good", "straw").await;
    let uri = format!("http://{}", address(dir.path(), "page-store-0"));
    let store = PageStoreClient::new(&uri, Default::default()).unwrap();
    let slice = SliceKey {
        db: DbId(1),
        slice: SliceId(0),
    };
    let lsn = store.slice_status(slice).await.unwrap().persistent_lsn;
    let pages = vec![PageId(1), PageId(2)];
    let read = ReadPages {
        epoch: perigee_page_api::ANY_EPOCH,
        slice,
        lsn,
        pages: pages.clone(),
    };
    let whole = store.read_pages(read).await.unwrap();
    for (what, descriptor) in wrong_descriptors() {
        let read = NdpRead {
            epoch: perigee_page_api::ANY_EPOCH,
            slice,
            lsn,
            pages: pages.clone(),
            descriptor: descriptor.into(),
            filters: Vec::new(),
            enough: None,
        };
        let mut replies = store.ndp_read(read).await.unwrap();
        let mut came = vec![None; pages.len()];
        while let Some(reply) = replies.next().await {
            for item in reply.unwrap_or_else(|e| panic!("{what}: {e}")).items {
                let NdpItem::Declined {
                    index,
                    reason: NdpDecline::Descriptor,
                    page,
                } = item
                else {
                    panic!("{what}: {item:?}")
                };
                came[index as usize] = Some(page);
            }
        }
        let came: Vec<_> = came.into_iter().flatten().collect();
        assert!(came == whole, "{what}: pages come whole");
    }
    check_good(&mut client).await;
    cluster.stop(Role::Frontend).unwrap();
    cluster.stop(Role::PageStore(0)).unwrap();
}

/// Descriptors of another version, cut, random, and with programs that the validator refuses.
fn wrong_descriptors() -> Vec<(&'static str, Vec<u8>)> {
    let int = ColumnType::Int {
        bytes: 8,
        unsigned: false,
    };
    let layout = RowLayout::clustered(&[(int, false), (int, false)], &[0]).unwrap();
    let right = Descriptor::new(DbId(1), IndexId(1), layout, TrxId(50));
    let with = |nodes: Vec<Node>| {
        let mut wrong = right.clone();
        wrong.predicate = Some(Program { nodes });
        wrong.encode().to_vec()
    };
    let column = |index| Node::Column {
        index,
        ty: Type::Int,
    };
    let compare = |left, right| Node::Compare {
        op: Comparison::Less,
        left: NodeId(left),
        right: NodeId(right),
    };
    let mut other_version = right.encode().to_vec();
    other_version[8] = 200;
    let crc = checksum(&other_version[8..]);
    other_version[4..8].copy_from_slice(&crc.to_le_bytes());
    let mut flipped = right.encode().to_vec();
    flipped[20] ^= 1;
    let mut no_column = right.clone();
    no_column.projection = vec![7];
    vec![
        ("another version", other_version),
        ("a flipped bit", flipped),
        ("cut", right.encode()[..30].to_vec()),
        ("nothing", Vec::new()),
        ("noise", (0..200_u8).map(|i| i.wrapping_mul(37)).collect()),
        ("a projection of no column", no_column.encode().to_vec()),
        ("a predicate that is a number", with(vec![column(0)])),
        (
            "a column that is not there",
            with(vec![column(9), column(0), compare(0, 1)]),
        ),
        ("a loop", with(vec![column(0), compare(0, 1)])),
        (
            "an operand that is not there",
            with(vec![column(0), compare(0, 60_000)]),
        ),
        ("no program", with(Vec::new())),
    ]
}
