//! The begin of a process, and its end: the plan is read, and what was seen is written.

use std::ffi::{c_char, c_void, CStr, CString};
use std::sync::atomic::{AtomicI32, Ordering};

use os::environment;

use crate::crash::prepare;
use crate::image::Model;
use crate::plain;
use crate::plan::{RunPlan, VARIABLE};
use crate::state::{turn, SimulationState, SINGLE, TRACKING};
use crate::text::{create, fail, write_all, Text};

/// Called when the library is loaded, before the program's own begin.
#[used]
#[link_section = ".init_array"]
static START: extern "C" fn() = start;

/// The process whose accesses are followed.
static FOLLOWED: AtomicI32 = AtomicI32::new(0);

extern "C" fn start() {
    plain::find();
    // SAFETY: a name with NUL; a variable of the C library, if it has it.
    let single = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__libc_single_threaded".as_ptr()) };
    SINGLE.store(single.cast(), Ordering::Relaxed);
    let Some(path) = environment::var_os(VARIABLE) else { return };
    let plan = match std::fs::read(&path).map(|text| RunPlan::read(&text)) {
        Ok(Ok(plan)) => plan,
        Ok(Err(line)) => fail("cannot read in the plan: ", line.as_bytes()),
        Err(_) => fail("cannot read ", path.as_encoded_bytes()),
    };
    let track = plan.track;
    if track {
        claim(&plan);
        prepare(&plan.tokens, without_plan());
        // SAFETY: functions that live as long as this library, which is never unloaded.
        unsafe {
            libc::atexit(finish);
            libc::pthread_atfork(None, None, Some(forked));
        }
        // SAFETY: without arguments.
        FOLLOWED.store(unsafe { libc::getpid() }, Ordering::Relaxed);
    }
    if let Some(mut state) = turn() {
        if state.begin(plan).is_none() {
            fail("there is no such cache", b"");
        }
    }
    TRACKING.store(track, Ordering::Relaxed);
}

/// Ends the process unless it is the first of its run: a second one would count on its own.
fn claim(plan: &RunPlan) {
    let path = Text::new().push(plan.folder.as_bytes()).push(b"/claimed");
    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC;
    // SAFETY: a string with NUL.
    let file = unsafe { libc::open(path.c_str().as_ptr(), flags, 0o644) };
    if file < 0 {
        fail("the program starts more than one process that is linked with libveloc-crash", b"");
    }
    // SAFETY: opened above.
    unsafe { libc::close(file) };
}

extern "C" fn forked() {
    TRACKING.store(false, Ordering::Relaxed);
}

/// The environment, without the plan.
fn without_plan() -> Vec<CString> {
    extern "C" {
        static environ: *const *const c_char;
    }
    let mut words = Vec::new();
    // SAFETY: the C library's list, which ends with null; nobody changes it yet.
    let mut at = unsafe { environ };
    // SAFETY: as above.
    while let Some(word) = unsafe { at.as_ref() }.filter(|word| !word.is_null()) {
        // SAFETY: a string with NUL.
        let word = unsafe { CStr::from_ptr(*word) };
        if !word.to_bytes().starts_with(VARIABLE.as_bytes()) {
            words.push(word.to_owned());
        }
        // SAFETY: null was not reached.
        at = unsafe { at.add(1) };
    }
    words
}

/// Writes what was seen.
extern "C" fn finish() {
    // SAFETY: without arguments.
    if FOLLOWED.load(Ordering::Relaxed) != unsafe { libc::getpid() } {
        return;
    }
    if let Some(mut state) = turn() {
        TRACKING.store(false, Ordering::Relaxed);
        state.look_for_foreign();
        if !write(&state) {
            fail("cannot write what was seen", b"");
        }
    }
}

fn write(state: &SimulationState) -> bool {
    let Some(plan) = &state.plan else { return true };
    let file = create(Text::new().push(plan.folder.as_bytes()).push(b"/summary").c_str());
    let mut written = file >= 0;
    let mut add = |text: Text| written &= write_all(file, text.bytes());
    add(Text::new()
        .line("accesses", state.now as i64)
        .line("compiled", (state.now - state.own) as i64)
        .line("foreign", state.foreign_bytes as i64));
    for file in &state.files {
        let model = match file.model {
            Model::Process => "process",
            Model::Power => "power",
            Model::Page => "page",
        };
        let text = Text::new().push(b"file ").push(model.as_bytes()).push(b" ");
        add(text.push(file.name.as_bytes()).push(b"\n"));
    }
    for function in OURS {
        // SAFETY: a name with NUL.
        let first = unsafe { libc::dlsym(libc::RTLD_DEFAULT, function.as_ptr()) };
        if base(first) != base(start as *const c_void) {
            let text = Text::new().push(b"shadowed ").push(function.to_bytes());
            add(text.push(b" ").push(place(first as usize).1).push(b"\n"));
        }
    }
    for foreign in &state.foreign {
        let (offset, object) = place(foreign.after);
        let text = Text::new().push(b"stored ").number(foreign.bytes as i64).push(b" ");
        let text = text.number(foreign.offset as i64).push(b" ");
        let text =
            text.number(offset as i64).push(b" ").push(state.files[foreign.file].name.as_bytes());
        add(text.push(b"\t").push(object).push(b"\n"));
    }
    for site in &state.sites {
        let object = if site.object.is_null() {
            c""
        } else {
            // SAFETY: the name of a loaded object.
            unsafe { CStr::from_ptr(site.object) }
        };
        let text = Text::new().push(b"site ").push(site.kind.as_bytes()).push(b" ");
        let text = text.number(site.count as i64).push(b" ").number(site.offset as i64).push(b" ");
        add(text.push(object.to_bytes()).push(b"\n"));
        for moment in &site.moments {
            add(Text::new().line("moment", *moment as i64));
        }
    }
    add(Text::new().push(b"end .\n"));
    written
}

/// An address in its object, and the object.
fn place(address: usize) -> (usize, &'static [u8]) {
    // SAFETY: only numbers and pointers, of which none is a valid value.
    let mut found: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: any address may be asked for.
    let known = unsafe { libc::dladdr(address as *const c_void, &mut found) } != 0;
    if !known || found.dli_fname.is_null() {
        return (address, b"?");
    }
    // SAFETY: the name of a loaded object, which stays.
    let name: &'static CStr = unsafe { CStr::from_ptr(found.dli_fname) };
    (address - found.dli_fbase as usize, name.to_bytes())
}

/// Functions that must be those of this library, wherever the program calls them.
const OURS: [&CStr; 2] = [c"__tsan_read8", c"VELOC_Pmem_flush"];

/// Where the object that has an address begins.
fn base(address: *const c_void) -> *mut c_void {
    // SAFETY: only numbers and pointers, of which none is a valid value.
    let mut found: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: any address may be asked for.
    unsafe { libc::dladdr(address, &mut found) };
    found.dli_fbase
}
