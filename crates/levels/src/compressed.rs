//! Host memory below the host buffer, whose bytes are compressed without loss: zeros, and floats with near neighbours.
//!
//! Each frame has two numbers in front: its bytes, and those that it decodes to. What does not become smaller is as it was:
//! the two numbers are the same.

use std::ops::Range;

use crate::host_buffer::HostBuffer;
use crate::store::{Put, Room, Store};
use catalog::space::Extent;
use catalog::state::StoreResult;
use compression::{decode, encode_lossless, is_worthwhile, lossless_room, Element};
use errors::{Error, ErrorKind, Result};

/// Bytes that are compressed together, at most.
const FRAME: usize = 256 << 10;

/// Bytes of the numbers in front of a frame.
const FRONT: u64 = 8;

/// Compressed memory.
#[derive(Debug)]
pub struct CompressedMemory(HostBuffer);

impl CompressedMemory {
    /// Reserves so many bytes of addresses. Their pages are made as they are written.
    ///
    /// # Errors
    /// There are not so many.
    pub fn reserve(bytes: u64) -> Result<CompressedMemory> {
        // Nothing is registered in it.
        HostBuffer::reserve(bytes, bytes, true).map(CompressedMemory)
    }

    /// Its bytes.
    #[allow(clippy::len_without_is_empty)] // Never empty.
    pub fn len(&self) -> u64 {
        self.0.len()
    }

    fn read_into(&self, copy: &[Extent], range: Range<u64>, to: &mut Vec<u8>) -> Result<()> {
        to.clear();
        self.0.read(copy, range, &mut |piece| {
            to.extend_from_slice(piece);
            Ok(())
        })
    }
}

/// Bytes that become a frame each. What is no whole number of values is one of its own.
fn pieces(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let (values, rest) = bytes.split_at(bytes.len() / 8 * 8);
    values.chunks(FRAME).chain(Some(rest).filter(|rest| !rest.is_empty()))
}

/// A frame of these bytes.
fn framed(bytes: &[u8]) -> Result<Vec<u8>> {
    let suits = |element: &Element| {
        bytes.len().is_multiple_of(element.bytes()) && is_worthwhile(bytes, *element)
    };
    let mut frame = vec![0; FRONT as usize + bytes.len()];
    let encoded = match [Element::F32, Element::F64].into_iter().find(suits) {
        Some(element) => {
            let smaller = bytes.len().saturating_sub(1);
            let room = smaller.min(lossless_room(bytes.len() as u64, element)? as usize);
            encode_lossless(bytes, element, 1, &mut frame[FRONT as usize..][..room])?
        }
        None => None,
    };
    match encoded {
        Some(len) => frame.truncate((FRONT + len) as usize),
        None => frame[FRONT as usize..].copy_from_slice(bytes),
    }
    let lens = [frame.len() as u64 - FRONT, bytes.len() as u64];
    for (to, len) in frame.chunks_exact_mut(4).zip(lens) {
        to.copy_from_slice(&(len as u32).to_le_bytes());
    }
    Ok(frame)
}

/// The two numbers in front of a frame.
fn lens(front: &[u8]) -> (u64, u64) {
    let number = |at: usize| {
        let four = front.get(at..).and_then(|rest| rest.first_chunk());
        four.map_or(0, |four| u64::from(u32::from_le_bytes(*four)))
    };
    (number(0), number(4))
}

impl Store for CompressedMemory {
    fn read(&self, copy: &[Extent], range: Range<u64>, put: &mut Put<'_>) -> Result<()> {
        let (mut frame, mut content) = (Vec::new(), Vec::new());
        let (mut at, mut start) = (0, 0);
        while start < range.end {
            self.read_into(copy, at..at + FRONT, &mut frame)?;
            let (stored, len) = lens(&frame);
            if len == 0 {
                return Err(Error::new(
                    ErrorKind::Corrupt,
                    format!("{start} bytes behind its start a frame is empty"),
                ));
            }
            let wanted = range.start.max(start)..range.end.min(start + len);
            at += FRONT;
            if !wanted.is_empty() {
                let wanted = wanted.start - start..wanted.end - start;
                if stored == len {
                    self.0.read(copy, at + wanted.start..at + wanted.end, put)?;
                } else {
                    self.read_into(copy, at..at + stored, &mut frame)?;
                    content.resize(len as usize, 0);
                    decode(&frame, &mut content, 1)?;
                    put(&content[wanted.start as usize..wanted.end as usize])?;
                }
            }
            at += stored;
            start += len;
        }
        Ok(())
    }

    fn write(&self, room: &mut Room<'_>, bytes: &[u8]) -> Result<StoreResult> {
        let mut stored = StoreResult::In(0);
        for piece in pieces(bytes) {
            stored = self.0.write(room, &framed(piece)?)?;
        }
        Ok(stored)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // A test stops at the first fault.
mod tests {
    use super::*;

    /// Catches a frame that is taken for another kind where it has as many bytes as it decodes to, pieces that are read at
    /// the wrong place, and bytes that come back changed: zeros, floats, and what is neither, in all lengths.
    #[test]
    fn what_was_written_is_read() {
        let memory = CompressedMemory::reserve(4 << 20).unwrap();
        let floats = |len: usize| -> Vec<u8> {
            (0..len / 4 + 1).flat_map(|i| (i as f32 * 0.01).sin().to_le_bytes()).take(len).collect()
        };
        let noise = |len: usize| -> Vec<u8> {
            (0..len as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
        };
        let lens = (0..700).chain([FRAME - 8, FRAME, FRAME + 1, 3 * FRAME + 204]);
        for len in lens {
            for bytes in [vec![0; len], floats(len), noise(len)] {
                let room = [Extent { offset: 512, len: 2 << 20 }];
                let mut full = |_| None;
                memory.write(&mut Room::new(&room, &mut full), &bytes).unwrap();
                for start in [0, len / 3, len] {
                    let mut read = Vec::new();
                    let mut put = |piece: &[u8]| {
                        read.extend_from_slice(piece);
                        Ok(())
                    };
                    memory.read(&room, start as u64..len as u64, &mut put).unwrap();
                    assert!(read[..] == bytes[start..], "{len} bytes from {start} on");
                }
            }
        }
    }

    /// Catches a read that does not end where nothing was written.
    #[test]
    fn what_was_never_written_is_corrupt() {
        let memory = CompressedMemory::reserve(1 << 20).unwrap();
        let copy = [Extent { offset: 0, len: 4096 }];
        let error = memory.read(&copy, 0..100, &mut |_| Ok(())).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
    }
}
