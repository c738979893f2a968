//! Checkpoints that a veloc-backend keeps in memory for the next job (`hand_over`), for `veloc ls`.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Result;
use config::Directories;
use recovery::handover::{self, Kept};

/// The checkpoints that are kept on this host: of all jobs or of those with one of these
/// directories, of all names or of this one.
pub(crate) fn kept(directories: Option<&Directories>, name: Option<&str>) -> Result<Vec<Kept>> {
    let mut kept = handover::kept()?;
    if let Some(asked) = directories {
        let is = |one: &Option<PathBuf>, other: &Option<PathBuf>| {
            let one = one.as_deref().and_then(|path| std::path::absolute(path).ok());
            one.is_some() && one == *other
        };
        kept.retain(|kept| {
            is(&asked.scratch, &kept.scratch) || is(&asked.persistent, &kept.persistent)
        });
    }
    if let Some(name) = name {
        kept.retain(|kept| kept.checkpoints.iter().any(|(of, ..)| of == name));
    }
    Ok(kept)
}

/// The kept checkpoints as lines: for each process what it is, and for how long it has been and
/// will be kept.
pub(crate) fn table(kept: &[Kept]) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    if kept.is_empty() {
        return "veloc-backend keeps nothing in memory on this host for a later job (hand_over); veloc top shows jobs that run\n".to_owned();
    }
    let mut text = "in memory on this host (hand_over):\n".to_owned();
    for kept in kept {
        let (age, left) = (now.saturating_sub(kept.since), kept.until.saturating_sub(now));
        text += &format!("  {}, for {age} s, and for {left} s more\n", kept.shown());
    }
    text
}
