//! The encoding as the crate's comment has it, value by value in integers, however slow: what tests compare with.

use crate::{encoded_len, Bits, Element, BLOCK, HEADER_LEN, MAGIC};

/// The number m * 2^e.
#[derive(Clone, Copy, Debug)]
struct Exact {
    m: i128,
    e: i32,
}

impl Exact {
    fn of(value: f64) -> Exact {
        let bits = value.to_bits();
        let (fraction, exponent) = ((bits << 12 >> 12) as i128, (bits << 1 >> 53) as i32);
        let m = if exponent == 0 { fraction } else { fraction | 1 << 52 };
        Exact { m: if value < 0.0 { -m } else { m }, e: exponent.max(1) - 1075 }
    }

    /// The largest e for which 2^e is not above its magnitude.
    fn exponent(self) -> i32 {
        127 - self.m.unsigned_abs().leading_zeros() as i32 + self.e
    }

    /// The number divided by 2^k, rounded to the nearest integer, of two to the even one.
    fn rounded(self, k: i32) -> i128 {
        let shift = k - self.e;
        if shift <= 0 {
            return self.m << -shift;
        }
        if shift > 100 {
            return 0;
        }
        let below = self.m >> shift;
        let twice = 2 * (self.m - (below << shift));
        match twice.cmp(&(1 << shift)) {
            std::cmp::Ordering::Less => below,
            std::cmp::Ordering::Greater => below + 1,
            std::cmp::Ordering::Equal => below + (below & 1),
        }
    }

    fn minus(self, other: Exact) -> Exact {
        if other.m == 0 {
            return self;
        }
        let e = self.e.min(other.e);
        Exact { m: (self.m << (self.e - e)) - (other.m << (other.e - e)), e }
    }

    /// The magnitude; fails if it is none of the type.
    fn magnitude(mut self, element: Element) -> f64 {
        let (digits, least) = if element == Element::F32 { (24, -149) } else { (53, -1074) };
        while self.m != 0 && self.m & 1 == 0 {
            self = Exact { m: self.m >> 1, e: self.e + 1 };
        }
        let m = self.m.unsigned_abs();
        assert!(
            m < 1 << digits && (m == 0 || self.e >= least),
            "{self:?} is rounded in {element:?}"
        );
        m as f64 * power(self.e.clamp(least, 1023))
    }
}

/// 2^k.
pub(crate) fn power(k: i32) -> f64 {
    f64::from_bits(if k < -1022 { 1 << (k + 1074) } else { ((k + 1023) as u64) << 52 })
}

/// What becomes of an array.
#[derive(Debug)]
pub(crate) struct Expected {
    pub encoded: Vec<u8>,
    pub decoded: Vec<u8>,
    pub error: f64,
    pub whole: u64,
    pub capacity: u64,
}

/// The value of these bytes.
pub(crate) fn value(bytes: &[u8]) -> f64 {
    match bytes.try_into() {
        Ok(bytes) => f32::from_le_bytes(bytes).into(),
        Err(_) => f64::from_le_bytes(bytes.try_into().unwrap()),
    }
}

/// Encodes with an absolute bound. `largest` is for the header.
pub(crate) fn encode(
    content: &[u8],
    element: Element,
    bits: Bits,
    bound: f64,
    largest: f64,
) -> Expected {
    let (each, b) = (element.bytes(), bits.number() as i32);
    let (smallest, greatest) = if each == 4 { (-126, 127) } else { (-1022, 1023) };
    let (mut codes, mut values, mut side, mut decoded) = (vec![], vec![], vec![], vec![]);
    let (mut error, mut whole) = (0.0, 0_u64);
    for block in content.chunks(BLOCK * each) {
        let mut put = |code: i32| codes.extend_from_slice(&code.to_le_bytes()[..each / 4]);
        let numbers: Vec<f64> = block.chunks(each).map(value).collect();
        let exact = || numbers.iter().copied().map(Exact::of);
        let exponent = exact().filter(|x| x.m != 0).map(Exact::exponent).max();
        let mut bytes = vec![0; BLOCK / 8 * b as usize];
        let mut came_back = None;
        match exponent {
            _ if numbers.iter().any(|x| !x.is_finite()) => {}
            None => {
                put(0);
                came_back = Some((vec![0; block.len()], 0.0));
            }
            Some(exponent) => {
                let k = (exponent + 2 - b).max(smallest);
                let q = exact().map(|x| x.rounded(k).min((1 << (b - 1)) - 1));
                let q: Vec<i128> = q.collect();
                let is_finite =
                    q.iter().all(|q| *q == 0 || Exact { m: *q, e: k }.exponent() <= greatest);
                let errors = exact().zip(&q).map(|(x, q)| x.minus(Exact { m: *q, e: k }));
                let off = match is_finite {
                    true => errors.map(|error| error.magnitude(element)).fold(0.0, f64::max),
                    false => f64::INFINITY,
                };
                if off <= bound {
                    put(k - smallest + 1);
                    for (at, q) in q.iter().enumerate() {
                        for bit in (0..b as usize).filter(|bit| q >> bit & 1 == 1) {
                            let place = at * b as usize + bit;
                            bytes[place / 8] |= 1 << (place % 8);
                        }
                    }
                    let back = q.iter().map(|q| *q as f64 * power(k));
                    let back = back.flat_map(|x| match element {
                        Element::F32 => (x as f32).to_le_bytes().to_vec(),
                        Element::F64 => x.to_le_bytes().to_vec(),
                    });
                    came_back = Some((back.collect(), off));
                }
            }
        }
        let (back, off) = came_back.unwrap_or_else(|| {
            put(-1);
            bytes[..4].copy_from_slice(&(whole as u32).to_le_bytes());
            side.extend_from_slice(block);
            whole += 1;
            side.resize(whole as usize * BLOCK * each, 0);
            (block.to_vec(), 0.0)
        });
        error = off.max(error);
        decoded.extend(back);
        values.extend(bytes);
    }
    let capacity = (content.len().div_ceil(BLOCK * each) / 128 + 1) as u64;
    codes.resize(codes.len().next_multiple_of(64), 0);
    side.resize(capacity as usize * BLOCK * each, 0);
    let mut head = [&MAGIC[..], &[1, 0, 0, 0, b as u8, each as u8, 0, 0]].concat();
    head.extend_from_slice(&(content.len() as u64).to_le_bytes());
    for number in [bound.to_bits(), f64::to_bits(error), whole, capacity, largest.to_bits()] {
        head.extend_from_slice(&number.to_le_bytes());
    }
    head.resize(HEADER_LEN, 0);
    let encoded = [head, codes, values, side].concat();
    if whole <= capacity {
        let len = encoded_len(content.len() as u64, element, bits).unwrap();
        assert_eq!(encoded.len() as u64, len);
    }
    Expected { encoded, decoded, error, whole, capacity }
}
