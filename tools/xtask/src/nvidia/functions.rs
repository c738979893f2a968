//! The driver's functions that this project looks up, compared with NVIDIA's headers and libraries.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use super::kernels::said;
use super::packages::{self, DRIVERS, HEADERS};
use super::{had, Findings};
use crate::error::{Error, Result};
use crate::files::{read, write};
use crate::project::{output, root, target_directory};

/// The file with the list of functions, and the text before the list.
const LIST: (&str, &str) = ("crates/driver/src/functions.rs", "$($given)*");

/// Functions that every user of the list looks up as well, with their types.
const EXTRAS: &str = "crates/driver/src/cuda.rs";

/// Functions that older drivers lack, and the version of CUDA that introduced each.
const SINCE: [(&str, u32); 2] = [("cuCtxGetId", 12000), ("cuStreamGetCtx_v2", 12050)];

/// A function: its name, and its arguments in Rust.
type DriverFunction = (String, Vec<String>);

pub(super) fn check(findings: &mut Findings) -> Result<()> {
    let mut lists = vec![(EXTRAS, extras(&read(&root().join(EXTRAS))?)?)];
    let (path, start) = LIST;
    lists.push((path, list(&read(&root().join(path))?, start)?));
    let source = target_directory()?.join("nvidia/functions.c");
    write(&source, &declarations(&lists)?)?;
    for packages in HEADERS {
        let what = format!("functions and cuda.h {}", packages.last().map_or("", |last| last.1));
        if let Some(header) = had(&what, packages::file(packages, "cuda.h")) {
            findings.add(&what, compiles(&source, &header));
        }
    }
    let names: BTreeSet<&str> =
        lists.iter().flat_map(|(_, functions)| functions).map(|(name, _)| name.as_str()).collect();
    let names = names.into_iter().filter(|name| since(name).is_none()).collect::<BTreeSet<_>>();
    for (package, release) in DRIVERS {
        let what = format!("{} functions and {package} of {release}", names.len());
        if let Some(folder) = had(&what, packages::driver(package, release)) {
            findings.add(&what, exports(&folder.join("libcuda.so.1"), &names));
        }
    }
    Ok(())
}

fn since(name: &str) -> Option<u32> {
    SINCE.iter().find(|(new, _)| *new == name).map(|(_, version)| *version)
}

fn list(text: &str, start: &str) -> Result<Vec<DriverFunction>> {
    let body = text.split(start).nth(1).and_then(|rest| rest.split('}').next());
    let body = body.ok_or_else(|| Error::new(format!("no list begins with {start}")))?;
    let code: String = body.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let code = code.replace("::std::ffi::", "").replace("$crate::cuda::", "");
    let mut functions = Vec::new();
    for item in code.split(';') {
        let Some((name, rest)) = item.trim().split_once('(') else { continue };
        if !name.starts_with("cu") {
            continue;
        }
        let Some((arguments, _)) = rest.rsplit_once(')') else { continue };
        let types = arguments.split(',').filter_map(|argument| argument.split_once(':'));
        let types = types.map(|(_, of)| of.trim().to_owned()).collect();
        functions.push((name.to_owned(), types));
    }
    match functions.is_empty() {
        true => Err(Error::new(format!("the list {start} is empty"))),
        false => Ok(functions),
    }
}

/// The functions of lines such as `field: library.function(c"cuName")`.
fn extras(text: &str) -> Result<Vec<DriverFunction>> {
    let mut functions = Vec::new();
    for line in text.lines() {
        let found = line.trim().split_once(": library.function(c\"");
        let Some((field, name)) = found else { continue };
        let missing = || Error::new(format!("{EXTRAS}: {field} has no type"));
        let after = |start: &str| text.split(start).nth(1);
        let alias = after(&format!("{field}: Option<")).and_then(|rest| rest.split('>').next());
        let alias = alias.ok_or_else(missing)?;
        let arguments = after(&format!("type {alias} = unsafe extern \"C\" fn("))
            .and_then(|rest| rest.split(')').next())
            .ok_or_else(missing)?;
        let name = name.split('"').next().unwrap_or_default();
        functions.push((
            name.to_owned(),
            arguments.split(',').map(|argument| argument.trim().to_owned()).collect(),
        ));
    }
    match functions.is_empty() {
        true => Err(Error::new(format!("{EXTRAS} looks up nothing"))),
        false => Ok(functions),
    }
}

/// A type in C. The library treats the driver's enumerations as numbers, which they are.
fn in_c(of: &str) -> Result<String> {
    for pointer in ["*mut ", "*const "] {
        if let Some(rest) = of.strip_prefix(pointer) {
            let constant = if pointer == "*const " { " const" } else { "" };
            return Ok(format!("{}{constant} *", in_c(rest)?));
        }
    }
    Ok(match of {
        "c_int" => "int",
        "c_uint" | "Status" => "unsigned int",
        "c_ulonglong" | "u64" => "unsigned long long",
        "c_char" => "char",
        "c_void" => "void",
        "usize" => "size_t",
        "u8" => "unsigned char",
        "f32" => "float",
        "RawContext" => "CUcontext",
        "GreenContext" => "CUgreenCtx",
        "RawStream" => "CUstream",
        "Address" => "CUdeviceptr",
        other if other.starts_with("CU") => other,
        other => return Err(Error::new(format!("{other} has no name in C here"))),
    }
    .to_owned())
}

/// A C file in which each function is assigned to a pointer of the type that the library gives it.
fn declarations(lists: &[(&str, Vec<DriverFunction>)]) -> Result<String> {
    // With this definition, the headers also declare functions that they would otherwise rename.
    let mut text = String::from("#define __CUDA_API_VERSION_INTERNAL\n#include <cuda.h>\n");
    for (at, (path, functions)) in lists.iter().enumerate() {
        let _ = writeln!(text, "\n/* {path} */");
        for (name, types) in functions {
            let types: Vec<_> = types.iter().map(|of| in_c(of)).collect::<Result<_>>()?;
            let types = if types.is_empty() { "void".to_owned() } else { types.join(", ") };
            let line = format!("unsigned int (*const {name}_{at})({types}) = {name};");
            let _ = match since(name) {
                None => writeln!(text, "{line}"),
                Some(version) => writeln!(text, "#if CUDA_VERSION >= {version}\n{line}\n#endif"),
            };
        }
    }
    Ok(text)
}

fn compiles(source: &Path, header: &Path) -> Result<()> {
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let mut command = Command::new(compiler);
    command.args(["-std=c11", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-isystem"]);
    command.arg(header.parent().unwrap_or(header)).arg(source);
    said(&mut command).map(drop)
}

/// Fails, with their names, if a library lacks any of the functions.
fn exports(library: &Path, names: &BTreeSet<&str>) -> Result<()> {
    let mut command = Command::new("nm");
    command.args(["--dynamic", "--defined-only"]).arg(library);
    let text = output(&mut command)?;
    let has: BTreeSet<&str> = text.lines().filter_map(|line| line.rsplit(' ').next()).collect();
    let lacks: Vec<_> = names.difference(&has).copied().collect();
    match lacks.is_empty() {
        true => Ok(()),
        false => Err(Error::new(format!("it lacks {}", lacks.join(", ")))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_as_the_compiler_reads_them() {
        let text = "functions! {\n    /// One; two(a: b).\n    cuOne(count: *mut c_int, of: CUdevice);\n    \
                    cuNone();\n    cuLong(\n        a: *mut *mut c_void,\n    );\n}\nfn other();";
        let functions = list(text, "functions! {").unwrap();
        let c = declarations(&[("here", functions)]).unwrap();
        assert!(c.contains("(*const cuOne_0)(int *, CUdevice) = cuOne;"), "{c}");
        assert!(c.contains("(*const cuNone_0)(void) = cuNone;"), "{c}");
        assert!(c.contains("(*const cuLong_0)(void * *) = cuLong;"), "{c}");
        assert!(!c.contains("other"), "{c}");
    }

    /// Catches a list that this module no longer finds, or a type that it does not know.
    #[test]
    fn the_list_of_the_project_is_read() {
        assert!(extras(&read(&root().join(EXTRAS)).unwrap()).unwrap().len() >= 3);
        let (path, start) = LIST;
        let functions = list(&read(&root().join(path)).unwrap(), start).unwrap();
        assert!(functions.len() >= 60, "{path}: {functions:?}");
        declarations(&[(path, functions)]).unwrap();
    }
}
