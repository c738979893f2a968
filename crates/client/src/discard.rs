//! Removes what an adjoint computation has left that nobody will go on with.

use super::marked::Marked;
use super::versions::is_lost;
use super::Phase;
use errors::{Error, Result};

impl Marked<'_> {
    /// Removes all versions of these names, which an adjoint computation stores under, from memory and
    /// files, the persistent ones too.
    ///
    /// # Errors
    /// The computation is under way, or one of the versions is the application's own: then nothing
    /// is removed. Or a version could not be removed.
    pub fn discard(&mut self, names: &[String; 3]) -> Result<()> {
        for name in names {
            self.check_idle(name)?;
            self.client
                .protection
                .under_way
                .check_not_held(name, format_args!("what is stored as"))?;
        }
        for name in names {
            for version in self.client.versions().of(name)? {
                if self.is_of_the_application(name, version)? {
                    return Err(Error::invalid(format!(
                        "checkpoint \"{name}\" version {version} is one of the application's own: nothing \
                         was removed"
                    )));
                }
            }
        }
        names.iter().try_for_each(|name| self.client.versions().remove_all(name))
    }

    /// Whether a version can be read and is not a marked one.
    fn is_of_the_application(&mut self, name: &str, version: i32) -> Result<bool> {
        match self.open_own(name, version) {
            Ok(()) => {}
            Err(error) if is_lost(&error) => return Ok(false),
            Err(error) => return Err(error),
        }
        let is_marked = match &self.client.phase {
            Phase::Restart { restoring, .. } => restoring.mark.is_some(),
            _ => false,
        };
        self.client.restart_end(false)?;
        Ok(!is_marked)
    }
}
