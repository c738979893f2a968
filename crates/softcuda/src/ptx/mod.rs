//! Kernels from PTX: translated to C, one function for each, and compiled by the system's C compiler when
//! a program first asks for one of a module.
//!
//! The threads of a launch run on the stream's thread, block after block. Those of a block take turns: one
//! runs until it ends or comes to a barrier, then the next one. Kernels whose warps do something together
//! (shuffles, votes, barriers of a part of a block) are refused by name, and so is every instruction that is
//! not known here. The other kernels of their module run.

mod call;
mod compile;
mod float;
mod function;
mod instruction;
mod memory;
mod scope;
mod shared;
mod statement;
mod text;
mod whole;

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::{Arc, OnceLock};

use compile::Compiled;
use function::Body;
use scope::c_name;
use shared::SharedLayout;
use text::{PtxFunction, PtxModule};

use crate::kernels::{Kernel, LaunchNeeds, SHARED_MEMORY};
use crate::notice::notice;
use crate::status::{DriverResult, ErrorCode};

/// C code before the kernels: how they reach memory, and the registers' other readings.
const PRELUDE: &str = include_str!("prelude.c");

/// The code of a module.
pub(crate) struct ModuleCode {
    ptx: Option<String>,
    compiled: OnceLock<Option<Compiled>>,
}

impl ModuleCode {
    /// From PTX, or none.
    pub(crate) fn new(ptx: Option<String>) -> Self {
        Self { ptx, compiled: OnceLock::new() }
    }

    /// The kernel of this name.
    pub(crate) fn kernel(&self, name: &str) -> DriverResult<Arc<Kernel>> {
        let ptx = self.ptx.as_deref().ok_or(ErrorCode::NOT_FOUND)?;
        let compile = || Compiled::new(ptx).map_err(|why| notice(&format!("PTX: {why}"))).ok();
        let compiled = self.compiled.get_or_init(compile).as_ref().ok_or(ErrorCode::INVALID_PTX)?;
        compiled.kernel(name).ok_or(ErrorCode::NOT_FOUND)?.map_err(|why| {
            notice(&format!("PTX: {why}"));
            ErrorCode::INVALID_PTX
        })
    }
}

/// A translated module.
struct Translation {
    code: String,
    /// The kernels by their names: what they ask of a launch, or why there is none.
    kernels: HashMap<String, Result<LaunchNeeds, String>>,
}

/// The C text of all kernels of a module that can be translated.
///
/// # Errors
/// The module itself cannot be read.
fn translate(ptx: &str) -> Result<Translation, String> {
    let module = PtxModule::parse(ptx)?;
    let mut bodies: HashMap<&str, Result<Body, String>> = HashMap::new();
    for function in &module.functions {
        bodies.insert(&function.name, function::body(&module, function));
    }
    refuse_callers(&mut bodies);
    let mut code = format!("{PRELUDE}\n{}", variables(&module));
    let mut text = String::new();
    let mut kernels = HashMap::new();
    for function in &module.functions {
        let name = &function.name;
        let body = bodies.get(name.as_str());
        if let Some(Ok(body)) = body {
            let _ = writeln!(code, "{};", function::head(name));
            text += &body.code;
        }
        let kernel = match body.filter(|_| function.is_kernel) {
            None => continue,
            Some(Err(why)) => Err(why.clone()),
            Some(Ok(body)) => {
                let layout = shared::layout(&module, &with_called(&module, &bodies, function));
                text += &entry(name, &body.kept, &layout);
                needs(function, body, &layout)
            }
        };
        kernels.insert(name.clone(), kernel);
    }
    for (name, why) in &module.refused {
        kernels.entry(name.clone()).or_insert_with(|| Err(format!("{name}: {why}")));
    }
    Ok(Translation { code: code + &text, kernels })
}

/// The function of a library that runs a kernel.
fn entry(name: &str, kept: &str, layout: &SharedLayout) -> String {
    // C has no empty arrays.
    let starts: String = layout.starts.iter().map(|start| format!("{start}, ")).collect();
    format!(
        "void k_{name}(const struct launch *launch) {{\n  static const uint64_t starts[] = {{{starts}0}};\n  \
         all_threads(launch, t_{name}, {kept}, starts, {});\n}}\n",
        layout.bytes
    )
}

/// What a kernel asks of its launches.
fn needs(
    function: &PtxFunction,
    body: &Body,
    layout: &SharedLayout,
) -> Result<LaunchNeeds, String> {
    if layout.bytes > SHARED_MEMORY as u64 {
        let (name, bytes) = (&function.name, layout.bytes);
        return Err(format!(
            "{name}: {bytes} bytes of .shared memory: a block has {SHARED_MEMORY}"
        ));
    }
    let sizes = function.params.iter().map(|param| param.size).collect();
    Ok(LaunchNeeds { sizes, shared_bytes: layout.bytes as u32, threads: body.threads })
}

/// A function, and all that it calls.
fn with_called<'a>(
    module: &'a PtxModule,
    bodies: &HashMap<&str, Result<Body, String>>,
    function: &'a PtxFunction,
) -> Vec<&'a PtxFunction> {
    let mut found = vec![function];
    let mut at = 0;
    while let Some(caller) = found.get(at) {
        at += 1;
        let Some(Ok(body)) = bodies.get(caller.name.as_str()) else { continue };
        let called = module.functions.iter().filter(|function| body.calls.contains(&function.name));
        let names: Vec<&str> = found.iter().map(|function| function.name.as_str()).collect();
        let new: Vec<_> = called.filter(|called| !names.contains(&called.name.as_str())).collect();
        found.extend(new);
    }
    found
}

/// The variables, next to each other, so that kernels find them in one window.
fn variables(module: &PtxModule) -> String {
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
