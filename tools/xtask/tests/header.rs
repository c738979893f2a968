//! The headers match the library, and every compiler accepts them.

// A helper of tests fails by panicking, like the test that calls it.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::{Command, Output};

use veloc_client::capi;
use xtask::project::{has_program, root};
use xtask::{files, header};

/// Strict C and C++.
const DIALECTS: [&[&str]; 2] =
    [&["cc", "-std=c99", "-x", "c"], &["c++", "-std=c++11", "-x", "c++"]];

/// Compiles a program, with every warning an error, but does not link it.
fn compile(dialect: &[&str], options: &[String], source: &str) {
    let (command, output) = compiled(dialect, options, source);
    assert!(
        output.status.success(),
        "{command:?} of {source:?}:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// The same, whether it can be compiled or not.
fn compiled(dialect: &[&str], options: &[String], source: &str) -> (Command, Output) {
    let folder = tempfile::tempdir().unwrap();
    let (file, object) = (folder.path().join("program"), folder.path().join("program.o"));
    files::write(&file, source).unwrap();
    let mut command = Command::new(dialect[0]);
    command.args(&dialect[1..]).args(["-Wall", "-Wextra", "-Werror", "-pedantic"]);
    command.args(options).arg("-I").arg(root().join("include"));
    command.arg("-c").arg(&file).arg("-o").arg(&object);
    let output = command.output().unwrap();
    (command, output)
}

/// The folder of mpi.h from the MPI compiler, for `-isystem`: its own warnings are not ours.
fn mpi_options() -> Option<Vec<String>> {
    if !has_program("mpicc") {
        return None;
    }
    // Open MPI knows the first option, MPICH the second.
    let output = ["--showme:compile", "-compile_info"]
        .iter()
        .map(|option| Command::new("mpicc").arg(option).output().unwrap())
        .find(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).unwrap();
    let folders = text.split_whitespace().filter_map(|word| word.strip_prefix("-I"));
    Some(folders.flat_map(|folder| ["-isystem".into(), folder.into()]).collect())
}

#[test]
fn headers_are_what_the_library_says() {
    header::check().unwrap();
}

#[test]
fn each_header_compiles_alone_and_twice() {
    for dialect in DIALECTS {
        for header in ["veloc.h", "veloc/defs.h", "veloc/adjoint.h", "veloc/metrics.h"] {
            for options in [vec![], vec!["-DVELOC_NO_MPI".into()]] {
                let once = format!("#include \"{header}\"\nint main(void) {{ return 0; }}\n");
                compile(dialect, &options, &once);
                compile(dialect, &options, &format!("#include \"{header}\"\n{once}"));
            }
        }
    }
}

/// The headers for C++ need C++17.
#[test]
fn each_header_for_cxx_compiles_alone_and_twice() {
    let dialect = ["c++", "-std=c++17", "-x", "c++"];
    for (header, needed) in [
        ("veloc.hpp", None),
        ("veloc/cache.hpp", None),
        ("veloc/schedule.hpp", None),
        ("veloc/adjoint.hpp", None),
        ("veloc/pmem.hpp", None),
        ("veloc/cereal.hpp", Some("/usr/include/cereal/cereal.hpp")),
        ("veloc/boost.hpp", Some("/usr/include/boost/archive/binary_oarchive.hpp")),
    ] {
        if needed.is_some_and(|needed| !Path::new(needed).exists()) {
            println!("skipped: {header} needs {}", needed.unwrap_or_default());
            continue;
        }
        let twice =
            format!("#include \"{header}\"\n#include \"{header}\"\nint main() {{ return 0; }}\n");
        compile(&dialect, &["-DVELOC_NO_MPI".into()], &twice);
    }
}

/// Catches a restart whose result is thrown away without a warning, and a warning, or an error of its own, where it is used.
#[test]
fn a_restart_that_is_not_asked_for_its_result_is_told() {
    let without_mpi = "-DVELOC_NO_MPI".to_owned();
    let source = |used: &str| {
        format!("#include \"veloc.hpp\"\nint f(veloc::client_t *c) {{ {used}; return 0; }}\n")
    };
    for standard in ["-std=c++11", "-std=c++17"] {
        let cxx = ["c++", standard, "-x", "c++"];
        let options = std::slice::from_ref(&without_mpi);
        let calls = ["c->restart(\"x\", 1)", "c->recover_mem(VELOC_RECOVER_ALL, {})"];
        let asked = calls.map(|call| format!("if (!{call}) return 1; ")).concat();
        compile(&cxx, options, &source(&format!("{asked}c->checkpoint(\"x\", 1)")));
        let unasked = source(&calls.join("; "));
        let (_, output) = compiled(&cxx, options, &unasked);
        let said = String::from_utf8_lossy(&output.stderr);
        let told = said.lines().filter(|line| line.contains("unused-result")).count();
        assert!(!output.status.success() && told == calls.len(), "{said}");
        let warned = ["-Wno-error=unused-result".to_owned(), without_mpi.clone()];
        compile(&cxx, &warned, &unasked);
    }
}

/// Catches an overload that cannot be told from another, that disturbs C, or whose short names cannot be avoided.
#[test]
fn cxx_has_the_calls_of_the_prototypes() {
    let cxx = DIALECTS[1];
    let source = "#include \"veloc.h\"\n\
                  static int released() { return 0; }\n\
                  int protect(void *p) {\n\
                    release_routine r = released;\n\
                    return VELOC_Mem_protect(0, p, 1, 1) + VELOC_Mem_protect(0, p, 1, 1, READ_ONLY)\n\
                      + VELOC_Mem_protect(0, p, 1, 1, DEFAULT, NULL)\n\
                      + VELOC_Mem_protect(0, p, 1, 1, READ_ONLY, r)\n\
                      + VELOC_Mem_protect(0, p, 1, 1, READ_ONLY, released)\n\
                      + VELOC_Mem_protect(0, p, 1, 1, 0, NULL) + VELOC_Mem_protect(0, p, 1, 1, true)\n\
                      + VELOC_Mem_protect(0, p, 1, 1, true, DEFAULT) + VELOC_Mem_protect(0, p, 1, 1, true, 0)\n\
                      + VELOC_Mem_protect(0, p, 1, 1, false, READ_ONLY, NULL)\n\
                      + VELOC_Prefetch_enqueue(\"x\", 1, 0) + VELOC_Cleanup(\"x\", true);\n\
                  }\n\
                  int main() { return 0; }\n";
    compile(cxx, &["-DVELOC_NO_MPI".into()], source);
    let own = "#include \"veloc.h\"\nenum { DEFAULT, READ_ONLY };\nint main() { return 0; }\n";
    compile(cxx, &["-DVELOC_NO_MPI".into(), "-DVELOC_NO_SHORT_NAMES".into()], own);
    compile(DIALECTS[0], &["-DVELOC_NO_MPI".into()], &own.replace("()", "(void)"));
    // Macros of another header.
    let macros = "#define DEFAULT 7\n#define READ_ONLY \"r\"\n#include \"veloc.h\"\n\
                  int main() { return DEFAULT + READ_ONLY[0]; }\n";
    compile(cxx, &["-DVELOC_NO_MPI".into()], macros);
}

#[test]
fn without_mpi_there_is_no_function_that_needs_it() {
    let source = "#include \"veloc.h\"\nvoid *VELOC_Init; int main(void) { return 0; }\n";
    for dialect in DIALECTS {
        compile(dialect, &["-DVELOC_NO_MPI".into()], source);
    }
}

#[test]
fn with_mpi_the_function_takes_a_communicator() {
    let Some(options) = mpi_options() else {
        eprintln!("skipped: there is no mpicc");
        return;
    };
    let source = "#include \"veloc.h\"\n\
                  int (*init)(MPI_Comm, const char *) = VELOC_Init;\n\
                  int main(void) { return init == 0; }\n";
    for dialect in DIALECTS {
        compile(dialect, &options, source);
    }
}

#[test]
fn constants_and_layouts_are_the_library_s() {
    let checks = [
        ("VELOC_SUCCESS", i64::from(capi::VELOC_SUCCESS)),
        ("VELOC_FAILURE", i64::from(capi::VELOC_FAILURE)),
        ("VELOC_MAX_NAME", capi::VELOC_MAX_NAME as i64),
        ("VELOC_CKPT_ALL", i64::from(capi::VELOC_CKPT_ALL)),
        ("VELOC_CKPT_SOME", i64::from(capi::VELOC_CKPT_SOME)),
        ("VELOC_CKPT_REST", i64::from(capi::VELOC_CKPT_REST)),
        ("VELOC_RECOVER_ALL", i64::from(capi::VELOC_RECOVER_ALL)),
        ("VELOC_RECOVER_SOME", i64::from(capi::VELOC_RECOVER_SOME)),
        ("VELOC_RECOVER_REST", i64::from(capi::VELOC_RECOVER_REST)),
        ("VELOC_DEFAULT", capi::VELOC_Flags::VELOC_DEFAULT as i64),
        ("VELOC_READ_ONLY", capi::VELOC_Flags::VELOC_READ_ONLY as i64),
        ("VELOC_OBSERVE_CKPT_END", i64::from(capi::VELOC_OBSERVE_CKPT_END)),
        ("(long)sizeof(VELOC_Sum)", size_of::<capi::VELOC_Sum>() as i64),
        ("(long)sizeof(VELOC_Metrics)", size_of::<capi::VELOC_Metrics>() as i64),
        ("(long)sizeof(VELOC_Adjoint)", size_of::<capi::VELOC_Adjoint>() as i64),
        (
            "(long)offsetof(VELOC_Metrics, software_device)",
            std::mem::offset_of!(capi::VELOC_Metrics, software_device) as i64,
        ),
    ];
    let mut source = String::from("#include \"veloc.h\"\n");
    for (index, (expression, value)) in checks.iter().enumerate() {
        source += &format!("typedef char check{index}[({expression}) == ({value}) ? 1 : -1];\n");
    }
    source += "int main(void) { return 0; }\n";
    for dialect in DIALECTS {
        compile(dialect, &["-DVELOC_NO_MPI".into()], &source);
    }
}
