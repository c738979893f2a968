//! An adjoint computation under way, and what the application's calls may do meanwhile to the names
//! that it stores under: they change nothing of what is stored there, and the memory that is
//! protected for them keeps its ids and sizes. A mistake that a restore would find, much later or
//! after a crash, is refused at once.

use std::fmt::Arguments;

use super::regions::{Protected, Regions};
use errors::{Error, Result};

/// The computation under way, if there is one.
#[derive(Debug, Default)]
pub(super) struct UnderWay(Option<Computation>);

#[derive(Debug)]
struct Computation {
    /// The names of its states, its adjoints, and the hashes of states.
    names: [String; 3],
    /// Everything that it stores is protected, and stays so.
    is_fixed: bool,
}

impl Computation {
    fn has(&self, name: &str) -> bool {
        self.names.iter().any(|own| own == name)
    }

    fn error(&self, what: impl std::fmt::Display) -> Error {
        Error::invalid(format!(
            "the adjoint computation \"{}\" is under way: {what}",
            self.names[0]
        ))
    }
}

impl UnderWay {
    /// An adjoint computation begins, which stores its states, its adjoints, and the hashes of
    /// states under these names.
    pub(super) fn hold_names(&mut self, names: [String; 3]) {
        self.0 = Some(Computation { names, is_fixed: false });
    }

    /// Everything that the computation stores is protected: from here on ids and sizes stay.
    pub(super) fn fix_regions(&mut self) {
        if let Some(computation) = &mut self.0 {
            computation.is_fixed = true;
        }
    }

    /// The computation has ended: the names are the application's again.
    pub(super) fn release_names(&mut self) {
        self.0 = None;
    }

    /// Whether a computation under way has these regions, which may move.
    pub(super) fn holds(&self, group: Option<&str>) -> bool {
        self.0.as_ref().zip(group).is_some_and(|(computation, name)| computation.has(name))
    }

    /// Refuses a call that would change checkpoints of a name that a computation under way has.
    pub(super) fn check_not_held(&self, name: &str, what: Arguments<'_>) -> Result<()> {
        match &self.0 {
            Some(computation) if computation.has(name) => {
                Err(computation.error(format!("{what} \"{name}\" belongs to it")))
            }
            _ => Ok(()),
        }
    }

    /// Refuses to change how a region is compressed that a computation under way has room for.
    pub(super) fn check_compresses(&self, group: Option<&str>, id: i32) -> Result<()> {
        match (&self.0, group) {
            (Some(computation), Some(name)) if computation.is_fixed && computation.has(name) => {
                Err(computation.error(format!(
                    "how region {id} of \"{name}\" is compressed cannot change any more"
                )))
            }
            _ => Ok(()),
        }
    }

    /// Refuses to end the protection of a region, or of all, that a computation under way needs.
    pub(super) fn check_unprotects(&self, group: Option<&str>, id: Option<i32>) -> Result<()> {
        match (&self.0, group) {
            (Some(computation), Some(name)) if computation.has(name) => {
                let which = id.map_or("all regions".to_owned(), |id| format!("region {id}"));
                Err(computation
                    .error(format!("{which} of \"{name}\" must stay protected until its end")))
            }
            _ => Ok(()),
        }
    }

    /// Refuses a region with a new id or another size, for a computation under way.
    pub(super) fn check_protects(
        &self,
        regions: &Regions,
        group: Option<&str>,
        id: i32,
        new: &Protected,
    ) -> Result<()> {
        match (&self.0, group) {
            (Some(computation), Some(name)) if computation.has(name) => {
                computation.check_stays(regions, name, id, new)
            }
            _ => Ok(()),
        }
    }
}

impl Computation {
    /// Refuses a region with a new id or another size, once all regions are protected.
    fn check_stays(&self, regions: &Regions, name: &str, id: i32, new: &Protected) -> Result<()> {
        if name == self.names[2] {
            return Err(self.error(format!(
                "the library stores its hashes as \"{name}\", so no memory can be protected for that name"
            )));
        }
        if !self.is_fixed {
            return Ok(());
        }
        let difference = match (regions.of(name).get(id), new) {
            (Some(Protected::Memory(old)), Protected::Memory(new)) if old.len == new.len => {
                return Ok(());
            }
            (Some(Protected::Object(_)), Protected::Object(_)) => return Ok(()),
            (Some(Protected::Memory(old)), Protected::Memory(new)) => {
                format!("region {id} of \"{name}\" has {} bytes, not {}", old.len, new.len)
            }
            (Some(_), _) => {
                format!("region {id} of \"{name}\" cannot change between memory and an object")
            }
            (None, _) => format!("\"{name}\" has no region {id}"),
        };
        Err(self.error(format!(
            "{difference}; after the callback protect, ids and sizes stay as they are; if the size of the state \
             varies, protect the largest there"
        )))
    }
}
