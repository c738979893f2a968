//! File systems that become full or read-only under a job: real ones, where this user may mount some,
//! and always stand-ins that fail by injection (`preload/faults.c`).

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::job::Job;
use crate::program::faults;
use crate::run::Run;

/// The file system of one directory of a job.
#[derive(Debug)]
pub struct Ground {
    directory: PathBuf,
    room: usize,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// A tmpfs that the processes of the run alone see, in a namespace of their own.
    Mounted,
    /// This library in front of the calls, which fail by it once this file exists.
    Injected(PathBuf, PathBuf),
}

impl Ground {
    /// Stand-ins for the directory `below` of a job, with so many bytes of room.
    pub fn injected(job: &Job, below: &str, room: usize) -> Ground {
        let kind = Kind::Injected(faults(&job.path("")), job.path("read-only"));
        Ground::new(job, below, room, kind)
    }

    /// A real file system for the directory `below` of a job, with so many bytes of room; or none.
    pub fn mounted(job: &Job, below: &str, room: usize) -> Option<Ground> {
        can_mount().then(|| Ground::new(job, below, room, Kind::Mounted))
    }

    fn new(job: &Job, below: &str, room: usize, kind: Kind) -> Ground {
        let directory = job.path(below);
        std::fs::create_dir_all(&directory).unwrap();
        Ground { directory, room, kind }
    }

    /// Runs `run` on the file system.
    #[must_use]
    pub fn under(&self, run: Run) -> Run {
        match &self.kind {
            Kind::Mounted => {
                let mount = format!("{} && exec \"$@\"", mount(&self.directory, self.room));
                run.by("unshare", &["--map-root-user", "--mount", "sh", "-c", &mount, "sh"])
            }
            Kind::Injected(library, control) => run
                .env("LD_PRELOAD", library)
                .env("FAULTS_IN", &self.directory)
                .env("FAULTS_ROOM", self.room.to_string())
                .env("FAULTS_READ_ONLY", control),
        }
    }

    /// The command of a shell that makes the file system read-only.
    pub fn to_read_only(&self) -> String {
        match &self.kind {
            // A remount would be refused, as a job has a file there open for writing.
            Kind::Mounted => {
                let directory = self.directory.display();
                format!(
                    "mount --bind {directory} {directory} && mount -o remount,bind,ro {directory}"
                )
            }
            Kind::Injected(_, control) => format!("echo 0 > {}", control.display()),
        }
    }

    /// The command of a shell that makes the file system writable again.
    pub fn to_writable(&self) -> String {
        match &self.kind {
            Kind::Mounted => format!("umount --lazy {}", self.directory.display()),
            Kind::Injected(_, control) => format!("rm {}", control.display()),
        }
    }

    /// The command of a shell that takes so many bytes of the room.
    pub fn to_fill(&self, bytes: usize) -> String {
        format!("head -c {bytes} /dev/zero > {}/filler", self.directory.display())
    }

    /// The command of a shell that frees those bytes.
    pub fn to_empty(&self) -> String {
        format!("rm {}/filler", self.directory.display())
    }
}

fn mount(directory: &Path, room: usize) -> String {
    format!("mount -t tmpfs -o size={room} tmpfs {}", directory.display())
}

/// Whether this user may mount a file system in a namespace of its own. Containers often forbid it.
fn can_mount() -> bool {
    static CAN: OnceLock<bool> = OnceLock::new();
    *CAN.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let output = Command::new("unshare")
            .args(["--map-root-user", "--mount", "sh", "-c", &mount(folder.path(), 4096)])
            .output();
        let can = output.as_ref().is_ok_and(|output| output.status.success());
        if !can {
            println!("no file system can be mounted here, failures are injected alone: {output:?}");
        }
        can
    })
}
