//! Reads the bytes of a checkpoint, each once: to where they are wanted, and through the digest.

use std::fmt;
use std::thread;

use super::Copies;
use crate::hashing::{self, is_worth_a_thread, HashedPiece, Hashing, PIECE};
use crate::opened::Opened;
use errors::{Error, ErrorKind, Result};
use format::proof::{Digest, DigestHasher, Sort};
use policy::slice::SLICE;

/// Bytes of a checkpoint that somebody wants.
#[derive(Debug)]
pub struct Wanted<'a> {
    /// Where the bytes begin in the checkpoint.
    offset: u64,
    /// Where the bytes go.
    target: Target<'a>,
}

impl<'a> Wanted<'a> {
    /// The bytes from `offset` on, as many as the target takes.
    pub fn new(offset: u64, target: Target<'a>) -> Wanted<'a> {
        Wanted { offset, target }
    }
}

/// Where bytes of a checkpoint go.
pub enum Target<'a> {
    /// Memory, which is filled.
    Memory(&'a mut [u8]),
    /// A function, which gets so many bytes piece by piece.
    Taken(u64, Taker<'a>),
}

/// Gets the next bytes.
pub(crate) type Taker<'a> = Box<dyn FnMut(&[u8]) -> Result<()> + 'a>;

impl fmt::Debug for Target<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Memory(bytes) => write!(f, "Memory({} bytes)", bytes.len()),
            Target::Taken(len, _) => write!(f, "Taken({len} bytes)"),
        }
    }
}

/// Memory up to this many bytes is filled together with what follows it in the file: each read is a system call.
const SMALL: usize = 16 << 10;

impl Target<'_> {
    fn len(&self) -> u64 {
        match self {
            Target::Memory(bytes) => bytes.len() as u64,
            Target::Taken(len, _) => *len,
        }
    }
}

impl Opened {
    /// Reads the wanted bytes, and hashes everything.
    fn read_hashing(&self, sort: Sort, wanted: Vec<Wanted<'_>>) -> Result<Digest> {
        let len = self.part.end - self.part.start;
        if !is_worth_a_thread(sort, len) {
            let mut hashing = Hashing::here(DigestHasher::new(sort));
            self.read_wanted(wanted, Some(&mut hashing))?;
            return hashing.finish().map(DigestHasher::finish);
        }
        thread::scope(|scope| {
            let mut hashing = Hashing::start(scope, DigestHasher::new(sort), len);
            self.read_wanted(wanted, Some(&mut hashing))?;
            hashing.finish().map(DigestHasher::finish)
        })
    }

    /// Reads the wanted bytes, by ascending offsets; with `hashing`, everything.
    fn read_wanted<'a>(
        &self,
        wanted: Vec<Wanted<'a>>,
        mut hashing: Option<&mut Hashing<'a>>,
    ) -> Result<()> {
        let mut end = self.part.start;
        if let Some(hashing) = &mut hashing {
            // The header was read already.
            let header = self.header.header().encode();
            end += header.len() as u64;
            hashing.add(HashedPiece::Given(header))?;
        }
        for Wanted { offset, target } in together(wanted) {
            let from = self.part.start + offset;
            if let Some(hashing) = &mut hashing {
                hashing.read(&self.file, end..from, &self.path)?;
            }
            end = from + target.len();
            match (target, &mut hashing) {
                (Target::Memory(bytes), None) => self.read_exact_at(bytes, offset)?,
                (Target::Memory(bytes), Some(hashing)) => {
                    let mut at = offset;
                    for piece in bytes.chunks_mut(PIECE) {
                        self.read_exact_at(piece, at)?;
                        at += piece.len() as u64;
                        hashing.add(HashedPiece::Lent(piece))?;
                    }
                }
                (Target::Taken(len, take), hashing) => {
                    self.read_pieces(offset, len, take, hashing.as_deref_mut())?;
                }
            }
        }
        match hashing {
            Some(hashing) => hashing.read(&self.file, end..self.part.end, &self.path),
            None => Ok(()),
        }
    }

    fn read_pieces(
        &self,
        offset: u64,
        len: u64,
        mut take: impl FnMut(&[u8]) -> Result<()>,
        mut hashing: Option<&mut Hashing<'_>>,
    ) -> Result<()> {
        let mut own = Vec::new();
        let mut done = 0;
        while done < len {
            let bytes = (len - done).min(SLICE) as usize;
            let mut buffer = match &mut hashing {
                Some(hashing) => hashing.buffer(bytes),
                None => std::mem::take(&mut own),
            };
            buffer.resize(bytes, 0);
            self.read_exact_at(&mut buffer, offset + done)?;
            take(&buffer)?;
            done += bytes as u64;
            match &mut hashing {
                Some(hashing) => hashing.add(HashedPiece::Given(buffer))?,
                None => own = buffer,
            }
        }
        Ok(())
    }
}

/// Reads small pieces of memory that follow each other in the file, by ascending offsets, at once.
fn together(wanted: Vec<Wanted<'_>>) -> Vec<Wanted<'_>> {
    let mut reads = Vec::with_capacity(wanted.len());
    let mut small: Vec<&mut [u8]> = Vec::new();
    let (mut begin, mut end) = (0, 0);
    for Wanted { offset, target } in wanted {
        let len = target.len();
        match target {
            Target::Memory(bytes) if bytes.len() <= SMALL => {
                if offset != end || end - begin + len > PIECE as u64 {
                    reads.extend(one_read(begin, std::mem::take(&mut small)));
                    begin = offset;
                }
                small.push(bytes);
                end = offset + len;
            }
            target => reads.push(Wanted { offset, target }),
        }
    }
    reads.extend(one_read(begin, small));
    reads.sort_by_key(|read| read.offset);
    reads
}

fn one_read<'a>(offset: u64, mut into: Vec<&'a mut [u8]>) -> Option<Wanted<'a>> {
    if into.len() < 2 {
        return Some(Wanted { offset, target: Target::Memory(into.pop()?) });
    }
    let len = into.iter().map(|bytes| bytes.len() as u64).sum();
    let mut rest = into.into_iter();
    let mut to: &'a mut [u8] = &mut [];
    let take = move |mut bytes: &[u8]| {
        while !bytes.is_empty() {
            while to.is_empty() {
                to = rest.next().ok_or_else(|| Error::new(ErrorKind::Internal, "more was read"))?;
            }
            let len = to.len().min(bytes.len());
            let (now, later) = std::mem::take(&mut to).split_at_mut(len);
            now.copy_from_slice(&bytes[..now.len()]);
            bytes = &bytes[now.len()..];
            to = later;
        }
        Ok(())
    };
    Some(Wanted { offset, target: Target::Taken(len, Box::new(take)) })
}

impl Copies {
    /// Reads what `want` asks for from the nearest copy that is good. The bytes are compared with
    /// the proof or checksum as they pass; a copy that turns out to be bad has filled the targets,
    /// and the next copy fills them again. So after an error they are of no use.
    ///
    /// # Errors
    /// As `Copies::open_nearest`; those of `want`, and of functions that take bytes.
    pub fn read_nearest<'a>(
        &self,
        name: &str,
        version: i32,
        mut want: impl FnMut(&Opened) -> Result<Vec<Wanted<'a>>>,
    ) -> Result<()> {
        self.nearest(name, version, |opened| {
            // Before `want`: up to here no byte was given.
            let (expected, evidence) = self.checks.expected(&opened, name, version)?;
            let mut wanted = want(&opened)?;
            wanted.sort_by_key(|wanted| wanted.offset);
            let Some(expected) = expected else {
                self.checks.say_how_known(&opened, name, version, evidence);
                return opened.read_wanted(wanted, None);
            };
            // Where hashing is almost free, a read of half the file or more compares it each time;
            // otherwise the file is read to its end once.
            let sort = expected.digest.sort();
            let most = 2 * wanted.iter().map(|wanted| wanted.target.len()).sum::<u64>();
            let plain = opened.is_plain();
            let anew = sort == Sort::Xxh3 && plain && most >= opened.content.len();
            match self.checks.unproven(&opened, &expected)? {
                Err(_) if !anew => opened.read_wanted(wanted, None)?,
                new if !plain => {
                    // The digest is of the file; each frame is compared by itself when it is read.
                    let (file, part, path) = (&opened.file, opened.part.clone(), &opened.path);
                    let found = hashing::of_range(sort, file, part, path, || Ok(()))?;
                    self.checks.compare(&opened, &expected, new.ok(), found)?;
                    opened.read_wanted(wanted, None)?;
                }
                new => {
                    let found = opened.read_hashing(sort, wanted)?;
                    self.checks.compare(&opened, &expected, new.ok(), found)?;
                }
            }
            self.checks.say_how_known(&opened, name, version, evidence);
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Files;
    use config::Config;
    use format::checksum::Checksum;
    use format::header::Header;
    use std::path::{Path, PathBuf};

    /// Long enough that another thread hashes, and no multiple of anything.
    const LEN: usize = (5 << 20) + 4321;
    const REGIONS: [(i32, usize); 3] = [(1, 17), (2, LEN), (5, 100)];

    struct Stored {
        directory: tempfile::TempDir,
        files: Files,
        content: Vec<u8>,
    }

    impl Stored {
        /// A checkpoint in scratch and persistent, with its checksum.
        fn new() -> Stored {
            let directory = tempfile::tempdir().unwrap();
            let text = "mode = sync\nchksum = true\nscratch = DIR/s\npersistent = DIR/p\n\
                        meta = DIR/m\n";
            let text = text.replace("DIR", &directory.path().display().to_string());
            let (config, _) = Config::from_text(&text, |_| None).unwrap();
            let files = Files::open(&config, 0).unwrap();
            let header = Header::new(REGIONS.map(|(id, len)| (id, len as u64)).to_vec()).unwrap();
            let mut content = header.encode();
            content.extend((0..17 + LEN + 100).map(|i| (i ^ (i >> 9)) as u8));
            let stored = Stored { directory, files, content };
            for file in stored.copies() {
                std::fs::write(file, &stored.content).unwrap();
            }
            let sum = stored.directory.path().join("m/x-0-1.dat.chksum");
            std::fs::write(sum, Checksum::of(&stored.content).as_bytes()).unwrap();
            stored
        }

        fn copies(&self) -> [PathBuf; 2] {
            ["s", "p"].map(|level| self.directory.path().join(level).join("x-0-1.dat"))
        }

        fn damage(&self, copy: &Path, at: usize) {
            let mut bytes = self.content.clone();
            bytes[at] ^= 1;
            // Another file, which cannot be taken for the one before in the same moment.
            std::fs::write(copy.with_extension("new"), bytes).unwrap();
            std::fs::rename(copy.with_extension("new"), copy).unwrap();
        }

        /// Region 1 to memory and region 2 piece by piece, or region 5 alone.
        fn read(&self, most: bool) -> Result<Vec<u8>> {
            let mut memory = [0; 17];
            let taken = std::cell::RefCell::new(Vec::new());
            let into = memory.as_mut_ptr();
            self.files.copies().read_nearest("x", 1, |opened| {
                let offset = |id| opened.header.region(id).unwrap().offset;
                taken.borrow_mut().clear();
                let take = |bytes: &[u8]| {
                    taken.borrow_mut().extend_from_slice(bytes);
                    Ok(())
                };
                if !most {
                    let target = Target::Taken(100, Box::new(take));
                    return Ok(vec![Wanted { offset: offset(5), target }]);
                }
                // SAFETY: the array is there, and one slice of it at a time.
                let into = unsafe { std::slice::from_raw_parts_mut(into, 17) };
                Ok(vec![
                    // Not in the order of the file.
                    Wanted { offset: offset(2), target: Target::Taken(LEN as u64, Box::new(take)) },
                    Wanted { offset: offset(1), target: Target::Memory(into) },
                ])
            })?;
            let memory: &[u8] = if most { &memory } else { &[] };
            Ok([memory, &taken.into_inner()].concat())
        }

        fn expected(&self, most: bool) -> &[u8] {
            let body = &self.content[self.content.len() - (17 + LEN + 100)..];
            if most {
                &body[..17 + LEN]
            } else {
                &body[17 + LEN..]
            }
        }
    }

    /// Catches bytes of the bad copy that stay, damage that is not looked for where nothing was
    /// wanted, and a copy that counts as good because another copy was.
    #[test]
    fn the_next_copy_replaces_a_bad_one() {
        for most in [true, false] {
            for at in [60, 17 + LEN, 17 + LEN + 140] {
                let stored = Stored::new();
                let [near, far] = stored.copies();
                assert_eq!(stored.read(most).unwrap(), stored.expected(most));
                stored.damage(&near, at);
                assert_eq!(stored.read(most).unwrap(), stored.expected(most));
                stored.damage(&far, at);
                let error = stored.read(most).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Corrupt);
                assert!(error.to_string().contains("SHA-256"), "{error}");
            }
        }
    }

    /// Catches small pieces that get each other's bytes, and a read for each of them.
    #[test]
    fn small_pieces_are_read_together() {
        const LENS: [usize; 9] = [4, 0, SMALL, 1, SMALL + 1, 5, PIECE, 7, 7];
        let lens = LENS.into_iter().chain(std::iter::repeat_n(3, PIECE)).chain([SMALL; 20]);
        let file: Vec<u8> = (0..2 * LEN).map(|i| (i ^ (i >> 9)) as u8).collect();
        let mut memory: Vec<(usize, Vec<u8>)> = Vec::new();
        let mut at = 9;
        for (place, len) in lens.enumerate() {
            // Some bytes are wanted by nobody.
            at += usize::from(place % 1000 == 7);
            memory.push((at, vec![0; len]));
            at += len;
        }
        let wanted = memory.iter_mut().map(|(offset, bytes)| {
            let target = Target::Memory(bytes);
            Wanted { offset: *offset as u64, target }
        });
        let (mut reads, mut end) = (0, 0);
        for Wanted { offset, target } in together(wanted.collect()) {
            assert!(offset >= end, "bytes are read in the order of the file");
            let bytes = &file[offset as usize..(offset + target.len()) as usize];
            end = offset + target.len();
            reads += 1;
            match target {
                Target::Memory(into) => into.copy_from_slice(bytes),
                Target::Taken(_, mut take) => bytes.chunks(100).for_each(|b| take(b).unwrap()),
            }
        }
        assert!(memory.iter().all(|(at, bytes)| file[*at..*at + bytes.len()] == bytes[..]));
        assert!(reads < 3 * PIECE / 1000 + 30, "{reads}");
    }

    /// Catches another copy that is tried in vain, and an error that is lost.
    #[test]
    fn who_takes_bytes_may_fail() {
        let stored = Stored::new();
        let mut tried = 0;
        let read = stored.files.copies().read_nearest("x", 1, |_| {
            tried += 1;
            let take = |_: &[u8]| Err(Error::new(ErrorKind::Driver(1), "a copy failed"));
            Ok(vec![Wanted { offset: 44, target: Target::Taken(17, Box::new(take)) }])
        });
        assert_eq!(read.unwrap_err().to_string(), "a copy failed");
        assert_eq!(tried, 1);
    }
}
