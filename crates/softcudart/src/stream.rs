//! Streams and events, which are the driver's.

use std::ffi::{c_int, c_uint, c_void};

use crate::driver::{CUevent, CUhostFn, CUstream};
use crate::memory::passed_on;

passed_on! {
    /// Waits for all work of the device.
    cudaDeviceSynchronize() => cuCtxSynchronize();
    /// Makes a stream.
    cudaStreamCreate(stream: *mut CUstream) => cuStreamCreate(stream, 0);
    /// Makes a stream of some kind.
    cudaStreamCreateWithFlags(stream: *mut CUstream, flags: c_uint) => cuStreamCreate(stream, flags);
    /// Makes a stream of some kind and priority.
    cudaStreamCreateWithPriority(stream: *mut CUstream, flags: c_uint, priority: c_int)
        => cuStreamCreateWithPriority(stream, flags, priority);
    /// Ends a stream.
    cudaStreamDestroy(stream: CUstream) => cuStreamDestroy_v2(stream);
    /// Waits for a stream.
    cudaStreamSynchronize(stream: CUstream) => cuStreamSynchronize(stream);
    /// Whether a stream's work is done.
    cudaStreamQuery(stream: CUstream) => cuStreamQuery(stream);
    /// Has a stream wait for an event.
    cudaStreamWaitEvent(stream: CUstream, event: CUevent, flags: c_uint)
        => cuStreamWaitEvent(stream, event, flags);
    /// Has a stream call a function.
    cudaLaunchHostFunc(stream: CUstream, function: CUhostFn, data: *mut c_void)
        => cuLaunchHostFunc(stream, function, data);
    /// Makes an event.
    cudaEventCreate(event: *mut CUevent) => cuEventCreate(event, 0);
    /// Makes an event of some kind.
    cudaEventCreateWithFlags(event: *mut CUevent, flags: c_uint) => cuEventCreate(event, flags);
    /// Puts an event into a stream.
    cudaEventRecord(event: CUevent, stream: CUstream) => cuEventRecord(event, stream);
    /// Whether the work before an event is done.
    cudaEventQuery(event: CUevent) => cuEventQuery(event);
    /// Waits for that.
    cudaEventSynchronize(event: CUevent) => cuEventSynchronize(event);
    /// Milliseconds between two events.
    cudaEventElapsedTime(milliseconds: *mut f32, start: CUevent, end: CUevent)
        => cuEventElapsedTime(milliseconds, start, end);
    /// Ends an event.
    cudaEventDestroy(event: CUevent) => cuEventDestroy_v2(event);
}
