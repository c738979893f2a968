//! Who has a chunk for the time being: copies, or its registration.

use super::HostBuffer;

/// A chunk that will not be registered while this is held.
#[derive(Debug)]
pub struct Lease<'a> {
    pub(super) buffer: &'a HostBuffer,
    pub(super) chunk: usize,
}

impl Lease<'_> {
    /// The copy may go on for ever: the chunk is never registered, and nobody waits for that.
    pub fn strand(self) {
        self.buffer.guarded.lock().pages.strand(self.chunk);
        self.buffer.changed.notify_all();
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        if self.buffer.guarded.lock().pages.unlease(self.chunk) {
            self.buffer.changed.notify_all();
        }
    }
}

/// A chunk that no copy uses or will use, to be registered. It is open again when this is dropped; if
/// nobody has said by then what came of the registration, it counts as refused.
#[derive(Debug)]
pub struct Closed<'a> {
    pub(super) buffer: &'a HostBuffer,
    pub(super) chunk: usize,
    pub(super) registered: bool,
}

impl Closed<'_> {
    /// Opens the chunk: registered, or refused by the driver.
    pub fn settle(mut self, registered: bool) {
        self.registered = registered;
    }
}

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        self.buffer.change(|pages| pages.settle(self.chunk, self.registered));
    }
}
