//! `incremental`: checkpoints that have what was written since the last one, and every reader of them.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use capi_tests::job::{files, Job};
use format::delta::{self, Table};
use os::written::Written;

const KEYS: &str = "mode = async\nscratch = DIR/scratch\npersistent = DIR/persistent\n";

/// Whether this system tells what was written.
static TELLS: LazyLock<bool> = LazyLock::new(|| Written::open().is_ok());

fn incremental(more: &str) -> String {
    format!("{KEYS}incremental = true\n{more}")
}

fn table(path: &Path) -> Table {
    let file = os::files::open(path).unwrap();
    let len = os::files::len(&file, path).unwrap();
    delta::table_of(&file, 0..len, path).unwrap().unwrap()
}

/// Memory changes in every way that a process can change it. Catches bytes that were written and are not in a
/// checkpoint, of its name or another, and bytes of the wrong version, in this process or another one, from scratch and
/// from persistent.
#[test]
fn each_version_is_what_memory_was() {
    for more in ["", "incremental_chain = 1\n", "host_capture = fork\n", "compress = lz4\n"] {
        let job = Job::new(&incremental(more));
        let ended = job.run("incremental", "to=40 check=1").succeed();
        assert_eq!(ended.figure("found"), 40, "{more}");
        assert_eq!(job.run("incremental", "from=40 to=40 check=1").succeed().figure("found"), 40);
        // Without the key, as well; and with the files of persistent alone.
        job.configure(KEYS);
        fs::remove_dir_all(job.scratch()).unwrap();
        let ended = job.run("incremental", "from=17 to=40 check=1").end();
        assert!(ended.stdout.contains("found"), "{}", ended.stderr);
    }
}
