//! Serialized numbers with a digest: reading returns what was written, or an error.
//!
//! | bytes | content |
//! | --- | --- |
//! | 8 | `MAGIC` |
//! | 4, 4 | `VERSION`, 0 |
//! | 8 | how many bytes follow before the digest |
//! | | the numbers, little-endian |
//! | 8 | a digest of all bytes before |

use crate::digest::digest;

/// The magic bytes.
const MAGIC: [u8; 8] = *b"VELOCmsg";

/// The format version; others are refused. It also changes when calls are recorded differently: a replay of
/// such a log would diverge for no visible reason.
const VERSION: u32 = 4;

/// Bytes before the numbers.
const HEAD: usize = 24;

/// Bytes of the digest.
const TAIL: usize = 8;

/// Writes numbers.
#[derive(Debug)]
pub struct NumberWriter(Vec<u8>);

impl NumberWriter {
    /// With this capacity, which may grow. `None`: out of memory.
    pub fn new(expected: usize) -> Option<NumberWriter> {
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(expected.checked_add(HEAD + TAIL)?).ok()?;
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&[0; 12]);
        Some(NumberWriter(bytes))
    }

    /// A small number.
    pub fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    /// A boolean.
    pub fn flag(&mut self, value: bool) {
        self.u8(u8::from(value));
    }

    /// A number.
    pub fn u32(&mut self, value: u32) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    /// A signed number.
    pub fn i32(&mut self, value: i32) {
        self.u32(value as u32);
    }

    /// A large number.
    pub fn u64(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    /// A large signed number.
    pub fn i64(&mut self, value: i64) {
        self.u64(value as u64);
    }

    /// A count.
    pub fn len(&mut self, value: usize) {
        self.u64(value as u64);
    }

    /// Bytes without their length.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// Bytes with their length.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.len(bytes.len());
        self.raw(bytes);
    }

    /// An optional value.
    pub fn option<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut NumberWriter, T)) {
        self.flag(value.is_some());
        if let Some(value) = value {
            write(self, value);
        }
    }

    /// A list with its length.
    pub fn list<T>(&mut self, values: &[T], mut write: impl FnMut(&mut NumberWriter, &T)) {
        self.len(values.len());
        for value in values {
            write(self, value);
        }
    }

    /// The finished bytes.
    pub fn seal(self) -> Vec<u8> {
        let mut bytes = self.0;
        let len = (bytes.len() - HEAD) as u64;
        bytes[HEAD - 8..HEAD].copy_from_slice(&len.to_le_bytes());
        let digest = digest(&bytes);
        bytes.extend_from_slice(&digest.to_le_bytes());
        bytes
    }
}

/// Reads numbers; fails if they are missing or invalid.
#[derive(Debug)]
pub struct NumberReader<'a>(&'a [u8]);

/// The result of reading.
pub type Result<T> = std::result::Result<T, String>;

impl<'a> NumberReader<'a> {
    /// Reads the output of [`NumberWriter::seal`].
    ///
    /// # Errors
    /// It is damaged, or not a log.
    pub fn open(sealed: &'a [u8]) -> Result<NumberReader<'a>> {
        let bytes = sealed.len();
        if !sealed.starts_with(&MAGIC) || bytes < HEAD + TAIL {
            return Err(format!("these {bytes} bytes are no log of messages"));
        }
        let mut head = NumberReader(&sealed[MAGIC.len()..HEAD]);
        let (version, _, len) = (head.u32()?, head.u32()?, head.u64()?);
        if version != VERSION {
            return Err(format!(
                "the log of messages has version {version} of its format; this library reads \
                 version {VERSION}"
            ));
        }
        let (all, seal) = sealed.split_at(bytes - TAIL);
        if len != (all.len() - HEAD) as u64 || NumberReader(seal).u64()? != digest(all) {
            return Err(format!(
                "the log of messages is damaged: its {bytes} bytes are not those \
                                that were written"
            ));
        }
        Ok(NumberReader(&all[HEAD..]))
    }

    /// Ends reading.
    ///
    /// # Errors
    /// There are more bytes.
    pub fn close(self) -> Result<()> {
        match self.0.len() {
            0 => Ok(()),
            more => Err(format!("{more} bytes are left over")),
        }
    }

    /// This many bytes.
    pub fn raw(&mut self, len: usize) -> Result<&'a [u8]> {
        if len > self.0.len() {
            return Err(format!("it ends where {len} bytes are expected"));
        }
        let (bytes, rest) = self.0.split_at(len);
        self.0 = rest;
        Ok(bytes)
    }

    fn array<const LEN: usize>(&mut self) -> Result<[u8; LEN]> {
        let mut array = [0; LEN];
        array.copy_from_slice(self.raw(LEN)?);
        Ok(array)
    }

    /// A small number.
    pub fn u8(&mut self) -> Result<u8> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    /// A boolean.
    pub fn flag(&mut self) -> Result<bool> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(format!("{other} where 0 or 1 should be")),
        }
    }

    /// A number.
    pub fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// A signed number.
    pub fn i32(&mut self) -> Result<i32> {
        Ok(i32::from_le_bytes(self.array()?))
    }

    /// A large number.
    pub fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// A large signed number.
    pub fn i64(&mut self) -> Result<i64> {
        Ok(i64::from_le_bytes(self.array()?))
    }

    /// A count of items of at least `least` bytes each.
    pub fn len(&mut self, least: usize) -> Result<usize> {
        let len = self.u64()?;
        let fits = usize::try_from(len).ok().filter(|&len| len <= self.0.len() / least.max(1));
        fits.ok_or_else(|| format!("{len} items, but only {} bytes are left", self.0.len()))
    }

    /// Bytes with their length.
    pub fn bytes(&mut self) -> Result<&'a [u8]> {
        let len = self.len(1)?;
        self.raw(len)
    }

    /// An optional value.
    pub fn option<T>(
        &mut self,
        read: impl FnOnce(&mut NumberReader<'a>) -> Result<T>,
    ) -> Result<Option<T>> {
        match self.flag()? {
            true => read(self).map(Some),
            false => Ok(None),
        }
    }

    /// A list with its length, of items of at least `least` bytes each.
    pub fn list<T>(
        &mut self,
        least: usize,
        mut read: impl FnMut(&mut NumberReader<'a>) -> Result<T>,
    ) -> Result<Vec<T>> {
        let len = self.len(least)?;
        (0..len).map(|_| read(self)).collect()
    }
}

/// Renews the digest of changed bytes.
#[cfg(test)]
pub fn reseal(bytes: &mut Vec<u8>) {
    bytes.truncate(bytes.len() - TAIL);
    let len = (bytes.len() - HEAD) as u64;
    bytes[HEAD - 8..HEAD].copy_from_slice(&len.to_le_bytes());
    bytes.extend_from_slice(&digest(bytes).to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed() -> Vec<u8> {
        let mut writer = NumberWriter::new(0).unwrap();
        writer.u32(7);
        writer.i64(-9);
        writer.bytes(b"abc");
        writer.option(Some(3), NumberWriter::u8);
        writer.list(&[1u64, 2], |writer, value| writer.u64(*value));
        writer.seal()
    }

    #[test]
    fn what_was_written_is_read() {
        let sealed = sealed();
        let mut reader = NumberReader::open(&sealed).unwrap();
        assert_eq!((reader.u32(), reader.i64()), (Ok(7), Ok(-9)));
        assert_eq!(
            (reader.bytes(), reader.option(NumberReader::u8)),
            (Ok(&b"abc"[..]), Ok(Some(3)))
        );
        assert_eq!(reader.list(8, NumberReader::u64), Ok(vec![1, 2]));
        assert!(reader.u8().is_err());
        reader.close().unwrap();
    }

    /// Catches a digest that misses a byte, or a length that is not checked.
    #[test]
    fn no_bit_and_no_byte_can_change() {
        let good = sealed();
        for len in 0..good.len() {
            assert!(NumberReader::open(&good[..len]).is_err(), "cut to {len} bytes");
        }
        for bit in 0..8 * good.len() {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            // The four bytes after the version have no meaning, but are in the digest.
            assert!(NumberReader::open(&bad).is_err(), "bit {bit}");
        }
        assert!(NumberReader::open(&[good, vec![0]].concat()).is_err());
    }

    /// Catches a log of format version 3 (without hashes of what is sent) that is read as a current one, and a
    /// refusal without the versions.
    #[test]
    fn another_format_is_refused_by_its_number() {
        for version in [1u32, 3, 5] {
            let mut other = sealed();
            other.truncate(other.len() - TAIL);
            other[MAGIC.len()..MAGIC.len() + 4].copy_from_slice(&version.to_le_bytes());
            let seal = digest(&other);
            other.extend_from_slice(&seal.to_le_bytes());
            let text = NumberReader::open(&other).unwrap_err();
            let names = text.contains(&format!("has version {version} of"));
            assert!(names && text.ends_with("reads version 4"), "{text}");
        }
    }

    /// Catches memory that is allocated by a damaged count.
    #[test]
    fn a_number_of_things_must_fit() {
        let mut writer = NumberWriter::new(0).unwrap();
        writer.u64(u64::MAX / 2);
        let sealed = writer.seal();
        let mut reader = NumberReader::open(&sealed).unwrap();
        assert!(reader.list(1, NumberReader::u8).is_err());
    }
}
