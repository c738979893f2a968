//! The kernels of compression, compared with the processor's code.

use compression::{
    decode, encode, encode_lossless, encoded_len, lossless_room, Bits, Bound, Element, Header,
    LosslessHeader, Outcome, BLOCK, GROUP, HEADER_LEN,
};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::*;

const KINDS: [(Element, Bits); 6] = [
    (Element::F32, Bits::Eight),
    (Element::F32, Bits::Twelve),
    (Element::F32, Bits::Sixteen),
    (Element::F64, Bits::Eight),
    (Element::F64, Bits::Twelve),
    (Element::F64, Bits::Sixteen),
];

/// The kernels, and what they need.
struct Loaded<'a> {
    device: &'a Arc<Device>,
    kernels: Compression,
    stream: Stream,
}

impl Loaded<'_> {
    fn of(given: &Given) -> Loaded<'_> {
        let device = &given.device;
        let kernels = Compression::load(device).unwrap();
        Loaded { device, kernels, stream: Stream::new(device).unwrap() }
    }

    /// Bytes on the device, which begin behind so many others.
    fn put(&self, bytes: &[u8], skip: u64) -> DeviceBuffer {
        let len = bytes.len() as u64;
        let buffer = DeviceBuffer::new(self.device, skip + len + 1).unwrap();
        // SAFETY: both stay until the stream was waited for.
        unsafe { self.stream.copy_from_host(buffer.address() + skip, bytes.as_ptr(), len) }
            .unwrap();
        self.stream.synchronize().unwrap();
        buffer
    }

    fn get(&self, at: u64, len: u64) -> Vec<u8> {
        let mut bytes = vec![0; len as usize];
        // SAFETY: as above.
        unsafe { self.stream.copy_to_host(bytes.as_mut_ptr(), at, len) }.unwrap();
        self.stream.synchronize().unwrap();
        bytes
    }

    /// An array that is aligned to its elements, and not to more, encoded over bytes that are not 0.
    fn encode(&self, content: &[u8], (element, bits): (Element, Bits), bound: &Bound) -> Vec<u8> {
        let (len, skip) = (content.len() as u64, element.bytes() as u64);
        let stored = encoded_len(len, element, bits).unwrap();
        let (from, to) = (self.put(content, skip), self.put(&vec![0xab; stored as usize], 0));
        let kind = (element, bits, bound);
        // SAFETY: both have as many bytes, until the stream was waited for.
        unsafe {
            let from = (from.address() + skip, len);
            self.kernels.compress(&self.stream, from, kind, to.address()).unwrap();
        }
        self.get(to.address(), stored)
    }

    /// The array, and how many blocks meant nothing. Bytes behind it stay as they are.
    fn decode(&self, encoded: &[u8]) -> (Vec<u8>, u32) {
        let header = Header::read(encoded).unwrap();
        let (len, skip) = (header.content_len, header.element.bytes() as u64);
        let from = self.put(encoded, 0);
        let to = self.put(&vec![0xcd; len as usize + 8], skip);
        // SAFETY: as above.
        unsafe {
            let encoded = (from.address(), &header);
            self.kernels.decompress(&self.stream, encoded, to.address() + skip).unwrap();
        }
        let mut content = self.get(to.address() + skip, len + 8);
        assert_eq!(content.split_off(len as usize), [0xcd; 8]);
        let wrong = self.get(Compression::wrong(from.address()), 4);
        (content, u32::from_le_bytes(wrong.try_into().unwrap()))
    }
}

impl Loaded<'_> {
    /// The same without loss; `None`: there is not so much room, and nothing is written behind it.
    fn encode_lossless(&self, content: &[u8], element: Element, room: u64) -> Option<Vec<u8>> {
        let (len, skip) = (content.len() as u64, element.bytes() as u64);
        let from = self.put(content, skip);
        let to = self.put(&vec![0xab; room as usize + 64], 0);
        // SAFETY: both have as many bytes, until the stream was waited for.
        unsafe {
            let (from, to) = ((from.address() + skip, len), (to.address(), room));
            self.kernels.compress_lossless(&self.stream, from, element, to).unwrap();
        }
        let mut found = self.get(to.address(), room + 64);
        assert_eq!(found.split_off(room as usize), [0xab; 64]);
        let stored = u64::from_le_bytes(found[24..32].try_into().unwrap());
        found.truncate(stored as usize);
        (stored <= room).then_some(found)
    }

    fn decode_lossless(&self, encoded: &[u8]) -> (Vec<u8>, u32) {
        let header = LosslessHeader::read(encoded).unwrap();
        let (len, skip) = (header.content_len, header.element.bytes() as u64);
        let from = self.put(encoded, 0);
        let to = self.put(&vec![0xcd; len as usize + 8], skip);
        // SAFETY: as above.
        unsafe {
            let encoded = (from.address(), &header);
            self.kernels.decompress_lossless(&self.stream, encoded, to.address() + skip).unwrap();
        }
        let mut content = self.get(to.address() + skip, len + 8);
        assert_eq!(content.split_off(len as usize), [0xcd; 8]);
        let wrong = self.get(Compression::wrong(from.address()), 4);
        (content, u32::from_le_bytes(wrong.try_into().unwrap()))
    }
}

/// A value of so many kinds from random bits: any, one of few exponents, an integer, 0, one that is denormal,
/// infinite or NaN.
fn value(kind: u8, random: u64, element: Element) -> Vec<u8> {
    let near = 1.0 + (random >> 12) as f64 / (1_u64 << 52) as f64;
    let sign = if random & 1 == 0 { 1.0 } else { -1.0 };
    let number = match kind {
        0 => f64::from_bits(random),
        1..=4 => sign * near * 0.5_f64.powi((random >> 3 & 7) as i32),
        5 => sign * (random >> 50) as f64,
        6 => 0.0 * sign,
        7 => sign * f64::MAX,
        _ => sign * f64::INFINITY,
    };
    match (element, kind) {
        (Element::F32, 0) => (random as u32).to_le_bytes().to_vec(),
        (Element::F32, 7) => (random as u32 & 0x807f_ffff).to_le_bytes().to_vec(),
        (Element::F32, _) => (number as f32).to_le_bytes().to_vec(),
        (Element::F64, _) => number.to_le_bytes().to_vec(),
    }
}

/// Arrays of runs of values, of up to three tiles; most are one run's.
fn arrays() -> impl Strategy<Value = ((Element, Bits), Vec<u8>)> {
    let runs = prop::collection::vec((0..9_u8, 1..400_usize), 0..20);
    let most = prop_oneof![3 => Just(9_u8), 1 => Just(5), 1 => Just(0)];
    (prop::sample::select(&KINDS[..]), 0..9000_usize, runs, any::<u64>(), most).prop_map(
        |(kind, len, runs, seed, most)| {
            let mut state = seed;
            let mut random = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
                state ^ state >> 29
            };
            let runs = runs.into_iter().map(|(of, len)| (of.min(most), len));
            let all = runs.chain([(3, len)]).flat_map(|(of, len)| std::iter::repeat_n(of, len));
            let content = all.take(len).flat_map(|of| value(of, random(), kind.0)).collect();
            (kind, content)
        },
    )
}

/// Catches bytes other than the processor's: the software device runs threads in order, so that also blocks that are
/// kept whole have its order. And what either has written and the other reads otherwise.
#[test]
fn the_device_encodes_as_the_processor_does() {
    on_each(&[software], |given| {
        let loaded = Loaded::of(given);
        let mut outcomes = [0; 3];
        let bounds = (any::<bool>(), -20..1_i32);
        let counted = std::cell::RefCell::new(&mut outcomes);
        type Case = (((Element, Bits), Vec<u8>), (bool, i32));
        let same = |(((element, bits), content), (is_relative, scale)): Case| {
            let number = 1.5 * 2.0_f64.powi(scale.max(-(bits.number() as i32)));
            let bound = match is_relative {
                true => Bound::relative(number.min(0.9), bits).unwrap(),
                false => Bound::absolute(number).unwrap(),
            };
            let found = loaded.encode(&content, (element, bits), &bound);
            let mut expected = vec![0; found.len()];
            let outcome = encode(&content, element, bits, &bound, 1, &mut expected).unwrap();
            let number = |at: usize| u64::from_le_bytes(found[at..at + 8].try_into().unwrap());
            let (whole, room) = (number(40), number(48));
            if outcome == Outcome::Overflow {
                prop_assert!(whole > room);
                counted.borrow_mut()[2] += 1;
                return Ok(());
            }
            counted.borrow_mut()[usize::from(whole > 0)] += 1;
            let differs = found.iter().zip(&expected).position(|(one, other)| one != other);
            prop_assert_eq!(differs, None);
            let mut decoded = vec![0; content.len()];
            decode(&expected, &mut decoded, 1).unwrap();
            let (back, wrong) = loaded.decode(&expected);
            prop_assert!(back == decoded);
            prop_assert_eq!(wrong, 0);
            Ok(())
        };
        let config = Config { cases: 288, failure_persistence: None, ..Config::default() };
        TestRunner::new(config).run(&(arrays(), bounds), same).unwrap();
        // Of the rarest there are 18 in the mean.
        assert!(outcomes.iter().all(|count| *count > 2), "{outcomes:?}");
    });
}

/// Catches a block that is lost between two of the kernels' blocks, and a largest magnitude that misses one of them.
#[test]
fn arrays_of_many_tiles_are_encoded() {
    on_each(&[software], |given| {
        let loaded = Loaded::of(given);
        for (element, bits) in KINDS {
            let values = (0..70_001).map(|n| (f64::from(n) * 0.01).sin() * f64::from(n % 7919));
            let content: Vec<u8> = match element {
                Element::F32 => values.flat_map(|x| (x as f32).to_le_bytes()).collect(),
                Element::F64 => values.flat_map(f64::to_le_bytes).collect(),
            };
            let bound = Bound::relative(0.01, bits).unwrap();
            let found = loaded.encode(&content, (element, bits), &bound);
            let mut expected = vec![0; found.len()];
            encode(&content, element, bits, &bound, 1, &mut expected).unwrap();
            assert!(found == expected);
        }
    });
}

/// Catches a read beyond the side area, a code that is taken for a step, and damage that is not counted.
#[test]
fn blocks_that_mean_nothing_are_counted() {
    on_each(&[software], |given| {
        let loaded = Loaded::of(given);
        for (element, bits) in KINDS {
            let numbers = (0..4 * BLOCK).map(|n| if n == BLOCK { f64::INFINITY } else { 1.0 });
            let content: Vec<u8> = match element {
                Element::F32 => numbers.flat_map(|x| (x as f32).to_le_bytes()).collect(),
                Element::F64 => numbers.flat_map(f64::to_le_bytes).collect(),
            };
            let bound = Bound::absolute(0.3).unwrap();
            let mut encoded = loaded.encode(&content, (element, bits), &bound);
            assert_eq!(loaded.decode(&encoded), (content.clone(), 0));
            let places = Header::read(&encoded).unwrap().places(0..4).unwrap();
            let (codes, values) = (places.codes.start as usize, places.values.start as usize);
            encoded[values + 8 * bits.number() as usize] = 1;
            encoded[codes + 3 * element.bytes() / 4] = 0xfe;
            if element == Element::F64 {
                encoded[codes + 7] = 0x7f;
            }
            let mut expected = content;
            let len = BLOCK * element.bytes();
            expected[len..2 * len].fill(0);
            expected[3 * len..].fill(0);
            let (found, wrong) = loaded.decode(&encoded);
            assert_eq!(wrong, 2);
            assert!(found == expected);
        }
    });
}

/// Values of which runs have so many bits that differ, or are 0.
fn runs_of_bits() -> impl Strategy<Value = (Element, Vec<u8>)> {
    let run = (0..=64_u32, 1..700_usize, any::<u64>());
    let element = prop::sample::select(&[Element::F32, Element::F64][..]);
    (element, 0..9000_usize, prop::collection::vec(run, 0..30)).prop_map(|(element, len, runs)| {
        let values = runs.into_iter().flat_map(|(free, len, base)| {
            let mut state = base;
            (0..len).map(move |_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
                let random = state ^ state >> 29;
                match free {
                    64 => random,
                    0 => base & (base << 3 & 1).wrapping_neg(),
                    free => base >> free << free | random >> (64 - free),
                }
            })
        });
        let bytes = element.bytes();
        let all = values.take(len).flat_map(|value| value.to_le_bytes()[..bytes].to_vec());
        (element, all.collect())
    })
}

/// Catches bytes other than the processor's, in either direction, and a byte too many.
#[test]
fn the_device_encodes_without_loss_as_the_processor_does() {
    on_each(&[software], |given| {
        let loaded = Loaded::of(given);
        let same = |(element, content): (Element, Vec<u8>)| {
            let mut expected = vec![0; 2000 + content.len() * 9 / 8];
            let len = encode_lossless(&content, element, 1, &mut expected).unwrap().unwrap();
            expected.truncate(len as usize);
            let found = loaded.encode_lossless(&content, element, len);
            prop_assert!(found.as_ref() == Some(&expected));
            prop_assert!(loaded.decode_lossless(&expected) == (content.clone(), 0));
            let header = LosslessHeader::read(&expected).unwrap();
            if header.payload().unwrap() < len {
                prop_assert_eq!(loaded.encode_lossless(&content, element, len - 1), None);
            }
            Ok(())
        };
        let config = Config { cases: 64, failure_persistence: None, ..Config::default() };
        TestRunner::new(config).run(&runs_of_bits(), same).unwrap();
    });
}

/// Catches a group that begins elsewhere than where the one before ends.
#[test]
fn many_groups_are_encoded_without_loss() {
    on_each(&[software], |given| {
        let loaded = Loaded::of(given);
        for element in [Element::F32, Element::F64] {
            let values = (0..(3 * GROUP + 5) * BLOCK + 3).map(|n| match n / 10_000 % 2 {
                0 => 0.0,
                _ => (n as f64 * 0.001).sin(),
            });
            let content: Vec<u8> = match element {
                Element::F32 => values.flat_map(|x| (x as f32).to_le_bytes()).collect(),
                Element::F64 => values.flat_map(f64::to_le_bytes).collect(),
            };
            let room = lossless_room(content.len() as u64, element).unwrap();
            let mut expected = vec![0; room as usize];
            let len = encode_lossless(&content, element, 1, &mut expected).unwrap().unwrap();
            expected.truncate(len as usize);
            assert!(loaded.encode_lossless(&content, element, room) == Some(expected.clone()));
            assert!(loaded.decode_lossless(&expected) == (content, 0));
        }
    });
}

/// Catches a read that hostile codes or places lead elsewhere, and damage that is not counted.
#[test]
fn damage_of_what_has_no_loss_is_counted() {
    on_each(&[software], |given| {
        let loaded = Loaded::of(given);
        for element in [Element::F32, Element::F64] {
            let values = (0..2 * GROUP * BLOCK).map(|n| (n as f64 * 0.01).sin());
            let content: Vec<u8> = match element {
                Element::F32 => values.flat_map(|x| (x as f32).to_le_bytes()).collect(),
                Element::F64 => values.flat_map(f64::to_le_bytes).collect(),
            };
            let mut good = vec![0; content.len() * 9 / 8];
            let len = encode_lossless(&content, element, 1, &mut good).unwrap().unwrap();
            good.truncate(len as usize);
            let table = LosslessHeader::read(&good).unwrap().table() as usize;
            let code = |at: usize, code: u8| (HEADER_LEN + at, vec![code]);
            let place =
                |group: usize, place: u64| (table + 8 * group, place.to_le_bytes().to_vec());
            let damages = [
                code(5, 99),
                code(70, 0),
                code(2 * GROUP - 1, 1),
                place(0, 8),
                place(1, u64::MAX - 7),
                place(1, len),
                place(1, 1003),
                place(0, 0),
            ];
            for (at, bytes) in damages {
                let mut damaged = good.clone();
                assert_ne!(damaged[at..at + bytes.len()], bytes);
                damaged[at..at + bytes.len()].copy_from_slice(&bytes);
                assert!(decode(&damaged, &mut vec![0; content.len()], 1).is_err());
                let (_, wrong) = loaded.decode_lossless(&damaged);
                assert!(wrong > 0, "byte {at}");
            }
        }
    });
}

/// Catches a failure that is lost, one whose text does not say what was tried, and memory that stays.
#[test]
fn failures_of_the_driver_are_told() {
    on_each(&[software], |given| {
        for (operation, call) in [("load", "cuModuleLoadData"), ("find", "cuModuleGetFunction")] {
            (given.fail)(operation);
            let error = Compression::load(&given.device).unwrap_err().to_string();
            assert!(error.starts_with("loading the kernels that compress: "), "{error}");
            assert!(error.contains(call), "{error}");
        }
        (given.fail)("allocate");
        let error = DeviceBuffer::new(&given.device, 1000).unwrap_err().to_string();
        assert!(error.contains("cuMemAlloc_v2"), "{error}");
        let loaded = Loaded::of(given);
        let [from, to] = [loaded.put(&[0; 400], 0), loaded.put(&[0; 1000], 0)];
        let bound = Bound::absolute(1.0).unwrap();
        let kind = (Element::F32, Bits::Eight, &bound);
        (given.fail)("launch");
        // SAFETY: both have as many bytes, until they are dropped, which waits.
        let refused = unsafe {
            let from = (from.address(), 400);
            loaded.kernels.compress(&loaded.stream, from, kind, to.address())
        };
        let error = refused.unwrap_err().to_string();
        assert!(error.contains("cuLaunchKernel"), "{error}");
    });
}

/// Catches a kind of device without kernels that is taken for one that has them.
#[test]
fn a_device_without_kernels_says_so() {
    on_each(&[host], |given| {
        let error = Compression::load(&given.device).unwrap_err().to_string();
        assert!(error.contains("has no kernels"), "{error}");
    });
}
