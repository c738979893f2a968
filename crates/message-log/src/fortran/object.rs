//! Loaded objects, and the slots that hold the addresses of imported functions. The loader fills a slot
//! according to a relocation in the object.

use std::ffi::{c_char, c_int, c_void, CStr, CString};
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, Ordering};

/// The relocation types of such slots: lazily bound and immediately bound.
#[cfg(target_arch = "x86_64")]
const KINDS: [u32; 2] = [7, 6]; // R_X86_64_JUMP_SLOT, R_X86_64_GLOB_DAT
#[cfg(target_arch = "aarch64")]
const KINDS: [u32; 2] = [1026, 1025]; // R_AARCH64_JUMP_SLOT, R_AARCH64_GLOB_DAT
/// On other processors no slot is found, and the callers report that.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const KINDS: [u32; 0] = [];

// Entries of the dynamic section.
const DT_NULL: i64 = 0;
const DT_PLTRELSZ: i64 = 2;
const DT_STRTAB: i64 = 5;
const DT_SYMTAB: i64 = 6;
const DT_RELA: i64 = 7;
const DT_RELASZ: i64 = 8;
const DT_JMPREL: i64 = 23;

/// `Elf64_Dyn`.
#[repr(C)]
#[derive(Clone, Copy)]
struct DynamicEntry {
    tag: i64,
    value: usize,
}

/// `Elf64_Rela`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Relocation {
    offset: usize,
    info: u64,
    addend: i64,
}

/// An object that stays loaded.
#[derive(Debug)]
pub(super) struct LoadedObject {
    path: CString,
    base: usize,
    /// Its dynamic section.
    dynamic: Option<usize>,
    /// The pages that the loader has made read-only after relocation.
    sealed: Range<usize>,
}

/// A slot for the address of an imported function.
#[derive(Clone, Copy, Debug)]
pub(super) struct ImportSlot {
    /// The function.
    pub name: &'static CStr,
    /// The address.
    pub at: &'static AtomicPtr<c_void>,
}

impl LoadedObject {
    /// The loaded objects with a matching path.
    pub(super) fn loaded(is_wanted: fn(&[u8]) -> bool) -> Vec<LoadedObject> {
        struct ObjectSearch {
            is_wanted: fn(&[u8]) -> bool,
            found: Vec<LoadedObject>,
        }
        unsafe extern "C" fn visit(
            info: *mut libc::dl_phdr_info,
            _size: libc::size_t,
            search: *mut c_void,
        ) -> c_int {
            // SAFETY: the loader's description, and the search below, which nobody else uses.
            let (info, search) = unsafe { (&*info, &mut *search.cast::<ObjectSearch>()) };
            if !info.dlpi_name.is_null() {
                // SAFETY: the loader's names end with a null byte.
                let path = unsafe { CStr::from_ptr(info.dlpi_name) };
                if (search.is_wanted)(path.to_bytes()) {
                    // SAFETY: the loader's description.
                    search.found.push(unsafe { LoadedObject::new(path.to_owned(), info) });
                }
            }
            0
        }
        let mut search = ObjectSearch { is_wanted, found: Vec::new() };
        // SAFETY: `visit` fits the declaration and gets the search, which outlives the call. The
        // callback loads nothing and does not unwind.
        unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut search).cast()) };
        // Objects that are unloaded meanwhile are left out.
        search.found.retain(LoadedObject::stays);
        search.found
    }

    /// # Safety
    /// The loader passes the description.
    unsafe fn new(path: CString, info: &libc::dl_phdr_info) -> LoadedObject {
        let base = info.dlpi_addr as usize;
        let (mut dynamic, mut sealed) = (None, 0..0);
        for n in 0..usize::from(info.dlpi_phnum) {
            // SAFETY: by the caller's promise, there are this many headers.
            let header = unsafe { &*info.dlpi_phdr.add(n) };
            let start = base + header.p_vaddr as usize;
            match header.p_type {
                libc::PT_DYNAMIC => dynamic = Some(start),
                libc::PT_GNU_RELRO => {
                    // SAFETY: the call only returns a number.
                    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) }.max(1) as usize;
                    // Rounded as by the loader.
                    let end = start + header.p_memsz as usize;
                    sealed = start / page * page..end / page * page;
                }
                _ => {}
            }
        }
        LoadedObject { path, base, dynamic, sealed }
    }

    /// Keeps the object loaded for good. Returns whether it is loaded.
    fn stays(&self) -> bool {
        let flags = libc::RTLD_LAZY | libc::RTLD_NOLOAD | libc::RTLD_NODELETE;
        // SAFETY: a path that ends with a null byte; nothing is loaded by this.
        !unsafe { libc::dlopen(self.path.as_ptr(), flags) }.is_null()
    }

    /// Its path.
    pub(super) fn name(&self) -> std::borrow::Cow<'_, str> {
        self.path.to_string_lossy()
    }

    /// Its slots.
    pub(super) fn slots(&self) -> Vec<ImportSlot> {
        let Some(dynamic) = self.dynamic.filter(|_| !KINDS.is_empty()) else { return Vec::new() };
        let entry = |tag| {
            let mut at = dynamic as *const DynamicEntry;
            loop {
                // SAFETY: the section of an object that stays loaded; it ends with `DT_NULL`.
                let entry = unsafe { at.read() };
                match entry.tag {
                    DT_NULL => return None,
                    found if found == tag => return Some(entry.value),
                    _ => at = at.wrapping_add(1),
                }
            }
        };
        // Most loaders have replaced the file's offsets by addresses.
        let place =
            |tag| entry(tag).map(|value| if value < self.base { self.base + value } else { value });
        let (Some(names), Some(symbols)) = (place(DT_STRTAB), place(DT_SYMTAB)) else {
            return Vec::new();
        };
        let mut slots = Vec::new();
        for (table, size) in [(DT_JMPREL, DT_PLTRELSZ), (DT_RELA, DT_RELASZ)] {
            let (Some(table), Some(size)) = (place(table), entry(size)) else { continue };
            let table = table as *const Relocation;
            for n in 0..size / size_of::<Relocation>() {
                // SAFETY: the table has this many bytes.
                let Relocation { offset, info, .. } = unsafe { table.add(n).read() };
                if !KINDS.contains(&(info as u32)) {
                    continue;
                }
                // SAFETY: the relocation's symbol, its name and its slot, in an object that stays
                // loaded. The loader writes the slot as a whole, too.
                slots.push(unsafe {
                    let symbol = &*(symbols as *const libc::Elf64_Sym).add((info >> 32) as usize);
                    let name = (names as *const c_char).add(symbol.st_name as usize);
                    ImportSlot {
                        name: CStr::from_ptr(name),
                        at: &*((self.base + offset) as *const AtomicPtr<c_void>),
                    }
                });
            }
        }
        slots
    }

    /// Changes the addresses in some of its slots.
    ///
    /// # Errors
    /// The system does not allow writing; none is changed.
    pub(super) fn change(&self, slots: &[(ImportSlot, NonNull<c_void>)]) -> std::io::Result<()> {
        let is_sealed =
            |(slot, _): &(ImportSlot, _)| self.sealed.contains(&(slot.at as *const _ as usize));
        let unseals = slots.iter().any(is_sealed);
        if unseals {
            self.protect(libc::PROT_READ | libc::PROT_WRITE)?;
        }
        for (slot, function) in slots {
            slot.at.store(function.as_ptr(), Ordering::Relaxed);
        }
        if unseals {
            self.protect(libc::PROT_READ)?;
        }
        Ok(())
    }

    fn protect(&self, protection: c_int) -> std::io::Result<()> {
        let Range { start, end } = self.sealed;
        // SAFETY: whole pages of data of an object that stays loaded, which can be read before and
        // after.
        match unsafe { libc::mprotect(start as *mut c_void, end - start, protection) } {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_c_library(path: &[u8]) -> bool {
        path.ends_with(b"/libc.so.6")
    }

    #[test]
    fn the_slots_of_an_object() {
        let objects = LoadedObject::loaded(is_c_library);
        let [library] = &objects[..] else { panic!("{objects:?}") };
        // Programs may replace its allocator, so it imports it.
        let slots = library.slots();
        let slot = slots.iter().find(|slot| [c"malloc", c"calloc"].contains(&slot.name));
        let slot = slot.unwrap_or_else(|| panic!("{slots:?}"));
        let held = NonNull::new(slot.at.load(Ordering::Relaxed)).unwrap();
        // Writing the same address shows whether the slot can be written.
        library.change(&[(*slot, held)]).unwrap();
        assert_eq!(slot.at.load(Ordering::Relaxed), held.as_ptr());
    }

    #[test]
    fn nothing_is_loaded_by_looking() {
        let before = driver::loaded_count();
        assert!(before > 0);
        assert!(LoadedObject::loaded(|path| path == b"/no/such/object").is_empty());
        assert_eq!(driver::loaded_count(), before);
    }
}
