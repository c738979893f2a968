//! The fuzzing targets (`fuzz/`) without a fuzzer: over inputs that are nearly right, changed at
//! random, the same in every run.

// A test fails by panicking.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;
use std::ops::Range;
use std::panic::catch_unwind;
use std::path::Path;

use compression::{Bits, Bound, Element, Outcome};
use config::KEYS;
use format::aggregate::Offsets;
use format::delta::{Base, DeltaTable, Sparse};
use format::frames::{Codec, Compressor};
use format::header::Header;
use format::pmem::{encode_arrays, encode_mark, Array, Root, SLOTS_AT};
use format::subarray::{self, Subarray};
use rustix::param::page_size;
use rustix::process::{setrlimit, Resource, Rlimit};
use schedule::configured::ConfiguredSchedule;
use schedule::resume::Survivors;
use schedule::schedule::Stored;

#[path = "../fuzz/targets.rs"]
mod targets;

/// How many changed inputs each target gets.
const INPUTS: usize = 40_000;

/// Bytes of memory that the readers may have beside what the process has at the start: inputs have some KiB.
const MEMORY: u64 = 256 << 20;

/// Numbers at which readers go wrong.
const EDGES: [u64; 10] =
    [0, 1, 8, 127, 1 << 31, 1 << 32, 1 << 60, i64::MAX as u64, i64::MIN as u64, u64::MAX];

/// A small generator (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }
}

/// A compressed file.
fn compressed(content: &[u8], codec: Codec) -> Vec<u8> {
    let mut compressor = Compressor::new(codec, 1);
    let mut file = compressor.head().to_vec();
    let mut append = |bytes: &[u8]| {
        file.extend_from_slice(bytes);
        Ok(())
    };
    compressor.put(content, &mut append).unwrap();
    compressor.finish(append).unwrap();
    file
}

/// Inputs that the targets accept, or nearly.
fn seeds(target: &str) -> Vec<Vec<u8>> {
    let with_length = |len: u64, bytes: Vec<u8>| [&len.to_le_bytes()[..], &bytes].concat();
    match target {
        "header" => [vec![], vec![(1, 4)], vec![(-7, 0), (0, 300), (i32::MAX, 1 << 40)]]
            .into_iter()
            .map(|regions| Header::new(regions).unwrap())
            .map(|header| with_length(header.file_len(), header.encode()))
            .collect(),
        "subarrays" => {
            let part = |array: &[u64], offsets: &[u64], sizes: &[u64]| {
                Subarray::new(array, offsets, sizes, 8).unwrap()
            };
            let halves =
                [(1, part(&[4, 6], &[0, 0], &[2, 6])), (1, part(&[4, 6], &[2, 0], &[2, 6]))];
            let tables =
                [vec![], halves.to_vec(), vec![(-7, part(&[1, 2, 3], &[0, 1, 0], &[1, 1, 3]))]];
            // Without the sum.
            let encoded = tables.map(|table| subarray::encode(&table));
            encoded.iter().map(|table| table[..table.len() - 8].to_vec()).collect()
        }
        "frames" => [&b""[..], b"abc", &[7; 5000], &[1; (1 << 20) + 3]]
            .into_iter()
            .flat_map(|content| {
                [Codec::Lz4, Codec::Zstd(1)].map(|codec| compressed(content, codec))
            })
            .collect(),
        "delta" => {
            let sparse = |id, size, runs: Vec<Range<u64>>| Sparse { id, size, runs };
            let base = Some(Base { version: 3, number: 99 });
            [
                vec![],
                vec![sparse(1, 5000, vec![0..4096, 4098..4999])],
                vec![sparse(-7, 300, vec![]), sparse(2, 100_000, vec![10..12, 70..71])],
            ]
            .into_iter()
            .map(|regions| DeltaTable { number: 7, chain: 2, base, regions })
            .map(|table| [table.encode(), vec![5; table.data() as usize]].concat())
            .map(|bytes| with_length(bytes.len() as u64, bytes))
            .collect()
        }
        "pmem" => [0, 1, 3]
            .into_iter()
            .map(|arrays| {
                let of = |n: u64| Array {
                    name: format!("array {n}"),
                    kind: if n == 0 { b'f' } else { 0 },
                    element: 8,
                    count: 100,
                    slots: 3,
                    at: SLOTS_AT + n * 3 * 4096,
                    stride: 4096,
                };
                let arrays: Vec<Array> = (0..arrays).map(of).collect();
                let root = |sequence| Root {
                    sequence,
                    len: 1 << 20,
                    arrays: arrays.len() as u64,
                    table: 0,
                };
                let mark = encode_mark(63, &[1.5, -2.0], 63);
                let roots = [root(4).encode(), root(5).encode()].concat();
                [roots, mark.to_vec(), encode_arrays(&arrays)].concat()
            })
            .collect(),
        "table" => [vec![8], vec![20, 300, 8], vec![1 << 40; 9]]
            .into_iter()
            .map(|lengths: Vec<u64>| Offsets::of_lengths(&lengths).unwrap())
            .map(|offsets| with_length(offsets.file_len(), offsets.encode()))
            .collect(),
        "names" => [
            "x-0-7.dat",
            "wave.field-4294967295-2147483647.dat",
            ".x-0-7.dat.tmp-4711-2",
            ".x-0-7.dat.routed",
            "x-agg-7.dat",
            "x-0-7.dat.chksum",
        ]
        .map(|name| name.as_bytes().to_vec())
        .into(),
        "checksum" => vec![b"\x03abcdef".to_vec(), b"\0x-0-7.dat.chksum".to_vec(), vec![200; 400]],
        "configuration" => {
            let small = "mode = async\nscratch = /s ; a comment\n[section]\nkey = 1\n";
            let ephemeral = "mode=sync\nephemeral = true\nhost_cache_size = 1.5G\n";
            let words = ["true", "1", "64M", "reverse", "-1", "off", "\"x\"", ""];
            let all: String = KEYS
                .iter()
                .zip(words.iter().cycle())
                .map(|(key, word)| format!("{} = {word}\n", key.name))
                .collect();
            [small.to_owned(), ephemeral.to_owned(), all].map(String::into_bytes).into()
        }
        "schedule" => {
            let mut courses = Vec::new();
            for (steps, slots) in [(1, 1), (100, 5), (40, 60)] {
                courses.push(ConfiguredSchedule::new(steps, slots).unwrap());
                let mut course = ConfiguredSchedule::new(steps, slots).unwrap();
                course.set_disk(4, 2.0, 1.5).unwrap();
                course.set_failures(300.0, 2.0, 3.0).unwrap();
                courses.push(course);
                courses.push(ConfiguredSchedule::online(slots).unwrap());
            }
            let mut course = ConfiguredSchedule::new(100, 5).unwrap();
            course.set_adjoint(12).unwrap();
            let states = [(0, 0), (30, 1), (44, 2), (51, 3), (56, 4)];
            let states = states.map(|(state, slot)| Stored { state, slot }).to_vec();
            course.resume(&Survivors { states, adjoint: Some(64), at_start: false }).unwrap();
            courses.push(course);
            let mut seeds = Vec::new();
            for mut course in courses {
                for action in 0..80 {
                    if action % 9 == 0 {
                        seeds.push(course.pack());
                    }
                    let _ = course.next_action();
                }
                let _ = course.end();
                seeds.push(course.pack());
            }
            seeds
        }
        "encoded" => {
            let kinds = [Element::F32, Element::F64].into_iter().flat_map(|element| {
                [Bits::Eight, Bits::Twelve, Bits::Sixteen].map(|bits| (element, bits))
            });
            let encoded = kinds.flat_map(|(element, bits)| {
                [0, 1, 200].map(|values: usize| {
                    let values = (0..values).map(|n| if n == 70 { f64::NAN } else { n as f64 });
                    let content: Vec<u8> = match element {
                        Element::F32 => values.flat_map(|x| (x as f32).to_le_bytes()).collect(),
                        Element::F64 => values.flat_map(f64::to_le_bytes).collect(),
                    };
                    let len = compression::encoded_len(content.len() as u64, element, bits);
                    let mut bytes = vec![0; len.unwrap() as usize];
                    let bound = Bound::absolute(2.0).unwrap();
                    let made = compression::encode(&content, element, bits, &bound, 1, &mut bytes);
                    assert_ne!(made, Ok(Outcome::Overflow));
                    bytes
                })
            });
            let wave = (0..300).flat_map(|n| (n as f32 * 0.1).sin().to_le_bytes());
            let lossless = [Element::F32, Element::F64].map(|element| {
                let values =
                    (0..400).map(|n| if n < 130 { 0.0 } else { (f64::from(n) * 0.1).sin() });
                let content: Vec<u8> = match element {
                    Element::F32 => values.flat_map(|x| (x as f32).to_le_bytes()).collect(),
                    Element::F64 => values.flat_map(f64::to_le_bytes).collect(),
                };
                let mut bytes = vec![0; 5000];
                let len = compression::encode_lossless(&content, element, 1, &mut bytes);
                bytes.truncate(len.unwrap().unwrap() as usize);
                bytes
            });
            let ways = [0, 1, 2, 3, 4, 5, 64, 65];
            let ways = ways
                .into_iter()
                .map(|how| [&[how, 252][..], &wave.clone().collect::<Vec<_>>()].concat());
            encoded.chain(lossless).chain(ways).collect()
        }
        other => panic!("{other} has no seeds"),
    }
}

/// Changes an input a little: bits, bytes, numbers, its length, or by a piece of another one.
fn mutate(input: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    for _ in 0..=random.below(4) {
        let at = random.below(input.len());
        let piece = &other[random.below(other.len())..];
        let piece = &piece[..random.below(24).min(piece.len())];
        match random.below(7) {
            0 if !input.is_empty() => input[at] ^= 1 << random.below(8),
            1 if !input.is_empty() => input[at] = random.next() as u8,
            2 => input.truncate(at),
            3 => drop(input.splice(at..at, piece.iter().copied())),
            4 => drop(input.splice(at..(at + random.below(9)).min(input.len()), [])),
            5 if input.len() >= 8 => {
                let at = random.below(input.len() - 7);
                let edge = EDGES[random.below(EDGES.len())];
                input[at..at + 8].copy_from_slice(&edge.to_le_bytes());
            }
            _ => input.extend(EDGES[random.below(EDGES.len())].to_string().into_bytes()),
        }
    }
}

/// Lets the process ask for no more than `more` bytes beside what it has.
fn limit_memory(more: u64) {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = status.split(' ').next().unwrap().parse().unwrap();
    let limit = Rlimit { current: Some(pages * page_size() as u64 + more), maximum: None };
    setrlimit(Resource::As, limit).unwrap();
}

/// Catches a reader that panics, overflows, asks for memory because its input says so, or accepts what does not add up. A
/// failure prints the input, which `cargo fuzz run <target> <file>` takes too.
#[test]
fn readers_answer_any_bytes() {
    limit_memory(MEMORY);
    for (name, run) in targets::TARGETS {
        let mut random = Random(name.len() as u64);
        let mut inputs = seeds(name);
        inputs.iter().for_each(|seed| run(seed));
        let inputs_tried =
            if std::env::var_os("VELOC_TEST_ALL").is_some() { INPUTS } else { INPUTS / 4 };
        for _ in 0..inputs_tried {
            let mut input = inputs[random.below(inputs.len())].clone();
            let other = inputs[random.below(inputs.len())].clone();
            mutate(&mut input, &other, &mut random);
            if catch_unwind(|| run(&input)).is_err() {
                panic!("{name}: the input {}", input.escape_ascii());
            }
            // Some changed ones are changed further.
            if random.below(64) == 0 && input.len() < 4096 && inputs.len() < 500 {
                inputs.push(input);
            }
        }
    }
}

/// Catches a target that `cargo fuzz` does not know, or that no short run is made of, and a page that
/// names others.
#[test]
fn every_target_is_a_program() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |file: &str| std::fs::read_to_string(folder.join(file)).unwrap();
    let (manifest, page) = (read("fuzz/Cargo.toml"), read("docs/testing.md"));
    let line = page.lines().find(|line| line.contains("cargo +nightly fuzz run")).unwrap();
    let programs = std::fs::read_dir(folder.join("fuzz/fuzz_targets")).unwrap();
    let programs: BTreeSet<String> =
        programs.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    let targets: BTreeSet<String> =
        targets::TARGETS.iter().map(|(name, _)| format!("{name}.rs")).collect();
    assert_eq!(programs, targets);
    for (name, _) in targets::TARGETS {
        let path = format!("path = \"fuzz_targets/{name}.rs\"");
        assert!(manifest.contains(&path), "fuzz/Cargo.toml lacks {path}");
        assert!(line.contains(name), "{line:?} lacks {name}");
    }
}
