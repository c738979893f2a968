//! NUMA nodes: their number, the node of a PCI device, and memory from a node.

use std::fs;
use std::ops::Range;
use std::path::Path;

use crate::mapping::Mapping;
use crate::memory::page_size;
use errors::{Error, Result};

/// The number of node numbers that are handled: the kernel's own limit (2^10).
const NODES: usize = 1024;

/// How many NUMA nodes are online, at least 1.
pub fn node_count() -> usize {
    let online = fs::read_to_string("/sys/devices/system/node/online").unwrap_or_default();
    count_list(&online).unwrap_or(1).max(1)
}

/// The node of the PCI device `bus_id` (such as `0000:3b:00.0`). `None` if unknown, as on machines with
/// a single node.
pub fn node_of_pci(bus_id: &str) -> Option<u32> {
    node_of_pci_below(Path::new("/sys/bus/pci/devices"), bus_id)
}

fn node_of_pci_below(devices: &Path, bus_id: &str) -> Option<u32> {
    // Anything else must not become part of a path.
    if !bus_id.bytes().all(|b| b.is_ascii_hexdigit() || b == b':' || b == b'.') {
        return None;
    }
    let bus_id = bus_id.to_ascii_lowercase();
    // The driver may write eight digits of the domain where the system has four.
    let short = bus_id.strip_prefix("0000").filter(|rest| rest.find(':') == Some(4));
    let text = fs::read_to_string(devices.join(short.unwrap_or(&bus_id)).join("numa_node")).ok()?;
    // -1: unknown to the firmware.
    text.trim().parse().ok()
}

/// Allocates the pages of `range` (bytes from the mapping's base, widened to whole pages) from `node`
/// while it has free memory, and from others after that. Existing pages stay where they are.
///
/// # Errors
/// The range is not within the mapping, the node does not exist, or the system forbids it (as many
/// containers do). Memory then comes from the default node.
pub fn bind_preferred(mapping: &Mapping, range: Range<usize>, node: u32) -> Result<()> {
    const BITS: usize = libc::c_ulong::BITS as usize;
    let addresses = mapping.addresses(&range)?;
    let bit = node as usize;
    if bit >= NODES {
        return Err(Error::invalid(format!("NUMA node {node} is beyond the limit of {NODES}")));
    }
    let mut mask = [0 as libc::c_ulong; NODES / BITS];
    mask[bit / BITS] |= 1 << (bit % BITS);

    let page = page_size();
    let start = addresses.start / page * page;
    let len = addresses.end.next_multiple_of(page) - start;
    // SAFETY: whole pages of a mapping that outlives the call, whose content stays; the mask has
    // NODES bits (the kernel takes one less than the number it is given).
    let result = unsafe {
        libc::syscall(
            libc::SYS_mbind,
            start,
            len,
            libc::c_long::from(libc::MPOL_PREFERRED),
            mask.as_ptr(),
            (NODES + 1) as libc::c_ulong,
            0 as libc::c_ulong,
        )
    };
    match result {
        0 => Ok(()),
        _ => Err(Error::errno(format!("mbind of {len} bytes to NUMA node {node}"))),
    }
}

/// The number of elements of a list such as `0-3,8`.
fn count_list(list: &str) -> Option<usize> {
    list.trim().split(',').try_fold(0usize, |sum, part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        sum.checked_add(last.checked_sub(first)?)?.checked_add(1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists() {
        for (list, count) in [
            ("0\n", Some(1)),
            ("0-3", Some(4)),
            ("0-1,4,6-7", Some(5)),
            ("", None),
            ("3-1", None),
            ("0-18446744073709551615", None),
            ("a", None),
        ] {
            assert_eq!(count_list(list), count, "{list:?}");
        }
        assert!(node_count() >= 1);
    }

    #[test]
    fn nodes_of_devices() {
        let devices = tempfile::tempdir().unwrap();
        for (device, node) in [("0000:3b:00.0", "1\n"), ("0000:af:00.0", "-1\n")] {
            fs::create_dir(devices.path().join(device)).unwrap();
            fs::write(devices.path().join(device).join("numa_node"), node).unwrap();
        }
        for (bus_id, node) in [
            ("0000:3b:00.0", Some(1)),
            ("0000:3B:00.0", Some(1)),
            ("00000000:3B:00.0", Some(1)),
            ("0000:af:00.0", None),
            ("0000:01:00.0", None),
            ("../../x", None),
            ("", None),
        ] {
            assert_eq!(node_of_pci_below(devices.path(), bus_id), node, "{bus_id:?}");
        }
    }

    #[test]
    fn binding_works_or_says_why_not() {
        let mapping = Mapping::reserve(1 << 20).unwrap();
        if let Err(e) = bind_preferred(&mapping, 0..mapping.len(), 0) {
            assert!(e.to_string().contains("NUMA node 0"), "{e}");
        }
        assert!(bind_preferred(&mapping, 0..mapping.len(), 1023).is_err());
        assert!(bind_preferred(&mapping, 0..mapping.len(), 1024).is_err());
        assert!(bind_preferred(&mapping, 0..mapping.len() + 1, 0).is_err());
    }
}
