//! Frames and their damage, on images of files in memory.

#![allow(clippy::unwrap_used, reason = "tests")]

use perigee_log_api::PlogKey;
use perigee_testkit::Fuzz;
use perigee_types::{DbId, PlogId, checksum};
use proptest::prelude::*;

use super::*;
use crate::frame::{Label, Place, SECTOR, TRAILER_LEN, encode_frame, frame_len};

const KEY: PlogKey = PlogKey {
    db: DbId(7),
    plog: PlogId(0x1234),
};

/// A PLog file in memory, written as the store writes it.
struct Image {
    bytes: Vec<u8>,
    contents: Contents,
    /// Start of each frame, and of the one that would follow.
    starts: Vec<usize>,
}

impl Image {
    fn new(key: PlogKey) -> Self {
        let header = FileHeader {
            plog: key,
            epoch: 3,
        };
        let bytes = header.encode();
        let (_, crc) = FileHeader::decode(&bytes).unwrap();
        Self {
            starts: vec![bytes.len()],
            bytes,
            contents: Contents::new(&header, crc),
        }
    }

    fn of(payloads: &[Vec<u8>]) -> Self {
        let mut image = Self::new(KEY);
        payloads.iter().for_each(|p| image.append(p));
        image
    }

    fn write(&mut self, kind: FrameKind, lsn: u64, payload: &[u8]) {
        let c = &self.contents;
        let place = Place {
            file_crc: c.file_crc,
            previous: c.chain,
            position: c.end,
        };
        let (first_lsn, last_lsn) = (Lsn(lsn), Lsn(lsn));
        let label = Label {
            kind,
            offset: c.length,
            first_lsn,
            last_lsn,
            epoch: 3,
        };
        let frame = encode_frame(place, label, payload);
        assert_eq!(self.bytes.len() as u64, c.end);
        self.bytes.extend_from_slice(&frame.header);
        self.bytes.extend_from_slice(payload);
        self.bytes.extend_from_slice(&frame.ending);
        self.starts.push(self.bytes.len());
        let (header, crc) = FrameHeader::decode(&frame.header, c.file_crc).unwrap();
        self.contents.add(&header, crc);
    }

    fn append(&mut self, payload: &[u8]) {
        self.write(FrameKind::Entry, self.starts.len() as u64, payload);
    }

    fn seal(&mut self) {
        self.write(FrameKind::Seal, 0, &[]);
    }

    /// What the file held before the last frame.
    fn before_last(&self) -> usize {
        self.starts[self.starts.len() - 2]
    }
}

fn run(bytes: &[u8]) -> Result<(Contents, Tail), Damage> {
    match scan(bytes, bytes.len() as u64, |_, _| ()) {
        Ok((_, contents, tail)) => Ok((contents, tail)),
        Err(ScanError::Damage(damage)) => Err(damage),
        Err(ScanError::Io(e)) => panic!("memory has no I/O errors: {e}"),
    }
}

/// Asserts that `bytes` is read as the frames before the last one of `image`, and how it ends.
#[track_caller]
fn assert_without_last(image: &Image, bytes: &[u8], expected: Tail, what: &str) {
    let (contents, tail) = run(bytes).unwrap_or_else(|d| panic!("{what}: damage {d}"));
    assert_eq!(contents.end as usize, image.before_last(), "{what}");
    assert_eq!(tail, expected, "{what}");
}

fn payloads() -> Vec<Vec<u8>> {
    // Zeros throughout, zeros in the middle, no zeros; lengths around the borders of frames.
    vec![
        vec![0; 600],
        vec![9; 56],
        [vec![1; 700], vec![0; 1500], vec![2; 3]].concat(),
        vec![5],
    ]
}

#[test]
fn what_was_written_is_read() {
    let mut image = Image::of(&payloads());
    let mut frames = Vec::new();
    let (file, contents, tail) = scan(image.bytes.as_slice(), image.bytes.len() as u64, |h, p| {
        frames.push((h.offset, p))
    })
    .unwrap();
    assert_eq!(
        file,
        FileHeader {
            plog: KEY,
            epoch: 3
        }
    );
    assert_eq!((&contents, tail), (&image.contents, Tail::End));
    let offsets = [0, 600, 656, 656 + 2203];
    let expected: Vec<_> = offsets
        .iter()
        .zip(&image.starts)
        .map(|(o, p)| (*o, *p as u64))
        .collect();
    assert_eq!(frames, expected);

    image.seal();
    assert_eq!(run(&image.bytes), Ok((image.contents.clone(), Tail::End)));
    assert!(image.contents.sealed);
    for ready in [1, 63, 64, 4096, 100_000] {
        let mut longer = image.bytes.clone();
        longer.resize(longer.len() + ready, 0);
        assert_eq!(
            run(&longer),
            Ok((image.contents.clone(), Tail::End)),
            "{ready} zeros follow"
        );
    }
}

#[test]
fn lengths_of_frames_leave_room_for_the_trailer() {
    assert_eq!(frame_len(0), 128);
    for len in 1..300 {
        let frame = frame_len(len) as usize;
        assert!(
            frame >= FRAME_HEADER_LEN + len + TRAILER_LEN && frame.is_multiple_of(64),
            "{len}"
        );
        assert!(frame < FRAME_HEADER_LEN + len + TRAILER_LEN + 64, "{len}");
    }
}

#[test]
fn an_append_cut_at_any_byte_is_torn() {
    for last in payloads() {
        let image = Image::of(&[payloads(), vec![last]].concat());
        let start = image.before_last();
        for cut in start..image.bytes.len() {
            let what = format!("{} of {} bytes", cut - start, image.bytes.len() - start);
            let tail = if cut == start { Tail::End } else { Tail::Torn };
            assert_without_last(&image, &image.bytes[..cut], tail, &what);
            // The same in space that was made ready.
            let mut zeroed = image.bytes[..cut].to_vec();
            zeroed.resize(image.bytes.len() + 10_000, 0);
            assert_without_last(&image, &zeroed, tail, &what);
        }
    }
}

#[test]
fn a_seal_cut_at_any_byte_leaves_the_plog_open() {
    let mut image = Image::of(&payloads());
    image.seal();
    for cut in image.before_last() + 1..image.bytes.len() {
        assert_without_last(
            &image,
            &image.bytes[..cut],
            Tail::Torn,
            &format!("cut at {cut}"),
        );
        assert!(!run(&image.bytes[..cut]).unwrap().0.sealed);
    }
}

#[test]
fn every_flipped_bit_is_damage_and_its_frame_is_named() {
    // No sector of these payloads holds only one bit, see `rest_is_torn`.
    let mut open = Image::of(&payloads());
    open.bytes.resize(open.bytes.len() + 5000, 0);
    let mut sealed = Image::of(&payloads());
    sealed.seal();
    for mut image in [open, sealed] {
        let end = *image.starts.last().unwrap();
        // The file header is under one checksum: every seventh of its bits will do.
        let header_bits = (0..FILE_HEADER_LEN * 8).step_by(7);
        for bit in header_bits.chain(FILE_HEADER_LEN * 8..end * 8) {
            image.bytes[bit / 8] ^= 1 << (bit % 8);
            let frame = image
                .starts
                .iter()
                .rfind(|s| **s <= bit / 8)
                .copied()
                .unwrap_or(0);
            let found = run(&image.bytes);
            let position = found.as_ref().map_err(|d| d.position);
            assert_eq!(position, Err(frame as u64), "bit {bit}");
            image.bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

#[test]
fn a_flipped_bit_in_unused_space_loses_nothing() {
    let image = Image::of(&payloads());
    let end = image.bytes.len();
    for bit in 0..300 * 8 {
        let mut bytes = image.bytes.clone();
        bytes.resize(end + 5000, 0);
        bytes[end + bit / 8] ^= 1 << (bit % 8);
        assert_eq!(
            run(&bytes),
            Ok((image.contents.clone(), Tail::Torn)),
            "bit {bit}"
        );
    }
}

#[test]
fn a_frame_that_is_missing_twice_or_elsewhere_is_damage() {
    let same = vec![vec![8; 100], vec![7; 100], vec![6; 100], vec![5; 100]];
    let image = Image::of(&same);
    let frame = |i: usize| &image.bytes[image.starts[i]..image.starts[i + 1]];
    let head = &image.bytes[..image.starts[0]];
    let build = |order: &[usize]| {
        let frames: Vec<&[u8]> = order.iter().map(|i| frame(*i)).collect();
        run(&[head, &frames.concat()].concat())
    };
    assert_eq!(
        build(&[0, 1, 2, 3]),
        Ok((image.contents.clone(), Tail::End))
    );
    for (order, at) in [
        (vec![0, 2, 3], 1),
        (vec![1, 2, 3], 0),
        (vec![0, 2, 1, 3], 1),
        (vec![0, 0, 1, 2], 1),
        (vec![0, 1, 1], 2),
    ] {
        let position = image.starts[at] as u64;
        assert_eq!(
            build(&order).map_err(|d| d.position),
            Err(position),
            "{order:?}"
        );
    }
    // The same frames of another PLog, which has the same payloads.
    let mut other = Image::new(PlogKey {
        plog: PlogId(0x1235),
        ..KEY
    });
    same.iter().for_each(|p| other.append(p));
    let mixed = [
        &image.bytes[..image.starts[2]],
        &other.bytes[other.starts[2]..],
    ]
    .concat();
    assert_eq!(
        run(&mixed).map_err(|d| d.position),
        Err(image.starts[2] as u64)
    );
}

#[test]
fn a_frame_that_followed_another_history_is_damage() {
    // As after a write that never reached the disk although the sync succeeded: the old frame at
    // that place has the length and the LSN of the new one, and the frame behind it is sound.
    let old = Image::of(&[vec![1; 100], vec![2; 100], vec![3; 100]]);
    let new = Image::of(&[vec![1; 100], vec![9; 100], vec![3; 100]]);
    let third = new.starts[2];
    let mixed = [&old.bytes[..third], &new.bytes[third..]].concat();
    assert_eq!(run(&mixed).map_err(|d| d.position), Err(third as u64));
}

#[test]
fn a_torn_frame_is_damage_if_a_later_one_exists() {
    let image = Image::of(&payloads());
    for victim in 0..image.starts.len() - 2 {
        let (start, end) = (image.starts[victim], image.starts[victim + 1]);
        for from in [start, start + 1, start + 63, start + 64, end - 1] {
            let mut bytes = image.bytes.clone();
            bytes[from..end].fill(0);
            let found = run(&bytes).map_err(|d| d.position);
            assert_eq!(found, Err(start as u64), "frame {victim} from byte {from}");
        }
    }
}

#[test]
fn bytes_after_a_seal_are_damage() {
    let mut image = Image::of(&payloads());
    image.seal();
    let mut bytes = image.bytes.clone();
    bytes.extend_from_slice(&[0; 100]);
    bytes.push(1);
    assert_eq!(
        run(&bytes).map_err(|d| d.position),
        Err(image.bytes.len() as u64)
    );
    // Even a frame that continues the chain.
    image.append(b"more");
    assert_eq!(
        run(&image.bytes).map_err(|d| d.position),
        Err(image.before_last() as u64)
    );
}

#[test]
fn a_file_header_of_another_version_is_named() {
    let mut bytes = FileHeader {
        plog: KEY,
        epoch: 1,
    }
    .encode();
    bytes[8] = 2;
    let covered = bytes.len() - 4;
    let crc = checksum(&bytes[..covered]);
    bytes[covered..].copy_from_slice(&crc.to_le_bytes());
    let damage = run(&bytes).unwrap_err();
    assert_eq!(
        damage.what,
        "the file has format version 2, this program reads 1"
    );
    assert!(
        run(&[]).is_err() && run(&bytes[..100]).is_err(),
        "a short file is no PLog"
    );
}

#[test]
fn reads_start_from_marks() {
    let payloads: Vec<Vec<u8>> = (0..300).map(|i| vec![i as u8; 1000 + i]).collect();
    let image = Image::of(&payloads);
    assert!(image.contents.marks.len() > 3, "{:?}", image.contents.marks);
    let mut offset = 0;
    for payload in &payloads {
        for (at, is_entry) in [(offset, true), (offset + 1, false)] {
            let mark = image.contents.mark(at).unwrap();
            let contents = &image.contents;
            let range = Range {
                file_crc: contents.file_crc,
                mark,
                offset: at,
                end: contents.end,
                max_bytes: 1,
            };
            let entries = read_entries(image.bytes.as_slice(), range).unwrap();
            assert_eq!(entries.len(), usize::from(is_entry), "at {at}");
            assert!(entries.iter().all(|e| e.payload == *payload), "at {at}");
        }
        offset += payload.len() as u64;
    }
}

/// Payloads of all sorts: short, long, of zeros, with runs of zeros.
fn some_payload() -> impl Strategy<Value = Vec<u8>> {
    let run = (prop_oneof![Just(0_u8), any::<u8>()], 1..1500_usize);
    proptest::collection::vec(run, 1..5).prop_map(|runs| {
        runs.into_iter()
            .flat_map(|(byte, len)| vec![byte; len])
            .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// A machine that stops may have written any sectors of the last frame and not the others.
    #[test]
    fn an_append_that_lacks_any_sectors_is_torn(
        payloads in proptest::collection::vec(some_payload(), 1..4),
        keep in proptest::collection::vec(any::<bool>(), 20),
        ready in 0..5000_usize,
    ) {
        let image = Image::of(&payloads);
        let start = image.before_last();
        let mut bytes = image.bytes.clone();
        bytes.resize(bytes.len() + ready, 0);
        let frame_sectors = start / SECTOR..image.bytes.len().div_ceil(SECTOR);
        for sector in frame_sectors {
            if !keep[sector % keep.len()] {
                let from = (sector * SECTOR).max(start);
                let to = ((sector + 1) * SECTOR).min(image.bytes.len());
                bytes[from..to].fill(0);
            }
        }
        let whole = bytes[start..image.bytes.len()] == image.bytes[start..];
        let empty = bytes[start..].iter().all(|b| *b == 0);
        let found = run(&bytes);
        prop_assert!(found.is_ok(), "{:?}", found);
        let (contents, tail) = found.unwrap();
        if whole {
            prop_assert_eq!((contents, tail), (image.contents, Tail::End));
        } else {
            prop_assert_eq!(contents.end as usize, start);
            prop_assert_eq!(tail, if empty { Tail::End } else { Tail::Torn });
        }
    }

    /// Random bytes and random changes are survived, and never make entries that nobody wrote.
    #[test]
    fn nothing_is_made_up(
        payloads in proptest::collection::vec(some_payload(), 0..4),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(),
        junk in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        let image = Image::of(&payloads);
        let mut bytes = image.bytes.clone();
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        bytes.truncate(cut.index(bytes.len()) + 1);
        bytes.extend_from_slice(&junk);
        let mut frames = Vec::new();
        let _ = scan(bytes.as_slice(), bytes.len() as u64, |_, p| frames.push(p as usize));
        for (i, start) in frames.into_iter().enumerate() {
            prop_assert_eq!(start, image.starts[i]);
            let frame = start..image.starts[i + 1];
            prop_assert_eq!(&bytes[frame.clone()], &image.bytes[frame]);
        }
    }
}

/// Checksum of the file header that frames of [`damaged_headers_are_refused_or_read`] follow.
const FILE_CRC: u32 = 7;

/// Corrects the checksums of a frame header and of a file header.
fn seal(bytes: &mut [u8]) {
    if let Some((file, _)) = bytes.split_at_mut_checked(FILE_HEADER_LEN) {
        let (covered, crc) = file.split_at_mut(FILE_HEADER_LEN - 4);
        crc.copy_from_slice(&checksum(covered).to_le_bytes());
    } else if let Some((frame, _)) = bytes.split_at_mut_checked(FRAME_HEADER_LEN) {
        let mut covered = FILE_CRC.to_le_bytes().to_vec();
        covered.extend_from_slice(&frame[..FRAME_HEADER_LEN - 8]);
        frame[56..60].copy_from_slice(&checksum(&covered).to_le_bytes());
    }
}

/// No bytes make a decoder panic, and what it accepts encodes to the same bytes.
#[test]
fn damaged_headers_are_refused_or_read() {
    let image = Image::of(&[vec![1; 100], vec![2; 5000]]);
    let frame = |start: usize| {
        let file_crc = checksum(&image.bytes[..FILE_HEADER_LEN - 4]);
        let bytes = &image.bytes[start..start + FRAME_HEADER_LEN];
        let (header, _) = FrameHeader::decode(bytes, file_crc).expect("a good frame");
        header.encode(FILE_CRC).0.to_vec()
    };
    let corpus = [
        frame(image.starts[0]),
        frame(image.starts[1]),
        image.bytes[..FILE_HEADER_LEN].to_vec(),
    ];
    let fuzz = Fuzz::new(corpus).sealed(seal);
    fuzz.run("PLog headers", |bytes| {
        let file = FileHeader::decode(bytes).is_ok();
        let Some((header, crc)) = FrameHeader::decode(bytes, FILE_CRC) else {
            return file;
        };
        let (again, again_crc) = header.encode(FILE_CRC);
        assert_eq!((&again[..], again_crc), (&bytes[..FRAME_HEADER_LEN], crc));
        assert!(header.frame_len() <= MAX_FRAME_LEN);
        true
    });
}

/// Whatever became of a file, scanning it ends.
#[test]
fn damaged_files_are_scanned_or_refused() {
    let contents: [&[Vec<u8>]; 3] = [
        &[],
        &[vec![1; 40]],
        &[vec![1; 600], vec![2; 4], vec![3; 90]],
    ];
    let corpus = contents.map(|payloads| Image::of(payloads).bytes);
    Fuzz::new(corpus).run("PLog files", |bytes| run(bytes).is_ok());
}
