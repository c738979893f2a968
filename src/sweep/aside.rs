//! States that a process cannot store, until all know of that. Others may need its steps for
//! their own meanwhile, and so it has to have the states that these begin with.
//!
//! That lasts for two meetings, which is some steps, or a tenth of a second: so they are few, or what can
//! be copied in that time.

use std::collections::BTreeMap;

use crate::client::aside::Aside;

/// By version: the state, and what it is.
#[derive(Debug, Default)]
pub struct Asides(BTreeMap<u64, (u64, Aside)>);

impl Asides {
    /// Keeps a state in place of what its version had.
    pub fn keep(&mut self, version: u64, state: u64, aside: Aside) {
        self.0.insert(version, (state, aside));
    }

    /// What a version would have, if it is this state.
    pub fn get(&mut self, version: u64, state: u64) -> Option<&mut Aside> {
        self.0.get_mut(&version).filter(|(kept, _)| *kept == state).map(|(_, aside)| aside)
    }

    /// Whether it is kept here what a version would have, which is this state.
    pub fn has(&self, version: u64, state: u64) -> bool {
        self.0.get(&version).is_some_and(|(kept, _)| *kept == state)
    }

    /// The lowest state.
    pub fn lowest(&self) -> Option<u64> {
        self.0.values().map(|(state, _)| *state).min()
    }

    /// Gives up what a version would have had: the store has another state there now.
    pub fn drop_version(&mut self, version: u64) {
        self.0.remove(&version);
    }

    /// Gives up `state` and what is above: it will be computed again.
    pub fn keep_below(&mut self, state: u64) {
        self.0.retain(|_, (kept, _)| *kept < state);
    }

    /// The adjoint has come to `fine`: what is not needed any more is given up.
    pub fn pass(&mut self, fine: u64) {
        self.0.retain(|_, (state, _)| *state < fine);
    }
}
