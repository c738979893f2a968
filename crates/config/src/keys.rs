//! The one table of configuration keys. The defaults, the documentation and the warnings about
//! keys that are unknown or without effect all come from here.

/// One configuration key.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Its name in the file. In the environment it is `VELOC_` and the name in upper case.
    pub name: &'static str,
    /// What a user wants to do with the key.
    pub task: Task,
    /// The values it takes, in words.
    pub values: &'static str,
    /// What this version of the library does with the key.
    pub role: Role,
    /// The meaning of the key, in one sentence.
    pub meaning: &'static str,
}

/// What this version of the library does with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The key must have a value.
    Required,
    /// Without a value the key has none; its meaning says what then happens.
    Optional,
    /// Without a value this text stands in, and is read like any other.
    Default(&'static str),
    /// Known from upstream, and without effect in this version: a warning.
    NoEffect {
        /// The key to use instead, if there is one.
        instead: Option<&'static str>,
    },
    /// Known from upstream, and an error with any value, because to ignore it would change results.
    Refused {
        /// What to use instead of the key.
        instead: &'static str,
    },
}

/// What a key is for: a section of the documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// Where checkpoints go.
    Places,
    /// Memory for checkpoints.
    Memory,
    /// Which versions are kept and copied.
    Versions,
    /// Damaged files, and crashes of machines.
    Damage,
    /// The loss of nodes.
    Nodes,
    /// Seeing what the library does.
    Insight,
    /// The backend.
    Backend,
    /// How memory is made ready.
    Preparation,
    /// Known from elsewhere, and not used.
    Unused,
}

impl Key {
    /// The environment variable that overrides this key.
    pub fn variable(&self) -> String {
        format!("VELOC_{}", self.name.to_ascii_uppercase())
    }
}

/// How a size is written that may grow.
const GROWING_SIZE: &str =
    "size: a number of GiB, or a number with K, M, G, T or B; or two, as 4G..40G";

/// How a size is written that the library may choose.
const SIZE_OR_AUTO: &str = "auto, or one size as above";

/// How paths are written.
pub(crate) const PATH: &str = "path";

/// Every key that this library knows, by task.
pub const KEYS: &[Key] = &[
    Key {
        name: "mode",
        task: Task::Places,
        values: "sync or async",
        role: Role::Required,
        meaning: "When a checkpoint call returns: as soon as the application may change its memory again \
                  (async), or when the last level has the bytes (sync).",
    },
    Key {
        name: "scratch",
        task: Task::Places,
        values: PATH,
        role: Role::Optional,
        meaning: "Directory on node-local storage for checkpoint files; required unless \
                  ephemeral = true.",
    },
    Key {
        name: "persistent",
        task: Task::Places,
        values: PATH,
        role: Role::Optional,
        meaning: "Directory on the parallel file system to which checkpoint files are copied; \
                  without it they stay in scratch.",
    },
    Key {
        name: "ephemeral",
        task: Task::Places,
        values: "true or false",
        role: Role::Default("false"),
        meaning: "The checkpoints are of no use after the run: no file is written unless the host cache \
                  overflows into scratch.",
    },
    Key {
        name: "hand_over",
        task: Task::Places,
        values: "1 to 64 letters, digits, dots, hyphens and underscores",
        role: Role::Optional,
        meaning: "The name under which veloc-backend keeps the host cache when the job has ended, for \
                  the next job that has the same name here, the same number of processes and the same \
                  directories: that one finds the checkpoints in memory. Needs mode = async, and no \
                  scratch with ephemeral = true.",
    },
    Key {
        name: "hand_over_time",
        task: Task::Places,
        values: "seconds, 1 to 86400",
        role: Role::Default("600"),
        meaning: "How long veloc-backend keeps it. Then the memory goes, and with ephemeral = true the \
                  checkpoints in it.",
    },
    Key {
        name: "gpu_cache_size",
        task: Task::Memory,
        values: GROWING_SIZE,
        role: Role::Optional,
        meaning: "Device memory set aside for checkpoints, 0 for none; without it the smaller of \
                  4 GiB and 1/16 of the device's memory. With two sizes, the cache begins with the first; while a \
                  checkpoint would wait for room, it grows up to the second, as long as the larger of 2 GiB and 1/16 \
                  of the device's memory stays free. When no checkpoint has been taken or restored for 2 to 4 s, it \
                  gives back what lies beyond the first, up to a copy that is nowhere else.",
    },
    Key {
        name: "stream_ordered",
        task: Task::Memory,
        values: "true or false",
        role: Role::Default("false"),
        meaning: "Checkpoints and restarts of device memory do not wait: their copies stand between what the stream of \
                  VELOC_Set_stream has and what it gets later, and the call returns. \
                  See the guide, Checkpoints in the order of the stream.",
    },
    Key {
        name: "host_cache_size",
        task: Task::Memory,
        values: SIZE_OR_AUTO,
        role: Role::Default("auto"),
        meaning: "The most host memory for checkpoints, 0 for none. Its pages are made in the background: as they \
                  are needed, or, with a device, all of them. auto: 1/8 of the memory that is available, at most \
                  1 GiB (8 GiB with ephemeral = true); an ephemeral job without a device gets what it needs, up to \
                  3/4 of the memory that is available meanwhile.",
    },
    Key {
        name: "drive",
        task: Task::Memory,
        values: PATH,
        role: Role::Optional,
        meaning: "A level below the host cache for checkpoints of a job with ephemeral = true, without a file system in \
                  between: a directory, in which each process allocates a file without a name when it starts, or a \
                  block device, for one process alone, with nothing else on it. Whatever ends the process, nothing of the \
                  file stays. Needs \
                  drive_size; not with hand_over or host_cache_size = 0.",
    },
    Key {
        name: "drive_size",
        task: Task::Memory,
        values: "size as above, more than 0",
        role: Role::Optional,
        meaning: "The bytes of drive that each process has.",
    },
    Key {
        name: "compressed_cache_size",
        task: Task::Memory,
        values: "size as above, more than 0",
        role: Role::Optional,
        meaning: "Host memory below the host cache, for checkpoints of a job with ephemeral = true, in which they are \
                  compressed without loss: zeros, and floats whose neighbours are close, take less. Its pages are made as \
                  they are used. Not with drive, hand_over or host_cache_size = 0.",
    },
    Key {
        name: "restore_order",
        task: Task::Memory,
        values: "reverse, same or random",
        role: Role::Default("reverse"),
        meaning: "The order in which versions are expected back, compared with that in which they were \
                  taken, when the application gives no hints.",
    },
    Key {
        name: "max_versions",
        task: Task::Versions,
        values: "whole number; 0: all",
        role: Role::Default("0"),
        meaning: "How many versions of each name to keep in persistent: those taken last.",
    },
    Key {
        name: "scratch_versions",
        task: Task::Versions,
        values: "whole number; 0: all",
        role: Role::Default("0"),
        meaning: "How many versions of each name to keep in scratch: those taken last.",
    },
    Key {
        name: "persistent_interval",
        task: Task::Versions,
        values: "whole number of seconds; 0: every checkpoint, -1: none",
        role: Role::Default("0"),
        meaning: "The least time between two checkpoints that are copied to persistent.",
    },
    Key {
        name: "aggregated",
        task: Task::Versions,
        values: "true or false",
        role: Role::Default("false"),
        meaning: "All processes of an MPI job share one persistent file for each version.",
    },
    Key {
        name: "compress",
        task: Task::Versions,
        values: "none, lz4, or zstd with a level as in zstd:3",
        role: Role::Default("none"),
        meaning: "Whether the workers compress the files that they write. Only this library reads such files. Checkpoints \
                  larger than memory, and an application's own files, are not compressed; not with mode = sync or \
                  aggregated = true.",
    },
    Key {
        name: "incremental",
        task: Task::Versions,
        values: "true or false",
        role: Role::Default("false"),
        meaning: "A checkpoint has only what was written since the last one of its name, which stays as long as it is \
                  needed. Only this library reads such files. Not with ephemeral = true, hand_over, aggregated = true, or a \
                  persistent_interval or ec_interval that leaves some out.",
    },
    Key {
        name: "incremental_chain",
        task: Task::Versions,
        values: "whole number from 1 to 64",
        role: Role::Default("8"),
        meaning: "How many checkpoints in a row have changes alone; the next one has everything.",
    },
    Key {
        name: "newest_by",
        task: Task::Versions,
        values: "number or time",
        role: Role::Default("number"),
        meaning: "Which version VELOC_Restart_test finds: the one with the highest number, as in VELOC, or the one that was \
                  taken last, where a run that began anew or went back has lower numbers than an older one.",
    },
    Key {
        name: "proof",
        task: Task::Damage,
        values: "check, accept or off",
        role: Role::Default("check"),
        meaning: "Whether each checkpoint file carries a proof in an extended attribute: a digest of its \
                  bytes, its name, version, rank, the number of ranks and the run. With check a file that does not \
                  fit its proof is not restored; with accept it is, with a warning; with off no file gets \
                  one.",
    },
    Key {
        name: "chksum",
        task: Task::Damage,
        values: "true or false",
        role: Role::Default("false"),
        meaning: "Keep the SHA-256 of each checkpoint file in meta, and use no file that has \
                  another one, or neither one nor a proof. A file of the application's own \
                  without one is used, with a warning.",
    },
    Key {
        name: "meta",
        task: Task::Damage,
        values: PATH,
        role: Role::Optional,
        meaning: "Directory for checksums and for the index of aggregated files; required with \
                  chksum = true or aggregated = true.",
    },
    Key {
        name: "sync_files",
        task: Task::Damage,
        values: "none, data or full",
        role: Role::Default("data"),
        meaning: "Which files have to be on the storage before they count as written, so that they survive a \
                  crash of the machine: none, those in persistent (data), or those in scratch as well (full).",
    },
    Key {
        name: "ec_interval",
        task: Task::Nodes,
        values: "seconds, 0 or -1",
        role: Role::Default("-1"),
        meaning:
            "Least time between two checkpoints that the processes of an MPI job protect from \
                  the loss of scratch directories by erasure coding; 0 protects every one, -1 none.",
    },
    Key {
        name: "ec_group",
        task: Task::Nodes,
        values: "2 to 64",
        role: Role::Default("8"),
        meaning: "About how many processes share their parities; fewer where that spreads them \
                  over more failure domains.",
    },
    Key {
        name: "ec_parity",
        task: Task::Nodes,
        values: "1 to ec_group - 1",
        role: Role::Default("1"),
        meaning:
            "How many processes of a group may lose their scratch directories: 1 by exclusive \
                  or, more by Reed-Solomon codes.",
    },
    Key {
        name: "failure_domain",
        task: Task::Nodes,
        values: "text",
        role: Role::Optional,
        meaning: "What a process is lost together with: a host, a rack. Groups are formed across such domains. \
                  Without it the name of the host.",
    },
    Key {
        name: "trace",
        task: Task::Insight,
        values: PATH,
        role: Role::Optional,
        meaning: "Write a timeline of the job to this file, in the Chrome trace-event format; %r \
                  stands for the rank, %p for the process.",
    },
    Key {
        name: "log_prefix",
        task: Task::Insight,
        values: PATH,
        role: Role::Optional,
        meaning: "Directory for the log file of veloc-backend, veloc-backend-HOST-USER.log; \
                  without it veloc-UID in run_directory. VELOC_LOG says how much is logged.",
    },
    Key {
        name: "run_directory",
        task: Task::Backend,
        values: PATH,
        role: Role::Optional,
        meaning: "Directory of this node in which veloc-UID is made, a directory of this user alone, for the sockets of \
                  veloc-backend; /tmp without it. Jobs that are to find each other's backend have the same. veloc ls and \
                  veloc backend drop look where the variable VELOC_RUN_DIRECTORY says.",
    },
    Key {
        name: "print_errors",
        task: Task::Insight,
        values: "auto, true or false",
        role: Role::Default("auto"),
        meaning: "Whether the error of a call that fails is printed on standard error; with auto until the \
                  program has asked VELOC_Last_error for one.",
    },
    Key {
        name: "verify_captures",
        task: Task::Insight,
        values: "true or false",
        role: Role::Default("false"),
        meaning: "To find a program's fault: a region whose capture is deferred (VELOC_READ_ONLY, host_capture) is \
                  hashed in the call, which waits for that, and again when it has been copied. If the hashes \
                  differ, that version fails, and the region is named.",
    },
    Key {
        name: "threaded",
        task: Task::Backend,
        values: "true or false",
        role: Role::Default("false"),
        meaning: "With mode = async: start no veloc-backend. Then what is in no file yet is lost if the \
                  application is killed.",
    },
    Key {
        name: "watchdog_interval",
        task: Task::Backend,
        values: "seconds, at most 86400",
        role: Role::Default("5"),
        meaning: "Polling interval for dead clients, where the kernel does not report them; 0 counts as 1. A \
                  veloc-backend that does not answer for so long, at least 3 and at most 60 seconds, is killed, and \
                  another one started.",
    },
    Key {
        name: "max_parallelism",
        task: Task::Backend,
        values: "whole number, at most 1024",
        role: Role::Default("0"),
        meaning: "For how many jobs that have ended veloc-backend writes at a time; 0: as many as \
                  there are processors.",
    },
    Key {
        name: "gpu_chunk_size",
        task: Task::Preparation,
        values: "auto, or size, more than 0",
        role: Role::Default("auto"),
        meaning: "How much device memory is mapped into the device cache at a time. auto: what the cache begins with in \
                  pieces of 4 GiB, and 128 MiB at a time where so much is not to be had and when it grows.",
    },
    Key {
        name: "touch",
        task: Task::Preparation,
        values: "auto, sequential or concurrent",
        role: Role::Default("auto"),
        meaning: "When the pages of the host cache are touched: only while no flush runs (sequential), \
                  always (concurrent), or as measured rates suggest (auto).",
    },
    Key {
        name: "touch_threads",
        task: Task::Preparation,
        values: "0 to 256",
        role: Role::Default("0"),
        meaning:
            "The number of threads that touch the pages of the host cache; 0 lets the library \
                  choose.",
    },
    Key {
        name: "host_capture",
        task: Task::Preparation,
        values: "auto, copy, protect or fork",
        role: Role::Default("copy"),
        meaning: "How VELOC_Checkpoint takes host memory: the call copies it (copy); it is protected \
                  against writes until a worker has copied it (protect: the call takes milliseconds for \
                  each GiB, and what the application is about to write is copied first); or a \
                  copy-on-write child of the process copies it (fork: the call takes 20 to 30 ms for each \
                  GiB, and each page that the application writes meanwhile 3 to 4 us). If the process is killed, versions \
                  that protect has not copied yet are lost. auto chooses for each checkpoint, and never promises less than \
                  copy. See the guide, Checkpoints that barely stop the application.",
    },
    Key {
        name: "touch_method",
        task: Task::Preparation,
        values: "auto, populate or write",
        role: Role::Default("auto"),
        meaning:
            "How pages are touched: by madvise(MADV_POPULATE_WRITE), during which no thread of the \
                  process can map memory (populate), or by a write to each (write); auto writes, unless \
                  vm.overcommit_memory is 2.",
    },
    Key {
        name: "huge_pages",
        task: Task::Preparation,
        values: "true or false",
        role: Role::Default("true"),
        meaning: "Ask for transparent huge pages under the host cache, or take those that were set \
                  aside (vm.nr_hugepages) where it is shared with veloc-backend.",
    },
    Key {
        name: "pin",
        task: Task::Preparation,
        values: "serial, parallel, off or chunked",
        role: Role::Default("chunked"),
        meaning:
            "How the host cache is registered with the driver: each chunk as soon as it is touched, one \
                  process of the node at a time (chunked); once all pages are touched, one process at a time \
                  (serial) or all at once (parallel); not at all (off).",
    },
    Key {
        name: "pin_chunk_size",
        task: Task::Preparation,
        values: "size, more than 0 and at most 1G",
        role: Role::Default("8M"),
        meaning:
            "How much host memory one registration covers; copies and launches of kernels wait while one runs.",
    },
    Key {
        name: "score_eviction",
        task: Task::Unused,
        values: "true or false",
        role: Role::NoEffect { instead: Some("restore_order, from which evictions follow") },
        meaning: "GPU prototype: evict by score.",
    },
    Key {
        name: "premature_eviction",
        task: Task::Unused,
        values: "true or false",
        role: Role::NoEffect { instead: Some("restore_order, from which evictions follow") },
        meaning: "GPU prototype: evict before a flush has ended.",
    },
    Key {
        name: "disable_persistence",
        task: Task::Unused,
        values: "true or false",
        role: Role::NoEffect { instead: Some("ephemeral = true") },
        meaning: "GPU prototype: write no files.",
    },
    Key {
        name: "compressor_name",
        task: Task::Unused,
        values: "text",
        role: Role::NoEffect { instead: Some("compress") },
        meaning: "GPU prototype with compression: the library that compresses.",
    },
    Key {
        name: "compressor_algo",
        task: Task::Unused,
        values: "text",
        role: Role::NoEffect { instead: Some("compress") },
        meaning: "GPU prototype with compression: the algorithm.",
    },
    Key {
        name: "compress_mode",
        task: Task::Unused,
        values: "number",
        role: Role::NoEffect { instead: Some("compress") },
        meaning: "GPU prototype with compression: which algorithm for which level.",
    },
    Key {
        name: "compress_always",
        task: Task::Unused,
        values: "true or false",
        role: Role::NoEffect { instead: Some("compress") },
        meaning: "GPU prototype with compression: compress each region.",
    },
    Key {
        name: "force_no_compress",
        task: Task::Unused,
        values: "true or false",
        role: Role::NoEffect { instead: Some("compress") },
        meaning: "GPU prototype with compression: compress none.",
    },
    Key {
        name: "stop_ckpt_on_pf",
        task: Task::Unused,
        values: "true or false",
        role: Role::NoEffect { instead: Some("compress") },
        meaning: "GPU prototype with compression: flush nothing while fetching ahead.",
    },
    Key {
        name: "gpu_buffer_slots",
        task: Task::Unused,
        values: "number",
        role: Role::NoEffect { instead: Some("gpu_cache_size") },
        meaning: "Upstream's gpu_support: staging buffers on the device.",
    },
    Key {
        name: "host_stage_slots",
        task: Task::Unused,
        values: "number",
        role: Role::NoEffect { instead: Some("host_cache_size") },
        meaning: "Upstream's gpu_support: staging buffers on the host.",
    },
    Key {
        name: "axl_type",
        task: Task::Unused,
        values: "none accepted",
        role: Role::Refused { instead: "persistent, which is written with plain file operations" },
        meaning: "Upstream: copy files with the AXL library.",
    },
    Key {
        name: "daos_pool",
        task: Task::Unused,
        values: "none accepted",
        role: Role::Refused { instead: "persistent, with a directory mounted by dfuse" },
        meaning: "Upstream: persist to a DAOS pool.",
    },
    Key {
        name: "daos_cont",
        task: Task::Unused,
        values: "none accepted",
        role: Role::Refused { instead: "persistent, with a directory mounted by dfuse" },
        meaning: "Upstream: the container in the DAOS pool.",
    },
];

/// The key of that name (lower case), if it is known.
pub(crate) fn find(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name)
}

/// The known key that `name` was probably meant to be: the nearest one, if at most two letters
/// have to be put in, taken out or replaced.
pub(crate) fn nearest(name: &str) -> Option<&'static Key> {
    KEYS.iter()
        .map(|key| (edit_distance(name, key.name), key))
        .filter(|(distance, _)| *distance <= 2)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, key)| key)
}

/// Variables of the library and its tools that are no keys, without `VELOC_`.
const VARIABLES: [&str; 10] = [
    "BIN",
    "CRASH_PLAN",
    "CRASH_PROCESS",
    "CRASH_REFERENCE",
    "LIBRARY",
    "LOG",
    "MPI_COMPARE",
    "MPI_LOG_MEMORY",
    "MPI_STREAMS",
    "VERIFY_REPLAY",
];

/// The variable that `variable`, which begins with `VELOC_`, was probably meant to be, if it is none: other programs may
/// have variables that begin so, but none nearly as ours.
pub(crate) fn meant(variable: &str) -> Option<String> {
    let name = variable.strip_prefix("VELOC_")?;
    let known = KEYS.iter().map(|key| key.name.to_ascii_uppercase());
    let known: Vec<String> = known.chain(VARIABLES.map(str::to_owned)).collect();
    if known.iter().any(|known| known == name) {
        return None;
    }
    let written = name.to_ascii_uppercase();
    let distance = |known: &String| edit_distance(&written, known);
    let nearest = known.into_iter().min_by_key(distance)?;
    (distance(&nearest) <= (nearest.len() / 4).max(1)).then(|| format!("VELOC_{nearest}"))
}

/// The Levenshtein distance between two words, by the rows of its table.
fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        for (cell, to) in row[1..].iter_mut().zip(&b) {
            let replaced = diagonal + usize::from(from != *to);
            diagonal = *cell;
            left = replaced.min(diagonal + 1).min(left + 1);
            *cell = left;
        }
        row[0] = i + 1;
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_are_unique_and_lower_case() {
        for (i, key) in KEYS.iter().enumerate() {
            assert!(key.name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{}", key.name);
            assert!(KEYS[..i].iter().all(|other| other.name != key.name), "{} twice", key.name);
        }
    }

    #[test]
    fn distances() {
        for (a, b, distance) in [
            ("", "", 0),
            ("", "abc", 3),
            ("scratch", "scratch", 0),
            ("scrach", "scratch", 1),
            ("scratchh", "scratch", 1),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!(edit_distance(a, b), distance, "{a} {b}");
        }
    }

    #[test]
    fn suggests_only_what_is_near() {
        assert_eq!(nearest("scrath").map(|k| k.name), Some("scratch"));
        assert_eq!(nearest("hugepages").map(|k| k.name), Some("huge_pages"));
        assert_eq!(nearest("pni").map(|k| k.name), Some("pin"));
        assert!(nearest("completely_different").is_none());
    }

    /// Catches a word about variables of others, as modules of a cluster set them, and none about a misspelt one.
    #[test]
    fn misspelt_variables_are_noticed() {
        for (variable, expected) in [
            ("VELOC_SCRACH", Some("VELOC_SCRATCH")),
            ("VELOC_scratch", Some("VELOC_SCRATCH")),
            ("VELOC_MAX_VERSION", Some("VELOC_MAX_VERSIONS")),
            ("VELOC_MPI_STREAM", Some("VELOC_MPI_STREAMS")),
            ("VELOC_LOGG", Some("VELOC_LOG")),
            ("VELOC_PINS", Some("VELOC_PIN")),
            ("VELOC_MODE", None),
            ("VELOC_LOG", None),
            ("VELOC_LIB", None),
            ("VELOC_DIR", None),
            ("VELOC_ROOT", None),
            ("VELOC_HOME", None),
            ("VELOC_VERSION", None),
            ("VELOC_", None),
        ] {
            assert_eq!(meant(variable).as_deref(), expected, "{variable}");
        }
    }

    proptest! {
        #[test]
        fn the_distance_is_a_metric(a in "[a-c]{0,6}", b in "[a-c]{0,6}", c in "[a-c]{0,6}") {
            prop_assert_eq!(edit_distance(&a, &a), 0);
            prop_assert_eq!(edit_distance(&a, &b), edit_distance(&b, &a));
            prop_assert_eq!(edit_distance(&a, &b) == 0, a == b);
            prop_assert!(
                edit_distance(&a, &c) <= edit_distance(&a, &b) + edit_distance(&b, &c)
            );
        }
    }
}
