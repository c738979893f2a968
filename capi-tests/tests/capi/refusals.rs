//! Calls that must be refused: with -1, a text that names the reason, and without a loss.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};

use capi_tests::checkpoint_file::{content, parse};
use capi_tests::job::{files, Job};
use capi_tests::program::{program, staged, Flavour};
use capi_tests::run::Run;
use xtask::files::copy_program;

/// Wrong configurations, names, versions, sizes, pointers, and calls out of order, before Init and
/// after Finalize: the table is in `programs/refusals.c`. Each of these ends or hangs upstream's
/// process, or is accepted silently.
#[test]
fn wrong_arguments_and_calls_out_of_order() {
    for configuration in [
        "mode = async\nscratch = DIR/scratch\n",
        "mode = sync\nscratch = DIR/scratch\n",
        "mode = async\nephemeral = true\nscratch = DIR/scratch\n",
    ] {
        Job::new(configuration).run("refusals", "DIR").succeed();
    }
}

/// Wrong pointers with a driver in the process, which is asked about pointers.
#[test]
fn wrong_pointers() {
    let job = Job::new("mode = async\nscratch = DIR/scratch\n");
    job.run("refusals", "DIR").env("LD_PRELOAD", "libcuda.so.1").with_device().succeed();
}

/// A temporary file system, unmounted when it is dropped.
struct Mounted(PathBuf);

impl Mounted {
    /// Mounts a file system of so many bytes; none if this user may not mount.
    fn new(at: &Path, bytes: usize) -> Option<Mounted> {
        fs::create_dir_all(at).unwrap();
        let text = |text: &str| std::ffi::CString::new(text).unwrap();
        let (kind, path) = (text("tmpfs"), text(at.to_str().unwrap()));
        let options = text(&format!("size={bytes}"));
        // SAFETY: strings that end with NUL.
        let status = unsafe {
            libc::mount(kind.as_ptr(), path.as_ptr(), kind.as_ptr(), 0, options.as_ptr().cast())
        };
        (status == 0).then(|| Mounted(at.to_owned()))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let path = std::ffi::CString::new(self.0.to_str().unwrap()).unwrap();
        // SAFETY: a string that ends with NUL.
        unsafe { libc::umount2(path.as_ptr(), libc::MNT_DETACH) };
    }
}

/// Asserts that scratch has every checkpoint after there was room again, and no temporary file.
fn nothing_was_lost(job: &Job) {
    let scratch = files(&job.scratch());
    for (version, bytes) in [(1, 100_000), (2, 3_000_000), (3, 100_000)] {
        let file = &scratch[&format!("full-0-{version}.dat")];
        assert_eq!(parse(file).unwrap(), [(1, content(1, version, bytes))]);
    }
    assert_eq!(scratch.len(), 3, "{:?}", scratch.keys());
}

const SYNC: &str = "mode = sync\nscratch = DIR/scratch\n";
const ASYNC: &str = "mode = async\nscratch = DIR/scratch\nhost_cache_size = 16M\n";
/// A buffer that is too small for the large checkpoint, which streams to its file.
const STREAMED: &str = "mode = async\nscratch = DIR/scratch\nhost_cache_size = 1M\n";

/// Scratch is full: the checkpoint stays in memory, is reported, and is written when there is room.
#[test]
fn full_scratch() {
    for (configuration, case) in [(ASYNC, "async"), (SYNC, "sync"), (STREAMED, "sync")] {
        let job = Job::new(configuration);
        let Some(_mounted) = Mounted::new(&job.scratch(), 4 << 20) else {
            println!("skipped: full_scratch needs the right to mount a tmpfs");
            return;
        };
        let filler = job.scratch().join("filler");
        fs::write(&filler, vec![0; 2 << 20]).unwrap();
        let filler = format!("{case} filler={}", filler.display());
        job.run("full_scratch", &filler).succeed();
        nothing_was_lost(&job);
    }
}

/// Persistent is full: the scratch file stays, is reported, and is copied when there is room.
#[test]
fn full_persistent() {
    let job = Job::new(&format!("{ASYNC}persistent = DIR/persistent\n"));
    let Some(_mounted) = Mounted::new(&job.persistent(), 4 << 20) else {
        println!("skipped: full_persistent needs the right to mount a tmpfs");
        return;
    };
    fs::write(job.persistent().join("filler"), vec![0; 2 << 20]).unwrap();
    job.run("full_scratch", "async filler=DIR/persistent/filler").succeed();
    nothing_was_lost(&job);
    assert!(files(&job.persistent()) == files(&job.scratch()), "the copies differ");
}

/// A full scratch by a limit on the size of files, which every user can set.
#[test]
fn limited_file_size() {
    let checked = format!("{SYNC}meta = DIR/meta\nchksum = true\n");
    for (configuration, case) in
        [(ASYNC, "async"), (SYNC, "sync"), (STREAMED, "sync"), (&checked, "sync")]
    {
        let job = Job::new(configuration);
        job.run("full_scratch", case).succeed();
        nothing_was_lost(&job);
    }
}

/// Scratch belongs to another user.
#[test]
fn unwritable_scratch() {
    let job = Job::new(ASYNC);
    fs::create_dir(job.scratch()).unwrap();
    fs::set_permissions(job.path(""), fs::Permissions::from_mode(0o755)).unwrap();
    // SAFETY: asks for a number.
    let root = unsafe { libc::geteuid() } == 0;
    if root {
        std::os::unix::fs::chown(job.scratch(), Some(NOBODY), None).unwrap();
    }
    // Root may write everywhere; the user nobody may not, and reaches only this directory.
    let executable = job.path("full");
    copy_program(&program("full_scratch", Flavour::Plain), &executable).unwrap();
    fs::copy(staged().shared_library(), job.path("libveloc-client.so")).unwrap();
    for case in ["unwritable", "refused"] {
        let run = Run::new(&executable)
            .arg(job.path("veloc.cfg"))
            .arg(case)
            .arg("filler=none")
            .arg(format!("scratch={}", job.scratch().display()))
            .env("LD_LIBRARY_PATH", job.path(""))
            .with(|command| {
                if root {
                    command.uid(NOBODY);
                }
            });
        run.succeed();
    }
}

/// The user who owns nothing.
const NOBODY: u32 = 65534;
