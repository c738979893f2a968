//! Host memory to register and to copy to.

use anyhow::Result;
use levels::host_buffer::{HostBuffer, TouchMethod, TOUCH_UNIT};
use os::affinity;
use serde::Serialize;

use crate::cuda::{register, unregister};
use crate::host::pages::touch_all;

/// The kind of the pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum PageKind {
    /// Huge pages, if the system gives any, that exist.
    HugeTouched,
    /// Pages of 4 KiB that exist.
    SmallTouched,
    /// Pages like `HugeTouched` that do not exist yet.
    HugeUntouched,
    /// Pages like `SmallTouched` that do not exist yet.
    SmallUntouched,
}

impl PageKind {
    /// The name of the kind in tables.
    pub(super) fn text(self) -> &'static str {
        match self {
            PageKind::HugeTouched => "huge, touched",
            PageKind::SmallTouched => "4 KiB, touched",
            PageKind::HugeUntouched => "huge, untouched",
            PageKind::SmallUntouched => "4 KiB, untouched",
        }
    }
}

/// Host memory, of which none, some or all is registered.
pub(super) struct LeadPages {
    buffer: HostBuffer,
    registered: Vec<u64>,
}

impl LeadPages {
    /// `bytes` of host memory of this kind.
    pub(super) fn new(bytes: u64, kind: PageKind) -> Result<LeadPages> {
        let huge = matches!(kind, PageKind::HugeTouched | PageKind::HugeUntouched);
        let buffer = HostBuffer::reserve(bytes, TOUCH_UNIT, huge)?;
        let pages = LeadPages { buffer, registered: Vec::new() };
        if matches!(kind, PageKind::HugeTouched | PageKind::SmallTouched) {
            pages.touch()?;
        }
        Ok(pages)
    }

    /// Makes the pages that do not exist.
    pub(super) fn touch(&self) -> Result<()> {
        let threads = affinity::usable_cpus().min(16) as u32;
        let write = TouchMethod::Write(4096);
        touch_all(&self.buffer, threads, |unit| self.buffer.touch(unit, write))
    }

    /// The address of a byte; `offset` may be the size, for the address behind the last byte.
    pub(super) fn at(&self, offset: u64) -> *mut u8 {
        assert!(offset <= self.buffer.len(), "offset {offset} of {}", self.buffer.len());
        self.buffer.address(offset)
    }

    /// Registers a chunk that is not registered yet. No copy uses the memory, or the caller knows
    /// that none uses that chunk.
    pub(super) fn register(&mut self, start: u64, bytes: u64) -> Result<()> {
        assert!(start + bytes <= self.buffer.len());
        // SAFETY: the memory lives until `unregister` has ended every registration; the library's
        // own copies of this bench wait before they return.
        unsafe { register(self.at(start), bytes)? };
        self.registered.push(start);
        Ok(())
    }

    /// Ends every registration.
    pub(super) fn unregister(&mut self) -> Result<()> {
        while let Some(start) = self.registered.pop() {
            // SAFETY: registered above; every copy has been waited for.
            unsafe { unregister(self.at(start))? };
        }
        Ok(())
    }
}

impl Drop for LeadPages {
    fn drop(&mut self) {
        if let Err(error) = self.unregister() {
            eprintln!("{error:#}");
        }
    }
}
