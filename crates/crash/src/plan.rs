//! What the tool asks for: a file of lines `key value`, whose path is in `VELOC_CRASH_PLAN`.

use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt as _;

use crate::cache::Replace;
use crate::image::{Coin, Model};

/// The variable.
pub(crate) const VARIABLE: &str = "VELOC_CRASH_PLAN";

/// A place where the program calls flush, drain or mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CallPlace {
    pub(crate) kind: String,
    pub(crate) offset: u64,
    pub(crate) object: String,
}

/// The plan of a run.
#[derive(Clone, Debug)]
pub(crate) struct RunPlan {
    /// Otherwise it is one that goes on after a crash, or one without a simulation.
    pub(crate) track: bool,
    pub(crate) folder: CString,
    /// For all files; `None`: for each what it was opened for.
    pub(crate) model: Option<Model>,
    pub(crate) cache: u64,
    pub(crate) ways: usize,
    pub(crate) replace: Replace,
    pub(crate) seed: u64,
    pub(crate) coins: Vec<Coin>,
    /// A FIFO: a byte for each crash that may be looked at.
    pub(crate) tokens: CString,
    pub(crate) tool: CString,
    pub(crate) left_out: Option<CallPlace>,
    /// The accesses to crash before, in order.
    pub(crate) crashes: Vec<u64>,
}

impl RunPlan {
    /// Reads a plan; the error is the line that cannot be read.
    pub(crate) fn read(text: &[u8]) -> Result<RunPlan, String> {
        let mut plan = RunPlan {
            track: false,
            folder: CString::default(),
            model: None,
            cache: 8 << 20,
            ways: 16,
            replace: Replace::Lru,
            seed: 0,
            coins: Vec::new(),
            tokens: CString::default(),
            tool: CString::default(),
            left_out: None,
            crashes: Vec::new(),
        };
        for line in text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            plan.add(line).ok_or_else(|| String::from_utf8_lossy(line).into_owned())?;
        }
        Ok(plan)
    }

    fn add(&mut self, line: &[u8]) -> Option<()> {
        let space = line.iter().position(|byte| *byte == b' ')?;
        let (key, value) = (&line[..space], &line[space + 1..]);
        let path = || CString::new(value).ok();
        // Only paths may have other letters.
        let text = OsStr::from_bytes(value).to_str().unwrap_or_default();
        match key {
            b"mode" => self.track = text == "track",
            b"folder" => self.folder = path()?,
            b"tokens" => self.tokens = path()?,
            b"tool" => self.tool = path()?,
            b"model" => {
                self.model = match text {
                    "asked" => None,
                    "process" => Some(Model::Process),
                    "power" => Some(Model::Power),
                    "page" => Some(Model::Page),
                    _ => return None,
                }
            }
            b"cache" => self.cache = text.parse().ok()?,
            b"ways" => self.ways = text.parse().ok()?,
            b"replace" => {
                self.replace = match text {
                    "lru" => Replace::Lru,
                    "random" => Replace::Random,
                    _ => return None,
                }
            }
            b"seed" => self.seed = text.parse().ok()?,
            b"coin" => self.coins.push(match text {
                "cache" => Coin::Cache,
                "few-lost" => Coin::FewLost,
                "few-kept" => Coin::FewKept,
                chance => Coin::Chance(chance.parse().ok()?),
            }),
            b"crash" => self.crashes.push(text.parse().ok()?),
            b"left-out" => {
                let mut words = text.splitn(3, ' ');
                let kind = words.next()?.to_owned();
                let offset = words.next()?.parse().ok()?;
                self.left_out = Some(CallPlace { kind, offset, object: words.next()?.to_owned() });
            }
            _ => return None,
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches a key that is read as another, and a line that is passed over though it was not understood.
    #[test]
    fn a_plan_is_read_whole_or_not() {
        let text = "mode track\nfolder /a b\nmodel page\ncache 4096\nways 2\nreplace random\nseed 9\ncoin 0.5\n\
            coin cache\ncoin few-lost\ncoin few-kept\ntokens /t\ntool /veloc\nleft-out flush 77 /a solver\ncrash 5\ncrash 8\n";
        let plan = RunPlan::read(text.as_bytes()).unwrap();
        assert!(plan.track && plan.folder.as_bytes() == b"/a b" && plan.model == Some(Model::Page));
        assert_eq!((plan.cache, plan.ways, plan.replace), (4096, 2, Replace::Random));
        assert_eq!((plan.seed, &plan.crashes[..]), (9, &[5, 8][..]));
        assert_eq!(plan.coins, [Coin::Chance(0.5), Coin::Cache, Coin::FewLost, Coin::FewKept]);
        let place = plan.left_out.unwrap();
        assert_eq!((&*place.kind, place.offset, &*place.object), ("flush", 77, "/a solver"));
        for wrong in ["what 1", "seed x", "model none", "mode", "left-out flush x /a"] {
            assert_eq!(RunPlan::read(wrong.as_bytes()).unwrap_err(), wrong);
        }
    }
}
