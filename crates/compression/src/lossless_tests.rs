use errors::ErrorKind;
use proptest::prelude::*;

use super::delta::{self, Word};
use super::*;

/// Encodes into bytes that are not 0. The array lies at an odd address.
fn encoded(content: &[u8], element: Element, threads: usize) -> Vec<u8> {
    let odd = [&[7], content].concat();
    let mut out = vec![0xab; 1000 + content.len() * 9 / 8];
    let len = encode_lossless(&odd[1..], element, threads, &mut out).unwrap().unwrap();
    assert!(out[len as usize..].iter().all(|byte| *byte == 0xab));
    out.truncate(len as usize);
    out
}

fn decoded(encoded: &[u8], threads: usize) -> errors::Result<Vec<u8>> {
    let mut content = vec![0xcd; AnyHeader::read(encoded)?.content_len() as usize + 1];
    decode(encoded, &mut content[1..], threads)?;
    Ok(content.split_off(1))
}

/// The encoding as the comment has it, bit by bit in wide integers: what is compared with.
fn exact(content: &[u8], element: Element) -> Vec<u8> {
    let bytes = element.bytes();
    let all = 8 * bytes as u32;
    let modulus = 1_i128 << all;
    let turned = |value: &[u8]| {
        let mut wide = [0; 16];
        wide[..value.len()].copy_from_slice(value);
        let bits = i128::from_le_bytes(wide);
        bits * 2 % modulus + bits * 2 / modulus
    };
    let mut values: Vec<i128> = content.chunks(bytes).map(turned).collect();
    values.resize(values.len().next_multiple_of(BLOCK), 0);
    let blocks = values.len() / BLOCK;
    let (mut codes, mut table, mut payload) = (Vec::new(), Vec::new(), Vec::new());
    for (nth, block) in values.chunks(BLOCK).enumerate() {
        if nth.is_multiple_of(GROUP) {
            table.push(payload.len());
        }
        let small = |pair: &[i128]| {
            let difference = (pair[1] - pair[0]).rem_euclid(modulus);
            match difference < modulus / 2 {
                true => 2 * difference,
                false => 2 * (modulus - difference) - 1,
            }
        };
        let differences: Vec<i128> = [0].into_iter().chain(block.windows(2).map(small)).collect();
        let width = 128 - differences.iter().fold(0, |all, one| all | one).leading_zeros();
        if block.iter().all(|value| *value == 0) {
            codes.push(0);
            continue;
        }
        codes.push(width as u8 + 1);
        if width == all {
            let from = nth * BLOCK * bytes;
            let raw = &content[from..content.len().min(from + BLOCK * bytes)];
            payload.extend_from_slice(raw);
            payload.resize(payload.len() + BLOCK * bytes - raw.len(), 0);
            continue;
        }
        payload.extend_from_slice(&block[0].to_le_bytes()[..bytes]);
        let lanes: Vec<Vec<u8>> = (0..8)
            .map(|lane| {
                let of_lane = differences.iter().skip(lane).step_by(8);
                let bits: Vec<u8> = of_lane
                    .flat_map(|value| (0..width).map(move |bit| (value >> bit & 1) as u8))
                    .collect();
                bits.chunks(8).map(|byte| (0..8).map(|bit| byte[bit] << bit).sum()).collect()
            })
            .collect();
        let words = width as usize / bytes * bytes;
        for word in (0..words).step_by(bytes) {
            lanes.iter().for_each(|lane| payload.extend_from_slice(&lane[word..word + bytes]));
        }
        for byte in words..width as usize {
            payload.extend(lanes.iter().map(|lane| lane[byte]));
        }
    }
    codes.resize(blocks.next_multiple_of(64), 0);
    let begin = HEADER_LEN + codes.len() + 8 * table.len();
    let mut encoded = [&MAGIC[..], &[2, 0, 0, 0, 0, bytes as u8, 0, 0]].concat();
    encoded.extend_from_slice(&(content.len() as u64).to_le_bytes());
    encoded.extend_from_slice(&((begin + payload.len()) as u64).to_le_bytes());
    encoded.resize(HEADER_LEN, 0);
    encoded.extend_from_slice(&codes);
    table.iter().for_each(|at| encoded.extend_from_slice(&((begin + at) as u64).to_le_bytes()));
    encoded.extend_from_slice(&payload);
    encoded
}

/// Runs of values that are 0, or of any bits, or near each other: as many bits of each may be any.
fn arrays(element: Element) -> impl Strategy<Value = Vec<u8>> {
    let run = (0..=64_u32, any::<u64>(), prop::collection::vec(any::<u64>(), 1..150));
    (prop::collection::vec(run, 0..6), 0..=400_usize).prop_map(move |(runs, len)| {
        let values = runs.into_iter().flat_map(|(free, base, random)| {
            random.into_iter().map(move |random| match free {
                64 => random,
                0 => 0,
                free => base >> free << free | random >> (64 - free),
            })
        });
        values.take(len).flat_map(|value| value.to_le_bytes()[..element.bytes()].to_vec()).collect()
    })
}

fn elements_and_arrays() -> impl Strategy<Value = (Element, Vec<u8>)> {
    prop_oneof![
        arrays(Element::F32).prop_map(|array| (Element::F32, array)),
        arrays(Element::F64).prop_map(|array| (Element::F64, array)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    /// Catches a bit that does not come back, bytes other than the comment says, and bytes that are left as they were.
    #[test]
    fn arrays_come_back_bit_by_bit((element, content) in elements_and_arrays()) {
        let found = encoded(&content, element, 1);
        prop_assert!(found == exact(&content, element));
        prop_assert!(decoded(&found, 1).unwrap() == content);
        let header = LosslessHeader::read(&found).unwrap();
        let len = found.len() as u64;
        let expected = LosslessHeader { element, content_len: content.len() as u64, encoded_len: len };
        prop_assert_eq!(header, expected);
        // One byte less is too few.
        let mut less = vec![0; found.len() - 1];
        prop_assert_eq!(encode_lossless(&content, element, 2, &mut less), Ok(None));
    }

    /// Catches code that depends on the registers.
    #[test]
    fn all_registers_make_the_same((element, content) in elements_and_arrays()) {
        match element {
            Element::F32 => same_in_all_registers::<u32, 4>(&content),
            Element::F64 => same_in_all_registers::<u64, 8>(&content),
        }
    }

    /// Catches damage that makes a panic, and a place beyond the end.
    #[test]
    fn damage_is_an_error_or_other_values(
        (element, content) in elements_and_arrays(), at: prop::sample::Index, byte: u8, keep: prop::sample::Index,
    ) {
        let mut damaged = encoded(&content, element, 1);
        let at = at.index(damaged.len());
        damaged[at] = byte;
        let mut back = vec![0; content.len()];
        if let Err(error) = decode(&damaged, &mut back, 2) {
            prop_assert_eq!(error.kind(), ErrorKind::Corrupt);
        }
        damaged.truncate(keep.index(damaged.len()));
        prop_assert_eq!(decode(&damaged, &mut back, 2).unwrap_err().kind(), ErrorKind::Corrupt);
    }
}

fn same_in_all_registers<W: Word<E>, const E: usize>(content: &[u8]) {
    use lossless::*;
    let blocks = content.len().div_ceil(BLOCK * E);
    let [mut plain, mut wide] = [vec![1; blocks], vec![2; blocks]];
    let len = group_codes_plain::<W, E>(content, &mut plain);
    assert_eq!(group_codes::<W, E>(content, &mut wide), len);
    assert_eq!(plain, wide);
    let [mut one, mut other] = [vec![1; len], vec![2; len]];
    pack_group_plain::<W, E>(content, &plain, &mut one);
    pack_group::<W, E>(content, &plain, &mut other);
    assert!(one == other);
    let [mut back, mut again] = [vec![1; content.len()], vec![2; content.len()]];
    unpack_group_by::<E>(&mut back, &plain, &one, delta::unpack::<W, E>);
    unpack_group::<W, E>(&mut again, &plain, &one);
    assert!(back == again);
}

/// Values of many groups: zeros, a wave, one that is no number, and any bits.
fn field(element: Element, values: usize) -> Vec<u8> {
    let mut random = 1_u64;
    let values = (0..values).map(|n| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
        match n / 30_000 % 3 {
            0 => 0,
            1 if n % 5000 == 77 => f64::NAN.to_bits() | random >> 20,
            1 => match element {
                Element::F32 => u64::from((n as f32 * 0.01).sin().to_bits()),
                Element::F64 => (n as f64 * 0.01).sin().to_bits(),
            },
            _ => random ^ random >> 29,
        }
    });
    values.flat_map(|value| value.to_le_bytes()[..element.bytes()].to_vec()).collect()
}

/// Catches groups in the order of threads, one that is cut in the wrong place, and a thread that waits for ever where
/// there is no room.
#[test]
fn any_number_of_threads_makes_the_same() {
    for element in [Element::F32, Element::F64] {
        let content = field(element, 5 * GROUP * BLOCK + 3 * BLOCK + 7);
        let found = encoded(&content, element, 1);
        assert!(found == exact(&content, element));
        for threads in [0, 2, 3, 7] {
            assert!(encoded(&content, element, threads) == found);
            assert!(decoded(&found, threads).unwrap() == content);
            for room in [0, 100, 7000, found.len() / 2, found.len() - 1] {
                let mut less = vec![0; room];
                assert_eq!(encode_lossless(&content, element, threads, &mut less), Ok(None));
            }
        }
    }
}

/// Catches an array that is encoded for nothing, and one that is not although it is worthwhile.
#[test]
fn what_saves_an_eighth_is_worthwhile() {
    for element in [Element::F32, Element::F64] {
        let bytes = element.bytes();
        let content = field(element, 90_000);
        let (zeros, random) = (&content[..30_000 * bytes], &content[60_000 * bytes..]);
        assert!(is_worthwhile(zeros, element) && is_worthwhile(&content, element));
        assert!(!is_worthwhile(random, element));
        let room = [8000, 80, 0].map(|content| lossless_room(content, element).unwrap());
        assert_eq!(room, [7000, 200, 128]);
    }
}

/// Catches a header whose numbers are each possible, and together are not.
#[test]
fn damage_of_a_header_is_found() {
    for element in [Element::F32, Element::F64] {
        let content = field(element, 40_000);
        let found = encoded(&content, element, 1);
        for at in 0..HEADER_LEN {
            for byte in (0..=u8::MAX).filter(|byte| *byte != found[at]) {
                let mut damaged = found.clone();
                damaged[at] = byte;
                let error = decode(&damaged, &mut vec![0; content.len()], 2).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Corrupt, "byte {at}: {error}");
            }
        }
        let mut longer = found.clone();
        longer.push(0);
        assert!(decoded(&longer, 1).unwrap_err().to_string().contains("truncated"));
        for (at, number, said) in [
            (16, u64::MAX, "no whole number of values"),
            (16, u64::MAX - 7, "would be encoded as"),
            (24, 127, "would be encoded as 127"),
            (24, u64::MAX, "would be encoded as"),
        ] {
            let mut damaged = found.clone();
            damaged[at..at + 8].copy_from_slice(&number.to_le_bytes());
            let error = LosslessHeader::read(&damaged).unwrap_err();
            assert!(error.to_string().contains(said), "{error}");
        }
    }
}

/// Catches a code that means nothing, and places that do not fit the codes.
#[test]
fn damage_of_blocks_is_found() {
    for element in [Element::F32, Element::F64] {
        let found = encoded(&field(element, 3 * GROUP * BLOCK), element, 1);
        let header = LosslessHeader::read(&found).unwrap();
        let most = 8 * element.bytes() as u8 + 1;
        for (at, byte, said) in [
            (HEADER_LEN + 1500, most + 1, "block 1500 has the code".to_owned()),
            (HEADER_LEN + 1, most, "the blocks from 1024 on begin at".to_owned()),
            (HEADER_LEN + 2400, 0, "its blocks end at".to_owned()),
            (
                header.table() as usize + 8,
                found[header.table() as usize + 8] ^ 1,
                "the blocks from 1024 on".to_owned(),
            ),
        ] {
            let mut damaged = found.clone();
            assert_ne!(damaged[at], byte);
            damaged[at] = byte;
            let error = decoded(&damaged, 2).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt);
            assert!(error.to_string().contains(&said), "{error}");
        }
        assert_eq!(delta::len::<4>(34), None);
    }
}

/// Catches lengths that are taken for others.
#[test]
fn lengths_that_do_not_fit_are_named() {
    let error = encode_lossless(&[0; 15], Element::F64, 1, &mut [0; 400]).unwrap_err();
    assert!(
        error.to_string().starts_with("15 bytes are no whole number of values of 8"),
        "{error}"
    );
    let found = encoded(&[1; 16], Element::F64, 1);
    let error = decode(&found, &mut [0; 8], 1).unwrap_err();
    assert_eq!(error.to_string(), "it is an array of 16 bytes, and not of 8");
}
