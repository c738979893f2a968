//! What the system says of its memory: the sizes of pages, and in which zones the memory is. Memory that
//! was plugged in while it runs is in the zone `Movable`, from which registering pages first moves them.

use std::fs;

use serde::Serialize;
use veloc_client::platform::memory;

use crate::size;

/// What was found. What the system does not say is empty.
#[derive(Debug, Serialize)]
pub struct System {
    page_size: usize,
    /// Of transparent huge pages.
    huge_page_size: usize,
    /// Whether shared memory gets huge pages, as the system says it: the word in brackets counts.
    shmem_enabled: String,
    /// Huge pages that are set aside.
    reserved_huge_pages: u64,
    zones: Vec<Zone>,
}

/// Memory of a kind, in bytes.
#[derive(Debug, Default, PartialEq, Serialize)]
struct Zone {
    node: u32,
    name: String,
    /// Of the memory that is there, what the system gives out.
    managed: u64,
    free: u64,
}

/// Asks the system.
pub fn system() -> System {
    let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let page_size = memory::page_size();
    System {
        page_size,
        huge_page_size: memory::huge_page_size(),
        shmem_enabled: text("/sys/kernel/mm/transparent_hugepage/shmem_enabled").trim().to_owned(),
        reserved_huge_pages: memory::reserved_huge_pages().map_or(0, |(count, _)| count),
        zones: zones(&text("/proc/zoneinfo"), page_size as u64),
    }
}

/// The zones that have memory.
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
            (Some("managed"), None) => zone.managed = pages * page_size,
            _ => {}
        }
    }
    zones.retain(|zone| zone.managed > 0);
    zones
}

impl System {
    /// Prints a line for each fact.
    pub fn print(&self) {
        let pages = format!(
            "{} and {}, {} reserved",
            size::show(self.page_size as u64),
            size::show(self.huge_page_size as u64),
            self.reserved_huge_pages
        );
        println!("{:<40} {pages}", "pages");
        println!("{:<40} {}", "huge pages of shared memory", self.shmem_enabled);
        for Zone { node, name, managed, free } in &self.zones {
            let what = format!("node {node}, zone {name}");
            println!("{what:<40} {}, {} free", size::show(*managed), size::show(*free));
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
                    Node 1, zone   Device\n  pages free     2\n        managed  5\n";
        let zone =
            |node, name: &str, managed, free| Zone { node, name: name.to_owned(), managed, free };
        assert_eq!(
            zones(text, 4096),
            [zone(0, "Normal", 40960, 12288), zone(1, "Device", 20480, 8192)]
        );
        assert!(zones("", 4096).is_empty());
    }

    #[test]
    fn this_machine_has_zones() {
        let system = system();
        assert!(system.page_size >= 4096 && system.huge_page_size > system.page_size);
        let managed: u64 = system.zones.iter().map(|zone| zone.managed).sum();
        assert!(managed > 1 << 26, "{system:?}");
    }
}
