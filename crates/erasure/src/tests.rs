//! Groups whose scratch directories are folders of one process: encoded, damaged and rebuilt.

use std::collections::{HashMap, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::encoding::{Encoding, Member};
use super::layout::Intact;
use super::parity::{ParityFile, ParityHeader, ParityWriter};
use super::stream::{encode, rebuild, MemberPieces, Piece};
use errors::{Error, ErrorKind, Result};
use format::checksum::Checksum;
use os::files;

/// Members' files in folders of one directory.
struct Group {
    folder: tempfile::TempDir,
    encoding: Encoding,
    contents: Vec<Vec<u8>>,
}

/// Reads the pieces from the group's folders; each member's requests are answered in order.
struct Local<'a> {
    group: &'a Group,
    requested: HashMap<usize, VecDeque<(Piece, u64, usize)>>,
}

impl MemberPieces for Local<'_> {
    fn request(&mut self, member: usize, piece: Piece, offset: u64, len: usize) -> Result<()> {
        self.requested.entry(member).or_default().push_back((piece, offset, len));
        Ok(())
    }

    fn receive_into(&mut self, member: usize, into: &mut [u8]) -> Result<()> {
        let next = self.requested.get_mut(&member).and_then(VecDeque::pop_front);
        let (piece, offset, len) =
            next.ok_or_else(|| Error::new(ErrorKind::Internal, "not asked"))?;
        assert_eq!(len, into.len());
        match piece {
            Piece::Data => {
                let path = self.group.data(member);
                files::read_exact_at(&files::open(&path)?, into, offset, &path)
            }
            Piece::Parity => {
                let parity = ParityFile::read(&self.group.parity(member))?;
                files::read_exact_at(&parity.file, into, parity.start + offset, &parity.path)
            }
        }
    }
}

impl Group {
    /// A group with files of these lengths, encoded.
    fn new(lens: &[usize], parities: usize) -> Group {
        let folder = tempfile::tempdir().unwrap();
        let contents: Vec<Vec<u8>> = lens
            .iter()
            .enumerate()
            .map(|(member, &len)| (0..len).map(|at| (at * 31 + at / 251 + member) as u8).collect())
            .collect();
        let members = contents.iter().enumerate().map(|(member, content)| Member {
            rank: member as u32 * 3,
            len: content.len() as u64,
            digest: Checksum::of(content),
            identity: format::identity::Identity::UNKNOWN,
            routed: (member == 1).then(|| "/a/path".to_owned()),
        });
        let encoding = Encoding {
            name: "x".to_owned(),
            version: 7,
            parities: parities as u32,
            members: members.collect(),
        };
        encoding.check().unwrap();
        let group = Group { folder, encoding, contents };
        for member in 0..lens.len() {
            fs::create_dir(group.scratch(member)).unwrap();
            fs::write(group.data(member), &group.contents[member]).unwrap();
        }
        for member in 0..lens.len() {
            let mut writer =
                ParityWriter::create(&group.parity(member), group.encoding.clone(), member)
                    .unwrap();
            encode(&group.encoding, member, &mut group.pieces(), |bytes| writer.put(bytes))
                .unwrap();
            let len = writer.complete().unwrap();
            assert_eq!(len, fs::metadata(group.parity(member)).unwrap().len());
        }
        group
    }

    fn scratch(&self, member: usize) -> PathBuf {
        self.folder.path().join(member.to_string())
    }

    fn data(&self, member: usize) -> PathBuf {
        self.scratch(member).join("x-0-7.dat")
    }

    fn parity(&self, member: usize) -> PathBuf {
        self.scratch(member).join("parity")
    }

    fn pieces(&self) -> Local<'_> {
        Local { group: self, requested: HashMap::new() }
    }

    /// The intact pieces of each member.
    fn whole(&self) -> Vec<Intact> {
        let one = |member: usize| Intact {
            data: fs::read(self.data(member))
                .is_ok_and(|found| Checksum::of(&found) == self.encoding.members[member].digest),
            parity: ParityFile::read(&self.parity(member)).and_then(|p| p.verify()).is_ok(),
        };
        (0..self.contents.len()).map(one).collect()
    }

    /// The rebuilt file of a lost member.
    fn rebuilt(&self, lost: usize) -> Result<Vec<u8>> {
        let whole = self.whole();
        self.encoding.layout().check(&whole, &self.encoding.ranks())?;
        let mut found = Vec::new();
        rebuild(&self.encoding, lost, &whole, &mut self.pieces(), |bytes| {
            found.extend_from_slice(bytes);
            Ok(())
        })?;
        Ok(found)
    }
}

/// Changes one byte of a file.
fn damage(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 0x10;
    fs::write(path, bytes).unwrap();
}

/// The bytes of each member of a group, and its parities.
fn members() -> impl Strategy<Value = (Vec<usize>, usize)> {
    let lens = prop::collection::vec(0..3000usize, 2..8);
    lens.prop_flat_map(|lens| {
        (1..lens.len().min(4)).prop_map(move |parities| (lens.clone(), parities))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Any `parities` members are rebuilt bit for bit; one more loss is refused.
    #[test]
    fn lost_directories_are_rebuilt(
        (lens, parities) in members(),
        order in Just((0..8usize).collect::<Vec<_>>()).prop_shuffle(),
    ) {
        let group = Group::new(&lens, parities);
        let order: Vec<usize> = order.into_iter().filter(|m| *m < lens.len()).collect();
        let (lost, left) = order.split_at(parities);
        for &member in lost {
            fs::remove_dir_all(group.scratch(member)).unwrap();
        }
        for &member in lost {
            prop_assert_eq!(&group.rebuilt(member).unwrap(), &group.contents[member]);
        }
        fs::remove_file(group.data(left[0])).unwrap();
        let error = group.rebuilt(lost[0]).unwrap_err();
        prop_assert_eq!(error.kind(), ErrorKind::NotFound);
        let names = format!("both files of rank {}", lost[0] * 3);
        prop_assert!(error.to_string().contains(&names), "{}", error);
        let name = format!("the checkpoint file of rank {}", left[0] * 3);
        prop_assert!(error.to_string().contains(&name), "{}", error);
    }

    /// Damage counts as loss, and affects no other file.
    #[test]
    fn damage_does_not_spread(
        parities in 2..4usize, lost in 0..6usize, other in 1..6usize,
        what in any::<bool>(), at in any::<prop::sample::Index>(),
    ) {
        let group = Group::new(&[1000, 700, 2000, 1, 1999, 1500], parities);
        let other = (lost + other) % 6;
        fs::remove_dir_all(group.scratch(lost)).unwrap();
        let path = if what { group.data(other) } else { group.parity(other) };
        damage(&path, at.index(fs::metadata(&path).unwrap().len() as usize));
        let whole = group.whole()[other];
        prop_assert_eq!((whole.data, whole.parity), (!what, what));
        prop_assert_eq!(&group.rebuilt(lost).unwrap(), &group.contents[lost]);
    }
}

/// Blocks that are split, and files that end within a block.
#[test]
fn files_of_many_blocks() {
    for parities in [1, 2] {
        let group = Group::new(&[3_000_001, 2_500_000, 100, 2_999_999], parities);
        for lost in 0..4 {
            let found = group.rebuilt(lost).unwrap();
            assert!(found == group.contents[lost], "member {lost}");
        }
    }
}

/// A file that changes after the check is detected by the digest of the result.
#[test]
fn a_wrong_result_is_noticed() {
    let group = Group::new(&[500, 500, 500], 1);
    let whole = group.whole();
    // In the half of its file that is in a stripe with data of member 0.
    damage(&group.data(2), 300);
    let result = rebuild(&group.encoding, 0, &whole, &mut group.pieces(), |_| Ok(()));
    assert_eq!(result.unwrap_err().kind(), ErrorKind::Corrupt);
}

/// Every damage or truncation of a parity file is detected.
#[test]
fn a_damaged_parity_file_is_none() {
    let group = Group::new(&[200, 300], 1);
    let path = group.parity(0);
    let good = fs::read(&path).unwrap();
    for at in 0..good.len() {
        damage(&path, at);
        let found = ParityFile::read(&path).and_then(|parity| parity.verify());
        assert_eq!(found.unwrap_err().kind(), ErrorKind::Corrupt, "byte {at}");
        fs::write(&path, &good).unwrap();
    }
    for len in [0, 5, 12, 60, good.len() - 1] {
        fs::write(&path, &good[..len]).unwrap();
        assert_eq!(ParityFile::read(&path).unwrap_err().kind(), ErrorKind::Corrupt, "{len} bytes");
    }
    fs::write(&path, [&good[..], &[0]].concat()).unwrap();
    assert_eq!(ParityFile::read(&path).unwrap_err().kind(), ErrorKind::Corrupt);
    fs::remove_file(&path).unwrap();
    assert_eq!(ParityFile::read(&path).unwrap_err().kind(), ErrorKind::NotFound);
}

proptest! {
    /// A header with a valid digest but any content gives a parity file or an error, and no panic.
    #[test]
    fn any_header_is_answered(
        header in prop::collection::vec(any::<u8>(), 0..200), change in any::<prop::sample::Index>(),
        real in any::<bool>(), byte in any::<u8>(), tail in 0..300usize,
    ) {
        let header = if real {
            // A valid header with one changed byte.
            let encoding = Encoding {
                name: "x".to_owned(),
                version: 7,
                parities: 1,
                members: (0..3)
                    .map(|rank| Member { rank, len: 9, digest: Checksum::from_bytes([7; 32]), identity: format::identity::Identity::UNKNOWN, routed: None })
                    .collect(),
            };
            let header = ParityHeader { encoding, own: 1, payload: Checksum::from_bytes([0; 32]) };
            let mut bytes = postcard::to_stdvec(&header).unwrap();
            let at = change.index(bytes.len());
            bytes[at] = byte;
            bytes
        } else {
            header
        };
        let mut bytes = b"VELOCEC1".to_vec();
        bytes.extend((header.len() as u32).to_le_bytes());
        bytes.extend(&header);
        bytes.extend(Checksum::of(&header).as_bytes());
        bytes.resize(bytes.len() + tail, 0);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("parity");
        fs::write(&path, bytes).unwrap();
        if let Ok(found) = ParityFile::read(&path) {
            let _ = found.verify();
        }
    }
}

/// Headers with a valid digest that are not possible encodings.
#[test]
fn impossible_encodings_are_refused() {
    let good = Group::new(&[10, 20, 30], 1).encoding;
    let changes: [fn(&mut Encoding); 7] = [
        |e| e.parities = 0,
        |e| e.parities = 3,
        |e| e.members.truncate(1),
        |e| e.members[0].rank = e.members[1].rank,
        |e| e.members[0].len = u64::MAX,
        |e| e.name = "../x".to_owned(),
        |e| e.version = -1,
    ];
    for (at, change) in changes.iter().enumerate() {
        let mut encoding = good.clone();
        change(&mut encoding);
        assert_eq!(encoding.check().unwrap_err().kind(), ErrorKind::Corrupt, "{at}");
    }
}
