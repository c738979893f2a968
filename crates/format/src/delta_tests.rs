use std::fs;

use super::*;

/// A directory with a chain of checkpoints of one region of each kind.
struct Chain {
    directory: tempfile::TempDir,
}

impl Chain {
    fn path(&self, version: i32) -> PathBuf {
        self.directory.path().join(format!("x-0-{version}.dat"))
    }

    /// Writes a checkpoint: its whole regions, its table, and the bytes of the runs.
    fn write(&self, version: i32, whole: &[(i32, &[u8])], table: &DeltaTable, data: &[u8]) {
        let of_table = table.encode();
        let mut regions = vec![(REGION, (of_table.len() + data.len()) as u64)];
        regions.extend(whole.iter().map(|(id, bytes)| (*id, bytes.len() as u64)));
        let mut bytes = Header::new(regions).unwrap().encode();
        bytes.extend_from_slice(&of_table);
        bytes.extend_from_slice(data);
        whole.iter().for_each(|(_, region)| bytes.extend_from_slice(region));
        fs::write(self.path(version), bytes).unwrap();
    }

    fn open(&self, version: i32) -> Result<StoredCheckpoint> {
        let path = self.path(version);
        let file = os::files::open(&path)?;
        let len = os::files::len(&file, &path)?;
        Ok(StoredCheckpoint { file, part: 0..len, path })
    }

    fn image(&self, version: i32) -> Result<(StoredCheckpoint, Image)> {
        let stored = self.open(version)?;
        let find = |base: &Base| self.open(base.version);
        let image = Image::of(&stored.file, stored.part.clone(), &stored.path, &find)?;
        Ok((stored, image))
    }

    fn read(&self, version: i32, id: i32) -> Result<Vec<u8>> {
        let (stored, image) = self.image(version)?;
        let region = *image.header.region(id).unwrap();
        let mut bytes = vec![0; region.size as usize];
        // In two pieces, which end within runs and between them.
        let (first, second) = bytes.split_at_mut(region.size as usize / 3);
        let at = region.offset;
        let between = at + first.len() as u64;
        image.content.read_exact_at(&stored.file, first, at, &stored.path)?;
        image.content.read_exact_at(&stored.file, second, between, &stored.path)?;
        Ok(bytes)
    }
}

fn number(version: i32) -> u64 {
    1000 + version as u64
}

/// A chain of versions 0 to 4, in which region 1 changes at random, region 2 is whole in each, and region 3 in the
/// first alone and then without changes. With what the regions were at each version.
fn chain() -> (Chain, Vec<[Vec<u8>; 3]>) {
    let chain = Chain { directory: tempfile::tempdir().unwrap() };
    let mut state = 5_u64;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % below
    };
    let mut one: Vec<u8> = (0..50_000).map(|n| n as u8).collect();
    let three = vec![3; 777];
    let mut were = Vec::new();
    for version in 0..5 {
        let two = vec![version as u8; 100];
        let mut runs: Vec<Range<u64>> = Vec::new();
        let mut at = random(3);
        while version > 0 && at < 49_000 {
            let len = 1 + random(900);
            one[at as usize..(at + len) as usize].fill(random(256) as u8);
            runs.push(at..at + len);
            at += len + random(4000);
        }
        let base =
            (version > 0).then(|| Base { version: version - 1, number: number(version - 1) });
        let data: Vec<u8> = runs
            .iter()
            .flat_map(|run| &one[run.start as usize..run.end as usize])
            .copied()
            .collect();
        let sparse = [
            Sparse { id: 1, size: one.len() as u64, runs },
            Sparse { id: 3, size: 777, runs: Vec::new() },
        ];
        let regions = if version > 0 { sparse.to_vec() } else { Vec::new() };
        let table = DeltaTable { number: number(version), chain: version as u64, base, regions };
        let all: [(i32, &[u8]); 3] = [(1, &one), (2, &two), (3, &three)];
        let whole = if version > 0 { &all[1..2] } else { &all[..] };
        chain.write(version, whole, &table, &data);
        were.push([one.clone(), two, three.clone()]);
    }
    (chain, were)
}

/// Catches bytes of the wrong version, runs that are missed at the borders of a read, and regions at wrong places.
#[test]
fn each_version_is_what_it_was() {
    let (chain, were) = chain();
    for (version, regions) in were.iter().enumerate() {
        for (id, bytes) in [1, 2, 3].into_iter().zip(regions) {
            assert!(chain.read(version as i32, id).unwrap() == *bytes, "{version} {id}");
        }
        let (_, image) = chain.image(version as i32).unwrap();
        assert_eq!(image.header.regions().iter().map(|r| r.id).collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!(image.content.is_delta(), version > 0);
    }
}

/// Catches a base that is not looked at: missing, taken again, of another chain, its own, without the region.
#[test]
fn a_wrong_base_is_named() {
    let (chain, _) = chain();
    let refused = |version: i32| {
        let error = chain.image(version).map(drop).unwrap_err();
        (error.kind(), error.to_string())
    };
    let good = fs::read(chain.path(1)).unwrap();
    let head = |number: u64, chain: u64, base: Option<Base>, regions: Vec<Sparse>| DeltaTable {
        number,
        chain,
        base,
        regions,
    };
    // Missing.
    fs::remove_file(chain.path(1)).unwrap();
    let (kind, text) = refused(4);
    assert_eq!(kind, ErrorKind::NotFound);
    assert!(text.contains("x-0-4.dat") && text.contains("version 1"), "{text}");
    // Taken again.
    let all: [(i32, &[u8]); 2] = [(1, &[0; 50_000]), (3, &[0; 777])];
    chain.write(1, &all, &head(9, 0, None, Vec::new()), &[]);
    let (kind, text) = refused(4);
    assert_eq!(kind, ErrorKind::Corrupt);
    assert!(text.contains("x-0-1.dat: it is another checkpoint"), "{text}");
    // With the right number, and a chain that goes on for ever.
    let own = Base { version: 2, number: number(2) };
    let same = || vec![Sparse { id: 1, size: 50_000, runs: Vec::new() }];
    chain.write(2, &all[1..], &head(number(2), 2, Some(own), same()), &[]);
    let (kind, text) = refused(2);
    assert_eq!(kind, ErrorKind::Corrupt, "{text}");
    fs::write(chain.path(1), good).unwrap();
    // A region of another size.
    let below = Base { version: 1, number: number(1) };
    let other = vec![Sparse { id: 1, size: 50_001, runs: Vec::new() }];
    chain.write(2, &[], &head(number(2), 2, Some(below), other), &[]);
    let (kind, text) = refused(2);
    assert_eq!(kind, ErrorKind::Corrupt);
    assert!(text.contains("no region 1 of that size"), "{text}");
    // Held whole and in part.
    chain.write(2, &all[..1], &head(number(2), 2, Some(below), same()), &[]);
    assert!(refused(2).1.contains("region 1 twice"));
}

/// Catches damage to a table that is not noticed, and counts that take memory or end the process.
#[test]
fn a_damaged_table_is_noticed() {
    let (chain, _) = chain();
    let good = fs::read(chain.path(4)).unwrap();
    let (_, image) = chain.image(4).unwrap();
    let table = image.table.unwrap();
    let len = table.encode().len();
    let header = Header::new(vec![(REGION, 1), (2, 100)]).unwrap().encoded_len();
    // The magic apart: without it the region is the application's own.
    for at in header + 8..header + len {
        let mut bad = good.clone();
        bad[at] ^= 0x40;
        fs::write(chain.path(4), &bad).unwrap();
        let error = chain.image(4).map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "byte {at}");
    }
    let sparse = |runs: Vec<Range<u64>>| vec![Sparse { id: 1, size: 50_000, runs }];
    let hostile = [
        sparse([5..9, 8..10].into()),
        sparse(std::iter::once(49_999..50_001).collect()),
        sparse(std::iter::once(u64::MAX - 3..u64::MAX).collect()),
        vec![Sparse { id: 1, size: 0, runs: Vec::new() }],
    ];
    for regions in hostile {
        chain.write(4, &[], &DeltaTable { regions, ..table.clone() }, &[1; 9]);
        assert_eq!(chain.image(4).map(drop).unwrap_err().kind(), ErrorKind::Corrupt);
    }
    for (at, count) in
        [(16, u64::MAX), (16, 65), (40, u64::MAX), (48, u64::MAX / 16), (48, 1 << 40)]
    {
        let mut bad = good.clone();
        bad[header + at - 8..header + at].copy_from_slice(&count.to_le_bytes());
        let mut bad = bad[..header + at].to_vec();
        bad.extend_from_slice(&good[header + at..]);
        fs::write(chain.path(4), &bad).unwrap();
        assert_eq!(
            chain.image(4).map(drop).unwrap_err().kind(),
            ErrorKind::Corrupt,
            "{at} {count}"
        );
    }
}

/// Catches a block whose change is not seen, or at the wrong place, however the bytes come.
#[test]
fn changed_blocks_are_found() {
    let size = 5 * BLOCK + 100;
    let before: Vec<u8> = (0..size).map(|n| (n ^ (n >> 9)) as u8).collect();
    let digests = |bytes: &[u8], piece: usize| {
        let mut blocks = Blocks::default();
        bytes.chunks(piece).for_each(|piece| blocks.put(piece));
        blocks.finish()
    };
    let old = digests(&before, 1000);
    assert_eq!(old.len(), 6);
    assert!(changed(size, &old, &digests(&before, BLOCK as usize)).is_empty());
    let mut now = before.clone();
    for at in [0, BLOCK * 3 - 1, BLOCK * 3, size - 1] {
        now[at as usize] ^= 1;
    }
    let found = changed(size, &old, &digests(&now, 77_777));
    assert_eq!(found, [0..BLOCK, 2 * BLOCK..4 * BLOCK, 5 * BLOCK..size]);
    // Nothing is known of a region that was shorter.
    assert_eq!(changed(size, &old[..5], &old).first(), Some(&(5 * BLOCK..size)));
}

/// Catches an application's own region of that number that is taken for a table.
#[test]
fn another_region_of_that_number_is_the_applications() {
    let chain = Chain { directory: tempfile::tempdir().unwrap() };
    for len in [3, 64, 100] {
        let mut bytes = Header::new(vec![(REGION, len)]).unwrap().encode();
        bytes.extend((0..len).map(|n| n as u8));
        fs::write(chain.path(1), bytes).unwrap();
        let (_, image) = chain.image(1).unwrap();
        assert_eq!(image.header.regions().len(), 1);
        assert_eq!(image.table, None);
    }
}

/// Catches memory that is asked for by what a file claims: of holes, which cost nothing to make, and of regions that are
/// all the same, which compression makes small.
#[test]
fn a_table_costs_no_more_than_it_says() {
    let entry = |id: i64| [id as u64, 1, 0].map(u64::to_le_bytes).concat();
    for (repeated, at_most) in [(vec![0; 24], 2 * BLOCK), (entry(7), 2 * BLOCK)] {
        let regions = 1 << 30;
        let mut head = MAGIC.to_vec();
        for number in [7, 1, 6, 0, regions, 0] {
            head.extend_from_slice(&u64::to_le_bytes(number));
        }
        let size = HEAD + regions * OF_REGION + SUM;
        let mut asked = 0;
        let read = |bytes: &mut [u8], at: u64| {
            asked += bytes.len() as u64;
            for (byte, at) in bytes.iter_mut().zip(at..) {
                *byte = match head.get(at as usize) {
                    Some(byte) => *byte,
                    None => repeated[(at - HEAD) as usize % repeated.len()],
                };
            }
            Ok(())
        };
        let error = DeltaTable::read(size, read).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(asked <= at_most, "{asked} bytes");
    }
}
