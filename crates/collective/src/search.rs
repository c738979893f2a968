//! Which version a restart could begin with (`VELOC_Restart_test`): under MPI, the newest that all
//! processes can restore.

use super::distribution::has_subarrays;
use super::outcome::all_or_none;
use super::pass::agree;
use super::protect::Rebuilding;
use config::NewestBy;
use engine::Engine;
use errors::{Error, ErrorKind, Result};
use files::Files;
use format::names;
use mpi::Comm;

/// What the processes of a job can restore.
#[derive(Clone, Copy, Debug)]
pub struct Search<'a> {
    /// `None`: there are no others.
    pub(super) comm: Option<&'a Comm>,
    pub(super) engine: &'a Engine,
}

impl<'a> Search<'a> {
    pub(super) fn new(comm: Option<&'a Comm>, engine: &'a Engine) -> Search<'a> {
        Search { comm, engine }
    }

    pub(super) fn rebuilding(self) -> Option<Rebuilding<'a>> {
        Rebuilding::of(self.comm, self.engine)
    }

    /// Whether the job has other processes.
    pub fn has_others(&self) -> bool {
        self.comm.is_some_and(|comm| comm.size().is_ok_and(|size| size > 1))
    }

    /// `rank`, if it is another one than this process's.
    pub fn other(&self, rank: Option<u32>) -> Option<u32> {
        rank.filter(|&rank| rank != self.engine.files().places().rank())
    }

    /// This process's result, if all processes have succeeded. Collective.
    ///
    /// # Errors
    /// MPI's; or why this process, or another one, has failed.
    pub fn all_or_none<T>(&self, own: Result<T>) -> Result<T> {
        match self.comm {
            Some(comm) => all_or_none(comm, own)?,
            None => own,
        }
    }

    /// Rebuilds the files of a version before it is restored, if a process lacks its file or the
    /// parities are not alike. `restorable`: this process has a good file. Returns `None` if there
    /// is nothing to rebuild, or if a process does not want its `own` checkpoint. Collective.
    ///
    /// # Errors
    /// MPI's. The inner error, on all processes, is why the files cannot be rebuilt.
    pub fn make_good(
        &self,
        name: &str,
        version: i32,
        own: bool,
        restorable: bool,
    ) -> Result<Option<Result<()>>> {
        let Some(rebuilding) = self.rebuilding() else { return Ok(None) };
        // Parities of a version that this job itself has taken may still be on their way.
        let taken = self.engine.checkpoints().has_taken(name, version);
        let told = [own, restorable, taken].map(i64::from);
        let [own, good, taken] = rebuilding.comm.allreduce_min(told)?.map(|least| least == 1);
        if !own || good && (taken || rebuilding.parities_are_alike(name, version)?) {
            return Ok(None);
        }
        Ok(Some(rebuilding.rebuild(name, version, restorable)?.map_or(Ok(()), Err)))
    }

    /// The newest version that is not above `version` (0: the newest of all); with several
    /// processes, the newest that all have. Collective under MPI, unless `of` names one rank.
    pub fn restart_test(&self, name: &str, version: i32, of: Option<u32>) -> Result<Option<i32>> {
        let bound = if version == 0 { i32::MAX } else { version };
        let checked = names::validate(name, version);
        if let (Some(rank), Ok(())) = (self.other(of), &checked) {
            return newest_file(&self.engine.files().of_rank(rank), name, bound, None);
        }
        let found = match self.engine.config().newest_by {
            NewestBy::Number => self.newest_of_all(name, bound, checked, of.is_some()),
            NewestBy::Time => self.newest_by_time(name, bound, checked, of.is_some()),
        };
        if let Ok(Some(version)) = found {
            self.engine.file_side().warn_of_backlog(name);
            self.look_at_times(name, bound, version);
        }
        found
    }

    /// As [`newest_of_all`](Self::newest_of_all), of the versions up to the one that was taken last: a run that began
    /// anew has replaced those of older runs up to there. Of several processes, some may have taken one more.
    fn newest_by_time(
        &self,
        name: &str,
        bound: i32,
        checked: Result<()>,
        alone: bool,
    ) -> Result<Option<i32>> {
        let last = self.engine.checkpoints().taken_last(name, bound).unwrap_or(bound);
        let last = match self.comm.filter(|_| !alone) {
            Some(comm) => comm.allreduce_min_i64(i64::from(last))? as i32,
            None => last,
        };
        let found = self.newest_of_all(name, last, checked.clone(), alone);
        if matches!(found, Ok(Some(_))) {
            return found;
        }
        // None of them can be restored: an older run's may be.
        match alone || self.comm.map_or(Ok(found.is_ok()), |comm| agree(comm, found.is_ok()))? {
            true => self.newest_of_all(name, bound, checked, alone),
            false => found,
        }
    }

    /// Says that a version with a lower number than the one found was taken later.
    fn look_at_times(&self, name: &str, bound: i32, found: i32) {
        if !os::logging::speaks_for_all() {
            return;
        }
        if let Some(last) =
            self.engine.checkpoints().taken_last(name, bound).filter(|last| *last < found)
        {
            self.engine.files().warnings().once(format!(
                "version {found} of \"{name}\" has the highest number, and version {last} was taken after it, by a run that \
                 began anew or went back, or takes numbers again: with newest_by = time a restart begins with version {last}"
            ));
        }
    }

    /// Says what `restart_test` has not found, and where it looked.
    pub fn nothing_found(&self, name: &str, version: i32, of: Option<u32>) -> String {
        let wanted = match version {
            0 => "any version".to_owned(),
            version => format!("version {version} or an older one"),
        };
        let other = self.other(of);
        let files = self.engine.files();
        let place = match other {
            Some(rank) => format!("of rank {rank}"),
            None if of.is_none() && self.has_others() => {
                format!(
                    "that all processes have; rank {} has looked in memory",
                    files.places().rank()
                )
            }
            None => format!("of rank {} in memory", files.places().rank()),
        };
        let looked_in = files.places().looked_in();
        format!("there is no checkpoint \"{name}\", {wanted}, {place}{looked_in}")
    }

    /// The newest version that all processes have; with `alone`, that this process has.
    fn newest_of_all(
        &self,
        name: &str,
        bound: i32,
        checked: Result<()>,
        alone: bool,
    ) -> Result<Option<i32>> {
        if alone {
            // Who names a rank may restore what a job of any number of processes has left.
            let of_any_job = self.engine.files().of_rank(self.engine.files().places().rank());
            return checked.and_then(|()| self.newest_in(&of_any_job, name, bound));
        }
        self.all_or_none(checked)?;
        let own = match self.rebuilding() {
            Some(rebuilding) => self.newest_after_rebuilding(rebuilding, name, bound),
            None => self.newest_of_own(name, bound),
        };
        // A process that has failed takes part all the same.
        let known = own.as_ref().ok().copied().flatten();
        let other = self.newest_distributed(name, known, bound)?;
        own.map(|own| own.max(other))
    }

    /// The newest version that all processes have by themselves.
    fn newest_of_own(&self, name: &str, bound: i32) -> Result<Option<i32>> {
        let mut bound = i64::from(bound);
        loop {
            let found = self.newest_common(Some(name), bound, |bound| {
                let bound = i32::try_from(bound).unwrap_or(i32::MAX);
                Ok(self.newest(name, bound)?.map(i64::from))
            })?;
            let found = found.and_then(|version| i32::try_from(version).ok());
            match found {
                Some(version) if !self.have_one_run(name, version)? => {
                    bound = i64::from(version) - 1;
                }
                found => return Ok(found),
            }
        }
    }

    /// The newest number, not above `bound`, that all processes have: `newest` gives this one's newest that is not above
    /// a bound. A process that fails has none; the others do not hear why. That there is none in common is said, of
    /// versions of a `name`. Collective.
    fn newest_common(
        &self,
        name: Option<&str>,
        mut bound: i64,
        mut newest: impl FnMut(i64) -> Result<Option<i64>>,
    ) -> Result<Option<i64>> {
        let mut newest_of_any = -1;
        loop {
            let found = newest(bound);
            let Some(comm) = self.comm else {
                return found;
            };
            // A process that cannot look takes part all the same: the others wait for it.
            let mine = found.as_ref().ok().copied().flatten().unwrap_or(-1);
            // The newest common one is not above any process's newest; if that is everybody's newest, it is the answer.
            let [lowest, highest] = comm.allreduce_min([mine, -mine])?;
            found?;
            newest_of_any = newest_of_any.max(-highest);
            if lowest < 0 {
                let is_cut = |name: &str| {
                    let files = self.engine.files().in_persistent(0);
                    i32::try_from(newest_of_any)
                        .is_ok_and(|newest| has_subarrays(&files, name, newest))
                };
                if let Some(name) = name.filter(|name| newest_of_any >= 0 && !is_cut(name)) {
                    self.tell_none_in_common(name, newest_of_any);
                }
                return Ok(None);
            }
            if -highest == lowest {
                return Ok(Some(lowest));
            }
            bound = lowest;
        }
    }

    fn tell_none_in_common(&self, name: &str, newest_of_any: i64) {
        if os::logging::speaks_for_all() {
            self.engine.files().warnings().once(format!(
                "no version of \"{name}\" is on all ranks; the newest on any of them is {newest_of_any}: all ranks \
                 have to take the same versions"
            ));
        }
    }

    /// The newest iteration in which arrays in persistent memory are consistent on all processes, as `newest` says for
    /// bounds, and the newest checkpoint of a name. `able`: whether this process can look for them; `neither`: whether it is
    /// right that there is neither. Collective under MPI.
    ///
    /// # Errors
    /// This process cannot look, its arrays cannot be searched, or it is not right; or another one's. Or as
    /// [`Search::restart_test`].
    pub fn newest_of_arrays(
        &self,
        name: &str,
        able: Result<()>,
        newest: impl FnMut(i64) -> Result<Option<i64>>,
        neither: impl FnOnce() -> Result<()>,
    ) -> Result<(Option<i64>, Option<i32>)> {
        self.all_or_none(able)?;
        let found = self.newest_common(None, i64::MAX, newest);
        let found = self.all_or_none(found)?;
        let checkpoint = self.restart_test(name, 0, None)?;
        if found.is_none() && checkpoint.is_none() {
            self.all_or_none(neither())?;
        }
        Ok((found, checkpoint))
    }

    /// The newest version that every process has, or could rebuild and therefore has now.
    fn newest_after_rebuilding(
        &self,
        rebuilding: Rebuilding<'_>,
        name: &str,
        bound: i32,
    ) -> Result<Option<i32>> {
        let comm = rebuilding.comm;
        let mut bound = comm.allreduce_min_i64(i64::from(bound))? as i32;
        loop {
            let found = self.newest(name, bound).unwrap_or_else(|error| {
                // Versions that this process cannot look for may still be rebuilt.
                log::warn!("{error}");
                None
            });
            // Processes may have changed places: their files are then in each other's directories.
            let anybody =
                self.engine.files().listing().versions_of_anybody(name).unwrap_or_default();
            let seen = found.max(anybody.range(..=bound).next_back().copied());
            // A version that one process has may be rebuilt on the others.
            let highest = -comm.allreduce_min_i64(-i64::from(seen.unwrap_or(-1)))? as i32;
            if highest < 0 {
                return Ok(None);
            }
            let there = found == Some(highest) || rebuilding.has(name, highest);
            let restorable = there && rebuilding.is_as_encoded(name, highest);
            let whole = agree(comm, restorable)? && rebuilding.parities_are_alike(name, highest)?;
            let why = if whole { None } else { rebuilding.rebuild(name, highest, restorable)? };
            match why {
                None if self.have_one_run(name, highest)? => return Ok(Some(highest)),
                None => {}
                // All processes have the same reason, or know that another one has a reason.
                // What has subarrays is looked at later.
                Some(why)
                    if restorable
                        || has_subarrays(&self.engine.files().in_persistent(0), name, highest) =>
                {
                    log::info!("passing over version {highest} of \"{name}\": {why}");
                }
                Some(why) => {
                    log::warn!("passing over version {highest} of \"{name}\": {why}");
                }
            }
            if highest == 0 {
                return Ok(None);
            }
            bound = highest - 1;
        }
    }

    fn newest(&self, name: &str, bound: i32) -> Result<Option<i32>> {
        self.newest_in(self.engine.files(), name, bound)
    }

    fn newest_in(&self, files: &Files, name: &str, bound: i32) -> Result<Option<i32>> {
        let known = self.newest_known(name, bound);
        if known == Some(bound) {
            // No file can have a newer version, and a folder of many files takes long to read.
            return Ok(known);
        }
        self.engine.succession().warn_of_nothing_inherited();
        self.engine.file_side().await_earlier_jobs();
        newest_file(files, name, bound, known)
    }

    /// The newest version that this job has taken or restored and can still restore, from memory or
    /// from a file.
    fn newest_known(&self, name: &str, mut bound: i32) -> Option<i32> {
        loop {
            let version = self.engine.checkpoints().newest(name, bound)?;
            match self.engine.restores().can_restore(name, version) {
                Ok(()) => return Some(version),
                Err(error) => pass_over(self.engine.files(), name, version, &error),
            }
            bound = version.checked_sub(1)?;
        }
    }
}

/// The newest version not above `bound` of which there is a good file, or `known` if none is newer.
fn newest_file(files: &Files, name: &str, bound: i32, known: Option<i32>) -> Result<Option<i32>> {
    let versions = match files.listing().versions(name) {
        Err(error) if known.is_some() => {
            files.warnings().once(format!("going on with the checkpoints in memory: {error}"));
            return Ok(known);
        }
        versions => versions?,
    };
    for &version in versions.range(..=bound).rev() {
        if known.is_some_and(|known| known >= version) {
            break;
        }
        match files.copies().look(name, version) {
            Ok(_) => return Ok(Some(version)),
            Err(error) => pass_over(files, name, version, &error),
        }
    }
    Ok(known)
}

fn pass_over(files: &Files, name: &str, version: i32, error: &Error) {
    // A version with subarrays may be restored all the same, and is looked at later.
    let whose = match error.kind() {
        ErrorKind::OtherJob => Some(files.in_persistent(files.places().rank())),
        // An aggregated file of fewer ranks.
        ErrorKind::NotFound => Some(files.in_persistent(0)),
        _ => None,
    };
    if whose.is_some_and(|files| has_subarrays(&files, name, version)) {
        return;
    }
    if error.kind() == ErrorKind::OtherJob {
        // The error is the same for all versions: it is printed once.
        files.warnings().once(error.to_string());
        return;
    }
    files.warnings().once(format!("passing over version {version} of \"{name}\": {error}"));
}
