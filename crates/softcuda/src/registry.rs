//! The driver's objects behind its handles: devices, contexts, streams,
//! events, modules and functions.
//!
//! A handle is a number that is never given out twice and never followed, so
//! a stale or invented one is recognised and cannot crash anything.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use once_cell::sync::OnceCell;

use crate::abi::{CUevent, CUfunction, CUmodule, CUstream, STREAM_LEGACY, STREAM_PER_THREAD};
use crate::checkpoint;
use crate::config;
use crate::context::Context;
use crate::handles::{as_handle, as_pointer, fresh_handle};
use crate::kernels::Kernel;
use crate::memory::{DriverMemory, Operand};
use crate::misuse;
use crate::ptx::ModuleCode;
use crate::queue::{ContextHealth, DriverStream, OperationTicket, StreamKind};
use crate::status::{DriverResult, ErrorCode};
use crate::sync::lock;

/// The initialised driver.
pub(crate) struct InitialisedDriver {
    /// How many devices there are.
    pub(crate) devices: usize,
    /// All memory that the driver knows of.
    pub(crate) memory: DriverMemory,
    objects: Mutex<DriverObjects>,
}

#[derive(Default)]
struct DriverObjects {
    contexts: HashMap<u64, Arc<Context>>,
    destroyed_contexts: HashSet<u64>,
    /// Handles of objects that ended with their context.
    stale: HashSet<u64>,
    primaries: HashMap<usize, Primary>,
    streams: HashMap<u64, (Arc<Context>, Arc<DriverStream>)>,
    greens: HashMap<u64, Green>,
    events: HashMap<u64, Arc<DriverEvent>>,
    modules: HashMap<u64, LoadedModule>,
    functions: HashMap<u64, LoadedFunction>,
}

/// A device's primary context. Made anew, it has the same handle as before.
struct Primary {
    handle: u64,
    context: Option<Arc<Context>>,
    retained: u64,
}

/// A module.
struct LoadedModule {
    context: u64,
    code: Arc<ModuleCode>,
}

/// A green context.
#[derive(Clone)]
pub(crate) struct Green {
    device: usize,
    /// The context that stands for it.
    pub(crate) context: u64,
    streams: HashSet<u64>,
}

/// A kernel as a module gave it out.
#[derive(Clone)]
struct LoadedFunction {
    module: u64,
    context: u64,
    kernel: Arc<Kernel>,
}

/// An event: a mark in a stream.
pub(crate) struct DriverEvent {
    /// The handle of its context.
    pub(crate) context: u64,
    /// Whether that context is broken or gone.
    pub(crate) health: Arc<ContextHealth>,
    /// Whether it records the time.
    pub(crate) timed: bool,
    /// Whether waiting for it sleeps.
    pub(crate) sleeps: bool,
    /// The mark it was last recorded as.
    pub(crate) mark: Mutex<Option<Arc<OperationTicket>>>,
}

static DRIVER: OnceCell<InitialisedDriver> = OnceCell::new();

/// Whether the driver has ended, as the process ends.
static ENDED: AtomicBool = AtomicBool::new(false);

/// Initialises the driver, once; a failure is not kept. It ends at the exit of the process, before the exit
/// handlers that were registered earlier.
pub(crate) fn initialise() -> DriverResult {
    if has_ended() {
        return Err(ErrorCode::DEINITIALIZED);
    }
    DRIVER.get_or_try_init(|| {
        let driver = InitialisedDriver::new()?;
        // SAFETY: the function is in this library, which is never unloaded. Failing to register it is not an
        // error.
        unsafe { libc::atexit(end) };
        checkpoint::begin();
        Ok(driver)
    })?;
    Ok(())
}

/// The exit handler: what is queued is not carried out, and each later call returns 4.
extern "C" fn end() {
    ENDED.store(true, Ordering::Release);
    if let Some(driver) = DRIVER.get() {
        for context in lock(&driver.objects).contexts.values() {
            context.health.destroy();
        }
    }
}

/// Whether the driver has ended, as the process ends.
pub(crate) fn has_ended() -> bool {
    ENDED.load(Ordering::Acquire)
}

/// The driver, if it is initialised.
pub(crate) fn driver() -> DriverResult<&'static InitialisedDriver> {
    if has_ended() {
        return Err(ErrorCode::DEINITIALIZED);
    }
    DRIVER.get().ok_or(ErrorCode::NOT_INITIALIZED)
}

impl Operand {
    /// Where this library reads and writes it. To be asked when the work is done: managed pages move then.
    pub(crate) fn pointer(&self) -> *mut u8 {
        let address = self.bring(driver().ok().map(|driver| &driver.memory));
        std::ptr::with_exposed_provenance_mut(address as usize)
    }
}

impl DriverObjects {
    /// Returns what was found under a handle; refuses the call if nothing was.
    fn expect<T>(&self, found: Option<T>, handle: u64) -> DriverResult<T> {
        if found.is_none() && self.stale.contains(&handle) {
            misuse::stale("a handle of a context that was destroyed");
        }
        found.ok_or(ErrorCode::INVALID_HANDLE)
    }
}

impl InitialisedDriver {
    fn new() -> DriverResult<Self> {
        let devices = config::devices();
        if devices == 0 {
            return Err(ErrorCode::NO_DEVICE);
        }
        let memory = DriverMemory::new(devices)?;
        Ok(Self { devices, memory, objects: Mutex::new(DriverObjects::default()) })
    }

    /// Checks a device number.
    pub(crate) fn device(&self, ordinal: i32) -> DriverResult<usize> {
        usize::try_from(ordinal)
            .ok()
            .filter(|ordinal| *ordinal < self.devices)
            .ok_or(ErrorCode::INVALID_DEVICE)
    }

    /// Makes a context that is not a primary one.
    pub(crate) fn create_context(&self, device: usize) -> Arc<Context> {
        let context = Context::new(fresh_handle(), device, false);
        lock(&self.objects).contexts.insert(context.handle, Arc::clone(&context));
        context
    }

    /// The living context of this handle.
    pub(crate) fn context(&self, handle: u64) -> DriverResult<Arc<Context>> {
        let objects = lock(&self.objects);
        match objects.contexts.get(&handle) {
            Some(context) => Ok(Arc::clone(context)),
            None if objects.destroyed_contexts.contains(&handle) => {
                Err(ErrorCode::CONTEXT_IS_DESTROYED)
            }
            None => Err(ErrorCode::INVALID_CONTEXT),
        }
    }

    /// The living context of a handle that a program has passed; the use of a destroyed one is undefined.
    pub(crate) fn given_context(&self, handle: u64) -> DriverResult<Arc<Context>> {
        self.context(handle).inspect_err(|status| {
            if *status == ErrorCode::CONTEXT_IS_DESTROYED {
                misuse::stale("a context that was destroyed");
            }
        })
    }

    /// Retains the primary context of `device`, making it if there is none.
    pub(crate) fn retain_primary(&self, device: usize) -> u64 {
        let mut objects = lock(&self.objects);
        let primary = objects.primaries.entry(device).or_insert_with(|| Primary {
            handle: fresh_handle(),
            context: None,
            retained: 0,
        });
        primary.retained += 1;
        let handle = primary.handle;
        if primary.context.is_none() {
            let context = Context::new(handle, device, true);
            primary.context = Some(Arc::clone(&context));
            objects.destroyed_contexts.remove(&handle);
            objects.contexts.insert(handle, context);
        }
        handle
    }

    /// Gives the primary context back; the last one to do so destroys it.
    pub(crate) fn release_primary(&self, device: usize) -> DriverResult {
        let unused = {
            let mut objects = lock(&self.objects);
            let primary = objects.primaries.get_mut(&device).ok_or(ErrorCode::INVALID_CONTEXT)?;
            primary.retained = primary.retained.checked_sub(1).ok_or(ErrorCode::INVALID_CONTEXT)?;
            match primary.retained {
                0 => primary.context.take(),
                _ => None,
            }
        };
        if let Some(context) = unused {
            self.destroy_context(&context);
        }
        Ok(())
    }

    /// Destroys the primary context although others hold it; they must release it all the same.
    pub(crate) fn reset_primary(&self, device: usize) {
        let found = lock(&self.objects).primaries.get_mut(&device).and_then(|p| p.context.take());
        if let Some(context) = found {
            self.destroy_context(&context);
        }
    }

    /// Whether the primary context of `device` exists.
    pub(crate) fn primary_is_active(&self, device: usize) -> bool {
        lock(&self.objects).primaries.get(&device).is_some_and(|found| found.context.is_some())
    }

    /// Waits for all that is queued, in all contexts.
    pub(crate) fn finish_all_work(&self) {
        let contexts: Vec<_> = lock(&self.objects).contexts.values().cloned().collect();
        for ticket in contexts.iter().flat_map(|context| context.pending()) {
            ticket.wait();
        }
    }

    /// Destroys a context and all that belongs to it.
    pub(crate) fn destroy_context(&self, context: &Context) {
        {
            let mut objects = lock(&self.objects);
            let handle = context.handle;
            objects.contexts.remove(&handle);
            objects.destroyed_contexts.insert(handle);
            let DriverObjects { stale, streams, events, modules, functions, .. } = &mut *objects;
            let mut stays = |object: &u64, owner: u64| {
                if owner == handle {
                    stale.insert(*object);
                }
                owner != handle
            };
            streams.retain(|object, (owner, _)| stays(object, owner.handle));
            events.retain(|object, event| stays(object, event.context));
            modules.retain(|object, module| stays(object, module.context));
            functions.retain(|object, function| stays(object, function.context));
        }
        context.shut_down();
        self.memory.release_context(context.handle);
    }

    /// Makes a stream in `context`.
    pub(crate) fn create_stream(
        &self,
        context: &Arc<Context>,
        kind: StreamKind,
        flags: u32,
    ) -> DriverResult<CUstream> {
        let stream = context.add_stream(fresh_handle(), kind, flags)?;
        let handle = stream.handle;
        lock(&self.objects).streams.insert(handle, (Arc::clone(context), stream));
        Ok(as_pointer(handle))
    }

    /// Makes a green context, which retains the device's primary one.
    pub(crate) fn create_green(&self, device: usize) -> u64 {
        let primary = self.retain_primary(device);
        let (handle, context) = (fresh_handle(), fresh_handle());
        let mut objects = lock(&self.objects);
        if let Some(primary) = objects.contexts.get(&primary).cloned() {
            objects.contexts.insert(context, primary);
        }
        objects.greens.insert(handle, Green { device, context, streams: HashSet::new() });
        handle
    }

    /// Ends a green context.
    pub(crate) fn destroy_green(&self, handle: u64) -> DriverResult {
        let green = {
            let mut objects = lock(&self.objects);
            let green = objects.greens.remove(&handle).ok_or(ErrorCode::INVALID_HANDLE)?;
            objects.contexts.remove(&green.context);
            green
        };
        self.release_primary(green.device)
    }

    /// The green context of this handle.
    pub(crate) fn green(&self, handle: u64) -> DriverResult<Green> {
        lock(&self.objects).greens.get(&handle).cloned().ok_or(ErrorCode::INVALID_HANDLE)
    }

    /// The green context that a stream was made in, and its handle.
    pub(crate) fn green_of(&self, stream: &DriverStream) -> Option<(u64, Green)> {
        let objects = lock(&self.objects);
        let found = objects.greens.iter().find(|(_, green)| green.streams.contains(&stream.handle));
        found.map(|(handle, green)| (*handle, green.clone()))
    }

    /// Makes a stream in a green context.
    pub(crate) fn create_green_stream(
        &self,
        handle: u64,
        kind: StreamKind,
        flags: u32,
    ) -> DriverResult<CUstream> {
        let context = self.context(self.green(handle)?.context)?;
        let stream = self.create_stream(&context, kind, flags)?;
        if let Some(green) = lock(&self.objects).greens.get_mut(&handle) {
            green.streams.insert(as_handle(stream));
        }
        Ok(stream)
    }

    /// The stream of this handle, and its context; the default streams are
    /// those of `current`.
    pub(crate) fn stream(
        &self,
        handle: CUstream,
        current: &Arc<Context>,
    ) -> DriverResult<(Arc<Context>, Arc<DriverStream>)> {
        match handle.addr() {
            0 => Ok((Arc::clone(current), current.default_stream(STREAM_LEGACY)?)),
            STREAM_LEGACY | STREAM_PER_THREAD => {
                Ok((Arc::clone(current), current.default_stream(handle.addr())?))
            }
            _ => {
                let objects = lock(&self.objects);
                let found = objects.streams.get(&as_handle(handle)).cloned();
                objects.expect(found, as_handle(handle))
            }
        }
    }

    /// Destroys a stream; what is queued in it is still carried out.
    pub(crate) fn destroy_stream(&self, handle: CUstream) -> DriverResult {
        let (_, stream) = {
            let mut objects = lock(&self.objects);
            let found = objects.streams.remove(&as_handle(handle));
            objects.expect(found, as_handle(handle))?
        };
        stream.close();
        Ok(())
    }

    /// Makes an event in `context`.
    pub(crate) fn create_event(&self, context: &Context, timed: bool, sleeps: bool) -> CUevent {
        let handle = fresh_handle();
        let event = DriverEvent {
            context: context.handle,
            health: Arc::clone(&context.health),
            timed,
            sleeps,
            mark: Mutex::new(None),
        };
        lock(&self.objects).events.insert(handle, Arc::new(event));
        as_pointer(handle)
    }

    /// The event of this handle.
    pub(crate) fn event(&self, handle: CUevent) -> DriverResult<Arc<DriverEvent>> {
        let objects = lock(&self.objects);
        objects.expect(objects.events.get(&as_handle(handle)).cloned(), as_handle(handle))
    }

    /// Forgets an event; operations that wait for it go on waiting.
    pub(crate) fn destroy_event(&self, handle: CUevent) -> DriverResult {
        let mut objects = lock(&self.objects);
        let found = objects.events.remove(&as_handle(handle));
        objects.expect(found, as_handle(handle)).map(|_| ())
    }

    /// Makes a module in `context`.
    pub(crate) fn load_module(&self, context: &Context, ptx: Option<String>) -> CUmodule {
        let handle = fresh_handle();
        let module = LoadedModule { context: context.handle, code: Arc::new(ModuleCode::new(ptx)) };
        lock(&self.objects).modules.insert(handle, module);
        as_pointer(handle)
    }

    /// Unloads a module and the functions taken from it.
    pub(crate) fn unload_module(&self, handle: CUmodule) -> DriverResult {
        let handle = as_handle(handle);
        let mut objects = lock(&self.objects);
        let found = objects.modules.remove(&handle);
        objects.expect(found, handle)?;
        objects.functions.retain(|_, function| function.module != handle);
        Ok(())
    }

    /// Gives out what `find` finds as a function of `module`.
    pub(crate) fn add_function(
        &self,
        module: CUmodule,
        find: impl FnOnce(&ModuleCode) -> DriverResult<Arc<Kernel>>,
    ) -> DriverResult<CUfunction> {
        let module = as_handle(module);
        let of_module = |objects: &DriverObjects| {
            let found = objects.modules.get(&module).ok_or(ErrorCode::INVALID_HANDLE)?;
            Ok((found.context, Arc::clone(&found.code)))
        };
        // Not under the lock: it may have to be compiled, which takes long.
        let (context, code) = of_module(&lock(&self.objects))?;
        let kernel = find(&code)?;
        let handle = fresh_handle();
        lock(&self.objects).functions.insert(handle, LoadedFunction { module, context, kernel });
        Ok(as_pointer(handle))
    }

    /// The kernel behind a function, which must be one of `context`.
    pub(crate) fn kernel(
        &self,
        function: CUfunction,
        context: &Context,
    ) -> DriverResult<Arc<Kernel>> {
        let objects = lock(&self.objects);
        let found = objects.functions.get(&as_handle(function));
        let found = found.filter(|function| function.context == context.handle);
        let kernel = found.map(|function| Arc::clone(&function.kernel));
        objects.expect(kernel, as_handle(function))
    }
}
