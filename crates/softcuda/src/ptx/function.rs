//! A kernel, or a function that kernels call, as a function of C.
//!
//! A kernel with barriers is left at each of them and called again for the same thread when all threads of the
//! block have come there: what it knows is kept for the thread in between, in a structure of its own.

use std::fmt::Write as _;

use super::scope::FunctionScope;
use super::statement::statement;
use super::text::{PtxFunction, PtxModule};

/// A function in C.
pub(super) struct Body {
    pub(super) code: String,
    /// How much is kept for each thread, in C.
    pub(super) kept: String,
    /// The functions that it calls.
    pub(super) calls: Vec<String>,
    /// How many threads a block must have, if a barrier says so.
    pub(super) threads: Option<u64>,
}

/// The beginning of a function.
pub(super) fn head(name: &str) -> String {
    format!("static int t_{name}(struct run *run, const struct place *place, void **params)")
}

/// Translates a function.
///
/// # Errors
/// It has a line that cannot be translated.
pub(super) fn body(module: &PtxModule, function: &PtxFunction) -> Result<Body, String> {
    let name = &function.name;
    let mut scope = FunctionScope::new(module, function);
    let mut lines = String::new();
    for line in &function.lines {
        let statement = statement(&mut scope, line);
        let statement = statement.map_err(|why| format!("{name}: `{line}`: {why}"))?;
        let _ = writeln!(lines, "  {statement}");
    }
    let local = match scope.local {
        0 => String::new(),
        bytes => {
            format!("  unsigned char *local = frame(run, {bytes});\n  if (!local) return 1;\n")
        }
    };
    let waits = scope.barriers > 0;
    let code = if waits {
        resumable(&scope, &local, &lines)
    } else {
        let registers = each(&scope, |kind, name| format!("  {kind} {name} = 0;\n"));
        format!("{} {{\n{local}{registers}{lines}  return 0;\n}}\n", head(name))
    };
    let kept = if waits { format!("sizeof(struct kept_{name})") } else { "0".to_owned() };
    Ok(Body { code, kept, calls: scope.calls, threads: scope.threads })
}

/// The code around the lines of a kernel with barriers.
fn resumable(scope: &FunctionScope, local: &str, lines: &str) -> String {
    let (name, bytes) = (&scope.function.name, scope.local);
    let fields = each(scope, |kind, name| format!("  {kind} {name};\n"));
    let read = each(scope, |kind, name| format!("  {kind} {name} = kept->{name};\n"));
    let written = each(scope, |_, name| format!("  kept->{name} = {name};\n"));
    let copy = |to: &str, from: &str| match bytes {
        0 => String::new(),
        bytes => format!("  memcpy({to}, {from}, {bytes});\n"),
    };
    let mut code = format!("struct kept_{name} {{\n  struct kept kept;\n{fields}");
    if bytes > 0 {
        let _ = writeln!(code, "  unsigned char local[{bytes}];");
    }
    let _ = write!(code, "}};\n{} {{\n", head(name));
    let _ = writeln!(code, "  struct kept_{name} *kept = (struct kept_{name} *)run->kept;");
    let _ = write!(code, "{local}{read}{}", copy("local", "kept->local"));
    let cases = (1..=scope.barriers).map(|at| format!("case {at}: goto at_{at}; "));
    let _ = writeln!(code, "  switch (kept->kept.at) {{ {}}}", cases.collect::<String>());
    let _ = write!(code, "{lines}  return 0;\nwaits:\n{written}{}", copy("kept->local", "local"));
    code + "  return WAITS;\n}\n"
}

/// Some code for each register.
fn each(scope: &FunctionScope, code: impl Fn(&str, &str) -> String) -> String {
    scope.registers.iter().map(|(kind, name)| code(kind, name)).collect()
}
