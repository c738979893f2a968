//! Folders of checkpoint files made by hand, and runs of the tools on them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use format::delta::{Base, DeltaTable, Sparse, REGION};
use format::header::Header;
use format::identity::Identity;
use format::proof::{Digest, Proof, Sort, NAME};
use os::attributes;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// Two regions, -1 of 3 bytes and 2 of 5 bytes: written down from the description of the format.
pub(crate) const GOLDEN: [u8; 40] = [
    2, 0, 0, 0, 0, 0, 0, 0, // two regions
    0xff, 0xff, 0xff, 0xff, 3, 0, 0, 0, 0, 0, 0, 0, // id -1, 3 bytes
    2, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, // id 2, 5 bytes
    b'a', b'b', b'c', // region -1
    b'd', b'e', b'f', b'g', b'h', // region 2
];

/// SHA-256 of [`GOLDEN`], by sha256sum.
pub(crate) const GOLDEN_SHA256: &str =
    "4eda814f240c3c97d3641f1e8ac312da071f8a3031dc07133b90403605392500";

/// A checkpoint of one region, 0.
pub(crate) fn checkpoint(content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    bytes.extend((content.len() as u64).to_le_bytes());
    bytes.extend(content);
    bytes
}

/// A checkpoint of an incremental job: region 1 has 100 bytes, all of them `version` or, in a delta, only those from
/// 10 * version on, 10 of them; region 2 is whole and has the version. Its number is 1000 + version.
pub(crate) fn incremental(version: u8, chain: u64, base: Option<u8>) -> Vec<u8> {
    let of_base = |base| Base { version: i32::from(base), number: 1000 + u64::from(base) };
    let start = 10 * u64::from(version);
    let runs = std::iter::once(start..start + 10).collect();
    let changed = Sparse { id: 1, size: 100, runs };
    let table = DeltaTable {
        number: 1000 + u64::from(version),
        chain,
        base: base.map(of_base),
        regions: base.map(|_| changed).into_iter().collect(),
    };
    let table = table.encode();
    let of_table = table.len() + if base.is_some() { 10 } else { 0 };
    let mut regions = vec![(REGION, of_table as u64), (2, 1)];
    regions.extend(base.is_none().then_some((1, 100)));
    let mut bytes = Header::new(regions).unwrap().encode();
    bytes.extend(table);
    // What a delta has of region 1 is behind its table; without a base, the region is a region of the file.
    bytes.extend(vec![version; if base.is_some() { 10 } else { 100 }]);
    bytes.push(version);
    bytes
}

/// What region 1 is in the last of these versions, which are deltas but for the first.
pub(crate) fn region_of(versions: &[u8]) -> Vec<u8> {
    let mut region = vec![versions[0]; 100];
    for version in &versions[1..] {
        region[10 * usize::from(*version)..][..10].fill(*version);
    }
    region
}

/// The directories of a job, and a configuration that names them.
pub(crate) struct Job {
    pub folder: tempfile::TempDir,
}

impl Job {
    pub(crate) fn new() -> Job {
        let job = Job { folder: tempfile::tempdir().unwrap() };
        let mut text = String::from("mode = sync\n");
        for directory in ["scratch", "persistent", "meta"] {
            let path = job.folder.path().join(directory);
            fs::create_dir(&path).unwrap();
            text += &format!("{directory} = {}\n", path.display());
        }
        fs::write(job.folder.path().join("veloc.cfg"), text).unwrap();
        job
    }

    /// A path below the job's folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file below the job's folder.
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, bytes).unwrap();
        path
    }

    /// Writes [`GOLDEN`] as "wave", with the proof of a job of so many ranks. Returns false if the
    /// folder keeps no proofs.
    pub(crate) fn write_proven(
        &self,
        directory: &str,
        version: i32,
        rank: u32,
        ranks: u32,
    ) -> bool {
        self.write_of_run(directory, version, (rank, ranks), Identity::UNKNOWN)
    }

    /// The same, of a run.
    pub(crate) fn write_of_run(
        &self,
        directory: &str,
        version: i32,
        (rank, ranks): (u32, u32),
        identity: Identity,
    ) -> bool {
        self.write_bytes_of_run(directory, version, (rank, ranks), identity, &GOLDEN)
    }

    /// The same, with these bytes.
    pub(crate) fn write_bytes_of_run(
        &self,
        directory: &str,
        version: i32,
        (rank, ranks): (u32, u32),
        identity: Identity,
        bytes: &[u8],
    ) -> bool {
        let path = self.write(&format!("{directory}/wave-{rank}-{version}.dat"), bytes);
        let (name, digest) = ("wave".to_owned(), Some(Digest::of(Sort::Xxh3, bytes)));
        let len = bytes.len() as u64;
        let proof = Proof { name, version, rank, ranks, identity, len, digest };
        let kept = attributes::set(&fs::File::open(&path).unwrap(), NAME, &proof.encode());
        if let Err(error) = &kept {
            println!("skipped: the folder for temporary files: {error}");
        }
        kept.is_ok()
    }

    /// Keeps a checksum of these bytes for a checkpoint file of this name.
    pub(crate) fn keep_checksum(&self, file: &str, bytes: &[u8]) {
        self.write(&format!("meta/{file}.chksum"), &Sha256::digest(bytes));
    }

    /// Writes an aggregated file of these parts, and its table.
    pub(crate) fn aggregate(&self, name: &str, version: u32, parts: &[Vec<u8>]) {
        let file = format!("{name}-agg-{version}.dat");
        let mut table = (parts.len() as i64).to_le_bytes().to_vec();
        let mut start = 0i64;
        for part in parts {
            table.extend(start.to_le_bytes());
            start += part.len() as i64;
        }
        self.write(&format!("meta/{file}"), &table);
        self.write(&format!("persistent/{file}"), &parts.concat());
    }

    /// Runs `veloc` in the job's folder.
    pub(crate) fn veloc(&self, arguments: &str) -> Ran {
        run(Path::new(env!("CARGO_BIN_EXE_veloc")), self.folder.path(), arguments)
    }
}

/// A run that has ended.
pub(crate) struct Ran {
    pub output: Output,
}

pub(crate) fn run(program: &Path, folder: &Path, arguments: &str) -> Ran {
    let mut command = Command::new(program);
    // The configuration of the machine that runs the tests is not for these jobs.
    for (variable, _) in std::env::vars_os() {
        if variable.to_string_lossy().starts_with("VELOC_") {
            command.env_remove(variable);
        }
    }
    let command = command.args(arguments.split_whitespace()).current_dir(folder);
    Ran { output: command.stdin(Stdio::null()).output().unwrap() }
}

impl Ran {
    pub(crate) fn code(&self) -> Option<i32> {
        self.output.status.code()
    }

    pub(crate) fn stdout(&self) -> String {
        String::from_utf8_lossy(&self.output.stdout).into_owned()
    }

    pub(crate) fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.output.stderr).into_owned()
    }

    /// The output of a run that succeeded.
    pub(crate) fn success(&self) -> String {
        assert_eq!(self.code(), Some(0), "{}{}", self.stdout(), self.stderr());
        assert_eq!(self.stderr(), "");
        self.stdout()
    }

    /// The output as JSON, whatever the exit code.
    pub(crate) fn json(&self) -> Value {
        let text = self.stdout();
        serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}{}", self.stderr()))
    }

    /// Asserts that the run ended with code 1, and one line that has these words.
    pub(crate) fn failure(&self, words: &[&str]) {
        let text = self.stderr();
        assert_eq!(self.code(), Some(1), "{}{text}", self.stdout());
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(text.starts_with("error: "), "{text}");
        for word in words {
            assert!(text.contains(word), "{text} lacks {word:?}");
        }
    }
}
