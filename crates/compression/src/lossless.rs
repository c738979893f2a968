//! Arrays of floats without loss.
//!
//! Wavefields are 0 ahead of the front, and elsewhere exponents next to each other are close. A block is 64 values, as
//! of the bounded encoding. Each value is turned, so that its sign is the lowest bit, and becomes the difference to the
//! one before, as an integer of as many bytes, which wraps; 0, -1, 1, -2 ... are 0, 1, 2, 3 .... All differences of a
//! block have as many bits as the largest needs. So all bits of all values come back, also of a NaN.
//!
//! Little-endian, of N blocks and E bytes a value:
//!
//! | bytes | are |
//! | --- | --- |
//! | 8 | [`MAGIC`](crate::MAGIC) |
//! | 4 | the number of this layout, 2 |
//! | 1 | 0 |
//! | 1 | E: 4 or 8 |
//! | 2 | 0 |
//! | 8 | bytes of the array |
//! | 8 | bytes of the encoded array |
//! | 96 | 0 |
//! | N, up to a multiple of 64 | the code of each block |
//! | 8 for each 1,024 blocks | where the first of them begins, in bytes from the start |
//! | the rest | the blocks, one behind the other |
//!
//! - A code of 0: all bits are 0, and the block has no bytes. From 1 to 8 E: it is 1 more than the bits of a
//!   difference, B; the block has E bytes, its first value, turned, and 8 B with 64 differences, of which the first
//!   is 0. 8 E + 1: it is as it was. Values that the last block lacks count as 0.
//! - The differences i, i + 8, ... are packed one behind the other, from the lowest bit on; so there are 8 lanes, of B
//!   bytes each. They lie word by word, of E bytes: the first word of each lane, then the second; then the bytes that
//!   are no whole word, byte by byte likewise.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use errors::{Error, Result};

use crate::block::fetch_ahead;
use crate::delta::{self, Raw, Word};
#[cfg(target_arch = "x86_64")]
use crate::delta_avx2::unpack_avx2;
use crate::header::{corrupt, take, Element, ALIGNMENT, BLOCK, HEADER_LEN, MAGIC};
use crate::pieces::each;

/// The number of the layout.
pub(crate) const LAYOUT: u32 = 2;

/// Blocks that share a place in the table: a thread has as many at a time.
pub const GROUP: usize = 1024;

/// One block of so many is looked at to see what an array would save.
const SAMPLE: usize = 64;

/// What an encoded array says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LosslessHeader {
    /// The type of its values.
    pub element: Element,
    /// Bytes of the array.
    pub content_len: u64,
    /// Bytes of the encoded array.
    pub encoded_len: u64,
}

impl LosslessHeader {
    /// Reads the header at the beginning of an encoded array.
    ///
    /// # Errors
    /// [`Corrupt`](errors::ErrorKind::Corrupt): it is none, or its numbers contradict each other.
    pub fn read(encoded: &[u8]) -> Result<LosslessHeader> {
        let mut rest = encoded.get(..HEADER_LEN).ok_or_else(|| {
            let found = encoded.len();
            corrupt(format!("{found} bytes are fewer than the header of an encoded array has"))
        })?;
        if take(&mut rest) != MAGIC {
            return Err(corrupt("it does not begin like an encoded array"));
        }
        let layout = u32::from_le_bytes(take(&mut rest));
        if layout != LAYOUT {
            return Err(corrupt(format!("its layout has the number {layout}, and not {LAYOUT}")));
        }
        let [bits, element, zeros @ ..]: [u8; 4] = take(&mut rest);
        let element = Element::of(element).map_err(corrupt)?;
        let [content_len, encoded_len] = [take(&mut rest), take(&mut rest)].map(u64::from_le_bytes);
        if bits != 0 || zeros != [0; 2] || rest.iter().any(|byte| *byte != 0) {
            return Err(corrupt("its header has numbers that this version of the library lacks"));
        }
        let header = LosslessHeader { element, content_len, encoded_len };
        let least = header.payload().map_err(|error| corrupt(error.to_string()))?;
        // As many as can be, and no more than all blocks as they are.
        let most = least.saturating_add(header.blocks().saturating_mul(header.block_bytes()));
        if !(least..=most).contains(&encoded_len) {
            return Err(corrupt(format!(
                "{content_len} bytes would be encoded as {encoded_len}, and not between {least} and {most}"
            )));
        }
        Ok(header)
    }

    /// How many blocks the array has.
    pub fn blocks(&self) -> u64 {
        self.content_len.div_ceil(self.block_bytes())
    }

    fn block_bytes(&self) -> u64 {
        (BLOCK * self.element.bytes()) as u64
    }

    /// Where the table begins.
    pub fn table(&self) -> u64 {
        HEADER_LEN as u64 + self.blocks().next_multiple_of(ALIGNMENT)
    }

    /// Where the first block begins.
    ///
    /// # Errors
    /// [`Invalid`](errors::ErrorKind::Invalid): the array is no whole number of values.
    pub fn payload(&self) -> Result<u64> {
        let bytes = self.element.bytes() as u64;
        if !self.content_len.is_multiple_of(bytes) {
            let len = self.content_len;
            return Err(Error::invalid(format!(
                "{len} bytes are no whole number of values of {bytes} bytes"
            )));
        }
        Ok(self.table() + 8 * self.blocks().div_ceil(GROUP as u64))
    }

    fn encode(&self) -> [u8; HEADER_LEN] {
        let mut header = [0; HEADER_LEN];
        header[..8].copy_from_slice(&MAGIC);
        header[8..12].copy_from_slice(&LAYOUT.to_le_bytes());
        header[13] = self.element.bytes() as u8;
        header[16..24].copy_from_slice(&self.content_len.to_le_bytes());
        header[24..32].copy_from_slice(&self.encoded_len.to_le_bytes());
        header
    }
}

/// The room for an array of `content` bytes when it is encoded: it has to save an eighth. A few blocks do not; then
/// this may be more than `content`.
///
/// # Errors
/// [`Invalid`](errors::ErrorKind::Invalid): the array is no whole number of values.
pub fn lossless_room(content: u64, element: Element) -> Result<u64> {
    let header = LosslessHeader { element, content_len: content, encoded_len: 0 };
    Ok((content / 8 * 7).next_multiple_of(8).max(header.payload()?))
}

/// Whether it seems that an array saves an eighth, by one of 64 blocks.
pub fn is_worthwhile(content: &[u8], element: Element) -> bool {
    match element {
        Element::F32 => seems_worthwhile::<u32, 4>(content),
        Element::F64 => seems_worthwhile::<u64, 8>(content),
    }
}

fn seems_worthwhile<W: Word<E>, const E: usize>(content: &[u8]) -> bool {
    let blocks = content.as_chunks::<E>().0.as_chunks::<BLOCK>().0;
    let looked_at = blocks.iter().step_by(SAMPLE);
    let all = looked_at.len() * BLOCK * E;
    let lens = looked_at.map(|block| delta::len::<E>(delta::code::<W, E>(block)).unwrap_or(0) + 1);
    lens.sum::<usize>() <= all / 8 * 7
}

/// Encodes an array, which need not be aligned, into the beginning of `out`, with so many threads. Returns how many
/// bytes it has; `None`: `out` has fewer. The same array becomes the same bytes with any number of threads.
///
/// # Errors
/// [`Invalid`](errors::ErrorKind::Invalid): the array is no whole number of values.
pub fn encode_lossless(
    content: &[u8],
    element: Element,
    threads: usize,
    out: &mut [u8],
) -> Result<Option<u64>> {
    match element {
        Element::F32 => encode_array::<u32, 4>(content, element, threads, out),
        Element::F64 => encode_array::<u64, 8>(content, element, threads, out),
    }
}

/// The room for blocks, which groups take in their order.
struct Room<'a> {
    /// The group whose turn it is.
    turn: usize,
    /// What is left; `None`: it was not enough.
    left: Option<&'a mut [u8]>,
    at: u64,
}

/// The turn of a group. It passes, whatever becomes of the group, or other threads would wait for ever.
struct Turn<'a, 'b> {
    room: &'a Mutex<Room<'b>>,
    passed: &'a Condvar,
    group: usize,
}

impl<'b> Turn<'_, 'b> {
    /// The room for so many bytes, and where it is.
    fn take(self, len: usize) -> Option<(u64, &'b mut [u8])> {
        let mut room = self.wait();
        let (own, left) = room.left.take()?.split_at_mut_checked(len)?;
        let at = room.at;
        (room.left, room.at) = (Some(left), at + len as u64);
        Some((at, own))
    }

    fn wait(&self) -> MutexGuard<'_, Room<'b>> {
        let room = self.room.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.passed.wait_while(room, |room| room.turn < self.group);
        waited.unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn<'_, '_> {
    fn drop(&mut self) {
        self.wait().turn = self.group + 1;
        self.passed.notify_all();
    }
}

fn encode_array<W: Word<E>, const E: usize>(
    content: &[u8],
    element: Element,
    threads: usize,
    out: &mut [u8],
) -> Result<Option<u64>> {
    let mut header = LosslessHeader { element, content_len: content.len() as u64, encoded_len: 0 };
    let payload = header.payload()?;
    // What is not there cannot be as large.
    let split = out.split_at_mut_checked(payload as usize);
    let Some((head, blocks)) = split else { return Ok(None) };
    let (head, rest) = head.split_at_mut(HEADER_LEN);
    let (codes, table) = rest.split_at_mut(header.table() as usize - HEADER_LEN);
    let (codes, padding) = codes.split_at_mut(header.blocks() as usize);
    padding.fill(0);
    let (room, passed) =
        (Mutex::new(Room { turn: 0, left: Some(blocks), at: payload }), Condvar::new());
    let places = codes.chunks_mut(GROUP).zip(table.as_chunks_mut::<8>().0);
    let groups = content.chunks(GROUP * BLOCK * E).zip(places).enumerate();
    let fitted = each(groups, threads, |(group, (content, (codes, place)))| {
        let turn = Turn { room: &room, passed: &passed, group };
        let len = group_codes::<W, E>(content, codes);
        let Some((at, to)) = turn.take(len) else { return false };
        *place = at.to_le_bytes();
        pack_group::<W, E>(content, codes, to);
        true
    })?;
    if fitted.contains(&false) {
        return Ok(None);
    }
    header.encoded_len = room.into_inner().unwrap_or_else(PoisonError::into_inner).at;
    head.copy_from_slice(&header.encode());
    Ok(Some(header.encoded_len))
}

/// Decodes an array that was encoded without loss, with so many threads.
pub(crate) fn decode(
    header: &LosslessHeader,
    encoded: &[u8],
    content: &mut [u8],
    threads: usize,
) -> Result<()> {
    if encoded.len() as u64 != header.encoded_len {
        let (found, said) = (encoded.len(), header.encoded_len);
        return Err(corrupt(format!("truncated: {found} of {said} bytes")));
    }
    if content.len() as u64 != header.content_len {
        let (said, wanted) = (header.content_len, content.len());
        return Err(corrupt(format!("it is an array of {said} bytes, and not of {wanted}")));
    }
    match header.element {
        Element::F32 => decode_array::<u32, 4>(header, encoded, content, threads),
        Element::F64 => decode_array::<u64, 8>(header, encoded, content, threads),
    }
}

fn decode_array<W: Word<E>, const E: usize>(
    header: &LosslessHeader,
    encoded: &[u8],
    content: &mut [u8],
    threads: usize,
) -> Result<()> {
    let payload = header.payload()?;
    let (blocks, table) = (header.blocks() as usize, header.table() as usize);
    let codes = &encoded[HEADER_LEN..HEADER_LEN + blocks];
    let table = encoded[table..payload as usize].as_chunks::<8>().0;
    let begins = table.iter().map(|begin| u64::from_le_bytes(*begin));
    // Each group ends where the next one begins, and the last one where all ends.
    let mut expected = payload;
    let mut groups = Vec::with_capacity(table.len());
    let pieces = content.chunks_mut(GROUP * BLOCK * E).zip(codes.chunks(GROUP));
    for ((group, begin), (content, codes)) in begins.enumerate().zip(pieces) {
        let len = group_len::<E>(codes).map_err(|(nth, code)| {
            corrupt(format!(
                "block {} has the code {code}, which means nothing",
                group * GROUP + nth
            ))
        })?;
        let end = expected.saturating_add(len);
        if begin != expected || end > header.encoded_len {
            return Err(corrupt(format!(
                "the blocks from {} on begin at {begin} and have {len} bytes, and not from {expected} to at most {}",
                group * GROUP,
                header.encoded_len
            )));
        }
        groups.push((content, codes, &encoded[begin as usize..end as usize]));
        expected = end;
    }
    if expected != header.encoded_len {
        let said = header.encoded_len;
        return Err(corrupt(format!("its blocks end at {expected}, and it has {said} bytes")));
    }
    each(groups.into_iter(), threads, |(content, codes, from)| {
        unpack_group::<W, E>(content, codes, from);
    })?;
    Ok(())
}

/// The bytes of blocks with these codes. An error: the first that means nothing, and which it is.
fn group_len<const E: usize>(codes: &[u8]) -> std::result::Result<u64, (usize, u8)> {
    let mut all = 0;
    for (nth, code) in codes.iter().enumerate() {
        all += delta::len::<E>(*code).ok_or((nth, *code))? as u64;
    }
    Ok(all)
}

macro_rules! for_wide_registers {
    ($name:ident, $plain:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?) => {
        pub(crate) fn $name<W: Word<E>, const E: usize>($($argument: $type),*) $(-> $result)? {
            #[cfg(target_arch = "x86_64")]
            if is_x86_feature_detected!("avx2") {
                #[target_feature(enable = "avx2")]
                fn wide<W: Word<E>, const E: usize>($($argument: $type),*) $(-> $result)? {
                    $plain::<W, E>($($argument),*)
                }
                // SAFETY: the processor has what the function needs.
                return unsafe { wide::<W, E>($($argument),*) };
            }
            $plain::<W, E>($($argument),*)
        }
    };
}
for_wide_registers!(group_codes, group_codes_plain(content: &[u8], codes: &mut [u8]) -> usize);
for_wide_registers!(pack_group, pack_group_plain(content: &[u8], codes: &[u8], to: &mut [u8]));

/// Decodes a group's blocks, from as many bytes as their codes say.
pub(crate) fn unpack_group<W: Word<E>, const E: usize>(
    content: &mut [u8],
    codes: &[u8],
    from: &[u8],
) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        #[target_feature(enable = "avx2")]
        fn wide<W: Word<E>, const E: usize>(content: &mut [u8], codes: &[u8], from: &[u8]) {
            let unpack = |code, from: &_, block: &mut _| unpack_avx2::<W, E>(code, from, block);
            unpack_group_by::<E>(content, codes, from, unpack);
        }
        // SAFETY: the processor has what the function needs.
        return unsafe { wide::<W, E>(content, codes, from) };
    }
    unpack_group_by::<E>(content, codes, from, delta::unpack::<W, E>);
}

/// The last block, with zeros for what it lacks; `None`: there is no such.
fn filled<const E: usize>(partial: &[[u8; E]]) -> Option<Raw<E>> {
    let mut block = [[0; E]; BLOCK];
    block[..partial.len()].copy_from_slice(partial);
    (!partial.is_empty()).then_some(block)
}

/// Finds the codes of a group's blocks, and how many bytes they have.
#[inline(always)]
pub(crate) fn group_codes_plain<W: Word<E>, const E: usize>(
    content: &[u8],
    codes: &mut [u8],
) -> usize {
    let (blocks, partial) = content.as_chunks::<E>().0.as_chunks::<BLOCK>();
    let mut len = 0;
    for (block, to) in blocks.iter().chain(&filled(partial)).zip(codes) {
        fetch_ahead(block);
        *to = delta::code::<W, E>(block);
        len += delta::len::<E>(*to).unwrap_or(0);
    }
    len
}

#[inline(always)]
pub(crate) fn pack_group_plain<W: Word<E>, const E: usize>(
    content: &[u8],
    codes: &[u8],
    mut to: &mut [u8],
) {
    let (blocks, partial) = content.as_chunks::<E>().0.as_chunks::<BLOCK>();
    for (block, code) in blocks.iter().chain(&filled(partial)).zip(codes) {
        let (own, rest) = to.split_at_mut(delta::len::<E>(*code).unwrap_or(0));
        delta::pack::<W, E>(block, *code, own);
        to = rest;
    }
}

#[inline(always)]
pub(crate) fn unpack_group_by<const E: usize>(
    content: &mut [u8],
    codes: &[u8],
    mut from: &[u8],
    unpack: impl Fn(u8, &[u8], &mut Raw<E>),
) {
    let (blocks, partial) = content.as_chunks_mut::<E>().0.as_chunks_mut::<BLOCK>();
    let mut last = [[0; E]; BLOCK];
    for (block, code) in blocks.iter_mut().chain([&mut last]).zip(codes) {
        let (own, rest) = from.split_at(delta::len::<E>(*code).unwrap_or(0));
        unpack(*code, own, block);
        from = rest;
    }
    partial.copy_from_slice(&last[..partial.len()]);
}
