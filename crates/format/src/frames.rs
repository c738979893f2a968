//! Checkpoint files whose content is compressed (`compress = lz4` or `zstd`).
//!
//! The content is that of any checkpoint file: header and regions. It is cut into frames of 256 KiB that are compressed
//! independently of each other, so that any byte can be read without those before it. Little-endian:
//!
//! | bytes | are |
//! | --- | --- |
//! | 8 | [`MAGIC`]; as the number of regions of an uncompressed file it is too large, so other readers refuse it |
//! | 8 | the codec: 1 LZ4, 2 Zstandard |
//! | | the frames; one that would not become shorter is stored as it is |
//! | 16 for each frame | its length in the file, and the XXH3 of its content |
//! | 8 | the length of the content |
//! | 8 | the XXH3 of codec, index and length |
//! | 8 | [`MAGIC`] again |
//!
//! What is read is compared with the XXH3 of its frame.

use std::borrow::Cow;
use std::fs::File;
use std::hash::Hasher as _;
use std::ops::Range;
use std::path::Path;
use std::sync::Mutex;
use std::thread::{self, Builder};

use errors::{Error, ErrorKind, Result};
use os::files;
use os::threads::unsignalled;
use twox_hash::XxHash3_64;

use crate::delta::Layer;

/// How a compressed file begins and ends.
pub const MAGIC: [u8; 8] = *b"VELOCfrm";

/// Bytes of content of each frame but the last.
pub const FRAME: usize = 256 << 10;

const HEAD: u64 = 16;
const ENTRY: usize = 16;
const TAIL: usize = 24;

/// Entries of the index that are read at a time.
const INDEX_PIECE: u64 = 4096;

/// A way to compress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codec {
    /// LZ4: fast.
    Lz4,
    /// Zstandard at a level from 1 to 22: smaller.
    Zstd(i32),
}

impl Codec {
    fn number(self) -> u64 {
        match self {
            Codec::Lz4 => 1,
            Codec::Zstd(_) => 2,
        }
    }

    /// Levels do not matter to who reads.
    fn from_number(number: u64) -> Result<Codec> {
        match number {
            1 => Ok(Codec::Lz4),
            2 => Ok(Codec::Zstd(0)),
            _ => Err(corrupt(format!(
                "it is compressed in a way that has the unknown number {number}"
            ))),
        }
    }

    /// A frame of `content`, compressed if that is shorter.
    fn compress(self, content: &[u8]) -> Result<Cow<'_, [u8]>> {
        let compressed = match self {
            Codec::Lz4 => lz4_flex::block::compress(content),
            Codec::Zstd(level) => zstd::bulk::compress(content, level)
                .map_err(|error| Error::system("compressing a frame", &error))?,
        };
        let shorter = compressed.len() < content.len();
        Ok(if shorter { Cow::Owned(compressed) } else { Cow::Borrowed(content) })
    }

    /// Fills `content` from a frame.
    fn decompress(self, frame: &[u8], content: &mut [u8]) -> Result<()> {
        if frame.len() == content.len() {
            content.copy_from_slice(frame);
            return Ok(());
        }
        let filled = match self {
            Codec::Lz4 => lz4_flex::block::decompress_into(frame, content).ok(),
            Codec::Zstd(_) => zstd::bulk::decompress_to_buffer(frame, content).ok(),
        };
        match filled {
            Some(filled) if filled == content.len() => Ok(()),
            _ => Err(corrupt("a frame cannot be decompressed")),
        }
    }
}

fn corrupt(text: impl Into<String>) -> Error {
    Error::new(ErrorKind::Corrupt, text.into())
}

/// A frame, and the XXH3 of its content.
type Made = (Vec<u8>, u64);

/// Compresses the content of a file that is written from its start to its end.
#[derive(Debug)]
pub struct Compressor {
    codec: Codec,
    threads: usize,
    /// Content that does not fill a frame yet.
    pending: Vec<u8>,
    index: Vec<u8>,
    /// Bytes of content so far.
    len: u64,
}

impl Compressor {
    /// A compressor that uses at most so many threads.
    pub fn new(codec: Codec, threads: usize) -> Compressor {
        let (pending, index) = (Vec::new(), Vec::new());
        Compressor { codec, threads: threads.max(1), pending, index, len: 0 }
    }

    /// The first bytes of the file.
    pub fn head(&self) -> [u8; HEAD as usize] {
        let mut head = [0; HEAD as usize];
        head[..8].copy_from_slice(&MAGIC);
        head[8..].copy_from_slice(&self.codec.number().to_le_bytes());
        head
    }

    /// Hands frames of the content so far to `write`.
    ///
    /// # Errors
    /// Those of `write`.
    pub fn put(
        &mut self,
        mut content: &[u8],
        mut write: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        self.len += content.len() as u64;
        if !self.pending.is_empty() || content.len() < FRAME {
            let (fills, rest) = content.split_at(content.len().min(FRAME - self.pending.len()));
            self.pending.extend_from_slice(fills);
            content = rest;
            if self.pending.len() < FRAME {
                return Ok(());
            }
            let full = std::mem::take(&mut self.pending);
            self.frames(&[&full], &mut write)?;
            self.pending = full;
            self.pending.clear();
        }
        let frames: Vec<&[u8]> = content.chunks_exact(FRAME).collect();
        for batch in frames.chunks(8 * self.threads) {
            self.frames(batch, &mut write)?;
        }
        self.pending.extend_from_slice(content.chunks_exact(FRAME).remainder());
        Ok(())
    }

    /// Hands the last frame and what follows it to `write`.
    ///
    /// # Errors
    /// Those of `write`.
    pub fn finish(mut self, mut write: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let last = std::mem::take(&mut self.pending);
        if !last.is_empty() {
            self.frames(&[&last], &mut write)?;
        }
        let mut sum = begin_sum(self.codec.number());
        sum.write(&self.index);
        let sum = end_sum(sum, self.len);
        write(&self.index)?;
        write(&[self.len.to_le_bytes(), sum.to_le_bytes(), MAGIC].concat())
    }

    fn frames(
        &mut self,
        contents: &[&[u8]],
        write: &mut impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let codec = self.codec;
        let one = |content: &[u8]| {
            Ok((codec.compress(content)?.into_owned(), XxHash3_64::oneshot(content)))
        };
        let threads = self.threads.min(contents.len()).max(1);
        let made: Vec<Result<Vec<Made>>> = thread::scope(|scope| {
            let share = contents.len().div_ceil(threads).max(1);
            let mut shares = contents.chunks(share);
            let own = shares.next().unwrap_or_default();
            let others: Vec<_> = shares
                .map(|share| {
                    let work = move || share.iter().map(|content| one(content)).collect();
                    let builder = Builder::new().name("veloc-compress".to_owned());
                    unsignalled(|| builder.spawn_scoped(scope, work)).map_err(|_| share)
                })
                .collect();
            let all = |share: &[&[u8]]| share.iter().map(|content| one(content)).collect();
            let first = std::iter::once(all(own));
            let joined = others.into_iter().map(|started| match started {
                Ok(thread) => thread.join().unwrap_or_else(|_| {
                    Err(Error::new(ErrorKind::Internal, "compressing panicked"))
                }),
                Err(share) => all(share),
            });
            first.chain(joined).collect()
        });
        for (frame, digest) in made.into_iter().collect::<Result<Vec<_>>>()?.into_iter().flatten() {
            write(&frame)?;
            self.index.extend_from_slice(&(frame.len() as u64).to_le_bytes());
            self.index.extend_from_slice(&digest.to_le_bytes());
        }
        Ok(())
    }
}

/// The sum over codec, index (between these two calls) and length of the content.
fn begin_sum(codec: u64) -> XxHash3_64 {
    let mut sum = XxHash3_64::new();
    sum.write(&codec.to_le_bytes());
    sum
}

fn end_sum(mut sum: XxHash3_64, len: u64) -> u64 {
    sum.write(&len.to_le_bytes());
    sum.finish()
}

/// A frame of a file.
#[derive(Clone, Debug)]
struct Frame {
    /// Its bytes in the part of the file.
    place: Range<u64>,
    digest: u64,
}

/// The frames of a compressed file.
#[derive(Debug)]
struct Frames {
    codec: Codec,
    frames: Vec<Frame>,
    len: u64,
    /// The frame that was read last, if only some of it was wanted.
    last: Mutex<Option<(usize, Vec<u8>)>>,
}

/// The content of a checkpoint file, or of a part of a file: header and regions, compressed or not.
#[derive(Debug)]
pub struct FileContent {
    part: Range<u64>,
    frames: Option<Box<Frames>>,
    /// What the file has in part, behind its own bytes; and where that ends.
    layer: Option<Box<(Layer, u64)>>,
}

impl FileContent {
    /// The content of `part` of an open file. `path` is for messages.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`]: it begins like a compressed file, and is none; else the system's. Both name the path.
    pub fn of(file: &File, part: Range<u64>, path: &Path) -> Result<FileContent> {
        let len = part.end.saturating_sub(part.start);
        let mut head = [0; HEAD as usize];
        let begun = &mut head[..len.min(HEAD) as usize];
        files::read_exact_at(file, begun, part.start, path)?;
        if !begun.starts_with(&MAGIC) {
            return Ok(FileContent { part, frames: None, layer: None });
        }
        let frames = Frames::read(file, &part, &head, path);
        let frames = frames.map_err(|error| match error.kind() {
            ErrorKind::Corrupt => error.within(path.display()),
            _ => error,
        })?;
        Ok(FileContent { part, frames: Some(Box::new(frames)), layer: None })
    }

    /// The same with regions of which the file has a part, up to `end`.
    pub(crate) fn over(self, layer: Layer, end: u64) -> FileContent {
        FileContent { layer: Some(Box::new((layer, end))), ..self }
    }

    /// Its bytes.
    pub fn len(&self) -> u64 {
        self.layer.as_ref().map_or_else(|| self.own_len(), |layer| layer.1)
    }

    /// Those of the file itself.
    fn own_len(&self) -> u64 {
        match &self.frames {
            Some(frames) => frames.len,
            None => self.part.end.saturating_sub(self.part.start),
        }
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the file has it compressed.
    pub fn is_compressed(&self) -> bool {
        self.frames.is_some()
    }

    /// Whether other files have some of it.
    pub fn is_delta(&self) -> bool {
        self.layer.is_some()
    }

    /// Fills `bytes` from an offset in the content.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`]: there are not so many bytes, or a frame is not what it was; else the system's.
    pub fn read_exact_at(
        &self,
        file: &File,
        bytes: &mut [u8],
        offset: u64,
        path: &Path,
    ) -> Result<()> {
        let own = self.own_len();
        if let Some((layer, _)) = self.layer.as_deref().filter(|_| offset >= own) {
            let read = |bytes: &mut [u8], at| self.read_own(file, bytes, at, path);
            return layer.read_exact_at(bytes, offset, read);
        }
        self.read_own(file, bytes, offset, path)
    }

    fn read_own(&self, file: &File, bytes: &mut [u8], offset: u64, path: &Path) -> Result<()> {
        match &self.frames {
            None => files::read_exact_at(file, bytes, self.part.start + offset, path),
            Some(frames) => frames
                .read_exact_at(file, self.part.start, bytes, offset, path)
                .map_err(|error| match error.kind() {
                    ErrorKind::Corrupt => error.within(path.display()),
                    _ => error,
                }),
        }
    }
}

impl FileContent {
    /// Reads all of a compressed file's content, and compares each frame; also those of its bases.
    ///
    /// # Errors
    /// As [`FileContent::read_exact_at`].
    pub fn check(&self, file: &File, path: &Path) -> Result<()> {
        let mut bytes = vec![0; FRAME];
        let mut at = 0;
        while self.is_compressed() && at < self.own_len() {
            let bytes = &mut bytes[..(self.own_len() - at).min(FRAME as u64) as usize];
            self.read_own(file, bytes, at, path)?;
            at += bytes.len() as u64;
        }
        self.layer.as_deref().map_or(Ok(()), |(layer, _)| layer.check())
    }
}

impl Frames {
    fn read(
        file: &File,
        part: &Range<u64>,
        head: &[u8; HEAD as usize],
        path: &Path,
    ) -> Result<Frames> {
        let room = part.end - part.start;
        if room < HEAD + TAIL as u64 {
            return Err(corrupt(format!("it has {room} bytes, fewer than any compressed file")));
        }
        let mut tail = [0; TAIL];
        files::read_exact_at(file, &mut tail, part.end - TAIL as u64, path)?;
        let number = |at: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&tail[at..at + 8]);
            u64::from_le_bytes(bytes)
        };
        if tail[16..] != MAGIC {
            return Err(corrupt(
                "its end is not that of a compressed file: it was cut off, or something was appended",
            ));
        }
        let mut codec = [0; 8];
        codec.copy_from_slice(&head[8..]);
        let codec = u64::from_le_bytes(codec);
        let (len, found) = (number(0), number(8));
        let count = len.div_ceil(FRAME as u64);
        // Divided, not multiplied: a hostile length would overflow.
        if count > (room - HEAD - TAIL as u64) / ENTRY as u64 {
            return Err(corrupt(format!("it has no room for the {count} frames of {len} bytes")));
        }
        let end = room - TAIL as u64 - count * ENTRY as u64;
        // Piece by piece: a hostile file may be as long as it likes, but each of its frames has to be there.
        let (mut at, mut frames) = (HEAD, Vec::new());
        let mut sum = begin_sum(codec);
        let mut piece = vec![0; (count.min(INDEX_PIECE) as usize) * ENTRY];
        let mut read = 0;
        while read < count {
            let entries = &mut piece[..(count - read).min(INDEX_PIECE) as usize * ENTRY];
            files::read_exact_at(file, entries, part.start + end + read * ENTRY as u64, path)?;
            sum.write(entries);
            for entry in entries.chunks_exact(ENTRY) {
                let [mut bytes, mut digest] = [[0; 8]; 2];
                bytes.copy_from_slice(&entry[..8]);
                digest.copy_from_slice(&entry[8..]);
                let bytes = u64::from_le_bytes(bytes);
                if bytes == 0 || bytes > FRAME as u64 || at + bytes > end {
                    return Err(corrupt("the index of its frames is not what it was"));
                }
                frames.push(Frame { place: at..at + bytes, digest: u64::from_le_bytes(digest) });
                at += bytes;
            }
            read += (entries.len() / ENTRY) as u64;
        }
        if end_sum(sum, len) != found {
            return Err(corrupt("the index of its frames is not what it was"));
        }
        let codec = Codec::from_number(codec)?;
        if at != end {
            return Err(corrupt("there is something between its frames and their index"));
        }
        Ok(Frames { codec, frames, len, last: Mutex::default() })
    }

    fn read_exact_at(
        &self,
        file: &File,
        start: u64,
        bytes: &mut [u8],
        offset: u64,
        path: &Path,
    ) -> Result<()> {
        if offset.checked_add(bytes.len() as u64).is_none_or(|end| end > self.len) {
            return Err(corrupt(format!("it has {} bytes of content", self.len)));
        }
        let (mut bytes, mut at) = (bytes, offset);
        while !bytes.is_empty() {
            let (number, within) = ((at / FRAME as u64) as usize, (at % FRAME as u64) as usize);
            let whole = (self.len - number as u64 * FRAME as u64).min(FRAME as u64) as usize;
            let wanted = bytes.len().min(whole - within);
            let (now, rest) = bytes.split_at_mut(wanted);
            if wanted == whole {
                self.frame(file, start, number, now, path)?;
            } else {
                let mut last = self.last.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                if last.as_ref().is_none_or(|(known, _)| *known != number) {
                    let mut content = last.take().map_or_else(Vec::new, |(_, content)| content);
                    content.resize(whole, 0);
                    self.frame(file, start, number, &mut content, path)?;
                    *last = Some((number, content));
                }
                if let Some((_, content)) = &*last {
                    now.copy_from_slice(&content[within..within + wanted]);
                }
            }
            (bytes, at) = (rest, at + wanted as u64);
        }
        Ok(())
    }

    /// Fills `content` with that of one frame.
    fn frame(
        &self,
        file: &File,
        start: u64,
        number: usize,
        content: &mut [u8],
        path: &Path,
    ) -> Result<()> {
        let Frame { place, digest } = &self.frames[number];
        let mut frame = vec![0; (place.end - place.start) as usize];
        files::read_exact_at(file, &mut frame, start + place.start, path)?;
        self.codec.decompress(&frame, content)?;
        if XxHash3_64::oneshot(content) != *digest {
            return Err(corrupt(format!("its frame {number} is not what it was")));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    fn written(content: &[u8], pieces: usize, codec: Codec) -> Vec<u8> {
        let mut compressor = Compressor::new(codec, 3);
        let mut file = compressor.head().to_vec();
        for piece in content.chunks(pieces) {
            compressor
                .put(piece, |bytes| {
                    file.extend_from_slice(bytes);
                    Ok(())
                })
                .unwrap();
        }
        compressor
            .finish(|bytes| {
                file.extend_from_slice(bytes);
                Ok(())
            })
            .unwrap();
        file
    }

    fn opened(bytes: &[u8]) -> (File, Result<FileContent>) {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"before").unwrap();
        file.write_all(bytes).unwrap();
        let content = FileContent::of(&file, 6..6 + bytes.len() as u64, Path::new("f"));
        (file, content)
    }

    fn content(len: usize) -> Vec<u8> {
        // Some of it can be compressed, some cannot.
        let mut state = 1_u64;
        let mut noise = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as u8
        };
        (0..len).map(|i| if i / 300_000 % 2 == 0 { (i / 1000) as u8 } else { noise() }).collect()
    }

    /// Catches frames at wrong places, ends of frames, and pieces that are lost between calls.
    #[test]
    fn any_bytes_can_be_read() {
        for codec in [Codec::Lz4, Codec::Zstd(3)] {
            for len in [0, 1, FRAME - 1, FRAME, FRAME + 1, 5 * FRAME + 12_345] {
                let expected = content(len);
                for pieces in [777_777, FRAME, 9 * FRAME] {
                    let file = written(&expected, pieces, codec);
                    assert!(len < FRAME || file.len() < len, "{} of {len}", file.len());
                    let (file, found) = opened(&file);
                    let found = found.unwrap();
                    assert_eq!(found.len(), len as u64);
                    let ranges = [
                        0..len,
                        len / 3..len / 2,
                        len.saturating_sub(FRAME + 7)..len,
                        len / 2..len / 2,
                    ];
                    for range in ranges {
                        let mut bytes = vec![0; range.len()];
                        found
                            .read_exact_at(&file, &mut bytes, range.start as u64, Path::new("f"))
                            .unwrap();
                        assert!(bytes == expected[range]);
                    }
                    let past = found.read_exact_at(
                        &file,
                        &mut [0; 2],
                        len as u64 - (len as u64).min(1),
                        Path::new("f"),
                    );
                    assert_eq!(past.unwrap_err().kind(), ErrorKind::Corrupt);
                }
            }
        }
    }

    /// Catches damage that is not noticed: each byte of a file is changed in turn, or all from there on are cut off.
    #[test]
    fn damage_anywhere_is_noticed() {
        let expected = content(40_000);
        for codec in [Codec::Lz4, Codec::Zstd(1)] {
            let good = written(&expected, 10_000, codec);
            let read = |bytes: &[u8]| -> Result<Vec<u8>> {
                let (file, found) = opened(bytes);
                let found = found?;
                assert!(found.is_compressed());
                let mut content = vec![0; found.len() as usize];
                found.read_exact_at(&file, &mut content, 0, Path::new("f"))?;
                Ok(content)
            };
            assert!(read(&good).unwrap() == expected);
            for at in 8..good.len() {
                let mut bad = good.clone();
                bad[at] ^= 0x10;
                // Some bytes can have two values that mean the same.
                match read(&bad) {
                    Ok(content) => assert!(content == expected, "byte {at}"),
                    Err(error) => assert_eq!(error.kind(), ErrorKind::Corrupt, "byte {at}"),
                }
            }
            for len in 8..good.len() {
                let error = read(&good[..len]).err().map(|error| error.kind());
                assert_eq!(error, Some(ErrorKind::Corrupt), "{len} bytes");
            }
        }
    }
}
