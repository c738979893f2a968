//! The C symbols of MPI, one file per kind: tables of their names, arguments and implementations in
//! `calls`. A function that the MPI library lacks fails by name.
//!
//! MPI's Fortran interfaces are redirected to these symbols (`fortran`).

/// Defines the C function of each name, with MPI's arguments.
///
/// `|at, call, real| ...` handles calls outside and inside parts, as `at` tells: `call` is the
/// function's name, and `real()` passes the call through unchanged; `real(status)` with another pointer
/// for that argument. What follows `quick` is tried first, and compiled twice, for outside and inside:
/// it passes the call through and returns its result, or returns `None` without effect. `inside |call,
/// real| ...` handles only calls inside parts; others are passed through.
macro_rules! exports {
    () => {};
    (
        fn $name:ident($($arg:ident: $type:ty),* $(,)?)
            |$at:ident, $call:ident, $real:ident $(($own:ident))?| $body:expr;
        $($rest:tt)*
    ) => {
        exports! { @symbol $name($($arg: $type),*) {
            // A separate function, so that calls outside parts do not pay for it.
            #[inline(never)]
            #[allow(clippy::too_many_arguments)] // As MPI has it.
            unsafe extern "C" fn general_path($($arg: $type),*) -> std::ffi::c_int {
                exports! { @passing $name($($arg: $type),*) |$call, $real $(($own))?| {
                    let Some($at) = crate::entry::at() else { return $real($($own)?) };
                    // SAFETY: the application's own arguments, which meet MPI's requirements.
                    #[allow(unused_unsafe)] // Not all calls need it.
                    unsafe {
                        $body
                    }
                } }
            }
            if !crate::entry::is_outside() {
                // SAFETY: this function's own arguments.
                return unsafe { general_path($($arg),*) };
            }
            exports! { @passing $name($($arg: $type),*) |$call, $real $(($own))?| {
                let $at = crate::entry::At::Outside;
                // SAFETY: the application's own arguments, which meet MPI's requirements.
                #[allow(unused_unsafe)] // Not all calls need it.
                unsafe {
                    $body
                }
            } }
        } }
        exports! { $($rest)* }
    };
    (
        fn $name:ident($($arg:ident: $type:ty),* $(,)?)
            quick |$at:ident, $call:ident, $real:ident $(($own:ident))?| $quick:expr;
            $body:expr;
        $($rest:tt)*
    ) => {
        exports! { @symbol $name($($arg: $type),*) {
            // A separate function, so that the common case does not pay for it.
            #[inline(never)]
            #[allow(clippy::too_many_arguments)] // As MPI has it.
            unsafe extern "C" fn general_path($($arg: $type),*) -> std::ffi::c_int {
                exports! { @passing $name($($arg: $type),*) |$call, $real $(($own))?| {
                    let Some($at) = crate::entry::at() else { return $real($($own)?) };
                    // SAFETY: the application's own arguments, which meet MPI's requirements.
                    unsafe {
                        $body
                    }
                } }
            }
            // The common case inside a part.
            #[inline(never)]
            #[allow(clippy::too_many_arguments)] // As MPI has it.
            unsafe extern "C" fn inside($($arg: $type),*) -> std::ffi::c_int {
                exports! {
                    @quick $name($($arg: $type),*) Inside |$at, $call, $real $(($own))?| $quick
                }
                // SAFETY: this function's own arguments.
                unsafe { general_path($($arg),*) }
            }
            if crate::entry::is_outside() {
                exports! {
                    @quick $name($($arg: $type),*) Outside |$at, $call, $real $(($own))?| $quick
                }
            } else if crate::entry::is_in_part() {
                // SAFETY: this function's own arguments.
                return unsafe { inside($($arg),*) };
            }
            // SAFETY: this function's own arguments.
            unsafe { general_path($($arg),*) }
        } }
        exports! { $($rest)* }
    };
    (
        fn $name:ident($($arg:ident: $type:ty),* $(,)?)
            inside |$call:ident, $real:ident $(($own:ident))?| $body:expr;
        $($rest:tt)*
    ) => {
        exports! { @symbol $name($($arg: $type),*) {
            exports! { @passing $name($($arg: $type),*) |$call, $real $(($own))?| {
                if !crate::entry::is_inside() {
                    return $real($($own)?);
                }
                // SAFETY: the application's own arguments, which meet MPI's requirements.
                #[allow(unused_unsafe)] // Not all calls need it.
                unsafe {
                    $body
                }
            } }
        } }
        exports! { $($rest)* }
    };
    (
        @quick $name:ident($($arg:ident: $type:ty),*)
            $where:ident |$at:ident, $call:ident, $real:ident $(($own:ident))?| $quick:expr
    ) => {
        // SAFETY: as where calls are passed through.
        let function: Option<unsafe extern "C" fn($($type),*) -> std::ffi::c_int> =
            unsafe { std::mem::transmute(FUNCTION.found()) };
        if let Some(function) = function {
            let ($at, $call) = (crate::entry::At::$where, message_log_core::log::Call(stringify!($name)));
            // SAFETY: the application's own call, passed through, with a status of ours if it ignores its
            // own.
            let $real = move |$($own: crate::pmpi::Ptr)?| unsafe { function($($arg),*) };
            // SAFETY: the phase was checked; the application's own arguments.
            if let Some(code) = unsafe { $quick } {
                return code;
            }
        }
    };
    (
        @one $name:ident($($arg:ident: $type:ty),*) |$call:ident, $real:ident| $body:block
    ) => {
        exports! { @symbol $name($($arg: $type),*) {
            exports! { @passing $name($($arg: $type),*) |$call, $real| $body }
        } }
    };
    (@symbol $name:ident($($arg:ident: $type:ty),*) $body:block) => {
        #[cfg(test)]
        crate::signatures::signature! { stringify!($name).as_bytes(), $($arg: $type),* }

        #[doc = concat!("`", stringify!($name), "`, as MPI has it.")]
        ///
        /// # Safety
        /// The requirements of the MPI function.
        #[cfg_attr(not(test), no_mangle)]
        #[allow(clippy::too_many_arguments)] // As MPI has it.
        // The lint expects them where the macro is used.
        #[allow(clippy::undocumented_unsafe_blocks)]
        pub unsafe extern "C" fn $name($($arg: $type),*) -> std::ffi::c_int {
            static FUNCTION: crate::pmpi::MpiFunction =
                crate::pmpi::MpiFunction::named(concat!("P", stringify!($name), "\0"));
            $body
        }
    };
    (
        @passing $name:ident($($arg:ident: $type:ty),*)
            |$call:ident, $real:ident $(($own:ident))?| $body:block
    ) => {{
        // SAFETY: MPI declares the function of that name like this; handles are in registers or stack slots
        // as wide as a pointer, of which it reads its part.
        let function: Option<unsafe extern "C" fn($($type),*) -> std::ffi::c_int> =
            unsafe { std::mem::transmute(FUNCTION.get()) };
        let $call = message_log_core::log::Call(stringify!($name));
        let Some(function) = function else { return crate::entry::lacking($call) };
        // SAFETY: the application's own call, passed through, with a status of ours if it ignores its own.
        let $real = move |$($own: crate::pmpi::Ptr)?| unsafe { function($($arg),*) };
        $body
    }};
}

pub mod collectives;
pub mod completion;
pub mod files;
pub mod general;
pub mod job;
pub mod objects;
pub mod p2p;
pub mod persistent;
pub mod probe;
pub mod refused;
