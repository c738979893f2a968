//! Tests of files that another user has put into the directories. Only root can make such.

use std::fs;
use std::os::unix::fs::{chown, lchown, symlink};
use std::path::Path;

use super::rolls::common_temporary;
use super::{Files, Found};
use catalog::FileLevel;
use config::Config;
use errors::ErrorKind;
use format::aggregate::AggregatePart;
use format::checksum::Checksum;
use format::delta::{Base, DeltaTable, Sparse, REGION};
use format::header::Header;
use format::identity::Identity;

/// The user who owns nothing.
const NOBODY: u32 = 65534;

fn give_away(path: &Path) {
    lchown(path, Some(NOBODY), None).unwrap();
}

fn content(byte: u8) -> Vec<u8> {
    [&Header::new(vec![(0, 3)]).unwrap().encode()[..], &[byte; 3]].concat()
}

/// Runs `test` on directories with files of some user, unless there cannot be any.
fn with_files(name: &str, keys: &str, test: impl FnOnce(&Config, &dyn Fn(&str, &[u8], bool))) {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: {name} needs root");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let text = format!(
        "mode = async\nscratch = {0}/s\npersistent = {0}/p\nmeta = {0}/m\n{keys}",
        folder.path().display()
    );
    let (config, _) = Config::from_text(&text, |_| None).unwrap();
    Files::open(&config, 0).unwrap();
    let put = |path: &str, content: &[u8], is_own: bool| {
        let path = folder.path().join(path);
        fs::write(&path, content).unwrap();
        chown(&path, (!is_own).then_some(NOBODY), None).unwrap();
    };
    test(&config, &put);
}

/// The byte that a version has, as a restart reads it.
fn byte(files: &Files, version: i32) -> u8 {
    let opened = files.copies().open_nearest("x", version).unwrap();
    let mut byte = [0; 1];
    opened.read_exact_at(&mut byte, opened.header.region(0).unwrap().offset).unwrap();
    byte[0]
}

/// Catches another user's version that counts as the newest one, or as a copy of one's own.
#[test]
fn own_files_come_first() {
    with_files("own_files_come_first", "", |config, put| {
        let files = Files::open(config, 0).unwrap();
        put("s/x-0-3.dat", &content(33), false);
        assert_eq!(files.listing().versions("x").unwrap().into_iter().collect::<Vec<_>>(), [3]);
        assert_eq!(byte(&files, 3), 33);
        assert!(files.warnings().was_told(&format!(
            "{} belongs to user 65534, not to user 0 of this process; there is no other copy to restore",
            files.places().scratch_path("x", 3).unwrap().display()
        )));
        put("s/x-0-2.dat", &content(22), false);
        put("p/x-0-2.dat", &content(2), true);
        put("s/x-0-1.dat", &content(1), true);
        put("p/x-0-1.dat", &content(11), false);
        assert_eq!(files.listing().versions("x").unwrap().into_iter().collect::<Vec<_>>(), [1, 2]);
        assert_eq!([1, 2, 3].map(|version| byte(&files, version)), [1, 2, 33]);
        assert!(!files.listing().is_persistent("x", 1) && files.listing().is_persistent("x", 2));
        assert_eq!(files.backlog().of("x", Some(0), 0).unwrap(), [1]);
        assert_eq!(files.listing().oldest_first(FileLevel::Scratch, "x").unwrap(), [1]);
        // A link is no version in scratch, even one's own; in persistent it stands for a file of the application's own.
        symlink("x-0-1.dat", files.places().scratch_path("x", 8).unwrap()).unwrap();
        assert!(!files.listing().versions("x").unwrap().contains(&8));
        // Another user's link to a file of one's own.
        let link = files.places().scratch_path("x", 9).unwrap();
        symlink("x-0-1.dat", &link).unwrap();
        give_away(&link);
        assert!(!files.listing().versions("x").unwrap().contains(&9));
        assert!(files
            .persistent()
            .persist("x", 2, None, None)
            .unwrap_err()
            .to_string()
            .contains("65534"));
        files.removal().clean_scratch("x", |_| false).unwrap();
        assert!(!files.places().scratch_path("x", 1).unwrap().exists());
        assert!(files.places().scratch_path("x", 3).unwrap().exists());
    });
}

/// Catches another user's file below one's own that nobody hears of.
#[test]
fn a_base_of_another_user_is_named() {
    with_files("a_base_of_another_user_is_named", "", |config, put| {
        let files = Files::open(config, 0).unwrap();
        let file = |table: DeltaTable, regions: &[(i32, u64)], content: &[u8]| {
            let table = table.encode();
            let mut sizes = vec![(REGION, table.len() as u64 + table_data(content, regions))];
            sizes.extend(regions);
            [Header::new(sizes).unwrap().encode(), table, content.to_vec()].concat()
        };
        let base = DeltaTable { number: 9, chain: 0, base: None, regions: Vec::new() };
        put("s/x-0-1.dat", &file(base, &[(0, 3)], &[1; 3]), false);
        let runs = std::iter::once(1..2).collect();
        let changes = vec![Sparse { id: 0, size: 3, runs }];
        let base = Some(Base { version: 1, number: 9 });
        let delta = DeltaTable { number: 10, chain: 1, base, regions: changes };
        put("s/x-0-2.dat", &file(delta, &[], &[2]), true);
        assert_eq!(byte(&files, 2), 1);
        let base = files.places().scratch_path("x", 1).unwrap();
        assert!(files.warnings().was_told(&format!(
            "{} belongs to user 65534, not to user 0 of this process; there is no other copy to restore",
            base.display()
        )));
    });
}

/// The bytes of `content` that are in no region of their own.
fn table_data(content: &[u8], regions: &[(i32, u64)]) -> u64 {
    content.len() as u64 - regions.iter().map(|(_, size)| size).sum::<u64>()
}

/// Catches a note, parities or a checksum of somebody who only knows their names.
#[test]
fn notes_of_others_say_nothing() {
    with_files("notes_of_others_say_nothing", "chksum = true\n", |config, put| {
        put("s/x-0-1.dat", &content(1), true);
        put("s/.x-0-1.dat.routed", b"/etc/passwd", false);
        put("s/.x-0-1.dat.parity", b"", false);
        put("m/x-0-1.dat.chksum", &[0; 32], false);
        let files = Files::open(config, 0).unwrap();
        let refused = files.copies().look("x", 1).unwrap_err().to_string();
        assert!(refused.contains("there is neither"), "{refused}");
        assert!(!files.places().has_parities("x", 1));
        assert!(files.listing().foreign_parities("x", 1).unwrap().is_empty());
        let of_another = files.of_rank(1);
        assert!(of_another.listing().foreign_parities("x", 1).unwrap().is_empty());
        // Notes and checksums of the file's owner do count.
        give_away(&files.places().scratch_path("x", 1).unwrap());
        assert!(matches!(files.copies().look("x", 1).unwrap_err().kind(), ErrorKind::Corrupt));
        put("m/x-0-1.dat.chksum", Checksum::of(&content(1)).as_bytes(), false);
        assert!(matches!(files.copies().look("x", 1).unwrap(), Found::Routed(_)));
        assert!(of_another.listing().versions_of_anybody("x").unwrap().is_empty());
    });
}

/// Catches another user's bytes in a file of one's own, and another user's file that is written to.
#[test]
fn rolls_of_others_are_none() {
    with_files("rolls_of_others_are_none", "aggregated = true\n", |config, put| {
        let files = Files::open(config, 0).unwrap();
        put("s/x-0-4.dat", &content(4), true);
        let place = AggregatePart {
            offset: 0,
            ranks: 2,
            identity: Identity { run: 7, generation: 1 },
            attempt: 1,
        };
        files.persistent().persist("x", 4, None, Some(&place)).unwrap();
        let data = files.places().aggregated_data("x", 4).unwrap();
        let [part, roll] = ["", ".roll2"].map(|end| common_temporary(&data, end, &place));
        for theirs in [&part, &roll] {
            give_away(theirs);
            let error = files.persistent().persist("x", 4, None, Some(&place)).unwrap_err();
            assert!(error.to_string().contains("user 65534"), "{error}");
            files.rescue().rescue_parts().unwrap();
            assert!(!files.listing().is_persistent("x", 4));
            chown(theirs, Some(0), None).unwrap();
        }
        files.rescue().rescue_parts().unwrap();
        assert!(files.listing().is_persistent("x", 4));
    });
}
