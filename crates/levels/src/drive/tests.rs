//! The drive against an array, by each mechanism; what fails, and what cannot be had.

#![allow(clippy::unwrap_used)] // A test stops at the first fault.

use super::*;
use crate::host_buffer::HostBuffer;
use crate::store::More;
use proptest::prelude::*;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicUsize, Ordering};

const BYTES: u64 = 40 << 12;
const BLOCK: u64 = 4096;

/// A directory that is not in memory.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(os::mounts::on_a_drive(env!("CARGO_MANIFEST_DIR").as_ref())).unwrap()
}

/// The drive by each mechanism that the system allows.
fn drives(bytes: u64) -> Vec<Drive> {
    let folder = folder();
    let by_ring = Drive::open(folder.path(), bytes).unwrap();
    let by_threads = Drive::open(folder.path(), bytes).unwrap().without_rings();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "the file has a name");
    vec![by_ring, by_threads]
}

fn content(seed: u64, len: u64) -> Vec<u8> {
    (0..len).map(|at| (at.wrapping_mul(seed | 1) >> 3) as u8 ^ seed as u8).collect()
}

/// Blocks in any order, as a copy that was given out in several runs.
fn extents(blocks: &[u64]) -> Vec<Extent> {
    let mut joined = Vec::new();
    let all: Vec<Extent> =
        blocks.iter().map(|block| Extent { offset: block * BLOCK, len: BLOCK }).collect();
    catalog::space::join(&mut joined, &all);
    joined
}

fn written(drive: &Drive, room: &[Extent], pieces: &[Vec<u8>]) {
    let mut more: Box<More<'_>> = Box::new(|_| None);
    let mut room = Room::new(room, &mut *more);
    for piece in pieces {
        assert!(matches!(drive.write(&mut room, piece).unwrap(), StoreResult::In(_)));
    }
}

fn read(drive: &Drive, copy: &[Extent], range: Range<u64>) -> Vec<u8> {
    let mut bytes = Vec::new();
    drive
        .read(copy, range, &mut |piece| {
            bytes.extend_from_slice(piece);
            Ok(())
        })
        .unwrap();
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    /// The model is an array. Catches pieces that end up elsewhere, what was written before a piece and is lost, bytes
    /// beyond the end that another copy has, and both ways that are not each other's.
    #[test]
    fn bytes_come_back_from_where_they_were_put(
        order in Just((0..BYTES / BLOCK).collect::<Vec<_>>()).prop_shuffle(),
        split in 1..BYTES / BLOCK,
        lens in prop::collection::vec(1..3 * BLOCK, 1..8),
        cuts in (any::<prop::sample::Index>(), any::<prop::sample::Index>()),
        seed in any::<u64>(),
    ) {
        for drive in drives(BYTES) {
            let (one, other) = order.split_at(split as usize);
            let (one, other) = (extents(one), extents(other));
            let others = content(!seed, (BYTES / BLOCK - split) * BLOCK);
            written(&drive, &other, std::slice::from_ref(&others));
            let mut left = split * BLOCK;
            let lens = lens.iter().map(|len| {
                let len = left.min(*len);
                left -= len;
                len
            });
            let pieces: Vec<Vec<u8>> = lens.enumerate().map(|(i, len)| content(seed ^ i as u64, len)).collect();
            written(&drive, &one, &pieces);
            let all = pieces.concat();
            let mut range = [cuts.0, cuts.1].map(|at| at.index(all.len() + 1) as u64);
            range.sort_unstable();
            let [start, end] = range;
            prop_assert_eq!(&read(&drive, &one, start..end), &all[start as usize..end as usize]);
            prop_assert_eq!(read(&drive, &other, 0..others.len() as u64), others);
        }
    }

    /// Catches extents of host buffer and drive that do not meet, a last block that is cut off or takes more than its
    /// room, and what is not in whole blocks.
    #[test]
    fn what_the_host_buffer_has_comes_back_to_it(
        blocks in Just((0..BYTES / BLOCK).collect::<Vec<_>>()).prop_shuffle(),
        in_host in Just((0..BYTES / BLOCK).collect::<Vec<_>>()).prop_shuffle(),
        len in 1..BYTES / 2,
        granule in prop_oneof![Just(BLOCK), Just(512_u64)],
        seed in any::<u64>(),
    ) {
        let host = HostBuffer::reserve(2 * BYTES, 1 << 20, true).unwrap();
        let count = len.div_ceil(BLOCK) as usize;
        let copy = extents(&blocks[..count]);
        let shifted = |blocks: &[u64]| -> Vec<Extent> {
            extents(blocks).iter().map(|e| Extent { offset: e.offset + granule % BLOCK, ..*e }).collect()
        };
        let (from, to) = (shifted(&in_host[..count]), shifted(&in_host[count..2 * count]));
        let bytes = content(seed, len);
        let mut full = |_| None;
        host.write(&mut Room::new(&from, &mut full), &bytes).unwrap();
        for drive in drives(BYTES) {
            let mut room = Room::new(&copy, &mut full);
            let stored = drive.write_from(&mut room, &host, &from, len, &always).unwrap();
            prop_assert_eq!(stored, StoreResult::In(len));
            prop_assert_eq!(&read(&drive, &copy, 0..len), &bytes);
            host.write(&mut Room::new(&to, &mut full), &content(!seed, len)).unwrap();
            drive.read_to(&copy, &host, &to, len, &always).unwrap();
            let mut back = Vec::new();
            host.read(&to, 0..len, &mut |piece| { back.extend_from_slice(piece); Ok(()) }).unwrap();
            prop_assert_eq!(&back, &bytes);
        }
    }
}

/// Catches pieces that are lost or meet where there are more than are under way at once, and memory for unaligned
/// bytes that is too small.
#[test]
fn more_than_fits_at_once() {
    let len = 3 * DEPTH as u64 * PIECE + 5000;
    let bytes = content(77, len);
    let room = [Extent { offset: BLOCK, len: len.next_multiple_of(BLOCK) }];
    let host = HostBuffer::reserve(2 * len, 1 << 20, true).unwrap();
    let mut full = |_| None;
    host.write(&mut Room::new(&room, &mut full), &bytes).unwrap();
    for drive in drives(room[0].len + BLOCK) {
        drive.write_from(&mut Room::new(&room, &mut full), &host, &room, len, &always).unwrap();
        assert!(read(&drive, &room, 3..len) == bytes[3..]);
        let turned: Vec<u8> = bytes.iter().map(|byte| !byte).collect();
        written(&drive, &room, &[turned[..9000].to_vec(), turned[9000..].to_vec()]);
        assert!(read(&drive, &room, 0..len) == turned);
    }
}

/// Catches an error that is swallowed or does not say what failed, a transfer that goes on for ever, and a drive that
/// is of no use afterwards.
#[test]
fn a_broken_extent_is_named_and_the_next_one_works() {
    let host = HostBuffer::reserve(8 << 20, 1 << 20, true).unwrap();
    let [broken, good] = [0, 4 << 20].map(|offset| [Extent { offset, len: 3 << 20 }]);
    let mut full = |_| None;
    for drive in drives(8 << 20) {
        drive.break_at(1 << 20..(1 << 20) + 1);
        let mut write = |to: &[Extent]| {
            drive
                .write_from(&mut Room::new(to, &mut full), &host, &good, 3 << 20, &always)
                .map(drop)
        };
        let refused = write(&broken).unwrap_err().to_string();
        assert!(refused.contains("writing 1048576 bytes at"), "{refused}");
        assert!(refused.contains(drive.path().to_str().unwrap()), "{refused}");
        write(&good).unwrap();
        let read = |from: &[Extent]| drive.read_to(from, &host, &good, 3 << 20, &always);
        let refused = read(&broken).unwrap_err().to_string();
        assert!(refused.contains("reading 1048576 bytes at"), "{refused}");
        read(&good).unwrap();
        let refused = drive.read(&broken, 0..3 << 20, &mut |_| Ok(())).unwrap_err().to_string();
        assert!(refused.contains("reading"), "{refused}");
    }
}

/// Catches an end of the job that waits for the whole of a copy, and pieces that are under way behind it.
#[test]
fn a_copy_ends_with_the_job() {
    let len = 100 << 20;
    let host = HostBuffer::reserve(len, 1 << 20, true).unwrap();
    let all = [Extent { offset: 0, len }];
    for drive in drives(len) {
        let asked = AtomicUsize::new(0);
        let stop = || match asked.fetch_add(1, Ordering::Relaxed) {
            0 => Ok(()),
            _ => Err(Error::new(ErrorKind::Internal, "the job is ending")),
        };
        let error = drive.read_to(&all, &host, &all, len, &stop).unwrap_err();
        assert!(error.to_string().contains("the job is ending"), "{error}");
        assert!(asked.load(Ordering::Relaxed) < 20, "it went on");
    }
}

/// Catches a transfer that waits for ever for a ring that the application has closed, that leaves before what is under
/// way has ended, and a ring of no use that is used again.
#[test]
fn a_ring_that_is_closed_ends_what_is_under_way() {
    let len = 64 << 20;
    let host = HostBuffer::reserve(len, 1 << 20, true).unwrap();
    let all = [Extent { offset: 0, len }];
    let drive = drives(len).remove(0);
    let rings = |drive: &Drive| drive.rings.descriptors();
    let Some(ring) = rings(&drive).first().copied() else { return };
    let mut full = |_| None;
    drive.write_from(&mut Room::new(&all, &mut full), &host, &all, len, &always).unwrap();
    let asked = AtomicUsize::new(0);
    let close = || {
        if asked.fetch_add(1, Ordering::Relaxed) == 1 {
            let other = std::fs::File::open("/dev/null").unwrap();
            // SAFETY: puts another file in place of the ring, whose owner closes it later.
            unsafe { libc::dup2(std::os::fd::AsRawFd::as_raw_fd(&other), ring) };
        }
        Ok(())
    };
    let error = drive.read_to(&all, &host, &all, len, &close).unwrap_err();
    assert!(error.to_string().contains("io_uring_enter"), "{error}");
    assert_eq!(rings(&drive), []);
    drive.read_to(&all, &host, &all, len, &always).unwrap();
    assert_eq!(rings(&drive).len(), 1);
}

/// Catches a forked child that keeps the room of a drive for as long as it lives.
#[test]
fn a_forked_child_has_no_drive() {
    let Some(drive) = drives(1 << 20).pop() else { return };
    let file = std::os::fd::AsRawFd::as_raw_fd(drive.opened.file().unwrap());
    let own = os::descriptors::Inode::of(file);
    // SAFETY: the child asks for a descriptor, and ends: calls that are allowed behind a fork of a process with threads.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let has_it = os::descriptors::Inode::of(file) == own;
        // SAFETY: nothing runs behind this.
        unsafe { libc::_exit(i32::from(has_it)) };
    }
    let mut status = 0;
    // SAFETY: a place to write to.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0);
}

/// Catches a place that cannot be had and is not named, and a drive whose room is not there at once.
#[test]
fn what_cannot_be_a_drive_is_named() {
    let folder = folder();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let refused = |path: &Path, bytes| Drive::open(path, bytes).unwrap_err().to_string();
    for (path, bytes, why) in [
        (folder.path().join("missing").as_path(), 1 << 20, "its kind cannot be determined"),
        (&file, 1 << 20, "neither a directory nor a block device"),
        (folder.path(), 4095, "less than one block"),
        (folder.path(), 1 << 50, "there is no room for as much"),
        (Path::new("/dev/shm"), 1 << 20, "in memory"),
    ] {
        let refused = refused(path, bytes);
        assert!(refused.contains(why) && refused.contains(path.to_str().unwrap()), "{refused}");
    }
    let before = os::files::free_space(folder.path()).unwrap();
    let drive = Drive::open(folder.path(), 300 << 20).unwrap();
    let blocks = std::os::linux::fs::MetadataExt::st_blocks(
        &drive.opened.file().unwrap().metadata().unwrap(),
    );
    assert!(blocks * 512 >= 300 << 20, "{blocks} blocks; there were {before} bytes");
}

/// Catches a device whose file system is overwritten, one that an earlier job has left and that is refused, and bytes that
/// are put where the mark is.
#[test]
fn a_device_with_something_else_on_it_is_refused() {
    let folder = folder();
    let file = folder.path().join("device");
    std::fs::write(&file, vec![0; 8 << 20]).unwrap();
    let losetup = |words: &[&str]| {
        let ended = std::process::Command::new("losetup").args(words).output().ok()?;
        ended.status.success().then(|| String::from_utf8(ended.stdout).unwrap().trim().to_owned())
    };
    let Some(device) = losetup(&["-f", "--show", file.to_str().unwrap()]) else {
        println!("skipped: there are no loop devices");
        return;
    };
    let path = std::path::PathBuf::from(&device);
    let room = extents(&[0, 1, 2]);
    let len = room.iter().map(|extent| extent.len).sum();
    let opened = (0..2).map(|turn| {
        let drive = Drive::open(&path, 4 << 20)?;
        written(&drive, &room, &[content(turn, len)]);
        assert!(read(&drive, &room, 0..len) == content(turn, len));
        Ok(())
    });
    let opened: errors::Result<Vec<()>> = opened.collect();
    let most = Drive::open(&path, 8 << 20).unwrap_err().to_string();
    std::fs::File::options()
        .write(true)
        .open(&path)
        .and_then(|device| device.write_all_at(b"ext4", 0))
        .unwrap();
    let refused = Drive::open(&path, 4 << 20).unwrap_err().to_string();
    losetup(&["-d", &device]);
    opened.unwrap();
    assert!(most.contains("it has 8388608 bytes"), "{most}");
    assert!(refused.contains(&format!("drive = {device}: it holds other data")), "{refused}");
}
