//! The guide's blocks of C, C++ and Fortran, in programs that have what the blocks leave out (`guide/`). Its whole
//! programs have tests where their subjects are.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use capi_tests::cxx::library;
use capi_tests::job::Job;
use capi_tests::program::{fortran_program, found, staged};
use capi_tests::run::Run;
use xtask::project::{output, root};

const CONFIGURATION: &str = "mode = async\nscratch = DIR/scratch\nhost_cache_size = 64M\n";

/// The blocks of a language in a page that are no whole programs.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let begin = format!("```{language}\n");
    let blocks = page
        .split(&begin)
        .skip(1)
        .map(|text| text.split("```").next().unwrap_or_default().to_owned());
    // The call of an adjoint in Fortran belongs to the module before it, with which it is tested.
    let whole = ["int main(", "program ", "module ", "type(VELOC_Adjoint)"];
    blocks.filter(|block| !whole.iter().any(|begin| block.contains(begin))).collect()
}

/// The pages of the guide that have blocks of a language, by name.
fn pages(language: &str) -> BTreeMap<String, Vec<String>> {
    let files = fs::read_dir(root().join("docs/guide")).unwrap();
    let named = files.map(|file| {
        let path = file.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        (name, blocks(&fs::read_to_string(&path).unwrap(), language))
    });
    named.filter(|(_, blocks)| !blocks.is_empty()).collect()
}

fn frames() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("guide")
}

/// The programs in these files, with each block in the one place that says so.
fn filled(files: &[&str], comment: &str, blocks: &[String]) -> Vec<String> {
    let read = |file: &&str| {
        fs::read_to_string(frames().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
    };
    let mut texts: Vec<String> = files.iter().map(read).collect();
    for (block, nth) in blocks.iter().zip(1..) {
        let mark = comment.replace('N', &nth.to_string());
        let places: usize = texts.iter().map(|text| text.matches(&mark).count()).sum();
        assert_eq!(places, 1, "{files:?}: {mark}");
        texts.iter_mut().for_each(|text| *text = text.replace(&mark, block));
    }
    let is_filled = |text: &String| !text.contains("BLOCK ");
    assert!(texts.iter().all(is_filled), "{files:?}: more blocks than their page has");
    texts
}

/// Compiles a file of the job's folder.
fn compiles(job: &Job, compiler: &str, flags: &[&str], file: &str) {
    let mut command = Command::new(compiler);
    command.args(flags).args(["-Wall", "-Wextra", "-Werror", "-I"]).arg(staged().include());
    output(command.args(["-c", "-o"]).arg(job.path("object")).arg(job.path(file))).unwrap();
}

/// Runs a program in the job's folder.
fn runs(job: &Job, run: Run) {
    let _ = run.with(|command| _ = command.current_dir(job.path(""))).succeed();
}

/// Catches a block that does not compile, that fails, or that does something else than its page says.
#[test]
fn blocks_of_c_run() {
    for (page, blocks) in pages("c") {
        println!("{page}");
        let job = Job::new(CONFIGURATION);
        let text = filled(&[&format!("{page}.c")], "/* BLOCK N */", &blocks).remove(0);
        fs::write(job.path("page.c"), text).unwrap();
        if page != "messages" {
            fs::copy(frames().join("frame.h"), job.path("frame.h")).unwrap();
            fs::copy(frames().join("../programs/check.h"), job.path("check.h")).unwrap();
            job.run(job.path("page").to_str().unwrap(), "").succeed();
        } else if found("mpicc").is_some() {
            // What a replay does, `tests/parts` has.
            compiles(&job, "mpicc", &["-std=c99"], "page.c");
        }
    }
}

/// The same in C++, with the library that has the C++ layer.
#[test]
fn blocks_of_cxx_run() {
    if !Path::new("/usr/include/cereal/cereal.hpp").exists() {
        return println!("skipped: there is no cereal");
    }
    for (page, blocks) in pages("cpp") {
        let job = Job::new(CONFIGURATION);
        let text = filled(&[&format!("{page}.cpp")], "/* BLOCK N */", &blocks).remove(0);
        // As its comment says.
        fs::write(job.path("page.cpp"), text.replace("MPI_COMM_WORLD", "0u")).unwrap();
        compiles(&job, "c++", &["-std=c++17"], "page.cpp");
        let mut link = Command::new("c++");
        link.arg(job.path("object")).arg("-o").arg(job.path("page"));
        output(link.arg("-L").arg(library()).arg("-lveloc-client")).unwrap();
        runs(&job, Run::new(&job.path("page")).env("LD_LIBRARY_PATH", library()));
    }
}

/// The same in Fortran: in the module of 2018, and in that of 2003.
#[test]
fn blocks_of_fortran_run() {
    if found("gfortran").is_none() {
        return println!("skipped: there is no gfortran");
    }
    let pages_of = [
        ("fortran", &["fortran.f90", "fortran_2003.f90"][..], &["veloc", "veloc_2003"][..]),
        ("schedules", &["schedules.f90"], &["veloc_schedules"]),
    ];
    let mut pages = pages("fortran");
    for (page, files, modules) in pages_of {
        let blocks = pages.remove(page).unwrap_or_default();
        for (text, module) in filled(files, "! BLOCK N\n", &blocks).into_iter().zip(modules) {
            let job = Job::new(CONFIGURATION);
            // As its comment says.
            let text = text.replace("VELOC_Init(MPI_COMM_WORLD", "VELOC_Init_single(0");
            let path = job.path(&format!("guide_{module}"));
            fs::write(path.with_extension("f90"), text).unwrap();
            let program = fortran_program("gfortran", &[], &[path.to_str().unwrap()], &[module]);
            runs(&job, Run::new(&program));
        }
    }
    assert!(pages.is_empty(), "{:?}", pages.keys());
}
