//! Return values of calls, and values of their arguments.

/// The call did what it says.
pub const VELOC_SUCCESS: i32 = 0;
/// The call failed; `VELOC_Last_error` has the reason. It changed nothing, unless its description
/// says so.
pub const VELOC_FAILURE: i32 = -1;
/// Bytes of the longest name or path that the interface takes or gives, the final NUL included.
pub const VELOC_MAX_NAME: usize = 1024;
/// All protected regions.
pub const VELOC_CKPT_ALL: i32 = 0;
/// The regions whose ids are listed.
pub const VELOC_CKPT_SOME: i32 = 1;
/// The regions whose ids are not listed.
pub const VELOC_CKPT_REST: i32 = 2;
/// All regions of the checkpoint.
pub const VELOC_RECOVER_ALL: i32 = 0;
/// The regions whose ids are listed.
pub const VELOC_RECOVER_SOME: i32 = 1;
/// The regions whose ids are not listed.
pub const VELOC_RECOVER_REST: i32 = 2;
/// Flags of a protected region. In C++ they have a type of their own. No condition, count or other
/// constant has the number of VELOC_READ_ONLY.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(non_camel_case_types)] // C's names.
pub enum VELOC_Flags {
    /// None.
    VELOC_DEFAULT = 0,
    /// The application does not change the region until it is released.
    VELOC_READ_ONLY = 0x5245_4144,
}
/// How a region is captured: as the key `host_capture` says.
pub const VELOC_CAPTURE_AUTO: i32 = 0;
/// How a region is captured: the call copies it.
pub const VELOC_CAPTURE_COPY: i32 = 1;
/// How a region is captured: it is protected against writes until it is copied.
pub const VELOC_CAPTURE_PROTECT: i32 = 2;
/// How a region is captured: a copy-on-write child of the process copies it.
pub const VELOC_CAPTURE_FORK: i32 = 3;
/// How a region is compressed: not at all.
pub const VELOC_COMPRESS_NONE: i32 = 0;
/// How a region is compressed: without loss.
pub const VELOC_COMPRESS_LOSSLESS: i32 = 64;
/// How a region is compressed: to 8 bits for each value, within a bound.
pub const VELOC_COMPRESS_8: i32 = 8;
/// How a region is compressed: to 12 bits for each value, within a bound.
pub const VELOC_COMPRESS_12: i32 = 12;
/// How a region is compressed: to 16 bits for each value, within a bound.
pub const VELOC_COMPRESS_16: i32 = 16;
/// May be added to VELOC_COMPRESS_8, _12 or _16: the bound is a fraction of the region's largest
/// absolute value.
pub const VELOC_COMPRESS_RELATIVE: i32 = 256;
/// A crash: the process dies, and the machine goes on.
pub const VELOC_CRASH_PROCESS: i32 = 0;
/// A crash: the machine loses power. Each word of a cache line that was not written back may be old
/// or new.
pub const VELOC_CRASH_POWER: i32 = 1;
/// A crash: the machine loses power. Each sector of a page that was not written back may be old or
/// new.
pub const VELOC_CRASH_PAGE: i32 = 2;
/// What an invariant answers: it holds.
pub const VELOC_INVARIANT_HOLDS: i32 = 1;
/// What an invariant answers: it does not hold.
pub const VELOC_INVARIANT_FAILS: i32 = 0;
/// What VELOC_Pmem_matrix_correct answers: one word was wrong and has been corrected.
pub const VELOC_INVARIANT_CORRECTED: i32 = 2;
/// What an invariant answers: it cannot tell.
pub const VELOC_INVARIANT_UNKNOWN: i32 = -1;
/// A kind of event that C++ programs can observe: a checkpoint has ended.
pub const VELOC_OBSERVE_CKPT_END: i32 = 0;

#[cfg(test)]
mod tests {
    use super::*;
    use policy::capture::Capture;

    /// Catches a way of capturing whose number in C is another's.
    #[test]
    fn ways_of_capturing_have_the_numbers_of_their_rows() {
        let numbers = [
            (VELOC_CAPTURE_COPY, Capture::Copy),
            (VELOC_CAPTURE_PROTECT, Capture::Protect),
            (VELOC_CAPTURE_FORK, Capture::Fork),
        ];
        for (number, way) in numbers {
            assert_eq!(way.row().number.map(i32::from), Some(number));
        }
    }
}
