//! Kernels from PTX: translated to C, one function for each, and compiled by the system's C compiler when
//! a program first asks for one of a module.
//!
//! The threads of a launch run one after the other on the stream's thread, so kernels whose threads
//! wait for each other (barriers, shared memory, warps) are refused by name, and so is every
//! instruction that is not known here. The other kernels of their module run.

mod call;
mod compile;
mod float;
mod memory;
mod scope;
mod statement;
mod text;
mod whole;

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::{Arc, OnceLock};

use compile::Compiled;
use scope::{c_name, Scope};
use text::{Function, Module};

use crate::kernels::Kernel;
use crate::notice::notice;
use crate::status::{Outcome, Status};

/// C code before the kernels: how they reach memory, and the registers' other readings.
const PRELUDE: &str = include_str!("prelude.c");

/// The code of a module.
pub(crate) struct Code {
    ptx: Option<String>,
    compiled: OnceLock<Option<Compiled>>,
}

impl Code {
    /// From PTX, or none.
    pub(crate) fn new(ptx: Option<String>) -> Self {
        Self { ptx, compiled: OnceLock::new() }
    }

    /// The kernel of this name.
    pub(crate) fn kernel(&self, name: &str) -> Outcome<Arc<Kernel>> {
        let ptx = self.ptx.as_deref().ok_or(Status::NOT_FOUND)?;
        let compile = || Compiled::new(ptx).map_err(|why| notice(&format!("PTX: {why}"))).ok();
        let compiled = self.compiled.get_or_init(compile).as_ref().ok_or(Status::INVALID_PTX)?;
        compiled.kernel(name).ok_or(Status::NOT_FOUND)?.map_err(|why| {
            notice(&format!("PTX: {why}"));
            Status::INVALID_PTX
        })
    }
}

/// A translated module.
struct Translation {
    code: String,
    /// The kernels by their names: the sizes of their parameters in bytes, or why there is none.
    kernels: HashMap<String, Result<Vec<usize>, String>>,
}

/// The code of a function, and what it calls.
struct Body {
    code: String,
    calls: Vec<String>,
}

/// The C text of all kernels of a module that can be translated.
///
/// # Errors
/// The module itself cannot be read.
fn translate(ptx: &str) -> Result<Translation, String> {
    let module = Module::parse(ptx)?;
    let mut bodies: HashMap<&str, Result<Body, String>> = HashMap::new();
    for function in &module.functions {
        bodies.insert(&function.name, body(&module, function));
    }
    refuse_callers(&mut bodies);
    let mut code = format!("{PRELUDE}\n{}", variables(&module));
    let mut text = String::new();
    let mut kernels = HashMap::new();
    for function in &module.functions {
        let name = &function.name;
        let sizes = function.params.iter().map(|param| param.size).collect();
        let found = bodies.get(name.as_str()).and_then(|body| body.as_ref().err());
        if let Some(Ok(body)) = bodies.get(name.as_str()) {
            let head = format!(
                "static int t_{name}(struct run *run, const struct place *place, void **params)"
            );
            let _ = writeln!(code, "{head};");
            let _ =
                writeln!(text, "{head} {{\n  unsigned carry = 0;\n{}  return 0;\n}}", body.code);
            if function.is_kernel {
                let launch = format!("void k_{name}(const struct launch *launch)");
                let _ = writeln!(text, "{launch} {{ all_threads(launch, t_{name}); }}");
            }
        }
        if function.is_kernel {
            kernels.insert(name.clone(), found.map_or(Ok(sizes), |why| Err(why.clone())));
        }
    }
    for (name, why) in &module.refused {
        kernels.entry(name.clone()).or_insert_with(|| Err(format!("{name}: {why}")));
    }
    Ok(Translation { code: code + &text, kernels })
}

/// The variables, next to each other, so that kernels find them in one window.
fn variables(module: &Module) -> String {
    let (mut fields, mut values) = (String::new(), String::new());
    for variable in &module.variables {
        let (name, size) = (c_name(&variable.name), variable.size.max(1));
        let bytes: Vec<String> = variable.bytes.iter().map(u8::to_string).collect();
        let _ = writeln!(fields, "  unsigned char {name}[{size}] __attribute__((aligned(16)));");
        let _ = writeln!(values, "  .{name} = {{{}}},", bytes.join(", "));
    }
    format!(
        "static struct {{\n{fields}  char end; }} variables = {{\n{values}}};\n\
         static struct window window_of_variables(void)\n\
         {{ return window_at((unsigned char *)&variables, sizeof variables); }}\n"
    )
}

fn body(module: &Module, function: &Function) -> Result<Body, String> {
    let name = &function.name;
    let mut scope = Scope::new(module, function);
    let mut code = String::new();
    for line in &function.lines {
        let statement = statement::statement(&mut scope, line);
        let statement = statement.map_err(|why| format!("{name}: `{line}`: {why}"))?;
        let _ = writeln!(code, "  {statement}");
    }
    Ok(Body { code, calls: scope.calls })
}

/// Refuses the functions that call a refused one.
fn refuse_callers(bodies: &mut HashMap<&str, Result<Body, String>>) {
    loop {
        let refused = bodies.iter().find_map(|(name, body)| {
            let calls = &body.as_ref().ok()?.calls;
            let why = calls.iter().find_map(|call| bodies.get(call.as_str())?.as_ref().err());
            why.map(|why| (*name, format!("{name} calls {why}")))
        });
        let Some((name, why)) = refused else { return };
        bodies.insert(name, Err(why));
    }
}

#[cfg(test)]
mod tests;
