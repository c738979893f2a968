//! All bit patterns, by arithmetic that is slow and plain.

use super::*;
use proptest::prelude::*;

/// Floats of all kinds: any bits, one exponent, few bits, zeros, denormals, infinities and NaN.
fn floats() -> impl Strategy<Value = Vec<f32>> {
    let one = prop_oneof![
        4 => any::<u32>(),
        4 => (0..1_u32 << 23, 100..104_u32, any::<bool>())
            .prop_map(|(mantissa, exponent, sign)| u32::from(sign) << 31 | exponent << 23 | mantissa),
        2 => Just(0),
        1 => 0..1_u32 << 23,
        1 => Just(1_u32 << 31),
    ];
    kinds(one.prop_map(f32::from_bits))
}

fn doubles() -> impl Strategy<Value = Vec<f64>> {
    let one = prop_oneof![
        4 => any::<u64>(),
        4 => (0..1_u64 << 52, 1000..1004_u64, any::<bool>())
            .prop_map(|(mantissa, exponent, sign)| u64::from(sign) << 63 | exponent << 52 | mantissa),
        2 => Just(0),
        1 => 0..1_u64 << 52,
    ];
    kinds(one.prop_map(f64::from_bits))
}

/// Arrays in which values differ in kind, and arrays in which they do not.
fn kinds<T: std::fmt::Debug + Copy>(
    one: impl Strategy<Value = T> + Clone,
) -> impl Strategy<Value = Vec<T>> {
    let scaled = (prop::collection::vec(one.clone(), 64), 0..200_usize);
    prop_oneof![
        prop::collection::vec(one, 0..200),
        scaled.prop_map(|(values, len)| values.into_iter().cycle().take(len).collect()),
    ]
}

fn bits() -> impl Strategy<Value = Bits> {
    prop_oneof![Just(Bits::B8), Just(Bits::B12), Just(Bits::B16)]
}

fn bounds(bits: Bits) -> impl Strategy<Value = Bound> {
    let relative = (0.0..12.0).prop_map(move |power: f64| {
        Bound::relative((power - f64::from(bits.number())).exp2(), bits).unwrap()
    });
    prop_oneof![
        (-150.0..150.0).prop_map(|power: f64| Bound::absolute(power.exp2()).unwrap()),
        relative,
    ]
}

/// Checks an array of these bytes: `value` reads one.
fn check(
    content: &[u8],
    (element, bits, bound): (Element, Bits, Bound),
    value: impl Fn(&[u8]) -> f64,
) -> std::result::Result<(), TestCaseError> {
    let size = element.bytes();
    let len = encoded_len(content.len() as u64, element, bits).unwrap() as usize;
    let mut encoded = vec![0xaa; len];
    let outcome = encode(content, element, bits, &bound, 1, &mut encoded).unwrap();
    let all = || content.chunks(size).map(&value);
    let largest =
        all().filter(|value| value.is_finite()).fold(0.0, |most, value| value.abs().max(most));
    let most = match bound.0 {
        Kind::Absolute(most) => most,
        Kind::Relative(part) => part * largest,
    };
    let Outcome::Done(done) = outcome else {
        prop_assert!(content.len() > BLOCK * size, "one block always has room");
        return Ok(());
    };
    let mut decoded = vec![0x55; content.len()];
    decode(&encoded, &mut decoded, 1).unwrap();
    let mut error = 0.0_f64;
    for (was, is) in content.chunks(size).zip(decoded.chunks(size)) {
        let (old, new) = (value(was), value(is));
        if !old.is_finite() {
            prop_assert_eq!(was, is);
            continue;
        }
        // Doubles that are decoded are within a factor of two, or both below a step: exact.
        let differs = (old - new).abs();
        prop_assert!(differs <= most, "{old:e} has become {new:e}, and the bound is {most:e}");
        error = error.max(differs);
    }
    prop_assert_eq!(error, done.error);
    let header = Header::read(&encoded).unwrap();
    prop_assert_eq!((header.error, header.whole, header.bound), (error, done.whole, most));
    Ok(())
}

fn bytes_of(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

proptest! {
    /// Catches a value beyond its bound, special values that change, and an error that is told wrong.
    #[test]
    fn floats_come_back_within_the_bound(
        values in floats(),
        (bits, bound) in bits().prop_flat_map(|bits| (Just(bits), bounds(bits))),
    ) {
        let value = |bytes: &[u8]| f64::from(f32::from_le_bytes(bytes.try_into().unwrap()));
        check(&bytes_of(&values), (Element::F32, bits, bound), value)?;
    }

    /// The same of doubles.
    #[test]
    fn doubles_come_back_within_the_bound(
        values in doubles(),
        (bits, bound) in bits().prop_flat_map(|bits| (Just(bits), bounds(bits))),
    ) {
        let content: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let value = |bytes: &[u8]| f64::from_le_bytes(bytes.try_into().unwrap());
        check(&content, (Element::F64, bits, bound), value)?;
    }

    /// Catches a read beyond an array, a panic, and memory for what an array claims.
    #[test]
    fn hostile_bytes_are_answered(
        flips in prop::collection::vec((0..2000_usize, any::<u8>()), 1..6),
        cut in prop::option::of(0..2000_usize),
        bits in bits(),
    ) {
        let values: Vec<f32> = (0..300).map(|i| if i == 70 { f32::NAN } else { i as f32 }).collect();
        let content = bytes_of(&values);
        let mut encoded = vec![0; encoded_len(1200, Element::F32, bits).unwrap() as usize];
        let bound = Bound::absolute(10.0).unwrap();
        encode(&content, Element::F32, bits, &bound, 1, &mut encoded).unwrap();
        for (at, byte) in flips {
            let at = at % encoded.len();
            encoded[at] ^= byte;
        }
        if let Some(cut) = cut {
            encoded.truncate(cut);
        }
        let mut decoded = vec![0; content.len()];
        let _ = decode(&encoded, &mut decoded, 2);
    }
}

/// Catches an encoding that depends on the threads, and pieces that are put together in another order.
#[test]
fn any_number_of_threads_gives_the_same() {
    let mut values: Vec<f32> = (0..500_000).map(|i| (i as f32 * 0.01).sin()).collect();
    for at in [5, 70_000, 250_001, 499_999] {
        values[at] = f32::INFINITY;
    }
    let content = bytes_of(&values);
    let bound = Bound::relative(0.02, Bits::B8).unwrap();
    let len = encoded_len(content.len() as u64, Element::F32, Bits::B8).unwrap() as usize;
    let of = |threads| {
        let mut encoded = vec![1; len];
        let done = encode(&content, Element::F32, Bits::B8, &bound, threads, &mut encoded).unwrap();
        let mut decoded = vec![0; content.len()];
        decode(&encoded, &mut decoded, threads).unwrap();
        (done, encoded, decoded)
    };
    let one = of(1);
    assert!(matches!(one.0, Outcome::Done(Encoded { whole: 4, .. })), "{:?}", one.0);
    for threads in [2, 3, 7] {
        assert!(of(threads) == one, "{threads} threads");
    }
    assert!(len < content.len() * 10 / 38, "{len} of {}", content.len());
}

/// Catches blocks that are lost where there is no room for more.
#[test]
fn too_many_whole_blocks_are_told() {
    for (bad, fits) in [(2, true), (3, false)] {
        let values: Vec<f32> = (0..64 * 128)
            .map(|i| if i % 64 == 3 && i / 64 < bad { f32::NAN } else { 1.0 })
            .collect();
        let content = bytes_of(&values);
        let mut encoded =
            vec![0; encoded_len(content.len() as u64, Element::F32, Bits::B12).unwrap() as usize];
        let bound = Bound::absolute(1.0).unwrap();
        let done = encode(&content, Element::F32, Bits::B12, &bound, 3, &mut encoded).unwrap();
        assert_eq!(matches!(done, Outcome::Done(_)), fits, "{done:?}");
    }
}

/// Catches bounds that mean nothing, and lengths that do not fit.
#[test]
fn bad_input_is_refused_by_name() {
    for (bound, words) in [
        (Bound::absolute(0.0), "bound is 0"),
        (Bound::absolute(-2.5), "bound is -2.5"),
        (Bound::absolute(f64::NAN), "bound is NaN"),
        (Bound::absolute(f64::INFINITY), "bound is inf"),
        (
            Bound::relative(0.003, Bits::B8),
            "bound is 0.003 of the largest value, which is below one bit of 8",
        ),
    ] {
        let text = bound.unwrap_err().to_string();
        assert!(text.contains(words), "{text}");
    }
    assert!(Bound::relative(0.004, Bits::B8).is_ok());
    assert!(encoded_len(7, Element::F32, Bits::B8).is_err());
    assert!(encoded_len(12, Element::F64, Bits::B8).is_err());
    assert!(encoded_len(u64::MAX - 3, Element::F32, Bits::B8).is_err());
    let bound = Bound::absolute(1.0).unwrap();
    assert!(encode(&[0; 8], Element::F32, Bits::B8, &bound, 1, &mut [0; 100]).is_err());
    assert!(decode(&[0; 50], &mut [0; 8], 1).is_err());
}
