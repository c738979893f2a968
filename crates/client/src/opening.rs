//! Opens a checkpoint for recovery on all processes, or on none.

use super::recovering::{Prepared, Recovering};
use super::Selection;
use collective::one_run::of_several_runs;
use collective::Search;
use engine::restore::Restoring;
use errors::{ErrorKind, Result};
use format::identity::Identity;

/// A checkpoint that is about to be open for recovery.
pub(super) struct BegunRestore {
    pub restoring: Restoring,
    /// Where a restart copies to, or why it cannot; `None` if the checkpoint is only opened.
    pub prepared: Result<Option<Prepared>>,
}

/// What opening a checkpoint uses.
pub(super) struct Opening<'a> {
    pub search: Search<'a>,
    pub recovering: Recovering<'a>,
}

impl Opening<'_> {
    /// Opens a checkpoint of the rank `of`, or else of this one, and finds where what is `copied` goes before the processes
    /// agree. `proper`: this process may open it. Collective.
    pub(super) fn open(
        &self,
        name: &str,
        version: i32,
        of: Option<u32>,
        copied: Option<&Selection>,
        proper: Result<()>,
    ) -> Result<BegunRestore> {
        let other = self.search.other(of);
        let end = |begun: Result<BegunRestore>| {
            if let Ok(begun) = begun {
                self.recovering.engine.restores().end_restore(begun.restoring, false);
            }
        };
        let any = Identity::UNKNOWN;
        let mut begun =
            proper.clone().and_then(|()| self.begin_one(name, version, of, copied, any));
        // Each process rebuilds its own file only.
        let own = proper.is_ok() && other.is_none();
        let why = match self.search.make_good(name, version, own, begun.is_ok()) {
            Ok(None) => None,
            Ok(Some(Ok(()))) => {
                // The file that was opened before may have been an old one.
                end(begun);
                begun = self.begin_one(name, version, of, copied, any);
                None
            }
            Ok(Some(Err(why))) | Err(why) => Some(why),
        };
        let nearest = begun.as_ref().ok().map(|begun| begun.restoring.identity);
        match self.search.is_of_one_run(name, nearest) {
            Ok(true) => {}
            Ok(false) => {
                // A process that has found nothing keeps its reason.
                let failed = begun.as_ref().err().cloned();
                end(begun);
                begun = self.begin_of_common_run(name, version, of, copied);
                if let Some(failed) = failed {
                    end(std::mem::replace(&mut begun, Err(failed)));
                }
            }
            Err(error) => {
                end(begun);
                return Err(error);
            }
        }
        let ready = match &begun {
            Ok(BegunRestore { prepared: Ok(_), .. }) => Ok(()),
            Ok(BegunRestore { prepared: Err(error), .. }) | Err(error) => Err(error.clone()),
        };
        let ready = match (ready, why) {
            (ready, None) => ready,
            (Ok(()), Some(why)) => Err(why.within(format!("\"{name}\" version {version}"))),
            (Err(error), Some(why)) => {
                Err(error.followed_by(format!("it cannot be rebuilt: {why}")))
            }
        };
        if let Err(error) = self.search.all_or_none(ready) {
            end(begun);
            return Err(error);
        }
        begun
    }

    /// Finds a checkpoint of the rank `of`, or else of this one, and checks that it can be
    /// restored, if a `wanted` run has made it. Where processes have to agree on that, the file that will be read
    /// is checked, too.
    fn begin_one(
        &self,
        name: &str,
        version: i32,
        of: Option<u32>,
        copied: Option<&Selection>,
        wanted: Identity,
    ) -> Result<BegunRestore> {
        let Recovering { engine, protection, .. } = self.recovering;
        let part_of = |id| protection.regions.of(name).part(id);
        let (other, agrees) = (self.search.other(of), self.search.has_others());
        let mut unproven = None;
        if matches!(copied, Some(Selection::All)) && !agrees && other.is_none() {
            unproven = engine.restores().begin_restore_unproven(name, version, part_of);
        }
        let restoring = match (unproven, other) {
            (Some(restoring), _) => restoring,
            (None, Some(rank)) => {
                engine.restores().begin_restore_of((rank, wanted), name, version, part_of)?
            }
            (None, None) => {
                let own = engine.restores().begin_restore_of_run(wanted, name, version, part_of);
                // Who names a rank may restore what a job of any number of processes has left.
                match (own, of) {
                    (Err(error), Some(rank)) if error.kind() == ErrorKind::OtherJob => engine
                        .restores()
                        .begin_restore_of((rank, wanted), name, version, part_of)?,
                    (own, _) => own?,
                }
            }
        };
        let looked = if agrees { engine.restores().look_ahead(&restoring) } else { Ok(()) };
        if let Err(error) = looked {
            engine.restores().end_restore(restoring, false);
            return Err(error);
        }
        let prepare =
            |copied: &Selection| self.recovering.prepare(&restoring, copied, |_, _| false);
        let mut prepared = copied.map(prepare).transpose();
        if let (true, Ok(Some(prepared))) = (agrees, &mut prepared) {
            // The processes exchange what they have found.
            prepared.leave();
        }
        Ok(BegunRestore { restoring, prepared })
    }

    /// Finds the copy of a run that all processes have one of. Collective.
    fn begin_of_common_run(
        &self,
        name: &str,
        version: i32,
        of: Option<u32>,
        copied: Option<&Selection>,
    ) -> Result<BegunRestore> {
        match self.search.common_run(name, version, self.search.other(of))? {
            Some(run) => self.begin_one(name, version, of, copied, run),
            None => Err(of_several_runs(name, version)),
        }
    }
}
