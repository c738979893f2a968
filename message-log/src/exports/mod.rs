//! The C symbols of MPI, one file for each kind. They are thin: outside parts a call is passed on,
//! inside it goes to `inside`.
//!
//! MPI's interfaces for Fortran are made to call these (`fortran`).

/// Defines the C function of each name, with the arguments of MPI's.
///
/// `inside |call, real| ...` is what is done inside parts: `call` is the function's name, `real()`
/// passes the call on as it is. A third name is that of the function itself, for a call with other
/// arguments. `outside |call, real| ...`, if given, is what is done outside parts; otherwise the call
/// is passed on.
macro_rules! exports {
    () => {};
    (
        $(#[$doc:meta])*
        fn $name:ident($($arg:ident: $type:ty),* $(,)?)
            inside |$call:ident, $real:ident $(, $function:ident)?| $inside:expr;
        $($rest:tt)*
    ) => {
        exports! { @one $name ($($arg: $type),*) (call, real, function) {
            if crate::state::phase() != crate::state::INSIDE {
                return real();
            }
            let ($call, $real $(, $function)?) = exports!(@tuple call, real, function $(, $function)?);
            // SAFETY: the application's own arguments, as MPI says of the function.
            #[allow(unused_unsafe)] // Not all calls need it.
            unsafe {
                $inside
            }
        } }
        exports! { $($rest)* }
    };
    (
        fn $name:ident($($arg:ident: $type:ty),* $(,)?)
            outside |$ocall:ident, $oreal:ident $(, $ofunction:ident)?| $outside:expr,
            inside |$call:ident, $real:ident $(, $function:ident)?| $inside:expr;
        $($rest:tt)*
    ) => {
        exports! { @one $name ($($arg: $type),*) (call, real, function) {
            let mut phase = crate::state::phase();
            if phase == crate::state::UNKNOWN {
                phase = crate::state::look();
            }
            if phase == crate::state::OUTSIDE {
                let ($ocall, $oreal $(, $ofunction)?) =
                    exports!(@tuple call, real, function $(, $ofunction)?);
                // SAFETY: as below.
                #[allow(unused_unsafe)] // Not all calls need it.
                return unsafe { $outside };
            }
            if phase != crate::state::INSIDE {
                return real();
            }
            let ($call, $real $(, $function)?) = exports!(@tuple call, real, function $(, $function)?);
            // SAFETY: the application's own arguments, as MPI says of the function.
            #[allow(unused_unsafe)] // Not all calls need it.
            unsafe {
                $inside
            }
        } }
        exports! { $($rest)* }
    };
    (@tuple $call:ident, $real:ident, $function:ident) => { ($call, $real) };
    (@tuple $call:ident, $real:ident, $function:ident, $wanted:ident) => {
        ($call, $real, $function)
    };
    (
        @one $name:ident ($($arg:ident: $type:ty),*)
        ($call:ident, $real:ident, $function:ident) $body:block
    ) => {
        #[doc = concat!("`", stringify!($name), "`, as MPI has it.")]
        ///
        /// # Safety
        /// As MPI says of the function.
        #[cfg_attr(not(test), no_mangle)]
        #[allow(clippy::too_many_arguments)] // As MPI has it.
        // They are said below, and the lint looks for them where the macro is used.
        #[allow(clippy::undocumented_unsafe_blocks)]
        pub unsafe extern "C" fn $name($($arg: $type),*) -> std::ffi::c_int {
            static FUNCTION: crate::pmpi::Function =
                crate::pmpi::Function::named(concat!("P", stringify!($name), "\0"));
            // SAFETY: MPI declares the function of that name like this; handles are in registers or
            // slots as wide as a pointer, of which it reads what it needs.
            let $function: unsafe extern "C" fn($($type),*) -> std::ffi::c_int =
                unsafe { std::mem::transmute(FUNCTION.get()) };
            // SAFETY: the application's own call, passed on.
            let $real = || unsafe { $function($($arg),*) };
            let $call = crate::log::Call(stringify!($name));
            $body
        }
    };
}

pub mod collectives;
pub mod completion;
pub mod files;
pub mod job;
pub mod objects;
pub mod p2p;
pub mod persistent;
pub mod probe;
pub mod refused;
