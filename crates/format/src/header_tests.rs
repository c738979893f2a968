//! Headers as bytes and in files, valid and invalid.

use super::*;
use proptest::prelude::*;

/// Written by hand from the format's description.
const GOLDEN: [u8; 8 + 3 * 12] = [
    3, 0, 0, 0, 0, 0, 0, 0, // three regions
    0xff, 0xff, 0xff, 0xff, 5, 0, 0, 0, 0, 0, 0, 0, // id -1, 5 bytes
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, // id 0, no bytes
    0x02, 0x01, 0, 0, 0x34, 0x12, 0, 0, 0, 0, 0, 0, // id 258, 4660 bytes
];
const GOLDEN_FILE: u64 = 44 + 5 + 4660;

#[test]
fn golden_bytes() {
    let header = Header::new(vec![(258, 4660), (-1, 5), (0, 0)]).unwrap();
    assert_eq!(header.encode(), GOLDEN);
    assert_eq!(header.encoded_len(), 44);
    assert_eq!(header.file_len(), GOLDEN_FILE);

    let decoded = Header::decode(&GOLDEN, GOLDEN_FILE).unwrap();
    assert_eq!(
        decoded.regions(),
        [
            RegionPosition { id: -1, size: 5, decoded: None, offset: 44 },
            RegionPosition { id: 0, size: 0, decoded: None, offset: 49 },
            RegionPosition { id: 258, size: 4660, decoded: None, offset: 49 },
        ]
    );
    assert!(header.places().eq(decoded.regions().iter().copied()));
    assert_eq!(decoded.region(258).map(|r| r.offset), Some(49));
    assert_eq!(decoded.region(1), None);
}

#[test]
fn no_regions() {
    let header = Header::new(Vec::<(i32, u64)>::new()).unwrap();
    assert_eq!(header.encode(), [0; 8]);
    assert_eq!(Header::decode(&[0; 8], 8).unwrap().regions(), []);
}

#[test]
fn headers_that_cannot_be() {
    assert!(Header::new(vec![(7, 1), (7, 1)]).is_err());
    assert!(Header::new(vec![(1, u64::MAX), (2, u64::MAX)]).is_err());
    assert!(Header::new(vec![(1, i64::MAX as u64)]).is_err());
    assert!(Header::new(vec![(1, i64::MAX as u64 - 20)]).is_ok());
}

/// Catches a layout of headers with encoded regions that changes, or that VELOC could take for one of its own.
#[test]
fn golden_bytes_of_encoded_regions() {
    let size = Size { stored: 200, decoded: Some(640) };
    let header = Header::new(vec![(3, size), (1, Size::from(6))]).unwrap();
    let bytes = header.encode();
    assert_eq!(bytes.len(), header.encoded_len());
    assert_eq!(bytes[..8], [2, 0, 0, 0, 0, 0, 0, 0x80]);
    assert_eq!(
        bytes[8..28],
        [[1, 0, 0, 0, 6, 0, 0, 0, 0, 0], [0, 0, 255, 255, 255, 255, 255, 255, 255, 255]].concat()
    );
    assert_eq!(
        bytes[28..48],
        [[3, 0, 0, 0, 200, 0, 0, 0, 0, 0], [0, 0, 128, 2, 0, 0, 0, 0, 0, 0]].concat()
    );
    assert_eq!(header.file_len(), 48 + 206);
    let decoded = Header::decode(&bytes, 254).unwrap();
    assert_eq!(decoded.regions()[1].stored(), size);
    let with = |at: usize, number: u64| {
        let mut bytes = bytes.clone();
        bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
        Header::decode(&bytes, 254).unwrap_err().to_string()
    };
    assert!(with(40, 0).contains("region 3 decode to 0 bytes"), "{}", with(40, 0));
    assert!(with(40, u64::MAX - 1).contains("region 3 decode to"), "{}", with(40, u64::MAX - 1));
    assert!(with(40, u64::MAX).contains("and none is"), "{}", with(40, u64::MAX));
}

fn bytes(count: u64, entries: &[(i32, u64)]) -> Vec<u8> {
    let mut bytes = count.to_le_bytes().to_vec();
    for (id, size) in entries {
        bytes.extend(id.to_le_bytes());
        bytes.extend(size.to_le_bytes());
    }
    bytes
}

#[test]
fn hostile_bytes_are_refused() {
    for (prefix, file_len, part) in [
        (vec![], 0, "truncated: 0 of at least 8 bytes"),
        (vec![0; 7], 7, "truncated: 7 of at least 8 bytes"),
        (b"# A text".to_vec(), 1 << 40, "not a VELOC checkpoint: its header would have 8392"),
        (bytes(u64::MAX, &[]), u64::MAX, "would have 9223372036854775807 regions"),
        (bytes(2, &[(1, 4)]), 24, "truncated: 24 of at least 32 bytes"),
        (bytes(2, &[(1, 4)]), 100, "at hand"),
        (bytes(1, &[(1, 8000)]), 4000, "truncated: 4000 of 8020 bytes"),
        (bytes(2, &[(1, 4), (2, 4)]), 39, "truncated: 39 of 40 bytes"),
        (bytes(1, &[(1, 4)]), 25, "not a VELOC checkpoint: its regions would end at byte 24 of 25"),
        (bytes(1, &[(1, u64::MAX)]), 20, "not a VELOC checkpoint: its header gives region 1 1844"),
        (bytes(2, &[(1, u64::MAX - 31), (2, 32)]), 32, "not a VELOC checkpoint"),
        (bytes(2, &[(1, 4), (1, 4)]), 40, "region 1 twice"),
        (bytes(2, &[(2, 4), (1, 4)]), 40, "region 1 after region 2"),
        (bytes(0, &[]), 9, "would end at byte 8 of 9"),
        (bytes(1 << 63, &[]), 8, "says that a region is encoded, and none is"),
    ] {
        let error = Header::decode(&prefix, file_len).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(error.to_string().contains(part), "{error} lacks {part:?}");
    }
}

fn regions() -> impl Strategy<Value = Vec<(i32, Size)>> {
    let decoded = prop::option::of(1..1u64 << 40);
    let size = (0..1u64 << 40, decoded).prop_map(|(stored, decoded)| Size { stored, decoded });
    prop::collection::btree_map(any::<i32>(), size, 0..20).prop_map(|map| map.into_iter().collect())
}

proptest! {
    #[test]
    fn what_is_encoded_is_decoded(regions in regions(), payload in 0..64usize) {
        let header = Header::new(regions.clone()).unwrap();
        let mut prefix = header.encode();
        prop_assert_eq!(prefix.len(), header.encoded_len());
        prop_assert_eq!(
            Header::declared_len(&prefix[..8], header.file_len()).unwrap(),
            prefix.len()
        );
        // A prefix may include bytes of the regions.
        prefix.resize(prefix.len() + payload, 0xa5);
        let decoded = Header::decode(&prefix, header.file_len()).unwrap();
        prop_assert_eq!(decoded.header(), header.clone());
        let mut offset = header.encoded_len() as u64;
        for region in decoded.regions() {
            prop_assert_eq!(region.offset, offset);
            prop_assert_eq!(decoded.region(region.id), Some(region));
            offset += region.size;
        }
        prop_assert_eq!(offset, header.file_len());
    }

    #[test]
    fn another_length_is_refused(regions in regions(), other in any::<u64>()) {
        let header = Header::new(regions).unwrap();
        prop_assume!(other != header.file_len());
        prop_assert!(Header::decode(&header.encode(), other).is_err());
    }

    #[test]
    fn any_bytes_are_answered(
        prefix in prop::collection::vec(any::<u8>(), 0..64),
        count in prop_oneof![0..4u64, 1 << 63..(1 << 63) + 4u64],
        file_len in any::<u64>(),
    ) {
        let _ = Header::decode(&prefix, file_len);
        let mut small = count.to_le_bytes().to_vec();
        small.extend(prefix);
        if let Ok(decoded) = Header::decode(&small, file_len) {
            let end = decoded.regions().last().map_or(8, |r| r.offset + r.size);
            prop_assert_eq!(end, file_len);
        }
    }
}

#[test]
fn headers_in_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x-agg-1.dat");
    let one = Header::new(vec![(3, 6)]).unwrap();
    // More regions than fit into one block.
    let many: Vec<_> = (0..2 * BLOCK as i32 / 12).map(|id| (id, 0)).collect();
    let many = Header::new(many).unwrap();
    let mut bytes = [&one.encode()[..], b"sixsix"].concat();
    let end = bytes.len() as u64;
    bytes.extend(many.encode());
    std::fs::write(&path, &bytes).unwrap();
    let file = files::open(&path).unwrap();
    let read = |part| {
        let content = FileContent::of(&file, part, &path)?;
        Header::read(&file, &content, &path)
    };
    let first = read(0..end).unwrap();
    assert_eq!(first.regions(), [RegionPosition { id: 3, size: 6, decoded: None, offset: 20 }]);
    let rest = end..bytes.len() as u64;
    assert_eq!(read(rest.clone()).unwrap().header(), many);
    for part in [0..end + 1, 1..end, rest.start..rest.end - 1, 0..0, rest.start..rest.end + 1] {
        let error = read(part.clone()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{part:?}");
        assert!(error.to_string().contains("x-agg-1.dat"), "{error}");
    }
}

#[test]
fn part_of_a_header_can_be_told_from_noise() {
    let header = Header::new(vec![(-3, 10), (4, 20)]).unwrap().encode();
    assert!(Header::check_prefix(&header, 62).is_ok());
    assert!(Header::check_prefix(&header[..20], 62).is_ok());
    let noise: Vec<u8> = (0..200u8).map(|i| i.wrapping_mul(37)).collect();
    assert!(Header::check_prefix(&noise, 200).is_err());
}
