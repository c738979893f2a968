//! The directories and their file systems.

use std::path::Path;

use config::Directories;
use os::files;
use os::mounts::{existing, mount_of};
use os::size;

use super::Finding;

const AREA: &str = "storage";

/// File systems that several nodes share: slow for scratch, right for persistent.
const NETWORK: [&str; 16] = [
    "nfs",
    "nfs4",
    "lustre",
    "gpfs",
    "beegfs",
    "ceph",
    "cephfs",
    "cifs",
    "smb3",
    "9p",
    "afs",
    "glusterfs",
    "fuse.sshfs",
    "fuse.glusterfs",
    "fuse.ceph-fuse",
    "wekafs",
];

/// File systems in memory.
const MEMORY: [&str; 2] = ["tmpfs", "ramfs"];

/// A directory with less room than this is as good as full.
const LITTLE: u64 = 64 << 20;

/// Looks at the directories that the configuration names.
pub(super) fn look(config: Option<&Path>) -> Vec<Finding> {
    // A configuration that cannot be read is a finding of the module `configuration`.
    let Some(Ok(directories)) = config.map(Directories::load) else { return Vec::new() };
    let Directories { scratch, persistent, meta, .. } = directories;
    let mut findings = Vec::new();
    let past = persistent.is_some();
    findings.extend(scratch.as_deref().map(|path| directory("scratch", path, past)));
    findings.extend(persistent.as_deref().map(|path| directory("persistent", path, false)));
    findings.extend(meta.as_deref().map(|path| directory("meta", path, false)));
    if let (Some(scratch), Some(persistent)) = (&scratch, &persistent) {
        findings.extend(together(scratch, persistent));
    }
    findings
}

/// The findings about one directory, the worst of them. `past`: checkpoints that it cannot take may
/// go elsewhere.
fn directory(key: &str, path: &Path, past: bool) -> Finding {
    let finding = |found: String| Finding::ok(AREA, key, format!("{}: {found}", path.display()));
    let there = path.exists();
    if there && !path.is_dir() {
        return finding("not a directory".to_owned()).problem(format!("set {key} to a directory"));
    }
    let looked = existing(path).and_then(|nearest| {
        files::check_writable(&nearest)?;
        Ok((files::free_space(&nearest)?, mount_of(&nearest)?))
    });
    let (free, mount) = match looked {
        Ok(looked) => looked,
        Err(error) => return unusable(key, finding(error.to_string()), past && there),
    };
    let made = if there { "" } else { ", will be made" };
    let found = finding(format!("{} free, {}{made}", size::show(free), mount.kind));
    if free < LITTLE {
        return found.problem("checkpoints will fail for want of room: make some");
    }
    match judge(key, &mount.kind) {
        Some(advice) => found.note(advice),
        None => found,
    }
}

/// The finding about a directory that cannot be written to. `past`: a job can do without the
/// directory.
fn unusable(key: &str, finding: Finding, past: bool) -> Finding {
    let advice = format!("give the user the right to write to {key}");
    match past {
        true => finding.note(format!(
            "what is there can be restored, and new checkpoints go to persistent alone, where they \
             may: {advice}"
        )),
        false => finding.problem(format!("VELOC_Init fails: {advice}")),
    }
}

/// Advice on a file system of this kind.
fn judge(key: &str, kind: &str) -> Option<&'static str> {
    let (network, memory) = (NETWORK.contains(&kind), MEMORY.contains(&kind));
    match key {
        "scratch" if network => Some(
            "nodes share it, so every checkpoint waits for the network; use a disk of the node or \
             memory",
        ),
        "scratch" if memory => {
            Some("it is fast, but takes memory, and is lost with the node: give persistent as well")
        }
        "persistent" | "meta" if memory => {
            Some("it is lost with the node; use a file system that several nodes share")
        }
        "persistent" | "meta" if kind == "overlay" => {
            Some("it is lost with the container; use a directory that is mounted into it")
        }
        _ => None,
    }
}

/// Whether both directories are lost together.
fn together(scratch: &Path, persistent: &Path) -> Option<Finding> {
    let at = |path: &Path| existing(path).ok();
    let finding = |found: &str| Finding::ok(AREA, "scratch, persistent", found);
    if std::path::absolute(scratch).ok() == std::path::absolute(persistent).ok()
        || (scratch.exists() && at(scratch) == at(persistent) && persistent.exists())
    {
        let found = finding("both are the same directory");
        return Some(found.problem("VELOC_Init fails: give them two directories"));
    }
    let (one, other) = (mount_of(scratch).ok()?, mount_of(persistent).ok()?);
    (one == other).then(|| {
        finding("both in one file system")
            .note("what loses the one loses the other; have persistent elsewhere")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Severity;

    #[test]
    fn what_file_systems_are_good_for() {
        for (key, kind, has_advice) in [
            ("scratch", "lustre", true),
            ("scratch", "tmpfs", true),
            ("scratch", "xfs", false),
            ("scratch", "overlay", false),
            ("persistent", "lustre", false),
            ("persistent", "tmpfs", true),
            ("persistent", "overlay", true),
            ("meta", "tmpfs", true),
            ("meta", "nfs4", false),
        ] {
            assert_eq!(judge(key, kind).is_some(), has_advice, "{key} on {kind}");
        }
    }

    #[test]
    fn directories_that_serve_and_that_do_not() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        assert_eq!(directory("scratch", &file, true).state, Severity::Problem);
        assert_eq!(directory("scratch", &file.join("below"), true).state, Severity::Problem);
        let later = directory("scratch", &folder.path().join("not/yet"), true);
        assert!(
            later.state != Severity::Problem && later.found.contains("will be made"),
            "{later:?}"
        );
        assert_eq!(directory("scratch", Path::new("/proc/x"), true).state, Severity::Problem);
        let found = || Finding::ok(AREA, "scratch", "read-only");
        assert_eq!(unusable("scratch", found(), true).state, Severity::Note);
        assert_eq!(unusable("scratch", found(), false).state, Severity::Problem);

        let same = together(folder.path(), &folder.path().join("./")).unwrap();
        assert_eq!(same.state, Severity::Problem);
        let beside = together(&folder.path().join("a"), &folder.path().join("b")).unwrap();
        assert_eq!(beside.state, Severity::Note);
        assert!(together(folder.path(), Path::new("/proc")).is_none());
    }
}
