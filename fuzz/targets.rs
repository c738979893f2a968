//! What is fuzzed: each function takes any bytes, and panics if a reader of the library panics or
//! says what cannot be. `cargo fuzz` calls them (`fuzz_targets/`), and so does a test (`tests/fuzz.rs`).

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::Write as _;
use std::path::Path;

use compression::{Bits, Bound, Element, Header as EncodedHeader, LosslessHeader, Outcome, Part};
use config::{Config, KEYS};
use errors::Error;
use format::aggregate::{self, Offsets};
use format::checksum::{self, Checksum};
use format::delta::{Base, DeltaTable, Image, StoredCheckpoint, REGION};
use format::frames::FileContent;
use format::header::Header;
use format::mark::checksum_of;
use format::names;
use format::pmem::{self, IterationMark, Root, MARK_LEN, ROOT_LEN};
use format::subarray;
use schedule::configured::ConfiguredSchedule;
use schedule::pack::sealed;
use schedule::schedule::Action;
use twox_hash::XxHash3_64;

/// A target: its name, and the function.
pub(crate) type Target = (&'static str, fn(&[u8]));

/// All of them.
#[allow(dead_code, reason = "a fuzzer is linked with one of them")]
pub(crate) const TARGETS: [Target; 11] = [
    ("header", header),
    ("frames", frames),
    ("delta", delta),
    ("pmem", arrays),
    ("names", file_names),
    ("table", table),
    ("checksum", checksums),
    ("configuration", configuration),
    ("schedule", schedule),
    ("encoded", encoded),
    ("subarrays", subarrays),
];

/// The length that a file is said to have, and the rest of the input.
fn length(input: &[u8]) -> (u64, &[u8]) {
    match input.split_first_chunk::<8>() {
        Some((len, rest)) => (u64::from_le_bytes(*len), rest),
        None => (input.len() as u64, input),
    }
}

/// A header of a file of any length: what is accepted has its regions one behind the other up to the
/// file's end, and would be written the same.
pub(crate) fn header(input: &[u8]) {
    let (len, bytes) = length(input);
    for file_len in [len, bytes.len() as u64] {
        let _ = Header::check_prefix(bytes, file_len);
        let Ok(decoded) = Header::decode(bytes, file_len) else { continue };
        let header = decoded.header();
        let encoded = header.encode();
        assert_eq!(bytes.get(..encoded.len()), Some(&encoded[..]));
        assert_eq!(header.file_len(), file_len);
        let mut end = encoded.len() as u64;
        for region in decoded.regions() {
            assert_eq!(region.offset, end);
            assert_eq!(decoded.region(region.id), Some(region));
            end += region.size;
        }
        assert_eq!(end, file_len);
    }
}

/// A compressed file: what is accepted can be read to its end, or names a damaged frame.
pub(crate) fn frames(input: &[u8]) {
    let path = Path::new("frames");
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(input).unwrap();
    let len = input.len() as u64;
    let Ok(content) = FileContent::of(&file, 0..len, path) else { return };
    // Hostile lengths need memory only for what is there.
    assert!(content.len() <= len.saturating_mul(1 << 20));
    let mut bytes = vec![0; content.len().min(4 << 20) as usize];
    for offset in [0, content.len() - bytes.len() as u64] {
        let read = content.read_exact_at(&file, &mut bytes, offset, path);
        assert!(read.is_ok() || content.is_compressed());
    }
    assert!(content.read_exact_at(&file, &mut [0], content.len(), path).is_err());
}

/// The region with what has changed: what is accepted reads as its runs above what the base has. Its sum is made right,
/// or nothing else would be looked at.
pub(crate) fn delta(input: &[u8]) {
    let (size, input) = length(input);
    let number = |at: usize| {
        let bytes = input.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
        bytes.map_or(u64::MAX, u64::from_le_bytes)
    };
    let mut bytes = input.to_vec();
    let sizes = number(40).checked_mul(24).zip(number(48).checked_mul(16));
    let said = sizes.and_then(|(regions, runs)| regions.checked_add(runs)?.checked_add(56));
    if let Some(said) = said.filter(|said| *said < bytes.len() as u64) {
        let said = said as usize;
        let (said, rest) = bytes.split_at_mut(said);
        if let Some((sum, _)) = rest.split_first_chunk_mut::<8>() {
            *sum = XxHash3_64::oneshot(said).to_le_bytes();
        }
    }
    let copy = |into: &mut [u8], at: u64| {
        let from = usize::try_from(at).ok().and_then(|at| bytes.get(at..)?.get(..into.len()));
        into.copy_from_slice(from.ok_or_else(|| Error::invalid("the file is shorter"))?);
        Ok(())
    };
    // As of a file with a hole.
    let _ = DeltaTable::read(size, copy);
    let Ok((table, data)) = DeltaTable::read(bytes.len() as u64, copy) else { return };
    assert_eq!(data + table.data(), bytes.len() as u64);
    let Some(base) = table.needed() else { return };
    let sizes = table.regions.iter().map(|region| region.size);
    if sizes.fold(0_u64, u64::saturating_add) > 1 << 20 {
        return;
    }
    let path = Path::new("delta");
    let file_of = |regions: Vec<(i32, u64)>, content: &[u8]| {
        let mut file = tempfile::tempfile().unwrap();
        let header = Header::new(regions).ok()?.encode();
        file.write_all(&header).unwrap();
        file.write_all(content).unwrap();
        let part = 0..(header.len() + content.len()) as u64;
        Some(StoredCheckpoint { file, part, path: path.into() })
    };
    let find = |_: &Base| {
        let below =
            DeltaTable { number: base.number, chain: 0, base: None, regions: Vec::new() }.encode();
        let mut regions = vec![(REGION, below.len() as u64)];
        regions.extend(table.regions.iter().map(|region| (region.id, region.size)));
        let len: u64 = table.regions.iter().map(|region| region.size).sum();
        let content = [below, vec![0xba; len as usize]].concat();
        file_of(regions, &content).ok_or_else(|| Error::invalid("no such base"))
    };
    let Some(stored) = file_of(vec![(REGION, bytes.len() as u64)], &bytes) else { return };
    let Ok(image) = Image::of(&stored.file, stored.part.clone(), path, &find) else { return };
    let mut at = data as usize;
    for sparse in &table.regions {
        let mut expected = vec![0xba; sparse.size as usize];
        for run in &sparse.runs {
            let into = &mut expected[run.start as usize..run.end as usize];
            into.copy_from_slice(&bytes[at..at + into.len()]);
            at += into.len();
        }
        let region = image.header.region(sparse.id).unwrap();
        let mut found = vec![0; sparse.size as usize];
        image.content.read_exact_at(&stored.file, &mut found, region.offset, path).unwrap();
        assert!(found == expected);
    }
}

/// The first bytes of a file of arrays, one behind the other: two roots, a mark, a table. Sums are made right, or
/// nothing else would be looked at. What is accepted lies in the file, each array by itself, and would be written the
/// same.
pub(crate) fn arrays(input: &[u8]) {
    let mut bytes = input.to_vec();
    bytes.resize(bytes.len().max(2 * ROOT_LEN + MARK_LEN), 0);
    let (heads, table) = bytes.split_at_mut(2 * ROOT_LEN + MARK_LEN);
    let (roots, mark) = heads.split_at_mut(2 * ROOT_LEN);
    let sum = |bytes: &mut [u8]| {
        let (said, sum) = bytes.split_at_mut(bytes.len() - 8);
        sum.copy_from_slice(&XxHash3_64::oneshot(said).to_le_bytes());
    };
    let both: Vec<[u8; ROOT_LEN]> = roots
        .chunks_exact_mut(ROOT_LEN)
        .map(|root| {
            root[48..56].copy_from_slice(&XxHash3_64::oneshot(table).to_le_bytes());
            sum(root);
            root.try_into().unwrap()
        })
        .collect();
    let mut line = [0; MARK_LEN];
    line.copy_from_slice(mark);
    for at in [0, 63] {
        if let Some(mark) = IterationMark::decode(&line, at) {
            assert_eq!(pmem::encode_mark(mark.iteration, &mark.scalars, at), line);
        }
    }
    let Ok(root) = Root::newest([&both[0], &both[1]]) else { return };
    assert!(both.contains(&root.encode()));
    let Ok(found) = pmem::decode_arrays(&root, table) else { return };
    let mut end = pmem::SLOTS_AT;
    for array in &found {
        assert!(array.at >= end && array.element * array.count <= array.stride);
        end = array.at + array.stride * array.slots;
    }
    assert!(end <= root.len || found.is_empty());
    // What stands behind the end of a name is not written again.
    let written = pmem::encode_arrays(&found);
    let again = Root { table: XxHash3_64::oneshot(&written), ..root };
    assert_eq!(pmem::decode_arrays(&again, &written), Ok(found));
}

/// A file's name: there is one way to write what is read.
pub(crate) fn file_names(input: &[u8]) {
    let Ok(name) = std::str::from_utf8(input) else { return };
    if let Some(parsed) = names::parse(name) {
        assert!(names::validate_name(parsed.name).is_ok());
        assert_eq!(names::checkpoint_file(parsed.name, parsed.rank, parsed.version), name);
    }
    if let Some(parsed) = names::parse_temporary(name) {
        assert_eq!(names::temporary_file(parsed.complete, parsed.pid, parsed.number), name);
        assert!(!parsed.complete.contains('/'));
    }
    if let Some(parsed) = names::parse_routed_note(name) {
        let file = names::checkpoint_file(parsed.name, parsed.rank, parsed.version);
        assert_eq!(names::routed_note(&file), name);
    }
    if let Some((of, version)) = aggregate::parse_name(name) {
        assert_eq!(aggregate::file_name(of, version), name);
        assert!(names::parse(name).is_none());
    }
    if names::validate_name(name).is_ok() {
        assert!(!name.contains(['/', '-', '\0']));
    }
}

/// The table of an aggregated file of any length: the parts lie one behind the other in it.
pub(crate) fn table(input: &[u8]) {
    let (file_len, bytes) = length(input);
    let Ok(offsets) = Offsets::decode(bytes, file_len) else { return };
    assert_eq!(offsets.encode(), bytes);
    let mut end = 0;
    for rank in 0..offsets.ranks() {
        let Some(part) = offsets.part(rank) else { panic!("rank {rank} has no part") };
        assert_eq!(part.start, end);
        assert!(part.start < part.end);
        end = part.end;
    }
    assert_eq!(end, file_len);
    assert!(offsets.part(offsets.ranks()).is_none());
}

/// The first byte says where the rest is cut in two: the digest does not depend on that.
pub(crate) fn checksums(input: &[u8]) {
    let Some((cut, bytes)) = input.split_first() else { return };
    let (first, second) = bytes.split_at(usize::from(*cut).min(bytes.len()));
    let mut hasher = checksum::ChecksumHasher::default();
    hasher.update(first);
    hasher.update(second);
    let digest = hasher.finish();
    assert_eq!(digest, Checksum::of(bytes));
    assert_eq!(Checksum::from_bytes(*digest.as_bytes()), digest);
    if let Ok(name) = std::str::from_utf8(bytes) {
        if let Some(of) = checksum::is_of(name) {
            assert_eq!(checksum::path("".as_ref(), of).as_os_str(), name);
        }
    }
}

/// The text of a configuration, alone and with its own lines as the environment: what is accepted
/// is within its bounds.
pub(crate) fn configuration(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let lines = text.lines().filter_map(|line| line.split_once('='));
    let environment: HashMap<String, String> = lines
        .map(|(key, value)| {
            (format!("VELOC_{}", key.trim().to_uppercase()), value.trim().to_owned())
        })
        .collect();
    let read = |text: &str, with_environment: bool| {
        Config::from_text(text, |name| {
            assert!(KEYS.iter().any(|key| key.variable() == name), "{name} is no variable");
            environment.get(name).filter(|_| with_environment).cloned()
        })
    };
    for read in [read(text, false), read(text, true), read("", true)] {
        match read {
            Ok((config, _)) => {
                assert!(config.scratch.is_some() || config.ephemeral);
                assert!(config.gpu_chunk_size != Some(0) && config.pin_chunk_size > 0);
                assert!(config.watchdog_interval > 0);
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}

/// Where a schedule stands: there is one way to write what is read, and it goes on. The checksum is made
/// to fit, so that what it covers is read.
pub(crate) fn schedule(input: &[u8]) {
    let mut input = Cow::Borrowed(input);
    let mut unpacked = ConfiguredSchedule::unpack(&input);
    if let Some(content) = input.len().checked_sub(checksum::LEN).filter(|_| unpacked.is_err()) {
        input = sealed(input[..content].to_vec()).into();
        unpacked = ConfiguredSchedule::unpack(&input);
    }
    let mut course = match unpacked {
        Ok(course) => course,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    assert_eq!(course.pack(), *input);
    // Longer ones are as right, but may take long.
    if course.steps() > 2000 {
        return;
    }
    let mut fine = u64::MAX;
    for _ in 0..500 {
        match course.next_action() {
            Ok(Action::Advance { from, to }) => assert!(from < to && to < fine),
            Ok(Action::Firsturn { step, .. } | Action::Youturn { step, .. }) => {
                assert!(step == fine || fine == u64::MAX);
                fine = step - 1;
            }
            Ok(Action::Takeshot { state, .. } | Action::Restore { state, .. }) => {
                assert!(state < fine);
            }
            Ok(Action::Record { step, .. }) => assert!(step < fine),
            Ok(Action::Reverse { step, .. }) => {
                assert!(step == fine || fine == u64::MAX);
                fine = step - 1;
            }
            Ok(Action::Terminate) | Err(_) => break,
        }
    }
}

/// An encoded array, whose length is made right; what is accepted decodes block by block to the same. Then an array,
/// whose first two bytes say how it is encoded: its largest error is the one that is told, within the bound; or it
/// has none.
pub(crate) fn encoded(input: &[u8]) {
    if let Ok(header) = LosslessHeader::read(input) {
        // No more than what is there can mean, whatever the header claims.
        let len = input.len() as u64;
        assert!(header.encoded_len != len || header.content_len <= len * 512);
        if header.encoded_len <= 1 << 20 && header.content_len <= 1 << 20 {
            let mut bytes = input.to_vec();
            bytes.resize(header.encoded_len as usize, 0);
            let [mut one, mut other] = [1, 2].map(|byte| vec![byte; header.content_len as usize]);
            let decoded = compression::decode(&bytes, &mut one, 1);
            assert_eq!(decoded, compression::decode(&bytes, &mut other, 3));
            assert!(decoded.is_err() || one == other);
        }
    }
    if let Ok(header) = EncodedHeader::read(input) {
        let len = header.encoded_len().unwrap();
        if len <= 1 << 20 {
            let mut bytes = input.to_vec();
            bytes.resize(len as usize, 0);
            let mut content = vec![1; header.content_len as usize];
            let decoded = compression::decode(&bytes, &mut content, 1);
            let blocks = (0..header.blocks()).map(|block| {
                let places = header.places(block..block + 1)?;
                let mut some = vec![2; (places.content.end - places.content.start) as usize];
                let part = Part::of(&bytes, &places)?;
                compression::decode_blocks(&header, block..block + 1, part, &mut some, 1)?;
                Ok(some)
            });
            let blocks: Result<Vec<_>, Error> = blocks.collect();
            assert_eq!(decoded.clone().map(|()| content), blocks.map(|blocks| blocks.concat()));
            let places = header.places(0..header.blocks()).unwrap();
            assert_eq!(places.content.end, header.content_len);
            assert!(places.side.end <= len);
        }
    }
    let Some(([how, scale], content)) = input.split_first_chunk() else { return };
    let element = if how & 1 == 0 { Element::F32 } else { Element::F64 };
    let bits = [Bits::Eight, Bits::Twelve, Bits::Sixteen][usize::from(how >> 1) % 3];
    let scale = f64::from(*scale as i8).exp2();
    let bound = if how & 128 == 0 { Bound::absolute(scale) } else { Bound::relative(scale, bits) };
    let Ok(bound) = bound else { return };
    let content = &content[..content.len() / element.bytes() * element.bytes()];
    if how & 64 != 0 {
        let mut bytes = vec![3; content.len() + content.len() / 8 + 1000];
        let len = compression::encode_lossless(content, element, 1, &mut bytes).unwrap().unwrap();
        let mut back = vec![4; content.len()];
        compression::decode(&bytes[..len as usize], &mut back, 1).unwrap();
        assert!(back == content);
        return;
    }
    let len = compression::encoded_len(content.len() as u64, element, bits).unwrap();
    let mut bytes = vec![3; len as usize];
    let outcome = compression::encode(content, element, bits, &bound, 1, &mut bytes).unwrap();
    let Outcome::Done { error, .. } = outcome else { return };
    let mut back = vec![4; content.len()];
    compression::decode(&bytes, &mut back, 1).unwrap();
    assert!(error <= EncodedHeader::read(&bytes).unwrap().bound);
    let values = |bytes: &[u8]| -> Vec<f64> {
        let value = |bytes: &[u8]| match bytes.try_into() {
            Ok(bytes) => f32::from_le_bytes(bytes).into(),
            Err(_) => f64::from_le_bytes(bytes.try_into().unwrap()),
        };
        bytes.chunks_exact(element.bytes()).map(value).collect()
    };
    let mut largest = 0.0;
    for (value, back) in values(content).into_iter().zip(values(&back)) {
        if value.is_finite() {
            largest = f64::max(largest, (value - back).abs());
        } else {
            assert_eq!(value.is_nan(), back.is_nan());
            assert!(value.is_nan() || value == back);
        }
    }
    assert_eq!(largest, error);
}

/// A table of subarrays. Its sum is made right, or nothing would be read.
pub(crate) fn subarrays(input: &[u8]) {
    let table = [input, &checksum_of(input)].concat();
    let Ok(parts) = subarray::decode(&table) else { return };
    assert_eq!(subarray::encode(&parts), table);
    for ((_, one), (_, other)) in parts.iter().zip(parts.iter().skip(1)) {
        for run in one.runs(other).take(100) {
            assert!(run.from + run.len <= one.len() && run.to + run.len <= other.len());
        }
    }
    let ranks: Vec<_> = (0..).zip(parts.iter().map(|(_, part)| *part)).collect();
    let _ = subarray::check_whole(&ranks);
}
