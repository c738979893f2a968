//! Adjoints whose stored states are compressed: the gradient, the Taylor test, the slots.

use capi_tests::job::Job;
use capi_tests::program::mpi_program;
use schedule::configured::ConfiguredSchedule;

use crate::mpi::every_mpi;

const KEYS: &str = "mode = async\nscratch = DIR/scratch\nhost_cache_size = 16M\n";
const BYTES: u64 = 4000 * 8;

/// What a run has printed: the gradient's error, its forward steps, and the rests of the Taylor test.
struct Seen {
    error: f64,
    forward: u128,
    rests: Vec<(f64, f64)>,
}

fn seen(stdout: &str) -> Seen {
    let mut seen = Seen { error: f64::NAN, forward: 0, rests: Vec::new() };
    for line in stdout.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["error", error] => seen.error = error.parse().unwrap(),
            ["forward", steps] => seen.forward = steps.parse().unwrap(),
            ["rest", part, rest] => {
                seen.rests.push((part.parse().unwrap(), rest.parse().unwrap()));
            }
            _ => {}
        }
    }
    seen
}

/// The forward steps of a run with so many slots, whose last step is the adjoint's.
fn steps(slots: u64) -> u128 {
    ConfiguredSchedule::new(200, slots as i64).unwrap().cost().unwrap().advances
}

/// The slots that have room where ten would have it as they are.
fn slots(bits: compression::Bits) -> u64 {
    10 * BYTES / compression::encoded_len(BYTES, compression::Element::F64, bits).unwrap()
}

/// What is wrong with the derivative in the direction of the test: by this the rest falls in the end, with order 1.
fn floor(seen: &Seen) -> f64 {
    seen.rests.last().map_or(f64::NAN, |(part, rest)| rest / part)
}

/// The orders with which the rest falls as long as it is far above that.
fn orders(seen: &Seen) -> Vec<f64> {
    let floor = floor(seen);
    let pairs = seen.rests.windows(2).filter(|two| two[1].1 > 30.0 * floor * two[1].0);
    pairs.map(|two| (two[0].1 / two[1].1).log10()).collect()
}

/// Catches states that are restored for others, or beyond their bound; slots that are not used; and an error of the
/// gradient that the bound does not explain. A perturbation of a state by `b` changes the adjoint's step by `2 dt b`, so all
/// states together change the gradient by no more than `2 T b = 4 b`.
#[test]
fn the_gradient_is_as_exact_as_the_bound() {
    let exact = seen(&Job::new(KEYS).run("taylor", "check=1").succeed().stdout);
    assert!(exact.error == 0.0, "{}", exact.error);
    assert_eq!(exact.forward, steps(10));
    assert!(orders(&exact).len() >= 4 && orders(&exact).iter().all(|order| *order > 1.9));
    // Without loss nothing is known of the room, and nothing of the gradient is lost.
    let lossless = seen(&Job::new(KEYS).run("taylor", "bits=64 bound=0 check=1").succeed().stdout);
    assert!(lossless.error == 0.0, "{}", lossless.error);
    assert_eq!((lossless.forward, lossless.rests), (exact.forward, exact.rests));
    let mut errors = Vec::new();
    use compression::Bits;
    for (bits, kind, bound) in
        [(8, Bits::Eight, 1e-2), (12, Bits::Twelve, 1e-3), (16, Bits::Sixteen, 1e-4)]
    {
        let arguments = format!("bits={bits} bound={bound} check=1");
        let ended = Job::new(KEYS).run("taylor", &arguments).succeed();
        let seen = seen(&ended.stdout);
        println!("{arguments}: error {:.1e}, {} steps", seen.error, seen.forward);
        assert!(0.0 < seen.error && seen.error <= 4.0 * bound, "{arguments}: {}", seen.error);
        assert_eq!(seen.forward, steps(slots(kind)), "{arguments}");
        // The gradient has a sum below 1, and the direction no value above.
        assert!(floor(&seen) <= 4.0 * bound, "{arguments}: {}", floor(&seen));
        let orders = orders(&seen);
        assert!(!orders.is_empty() && orders.iter().all(|order| *order > 1.9), "{orders:?}");
        errors.push(seen.error);
    }
    assert!(errors.is_sorted_by(|one, next| next < one), "{errors:?}");
    // What does not fit its bits is taken as it is.
    let ended = Job::new(KEYS).run("taylor", "bits=16 bound=1e-6 check=1").succeed();
    assert!(seen(&ended.stdout).error == 0.0);
    // With so many slots hardly a step is computed again.
    assert!(steps(slots(Bits::Eight)) < steps(10) * 7 / 10);
}

/// Catches a run that goes on with other slots than it began with, or from a state that it takes for damaged.
#[test]
fn a_killed_run_goes_on_from_compressed_states() {
    for (step, device) in [(200, false), (150, true), (60, false), (3, true)] {
        let job = Job::new(&format!("{KEYS}gpu_cache_size = 4M\n"));
        let run = |more: &str| {
            let arguments = format!("bits=12 bound=1e-3 {more}");
            match device {
                true => job.run_device("taylor", &format!("{arguments} device=1")),
                false => job.run("taylor", &arguments),
            }
        };
        run(&format!("kill={step}")).end();
        let ended = run("check=1").succeed();
        let seen = seen(&ended.stdout);
        assert!(seen.error <= 4e-3, "{step}: {}", seen.error);
        assert!(seen.forward < 199 + steps(slots(compression::Bits::Twelve)), "{}", seen.forward);
    }
}

/// Catches processes that go by slots of their own: they would wait for each other for ever.
#[test]
fn all_processes_have_the_same_slots() {
    for mpi in every_mpi() {
        let job = Job::new(KEYS);
        let Some(run) = mpi.start(2) else { return };
        let run = run.arg(mpi_program(mpi.compiler, "taylor.c")).arg(job.path("veloc.cfg"));
        let ended = run.args("bits=8 bound=1e-2").succeed();
        let small =
            compression::encoded_len(BYTES, compression::Element::F64, compression::Bits::Eight);
        let forward = format!("forward {}\n", steps(10 * 2 * BYTES / (BYTES + small.unwrap())));
        assert_eq!(ended.stdout.matches(&forward).count(), 2, "{forward}{}", ended.stdout);
    }
}

/// Catches states that are compressed in some runs of a name and not in others, and modes that cannot be.
#[test]
fn what_cannot_be_is_refused() {
    Job::new(KEYS).run("taylor", "bits=16 bound=1e-4 refuse=1").succeed();
    let job = Job::new(KEYS);
    job.run("taylor", "bits=16 bound=1e-4 kill=100").end();
    let ended = job.run("taylor", "").end();
    assert!(ended.stdout.contains("their bits decide how many slots"), "{}", ended.stdout);
    job.run("taylor", "bits=16 bound=1e-4").succeed();
}

/// Catches an error that has the user count slots where states take more room than their bits would.
#[test]
fn states_that_do_not_fit_their_bits_are_told() {
    let job = Job::new("mode = async\nephemeral = true\nhost_cache_size = 400K\n");
    let ended = job.run("taylor", "bits=8 bound=1e-300").end();
    let said = format!("{}{}", ended.stdout, ended.stderr);
    assert!(said.contains("cannot be stored in slot"), "{said}");
    assert!(said.contains("that do not fit their bits"), "{said}");
}
