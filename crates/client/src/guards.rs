//! Mistakes that compile, run, and lose data in silence: one warning for each region, and no refusal of what VELOC
//! allows.

use super::regions::{Earlier, Group, ProtectedMemory, Regions};
use catalog::{Part, Region};
use files::Files;
use os::access::{self, Mappings};
use os::stack;

/// The words at the beginning of a region that are looked at.
const WORDS: usize = 8;
/// Words below this are not taken for addresses, as indices are as large.
const LEAST_ADDRESS: u64 = 1 << 32;
/// So much memory behind the address of an empty region says that its size has overflowed: a product of two
/// `int` that is 0 stands for at least so many elements.
const OVERFLOWN: u64 = 1 << 32;

/// Warns, when memory is protected, of a size that can hardly be meant.
pub(super) fn look_at_empty(files: &Files, id: i32, memory: &ProtectedMemory) {
    if memory.len == 0
        && memory.address != 0
        && Mappings::now().are_writable(memory.address, OVERFLOWN)
    {
        files.warnings().once(format!(
                "region {id}: its size is 0, and 4 GiB of memory are at its address: has the product that gives its size \
                 overflowed? (`(size_t)m * m`; address {:#x})",
                memory.address
            ));
    }
}

/// Warns, when memory of these regions is captured, of what can hardly be meant. `first`: no checkpoint had it before.
pub(super) fn look_at(
    files: &Files,
    id: i32,
    memory: &ProtectedMemory,
    regions: &Group,
    first: bool,
) {
    let told = |what: &str| files.warnings().once(format!("region {id}: {what}"));
    if memory.part == Part::Device || memory.len == 0 {
        return;
    }
    // A checkpoint that does not find it left the first time finds it as it was.
    if stack::is_left(memory.address) || first && stack::is_left_closely(memory.address, c"VELOC_")
    {
        told(
                "its memory was the stack of a routine that has returned, and has other data now; protect memory that \
                 lives as long as it is protected",
            );
    }
    if !first {
        return;
    }
    if let Earlier::Once(address) = memory.earlier {
        // Memory that has changed places with another region's is there, and what was freed is not missed.
        let is_there = regions.iter().any(|(_, region)| region.is_at(address))
            || access::find_unmapped(&[(address, memory.len)]).is_some();
        if !is_there {
            told(
                    "protected again at another address, before any checkpoint had what was protected first: that \
                     memory is in no checkpoint (each region needs an id of its own)",
                );
        }
    }
    // Not when it is protected: memory that was not written to yet has what others have left there.
    if begins_with_addresses(memory.address, memory.len) {
        told(
                "it begins with addresses of memory: the pointers are saved, and not what they point to (protect the \
                 data: each row of a table, `u` and not `&u`, the arrays of a struct)",
            );
    }
}

/// Warns, at the end of the job, of regions that were in no checkpoint, as names had regions of their own.
pub(super) fn look_at_groups(regions: &Regions) {
    if let Some((left_out, name)) = regions.left_out() {
        log::warn!(
                "region{} {left_out} (VELOC_Mem_protect) {} in no checkpoint: those of \"{name}\" have only the \
                 regions of VELOC_Region_protect",
                if left_out.contains(',') { "s" } else { "" },
                if left_out.contains(',') { "were" } else { "was" },
            );
    }
}

/// Warns if a checkpoint has less than the memory that it is restored to.
pub(super) fn look_at_size(
    files: &Files,
    what: impl FnOnce() -> String,
    region: &Region,
    memory: &ProtectedMemory,
) {
    let len = region.len_in_memory();
    if memory.len > len && len > 0 {
        files.warnings().once(format!(
                "{}: region {}: {} of {} bytes are restored, as the checkpoint has no more; is it of another grid, \
                 or another type? (VELOC_Recover_size tells its size)",
                what(),
                region.id,
                len,
                memory.len
            ));
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
    /// The ids of the common regions, if none was in a checkpoint, and a name whose own regions were.
    fn left_out(&self) -> Option<(String, &str)> {
        let common = self.get(None).filter(|common| common.has_regions() && common.uses() == 0)?;
        let name =
            self.names().find(|name| self.get(Some(name)).is_some_and(|own| own.uses() > 0))?;
        let ids: Vec<String> = common.iter().map(|(id, _)| id.to_string()).collect();
        Some((ids.join(", "), name))
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
