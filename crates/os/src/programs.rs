//! Finding the programs of one's own installation: never by the current directory, which may be another user's.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use super::environment;

/// The file that the code at `address` is mapped from: the library's own, or the program's, by its absolute path.
pub fn file_of_code(address: *const ()) -> Option<PathBuf> {
    file_at(&fs::read_to_string("/proc/self/maps").ok()?, address.addr())
}

/// The file that an address is mapped from, in the text of `/proc/self/maps`.
fn file_at(maps: &str, address: usize) -> Option<PathBuf> {
    let line = maps.lines().find(|line| {
        let range = line.split_whitespace().next().and_then(|range| range.split_once('-'));
        let number = |digits| usize::from_str_radix(digits, 16).ok();
        range
            .and_then(|(start, end)| Some(number(start)?..number(end)?))
            .is_some_and(|range| range.contains(&address))
    })?;
    // Behind the range, the rights, the offset, the device and the inode, and as many blanks as it takes.
    let path = Path::new(&line[line.find('/')?..]);
    path.is_file().then(|| path.to_owned())
}

/// The program of this name in the directories of `PATH` that are absolute.
pub fn in_path(program: &str) -> Option<PathBuf> {
    let path = environment::var_os("PATH")?;
    let directories = env::split_paths(&path).filter(|directory| directory.is_absolute());
    directories.map(|directory| directory.join(program)).find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches a file that is found by the name that the program was called by, or by a part of its path.
    #[test]
    fn code_is_found_by_the_file_that_it_is_mapped_from() {
        let here: fn() = code_is_found_by_the_file_that_it_is_mapped_from;
        assert_eq!(file_of_code(here as *const ()), env::current_exe().ok());
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("lib of mine.so");
        fs::write(&file, "").unwrap();
        let maps = format!(
            "00400000-00401000 r-xp 00000000 fd:00 7\n7f00-7f10 r--p 00000000 00:00 0 [vdso]\n\
             8000-9000 r-xp 00001000 fd:00 12345                      {}\n",
            file.display()
        );
        assert_eq!(file_at(&maps, 0x8fff), Some(file));
        for none in [0x9000, 0x7f08, 0x40_0000] {
            assert_eq!(file_at(&maps, none), None);
        }
    }
}
