//! Compares a name's memory with a version, and changes neither.

use std::fmt;

use super::marked::Marked;
use super::memory::CallMemory;
use super::recovering::zeros;
use super::regions::Protected;
use super::{Client, Phase};
use engine::place::Place;
use errors::{Error, Result};
use trace::Activity;

/// The bytes that are compared at a time. Each piece opens its file again, or waits for the device;
/// there are two buffers of this size.
const PIECE: u64 = 16 << 20;

/// The most regions that a text names.
const MOST_NAMED: usize = 3;

/// A region whose memory has other bytes than a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The region's id.
    pub id: i32,
    /// The region's bytes.
    pub len: u64,
    /// How many of these differ; 1 or more.
    pub bytes: u64,
    /// The first byte that differs, from 0 on.
    pub first: u64,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Difference { id, len, bytes, first } = self;
        write!(f, "{bytes} of the {len} bytes of region {id} differ, the first is byte {first}")
    }
}

/// Differences as a text: the first of them, and how many more there are.
pub fn text_of(differences: &[Difference]) -> String {
    let named: Vec<String> =
        differences.iter().take(MOST_NAMED).map(Difference::to_string).collect();
    match differences.len().saturating_sub(MOST_NAMED) {
        0 => named.join("; "),
        more => format!("{}; and {more} more regions", named.join("; ")),
    }
}

impl Marked<'_> {
    /// Compares the memory that is protected for a name, on the host and the device, with a marked
    /// version that has the same regions. Returns the regions that differ, ascending by id.
    ///
    /// # Errors
    /// There is no good copy of the version, or no memory; or the driver's.
    pub fn differences(&mut self, name: &str, version: i32) -> Result<Vec<Difference>> {
        let trace = self.client.engine.trace().clone();
        let _span = trace.span(Activity::Restore).of(name, version);
        self.open_own(name, version)?;
        let compared = self.compare_open();
        // Comparing is no read: the version keeps its place in the order of reads.
        let ended = self.client.restart_end(false);
        compared.and_then(|differences| ended.map(|()| differences))
    }

    fn compare_open(&self) -> Result<Vec<Difference>> {
        let Phase::Restart { restoring, .. } = &self.client.phase else { return Ok(Vec::new()) };
        let Client { engine, protection, .. } = &*self.client;
        let largest = restoring.regions.iter().map(|region| region.size).max().unwrap_or(0);
        let (mut stored, mut own) = (zeros(largest.min(PIECE))?, zeros(largest.min(PIECE))?);
        let mut differences = Vec::new();
        let call = CallMemory::new(engine);
        for region in restoring.regions.iter() {
            let protected = protection.regions.of(&restoring.name).get(region.id);
            // The mark is not protected memory.
            let Some(Protected::Memory(memory)) = protected else { continue };
            let len = region.len_in_memory();
            let place = call.place(region.id, memory, len)?;
            let mut found = Difference { id: region.id, len, bytes: 0, first: 0 };
            if region.decoded.is_some() {
                let text = format!(
                    "region {}: it is stored compressed, so its bytes cannot be compared; give the callback hash",
                    region.id
                );
                return Err(Error::invalid(text));
            }
            for start in (0..len).step_by(PIECE as usize) {
                let len = PIECE.min(region.size - start);
                stored.resize(len as usize, 0);
                own.resize(len as usize, 0);
                engine.restores().read_piece(restoring, region, start, &mut stored)?;
                let piece = Place { address: place.address + start, len, ..place };
                engine.device_side().read_application(&piece, &mut own)?;
                found.add(start, &own, &stored);
            }
            if found.bytes > 0 {
                differences.push(found);
            }
        }
        Ok(differences)
    }
}

impl Difference {
    /// Compares a piece that begins at byte `start`.
    fn add(&mut self, start: u64, own: &[u8], stored: &[u8]) {
        if own == stored {
            return;
        }
        let differ = own.iter().zip(stored).enumerate().filter(|(_, (own, stored))| own != stored);
        for (at, _) in differ {
            if self.bytes == 0 {
                self.first = start + at as u64;
            }
            self.bytes += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::regions::ProtectedMemory;
    use config::Config;

    /// Catches a look that counts as a read: what is in memory alone would be given up for the
    /// next checkpoint, and the order in which versions will be read would lose one.
    #[test]
    fn what_was_looked_at_stays_where_it_is() {
        const LEN: usize = 300 << 10;
        // Room for two versions, and no files.
        let text = "mode = async\nephemeral = true\nhost_cache_size = 800K\n";
        let mut state = vec![1_u8; LEN];
        let (config, _) = Config::from_text(text, |_| None).unwrap();
        let mut client = Client::start_single(config, 0).unwrap();
        let memory = ProtectedMemory::new(4, state.as_mut_ptr() as u64, LEN, 1).unwrap();
        client.protecting().protect(None, 4, memory).unwrap();
        client.checkpoint("x", 1).unwrap();
        assert_eq!(client.marked().differences("x", 1).unwrap(), []);
        assert_eq!(client.engine.checkpoints().counts().0.restores, 0);
        client.checkpoint("x", 2).unwrap();
        let full = client.checkpoint("x", 3).unwrap_err();
        assert_eq!(full.kind(), errors::ErrorKind::NoRoom, "{full}");
        // A version that was restored makes room.
        client.restart("x", 1, None).unwrap();
        client.checkpoint("x", 3).unwrap();
    }

    /// Catches a byte that is counted from where its piece begins, and a first one that a later piece replaces.
    #[test]
    fn pieces_of_a_region_are_counted_together() {
        let mut found = Difference { id: 4, len: 30, bytes: 0, first: 0 };
        found.add(0, &[7; 10], &[7; 10]);
        assert_eq!(found.bytes, 0);
        found.add(10, &[7; 10], &[7, 7, 8, 7, 8, 7, 7, 7, 7, 7]);
        found.add(20, &[7; 10], &[8; 10]);
        assert_eq!((found.bytes, found.first), (12, 12));
        let text = "12 of the 30 bytes of region 4 differ, the first is byte 12";
        assert_eq!(text_of(&[found]), text);
    }

    /// Catches a text that grows with the regions.
    #[test]
    fn of_many_regions_the_first_are_named() {
        let of = |id| Difference { id, len: 8, bytes: 1, first: 3 };
        let text = text_of(&(0..50).map(of).collect::<Vec<_>>());
        assert!(
            text.contains("region 2 differ") && text.ends_with("; and 47 more regions"),
            "{text}"
        );
        assert!(!text.contains("region 3"), "{text}");
    }
}
