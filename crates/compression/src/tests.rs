use errors::ErrorKind;
use proptest::prelude::*;

use super::exact::{self, power, value};
use super::*;

const KINDS: [(Element, Bits); 6] = [
    (Element::F32, Bits::Eight),
    (Element::F32, Bits::Twelve),
    (Element::F32, Bits::Sixteen),
    (Element::F64, Bits::Eight),
    (Element::F64, Bits::Twelve),
    (Element::F64, Bits::Sixteen),
];

/// Encodes into bytes that are not 0. The array lies at an odd address.
fn encoded(
    content: &[u8],
    (element, bits): (Element, Bits),
    bound: &Bound,
    threads: usize,
) -> (Vec<u8>, Outcome) {
    let odd = [&[7], content].concat();
    let len = encoded_len(content.len() as u64, element, bits).unwrap();
    let mut out = vec![0xab; len as usize];
    let outcome = encode(&odd[1..], element, bits, bound, threads, &mut out).unwrap();
    (out, outcome)
}

fn decoded(encoded: &[u8], threads: usize) -> errors::Result<Vec<u8>> {
    let mut content = vec![0xcd; Header::read(encoded)?.content_len as usize + 1];
    decode(encoded, &mut content[1..], threads)?;
    Ok(content.split_off(1))
}

/// How values of a run come to be from random bits.
#[derive(Clone, Copy, Debug)]
enum Run {
    Any,
    OneExponent(u64),
    /// Of which most are rounded up to the next power of two.
    BelowPower(u64),
    /// That small integers are times a power of two.
    Integers(u64),
    Exponents(u64),
    Zeros,
    Denormals,
    NotFinite,
}

impl Run {
    fn value(self, random: u64, element: Element) -> Vec<u8> {
        let (fraction, most) = if element == Element::F32 { (23, 0xff) } else { (52, 0x7ff) };
        let mask = (1 << fraction) - 1;
        let of = |exponent: u64, bits: u64| exponent.min(most) << fraction | bits & mask;
        let magnitude = match self {
            Run::Any => random >> 1,
            Run::OneExponent(exponent) => of(exponent % most, random),
            Run::BelowPower(exponent) => of(exponent % most, mask - (random >> 20 & 15)),
            Run::Integers(exponent) => {
                let integer = ((random & 0x1ffff) as f64).to_bits();
                let bits = integer << 12 >> 12 >> (52 - fraction);
                of(exponent % (most - 20) + (integer >> 52).saturating_sub(1022), bits)
            }
            Run::Exponents(exponent) => of(exponent % most + (random >> 58), random),
            Run::Zeros => 0,
            Run::Denormals => of(0, random),
            Run::NotFinite => of(most, random & random >> 24),
        };
        match element {
            Element::F32 => {
                ((magnitude as u32) << 1 >> 1 | (random as u32) << 31).to_le_bytes().to_vec()
            }
            Element::F64 => (magnitude << 1 >> 1 | random << 63).to_le_bytes().to_vec(),
        }
    }
}

fn runs() -> impl Strategy<Value = Run> {
    prop_oneof![
        1 => Just(Run::Any),
        3 => any::<u64>().prop_map(Run::OneExponent),
        2 => any::<u64>().prop_map(Run::BelowPower),
        2 => any::<u64>().prop_map(Run::Integers),
        2 => any::<u64>().prop_map(Run::Exponents),
        2 => Just(Run::Zeros),
        2 => Just(Run::Denormals),
        1 => Just(Run::NotFinite),
    ]
}

/// Up to 200 values, and an absolute bound at the scale of one of them.
fn arrays(element: Element) -> impl Strategy<Value = (Vec<u8>, f64)> {
    let run = (runs(), prop::collection::vec(any::<u64>(), 1..100));
    let all = prop::collection::vec(run, 0..6);
    let bound = (any::<prop::sample::Index>(), -24..3_i32, 1.0..2.0);
    (all, 0..=200_usize, bound).prop_map(move |(runs, len, (at, scale, factor))| {
        let values = runs.into_iter().flat_map(|(run, random)| {
            random.into_iter().map(move |random| run.value(random, element))
        });
        let content: Vec<u8> = values.take(len).flatten().collect();
        let numbers: Vec<f64> = content.chunks(element.bytes()).map(value).collect();
        let number = if numbers.is_empty() { 1.0 } else { at.get(&numbers).abs() };
        let bound: f64 = number * power(scale) * factor;
        let bound = if bound > 0.0 && bound.is_finite() { bound } else { power(10 * scale) };
        (content, bound)
    })
}

fn kinds_and_arrays() -> impl Strategy<Value = ((Element, Bits), (Vec<u8>, f64))> {
    prop::sample::select(&KINDS[..]).prop_flat_map(|kind| (Just(kind), arrays(kind.0)))
}

/// The same without wide registers.
fn blocks_plain(
    content: &[u8],
    kind: (Element, Bits),
    bound: f64,
) -> (Vec<u8>, Vec<u8>, block::Encoded) {
    let blocks = content.len().div_ceil(BLOCK * kind.0.bytes());
    let mut codes = vec![0xab; blocks * kind.0.bytes() / 4];
    let mut values = vec![0xab; blocks * 8 * kind.1.number() as usize];
    let encode = |codes: &mut [u8], values: &mut [u8]| {
        use block::encode_plain;
        with_kind!(kind.0, kind.1, encode_plain(content, codes, values, bound, pack::pack))
    };
    let encoded = encode(&mut codes, &mut values);
    (codes, values, encoded)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    /// Catches a value beyond the bound, a block that is kept whole and need not be, or is not bit for bit what it was,
    /// an error that is not the largest, a wrong place, and bytes that are left as they were. That errors are not
    /// rounded is asked in `exact`.
    #[test]
    fn arrays_become_what_exact_arithmetic_makes_of_them((kind, (content, bound)) in kinds_and_arrays()) {
        let expected = exact::encode(&content, kind.0, kind.1, bound, 0.0);
        let (found, outcome) = encoded(&content, kind, &Bound::absolute(bound).unwrap(), 1);
        if expected.whole > expected.capacity {
            prop_assert_eq!(outcome, Outcome::Overflow);
            return Ok(());
        }
        let blocks = content.len().div_ceil(BLOCK * kind.0.bytes()) as u64;
        let (error, whole) = (expected.error, expected.whole);
        prop_assert_eq!(outcome, Outcome::Done { error, whole, blocks });
        prop_assert!(found == expected.encoded);
        prop_assert!(decoded(&found, 1).unwrap() == expected.decoded);
        let header = Header::read(&found).unwrap();
        prop_assert_eq!((header.bound, header.error, header.whole), (bound, error, whole));
    }

    /// Catches code that depends on the registers.
    #[test]
    fn all_registers_make_the_same((kind, (content, bound)) in kinds_and_arrays()) {
        let (codes, values, blocks) = blocks_plain(&content, kind, bound);
        let mut again = (codes.clone(), values.clone());
        again.0.fill(0xcd);
        again.1.fill(0xcd);
        let encode = |codes: &mut [u8], values: &mut [u8]| {
            use block::encode;
            with_kind!(kind.0, kind.1, encode(&content, codes, values, bound))
        };
        let wide = encode(&mut again.0, &mut again.1);
        prop_assert_eq!(&again, &(codes.clone(), values.clone()));
        prop_assert_eq!((wide.error, wide.whole), (blocks.error, blocks.whole));
        let [mut one, mut other] = [vec![1; content.len()], vec![2; content.len()]];
        let plain = {
            use block::decode_plain;
            with_kind!(kind.0, kind.1, decode_plain(&codes, &values, &[], &mut one, 5, pack::unpack))
        };
        let wide = {
            use block::decode;
            with_kind!(kind.0, kind.1, decode(&codes, &values, &[], &mut other, 5))
        };
        prop_assert_eq!(&plain, &wide);
        prop_assert!(plain.is_err() || one == other);
        let [plain, wide] = match kind.0 {
            Element::F32 => [block::largest_plain::<f32, 4>(&content), block::largest::<f32, 4>(&content)],
            Element::F64 => [block::largest_plain::<f64, 8>(&content), block::largest::<f64, 8>(&content)],
        };
        prop_assert_eq!(plain, wide);
    }

    /// Catches a bound that is taken relative to an infinity, or to a part of the array, and one that denormals do not
    /// keep although it is wide.
    #[test]
    fn a_relative_bound_is_of_the_largest_finite_value(
        (kind, (content, _)) in kinds_and_arrays(), scale in 0.001..=1.0,
    ) {
        let relative = f64::exp2(-f64::from(kind.1.number()) * scale);
        let numbers = content.chunks(kind.0.bytes()).map(value).filter(|x| x.is_finite());
        let largest = numbers.fold(0.0, |largest, x| f64::max(largest, x.abs()));
        let expected = exact::encode(&content, kind.0, kind.1, relative * largest, largest);
        let (found, outcome) = encoded(&content, kind, &Bound::relative(relative, kind.1).unwrap(), 1);
        prop_assert_eq!(outcome == Outcome::Overflow, expected.whole > expected.capacity);
        prop_assert!(outcome == Outcome::Overflow || found == expected.encoded);
    }

    /// Catches a block that is decoded to another place than its own.
    #[test]
    fn some_blocks_are_what_they_are_in_the_whole(
        (kind, (content, bound)) in kinds_and_arrays(), ends: [prop::sample::Index; 2], threads in 0..3_usize,
    ) {
        let (found, outcome) = encoded(&content, kind, &Bound::absolute(bound).unwrap(), 1);
        if outcome == Outcome::Overflow {
            return Ok(());
        }
        let header = Header::read(&found).unwrap();
        let mut ends = ends.map(|end| end.index(header.blocks() as usize + 1) as u64);
        ends.sort();
        let places = header.places(ends[0]..ends[1]).unwrap();
        let mut some = vec![0xab; (places.content.end - places.content.start) as usize];
        let part = Part::of(&found, &places).unwrap();
        decode_blocks(&header, ends[0]..ends[1], part, &mut some, threads).unwrap();
        let all = decoded(&found, 1).unwrap();
        prop_assert!(some == all[places.content.start as usize..places.content.end as usize]);
    }
}

/// The bytes of `blocks` blocks of a wave, of which those that `is_whole` names have an infinity.
fn wave(element: Element, blocks: usize, is_whole: impl Fn(usize) -> bool) -> Vec<u8> {
    let value = |n: usize| match is_whole(n / BLOCK) && n % BLOCK == 5 {
        true => f64::INFINITY,
        false => (n as f64 * 0.01).sin() * (n as f64 * 1e-4).cos(),
    };
    let values = (0..blocks * BLOCK).map(value);
    match element {
        Element::F32 => values.flat_map(|x| (x as f32).to_le_bytes()).collect(),
        Element::F64 => values.flat_map(f64::to_le_bytes).collect(),
    }
}

/// Catches entries of the side area that are given in the order of threads, and pieces that are cut in the wrong place.
#[test]
fn any_number_of_threads_makes_the_same_bytes() {
    let blocks = 2 * pieces::PIECE + 17;
    for (element, bits) in KINDS {
        let mut content = wave(element, blocks, |block| block % 200 == 9);
        content.truncate(content.len() - 3 * element.bytes());
        let bound = Bound::relative(0.02, bits).unwrap();
        let (found, outcome) = encoded(&content, (element, bits), &bound, 1);
        assert!(matches!(outcome, Outcome::Done { whole: 41.., .. }), "{outcome:?}");
        let back = decoded(&found, 1).unwrap();
        for threads in [0, 2, 3, 7] {
            assert!(
                encoded(&content, (element, bits), &bound, threads) == (found.clone(), outcome)
            );
            assert!(decoded(&found, threads).unwrap() == back);
        }
        let applied = Header::read(&found).unwrap().bound;
        let expected = exact::encode(&content, element, bits, applied, 1.0);
        assert!(back == expected.decoded);
    }
}

/// Catches one entry too few or too many in the side area, in one piece and in several.
#[test]
fn more_whole_blocks_than_there_is_room_for_are_an_overflow() {
    for (element, bits) in KINDS {
        let bound = Bound::absolute(0.1).unwrap();
        for (blocks, room) in [(1, 1), (127, 1), (128, 2), (300, 3), (2 * pieces::PIECE, 65)] {
            for threads in [1, 3] {
                let full = wave(element, blocks, |block| block < room);
                let (_, outcome) = encoded(&full, (element, bits), &bound, threads);
                assert!(matches!(outcome, Outcome::Done { whole, .. } if whole == room as u64));
                if blocks > room {
                    let first = wave(element, blocks, |block| block <= room);
                    let last = wave(element, blocks, |block| block >= blocks - room - 1);
                    for content in [first, last] {
                        let (_, outcome) = encoded(&content, (element, bits), &bound, threads);
                        assert_eq!(outcome, Outcome::Overflow);
                    }
                }
            }
        }
    }
}

/// Catches the one value of its type whose nearest code is infinite.
#[test]
fn the_most_negative_value_stays_finite() {
    for (element, bits) in KINDS {
        let value = match element {
            Element::F32 => f32::MIN.to_le_bytes().to_vec(),
            Element::F64 => f64::MIN.to_le_bytes().to_vec(),
        };
        let (found, outcome) =
            encoded(&value, (element, bits), &Bound::absolute(f64::MAX).unwrap(), 1);
        assert_eq!(outcome, Outcome::Done { error: 0.0, whole: 1, blocks: 1 });
        assert_eq!(decoded(&found, 1).unwrap(), value);
    }
}

/// Catches a finite block that is kept whole at a bound that the crate's comment says is wide enough.
#[test]
fn a_wide_relative_bound_keeps_no_block_whole() {
    for (element, bits) in KINDS {
        let content = wave(element, 1000, |_| false);
        let bound = Bound::relative(power(1 - bits.number() as i32), bits).unwrap();
        let (_, outcome) = encoded(&content, (element, bits), &bound, 1);
        assert!(matches!(outcome, Outcome::Done { whole: 0, .. }), "{outcome:?}");
    }
}

/// Catches a value that is as far off as it may be, and not kept.
#[test]
fn a_value_may_be_as_far_off_as_the_bound() {
    for kind in KINDS {
        let content = wave(kind.0, 1, |_| false);
        let (found, outcome) = encoded(&content, kind, &Bound::absolute(1.0).unwrap(), 1);
        let Outcome::Done { error, whole: 0, .. } = outcome else { panic!("{outcome:?}") };
        let (again, same) = encoded(&content, kind, &Bound::absolute(error).unwrap(), 1);
        assert_eq!(same, outcome);
        assert!(again[HEADER_LEN..] == found[HEADER_LEN..]);
        let below = f64::from_bits(error.to_bits() - 1);
        let (_, outcome) = encoded(&content, kind, &Bound::absolute(below).unwrap(), 1);
        assert!(matches!(outcome, Outcome::Done { whole: 1, .. }), "{outcome:?}");
    }
}

/// Catches a bound that promises nothing.
#[test]
fn bounds_that_are_none_are_named() {
    for bound in [f64::NAN, 0.0, -0.0, -1.5, f64::INFINITY, f64::NEG_INFINITY] {
        for error in
            [Bound::absolute(bound), Bound::relative(bound, Bits::Eight)].map(Result::unwrap_err)
        {
            assert_eq!(error.kind(), ErrorKind::Invalid);
            assert!(error.to_string().contains(&format!("bound {bound:?} ")), "{error}");
        }
    }
    let error = Bound::relative(0.0039, Bits::Eight).unwrap_err().to_string();
    assert!(error.contains("0.0039 is below one bit of 8"), "{error}");
    Bound::relative(0.0039, Bits::Twelve).unwrap();
    Bound::relative(1.0 / 256.0, Bits::Eight).unwrap();
}

/// Catches a call that writes behind the end, or leaves bytes as they were.
#[test]
fn lengths_that_do_not_fit_are_named() {
    let bound = Bound::absolute(1.0).unwrap();
    let encode = |content: &[u8], out: &mut [u8]| {
        encode(content, Element::F64, Bits::Eight, &bound, 1, out).unwrap_err().to_string()
    };
    assert!(encode(&[0; 15], &mut []).starts_with("15 bytes are no whole number of values of 8"));
    assert!(encode(&[0; 16], &mut [0; 700]).starts_with("700 bytes for an encoded array that has"));
    let whole = encoded_len(u64::MAX - 7, Element::F64, Bits::Sixteen).unwrap_err().to_string();
    assert!(whole.contains("more than an encoded array can have"), "{whole}");
    let (found, _) = encoded(&[0; 16], KINDS[3], &bound, 1);
    let error = decode(&found, &mut [0; 8], 1).unwrap_err();
    assert_eq!(error.to_string(), "it is an array of 16 bytes, and not of 8");
    let header = Header::read(&found).unwrap();
    assert_eq!(header.encoded_len().unwrap(), found.len() as u64);
    assert!(header.places(0..2).is_err());
}

/// Catches a reader that takes a damaged header, or what is cut off, for an array.
#[test]
fn damage_of_a_header_is_found() {
    for kind in KINDS {
        let content = wave(kind.0, 3, |block| block == 1);
        let (found, _) = encoded(&content, kind, &Bound::absolute(0.3).unwrap(), 1);
        let mut longer = found.clone();
        longer.push(0);
        for damaged in (0..found.len()).map(|len| &found[..len]).chain([&longer[..]]) {
            assert_eq!(decoded(damaged, 1).unwrap_err().kind(), ErrorKind::Corrupt);
        }
        for at in 0..HEADER_LEN {
            for byte in (0..=u8::MAX).filter(|byte| *byte != found[at]) {
                let mut damaged = found.clone();
                damaged[at] = byte;
                let mut back = vec![0; content.len()];
                let result = decode(&damaged, &mut back, 2);
                // Bound, error and largest value are not in the blocks.
                if !matches!(at, 24..40 | 56..64) {
                    let error = result.unwrap_err();
                    assert_eq!(error.kind(), ErrorKind::Corrupt, "byte {at}: {error}");
                }
            }
        }
    }
}

/// Catches a header whose numbers are each possible, and together are not.
#[test]
fn numbers_of_a_header_contradict_each_other() {
    let (found, _) = encoded(&[1; 256 * 200], KINDS[0], &Bound::absolute(0.5).unwrap(), 1);
    let bits = f64::to_bits;
    for (at, number, said) in [
        (24, bits(f64::NAN), "within NaN"),
        (24, bits(f64::INFINITY), "within inf"),
        (24, bits(-1.0), "within -1"),
        (32, bits(0.6), "an error of 0.6 within 0.5"),
        (32, bits(-0.1), "an error of -0.1"),
        (32, bits(f64::NAN), "an error of NaN"),
        (40, 3, "3 of 200 blocks whole, with room for 2"),
        (48, 3, "0 of 200 blocks whole, with room for 3"),
        (56, bits(f64::NAN), "a magnitude of NaN"),
        (56, bits(-2.0), "a magnitude of -2"),
    ] {
        let mut damaged = found.clone();
        damaged[at..at + 8].copy_from_slice(&number.to_le_bytes());
        let error = Header::read(&damaged).unwrap_err();
        assert!(error.to_string().contains(said), "{error}");
    }
    // An array without blocks has room for one.
    let (mut none, _) = encoded(&[], KINDS[0], &Bound::absolute(0.5).unwrap(), 1);
    none[40] = 1;
    assert!(Header::read(&none).is_err());
}

/// Catches a read beyond the side area, and a code that is taken for a step.
#[test]
fn damage_of_blocks_is_found() {
    for (element, bits) in KINDS {
        let content = wave(element, 3, |block| block == 1);
        let (found, _) = encoded(&content, (element, bits), &Bound::absolute(0.3).unwrap(), 1);
        let places = Header::read(&found).unwrap().places(1..2).unwrap();
        let (code, index) = (places.codes.start as usize, places.values.start as usize);
        for wrong in [1_u32, 2, u32::MAX] {
            let mut damaged = found.clone();
            damaged[index..index + 4].copy_from_slice(&wrong.to_le_bytes());
            let error = decoded(&damaged, 1).unwrap_err();
            assert_eq!(error.to_string(), format!("block 1 is kept whole as entry {wrong} of 1"));
        }
        let mut damaged = found.clone();
        damaged[code] = 0xfe;
        let error = decoded(&damaged, 1).unwrap_err();
        assert!(error.to_string().starts_with("block 1 has the code"), "{error}");
    }
}
