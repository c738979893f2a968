//! Mistakes that compile, run, and lose data in silence: one warning for each region, and no refusal of what VELOC
//! allows.

use super::regions::{Memory, Regions};
use super::Client;
use engine::catalog::entry::{Part, Region};
use os::access::{self, Mappings};
use os::stack;

/// The words at the beginning of a region that are looked at.
const WORDS: usize = 8;
/// A range of memory that is protected.
#[derive(Clone, Copy, Debug)]
pub(super) struct Range {
    pub(super) address: u64,
    pub(super) len: u64,
    pub(super) part: Part,
}

/// Words below this are not taken for addresses, as indices are as large.
const LEAST_ADDRESS: u64 = 1 << 32;
/// So much memory behind the address of an empty region says that its size has overflowed: a product of two
/// `int` that is 0 stands for at least so many elements.
const OVERFLOWN: u64 = 1 << 32;

impl Client {
    /// Warns, when memory is protected, of what can hardly be meant. `unused`: no checkpoint had what the id had before.
    pub(super) fn look_at(&self, id: i32, memory: &Range, unused: bool) {
        let told = |what: String| self.engine.files.warn_once(format!("region {id}: {what}"));
        if unused {
            told(
                "protected again at another address, before any checkpoint had what was protected first: that is in \
                 none now (each region has an id of its own)"
                    .to_owned(),
            );
        }
        if memory.part == Part::Device {
            return;
        }
        if begins_with_addresses(memory.address, memory.len) {
            told(
                "it begins with addresses of memory: the pointers are saved, and not what they point to (protect the \
                 data: each row of a table, `u` and not `&u`, the arrays of a struct)"
                    .to_owned(),
            );
        }
        if memory.len == 0
            && memory.address != 0
            && Mappings::now().are_writable(memory.address, OVERFLOWN)
        {
            told(format!(
                "its size is 0, and 4 GiB of memory are at its address: has the product that gives its size \
                 overflowed? (`(size_t)m * m`; address {:#x})",
                memory.address
            ));
        }
    }

    /// Warns, when memory is captured, if it was the stack of a routine that has returned.
    pub(super) fn look_at_place(&self, id: i32, memory: &Memory) {
        if memory.part == Part::Host && memory.len > 0 && stack::is_left(memory.address) {
            self.engine.files.warn_once(format!(
                "region {id}: its memory was the stack of a routine that has returned, and has other data now; \
                 protect memory that lives as long as it is protected"
            ));
        }
    }

    /// Warns if a checkpoint of this name leaves out regions that were probably meant to be in it.
    pub(super) fn look_at_group(&self, name: &str) {
        if let Some(left_out) = self.regions.left_out(name) {
            self.engine.files.warn_once(format!(
                "checkpoints of \"{name}\" have its own regions alone (VELOC_Region_protect), and not region{} {}, \
                 which VELOC_Mem_protect has for names without any",
                if left_out.contains(',') { "s" } else { "" },
                left_out
            ));
        }
    }

    /// Warns if a checkpoint has less than the memory that it is restored to, unless the application has asked how much
    /// it has.
    pub(super) fn look_at_size(
        &self,
        what: impl FnOnce() -> String,
        region: &Region,
        memory: &Memory,
    ) {
        if memory.len > region.size && region.size > 0 && !self.sizes_asked.get() {
            self.engine.files.warn_once(format!(
                "{}: region {}: {} of {} bytes are restored, as the checkpoint has no more; is it of another grid, \
                 or another type? (VELOC_Recover_size tells its size)",
                what(),
                region.id,
                region.size,
                memory.len
            ));
        }
    }
}

/// Whether one of the first words is the address of memory that can be written to.
fn begins_with_addresses(address: u64, len: u64) -> bool {
    let mut words = [0_u64; WORDS];
    let count = usize::try_from(len / 8).map_or(WORDS, |count| count.min(WORDS));
    if count == 0 || !address.is_multiple_of(8) {
        return false;
    }
    // SAFETY: the words have room for so many bytes, and are this call's alone.
    let read = unsafe { access::try_copy(address, words.as_mut_ptr().cast(), count * 8) };
    let addresses = LEAST_ADDRESS..1 << 47;
    let mut words = words.into_iter().filter(|word| addresses.contains(word)).peekable();
    if read.is_err() || words.peek().is_none() {
        return false;
    }
    let mappings = Mappings::now();
    words.any(|word| mappings.are_writable(word, 1))
}

impl Regions {
    /// The ids of the common regions, if a name's own regions have none of them, and none was in a checkpoint yet.
    fn left_out(&self, name: &str) -> Option<String> {
        let common = self.get(None)?;
        let own = self.of(name);
        let apart = self.has_own(name) && common.has_regions() && common.uses() == 0;
        let ids: Vec<i32> = common.iter().map(|(id, _)| id).filter(|_| apart).collect();
        if ids.is_empty() || ids.iter().any(|id| own.get(*id).is_some()) {
            return None;
        }
        Some(ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(words: &[u64]) -> bool {
        begins_with_addresses(words.as_ptr() as u64, size_of_val(words) as u64)
    }

    /// Catches tables, structs and pointers that pass for data, and data that pass for them.
    #[test]
    fn pointers_are_no_data() {
        let mut data = vec![1.5_f64; 100];
        let row = data.as_mut_ptr() as u64;
        assert!(at(&[row]) && at(&[row, row + 80, row + 160, 0, 0, 0, 0, 0, 7]));
        assert!(at(&[3, row]), "a struct");
        assert!(!at(&[1, 2, 3, 4]) && !at(&[]) && !at(&[u64::MAX, 1 << 48, 1 << 60]));
        let numbers: Vec<u64> = data.iter().map(|number| number.to_bits()).collect();
        let pairs: Vec<u64> = (0..8).map(|i| i << 32 | (i + 1)).collect();
        let code = pointers_are_no_data as *const () as u64;
        assert!(!at(&numbers) && !at(&pairs) && !at(&[code]));
        assert!(!begins_with_addresses(8, 64), "nothing is there");
    }
}
