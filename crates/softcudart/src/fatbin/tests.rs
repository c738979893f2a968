//! Fat binaries as nvcc makes them, and damaged ones.

use proptest::prelude::*;

use super::*;

const TEXT: &[u8] = b"\n.version 6.0\n.target sm_60\n\0\0\0";
const ELF: u16 = 2;

/// An entry with a header of `header` bytes.
fn entry(kind: u16, architecture: u32, flags: u64, header: usize, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; header];
    bytes[..2].copy_from_slice(&kind.to_le_bytes());
    bytes[4..8].copy_from_slice(&(header as u32).to_le_bytes());
    bytes[8..16].copy_from_slice(&(payload.len() as u64).to_le_bytes());
    bytes[28..32].copy_from_slice(&architecture.to_le_bytes());
    bytes[40..48].copy_from_slice(&flags.to_le_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

fn binary(entries: &[Vec<u8>]) -> Vec<u8> {
    let entries = entries.concat();
    let mut bytes = MAGIC.to_le_bytes().to_vec();
    bytes.extend_from_slice(&[1, 0, HEADER as u8, 0]);
    bytes.extend_from_slice(&(entries.len() as u64).to_le_bytes());
    bytes.extend(entries);
    bytes
}

fn whole() -> Vec<u8> {
    binary(&[
        entry(ELF, 80, 0x11, 64, b"\x7fELF"),
        entry(PTX, 90, 0x11, 80, b".version 8.0\n"),
        entry(PTX, 80, 0x11, 72, TEXT),
    ])
}

fn wrapper(magic: c_int, version: c_int, data: &[u8]) -> Wrapper {
    Wrapper { magic, version, data: data.as_ptr(), other: std::ptr::null() }
}

/// Catches a parser that takes machine code for PTX, headers for one length, padding for text, or the PTX
/// of a newer device.
#[test]
fn the_oldest_ptx_is_found() {
    let data = whole();
    // SAFETY: a fat binary as long as it says.
    let found = unsafe { registered(&wrapper(WRAPPER_MAGIC, 1, &data)) };
    assert_eq!(found.unwrap().to_bytes(), b"\n.version 6.0\n.target sm_60\n");
}

/// Catches an error that does not say what is wrong and what to do about it.
#[test]
fn what_is_of_no_use_is_told_apart() {
    for (data, why) in [
        (vec![0; HEADER], Unusable::Foreign),
        (whole()[..HEADER + 100].to_vec(), Unusable::Truncated),
        (binary(&[]), Unusable::NoPtx),
        (binary(&[entry(ELF, 80, 0x11, 64, b"\x7fELF")]), Unusable::NoPtx),
        (binary(&[entry(PTX, 80, 0x2011, 72, TEXT)]), Unusable::Compressed),
        (binary(&[entry(PTX, 80, 0x8011, 80, TEXT)]), Unusable::Compressed),
        (binary(&[entry(PTX, 80, 0x11, 72, TEXT)[..40].to_vec()]), Unusable::Truncated),
    ] {
        assert_eq!(ptx(&data), Err(why), "{data:?}");
    }
    let data = whole();
    for (magic, version, why) in [(0, 1, Unusable::Foreign), (WRAPPER_MAGIC, 2, Unusable::Linked)] {
        // SAFETY: a fat binary as long as it says.
        assert_eq!(unsafe { registered(&wrapper(magic, version, &data)) }, Err(why));
    }
    // SAFETY: null is allowed.
    assert_eq!(unsafe { registered(std::ptr::null()) }, Err(Unusable::Foreign));
    assert!(Unusable::Compressed.text().contains("--no-compress"));
}

/// Catches an index out of range, and a sum that overflows: a panic would cross the C interface.
#[test]
fn a_part_of_one_is_an_error() {
    let data = whole();
    for end in 0..data.len() {
        assert_eq!(ptx(&data[..end]), Err(Unusable::Truncated), "{end} bytes");
    }
}

proptest! {
    /// Catches the same, and a loop that does not end, with lengths of any size.
    #[test]
    fn damage_is_no_panic(
        at in prop::collection::vec((0_usize..whole().len(), any::<u8>()), 1..20),
    ) {
        let mut data = whole();
        for (place, byte) in at {
            data[place] = byte;
        }
        let _ = ptx(&data);
    }

    /// Catches the same, where a size is at its limit.
    #[test]
    fn sizes_at_the_limit_are_no_panic(header in any::<u32>(), less in 0_u64..300) {
        let (mut data, size) = (whole(), u64::MAX - less);
        data[HEADER + 4..HEADER + 8].copy_from_slice(&header.to_le_bytes());
        data[HEADER + 8..HEADER + 16].copy_from_slice(&size.to_le_bytes());
        prop_assert_eq!(ptx(&data), Err(Unusable::Truncated));
    }
}
