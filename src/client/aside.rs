//! What a name's memory has, kept in memory that is in no tier: for a process that can store nothing
//! any more, and has to go on for a while because others need its steps.

use super::regions::Protected;
use super::restart::zeros;
use super::{Client, Selection};
use crate::engine::copy::Way;
use crate::error::{Error, Result};

/// What a name's memory had: the bytes of each region by id. Objects are not among them.
#[derive(Debug)]
pub struct Aside(Vec<(i32, Vec<u8>)>);

impl Client {
    /// Copies what a name's memory has.
    ///
    /// # Errors
    /// There is no memory for it, or the driver's.
    pub fn set_aside(&self, name: &str) -> Result<Aside> {
        let mut aside = Vec::new();
        for (id, region) in self.regions.of(name).select(&Selection::All)? {
            let Protected::Memory(memory) = region else { continue };
            let place = self.place(id, &memory, memory.len)?;
            let mut bytes = zeros(memory.len)?;
            self.engine.copy_aside(Way::In, &place, &mut bytes)?;
            aside.push((id, bytes));
        }
        Ok(Aside(aside))
    }

    /// Gives a name's memory what it had then.
    ///
    /// # Errors
    /// A region is not there any more, or is smaller; or the driver's.
    pub fn put_back(&self, name: &str, aside: &mut Aside) -> Result<()> {
        for (id, bytes) in &mut aside.0 {
            let len = bytes.len() as u64;
            let memory = match self.regions.of(name).get(*id) {
                Some(Protected::Memory(memory)) if memory.len >= len => memory,
                _ => {
                    return Err(Error::invalid(format!(
                        "region {id} of \"{name}\" had {len} bytes, and has not as many any more"
                    )));
                }
            };
            let place = self.place(*id, memory, len)?;
            self.engine.copy_aside(Way::Out, &place, bytes)?;
        }
        Ok(())
    }
}
