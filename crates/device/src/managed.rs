//! Managed memory: where its pages are, and what the application has advised.

use std::ops::Range;

use super::api::Advice;
use super::device::Device;
use errors::Result;
use os::residency::PageTable;

/// A range of managed memory.
#[derive(Clone, Debug)]
pub struct ManagedRange {
    /// The stretches that are on the host, ascending.
    pub on_host: Vec<Range<u64>>,
    /// The advice about the range.
    pub advice: Advice,
}

impl ManagedRange {
    /// Asks the system and the driver. `None`: the device takes part in the host's page table, which then does not
    /// tell where a page is; or the host must not touch managed memory while the device works.
    ///
    /// # Errors
    /// The system's or the driver's: nobody tells.
    pub fn at(
        device: &Device,
        table: &PageTable,
        range: &Range<u64>,
    ) -> Result<Option<ManagedRange>> {
        let capabilities = device.capabilities();
        if capabilities.pageable_access || !capabilities.managed_beside_work || range.is_empty() {
            return Ok(None);
        }
        let _current = device.enter()?;
        let advice = device.api().advice(range)?;
        Ok(Some(ManagedRange { on_host: table.present(range)?, advice }))
    }

    /// How many bytes of a range are on the host.
    pub fn on_host(&self, range: &Range<u64>) -> u64 {
        let first = self.on_host.partition_point(|stretch| stretch.end <= range.start);
        let within = self.on_host[first..].iter().take_while(|stretch| stretch.start < range.end);
        within.map(|s| s.end.min(range.end) - s.start.max(range.start)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches a stretch that is counted beyond the ends of the range, or not at all.
    #[test]
    fn a_range_has_the_parts_of_the_stretches_within_it() {
        let managed =
            ManagedRange { on_host: vec![10..20, 30..40, 50..60], advice: Advice::default() };
        let cases =
            [(0..100, 30), (15..35, 10), (20..30, 0), (12..14, 2), (39..51, 2), (60..70, 0)];
        for (range, bytes) in cases {
            assert_eq!(managed.on_host(&range), bytes, "{range:?}");
        }
    }
}
