//! The kind of each region's memory, and the stream that the application computes in.

use std::cell::{OnceCell, RefCell};

use super::regions::ProtectedMemory;
use catalog::Part;
use device::{kinds, ApplicationStream, Current, Pointer, PAGEABLE};
use engine::place::{part_of, Place};
use engine::Engine;
use errors::{Error, Result};
use os::access;
use policy::capture::Capture;

/// The application's memory, as one call meets it: whether there is a driver is asked once, as memory that the
/// call is about is older than the call.
pub(super) struct CallMemory<'a> {
    engine: &'a Engine,
    driver: OnceCell<Result<bool>>,
    /// The device's context is entered once for all of a call.
    inside: RefCell<Option<Current>>,
}

impl<'a> CallMemory<'a> {
    pub(super) fn new(engine: &'a Engine) -> Self {
        CallMemory { engine, driver: OnceCell::new(), inside: RefCell::new(None) }
    }

    /// Leaves the context, as the application's own code is about to run.
    pub(super) fn leave(&self) {
        drop(self.inside.take());
    }

    /// The context that was entered, to stay there.
    pub(super) fn into_inside(self) -> Option<Current> {
        self.inside.into_inner()
    }

    /// The kind of memory at an address. The first device memory that is met makes its device this
    /// job's.
    pub(super) fn kind(&self, address: u64, len: u64) -> Result<Pointer> {
        match self.driver.get_or_init(kinds::is_there) {
            Ok(true) => {}
            Ok(false) => return Ok(PAGEABLE),
            Err(error) => {
                let what = format!("going on without a device: {error}");
                self.engine.telemetry().degrade("driver", what);
                // The application may use the device all the same; its memory is not the host's.
                let readable = access::is_readable(address, len);
                return if readable { Ok(PAGEABLE) } else { Err(error.clone()) };
            }
        }
        if address == 0 {
            return Ok(PAGEABLE);
        }
        match self.known(address, len) {
            // When the driver has ended, so has all device memory; host memory is there still.
            Err(error) if kinds::says_ended(&error) && access::is_readable(address, len) => {
                Ok(PAGEABLE)
            }
            known => known,
        }
    }

    /// The kind of memory that the driver reports.
    fn known(&self, address: u64, len: u64) -> Result<Pointer> {
        let side = self.engine.device_side();
        if !side.has_device() {
            match kinds::device_of(address)? {
                Some(device) => self.engine.attach(device)?,
                None => return Ok(PAGEABLE),
            }
        }
        let device = side.device()?;
        if self.inside.borrow().is_none() {
            *self.inside.borrow_mut() = Some(device.enter()?);
        }
        Pointer::classify(device, address, len)
    }

    /// Where a protected region's first `len` bytes are now. Device memory that the driver does not
    /// know any more was freed: it must not be taken for host memory.
    pub(super) fn place(&self, id: i32, region: &ProtectedMemory, len: u64) -> Result<Place> {
        let kind = self.kind(region.address, len);
        let kind = kind.map_err(|error| error.within(format!("region {id}")))?;
        let capture = match region.terms.read_only {
            true => Capture::Lent,
            false => Capture::Copy,
        };
        let (address, part) = (region.address, part_of(kind));
        let place = Place { id, address, len, kind, part, capture, decoded: None };
        if region.part == Part::Device && place.part == Part::Host && len > 0 {
            return Err(Error::invalid(format!(
                "region {id}: the device memory at {:#x} that was protected is not known to the \
                 driver any more; was it freed?",
                region.address
            )));
        }
        Ok(place)
    }
}

/// From here on, captures are ordered with the work of this stream; NULL: with everything
/// queued in the context.
///
/// # Safety
/// `stream` is NULL or a stream that stays alive until another one is set.
pub unsafe fn set_stream(engine: &Engine, stream: *mut std::ffi::c_void) -> Result<()> {
    let new = if stream.is_null() {
        None
    } else {
        if !kinds::is_there()? {
            return Err(Error::invalid("a stream was given, but no CUDA driver is loaded"));
        }
        if !engine.device_side().has_device() {
            let device = kinds::current()?
                .ok_or_else(|| Error::invalid("a stream was given, but no context is current"))?;
            engine.attach(device)?;
        }
        let device = engine.device_side().device()?;
        // SAFETY: the caller's promise.
        Some(unsafe { ApplicationStream::new(device, stream) }?)
    };
    engine.device_side().set_stream(new);
    Ok(())
}
