//! How much memory of which kind there is: totals and limits, page sizes, huge pages in use, and the
//! limit of locked memory.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use errors::{Error, Result};

/// The memory of the machine as this process may use it, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Physical {
    /// The machine's memory, or the control group's limit if that is lower.
    pub total: u64,
    /// The memory that can be used without swapping, including droppable caches; at most `total`.
    pub available: u64,
}

/// The state of transparent huge pages on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HugePages {
    /// Every mapping gets them.
    Always,
    /// Mappings that ask get them.
    OnAdvice,
    /// No mapping gets them, or the kernel has none.
    Never,
}

/// Page faults of this process that needed no disk, since its start.
pub fn page_faults() -> u64 {
    // SAFETY: all zeros are a value of this plain structure, which the call fills.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        usage.ru_minflt as u64
    }
}

/// Bytes of a page.
pub fn page_size() -> usize {
    static SIZE: OnceLock<usize> = OnceLock::new();
    *SIZE.get_or_init(|| {
        // SAFETY: sysconf reads a constant.
        let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        usize::try_from(size).ok().filter(|size| size.is_power_of_two()).unwrap_or(4096)
    })
}

/// Bytes of this process that are in memory. 0: unknown.
pub fn resident() -> u64 {
    statm()[0]
}

/// Bytes of this process that are in memory and belong to no file and no shared memory. 0: unknown.
pub fn private() -> u64 {
    let [resident, shared] = statm();
    resident.saturating_sub(shared)
}

/// Resident and shared bytes, of /proc/self/statm.
fn statm() -> [u64; 2] {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let mut pages = text.split_whitespace().skip(1).map(|pages| pages.parse().unwrap_or(0));
    [(); 2].map(|()| pages.next().unwrap_or(0) * page_size() as u64)
}

/// Size of a transparent huge page in bytes, even if they are disabled. 2 MiB if the kernel does not
/// tell.
pub fn huge_page_size() -> usize {
    fs::read_to_string("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size")
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .filter(|size: &usize| size.is_power_of_two())
        .unwrap_or(2 << 20)
}

/// Whether mappings get transparent huge pages.
pub fn huge_pages() -> HugePages {
    let text = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
    parse_huge_pages(&text.unwrap_or_default())
}

/// Whether shared memory gets transparent huge pages. The system may also force or forbid them for all
/// shared memory.
pub fn shared_huge_pages() -> HugePages {
    let text = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/shmem_enabled");
    parse_huge_pages(&text.unwrap_or_default())
}

/// Reserved huge pages (hugetlbfs) of the default size: their number, and the size of one in bytes.
/// `None` if unknown.
pub fn reserved_huge_pages() -> Option<(u64, u64)> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("HugePages_Total:"))?;
    Some((line.trim().parse().ok()?, kib_of(&text, "Hugepagesize")?))
}

/// Reserved huge pages that are neither used nor promised: their number, and the size of one.
pub(crate) fn free_reserved_huge_pages() -> Option<(u64, u64)> {
    free_huge_in(&fs::read_to_string("/proc/meminfo").ok()?)
}

/// The machine's memory in bytes, regardless of this process's limits.
///
/// # Errors
/// `/proc/meminfo` cannot be read or understood.
pub fn machine_total() -> Result<u64> {
    let path = "/proc/meminfo";
    let text = fs::read_to_string(path).map_err(|error| Error::system(path, &error))?;
    kib_of(&text, "MemTotal").ok_or_else(|| Error::invalid(format!("{path} has no MemTotal")))
}

/// The memory that this process may use, by the machine and by its control groups (v1 and v2).
///
/// # Errors
/// `/proc/meminfo` cannot be read or understood.
pub fn physical() -> Result<Physical> {
    physical_below(Path::new("/proc"), Path::new("/sys/fs/cgroup"))
}

/// How many bytes of `addresses` of this process are on huge pages, transparent or reserved, private or
/// shared. For mappings that are only partly within `addresses`, the huge pages are assumed to come
/// first: the result is exact for whole mappings, and never exceeds the range.
///
/// # Errors
/// `/proc/self/smaps` cannot be read.
pub fn huge_bytes_of(addresses: Range<usize>) -> Result<u64> {
    let path = "/proc/self/smaps";
    // Not as UTF-8, because file names may be anything.
    let bytes = fs::read(path).map_err(|e| Error::system(path, &e))?;
    Ok(huge_bytes_in(&String::from_utf8_lossy(&bytes), addresses))
}

/// Whether the system refuses memory beyond its commit limit (`vm.overcommit_memory = 2`).
pub fn commits_strictly() -> bool {
    let setting = fs::read_to_string("/proc/sys/vm/overcommit_memory");
    setting.is_ok_and(|text| text.trim() == "2")
}

/// How many bytes this process may lock; `None` if unlimited or unknown. It applies to `mlock` and RDMA,
/// not to GPU drivers.
pub fn locked_limit() -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: getrlimit writes to the struct it is given, which is ours.
    let result = unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &mut limit) };
    (result == 0 && limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur)
}

fn parse_huge_pages(enabled: &str) -> HugePages {
    match enabled.split_whitespace().find(|word| word.starts_with('[')) {
        Some("[always]" | "[force]") => HugePages::Always,
        Some("[madvise]" | "[advise]" | "[within_size]") => HugePages::OnAdvice,
        _ => HugePages::Never,
    }
}

fn physical_below(proc: &Path, cgroups: &Path) -> Result<Physical> {
    let path = proc.join("meminfo");
    let text = fs::read_to_string(&path).map_err(|e| Error::system(path.display(), &e))?;
    let missing = |field| Error::invalid(format!("{}: there is no {field}", path.display()));
    let mut total = kib_of(&text, "MemTotal").ok_or_else(|| missing("MemTotal"))?;
    let mut available = kib_of(&text, "MemAvailable").ok_or_else(|| missing("MemAvailable"))?;

    let membership = fs::read_to_string(proc.join("self/cgroup")).unwrap_or_default();
    for group in ControlGroup::of(&membership, cgroups) {
        if let Some((limit, free)) = group.limit_and_free() {
            total = total.min(limit);
            available = available.min(free);
        }
    }
    Ok(Physical { total, available: available.min(total) })
}

fn free_huge_in(meminfo: &str) -> Option<(u64, u64)> {
    let count = |field: &str| -> Option<u64> {
        meminfo.lines().find_map(|line| line.strip_prefix(field))?.trim().parse().ok()
    };
    let page = kib_of(meminfo, "Hugepagesize")?;
    let free = count("HugePages_Free:")?.saturating_sub(count("HugePages_Rsvd:")?);
    Some((free.saturating_mul(page), page))
}

/// The value of a line such as `MemTotal:  16384 kB`, in bytes.
fn kib_of(meminfo: &str, field: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    kib.checked_mul(1024)
}

/// A control group whose limits apply to this process.
struct ControlGroup {
    directory: PathBuf,
    files: &'static ControlGroupFiles,
}

/// The file names of one version of control groups.
struct ControlGroupFiles {
    limit: &'static str,
    usage: &'static str,
    /// The key in `memory.stat` of droppable file pages, in bytes.
    droppable: &'static str,
}

const V1: ControlGroupFiles = ControlGroupFiles {
    limit: "memory.limit_in_bytes",
    usage: "memory.usage_in_bytes",
    droppable: "total_inactive_file",
};

const V2: ControlGroupFiles =
    ControlGroupFiles { limit: "memory.max", usage: "memory.current", droppable: "inactive_file" };

impl ControlGroup {
    /// The control groups in `membership` (`/proc/self/cgroup`), innermost first: a limit may be set at
    /// any level. In a container the paths may be the host's, of which only the root is visible;
    /// directories that do not exist have no files and so no limits.
    fn of(membership: &str, cgroups: &Path) -> Vec<ControlGroup> {
        let mut groups = Vec::new();
        for line in membership.lines() {
            let mut fields = line.splitn(3, ':');
            let (Some(_), Some(controllers), Some(name)) =
                (fields.next(), fields.next(), fields.next())
            else {
                continue;
            };
            let (root, files) = if controllers.is_empty() {
                // Beside v1 hierarchies, v2 is mounted in its own directory.
                let hybrid = cgroups.join("unified");
                (if hybrid.is_dir() { hybrid } else { cgroups.to_path_buf() }, &V2)
            } else if controllers.split(',').any(|controller| controller == "memory") {
                (cgroups.join("memory"), &V1)
            } else {
                continue;
            };
            for level in Path::new(name.trim_start_matches('/')).ancestors() {
                groups.push(ControlGroup { directory: root.join(level), files });
            }
        }
        groups
    }

    /// The limit and the rest of it in bytes, if there is a limit.
    fn limit_and_free(&self) -> Option<(u64, u64)> {
        // "max" (v2) is not a number. v1 has a huge number instead, which does no harm.
        let limit: u64 = self.read(self.files.limit)?.trim().parse().ok()?;
        let usage: u64 = self.read(self.files.usage)?.trim().parse().ok()?;
        let droppable = self.read("memory.stat").and_then(|stat| {
            let line = stat.lines().find_map(|l| l.strip_prefix(self.files.droppable))?;
            line.trim().parse::<u64>().ok()
        });
        let used = usage.saturating_sub(droppable.unwrap_or(0));
        Some((limit, limit.saturating_sub(used)))
    }

    fn read(&self, file: &str) -> Option<String> {
        fs::read_to_string(self.directory.join(file)).ok()
    }
}

/// The keys in smaps that count huge pages: transparent private, transparent shared, reserved private,
/// reserved shared.
const HUGE: [&str; 4] =
    ["AnonHugePages:", "ShmemPmdMapped:", "Private_Hugetlb:", "Shared_Hugetlb:"];

fn huge_bytes_in(smaps: &str, addresses: Range<usize>) -> u64 {
    let mut sum = 0;
    // Bytes of the current mapping within the range.
    let mut common = 0;
    for line in smaps.lines() {
        if let Some(kib) = HUGE.iter().find_map(|field| line.strip_prefix(field)) {
            let kib = kib.split_whitespace().next().and_then(|n| n.parse::<u64>().ok());
            let huge = common.min(kib.unwrap_or(0).saturating_mul(1024));
            common -= huge;
            sum += huge;
        } else if let Some(mapping) = parse_addresses(line) {
            let start = mapping.start.max(addresses.start);
            common = mapping.end.min(addresses.end).saturating_sub(start) as u64;
        }
    }
    sum
}

/// The addresses at the start of a line such as `7f0000000000-7f0000200000 rw-p ...`.
fn parse_addresses(line: &str) -> Option<Range<usize>> {
    let (start, end) = line.split_whitespace().next()?.split_once('-')?;
    Some(usize::from_str_radix(start, 16).ok()?..usize::from_str_radix(end, 16).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapping::Mapping;

    const MEMINFO: &str = "MemTotal:       1000 kB\nMemFree:  1 kB\nMemAvailable:    600 kB\n";

    /// A root with `files` (path, content).
    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, content) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        root
    }

    fn physical_of(files: &[(&str, &str)]) -> Physical {
        let root = tree(files);
        physical_below(&root.path().join("proc"), &root.path().join("cgroup")).unwrap()
    }

    #[test]
    fn the_machine_alone() {
        let expected = Physical { total: 1000 << 10, available: 600 << 10 };
        assert_eq!(physical_of(&[("proc/meminfo", MEMINFO)]), expected);
        assert_eq!(
            physical_of(&[
                ("proc/meminfo", MEMINFO),
                ("proc/self/cgroup", "nonsense\n0::/a\n"),
                ("cgroup/a/memory.max", "max\n"),
                ("cgroup/a/memory.current", "7\n"),
            ]),
            expected
        );
    }

    #[test]
    fn limits_of_version_2() {
        let files = [
            ("proc/meminfo", MEMINFO),
            ("proc/self/cgroup", "0::/a/b\n"),
            ("cgroup/a/b/memory.max", "max\n"),
            ("cgroup/a/b/memory.current", "1\n"),
            ("cgroup/a/memory.max", "500000\n"),
            ("cgroup/a/memory.current", "300000\n"),
            ("cgroup/a/memory.stat", "active_file 9\ninactive_file 100000\n"),
        ];
        assert_eq!(physical_of(&files), Physical { total: 500_000, available: 300_000 });
    }

    #[test]
    fn limits_in_a_container_stand_at_the_root() {
        let files = [
            ("proc/meminfo", MEMINFO),
            ("proc/self/cgroup", "0::/../host/name\n"),
            ("cgroup/memory.max", "400000\n"),
            ("cgroup/memory.current", "500000\n"),
        ];
        assert_eq!(physical_of(&files), Physical { total: 400_000, available: 0 });
    }

    #[test]
    fn limits_of_version_1() {
        let files = [
            ("proc/meminfo", MEMINFO),
            ("proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/job\n0::/\n"),
            ("cgroup/memory/job/memory.limit_in_bytes", "200000\n"),
            ("cgroup/memory/job/memory.usage_in_bytes", "150000\n"),
            ("cgroup/memory/job/memory.stat", "inactive_file 1\ntotal_inactive_file 20000\n"),
            ("cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("cgroup/memory/memory.usage_in_bytes", "900000\n"),
        ];
        assert_eq!(physical_of(&files), Physical { total: 200_000, available: 70_000 });
    }

    #[test]
    fn meminfo_that_cannot_be_understood() {
        let root = tree(&[("proc/meminfo", "MemTotal: 5 kB\n")]);
        let proc = root.path().join("proc");
        let message = physical_below(&proc, root.path()).unwrap_err().to_string();
        assert!(message.contains("meminfo") && message.contains("MemAvailable"), "{message}");
        assert!(physical_below(root.path(), root.path()).is_err());
    }

    #[test]
    fn this_machine() {
        let memory = physical().unwrap();
        assert!(memory.total > 0 && memory.available <= memory.total, "{memory:?}");
        assert!(page_size().is_power_of_two());
        assert!(huge_page_size().is_power_of_two() && huge_page_size() > page_size());
        assert!(machine_total().unwrap() >= memory.total);
        let _ = (huge_pages(), shared_huge_pages(), reserved_huge_pages(), locked_limit());
    }

    #[test]
    fn words_for_huge_pages() {
        assert_eq!(parse_huge_pages("[always] madvise never\n"), HugePages::Always);
        assert_eq!(parse_huge_pages("always [madvise] never\n"), HugePages::OnAdvice);
        let shared = "always within_size [advise] never deny force\n";
        assert_eq!(parse_huge_pages(shared), HugePages::OnAdvice);
        assert_eq!(parse_huge_pages("always advise [deny] force\n"), HugePages::Never);
        assert_eq!(parse_huge_pages("always madvise [never]\n"), HugePages::Never);
        assert_eq!(parse_huge_pages(""), HugePages::Never);
    }

    #[test]
    fn huge_pages_that_can_be_had() {
        let meminfo =
            "HugePages_Total: 9\nHugePages_Free: 5\nHugePages_Rsvd: 2\nHugepagesize: 4 kB\n";
        assert_eq!(free_huge_in(meminfo), Some((3 * 4096, 4096)));
        assert_eq!(free_huge_in("MemTotal: 5 kB\n"), None);
    }

    #[test]
    fn huge_bytes_by_mapping() {
        let smaps = "1000-3000 rw-p 00000000 00:00 0 \nSize: 8 kB\nAnonHugePages: 8 kB\n\
                     3000-5000 rw-p 0 00:00 0 /a-b\nAnonHugePages: 4 kB\n\
                     7000-9000 rw-p 0 00:00 0\nAnonHugePages: 0 kB\n\
                     9000-d000 rw-s 0 00:00 0 /memfd:x (deleted)\nAnonHugePages: 0 kB\n\
                     ShmemPmdMapped: 8 kB\nShared_Hugetlb: 0 kB\nPrivate_Hugetlb: 4 kB\n";
        assert_eq!(huge_bytes_in(smaps, 0..usize::MAX), 24 << 10);
        assert_eq!(huge_bytes_in(smaps, 0x9000..0xa000), 4 << 10);
        assert_eq!(huge_bytes_in(smaps, 0x3000..0x5000), 4 << 10);
        assert_eq!(huge_bytes_in(smaps, 0x2000..0x3000), 4 << 10);
        assert_eq!(huge_bytes_in(smaps, 0x5000..0x9000), 0);
        assert_eq!(huge_bytes_in("", 0..1), 0);
    }

    #[test]
    fn huge_bytes_of_a_mapping() {
        let mapping = Mapping::reserve(4 * huge_page_size()).unwrap();
        let addresses = mapping.addresses(&(0..mapping.len())).unwrap();
        if mapping.advise_huge(false).is_err() {
            return;
        }
        mapping.touch(0..mapping.len(), page_size()).unwrap();
        assert_eq!(huge_bytes_of(addresses).unwrap(), 0);
    }
}
