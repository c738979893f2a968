//! Parts of aggregated files that will never be complete.
//!
//! A job whose processes are killed, or cannot agree any more, leaves files to which some have copied
//! their parts and others have not. A part is as good as a file of its own: the next job makes it one,
//! or the same one in the end.

use std::time::SystemTime;

use super::aggregate::{self as parts, ROLL};
use super::{Files, Place};
use crate::error::Result;
use crate::format::{aggregate, names};
use crate::platform::files;
use crate::policy::slice::SLICE;

impl Files {
    /// Copies each part of this process that is in an incomplete aggregated file to a file of its
    /// own, unless persistent has that checkpoint. Only before this process writes a part, or once no
    /// process does any more.
    ///
    /// # Errors
    /// Persistent cannot be read. What cannot be copied is a warning.
    pub fn rescue_parts(&self) -> Result<()> {
        let Some(persistent) = self.persistent.as_ref().filter(|_| !self.is_heir()) else {
            // What one process has left, others that have ended are about to complete.
            return Ok(());
        };
        let mut rolls = files::list(persistent, |file| {
            let temporary = names::parse_temporary(file)?;
            let (name, version) = aggregate::parse_name(temporary.complete.strip_suffix(ROLL)?)?;
            let changed = persistent.join(file).metadata().and_then(|found| found.modified());
            let changed = changed.unwrap_or(SystemTime::UNIX_EPOCH);
            Some((changed, name.to_owned(), version, temporary.pid, temporary.number))
        })?;
        // The last attempt is the one to keep.
        rolls.sort_by(|a, b| b.cmp(a));
        for (_, name, version, job, attempt) in rolls {
            if self.is_persistent(&name, version) {
                continue;
            }
            match self.rescue_part(&name, version, &attempt_of(job, attempt)) {
                Ok(None) => {}
                Ok(Some(bytes)) => log::warn!(
                    "the aggregated file of checkpoint \"{name}\" version {version} was not \
                     completed: the part of number {}, {bytes} bytes, is now a \
                     file of its own",
                    self.rank
                ),
                Err(error) => log::warn!(
                    "checkpoint \"{name}\" version {version} stays in an aggregated file that is \
                     not complete: {error}"
                ),
            }
        }
        Ok(())
    }

    /// The bytes of this process's part; `None` if it has none, or the file was completed meanwhile.
    fn rescue_part(&self, name: &str, version: i32, place: &Place) -> Result<Option<u64>> {
        let Some((data, _)) = self.aggregated_paths(name, version) else {
            return Ok(None);
        };
        let Some(target) = self.persistent_path(name, version) else {
            return Ok(None);
        };
        let own = parts::parts(&data, place)?.get(self.rank as usize).copied().flatten();
        let Some((offset, len)) = own else {
            return Ok(None);
        };
        let source = parts::common_temporary(&data, "", place);
        let from = files::open(&source)?;
        let temporary = self.temporary(&target);
        let copied = files::create(&temporary).and_then(|to| {
            let mut buffer = vec![0; len.min(SLICE) as usize];
            let mut done = 0;
            while done < len {
                let bytes = &mut buffer[..(len - done).min(SLICE) as usize];
                files::read_exact_at(&from, bytes, offset + done, &source)?;
                files::write_all_at(&to, bytes, done, &temporary)?;
                done += bytes.len() as u64;
            }
            files::sync(&to, &temporary)?;
            files::atomic_replace(&temporary, &target, self.persistent_durability())
        });
        if copied.is_err() {
            // The first failure is the one to report.
            let _ = files::remove(&temporary);
        }
        copied.map(|()| Some(len))
    }

    /// Whether all parts of an incomplete aggregated file are files of their own by now.
    pub(super) fn are_rescued(
        &self,
        name: &str,
        version: i32,
        job: u32,
        attempt: u64,
    ) -> Result<bool> {
        let Some((data, _)) = self.aggregated_paths(name, version) else {
            return Ok(false);
        };
        let parts = parts::parts(&data, &attempt_of(job, attempt))?;
        let ranks = (0..).zip(&parts).filter(|(_, part)| part.is_some());
        let is_file =
            |(rank, _)| data.with_file_name(names::checkpoint_file(name, rank, version)).exists();
        // One that nobody is in may just have been begun.
        Ok(parts.iter().any(Option::is_some) && ranks.into_iter().all(is_file))
    }
}

/// What tells an attempt from others.
fn attempt_of(job: u32, attempt: u64) -> Place {
    Place { offset: 0, ranks: 0, job, attempt }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    /// Catches a part that nobody finds any more, one that takes the place of what is there, and one
    /// that another process has.
    #[test]
    fn a_part_becomes_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let below = |name: &str| folder.path().join(name);
        let text = format!(
            "mode = async\naggregated = true\nscratch = {}\npersistent = {}\nmeta = {}\n",
            below("s").display(),
            below("p").display(),
            below("m").display()
        );
        let (config, _) = Config::from_text(&text, |_| None).unwrap();
        let of = |rank| Files::open(&config, rank).unwrap();
        let put = |rank, version, text: &str, attempt| {
            let files = of(rank);
            std::fs::write(files.scratch_path("x", version).unwrap(), text).unwrap();
            let place = Place { offset: u64::from(rank) * 5, ranks: 3, job: 7, attempt };
            assert_eq!(files.persist_part("x", version, &place).unwrap(), 5);
        };
        put(0, 1, "first", 1);
        put(2, 1, "third", 1);
        put(2, 2, "other", 2);
        std::fs::write(of(2).persistent_path("x", 2).unwrap(), "there").unwrap();
        for rank in 0..3 {
            of(rank).rescue_parts().unwrap();
        }
        let read = |rank, version| {
            std::fs::read_to_string(of(rank).persistent_path("x", version).unwrap()).ok()
        };
        assert_eq!(read(0, 1).as_deref(), Some("first"));
        assert_eq!(read(1, 1), None);
        assert_eq!(read(2, 1).as_deref(), Some("third"));
        assert_eq!(read(2, 2).as_deref(), Some("there"));

        // What somebody may still need stays: a part that is no file yet.
        put(1, 3, "third", 3);
        let left = || files::list(&below("p"), |name| name.starts_with('.').then_some(())).unwrap();
        assert_eq!(left().len(), 6);
        of(0).remove_incomplete(8).unwrap();
        assert_eq!(left().len(), 2);
    }
}
