//! What the system says of its memory and of the driver: the sizes of pages, in which zones the memory is,
//! and what the driver's kernel modules make of it. Memory that was plugged in while it runs is in the zone
//! `Movable`, from which registering pages first moves them.

use std::fs;
use std::path::Path;

use os::memory;
use serde::Serialize;

use crate::size;

/// What was found. What the system does not say is empty.
#[derive(Debug, Serialize)]
pub(super) struct System {
    page_size: usize,
    /// Of transparent huge pages.
    huge_page_size: usize,
    /// Whether mappings get huge pages, as the system says it: the word in brackets counts.
    huge_pages_enabled: String,
    /// The same of shared memory.
    shmem_enabled: String,
    /// Huge pages that are set aside, by their size.
    reserved_huge_pages: Vec<Reserved>,
    /// The driver's kernel module in its own words: the open one says so, and has the device share the
    /// system's page tables (HMM) unless told not to.
    kernel_module: String,
    /// What the module `nvidia_uvm` was told: `Y` if not to.
    uvm_disable_hmm: String,
    zones: Vec<Zone>,
}

/// Huge pages of a size.
#[derive(Debug, PartialEq, Serialize)]
struct Reserved {
    bytes: u64,
    count: u64,
    free: u64,
}

/// Memory of a kind, in bytes.
#[derive(Debug, Default, PartialEq, Serialize)]
pub(super) struct Zone {
    node: u32,
    name: String,
    present: u64,
    /// Of that, what the system gives out.
    managed: u64,
    free: u64,
}

/// A file of the system; empty if there is none.
fn text(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

/// Asks the system.
pub(super) fn system() -> System {
    System {
        page_size: memory::page_size(),
        huge_page_size: memory::huge_page_size(),
        huge_pages_enabled: text("/sys/kernel/mm/transparent_hugepage/enabled"),
        shmem_enabled: text("/sys/kernel/mm/transparent_hugepage/shmem_enabled"),
        reserved_huge_pages: reserved(Path::new("/sys/kernel/mm/hugepages")),
        kernel_module: text("/proc/driver/nvidia/version").lines().next().unwrap_or("").to_owned(),
        uvm_disable_hmm: text("/sys/module/nvidia_uvm/parameters/uvm_disable_hmm"),
        zones: memory_zones(),
    }
}

/// Huge pages that are set aside, by what the folders are called.
fn reserved(folder: &Path) -> Vec<Reserved> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<Reserved> = entries
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let kib: u64 = name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
            let number = |name| text(entry.path().join(name)).parse().unwrap_or(0);
            let (count, free) = (number("nr_hugepages"), number("free_hugepages"));
            Some(Reserved { bytes: kib << 10, count, free })
        })
        .collect();
    found.sort_by_key(|pages| pages.bytes);
    found
}

/// The zones that have memory, now.
pub(super) fn memory_zones() -> Vec<Zone> {
    zones(&text("/proc/zoneinfo"), memory::page_size() as u64)
}

/// The zones that have memory, of the system's list.
fn zones(text: &str, page_size: u64) -> Vec<Zone> {
    let mut zones: Vec<Zone> = Vec::new();
    for line in text.lines() {
        if let Some((node, name)) =
            line.strip_prefix("Node ").and_then(|line| line.split_once(", zone"))
        {
            let node = node.trim().parse().unwrap_or(0);
            zones.push(Zone { node, name: name.trim().to_owned(), ..Zone::default() });
            continue;
        }
        let Some(zone) = zones.last_mut() else { continue };
        let mut words = line.split_whitespace().rev();
        let Some(pages) = words.next().and_then(|pages| pages.parse::<u64>().ok()) else {
            continue;
        };
        match (words.next(), words.next()) {
            (Some("free"), Some("pages")) => zone.free = pages * page_size,
            (Some("present"), None) => zone.present = pages * page_size,
            (Some("managed"), None) => zone.managed = pages * page_size,
            _ => {}
        }
    }
    zones.retain(|zone| zone.present > 0);
    zones
}

impl System {
    /// Prints a line for each fact.
    pub(super) fn print(&self) {
        let of = |bytes| size::show(bytes as u64);
        let pages = format!("{} and {}", of(self.page_size), of(self.huge_page_size));
        println!("{:<40} {pages}", "pages");
        println!("{:<40} {}", "huge pages", self.huge_pages_enabled);
        println!("{:<40} {}", "huge pages of shared memory", self.shmem_enabled);
        for Reserved { bytes, count, free } in &self.reserved_huge_pages {
            let what = format!("pages of {} set aside", size::show(*bytes));
            println!("{what:<40} {count}, {free} free");
        }
        println!("{:<40} {}", "kernel module", self.kernel_module);
        println!("{:<40} {}", "its uvm_disable_hmm", self.uvm_disable_hmm);
        for Zone { node, name, present, managed, free } in &self.zones {
            let what = format!("node {node}, zone {name}");
            let [present, managed, free] = [present, managed, free].map(|bytes| size::show(*bytes));
            println!("{what:<40} {present}, {managed} managed, {free} free");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches the counts of a processor's lists, or of a zone without memory, taken for a zone's.
    #[test]
    fn zones_have_what_the_kernel_says() {
        let text = "Node 0, zone   Normal\n  per-node stats\n      nr_inactive_anon 7\n  pages free     3\n        \
                    boost    0\n        present  20\n        managed  10\n      nr_free_pages 3\n  \
                    pagesets\n    cpu: 0\n              count:    4\n\
                    Node 1, zone  Movable\n  pages free     0\n        managed  0\n\
                    Node 1, zone   Device\n  pages free     2\n        present  6\n        managed  5\n";
        let zone = |node, name: &str, [present, managed, free]: [u64; 3]| {
            let [present, managed, free] = [present, managed, free].map(|pages| pages * 4096);
            Zone { node, name: name.to_owned(), present, managed, free }
        };
        assert_eq!(
            zones(text, 4096),
            [zone(0, "Normal", [20, 10, 3]), zone(1, "Device", [6, 5, 2])]
        );
        assert!(zones("", 4096).is_empty());
    }

    /// Catches sizes in the wrong unit, and files of no size taken for one.
    #[test]
    fn pages_that_are_set_aside_are_found_by_size() {
        let folder = tempfile::tempdir().unwrap();
        for (name, count, free) in
            [("hugepages-1048576kB", "2\n", "1\n"), ("hugepages-2048kB", "0", "0")]
        {
            let folder = folder.path().join(name);
            fs::create_dir(&folder).unwrap();
            fs::write(folder.join("nr_hugepages"), count).unwrap();
            fs::write(folder.join("free_hugepages"), free).unwrap();
        }
        fs::write(folder.path().join("other"), "3").unwrap();
        let reserved_of = |bytes, count, free| Reserved { bytes, count, free };
        assert_eq!(
            reserved(folder.path()),
            [reserved_of(2 << 20, 0, 0), reserved_of(1 << 30, 2, 1)]
        );
        assert!(reserved(&folder.path().join("nowhere")).is_empty());
    }

    #[test]
    fn this_machine_has_zones() {
        let system = system();
        assert!(system.page_size >= 4096 && system.huge_page_size > system.page_size);
        let managed: u64 = system.zones.iter().map(|zone| zone.managed).sum();
        assert!(managed > 1 << 26, "{system:?}");
    }
}
