//! Parts of the headers that cbindgen's translation lacks, and corrections of it.

use crate::error::{Error, Result};

/// The first lines of the headers.
pub(super) const HEADER: &str = "\
/*
 * Checkpoints for adjoint computations on GPUs, behind the C interface of VELOC.
 *
 * Generated from src/capi by `cargo xtask header`. Do not edit.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */";

pub(super) const MPI_HEADER: &str = "\
/*
 * Messages of checkpointed parts of adjoint codes, logged and replayed.
 *
 * Generated from crates/message-log/src/capi.rs by `cargo xtask header`. Do not edit.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */";

pub(super) const MPI_INCLUDES: &str = "\
#include <stddef.h>
#include <stdint.h>

#include \"veloc/defs.h\"";

/// The includes of the headers that `veloc.h` includes.
pub(super) const BESIDE_INCLUDES: &str = "\
#include <stddef.h>
#include <stdint.h>

#include \"defs.h\"";

/// The includes of `veloc.h`. A compiler that cannot test for a file is taken to have MPI, as
/// programs for VELOC expect.
pub(super) const INCLUDES: &str = "\
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include \"veloc/adjoint.h\"
#include \"veloc/defs.h\"
#include \"veloc/metrics.h\"
#include \"veloc/pmem.h\"

/*
 * This header has, in the order in which a program meets them: the job, regions, checkpoints, restarts, hints of what
 * is read next, and the reason of an error. Adjoint computations and their schedules are in veloc/adjoint.h, figures
 * in veloc/metrics.h, arrays in persistent memory in veloc/pmem.h, the log of messages in veloc-mpi.h.
 *
 * VELOC_Init and VELOC_Init_options are declared if there is an mpi.h. Define VELOC_NO_MPI to do without them; the
 * library is the same.
 */
#ifndef VELOC_NO_MPI
#ifdef __has_include
#if !__has_include(<mpi.h>)
#define VELOC_NO_MPI
#endif
#endif
#endif

#ifndef VELOC_NO_MPI
#include <mpi.h>
#endif";

/// How the declarations of the functions that need MPI begin, in Rust and in C.
const MPI_FUNCTIONS: [[&str; 2]; 2] = [
    ["int VELOC_Init(void *comm,", "int VELOC_Init(MPI_Comm comm,"],
    ["int VELOC_Init_options(void *comm,", "int VELOC_Init_options(MPI_Comm comm,"],
];

/// Declarations for C++ programs, at the end of `veloc.h`.
const CXX: &str = "\
#ifdef __cplusplus
extern \"C++\" { /* also where a program includes this header within extern \"C\" */
#include <stdio.h>

#include <exception>

/*
 * For programs that were written for VELOC's GPU prototype. If the program uses these short names itself, define
 * VELOC_NO_SHORT_NAMES. A name that is a macro already stays that macro.
 */
typedef int (*release_routine)();
#ifndef VELOC_NO_SHORT_NAMES
#ifndef DEFAULT
static const VELOC_Flags DEFAULT = VELOC_DEFAULT;
#endif
#ifndef READ_ONLY
static const VELOC_Flags READ_ONLY = VELOC_READ_ONLY;
#endif
#endif

/* Calls a release routine: a guard of VELOC_Mem_protect_guarded. */
static inline int veloc_call_release(release_routine release, char *reason, size_t room)
{
#ifdef __cpp_exceptions
    try {
        release();
        return VELOC_SUCCESS;
    } catch (const std::exception &error) {
        (void)snprintf(reason, room, \"threw: %s\", error.what());
        return VELOC_FAILURE;
    } catch (...) {
        (void)snprintf(reason, room, \"threw what is no std::exception\");
        return VELOC_FAILURE;
    }
#else
    (void)reason;
    (void)room;
    release();
    return VELOC_SUCCESS;
#endif
}

/** As VELOC_Mem_protect_flags. What `release` throws is reported as VELOC_Mem_protect_guarded says. */
static inline int VELOC_Mem_protect(int id, void *ptr, size_t count, size_t base_size,
                                    VELOC_Flags flags, release_routine release = NULL)
{
    return VELOC_Mem_protect_guarded(id, ptr, count, base_size, flags, release,
                                     veloc_call_release);
}

/** The same with flags that are a number. */
static inline int VELOC_Mem_protect(int id, void *ptr, size_t count, size_t base_size,
                                    unsigned int flags, release_routine release)
{
    return VELOC_Mem_protect_guarded(id, ptr, count, base_size, flags, release,
                                     veloc_call_release);
}
static inline int VELOC_Mem_protect(int id, void *ptr, size_t count, size_t base_size, int flags,
                                    release_routine release)
{
    return VELOC_Mem_protect(id, ptr, count, base_size, (unsigned int)flags, release);
}

#if __cplusplus >= 201103L
/* A text or a release routine as fifth argument would be a bool that is true. */
template <typename T>
int VELOC_Mem_protect(int id, void *ptr, size_t count, size_t base_size, T *) = delete;
#endif

/** As VELOC_Mem_protect with four arguments, and VELOC_Mem_may_compress. */
static inline int VELOC_Mem_protect(int id, void *ptr, size_t count, size_t base_size,
                                    bool may_compress)
{
    const int result = VELOC_Mem_protect(id, ptr, count, base_size);
    return result == VELOC_SUCCESS ? VELOC_Mem_may_compress(id, may_compress) : result;
}

/** The same with flags and a release routine, as VELOC_Mem_protect_flags. */
static inline int VELOC_Mem_protect(int id, void *ptr, size_t count, size_t base_size,
                                    bool may_compress, unsigned int flags,
                                    release_routine release = NULL)
{
    const int result = VELOC_Mem_protect_guarded(id, ptr, count, base_size, flags, release,
                                                 veloc_call_release);
    return result == VELOC_SUCCESS ? VELOC_Mem_may_compress(id, may_compress) : result;
}

/** As VELOC_Prefetch_enqueue with two arguments: the whole checkpoint is hinted, not `region` alone. */
static inline int VELOC_Prefetch_enqueue(const char *name, int version, int region)
{
    (void)region;
    return VELOC_Prefetch_enqueue(name, version);
}

/**
 * As VELOC_Cleanup with one argument. With `print_stats` it then prints to standard output what the job has done so
 * far: `<<<<<===== n, bytes, checkpoint, restart, 0.0, 0.0 =====>>>>>`. These are the number of checkpoints, their
 * bytes, and the seconds that VELOC_Checkpoint and VELOC_Restart have taken; the last two stand for compression,
 * which the application does not wait for.
 */
static inline int VELOC_Cleanup(const char *name, bool print_stats)
{
    const int result = VELOC_Cleanup(name);
    VELOC_Metrics job;
    if (result == VELOC_SUCCESS && print_stats
        && VELOC_Get_metrics(&job, sizeof job) == VELOC_SUCCESS)
        printf(\"<<<<<===== %.0f, %.0f, %.6f, %.6f, 0.0, 0.0 =====>>>>>\\n\", (double)job.checkpoints,
               (double)job.hops[VELOC_HOP_ATOD].bytes + (double)job.hops[VELOC_HOP_ATOH].bytes
                   + (double)job.hops[VELOC_HOP_ATOF].bytes,
               (double)job.checkpoint_calls.nanoseconds / 1e9,
               (double)job.restart_calls.nanoseconds / 1e9);
    return result;
}
}  /* extern \"C++\" */
#endif /* __cplusplus */

";

/// The last line of `veloc.h`, before which they stand.
const END: &str = "#endif  /* VELOC_H */";

/// `veloc/defs.h`, from cbindgen's text.
pub(super) fn defs(translated: &str) -> String {
    // Not every C and C++ has a comma behind the last one.
    let translated = translated.replace(",\n} VELOC_Flags;", "\n} VELOC_Flags;");
    map_lines(&translated, |line| match line.rsplit_once(' ') {
        // An operator in front of the name must not reach into the value.
        Some((define, value)) if line.starts_with("#define ") && value.starts_with('-') => {
            format!("{define} ({value})")
        }
        _ => line.to_string(),
    })
}

/// `veloc.h`, from cbindgen's text.
pub(super) fn veloc(translated: &str) -> Result<String> {
    let mut text = preconditions(translated);
    for declarations in MPI_FUNCTIONS {
        text = with_mpi(&text, declarations)?;
    }
    let Some((before, "\n")) = text.split_once(END) else {
        return Err(Error::new(format!("cbindgen does not end with `{END}`")));
    };
    Ok(comments(&format!("{before}{CXX}{END}\n")))
}

/// The text with one declaration as in C, which stands with its comment only where there is MPI.
fn with_mpi(text: &str, [found, wanted]: [&str; 2]) -> Result<String> {
    let [before, after] = text.split(found).collect::<Vec<_>>()[..] else {
        return Err(Error::new(format!("cbindgen does not say `{found}` once")));
    };
    let Some(comment) = before.rfind("/**") else {
        return Err(Error::new(format!("`{found}` has no comment in front of it")));
    };
    let (before, comment) = before.split_at(comment);
    let Some((rest, after)) = after.split_once(";\n") else {
        return Err(Error::new(format!("`{found}` has no end")));
    };
    Ok(format!("{before}#ifndef VELOC_NO_MPI\n{comment}{wanted}{rest};\n#endif\n{after}"))
}

/// A header that C alone uses, from cbindgen's text.
pub(super) fn beside(translated: &str) -> String {
    comments(&preconditions(translated))
}

/// The text without `//` comments, which not every C has.
fn comments(text: &str) -> String {
    text.replace("  // __cplusplus", " /* __cplusplus */")
        .replace("// __cplusplus", "/* __cplusplus */")
}

/// Turns the section "Safety" of Rust's comments into preconditions for the caller.
fn preconditions(text: &str) -> String {
    let mut after_title = false;
    map_lines(text, |line| {
        if line.trim() == "* # Safety" {
            after_title = true;
            return String::new();
        }
        if std::mem::take(&mut after_title) {
            return line.replacen("* ", "* @pre ", 1);
        }
        line.to_string()
    })
    .replace("\n\n *", "\n *")
}

fn map_lines(text: &str, mut change: impl FnMut(&str) -> String) -> String {
    let mut changed = String::with_capacity(text.len());
    for line in text.lines() {
        changed.push_str(&change(line));
        changed.push('\n');
    }
    changed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn negative_values_get_parentheses() {
        assert_eq!(defs("#define A -1\n#define B 2\n"), "#define A (-1)\n#define B 2\n");
    }

    #[test]
    fn the_functions_with_a_communicator_need_mpi() {
        let of = |[found, wanted]: [&str; 2], mpi: bool| match mpi {
            true => format!("#ifndef VELOC_NO_MPI\n/**\n * It.\n */\n{wanted}\n  n);\n#endif\n"),
            false => format!("/**\n * It.\n */\n{found}\n  n);\n"),
        };
        let all = |mpi: bool| MPI_FUNCTIONS.map(|function| of(function, mpi)).concat();
        let other = "/**\n * Other.\n */\nint other(void);\n\n";
        let made = veloc(&format!("{other}{}{END}\n", all(false))).unwrap();
        assert_eq!(made.replace(CXX, ""), format!("{other}{}{END}\n", all(true)));
        assert!(made.contains(CXX));
        let error = veloc("int VELOC_Init(int comm);").unwrap_err();
        assert!(error.to_string().contains("void *comm"), "{error}");
    }

    #[test]
    fn safety_becomes_a_precondition() {
        let text = " *\n * # Safety\n * `name` is NULL or\n * a string.\n */\n";
        assert_eq!(preconditions(text), " *\n * @pre `name` is NULL or\n * a string.\n */\n");
    }
}
