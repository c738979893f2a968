//! States of a process that cannot store any more, until all know of that. Others may need its steps for
//! their own meanwhile, and so it has to have the states that these begin with.
//!
//! That lasts for two meetings, which is some steps, or a tenth of a second: so they are few, or what can
//! be copied in that time.

use std::collections::BTreeMap;

use crate::client::aside::Aside;

/// By slot: the state, and what it is.
#[derive(Debug, Default)]
pub struct Asides(BTreeMap<u64, (u64, Aside)>);

impl Asides {
    /// Keeps a state in place of what its slot had.
    pub fn keep(&mut self, slot: u64, state: u64, aside: Aside) {
        self.0.insert(slot, (state, aside));
    }

    /// What a slot would have, if it is this state.
    pub fn get(&mut self, slot: u64, state: u64) -> Option<&mut Aside> {
        self.0.get_mut(&slot).filter(|(kept, _)| *kept == state).map(|(_, aside)| aside)
    }

    /// The adjoint has come to `fine`: what is not needed any more is given up.
    pub fn pass(&mut self, fine: u64) {
        self.0.retain(|_, (state, _)| *state < fine);
    }
}
