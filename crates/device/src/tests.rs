//! The library's own logic on both kinds of devices: CUDA, of which the software device is the driver, and the
//! host's memory.

mod kernels;

use std::ffi::{c_char, c_int, c_void, CString};
use std::sync::{Arc, Mutex, MutexGuard};

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

use super::host::HostDevice;
use super::*;
use crate::api::StreamHandle;
use os::size;

/// A device of some kind, and what makes its operations fail.
struct Given {
    name: &'static str,
    device: Arc<Device>,
    fail: Box<dyn Fn(&str)>,
    /// Checks that nothing is left, and that nothing was misused.
    check: Box<dyn Fn()>,
}

/// Runs a test on each kind, within the context; one at a time, as faults are for the process.
fn on_both(test: impl Fn(&Given)) {
    on_each(&[host, software], test);
}

fn on_each(kinds: &[fn() -> Given], test: impl Fn(&Given)) {
    static ONE: Mutex<()> = Mutex::new(());
    let _one: MutexGuard<'_, ()> = ONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    for given in kinds.iter().map(|kind| kind()) {
        println!("{}", given.name);
        {
            let _current = given.device.enter().unwrap();
            test(&given);
        }
        (given.check)();
    }
}

fn host() -> Given {
    let api = Arc::new(HostDevice::default());
    let failing = api.clone();
    let names = ["create", "map", "allow_access", "unmap", "register", "copy"];
    Given {
        name: "host",
        device: Arc::new(Device::new(HostDevice::info(), api.clone())),
        fail: Box::new(move |what| {
            failing.fail(names.into_iter().find(|name| *name == what).unwrap(), 0);
        }),
        check: Box::new(move || assert_eq!(api.in_use(), [0; 4])),
    }
}

/// The software device, which is built beside this program.
fn software() -> Given {
    let path = std::env::current_exe().unwrap().with_file_name("libsoftcuda.so");
    // SAFETY: its initialisers run in any program that uses it; it is never unloaded.
    let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) }.unwrap();
    // SAFETY: as its header declares them.
    let (retain, inject, reset, misuses) = unsafe {
        type Retain = unsafe extern "C" fn(*mut *mut c_void, c_int) -> c_int;
        (
            *library.get::<Retain>(b"cuDevicePrimaryCtxRetain").unwrap(),
            *library
                .get::<unsafe extern "C" fn(*const c_char) -> c_int>(b"softcuda_inject")
                .unwrap(),
            *library.get::<unsafe extern "C" fn()>(b"softcuda_reset_counts").unwrap(),
            *library.get::<unsafe extern "C" fn() -> u64>(b"softcuda_misuse_count").unwrap(),
        )
    };
    std::mem::forget(library);
    assert_eq!(kinds::is_there(), Ok(true));
    let mut context = std::ptr::null_mut();
    // SAFETY: the pointer is to a local. The context is the application's, and stays.
    assert_eq!(unsafe { retain(&mut context, 0) }, 0);
    let device = Arc::new(kinds::current().unwrap().unwrap());
    let free = device.free_memory().unwrap();
    let checked = device.clone();
    Given {
        name: "software",
        device,
        fail: Box::new(move |what| {
            let call = match what {
                "create" => "cuMemCreate",
                "map" => "cuMemMap",
                "allow_access" => "cuMemSetAccess",
                "unmap" => "cuMemUnmap",
                "register" => "cuMemHostRegister_v2",
                "allocate" => "cuMemAlloc_v2",
                "load" => "cuModuleLoadData",
                "find" => "cuModuleGetFunction",
                "launch" => "cuLaunchKernel",
                _ => "cuMemcpyDtoHAsync_v2",
            };
            let rule = CString::new(format!("{call}:1=2")).unwrap();
            // SAFETY: a string that ends.
            unsafe {
                reset();
                assert_eq!(inject(rule.as_ptr()), 0);
            }
        }),
        check: Box::new(move || {
            assert_eq!(checked.free_memory().unwrap(), free);
            // SAFETY: without arguments.
            assert_eq!(unsafe { misuses() }, 0);
        }),
    }
}

/// The unit in which the device maps.
fn unit(device: &Device) -> u64 {
    device.api().granularity().unwrap()
}

/// Writes to device memory and reads it back.
fn round_trip(device: &Arc<Device>, at: u64, len: u64) {
    let stream = Stream::new(device).unwrap();
    let bytes: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
    let mut back = vec![0; len as usize];
    // SAFETY: all stay until the stream was waited for.
    unsafe {
        stream.copy_from_host(at, bytes.as_ptr(), len).unwrap();
        stream.copy_to_host(back.as_mut_ptr(), at, len).unwrap();
    }
    stream.synchronize().unwrap();
    assert!(bytes == back);
}

/// Catches lengths that are no multiples of the unit, pieces that do not begin where the last one
/// ends, a range that grows beyond its reservation, and a classification that does not see several
/// handles as one range, or needs the thread's own context.
#[test]
fn a_range_grows_to_what_was_reserved() {
    on_both(|given| {
        let unit = unit(&given.device);
        let mut range = DeviceRange::reserve(&given.device, 4 * unit - 1).unwrap();
        assert_eq!(range.reserved(), 4 * unit);
        let mut mapped = 0;
        for (asked, got) in [(1, unit), (unit + 1, 2 * unit), (9 * unit, unit), (1, 0)] {
            assert_eq!(range.map_next(asked).unwrap(), got);
            mapped += got;
            round_trip(&given.device, range.base(), mapped);
            let (device, base) = (&given.device, range.base());
            let classify = |len| Pointer::classify(device, base, len);
            let expected = Ok(Pointer::Device { managed: false, ordinal: 0 });
            assert_eq!(classify(mapped), expected);
            let beyond = classify(mapped + 1).unwrap_err().to_string();
            assert!(beyond.contains(&format!("{} bytes at", mapped + 1)), "{beyond}");
            std::thread::scope(|scope| {
                scope.spawn(|| assert_eq!(classify(mapped), expected));
            });
        }
    });
}

/// Catches memory or a mapping that stays after a later step of mapping has failed, an error that does not say
/// what was tried, and a range that does not go on.
#[test]
fn a_piece_that_cannot_be_mapped_is_undone() {
    on_both(|given| {
        let unit = unit(&given.device);
        let mut range = DeviceRange::reserve(&given.device, 4 * unit).unwrap();
        for (mapped, operation) in ["create", "map", "allow_access"].into_iter().enumerate() {
            (given.fail)(operation);
            let error = range.map_next(unit).unwrap_err().to_string();
            let [piece, all] = [unit, mapped as u64 * unit].map(size::show);
            let text = format!("mapping {piece} of the device cache, of which {all} are mapped: ");
            assert!(error.starts_with(&text), "{error}");
            assert_eq!(range.map_next(unit).unwrap(), unit);
        }
        round_trip(&given.device, range.base(), 3 * unit);
    });
}

/// Catches memory that stays after it was unmapped, a range that cannot be used again where it was, and one that
/// has lost a piece that the device has not given up.
#[test]
fn a_range_shrinks_from_its_end_and_grows_again() {
    on_both(|given| {
        let unit = unit(&given.device);
        let mut range = DeviceRange::reserve(&given.device, 4 * unit).unwrap();
        for piece in [2 * unit, unit] {
            assert_eq!(range.map_next(piece).unwrap(), piece);
        }
        let free = given.device.free_memory().unwrap();
        round_trip(&given.device, range.base(), 3 * unit);
        (given.fail)("unmap");
        // SAFETY: the copies were waited for, here and below.
        let error = unsafe { range.unmap_last() }.unwrap_err().to_string();
        assert!(error.starts_with(&format!("unmapping {}: ", size::show(unit))), "{error}");
        assert_eq!((range.mapped(), range.last_piece()), (3 * unit, Some(2 * unit)));
        round_trip(&given.device, range.base(), 3 * unit);
        for (left, last) in [(2 * unit, Some(0)), (0, None), (0, None)] {
            // SAFETY: as above.
            unsafe { range.unmap_last() }.unwrap();
            assert_eq!((range.mapped(), range.last_piece()), (left, last));
        }
        assert_eq!(given.device.free_memory().unwrap(), free + 3 * unit);
        assert_eq!(range.map_next(4 * unit).unwrap(), 4 * unit);
        round_trip(&given.device, range.base(), 4 * unit);
    });
}

/// Catches an event that is not behind what was queued before it, and a stream that does not wait for it.
#[test]
fn a_stream_waits_for_an_event_of_another() {
    const LEN: u64 = 8 << 20;
    on_both(|given| {
        let device = &given.device;
        let mut range = DeviceRange::reserve(device, 2 * LEN).unwrap();
        while range.map_next(LEN).unwrap() > 0 {}
        let (first, second) = (Stream::new(device).unwrap(), Stream::new(device).unwrap());
        let mut back = vec![0; LEN as usize];
        for (turn, waiting) in [WaitMode::Spin, WaitMode::Block].into_iter().enumerate() {
            let (between, end) =
                (Event::new(device, waiting).unwrap(), Event::new(device, waiting).unwrap());
            let bytes = vec![turn as u8 + 1; LEN as usize];
            // SAFETY: all stay until the event at the end was waited for.
            unsafe {
                first.copy_from_host(range.base(), bytes.as_ptr(), LEN).unwrap();
                first.copy_on_device(range.base() + LEN, range.base(), LEN).unwrap();
                between.record(&first).unwrap();
                second.wait(&between).unwrap();
                second.copy_to_host(back.as_mut_ptr(), range.base() + LEN, LEN).unwrap();
            }
            end.record(&second).unwrap();
            end.synchronize().unwrap();
            assert!(back == bytes);
        }
        (given.fail)("copy");
        // SAFETY: nothing is queued.
        let refused = unsafe { second.copy_to_host(back.as_mut_ptr(), range.base(), LEN) };
        assert!(refused.is_err());
        device.synchronize().unwrap();
    });
}

/// Catches a buffer that stays registered, one whose registration the driver does not know, and one that is
/// not to be had because it cannot be registered.
#[test]
fn memory_is_registered_until_it_is_dropped() {
    on_both(|given| {
        let device = &given.device;
        let (buffer, refused) = PinnedBuffer::new(device, 1 << 16).unwrap();
        assert_eq!(refused, None);
        let at = buffer.address(100) as u64;
        let classify = |at| Pointer::classify(device, at, 8).unwrap();
        assert_eq!(classify(at), Pointer::Host { pinned: true });
        drop(buffer);
        assert_eq!(classify(at), PAGEABLE);
        (given.fail)("register");
        let (buffer, refused) = PinnedBuffer::new(device, 1 << 16).unwrap();
        assert!(refused.is_some());
        assert_eq!(classify(buffer.address(0) as u64), PAGEABLE);
        drop(buffer);
        let mapping = os::mapping::Mapping::reserve(1 << 16).unwrap();
        let start = mapping.base().as_ptr();
        // SAFETY: the mapping stays, and nobody copies.
        unsafe {
            register(device, start, 1 << 16).unwrap();
            assert_eq!(classify(start as u64), Pointer::Host { pinned: true });
            unregister(device, start).unwrap();
        }
    });
}

/// Catches a stream of the application's that is refused, and an event that cannot be recorded in it.
#[test]
fn the_applications_stream_is_taken() {
    on_both(|given| {
        let device = &given.device;
        let raw = device.api().create_stream().unwrap();
        let StreamHandle(handle) = raw;
        // SAFETY: it is ended at the end.
        let stream = unsafe { ApplicationStream::new(device, handle as *mut _) }.unwrap();
        let event = Event::new(device, WaitMode::Spin).unwrap();
        event.record_in(stream).unwrap();
        event.synchronize().unwrap();
        // SAFETY: nobody uses it any more.
        device.destroy_in_context(|api| unsafe { api.destroy_stream(raw) });
    });
}
