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
    /// What the key means.
    pub meaning: &'static str,
}

/// What this version of the library does with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The key must have a value.
    Required,
    /// The key may have no value; its meaning says what then happens.
    Optional,
    /// If no value is given, this text is read as the value.
    Default(&'static str),
    /// Known from upstream. It has no effect in this version, which a warning says.
    NoEffect {
        /// The key to use instead, if there is one.
        instead: Option<&'static str>,
    },
    /// Known from upstream. Any value is an error, because ignoring it would change results.
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
        meaning: "async: a checkpoint call returns as soon as the application may change its memory again. sync: it \
                  returns when the last level has the bytes.",
    },
    Key {
        name: "scratch",
        task: Task::Places,
        values: PATH,
        role: Role::Optional,
        meaning: "Directory on node-local storage for checkpoint files. Required unless ephemeral = true.",
    },
    Key {
        name: "persistent",
        task: Task::Places,
        values: PATH,
        role: Role::Optional,
        meaning: "Directory on the parallel file system to which checkpoint files are copied. Without it they stay in \
                  scratch.",
    },
    Key {
        name: "ephemeral",
        task: Task::Places,
        values: "true or false",
        role: Role::Default("false"),
        meaning: "true: nobody needs the checkpoints after the run. No file is written unless the host cache \
                  overflows into scratch.",
    },
    Key {
        name: "hand_over",
        task: Task::Places,
        values: "1 to 64 letters, digits, dots, hyphens and underscores",
        role: Role::Optional,
        meaning: "A name for the host cache, which veloc-backend keeps when the job has ended. The next job finds the \
                  checkpoints in memory if it has the same name here, as many processes and the same directories. \
                  Needs mode = async, threaded = false and a host cache; with ephemeral = true, no scratch may be \
                  set.",
    },
    Key {
        name: "hand_over_time",
        task: Task::Places,
        values: "seconds, 1 to 86400",
        role: Role::Default("600"),
        meaning: "How long veloc-backend keeps the host cache of a job that has ended. Then it frees the memory. With \
                  ephemeral = true the checkpoints in it are lost.",
    },
    Key {
        name: "gpu_cache_size",
        task: Task::Memory,
        values: GROWING_SIZE,
        role: Role::Optional,
        meaning: "Device memory for checkpoints; 0: none. Without the key: 4 GiB, or 1/16 of the device's memory if \
                  that is less. With two sizes, the cache begins with the first. While a checkpoint would wait for \
                  room, it grows up to the second, as long as 2 GiB (or 1/16 of the device's memory, if that is more) \
                  stay free. After 2 to 4 s without a checkpoint or a restore it shrinks to the first size, or down \
                  to a copy that is nowhere else.",
    },
    Key {
        name: "stream_ordered",
        task: Task::Memory,
        values: "true or false",
        role: Role::Default("false"),
        meaning: "true: checkpoints and restarts of device memory do not wait for their copies. The copies run in the \
                  order of the stream of VELOC_Set_stream: after what it had before the call, before what it gets \
                  later. See the guide, Checkpoints in the order of the stream.",
    },
    Key {
        name: "host_cache_size",
        task: Task::Memory,
        values: SIZE_OR_AUTO,
        role: Role::Default("auto"),
        meaning: "The most host memory for checkpoints; 0: none. Its pages are made in the background: all of them \
                  with a device, else as they are needed. auto: 1/8 of the available memory, at most 1 GiB (8 GiB \
                  with ephemeral = true). With auto, an ephemeral job without a device gets what it needs, up to 3/4 \
                  of the memory that is available at the time.",
    },
    Key {
        name: "drive",
        task: Task::Memory,
        values: PATH,
        role: Role::Optional,
        meaning: "A level below the host cache, without a file system in between, for jobs with ephemeral = true. In \
                  a directory, each process allocates a file without a name when it starts; nothing of the file \
                  stays, whatever ends the process. A block device serves one process and must hold nothing else. \
                  Needs drive_size; not with compressed_cache_size, hand_over or host_cache_size = 0.",
    },
    Key {
        name: "drive_size",
        task: Task::Memory,
        values: "size as above, more than 0",
        role: Role::Optional,
        meaning: "How many bytes of drive each process has.",
    },
    Key {
        name: "compressed_cache_size",
        task: Task::Memory,
        values: "size as above, more than 0",
        role: Role::Optional,
        meaning: "Host memory below the host cache, for jobs with ephemeral = true. Checkpoints in it are compressed \
                  without loss: zeros, and floats close to their neighbours, take less room. Its pages are made as \
                  they are used. Not with drive, hand_over or host_cache_size = 0.",
    },
    Key {
        name: "restore_order",
        task: Task::Memory,
        values: "reverse, same or random",
        role: Role::Default("reverse"),
        meaning: "The order in which versions are expected back, compared with the order in which they were taken. \
                  Used when the application gives no hints.",
    },
    Key {
        name: "max_versions",
        task: Task::Versions,
        values: "whole number; 0: all",
        role: Role::Default("0"),
        meaning: "How many versions of each name to keep in persistent: the last ones taken.",
    },
    Key {
        name: "scratch_versions",
        task: Task::Versions,
        values: "whole number; 0: all",
        role: Role::Default("0"),
        meaning: "How many versions of each name to keep in scratch: the last ones taken. A version stays longer if \
                  persistent has no copy of it yet, or while its parities are to be made (`ec_interval`).",
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
        meaning: "Whether the workers compress the files that they write. Only this library reads such files. \
                  Checkpoints larger than memory are not compressed, nor are the application's own files. Not with \
                  aggregated = true, or with mode = sync unless ephemeral = true.",
    },
    Key {
        name: "incremental",
        task: Task::Versions,
        values: "true or false",
        role: Role::Default("false"),
        meaning: "A checkpoint holds only what was written since the last one of its name. That one is kept as long \
                  as it is needed. Only this library reads such files. Not with ephemeral = true, hand_over, \
                  aggregated = true, or a persistent_interval or ec_interval above 0.",
    },
    Key {
        name: "incremental_chain",
        task: Task::Versions,
        values: "whole number from 1 to 64",
        role: Role::Default("8"),
        meaning: "How many checkpoints in a row hold changes alone; the next one holds everything.",
    },
    Key {
        name: "newest_by",
        task: Task::Versions,
        values: "number or time",
        role: Role::Default("number"),
        meaning: "Which version VELOC_Restart_test finds. number: the highest, as in VELOC. time: the one that was \
                  taken last; a run that began anew or went back may have lower numbers than an older run.",
    },
    Key {
        name: "proof",
        task: Task::Damage,
        values: "check, accept or off",
        role: Role::Default("check"),
        meaning: "Whether each checkpoint file carries a proof in an extended attribute: a digest of its bytes, name, \
                  version, rank, number of ranks and run. check: a file that does not fit its proof is not restored. \
                  accept: it is restored, with a warning. off: no file gets a proof.",
    },
    Key {
        name: "chksum",
        task: Task::Damage,
        values: "true or false",
        role: Role::Default("false"),
        meaning: "Keep the SHA-256 of each checkpoint file in meta. A file with another SHA-256 is not used, nor is \
                  one for which there is neither a SHA-256 nor a proof. A file of the application's own \
                  (VELOC_Route_file) without a SHA-256 is used, with a warning.",
    },
    Key {
        name: "meta",
        task: Task::Damage,
        values: PATH,
        role: Role::Optional,
        meaning: "Directory for checksums and for the index of aggregated files. Required with chksum = true or \
                  aggregated = true, unless ephemeral = true.",
    },
    Key {
        name: "sync_files",
        task: Task::Damage,
        values: "none, data or full",
        role: Role::Default("data"),
        meaning: "Which files count as written only when the storage has them, so that they survive a crash of the \
                  machine. none: no files; data: those in persistent; full: those in scratch as well.",
    },
    Key {
        name: "ec_interval",
        task: Task::Nodes,
        values: "seconds, 0 or -1",
        role: Role::Default("-1"),
        meaning: "The least time between two checkpoints that an MPI job protects by erasure coding from the loss of \
                  scratch directories. 0: every checkpoint; -1: none.",
    },
    Key {
        name: "ec_group",
        task: Task::Nodes,
        values: "2 to 64",
        role: Role::Default("8"),
        meaning: "About how many processes share their parities. A group is smaller where that spreads it over more \
                  failure domains.",
    },
    Key {
        name: "ec_parity",
        task: Task::Nodes,
        values: "1 to ec_group - 1",
        role: Role::Default("1"),
        meaning: "How many processes of a group may lose their scratch directories. 1 uses exclusive or, more use \
                  Reed-Solomon codes.",
    },
    Key {
        name: "failure_domain",
        task: Task::Nodes,
        values: "text",
        role: Role::Optional,
        meaning: "What a process is lost together with, such as a host or a rack. Groups are formed across such \
                  domains. Without the key it is the name of the host.",
    },
    Key {
        name: "trace",
        task: Task::Insight,
        values: PATH,
        role: Role::Optional,
        meaning: "File for a timeline of the job, in the Chrome trace-event format. %r stands for the rank, %p for \
                  the process id.",
    },
    Key {
        name: "log_prefix",
        task: Task::Insight,
        values: PATH,
        role: Role::Optional,
        meaning: "Directory for the log file of veloc-backend, veloc-backend-HOST-USER.log. Without the key it is \
                  veloc-UID in run_directory. VELOC_LOG says how much is logged.",
    },
    Key {
        name: "run_directory",
        task: Task::Backend,
        values: PATH,
        role: Role::Optional,
        meaning: "Directory on this node for veloc-UID, a directory of this user alone with the sockets of \
                  veloc-backend. Without the key it is /tmp. Jobs find each other's backend only with the same \
                  run_directory. veloc ls and veloc backend drop look where the variable VELOC_RUN_DIRECTORY says.",
    },
    Key {
        name: "print_errors",
        task: Task::Insight,
        values: "auto, true or false",
        role: Role::Default("auto"),
        meaning: "Whether the error of a failed call is printed on standard error. auto: until the program first \
                  calls VELOC_Last_error.",
    },
    Key {
        name: "verify_captures",
        task: Task::Insight,
        values: "true or false",
        role: Role::Default("false"),
        meaning: "Finds a program that changes memory too early. A region whose capture is deferred (VELOC_READ_ONLY, \
                  host_capture) is hashed in the call, which waits for that; later its copy is hashed, too. If the \
                  hashes differ, that version fails, and the error names the region.",
    },
    Key {
        name: "threaded",
        task: Task::Backend,
        values: "true or false",
        role: Role::Default("false"),
        meaning: "With mode = async: no veloc-backend is started. If the application is killed, checkpoints that are \
                  in no file yet are lost.",
    },
    Key {
        name: "watchdog_interval",
        task: Task::Backend,
        values: "seconds, at most 86400",
        role: Role::Default("5"),
        meaning: "Polling interval for dead clients, where the kernel does not report them; 0 counts as 1. A \
                  veloc-backend that is silent for six times as long (at most 60 s) is killed, and another one is \
                  started.",
    },
    Key {
        name: "max_parallelism",
        task: Task::Backend,
        values: "whole number, at most 1024",
        role: Role::Default("0"),
        meaning: "For how many ended processes veloc-backend writes at a time; 0: as many as there are processors.",
    },
    Key {
        name: "gpu_chunk_size",
        task: Task::Preparation,
        values: "auto, or size, more than 0",
        role: Role::Default("auto"),
        meaning: "How much device memory is mapped into the device cache at a time. auto: the initial cache 4 GiB at a \
                  time, or 128 MiB where 4 GiB cannot be had; a growing cache 128 MiB at a time.",
    },
    Key {
        name: "touch",
        task: Task::Preparation,
        values: "auto, sequential or concurrent",
        role: Role::Default("auto"),
        meaning: "When the pages of the host cache are touched. sequential: only while no flush runs. concurrent: \
                  always. auto: as the measured rates suggest.",
    },
    Key {
        name: "touch_threads",
        task: Task::Preparation,
        values: "0 to 256",
        role: Role::Default("0"),
        meaning: "The number of threads that touch the pages of the host cache; 0: the library chooses.",
    },
    Key {
        name: "host_capture",
        task: Task::Preparation,
        values: "auto, copy, protect or fork",
        role: Role::Default("copy"),
        meaning: "How VELOC_Checkpoint takes host memory. copy: the call copies it. protect: the memory is protected \
                  against writes until a worker has copied it; the call takes milliseconds for each GiB, and a page \
                  that the application is about to write is copied first. fork: a copy-on-write child of the process \
                  copies it; the call takes 20 to 30 ms for each GiB, and each page that the application writes \
                  meanwhile 3 to 4 us. auto: chooses for each checkpoint, and never promises less than copy. If the \
                  process is killed, versions that protect has not copied yet are lost. See the guide, Checkpoints \
                  that barely stop the application.",
    },
    Key {
        name: "touch_method",
        task: Task::Preparation,
        values: "auto, populate or write",
        role: Role::Default("auto"),
        meaning: "How pages are touched. populate: by madvise(MADV_POPULATE_WRITE), during which no thread of the \
                  process can map memory. write: by a write to each page. auto: write, unless vm.overcommit_memory is \
                  2.",
    },
    Key {
        name: "huge_pages",
        task: Task::Preparation,
        values: "true or false",
        role: Role::Default("true"),
        meaning: "Ask for huge pages under the host cache: transparent ones, or, where the cache is shared with \
                  veloc-backend, those that were set aside (vm.nr_hugepages).",
    },
    Key {
        name: "pin",
        task: Task::Preparation,
        values: "serial, parallel, off or chunked",
        role: Role::Default("chunked"),
        meaning: "How the host cache is registered with the driver. chunked: each chunk as soon as it is touched, one \
                  process of the node at a time. serial: once all pages are touched, one process at a time. parallel: \
                  likewise, but all processes at once. off: not at all.",
    },
    Key {
        name: "pin_chunk_size",
        task: Task::Preparation,
        values: "size, more than 0 and at most 1G",
        role: Role::Default("8M"),
        meaning: "How much host memory one registration covers. Copies and launches of kernels wait while one runs.",
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

/// The variable that `variable`, which begins with `VELOC_`, was probably meant to be; none if it is one of ours. Other
/// programs may have variables that begin so, but none that are nearly ours.
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
