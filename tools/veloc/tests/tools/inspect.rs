//! `veloc inspect`, and `veloc-inspect` as upstream has it.

use std::fs::{self, File};
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::os::unix::fs::{symlink, PermissionsExt as _};

use std::process::{Command, Stdio};
use std::ptr::null_mut;

use compression::{encode, encode_lossless, encoded_len, Bits, Bound, Element};
use format::frames::{Codec, Compressor};
use format::header::{Header, Size};
use format::identity::Identity;
use format::proof::{Digest, Proof, Sort, NAME};
use format::subarray::{self, Subarray};
use os::attributes;
use serde_json::json;

use crate::files::{checkpoint, incremental, region_of, run, Job, GOLDEN, GOLDEN_SHA256};

#[test]
fn what_is_in_a_file() {
    let job = Job::new();
    job.write("scratch/wave-3-12.dat", &GOLDEN);
    let text = job.veloc("inspect scratch/wave-3-12.dat").success();
    for part in
        ["checkpoint \"wave\" version 12, rank 3", "40 bytes", GOLDEN_SHA256, "32 of header"]
    {
        assert!(text.contains(part), "{text}");
    }
    let found = job.veloc("inspect scratch/wave-3-12.dat --config veloc.cfg --json");
    let meta = job.path("meta/wave-3-12.dat.chksum");
    assert_eq!(
        found.json(),
        json!({
            "path": "scratch/wave-3-12.dat",
            "name": "wave", "version": 12, "rank": 3,
            "bytes": 40, "header_bytes": 32,
            "regions": [
                {"id": -1, "bytes": 3, "offset": 32},
                {"id": 2, "bytes": 5, "offset": 35},
            ],
            "checksum": {
                "sha256": GOLDEN_SHA256, "kept": null, "kept_in": meta, "matches": null,
            },
            "proof": null,
        })
    );
    // A file with another name: nothing is known but its content.
    job.write("other", &GOLDEN);
    let found = job.veloc("inspect other --no-checksum --json").json();
    assert_eq!((&found["name"], &found["checksum"]), (&json!(null), &json!(null)));
}

/// Catches a block that is shown of another region, and a region of the application's own that is taken for the table.
#[test]
fn blocks_of_arrays_are_shown() {
    let part = Subarray::new(&[8, 20], &[2, 10], &[3, 10], 4).unwrap();
    let table = subarray::encode(&[(3, part)]);
    let job = Job::new();
    for (version, table, shown) in [
        (
            1,
            &table[..],
            Some("3 x 10 elements at [2, 10] of an array of 8 x 20 elements of 4 bytes"),
        ),
        (2, &[7; 40][..], None),
    ] {
        let sizes = vec![(subarray::REGION, table.len() as u64), (3, 120), (5, 2)];
        let file = [Header::new(sizes).unwrap().encode(), table.to_vec(), vec![0; 122]].concat();
        job.write(&format!("scratch/wave-3-{version}.dat"), &file);
        let path = format!("scratch/wave-3-{version}.dat");
        let found = job.veloc(&format!("inspect {path} --no-checksum --json")).json();
        assert_eq!(found["regions"][1].get("part"), shown.map(|part| json!(part)).as_ref());
        assert_eq!(found["regions"][2].get("part"), None);
        let text = job.veloc(&format!("inspect {path}")).success();
        assert_eq!(text.contains("region 3: 3 x 10 elements"), shown.is_some(), "{text}");
    }
}

/// Catches compressed bytes that are taken for a region's, and what a file says of them that is not shown.
#[test]
fn compressed_regions_are_shown_and_extracted() {
    let values: Vec<u8> = (0..1000).flat_map(|i| (i as f32 * 0.25).to_le_bytes()).collect();
    let (element, bits) = (Element::F32, Bits::Eight);
    let stored = encoded_len(4000, element, bits).unwrap();
    let mut encoded = vec![0; stored as usize];
    encode(&values, element, bits, &Bound::absolute(2.0).unwrap(), 1, &mut encoded).unwrap();
    let size = Size { stored, decoded: Some(4000) };
    let header = Header::new(vec![(3, size), (5, Size::from(2))]).unwrap();
    let job = Job::new();
    let mut file = [header.encode(), encoded, b"ab".to_vec()].concat();
    job.write("scratch/wave-3-12.dat", &file);
    let found = job.veloc("inspect scratch/wave-3-12.dat --no-checksum --json").json();
    let compressed = &found["regions"][0]["compressed"];
    assert_eq!(compressed["uncompressed_bytes"], 4000);
    assert_eq!((&compressed["bits"], &compressed["bound"]), (&json!(8), &json!(2.0)));
    let error = compressed["error"].as_f64().unwrap();
    assert!(error > 0.0 && error <= 1.0, "{error}");
    assert_eq!(found["regions"][1].get("compressed"), None);
    let text = job.veloc("inspect scratch/wave-3-12.dat").success();
    assert!(text.contains("region 3: 4000 bytes (3.9 KiB) when decompressed; 8 bits"), "{text}");
    job.veloc("inspect scratch/wave-3-12.dat --extract 3 --output out").success();
    let extracted = fs::read(job.path("out")).unwrap();
    let float = |bytes: &[u8]| f32::from_le_bytes(bytes.try_into().unwrap());
    assert_eq!(extracted.len(), 4000);
    for (was, is) in values.chunks(4).zip(extracted.chunks(4)) {
        assert!((float(was) - float(is)).abs() <= error as f32);
    }
    job.veloc("inspect scratch/wave-3-12.dat --extract 3 --size 40 --output out").success();
    assert_eq!(fs::read(job.path("out")).unwrap(), extracted[..40]);
    // Without loss.
    let zeros = [vec![0; 2000], values[..2000].to_vec()].concat();
    let mut lossless = vec![0; 4000];
    let stored = encode_lossless(&zeros, element, 1, &mut lossless).unwrap().unwrap();
    lossless.truncate(stored as usize);
    let header = Header::new(vec![(3, Size { stored, decoded: Some(4000) })]).unwrap();
    job.write("scratch/wave-3-13.dat", &[header.encode(), lossless].concat());
    let found = job.veloc("inspect scratch/wave-3-13.dat --no-checksum --json").json();
    let said = json!({ "uncompressed_bytes": 4000, "element_bytes": 4, "lossless": true });
    assert_eq!(found["regions"][0]["compressed"], said);
    let text = job.veloc("inspect scratch/wave-3-13.dat").success();
    assert!(text.contains("when decompressed; lossless, values of 4 bytes"), "{text}");
    job.veloc("inspect scratch/wave-3-13.dat --extract 3 --output out").success();
    assert_eq!(fs::read(job.path("out")).unwrap(), zeros);
    // Its own header.
    file[48 + 3] ^= 1;
    job.write("scratch/wave-3-12.dat", &file);
    job.veloc("inspect scratch/wave-3-12.dat --no-checksum").failure(&["wave-3-12.dat: region 3"]);
}

/// Catches a proof that is not looked at, and one of another checkpoint that fits.
#[test]
fn proofs_are_compared() {
    let job = Job::new();
    let path = "scratch/wave-3-12.dat";
    let prove = |rank: u32| {
        let path = job.write(path, &GOLDEN);
        let (name, digest) = ("wave".to_owned(), Digest::of(Sort::Xxh3, &GOLDEN));
        let proof = Proof {
            name,
            version: 12,
            rank,
            ranks: 4,
            identity: Identity::UNKNOWN,
            len: 40,
            digest: Some(digest),
        };
        let file = std::fs::File::open(&path).unwrap();
        attributes::set(&file, NAME, &proof.encode()).is_ok()
    };
    if !prove(3) {
        println!("skipped: the folder for temporary files keeps no extended attributes");
        return;
    }
    let text = job.veloc(&format!("inspect {path}")).success();
    assert!(text.contains("\"wave\" version 12 of rank 3 of 4, 40 bytes, XXH3"), "{text}");
    assert!(job.veloc("verify --config veloc.cfg").success().contains("good"));
    let mut flipped = GOLDEN;
    flipped[39] ^= 1;
    job.write(path, &flipped);
    job.veloc(&format!("inspect {path}")).failure(&["wave-3-12.dat", "does not fit its proof"]);
    let said = job.veloc("verify --config veloc.cfg").stdout();
    assert!(said.contains("its bytes have XXH3"), "{said}");
    prove(2);
    job.veloc(&format!("inspect {path}")).failure(&["wave-3-12.dat", "does not fit its proof"]);
    let said = job.veloc("verify --config veloc.cfg").stdout();
    assert!(said.contains("its proof says \"wave\" version 12 of rank 2"), "{said}");
    std::fs::remove_file(job.path(path)).unwrap();
    job.write(path, &GOLDEN);
    let said = job.veloc("verify --config veloc.cfg").success();
    assert!(said.contains("not checked: 3"), "{said}");
}

/// Catches a comparison that is left out, that takes another file's checksum, or that compares
/// texts.
#[test]
fn checksums_are_compared() {
    let job = Job::new();
    let path = "scratch/wave-3-12.dat";
    job.write(path, &GOLDEN);
    job.keep_checksum("wave-3-12.dat", &GOLDEN);
    let found = job.veloc(&format!("inspect {path} --meta meta --json")).json();
    assert_eq!(found["checksum"]["matches"], true);
    assert_eq!(found["checksum"]["kept"], GOLDEN_SHA256);
    assert!(job.veloc(&format!("inspect {path} --meta meta")).success().contains("as kept in"));

    let mut flipped = GOLDEN;
    flipped[39] ^= 1;
    job.write(path, &flipped);
    let ran = job.veloc(&format!("inspect {path} --meta meta --json"));
    ran.failure(&["wave-3-12.dat", "checksum"]);
    assert_eq!(ran.json()["checksum"]["matches"], false);
    job.write("meta/wave-3-12.dat.chksum", b"short");
    job.veloc(&format!("inspect {path} --meta meta")).failure(&["chksum", "5 bytes"]);
}

#[test]
fn regions_become_files() {
    let job = Job::new();
    job.write("wave-3-12.dat", &GOLDEN);
    assert_eq!(job.veloc("inspect wave-3-12.dat --extract -1").success(), "abc");
    assert_eq!(job.veloc("inspect wave-3-12.dat --extract 2 --size 4").success(), "defg");
    assert_eq!(job.veloc("inspect wave-3-12.dat --extract 2 --size 0").success(), "defgh");
    job.veloc("inspect wave-3-12.dat --extract 2 --output out").success();
    assert_eq!(fs::read(job.path("out")).unwrap(), b"defgh");
    let mode = fs::metadata(job.path("out")).unwrap().permissions().mode();
    assert_eq!(mode & 0o400, 0o400);
    // A device is written to, not replaced.
    symlink("/dev/null", job.path("null")).unwrap();
    job.veloc("inspect wave-3-12.dat --extract 2 --output null").success();
    assert!(fs::symlink_metadata(job.path("null")).unwrap().is_symlink());
    job.veloc("inspect wave-3-12.dat --extract 1").failure(&["wave-3-12.dat", "no region 1"]);
    job.veloc("inspect wave-3-12.dat --extract 2 --size 6").failure(&["5 bytes, fewer than the 6"]);
    job.veloc("inspect wave-3-12.dat --extract 2 --output wave-3-12.dat")
        .failure(&["the checkpoint itself"]);
    job.veloc("inspect wave-3-12.dat --extract 2 --output none/x").failure(&["none/x"]);
    assert_eq!(fs::read(job.path("wave-3-12.dat")).unwrap(), GOLDEN);
    assert_eq!(job.veloc("inspect wave-3-12.dat --output x").code(), Some(2));
    assert_eq!(job.veloc("inspect").code(), Some(2));
    let left: Vec<_> = fs::read_dir(job.folder.path()).unwrap().collect();
    assert_eq!(left.len(), 7, "{left:?}");
}

/// Catches a compressed file whose compressed bytes are shown, listed as damaged, or extracted.
#[test]
fn compressed_files() {
    let job = Job::new();
    let mut compressor = Compressor::new(Codec::Lz4, 1);
    let mut file = compressor.head().to_vec();
    let region = [b'x'; 3000];
    let mut append = |bytes: &[u8]| {
        file.extend_from_slice(bytes);
        Ok(())
    };
    compressor.put(&checkpoint(&region), &mut append).unwrap();
    compressor.finish(append).unwrap();
    job.write("scratch/wave-3-12.dat", &file);
    let found = job.veloc("inspect scratch/wave-3-12.dat --json").json();
    assert_eq!((&found["bytes"], &found["content_bytes"]), (&json!(file.len()), &json!(3020)));
    assert_eq!(found["regions"], json!([{"id": 0, "bytes": 3000, "offset": 20}]));
    let text = job.veloc("inspect scratch/wave-3-12.dat").success();
    assert!(text.contains("compressed from 3020 bytes"), "{text}");
    let extracted = job.veloc("inspect scratch/wave-3-12.dat --extract 0").success();
    assert!(extracted.as_bytes() == region);
    job.veloc("verify --config veloc.cfg").success();
    // A frame that is damaged is one nowhere else, as the file has no proof.
    file[40] ^= 1;
    job.write("scratch/wave-3-12.dat", &file);
    for wrong in ["inspect scratch/wave-3-12.dat", "inspect scratch/wave-3-12.dat --extract 0"] {
        job.veloc(wrong).failure(&["wave-3-12.dat", "frame"]);
    }
    assert_eq!(job.veloc("verify --config veloc.cfg").code(), Some(1));
    // A terabyte of holes that says it is one of these.
    let hollow = fs::File::create(job.path("scratch/wave-3-12.dat")).unwrap();
    let len = 1_u64 << 40;
    hollow.write_all_at(&file[..16], 0).unwrap();
    let tail = [((len - 1000) / 16 * (256 << 10)).to_le_bytes(), [7; 8], *b"VELOCfrm"].concat();
    hollow.write_all_at(&tail, len - 24).unwrap();
    job.veloc("inspect scratch/wave-3-12.dat").failure(&["wave-3-12.dat", "index of its frames"]);
    assert_eq!(job.veloc("verify --config veloc.cfg").code(), Some(1));
}

/// Catches a delta whose table is shown as a region, whose own bytes are taken for the whole, and a base that is looked
/// for in one directory only.
#[test]
fn deltas_have_what_their_bases_have() {
    let job = Job::new();
    job.write("scratch/wave-3-1.dat", &incremental(1, 0, None));
    job.write("scratch/wave-3-2.dat", &incremental(2, 1, Some(1)));
    let last = incremental(4, 2, Some(2));
    job.write("scratch/wave-3-4.dat", &last);
    let found = job.veloc("inspect scratch/wave-3-4.dat --json").json();
    assert_eq!(
        found["incremental"],
        json!({"delta_of": 2, "below": 2, "changed_bytes": 10, "changed_regions": 1})
    );
    assert_eq!(
        found["regions"],
        json!([
            {"id": 1, "bytes": 100, "offset": null},
            {"id": 2, "bytes": 1, "offset": last.len() - 1},
        ])
    );
    let text = job.veloc("inspect scratch/wave-3-4.dat").success();
    let line = "incremental: a delta of version 2, with at most 2 versions below it; 10 bytes of changes in 1 region\n";
    assert!(text.contains(line) && text.contains("in part"), "{text}");
    let text = job.veloc("inspect scratch/wave-3-1.dat").success();
    assert!(text.contains("incremental: it has everything\n"), "{text}");

    let tool = job.path("veloc-inspect");
    symlink(env!("CARGO_BIN_EXE_veloc"), &tool).unwrap();
    let said = run(&tool, job.folder.path(), "-h scratch/wave-3-4.dat").success();
    assert!(said.ends_with("id = 1, size = 100\nid = 2, size = 1\nTotal checkpoint size = 101\n"));
    let expected = String::from_utf8(region_of(&[1, 2, 4])).unwrap();
    let said = run(&tool, job.folder.path(), "-e 1 -c scratch/wave-3-4.dat").success();
    assert_eq!(said, expected);
    for (from, more) in [("persistent", "--config veloc.cfg"), ("scratch", "")] {
        let base = format!("{from}/wave-3-1.dat");
        if !job.path(&base).exists() {
            fs::rename(job.path("scratch/wave-3-1.dat"), job.path(&base)).unwrap();
        }
        let asked = format!("inspect scratch/wave-3-4.dat --extract 1 {more}");
        assert_eq!(job.veloc(&asked).success(), expected, "{from}");
        let _ = fs::rename(job.path(&base), job.path("scratch/wave-3-1.dat"));
    }
}

/// Catches a delta that is given out without its base, or with another one, and one of which nothing is shown then.
#[test]
fn a_base_that_is_not_there_is_named() {
    let job = Job::new();
    let base = incremental(1, 0, None);
    job.write("scratch/wave-3-2.dat", &incremental(2, 1, Some(1)));
    job.write("scratch/wave-3-4.dat", &incremental(4, 2, Some(2)));
    let fails = |words: &[&str]| {
        let ran = job.veloc("inspect scratch/wave-3-4.dat --meta meta");
        ran.failure(words);
        assert!(ran.stdout().contains("a delta of version 2, with at most 2"), "{}", ran.stdout());
        let ran = job.veloc("inspect scratch/wave-3-4.dat --meta meta --json");
        ran.failure(words);
        assert_eq!(ran.json()["incremental"]["delta_of"], 2);
    };
    let extract = || job.veloc("inspect scratch/wave-3-4.dat --extract 1");
    fails(&["wave-3-2.dat", "a delta of version 1", "no file of \"wave\" version 1, rank 3"]);
    extract().failure(&["version 1, rank 3, in scratch"]);
    for another in [GOLDEN.to_vec(), incremental(5, 0, None)] {
        job.write("scratch/wave-3-1.dat", &another);
        fails(&["scratch/wave-3-1.dat: it is another checkpoint"]);
        extract().failure(&["scratch/wave-3-1.dat: it is another checkpoint"]);
    }
    // Damage that only a checksum tells is found where all is read.
    job.write("scratch/wave-3-1.dat", &base);
    job.keep_checksum("wave-3-1.dat", &base);
    job.veloc("inspect scratch/wave-3-4.dat --meta meta").success();
    let mut flipped = base.clone();
    *flipped.last_mut().unwrap() ^= 1;
    job.write("scratch/wave-3-1.dat", &flipped);
    fails(&["scratch/wave-3-1.dat: its bytes have SHA-256"]);
    job.veloc("inspect scratch/wave-3-4.dat --meta meta --no-checksum").success();
    // A good one elsewhere is enough.
    job.write("persistent/wave-3-1.dat", &base);
    job.veloc("inspect scratch/wave-3-4.dat --config veloc.cfg").success();
    job.write("other", &incremental(2, 1, Some(1)));
    job.veloc("inspect other").failure(&["other: it is a delta of version 1", "does not say"]);
}

/// Catches bases that are looked for in the part of another rank, or in files of their own alone.
#[test]
fn deltas_in_aggregated_files() {
    let job = Job::new();
    job.aggregate("wave", 1, &[checkpoint(b"rank 0"), incremental(1, 0, None)]);
    job.aggregate("wave", 2, &[checkpoint(b"rank 0"), incremental(2, 1, Some(1))]);
    let file = "persistent/wave-agg-2.dat --meta meta";
    let found = job.veloc(&format!("inspect {file} --json")).json();
    assert_eq!(found["ranks"][1]["delta_of"], 1);
    assert_eq!(found["ranks"][1]["regions"], 2);
    assert_eq!(
        (&found["ranks"][0]["delta_of"], &found["ranks"][0]["regions"]),
        (&json!(null), &json!(1))
    );
    assert!(job.veloc(&format!("inspect {file}")).success().contains("delta of"));
    let extracted = job.veloc(&format!("inspect {file} --rank 1 --extract 1")).success();
    assert_eq!(extracted.as_bytes(), region_of(&[1, 2]));
    job.veloc(&format!("inspect {file} --rank 1")).success();
    // A file of the rank's own does as well.
    fs::remove_file(job.path("persistent/wave-agg-1.dat")).unwrap();
    job.write("persistent/wave-1-1.dat", &incremental(1, 0, None));
    job.veloc(&format!("inspect {file} --rank 1")).success();
    job.write("persistent/wave-1-1.dat", &GOLDEN);
    let ran = job.veloc(&format!("inspect {file}"));
    ran.failure(&["1 of 2 parts"]);
    assert!(ran.stdout().contains("persistent/wave-1-1.dat: it is another"), "{}", ran.stdout());
}

/// Catches a part that is read from its neighbour's bytes, and a checksum of the whole file.
#[test]
fn parts_of_aggregated_files() {
    let job = Job::new();
    let parts = [checkpoint(b"rank 0"), GOLDEN.to_vec(), checkpoint(b"")];
    job.aggregate("wave", 7, &parts);
    job.keep_checksum("wave-1-7.dat", &GOLDEN);
    let file = "persistent/wave-agg-7.dat --config veloc.cfg";
    let found = job.veloc(&format!("inspect {file} --json")).json();
    assert_eq!(found["bytes"], 26 + 40 + 20);
    assert_eq!(
        found["ranks"],
        json!([
            {"rank": 0, "offset": 0, "bytes": 26, "regions": 1, "error": null},
            {"rank": 1, "offset": 26, "bytes": 40, "regions": 2, "error": null},
            {"rank": 2, "offset": 66, "bytes": 20, "regions": 1, "error": null},
        ])
    );
    let found = job.veloc(&format!("inspect {file} --rank 1 --json")).json();
    assert_eq!((&found["rank"], &found["bytes"]), (&json!(1), &json!(40)));
    assert_eq!(found["regions"][1], json!({"id": 2, "bytes": 5, "offset": 61}));
    assert_eq!(found["checksum"]["matches"], true);
    assert_eq!(job.veloc(&format!("inspect {file} --rank 1 --extract 2")).success(), "defgh");
    assert_eq!(job.veloc(&format!("inspect {file} --rank 0 --extract 0")).success(), "rank 0");
    job.veloc(&format!("inspect {file} --rank 3")).failure(&["no rank 3", "3 ranks"]);
    job.veloc(&format!("inspect {file} --extract 0")).failure(&["--rank"]);
    job.veloc("inspect persistent/wave-agg-7.dat").failure(&["--meta"]);
    job.veloc("inspect meta/wave-agg-7.dat --meta meta").failure(&["the table"]);
    job.write("x-0-1.dat", &GOLDEN);
    job.veloc("inspect x-0-1.dat --rank 0").failure(&["x-0-1.dat", "--rank 0"]);

    // One damaged part does not spoil the others.
    let mut bytes = parts.concat();
    bytes[26] = 200;
    job.write("persistent/wave-agg-7.dat", &bytes);
    let ran = job.veloc(&format!("inspect {file} --json"));
    ran.failure(&["1 of 3 parts"]);
    assert_eq!(ran.json()["ranks"][0]["error"], json!(null));
    assert!(ran.json()["ranks"][1]["error"].as_str().unwrap().contains("truncated: "));
    job.write("meta/wave-agg-7.dat", &[0xff; 32]);
    job.veloc(&format!("inspect {file}")).failure(&["meta/wave-agg-7.dat", "counts -1 ranks"]);
    fs::remove_file(job.path("meta/wave-agg-7.dat")).unwrap();
    job.veloc(&format!("inspect {file}")).failure(&["meta/wave-agg-7.dat", "rank 1", "truncated"]);
}

/// Without its table, an aggregated file is read as a restart would. Catches a file that is refused
/// although it can be restored.
#[test]
fn parts_without_their_table() {
    let job = Job::new();
    let parts = [checkpoint(b"rank 0"), GOLDEN.to_vec(), checkpoint(b"")];
    job.aggregate("wave", 7, &parts);
    job.keep_checksum("wave-1-7.dat", &GOLDEN);
    let file = "persistent/wave-agg-7.dat --config veloc.cfg";
    let with_table = job.veloc(&format!("inspect {file} --json")).json();
    fs::remove_file(job.path("meta/wave-agg-7.dat")).unwrap();
    let ran = job.veloc(&format!("inspect {file} --json"));
    assert_eq!(ran.json(), with_table);
    let said = "meta/wave-agg-7.dat is missing; its 3 parts are found by their headers";
    assert!(ran.stderr().contains(said), "{}", ran.stderr());
    let found = job.veloc(&format!("inspect {file} --rank 1 --json")).json();
    assert_eq!(found["checksum"]["matches"], true);
    let extracted = job.veloc(&format!("inspect {file} --rank 1 --extract 2"));
    assert_eq!((extracted.code(), extracted.stdout().as_str()), (Some(0), "defgh"));
    job.write("meta/wave-agg-7.dat", &[0xff; 24]);
    let ran = job.veloc(&format!("inspect {file} --json"));
    assert_eq!(ran.json(), with_table);
    assert!(ran.stderr().contains("its table is of no use"), "{}", ran.stderr());
    fs::remove_file(job.path("meta/wave-agg-7.dat")).unwrap();
    // A file that ends too early could be anything.
    job.write("persistent/wave-agg-7.dat", &parts.concat()[..80]);
    job.veloc(&format!("inspect {file}")).failure(&["wave-agg-7.dat", "rank 2", "is missing"]);
}

/// Catches panics, allocations of the size that a file pretends to have, and waits that never end.
#[test]
fn hostile_files_are_one_line() {
    let job = Job::new();
    let mut entries = GOLDEN.to_vec();
    entries[12..20].fill(0xff);
    for (name, bytes) in [
        ("empty", vec![]),
        ("short", vec![1, 0, 0]),
        ("truncated", GOLDEN[..39].to_vec()),
        ("cut", GOLDEN[..20].to_vec()),
        ("long", [&GOLDEN[..], b"x"].concat()),
        ("count", [&(1u64 << 60).to_le_bytes()[..], &GOLDEN[8..]].concat()),
        ("negative", entries),
        ("noise", (0..200u8).map(|i| i.wrapping_mul(37)).collect()),
    ] {
        job.write(name, &bytes);
        for more in ["", "--json", "--extract 2", "--no-checksum"] {
            job.veloc(&format!("inspect {name} {more}")).failure(&[name]);
        }
    }
    // A terabyte of holes that claims as many regions as it has room for.
    let sparse = File::create(job.path("sparse")).unwrap();
    sparse.set_len(1 << 40).unwrap();
    sparse.write_all_at(&(1u64 << 36).to_le_bytes(), 0).unwrap();
    job.veloc("inspect sparse").failure(&["sparse"]);
    let name = std::ffi::CString::new(job.path("pipe").to_str().unwrap()).unwrap();
    // SAFETY: a string that ends with a null byte.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    job.veloc("inspect pipe").failure(&["pipe"]);
    job.veloc("inspect scratch").failure(&["scratch is a directory"]);
    job.veloc("inspect none").failure(&["none"]);
    // A routed file has no header of a checkpoint, and the message says so.
    job.write("scratch/own-0-1.dat", b"my own bytes");
    job.write("scratch/.own-0-1.dat.routed", b"/home/me/result");
    job.veloc("inspect scratch/own-0-1.dat").failure(&["VELOC_Route_file", "/home/me/result"]);
}

#[test]
fn upstreams_tool() {
    let job = Job::new();
    job.write("wave-3-12.dat", &GOLDEN);
    let tool = job.path("veloc-inspect");
    symlink(env!("CARGO_BIN_EXE_veloc"), &tool).unwrap();
    let tool = |arguments: &str| run(&tool, job.folder.path(), arguments);
    let expected = "Header for wave-3-12.dat:\nid = -1, size = 3\nid = 2, size = 5\n\
                    Total checkpoint size = 8\n";
    for flags in ["--header --ckpt wave-3-12.dat", "-h -c wave-3-12.dat", "--header wave-3-12.dat"]
    {
        assert_eq!(tool(flags).success(), expected, "{flags}");
    }
    assert_eq!(tool("--extract 2 --ckpt wave-3-12.dat").success(), "defgh");
    assert_eq!(tool("-e 2 -s 2 -c wave-3-12.dat").success(), "de");
    assert_eq!(tool("--extract -1 -c wave-3-12.dat").success(), "abc");
    // Given both options, upstream shows the header.
    assert_eq!(tool("-e 2 -h -c wave-3-12.dat").success(), expected);
    tool("-e 7 -c wave-3-12.dat").failure(&["wave-3-12.dat", "no region 7"]);
    tool("-h -c none").failure(&["none"]);
    for usage in ["", "--header", "--ckpt wave-3-12.dat", "-e x -c wave-3-12.dat"] {
        assert_eq!(tool(usage).code(), Some(2), "{usage}");
    }
    assert!(tool("--help").success().contains("--ckpt"));
}

/// Catches a region that is written to a terminal.
#[test]
fn terminals_get_no_bytes() {
    let job = Job::new();
    job.write("wave-3-12.dat", &GOLDEN);
    let (mut master, mut slave) = (0, 0);
    // SAFETY: two places for descriptors; no name, settings or size are asked for.
    let opened =
        unsafe { libc::openpty(&mut master, &mut slave, null_mut(), null_mut(), null_mut()) };
    assert_eq!(opened, 0);
    // SAFETY: open descriptors that nobody else has.
    let (master, slave) =
        unsafe { (File::from_raw_fd(master), Stdio::from(OwnedFd::from_raw_fd(slave))) };
    let ended = Command::new(env!("CARGO_BIN_EXE_veloc"))
        .args(["inspect", "wave-3-12.dat", "--extract", "2"])
        .current_dir(job.folder.path())
        .stdout(slave)
        .output()
        .unwrap();
    assert_eq!(ended.status.code(), Some(1));
    let text = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(text.contains("--output") && text.lines().count() == 1, "{text}");
    drop(master);
}
