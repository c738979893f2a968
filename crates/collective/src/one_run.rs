//! Processes restore a version that one run has made: what they have under one name and number may be of several,
//! where runs were killed before all processes had it.

use super::pass::{agree, gather};
use super::search::Search;
use errors::{Error, ErrorKind, Result};
use format::checksum::Checksum;
use format::identity::{common, Identity};

/// What all processes have of a version, the nearest copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nearest {
    /// Copies of one run.
    OfOneRun,
    /// Copies of several runs.
    OfSeveralRuns,
    /// A process, at least, has to put its parts of arrays together from the files of several ranks.
    Elsewhere,
}

/// Stands for an identity that is not known in a comparison: it is above all others.
const ANY: i64 = i64::MAX;

/// A number that two identities share by chance alone, and that can be negated.
fn number(identity: Identity) -> i64 {
    if !identity.is_known() {
        return ANY;
    }
    let digest = Checksum::of(&identity.encode());
    let first = digest.as_bytes().first_chunk().copied().unwrap_or_default();
    i64::from_le_bytes(first) >> 1
}

/// The values by which [`alike`] tells whether processes have copies of one run: the least of each are compared.
fn compared(identity: Option<Identity>) -> [i64; 2] {
    match identity.map(number) {
        None | Some(ANY) => [ANY, ANY],
        Some(number) => [number, -number],
    }
}

/// Whether the least of all processes' [`compared`] values are of one run.
fn alike([least, negated]: [i64; 2]) -> bool {
    least == ANY || least == -negated
}

impl Search<'_> {
    /// The run that all processes have a copy of which want this version, if there is one; others may want another
    /// one. Collective.
    pub fn common_run(
        &self,
        name: &str,
        version: i32,
        of: Option<u32>,
    ) -> Result<Option<Identity>> {
        let Some(comm) = self.comm else { return Ok(None) };
        let copies = match of {
            Some(rank) => self.engine.files().of_rank(rank).copies().identities(name, version),
            None => self.engine.checkpoints().identities(name, version),
        };
        let all: Vec<(String, i32, Vec<Identity>)> =
            gather(comm, &(name.to_owned(), version, copies))?;
        let same = all.into_iter().filter(|(other, of, _)| other == name && *of == version);
        Ok(common(&same.map(|(_, _, copies)| copies).collect::<Vec<_>>()))
    }

    /// What all processes have of a version, the nearest copies. `elsewhere`: this one has to put its parts of arrays
    /// together from the files of several ranks. Collective.
    pub fn compare(
        &self,
        name: &str,
        nearest: Option<Identity>,
        elsewhere: bool,
    ) -> Result<Nearest> {
        let Some(comm) = self.comm.filter(|_| self.has_others()) else {
            return Ok(if elsewhere { Nearest::Elsewhere } else { Nearest::OfOneRun });
        };
        let [least, negated] = compared(nearest);
        let known = i64::from(nearest != Some(Identity::UNKNOWN));
        let own = [least, negated, known, -i64::from(elsewhere)];
        let [least, negated, all_known, elsewhere] = comm.allreduce_min(own)?;
        if elsewhere < 0 {
            return Ok(Nearest::Elsewhere);
        }
        if all_known == 0 && os::logging::speaks_for_all() {
            self.engine.files().warnings().once(format!(
                "the checkpoints of \"{name}\" do not say which run made them, on one rank at least, so it is not \
                 compared whether the ranks' are of one"
            ));
        }
        Ok(if alike([least, negated]) { Nearest::OfOneRun } else { Nearest::OfSeveralRuns })
    }

    /// Whether all processes have copies of one run of a version that each of them has. Collective.
    pub(super) fn have_one_run(&self, name: &str, version: i32) -> Result<bool> {
        let nearest = self.engine.checkpoints().nearest_identity(name, version);
        if self.compare(name, nearest, false)? == Nearest::OfOneRun {
            return Ok(true);
        }
        let common = self.common_run(name, version, None)?;
        // Processes that were given other names or versions look at other copies.
        let all = self.comm.map_or(Ok(common.is_some()), |comm| agree(comm, common.is_some()))?;
        if !all {
            let why = of_several_runs(name, version);
            self.engine.files().warnings().once(format!("passing over {why}"));
        }
        Ok(all)
    }
}

/// Why a version is not restored.
pub fn of_several_runs(name: &str, version: i32) -> Error {
    Error::new(
        ErrorKind::NotFound,
        format!(
            "version {version} of \"{name}\" is of different runs on different processes, or of different \
             moments of this one: a run was killed, or a number taken again, before all of them had it"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches two runs that pass for one, and a process without a known run that passes for another.
    #[test]
    fn runs_are_compared_by_their_least() {
        let of = |run| Identity { run, generation: 1 };
        let least = |all: &[Identity]| {
            let all: Vec<_> = all.iter().map(|one| compared(Some(*one))).collect();
            [0, 1].map(|at| all.iter().map(|values| values[at]).min().unwrap())
        };
        assert!(alike(least(&[of(1), of(1)])) && alike(least(&[of(1), Identity::UNKNOWN])));
        assert!(alike(least(&[Identity::UNKNOWN; 2])));
        assert!(!alike(least(&[of(1), of(2), Identity::UNKNOWN])));
    }
}
