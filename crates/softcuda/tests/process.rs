//! Properties of the whole process: host access to device memory, its end while streams work, its
//! environment, and the shared library.
//!
//! A test that needs its own process runs this program again, only for [`child`], with its part in the
//! environment.

#![allow(clippy::unwrap_used, clippy::panic)]

#[macro_use]
mod common;

use std::ffi::{c_char, c_int, c_void, CStr, CString};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::ptr::null_mut;

use common::*;
use softcuda::api::*;

const PART: &str = "SOFTCUDA_TEST_PART";

fn run_child(part: &str, environment: &[(&str, &str)]) -> Output {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture"])
        .env(PART, part)
        .envs(environment.iter().copied())
        .output()
        .unwrap()
}

/// Does nothing unless another test gave it a part.
#[test]
fn child() {
    let Ok(part) = std::env::var(PART) else {
        return;
    };
    let mut context = null_mut();
    match part.as_str() {
        "touch device memory" => {
            ok(cuInit(0));
            ok(cu!(cuCtxCreate_v2(&mut context, 0, 0)));
            let address: *const u8 = std::ptr::with_exposed_provenance(allocate(64) as usize);
            // SAFETY: there is none, which is the point: this must fault.
            std::hint::black_box(unsafe { address.read_volatile() });
        }
        "end while streams work" => {
            ok(cuInit(0));
            ok(cu!(cuCtxCreate_v2(&mut context, 0, 0)));
            let (waiting, device) = (stream(NON_BLOCKING), allocate(64 << 20));
            let _never_opened = Gate::block(waiting);
            ok(cuMemsetD8Async(device, 1, 64, waiting));
            for _ in 0..64 {
                ok(cuMemcpyDtoD_v2(device, device + (32 << 20), 32 << 20));
            }
            std::process::exit(0);
        }
        "end while work is held back" => {
            ok(cuInit(0));
            ok(cu!(cuCtxCreate_v2(&mut context, 0, 0)));
            let device = allocate(64);
            for _ in 0..100 {
                ok(cuMemsetD8Async(device, 1, 64, stream(NON_BLOCKING)));
                assert_eq!(download(device, 64), [0; 64]);
            }
            std::process::exit(0);
        }
        "read the environment" => {
            ok(cuInit(0));
            let (mut devices, mut bytes) = (0, 0);
            ok(cu!(cuDeviceGetCount(&mut devices)));
            ok(cu!(cuDeviceTotalMem_v2(&mut bytes, 2)));
            assert_eq!((devices, bytes), (3, 48 << 20));
            assert_eq!(cu!(cuCtxCreate_v2(&mut context, 0, 0)), 46);
            ok(cu!(cuCtxCreate_v2(&mut context, 0, 0)));
        }
        "have no device" => assert_eq!(cuInit(0), 100),
        other => panic!("no such part: {other}"),
    }
}

#[test]
fn a_host_access_to_device_memory_faults() {
    assert_eq!(run_child("touch device memory", &[]).status.signal(), Some(libc::SIGSEGV));
}

#[test]
fn a_process_may_end_while_streams_work() {
    assert_eq!(run_child("end while streams work", &[]).status.code(), Some(0));
}

/// Catches an end that waits for work that nobody wants, and a variable that is not read: the child sees the work done.
#[test]
fn a_process_may_end_while_work_is_held_back() {
    let output = run_child("end while work is held back", &[("SOFTCUDA_LATE", "1000")]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_environment_is_read() {
    let environment = [
        ("SOFTCUDA_DEVICES", "3"),
        ("SOFTCUDA_MEMORY", "48m"),
        ("SOFTCUDA_FAIL", "cuCtxCreate_v2:1=46"),
        ("SOFTCUDA_DELAY", "nonsense"),
    ];
    let output = run_child("read the environment", &environment);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    assert!(stderr.contains("softcuda: SOFTCUDA_DELAY=nonsense: no `=` in `nonsense`"), "{stderr}");
    assert!(run_child("have no device", &[("SOFTCUDA_DEVICES", "0")]).status.success());
}

/// The shared library that was built together with this program.
fn library() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    program.parent().unwrap().join("libsoftcuda.so")
}

/// The functions that the sources declare for export.
fn exported_functions() -> Vec<String> {
    let sources = concat!(env!("CARGO_MANIFEST_DIR"), "/src/api");
    let mut names = Vec::new();
    for entry in std::fs::read_dir(sources).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        let declarations = text.split("extern \"C\" fn ").skip(1);
        names.extend(declarations.filter_map(|rest| rest.split('(').next()).map(str::to_owned));
    }
    names
}

#[test]
fn the_shared_library_has_every_function_and_the_drivers_name() {
    let path = library();
    let image = std::fs::read(&path).unwrap();
    assert!(image.windows(13).any(|bytes| bytes == b"libcuda.so.1\0"), "the soname is missing");

    let path = CString::new(path.into_os_string().into_encoded_bytes()).unwrap();
    // SAFETY: loading the library runs none of its code.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    assert!(!handle.is_null());
    // SAFETY: the library stays loaded and the name is terminated.
    let symbol = |name: &CStr| unsafe { libc::dlsym(handle, name.as_ptr()) };
    let header = include_str!("../include/softcuda.h");
    let names = exported_functions();
    assert!(names.len() > 80, "only {} functions were found", names.len());
    for name in names {
        assert!(!symbol(&CString::new(name.as_str()).unwrap()).is_null(), "{name}");
        let declared = header.contains(&format!("{name}("));
        assert_eq!(declared, name.starts_with("softcuda_"), "{name} in softcuda.h");
    }

    type GetProcAddress =
        unsafe extern "C" fn(*const c_char, *mut *mut c_void, c_int, u64, *mut c_int) -> u32;
    // SAFETY: the function of this name has this type.
    let get: GetProcAddress = unsafe { std::mem::transmute(symbol(c"cuGetProcAddress_v2")) };
    let (mut found, mut status) = (null_mut(), 9);
    ok(cu!(get(c"cuMemAlloc".as_ptr(), &mut found, 12080, 0, &mut status)));
    assert_eq!((found, status), (symbol(c"cuMemAlloc_v2"), 0));
    ok(cu!(get(c"cuMemMap".as_ptr(), &mut found, 12080, 0, null_mut())));
    assert_eq!(found, symbol(c"cuMemMap"));
    let code = cu!(get(c"cuNothing".as_ptr(), &mut found, 12080, 0, &mut status));
    assert_eq!((code, found, status), (NOT_FOUND, null_mut(), 1));
}
