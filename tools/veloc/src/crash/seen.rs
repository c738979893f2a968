//! What the simulation has written of a run, and places in source files.

use std::path::Path;
use std::process::Command;

use anyhow::{bail, Context as _, Result};
use serde::Serialize;

/// What was seen of a run.
#[derive(Debug, Default)]
pub(super) struct SeenRun {
    pub accesses: u64,
    /// Those that the compiler has made known.
    pub compiled: u64,
    /// Mapped files, by what is simulated for each.
    pub files: Vec<Simulated>,
    /// Bytes that were stored by code that was not compiled so.
    pub foreign: u64,
    pub stored: Vec<UnseenStore>,
    pub sites: Vec<CallSite>,
    /// Functions of the simulation that are another library's, and which.
    pub shadowed: Vec<(String, String)>,
}

/// Bytes that were stored unseen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct UnseenStore {
    pub file: String,
    pub bytes: u64,
    /// The first of them.
    pub offset: u64,
    /// In the function that was entered last before they were found.
    pub after: CodePlace,
}

/// A file of arrays.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Simulated {
    pub file: String,
    pub model: String,
}

/// A place in a program or library.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct CodePlace {
    pub object: String,
    pub offset: u64,
}

/// A place where the program calls the library.
#[derive(Clone, Debug, Serialize)]
pub(super) struct CallSite {
    pub kind: String,
    pub calls: u64,
    #[serde(flatten)]
    pub place: CodePlace,
    /// Accesses before which a call begins or has just ended: some of them.
    #[serde(skip)]
    pub moments: Vec<u64>,
}

impl SeenRun {
    /// Reads it; `None` if the program has not ended by `exit`.
    ///
    /// # Errors
    /// It cannot be read.
    pub(super) fn read(path: &Path) -> Result<Option<SeenRun>> {
        let Ok(bytes) = std::fs::read(path) else { return Ok(None) };
        let text = String::from_utf8_lossy(&bytes);
        let mut seen = SeenRun::default();
        let mut ended = false;
        for line in text.lines() {
            let understood = seen.add(line, &mut ended);
            understood.with_context(|| format!("{}: {line}", path.display()))?;
        }
        Ok(ended.then_some(seen))
    }

    fn add(&mut self, line: &str, ended: &mut bool) -> Result<()> {
        let (key, value) = line.split_once(' ').context("no value")?;
        let place = |offset: &str, object: &str| -> Result<CodePlace> {
            Ok(CodePlace { offset: offset.parse()?, object: object.to_owned() })
        };
        match key {
            "accesses" => self.accesses = value.parse()?,
            "compiled" => self.compiled = value.parse()?,
            "file" => {
                let (model, file) = value.split_once(' ').context("no file")?;
                self.files.push(Simulated { file: own_name(file), model: model.to_owned() });
            }
            "foreign" => self.foreign = value.parse()?,
            "end" => *ended = true,
            "shadowed" => {
                let (function, object) = value.split_once(' ').context("no object")?;
                self.shadowed.push((function.to_owned(), object.to_owned()));
            }
            "stored" => {
                let (words, object) = value.split_once('\t').context("no object")?;
                let [bytes, at, offset, file] = words.splitn(4, ' ').collect::<Vec<_>>()[..] else {
                    bail!("no file");
                };
                let (file, bytes) = (own_name(file), bytes.parse()?);
                let after = place(offset, object)?;
                self.stored.push(UnseenStore { file, bytes, offset: at.parse()?, after });
            }
            "site" => {
                let [kind, calls, offset, object] = value.splitn(4, ' ').collect::<Vec<_>>()[..]
                else {
                    bail!("no object");
                };
                let (kind, calls) = (kind.to_owned(), calls.parse()?);
                let (place, moments) = (place(offset, object)?, Vec::new());
                self.sites.push(CallSite { kind, calls, place, moments });
            }
            "moment" => {
                let site = self.sites.last_mut().context("no site")?;
                site.moments.push(value.parse()?);
            }
            _ => bail!("not understood"),
        }
        Ok(())
    }
}

/// The name of a file without what keeps two of the same name apart.
fn own_name(file: &str) -> String {
    file.split_once('-').map_or(file, |(_, name)| name).to_owned()
}

impl CodePlace {
    /// File and line, if the object says so; else the object and the offset.
    pub(super) fn shown(&self) -> String {
        // A call's return address is behind it.
        let address = format!("{:#x}", self.offset.saturating_sub(1));
        let asked = Command::new("addr2line").args(["-i", "-e", &self.object, &address]).output();
        let asked = asked.ok().filter(|asked| asked.status.success());
        let text = asked.and_then(|asked| String::from_utf8(asked.stdout).ok()).unwrap_or_default();
        line_of_the_program(&text).unwrap_or_else(|| format!("{}+{:#x}", self.object, self.offset))
    }
}

/// The program's line of what `addr2line` has said: not that of this library's header, whose functions are inlined.
fn line_of_the_program(text: &str) -> Option<String> {
    let lines = text.lines().map(|line| line.split(" (disc").next().unwrap_or_default());
    let known = |line: &&str| !line.starts_with('?') && !line.ends_with('?');
    let mut names = lines.filter(known).filter_map(|line| Path::new(line).file_name()?.to_str());
    names.find(|name| !name.starts_with("pmem.hpp:")).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches a summary that is read as another, one that was cut short, and lines that are passed over.
    #[test]
    fn a_summary_is_read_whole_or_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("summary");
        let text = "accesses 12\ncompiled 10\nfile power 123-my array\nforeign 3\nstored 3 64 32 123-my array\t/a solver\n\
            shadowed __tsan_read8 /lib/x.so\nsite flush 4 4660 /a solver\nmoment 7\nmoment 9\n";
        std::fs::write(&path, text).unwrap();
        assert!(SeenRun::read(&path).unwrap().is_none());
        std::fs::write(&path, format!("{text}end .\n")).unwrap();
        let seen = SeenRun::read(&path).unwrap().unwrap();
        assert_eq!((seen.accesses, seen.compiled, seen.foreign), (12, 10, 3));
        let file = Simulated { file: "my array".to_owned(), model: "power".to_owned() };
        assert_eq!((seen.files, &seen.sites[0].moments[..]), (vec![file], &[7, 9][..]));
        assert_eq!((&*seen.stored[0].file, seen.stored[0].offset), ("my array", 64));
        assert_eq!(
            seen.sites[0].place,
            CodePlace { object: "/a solver".to_owned(), offset: 0x1234 }
        );
        assert_eq!(seen.sites[0].place.shown(), "/a solver+0x1234");
        assert_eq!((&*seen.sites[0].kind, seen.sites[0].calls), ("flush", 4));
        assert_eq!(seen.shadowed[0].1, "/lib/x.so");
        std::fs::write(&path, "what 1\n").unwrap();
        assert!(SeenRun::read(&path).unwrap_err().to_string().contains("what 1"));
    }

    /// Catches lines that are not known, of the library's header, or with more behind them.
    #[test]
    fn a_call_has_the_line_of_the_program() {
        let of = |text| line_of_the_program(text);
        assert_eq!(of("/a/x.c:12 (discriminator 3)\n"), Some("x.c:12".to_owned()));
        assert_eq!(
            of("/i/veloc/pmem.hpp:130\n/a/x.cpp:7\n/a/x.cpp:90\n"),
            Some("x.cpp:7".to_owned())
        );
        assert_eq!(of("??:0\n"), None);
        assert_eq!(of("x.c:?\n"), None);
        assert_eq!(of(""), None);
    }
}
