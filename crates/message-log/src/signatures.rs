//! The arguments of every function that this library takes from MPI, or calls of MPI's, compared with
//! MPI's headers by the compiler. The macros that define the functions list them here, so what is compared
//! is what is called.

use std::ffi::{c_char, c_int};
use std::io::Write as _;
use std::process::{Command, Stdio};

use crate::pmpi::{Aint, HandleWord, Passed, Ptr};

/// The kind that an argument must have in C.
pub(crate) trait Argument {
    /// One of the classes of [`CHECKS`].
    const KIND: &'static str;
}

macro_rules! kinds {
    ($($argument:ty = $kind:literal;)*) => {
        $( impl Argument for $argument { const KIND: &'static str = $kind; } )*
    };
}

kinds! {
    HandleWord = "handle";
    Ptr = "pointer";
    Passed = "passed";
    c_int = "is<int>";
    i64 = "is<MPI_Count>";
    Aint = "is<MPI_Aint>";
    *mut c_char = "to<char>";
    *const c_int = "to<int>";
    *mut c_int = "to<int>";
    *const i64 = "to<MPI_Count>";
    *mut i64 = "to<MPI_Count>";
    *const Aint = "to<MPI_Aint>";
    *mut Aint = "to<MPI_Aint>";
}

/// A function of MPI's: its name, and the names and kinds of its arguments here.
pub(crate) struct Signature {
    /// Its name.
    pub name: &'static [u8],
    /// Name and kind of each argument.
    pub arguments: &'static [(&'static str, &'static str)],
}

/// Lists a function. The linker puts what has the same section into one array.
macro_rules! signature {
    ($name:expr, $($arg:ident: $type:ty),*) => {
        const _: () = {
            #[used]
            #[link_section = "mpi_signatures"]
            static SIGNATURE: crate::signatures::Signature = crate::signatures::Signature {
                name: $name,
                arguments: &[$((
                    stringify!($arg),
                    <$type as crate::signatures::Argument>::KIND,
                )),*],
            };
        };
    };
}
pub(crate) use signature;

/// All that are listed.
fn all() -> &'static [Signature] {
    extern "C" {
        #[link_name = "__start_mpi_signatures"]
        static FIRST: u8;
        #[link_name = "__stop_mpi_signatures"]
        static END: u8;
    }
    let bounds: [*const Signature; 2] = [(&raw const FIRST).cast(), (&raw const END).cast()];
    // SAFETY: the linker has these names for the borders of the section, which has nothing else in it.
    unsafe { std::slice::from_raw_parts(bounds[0], bounds[1].offset_from(bounds[0]) as usize) }
}

/// The header of an MPI, with Open MPI's extensions and without the C++ interface, which MPI has no
/// more.
const HEADERS: &str = "
#include <type_traits>
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>
#if __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif
";

/// The types of MPI's handles.
const HANDLES: [&str; 11] = [
    "MPI_Comm",
    "MPI_Datatype",
    "MPI_Errhandler",
    "MPI_File",
    "MPI_Group",
    "MPI_Info",
    "MPI_Message",
    "MPI_Op",
    "MPI_Request",
    "MPI_Session",
    "MPI_Win",
];

/// The C types that each kind of argument fits.
const CHECKS: &str = "
template <class T> using pointee = std::remove_cv_t<std::remove_pointer_t<T>>;
struct handle { template <class T> static constexpr bool fits = is_handle<T>; };
struct pointer {
    template <class T> static constexpr bool fits = std::is_pointer_v<T> && !is_handle<T>;
};
/* Passed on in a register, or a slot as wide as one. */
struct passed {
    template <class T> static constexpr bool fits
        = std::is_integral_v<T> || std::is_pointer_v<T> || is_handle<T>;
};
template <class Own> struct is {
    template <class T> static constexpr bool fits = std::is_same_v<T, Own>;
};
template <class Own> struct to {
    template <class T> static constexpr bool fits
        = std::is_pointer_v<T> && std::is_same_v<pointee<T>, Own>;
};
template <class... Own> struct has {
    template <class... T> static constexpr bool like(int (*)(T...))
    {
        if constexpr (sizeof...(T) == sizeof...(Own))
            return (Own::template fits<T> && ...);
        return false;
    }
};
static_assert(has<pointer, is<int>, is<MPI_Request>>::like(MPI_Start) == false);
static_assert(has<handle>::like(MPI_Start) == false);
static_assert(has<pointer>::like(MPI_Start));
static_assert(has<is<int>>::like(MPI_Grequest_complete) == false);
static_assert(has<pointer>::like(MPI_Grequest_complete) == false);
static_assert(has<handle>::like(MPI_Grequest_complete));
";

/// The class that an argument has to fit: by its kind and, where it is a handle or the place of one, by
/// its name.
fn class(name: &str, kind: &str) -> String {
    let named = match name {
        "comm" => "MPI_Comm",
        "datatype" | "sendtype" | "recvtype" | "sendtypes" | "recvtypes" => "MPI_Datatype",
        "file" => "MPI_File",
        "group" => "MPI_Group",
        "info" => "MPI_Info",
        "message" => "MPI_Message",
        "op" => "MPI_Op",
        "request" | "requests" => "MPI_Request",
        "status" | "statuses" => "MPI_Status",
        _ => return kind.to_owned(),
    };
    match kind {
        "handle" => format!("is<{named}>"),
        "pointer" => format!("to<{named}>"),
        _ => kind.to_owned(),
    }
}

/// The result of a compiler for a program in C++, which it gets as its input; `None` if there is no
/// compiler.
fn compile(compiler: &str, options: &[&str], program: &str) -> Option<(bool, String)> {
    let mut command = Command::new(compiler);
    command.args(["-x", "c++", "-std=c++17"]).args(options).arg("-");
    let streams = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = streams.spawn().ok()?;
    child.stdin.take().unwrap().write_all(program.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    Some((output.status.success(), text.into_owned()))
}

/// Compares all functions with the headers of an MPI, if it is installed.
fn compare(compiler: &str) {
    let Some((done, headers)) = compile(compiler, &["-E"], HEADERS) else {
        println!("skipped: {compiler} is not installed");
        return;
    };
    assert!(done, "{headers}");
    // MPICH's handles are integers: here each kind gets a type of its own.
    let headers = headers.replace("typedef int MPI_", "typedef struct { int bits; } MPI_");
    let is_type = |name: &&str| headers.contains(&format!("{name};"));
    let handles: Vec<&str> = HANDLES.into_iter().filter(is_type).collect();
    let mut program = headers.clone();
    program += &format!(
        "template <class T, class... Of> constexpr bool is_one_of = (std::is_same_v<T, Of> || ...);\n\
         template <class T> constexpr bool is_handle = is_one_of<T, {}>;\n",
        handles.join(", ")
    );
    program += CHECKS;
    let (mut compared, mut lacking) = (0, 0);
    for signature in all() {
        let name = std::str::from_utf8(signature.name).unwrap();
        if !headers.contains(&format!(" {name}(")) {
            lacking += 1;
            continue;
        }
        let classes: Vec<String> =
            signature.arguments.iter().map(|(name, kind)| class(name, kind)).collect();
        let classes = classes.join(", ");
        program += &format!("static_assert(has<{classes}>::like({name}), \"{name}\");\n");
        compared += 1;
    }
    let (fits, errors) = compile(
        compiler,
        &["-fsyntax-only", "-Wall", "-Werror", "-Wno-deprecated-declarations"],
        &program,
    )
    .unwrap();
    assert!(fits, "{errors}");
    assert!(compared > 250, "{compared}");
    if lacking > 0 {
        println!("skipped: {lacking} functions that {compiler} does not have");
    }
}

#[test]
fn arguments_are_those_of_open_mpi() {
    compare("mpicc.openmpi");
}

#[test]
fn arguments_are_those_of_mpich() {
    compare("mpicc.mpich");
}
