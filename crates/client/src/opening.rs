//! Opens a checkpoint for recovery on all processes, or on none.

use super::distributed::Pieces;
use super::recovering::{Prepared, Recovering};
use super::Selection;
use collective::one_run::{of_several_runs, Nearest};
use collective::{Distribution, Search};
use engine::restore::Restoring;
use errors::{Error, ErrorKind, Result};
use format::identity::Identity;

/// A checkpoint that is about to be open for recovery.
pub(super) struct BegunRestore {
    pub restoring: Restoring,
    /// Where a restart copies to, or why it cannot; `None` if the checkpoint is only opened.
    pub prepared: Result<Option<Prepared>>,
    /// The files of several ranks that it is read from.
    pub pieces: Option<Pieces>,
    /// It has other parts of arrays than this process has now.
    differs: bool,
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
        let parts = self.recovering.protection.regions.of(name).subarrays().next();
        let has_parts = parts.is_some() && of.is_none() && proper.is_ok();
        let mut begun =
            proper.clone().and_then(|()| self.begin_one(name, version, of, copied, any));
        let is_foreign = match &begun {
            Ok(begun) => begun.differs,
            Err(error) => error.kind() == ErrorKind::OtherJob,
        };
        // Each process rebuilds its own file only.
        let own = proper.is_ok() && other.is_none() && !(has_parts && is_foreign);
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
        let elsewhere = match &begun {
            Ok(begun) => begun.differs,
            Err(error) => matches!(error.kind(), ErrorKind::OtherJob | ErrorKind::NotFound),
        };
        match self.search.compare(name, nearest, has_parts && elsewhere) {
            Ok(Nearest::OfOneRun) => {}
            Ok(Nearest::Elsewhere) => {
                let failed = begun.as_ref().err().cloned().map(|error| match &why {
                    Some(why) => error.followed_by(format!("it cannot be rebuilt: {why}")),
                    None => error,
                });
                let copies = match &begun {
                    Ok(_) => self.recovering.engine.checkpoints().identities(name, version),
                    Err(_) => Vec::new(),
                };
                end(begun);
                let proper = proper.and_then(|()| match of {
                    None => Ok(()),
                    Some(rank) => Err(Error::invalid(format!(
                        "rank {rank} is named, and other processes put their arrays together from all ranks"
                    ))),
                });
                return self.open_distributed((name, version), copied, proper, &copies, failed);
            }
            Ok(Nearest::OfSeveralRuns) => {
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
        let differs = match self.recovering.has_other_parts(&restoring) {
            Ok(differs) => differs,
            Err(error) => {
                engine.restores().end_restore(restoring, false);
                return Err(error);
            }
        };
        let prepare =
            |copied: &Selection| self.recovering.prepare(&restoring, None, copied, |_, _| false);
        let mut prepared = copied.filter(|_| !differs).map(prepare).transpose();
        if let (true, Ok(Some(prepared))) = (agrees, &mut prepared) {
            // The processes exchange what they have found.
            prepared.leave();
        }
        Ok(BegunRestore { restoring, prepared, pieces: None, differs })
    }

    /// Opens a checkpoint whose arrays other ranks have cut otherwise. `copies`: the runs that this process has it of;
    /// `failed`: why it has none. Collective.
    fn open_distributed(
        &self,
        (name, version): (&str, i32),
        copied: Option<&Selection>,
        proper: Result<()>,
        copies: &[Identity],
        failed: Option<Error>,
    ) -> Result<BegunRestore> {
        let within = |error: Error| error.within(format!("\"{name}\" version {version}"));
        let distribution = self.search.distribution(name, version, copies);
        let distribution = distribution.map_err(|error| match (failed, error.kind()) {
            (Some(failed), ErrorKind::NotFound) => {
                failed.followed_by(format!("the files of all ranks are of no use either: {error}"))
            }
            _ => within(error),
        });
        let begun = proper
            .and(distribution)
            .and_then(|distribution| self.begin_distributed(name, version, copied, distribution));
        let ready = match &begun {
            Ok(BegunRestore { prepared: Ok(_), .. }) => Ok(()),
            Ok(BegunRestore { prepared: Err(error), .. }) | Err(error) => Err(error.clone()),
        };
        if let Err(error) = self.search.all_or_none(ready) {
            if let Ok(begun) = begun {
                self.recovering.engine.restores().end_restore(begun.restoring, false);
            }
            return Err(error);
        }
        begun
    }

    /// Opens the files that this process needs, and finds where its parts go.
    fn begin_distributed(
        &self,
        name: &str,
        version: i32,
        copied: Option<&Selection>,
        distribution: Distribution,
    ) -> Result<BegunRestore> {
        let Recovering { engine, protection, .. } = self.recovering;
        let (identity, regions) = (distribution.identity, protection.regions.of(name));
        let pieces = Pieces::open(engine, distribution, (name, version), regions.subarrays())?;
        let (rank, opened) = pieces.alike()?;
        let files = engine.files().in_persistent(rank).of_run(identity);
        let part_of = |id| regions.part(id);
        let header = Some(opened.header());
        let restoring =
            engine.restores().begin_restore_stored(files, name, version, header, part_of);
        let prepare = |copied: &Selection| {
            self.recovering.prepare(&restoring, Some(&pieces), copied, |_, _| false)
        };
        let mut prepared = copied.map(prepare).transpose();
        if let Ok(Some(prepared)) = &mut prepared {
            prepared.leave();
        }
        Ok(BegunRestore { restoring, prepared, pieces: Some(pieces), differs: true })
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
