//! The one list of the driver's functions, for all who call it.

/// Hands the list to the macro `$callback`, behind what else that is given: for each function its
/// documentation, and the arguments with the types of the driver's header. Every driver since CUDA 11.0 has
/// them all.
#[macro_export]
macro_rules! driver_functions {
    ($callback:path { $($given:tt)* }) => {
        $callback! {
            $($given)*
            /// Initialises the driver.
            cuInit(flags: ::std::ffi::c_uint);
            /// The driver's CUDA version, 12080 for 12.8.
            cuDriverGetVersion(version: *mut ::std::ffi::c_int);
            /// What a status means.
            cuGetErrorString(status: $crate::cuda::Status, text: *mut *const ::std::ffi::c_char);

            /// How many devices there are.
            cuDeviceGetCount(count: *mut ::std::ffi::c_int);
            /// The device of this ordinal.
            cuDeviceGet(device: *mut $crate::cuda::CUdevice, ordinal: ::std::ffi::c_int);
            /// A device's name.
            cuDeviceGetName(
                name: *mut ::std::ffi::c_char, len: ::std::ffi::c_int,
                device: $crate::cuda::CUdevice,
            );
            /// One attribute (`CUdevice_attribute` as a number).
            cuDeviceGetAttribute(
                value: *mut ::std::ffi::c_int, attribute: ::std::ffi::c_uint,
                device: $crate::cuda::CUdevice,
            );
            /// A device's memory in bytes.
            cuDeviceTotalMem_v2(bytes: *mut usize, device: $crate::cuda::CUdevice);
            /// A device's bus id, as in sysfs.
            cuDeviceGetPCIBusId(
                id: *mut ::std::ffi::c_char, len: ::std::ffi::c_int,
                device: $crate::cuda::CUdevice,
            );
            /// Whether the primary context exists.
            cuDevicePrimaryCtxGetState(
                device: $crate::cuda::CUdevice, flags: *mut ::std::ffi::c_uint,
                active: *mut ::std::ffi::c_int,
            );
            /// Keeps the primary context alive.
            cuDevicePrimaryCtxRetain(
                context: *mut $crate::cuda::CUcontext, device: $crate::cuda::CUdevice,
            );
            /// Gives it back.
            cuDevicePrimaryCtxRelease_v2(device: $crate::cuda::CUdevice);
            /// Ends it, whoever keeps it.
            cuDevicePrimaryCtxReset_v2(device: $crate::cuda::CUdevice);

            /// The calling thread's context.
            cuCtxGetCurrent(context: *mut $crate::cuda::CUcontext);
            /// Makes a context the calling thread's.
            cuCtxSetCurrent(context: $crate::cuda::CUcontext);
            /// The same, to be undone by a pop.
            cuCtxPushCurrent_v2(context: $crate::cuda::CUcontext);
            /// Undoes a push.
            cuCtxPopCurrent_v2(context: *mut $crate::cuda::CUcontext);
            /// What version of the interface a context has: an error for one that has ended.
            cuCtxGetApiVersion(context: $crate::cuda::CUcontext, version: *mut ::std::ffi::c_uint);
            /// The device of the calling thread's context.
            cuCtxGetDevice(device: *mut $crate::cuda::CUdevice);
            /// Waits for everything queued in the calling thread's context, on every stream.
            cuCtxSynchronize();

            /// Several attributes of a pointer at once.
            cuPointerGetAttributes(
                count: ::std::ffi::c_uint, attributes: *mut ::std::ffi::c_uint,
                data: *mut *mut ::std::ffi::c_void, pointer: $crate::cuda::CUdeviceptr,
            );

            /// Free and total memory of the device in bytes.
            cuMemGetInfo_v2(free: *mut usize, total: *mut usize);
            /// Registers host memory.
            cuMemHostRegister_v2(
                pointer: *mut ::std::ffi::c_void, size: usize, flags: ::std::ffi::c_uint,
            );
            /// Undoes a registration.
            cuMemHostUnregister(pointer: *mut ::std::ffi::c_void);
            /// Device memory.
            cuMemAlloc_v2(address: *mut $crate::cuda::CUdeviceptr, bytes: usize);
            /// Managed memory.
            cuMemAllocManaged(
                address: *mut $crate::cuda::CUdeviceptr, bytes: usize, flags: ::std::ffi::c_uint,
            );
            /// Frees either.
            cuMemFree_v2(address: $crate::cuda::CUdeviceptr);
            /// Page-locked memory.
            cuMemHostAlloc(
                pointer: *mut *mut ::std::ffi::c_void, bytes: usize, flags: ::std::ffi::c_uint,
            );
            /// Frees it.
            cuMemFreeHost(pointer: *mut ::std::ffi::c_void);
            /// Where the device has page-locked memory.
            cuMemHostGetDevicePointer_v2(
                address: *mut $crate::cuda::CUdeviceptr, pointer: *mut ::std::ffi::c_void,
                flags: ::std::ffi::c_uint,
            );
            /// Moves pages of managed memory.
            cuMemPrefetchAsync(
                address: $crate::cuda::CUdeviceptr, bytes: usize, to: $crate::cuda::CUdevice,
                stream: $crate::cuda::CUstream,
            );

            /// What was asked for about a range of managed memory.
            cuMemRangeGetAttributes(
                data: *mut *mut ::std::ffi::c_void, sizes: *mut usize,
                attributes: *mut ::std::ffi::c_uint, count: usize,
                address: $crate::cuda::CUdeviceptr, bytes: usize,
            );

            /// The unit of physical allocations in bytes.
            cuMemGetAllocationGranularity(
                bytes: *mut usize, prop: *const $crate::cuda::CUmemAllocationProp,
                option: ::std::ffi::c_uint,
            );
            /// Reserves an address range.
            cuMemAddressReserve(
                pointer: *mut $crate::cuda::CUdeviceptr, size: usize, alignment: usize,
                hint: $crate::cuda::CUdeviceptr, flags: ::std::ffi::c_ulonglong,
            );
            /// Gives an address range back.
            cuMemAddressFree(pointer: $crate::cuda::CUdeviceptr, size: usize);
            /// Makes physical memory.
            cuMemCreate(
                handle: *mut $crate::cuda::CUmemGenericAllocationHandle, size: usize,
                prop: *const $crate::cuda::CUmemAllocationProp, flags: ::std::ffi::c_ulonglong,
            );
            /// Gives physical memory back, as soon as it is not mapped.
            cuMemRelease(handle: $crate::cuda::CUmemGenericAllocationHandle);
            /// Maps physical memory at an address.
            cuMemMap(
                pointer: $crate::cuda::CUdeviceptr, size: usize, offset: usize,
                handle: $crate::cuda::CUmemGenericAllocationHandle, flags: ::std::ffi::c_ulonglong,
            );
            /// Unmaps it.
            cuMemUnmap(pointer: $crate::cuda::CUdeviceptr, size: usize);
            /// Lets devices use mapped memory.
            cuMemSetAccess(
                pointer: $crate::cuda::CUdeviceptr, size: usize,
                desc: *const $crate::cuda::CUmemAccessDesc, count: usize,
            );

            /// Copies between any two addresses.
            cuMemcpyAsync(
                to: $crate::cuda::CUdeviceptr, from: $crate::cuda::CUdeviceptr, bytes: usize,
                stream: $crate::cuda::CUstream,
            );
            /// Copies within device memory.
            cuMemcpyDtoDAsync_v2(
                to: $crate::cuda::CUdeviceptr, from: $crate::cuda::CUdeviceptr, bytes: usize,
                stream: $crate::cuda::CUstream,
            );
            /// Copies from device to host memory.
            cuMemcpyDtoHAsync_v2(
                to: *mut ::std::ffi::c_void, from: $crate::cuda::CUdeviceptr, bytes: usize,
                stream: $crate::cuda::CUstream,
            );
            /// Copies from host to device memory.
            cuMemcpyHtoDAsync_v2(
                to: $crate::cuda::CUdeviceptr, from: *const ::std::ffi::c_void, bytes: usize,
                stream: $crate::cuda::CUstream,
            );
            /// Copies between any two addresses.
            cuMemcpy(to: $crate::cuda::CUdeviceptr, from: $crate::cuda::CUdeviceptr, bytes: usize);
            /// Copies to a device.
            cuMemcpyHtoD_v2(
                to: $crate::cuda::CUdeviceptr, from: *const ::std::ffi::c_void, bytes: usize,
            );
            /// Copies from a device.
            cuMemcpyDtoH_v2(
                to: *mut ::std::ffi::c_void, from: $crate::cuda::CUdeviceptr, bytes: usize,
            );
            /// Copies within devices.
            cuMemcpyDtoD_v2(
                to: $crate::cuda::CUdeviceptr, from: $crate::cuda::CUdeviceptr, bytes: usize,
            );
            /// Fills memory.
            cuMemsetD8_v2(address: $crate::cuda::CUdeviceptr, value: u8, bytes: usize);
            /// Fills memory, in a stream.
            cuMemsetD8Async(
                address: $crate::cuda::CUdeviceptr, value: u8, bytes: usize,
                stream: $crate::cuda::CUstream,
            );

            /// Makes a stream.
            cuStreamCreate(stream: *mut $crate::cuda::CUstream, flags: ::std::ffi::c_uint);
            /// Ends a stream.
            cuStreamDestroy_v2(stream: $crate::cuda::CUstream);
            /// Waits for a stream.
            cuStreamSynchronize(stream: $crate::cuda::CUstream);
            /// Lets a stream wait for an event.
            cuStreamWaitEvent(
                stream: $crate::cuda::CUstream, event: $crate::cuda::CUevent,
                flags: ::std::ffi::c_uint,
            );
            /// The context of a stream.
            cuStreamGetCtx(stream: $crate::cuda::CUstream, context: *mut $crate::cuda::CUcontext);
            /// Makes a stream of a priority.
            cuStreamCreateWithPriority(
                stream: *mut $crate::cuda::CUstream, flags: ::std::ffi::c_uint,
                priority: ::std::ffi::c_int,
            );
            /// Whether a stream's work is done.
            cuStreamQuery(stream: $crate::cuda::CUstream);

            /// Makes an event.
            cuEventCreate(event: *mut $crate::cuda::CUevent, flags: ::std::ffi::c_uint);
            /// Puts an event into a stream.
            cuEventRecord(event: $crate::cuda::CUevent, stream: $crate::cuda::CUstream);
            /// Waits for an event.
            cuEventSynchronize(event: $crate::cuda::CUevent);
            /// Ends an event.
            cuEventDestroy_v2(event: $crate::cuda::CUevent);
            /// Whether the work before an event is done.
            cuEventQuery(event: $crate::cuda::CUevent);
            /// Milliseconds between two events.
            cuEventElapsedTime(
                milliseconds: *mut f32, start: $crate::cuda::CUevent, end: $crate::cuda::CUevent,
            );

            /// Makes a module of PTX.
            cuModuleLoadData(module: *mut $crate::cuda::CUmodule, image: *const ::std::ffi::c_void);
            /// A kernel of a module.
            cuModuleGetFunction(
                function: *mut $crate::cuda::CUfunction, module: $crate::cuda::CUmodule,
                name: *const ::std::ffi::c_char,
            );
            /// Queues a kernel.
            cuLaunchKernel(
                function: $crate::cuda::CUfunction, grid_x: ::std::ffi::c_uint,
                grid_y: ::std::ffi::c_uint, grid_z: ::std::ffi::c_uint,
                block_x: ::std::ffi::c_uint, block_y: ::std::ffi::c_uint,
                block_z: ::std::ffi::c_uint, shared: ::std::ffi::c_uint,
                stream: $crate::cuda::CUstream, params: *mut *mut ::std::ffi::c_void,
                extra: *mut *mut ::std::ffi::c_void,
            );
            /// Queues a function of the program's.
            cuLaunchHostFunc(
                stream: $crate::cuda::CUstream, function: $crate::cuda::CUhostFn,
                data: *mut ::std::ffi::c_void,
            );
        }
    };
}
