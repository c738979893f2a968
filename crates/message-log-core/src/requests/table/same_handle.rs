//! Requests that share a handle, and complete together.

use super::Requests;
use crate::requests::RequestLife;
use crate::target::CallTarget;

impl Requests {
    /// Takes the target of another completed request with this handle, and the number of the call that began
    /// it.
    pub fn take_same_handle(&mut self, handle: usize) -> Option<(u64, CallTarget)> {
        let known = self.known_mut(handle)?;
        if known.request.is_unique() {
            return None;
        }
        let mut all = std::iter::once(&mut known.request).chain(&mut known.more);
        let request = all.find(|request| !matches!(request.target, CallTarget::Nothing))?;
        Some((request.began, std::mem::take(&mut request.target)))
    }

    /// The target of the operation with this number in a replay, if it is not a message: then its handle
    /// may be shared.
    pub fn target_same_handle(&self, began: u64) -> Option<&CallTarget> {
        let all = self.slots.all.iter().filter_map(|slot| slot.known.as_ref());
        let requests = all.map(|known| &known.request);
        let mut alike = requests.filter(|request| {
            request.began == began
                && !request.is_message
                && matches!(request.life, RequestLife::Replayed(_))
        });
        alike.next().map(|request| &request.target)
    }
}
