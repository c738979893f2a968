//! The examples with arrays in persistent memory (`examples/cg`, `examples/abft`, `examples/transport`): whatever happens
//! to them, they print what they would have without persistent memory.

use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use capi_tests::program::{example, fortran_program, found};
use capi_tests::random::Random;
use capi_tests::run::{Ended, Run};
use tempfile::TempDir;

/// How often each example is killed.
const KILLS: u32 = 25;

/// Where the first slot of a file is.
const SLOTS_AT: u64 = 32_768;

/// An example, and a file of its own.
struct Kernel {
    program: PathBuf,
    folder: TempDir,
    arguments: String,
}

impl Kernel {
    fn new(name: &str, files: &[&str], arguments: &str) -> Kernel {
        let folder = tempfile::tempdir().unwrap();
        Kernel { program: example(name, files), folder, arguments: arguments.to_owned() }
    }

    fn cg(arguments: &str) -> Kernel {
        Kernel::new("cg", &["cg.c", "solver.c", "matrix.c"], arguments)
    }

    fn abft(arguments: &str) -> Kernel {
        Kernel::new("abft", &["abft.c"], arguments)
    }

    fn transport(arguments: &str) -> Kernel {
        Kernel::new("transport", &["transport.c"], arguments)
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("arrays")
    }

    fn run(&self) -> Run {
        Run::new(&self.program).args(&self.arguments).arg("--file").arg(self.file())
    }

    /// A run to its end.
    fn end(&self) -> Ended {
        succeeded(self.run().end())
    }

    /// What it prints without persistent memory.
    fn plain(&self) -> String {
        let ended = succeeded(self.run().arg("--plain").end());
        assert!(!self.file().exists());
        assert!(!ended.stdout.is_empty());
        ended.stdout
    }

    /// Has bytes of the file copied, for each of these: from, to, how many.
    fn copy_within(&self, copies: &[(u64, u64, usize)]) {
        let file = std::fs::File::options().read(true).write(true).open(self.file()).unwrap();
        for &(from, to, len) in copies {
            let mut bytes = vec![0; len];
            file.read_exact_at(&mut bytes, SLOTS_AT + from).unwrap();
            file.write_all_at(&bytes, SLOTS_AT + to).unwrap();
        }
    }

    /// Gives doubles of the file the other sign.
    fn negate(&self, words: &[u64]) {
        let file = std::fs::File::options().read(true).write(true).open(self.file()).unwrap();
        for &at in words {
            let mut bytes = [0; 8];
            file.read_exact_at(&mut bytes, SLOTS_AT + at).unwrap();
            bytes[7] ^= 0x80;
            file.write_all_at(&bytes, SLOTS_AT + at).unwrap();
        }
    }
}

fn succeeded(ended: Ended) -> Ended {
    assert!(ended.status.success(), "{}\n{}{}", ended.status, ended.stdout, ended.stderr);
    ended
}

/// The iteration that was recovered, and how many were tried.
fn recovered(stderr: &str) -> Option<(u64, u64)> {
    let line = stderr.lines().find_map(|line| line.strip_prefix("recovered "))?;
    let (iteration, line) = line.split_once(", ")?;
    Some((iteration.parse().ok()?, line.split_once(" tried")?.0.parse().ok()?))
}

/// Kills it at random moments, and starts it again until it comes to its end; and that again.
fn killed(what: &str, kernel: &Kernel) {
    let expected = kernel.plain();
    let began = Instant::now();
    assert_eq!(kernel.end().stdout, expected);
    // Follows the load of the machine.
    let mut longest = began.elapsed().as_micros() as u64;
    std::fs::remove_file(kernel.file()).unwrap();
    let mut random = Random::seeded(what);
    let (mut kills, mut recoveries, mut reached) = (0, 0, 0);
    while kills < KILLS {
        let running = kernel.run().start();
        std::thread::sleep(Duration::from_micros(random.below(longest)));
        running.signal(libc::SIGKILL);
        let ended = running.end();
        if let Some((iteration, tried)) = recovered(&ended.stderr) {
            assert_eq!(tried, 1, "the process was killed: {}", ended.stderr);
            assert!(iteration >= reached, "{iteration} after {reached}");
            (recoveries, reached) = (recoveries + 1, iteration);
        } else {
            longest += longest / 8;
        }
        assert!(!ended.stderr.contains("from the beginning"), "{}", ended.stderr);
        if ended.status.success() {
            assert_eq!(ended.stdout, expected);
            std::fs::remove_file(kernel.file()).unwrap();
            reached = 0;
            longest -= longest / 4;
        } else {
            kills += 1;
        }
    }
    assert_eq!(kernel.end().stdout, expected);
    println!("{what}: killed {kills} times, {recoveries} recoveries");
    assert!(recoveries > KILLS / 5, "{recoveries}");
}

/// The same in Fortran. Catches slots that are another shape's or iteration's, and invariants that are not asked.
#[test]
fn conjugate_gradients_in_fortran_are_killed() {
    if found("gfortran").is_none() {
        println!("skipped: gfortran is not installed");
        return;
    }
    let modules = ["veloc", "veloc_arrays"];
    let program = fortran_program("gfortran", &["-O2"], &["../../examples/cg/cg"], &modules);
    let folder = tempfile::tempdir().unwrap();
    let run = |file: &str| Run::new(&program).arg(folder.path().join(file)).arg("150");
    let began = Instant::now();
    let expected = succeeded(run("undisturbed").end()).stdout;
    // Follows the load of the machine.
    let mut longest = began.elapsed().as_micros() as u64;
    let mut random = Random::seeded("Fortran");
    let mut recoveries = 0;
    for _ in 0..10 {
        let running = run("killed").start();
        std::thread::sleep(Duration::from_micros(random.below(longest / 2)));
        running.signal(libc::SIGKILL);
        if running.end().stderr.contains("goes on behind state") {
            recoveries += 1;
        } else {
            longest += longest / 4;
        }
    }
    assert_eq!(succeeded(run("killed").end()).stdout, expected);
    assert!(recoveries > 0);
}

/// Catches a state that is marked before it is whole, an iteration that reads what is not kept, equations that reject what
/// rounding alone has changed, and zeta wrong or compared with nothing.
#[test]
fn conjugate_gradients_are_killed() {
    let kernel = Kernel::cg("--class W");
    let published = kernel.plain();
    assert!(published.contains("zeta 10.36259508") && published.contains("\nas published\n"));
    killed("kernels::conjugate_gradients_are_killed", &kernel);
}

/// Catches sums that are marked before they are there, blocks that are left out, and words that depend on where a run began.
#[test]
fn products_are_killed() {
    killed("kernels::products_are_killed", &Kernel::abft("--n 768 --block 64"));
}

/// Catches counts that are lost or made twice, and random numbers that depend on where a run began.
#[test]
fn transport_is_killed() {
    killed(
        "kernels::transport_is_killed",
        &Kernel::transport("--lookups 100000 --nuclides 20 --points 500"),
    );
}

/// Catches a strawman that is none: without flushes and two places, a count must be able to be wrong, else the test above
/// proves nothing.
#[test]
fn without_flushes_counts_are_wrong() {
    let kernel = Kernel::transport(
        "--lookups 100000 --nuclides 20 --points 500 --flush-every 10000 --no-flush",
    );
    let expected = kernel.plain();
    let mut random = Random::seeded("kernels::without_flushes_counts_are_wrong");
    let wrong = (0..KILLS).any(|_| {
        let _ = std::fs::remove_file(kernel.file());
        let running = kernel.run().start();
        // Some groups have been counted by then, and part of one.
        let began = Instant::now();
        while marks(&kernel.file()) < 2 && began.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_micros(random.below(5000)));
        running.signal(libc::SIGKILL);
        let _ = running.end();
        kernel.end().stdout != expected
    });
    assert!(wrong);
}

/// How many lines of the file have marks.
fn marks(file: &Path) -> usize {
    let bytes = std::fs::read(file).unwrap_or_default();
    bytes
        .get(8192..12_288)
        .map_or(0, |all| all.chunks(64).filter(|line| line.iter().any(|byte| *byte != 0)).count())
}

/// The vectors of class S: p, q, r and z behind b, each with four slots of 1400 doubles. After so many iterations z changes
/// less in another than the residual tells. Slots, lines and words
/// of the newest iteration are made old ones, or nothing, or get the other sign. Catches an equation that is missing,
/// or holds where it must not: the mark alone does not tell a sign, nor the equations alone an old state, zeros, or an old
/// line of z.
#[test]
fn iterations_that_are_not_whole_are_not_taken() {
    const NEW: u64 = 24;
    const SLOT: u64 = 12_288;
    const ALL: [u64; 4] = [1, 2, 3, 4]; // p, q, r, z
    let slot = |array: u64, iteration: u64| (array * 4 + iteration % 4) * SLOT;
    let whole = |arrays: &[u64], from: u64, to: u64| {
        let copy = |array: &u64| (slot(*array, from), slot(*array, to), SLOT as usize);
        arrays.iter().map(copy).collect::<Vec<_>>()
    };
    let kernel = Kernel::cg("--class S --solves 1 --iterations 24");
    let expected = kernel.plain();
    let mut cases = vec![
        ("old state", whole(&ALL, NEW - 1, NEW), vec![]),
        ("old but for z", whole(&[1, 2, 3], NEW - 1, NEW), vec![]),
    ];
    for array in ALL {
        // p is orthogonal to all of q(1), ..., and nothing else reads q.
        if array != 2 {
            cases.push(("old vector", whole(&[array], NEW - 1, NEW), vec![]));
        }
        for line in [0, 77, 174] {
            let copy = (slot(array, NEW - 3) + line * 64, slot(array, NEW) + line * 64, 64);
            cases.push(("old line", vec![copy], vec![]));
        }
        let word = (slot(array, NEW - 3) + 800, slot(array, NEW) + 800, 8);
        cases.push(("old word", vec![word], vec![]));
        cases.push(("sign", vec![], vec![slot(array, NEW) + 800]));
    }
    for (what, copies, signs) in cases {
        let _ = std::fs::remove_file(kernel.file());
        assert_eq!(kernel.end().stdout, expected);
        assert_eq!(recovered(&kernel.end().stderr), Some((NEW, 1)));
        kernel.copy_within(&copies);
        kernel.negate(&signs);
        let ended = kernel.end();
        let said = &ended.stderr;
        assert_eq!(recovered(said), Some((NEW - 1, 2)), "{what} {copies:?} {signs:?}: {said}");
        assert_eq!(ended.stdout, expected, "{what} {copies:?} {signs:?}");
    }
    // Nothing has written behind the end of a vector in its slot.
    let nothing = |array: u64, iteration: u64| {
        let begin = slot(array, iteration);
        (0..1400 * 8 / 64).map(move |line| (1400 * 8, begin + line * 64, 64))
    };
    for gone in [vec![NEW], vec![NEW - 3, NEW - 2, NEW - 1, NEW]] {
        let _ = std::fs::remove_file(kernel.file());
        let _ = kernel.end();
        let slots = ALL.iter().flat_map(|array| gone.iter().map(|k| (*array, *k)));
        kernel.copy_within(&slots.flat_map(|(array, k)| nothing(array, k)).collect::<Vec<_>>());
        let ended = kernel.end();
        assert_eq!(ended.stdout, expected, "{gone:?}");
        match gone.len() {
            1 => assert_eq!(recovered(&ended.stderr), Some((NEW - 1, 2)), "{}", ended.stderr),
            _ => assert!(ended.stderr.contains("none of 4 is consistent"), "{}", ended.stderr),
        }
    }
}

/// A matrix of a file, whose solution is known. Catches entries above the diagonal that are forgotten or doubled, and a
/// check that compares a solution with itself.
#[test]
fn a_matrix_of_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.mtx");
    // -u'' = 1 on 0 to 1 at 49 points: the sum of u^2 is known.
    let n = 49;
    let mut text = format!(
        "%%MatrixMarket matrix coordinate real symmetric\n% of a test\n{n} {n} {}\n",
        2 * n - 1
    );
    for i in 1..=n {
        text += &format!("{i} {i} 2\n");
        if i < n {
            text += &format!("{} {i} -1.0e0\n", i + 1);
        }
    }
    std::fs::write(&path, text).unwrap();
    let kernel = Kernel::cg(&format!("--check --matrix {}", path.display()));
    let ended = kernel.end();
    assert_eq!(ended.stdout, kernel.end().stdout);
    assert!(ended.stdout.contains("\nconverged\n"), "{}", ended.stdout);
    assert!(ended.stderr.contains("the solution is off by 0.0e+00"), "{}", ended.stderr);
    let norm = (1..=n).map(|i| (f64::from(i * (n + 1 - i)) / 2.0).powi(2)).sum::<f64>().sqrt();
    let said = ended.stdout.lines().find_map(|line| line.strip_prefix("norm of the solution "));
    assert!((said.unwrap().parse::<f64>().unwrap() / norm - 1.0).abs() < 1e-9, "{}", ended.stdout);
}

/// The residual falls by eight digits in an iteration, and rounding leaves as much of p.q as it was before. Catches an
/// equation that rejects it.
#[test]
fn equations_leave_room_for_rounding() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.mtx");
    let n = 1000_u32;
    let mut text = format!("%%MatrixMarket matrix coordinate real general\n{n} {n} {n}\n");
    for i in 1..=n {
        text += &format!("{i} {i} {}\n", 1.0 + 1e-8 * f64::from(i * 7919 % n) / f64::from(n));
    }
    std::fs::write(&path, text).unwrap();
    let kernel = Kernel::cg(&format!("--matrix {}", path.display()));
    let ended = kernel.end();
    assert!(ended.stdout.contains("\niterations 2\n"), "{}", ended.stdout);
    assert_eq!(recovered(&kernel.end().stderr), Some((2, 1)));
}

/// Words of a product that is done are changed, and sums are asked. Catches marks that are believed without them, a word
/// that is corrected to something else, and products that are not looked at though a block of C is added again.
#[test]
fn blocks_are_corrected_or_computed_again() {
    let kernel = Kernel::abft("--n 256 --block 64");
    let expected = kernel.plain();
    assert_eq!(kernel.end().stdout, expected);
    let (c, products) = (|word: u64| word * 8, |word: u64| 256 * 256 * 8 + word * 8);
    let cases: [(&[u64], &str); 4] = [
        (&[], "16 blocks are there, 0 corrected, 0 computed again"),
        (&[c(5)], "15 blocks are there, 1 corrected, 0 computed again"),
        // Nobody needs the products of a block that is right.
        (&[products(0), products(1)], "16 blocks are there, 0 corrected, 0 computed again"),
        // The first block of C, and one word of its first product and two of its second.
        (
            &[c(0), c(66), products(9), products(4096), products(8191)],
            "17 blocks are there, 1 corrected, 2 computed again",
        ),
    ];
    for (words, report) in cases {
        // Those of the case before are right again, or are flipped again.
        let _ = std::fs::remove_file(kernel.file());
        let _ = kernel.end();
        kernel.negate(words);
        let ended = kernel.end();
        assert!(ended.stderr.contains(report), "{words:?}: {}", ended.stderr);
        assert_eq!(ended.stdout, expected, "{words:?}");
    }
}

/// Catches results of other matrices, or of another run, that are taken for one's own.
#[test]
fn a_file_of_another_run_is_begun_anew() {
    let mut kernel = Kernel::abft("--n 256 --block 64 --seed 2");
    let second = kernel.plain();
    kernel.arguments = "--n 256 --block 64".to_owned();
    let first = kernel.plain();
    assert_ne!(first, second);
    assert_eq!(kernel.end().stdout, first);
    kernel.arguments += " --seed 2";
    assert_eq!(kernel.end().stdout, second);

    let mut kernel = Kernel::transport("--lookups 20000 --points 100 --nuclides 20");
    let second = kernel.plain();
    kernel.arguments = "--lookups 20000 --points 100 --nuclides 21".to_owned();
    assert_ne!(kernel.end().stdout, second);
    kernel.arguments = "--lookups 20000 --points 100 --nuclides 20".to_owned();
    assert_eq!(kernel.end().stdout, second);

    let mut kernel = Kernel::cg("--class S --solves 3 --iterations 12");
    let second = kernel.plain();
    kernel.arguments = "--class S --solves 2 --iterations 25".to_owned();
    let _ = kernel.end();
    kernel.arguments = "--class S --solves 3 --iterations 12".to_owned();
    assert_eq!(kernel.end().stdout, second);
}

/// The newest group is made one that a crash has left in part. Catches a group that is taken as it is found.
#[test]
fn a_torn_group_is_not_taken() {
    let kernel = Kernel::transport("--lookups 1001 --flush-every 100 --points 100 --nuclides 20");
    let expected = kernel.plain();
    assert_eq!(kernel.end().stdout, expected);
    // Group 10 is in the first slot, and group 9 in the second.
    for words in [0..1, 1..3, 0..4, 4..6] {
        let _ = std::fs::remove_file(kernel.file());
        let _ = kernel.end();
        let bytes = (words.end - words.start) * 8;
        kernel.copy_within(&[(4096 + words.start * 8, words.start * 8, bytes as usize)]);
        let ended = kernel.end();
        assert_eq!(recovered(&ended.stderr), Some((9, 2)), "{words:?}: {}", ended.stderr);
        assert_eq!(ended.stdout, expected, "{words:?}");
    }
}
