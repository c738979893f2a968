//! Shared memory: where the variables of a kernel are in it. They have no addresses of their own: like a GPU,
//! each kernel has room for those that it, and the functions that it calls, name.

use super::text::{PtxFunction, PtxModule};

/// The shared memory of a kernel.
pub(super) struct SharedLayout {
    /// Where each of the module's variables begins; those that the kernel does not have at 0.
    pub(super) starts: Vec<u64>,
    /// Bytes of those with a size of their own. What the launch asks for follows.
    pub(super) bytes: u64,
}

/// Lays out the variables that some functions name.
pub(super) fn layout(module: &PtxModule, functions: &[&PtxFunction]) -> SharedLayout {
    let used = |at: &usize| functions.iter().any(|function| names(module, function, *at));
    let used: Vec<usize> = (0..module.shared.len()).filter(used).collect();
    let mut layout = SharedLayout { starts: vec![0; module.shared.len()], bytes: 0 };
    let aligned = |bytes: u64, align: usize| bytes.next_multiple_of(align as u64);
    for at in &used {
        let variable = &module.shared[*at];
        if let Some(size) = variable.size {
            layout.starts[*at] = aligned(layout.bytes, variable.align);
            layout.bytes = layout.starts[*at] + size as u64;
        }
    }
    // The launch's bytes have several names, all of them for the same place.
    let dynamic = |at: &&usize| module.shared[**at].size.is_none();
    let align = used.iter().filter(dynamic).map(|at| module.shared[*at].align).max();
    layout.bytes = aligned(layout.bytes, align.unwrap_or(1));
    for at in used.iter().filter(dynamic) {
        layout.starts[*at] = layout.bytes;
    }
    layout
}

/// The number of the variable that a function knows under this name.
pub(super) fn find(module: &PtxModule, function: &PtxFunction, name: &str) -> Option<usize> {
    let owners = [Some(function.name.as_str()), None];
    owners.iter().find_map(|owner| {
        let mut variables = module.shared.iter();
        variables.position(|variable| variable.name == name && variable.owner.as_deref() == *owner)
    })
}

/// Whether an instruction of a function names a variable.
fn names(module: &PtxModule, function: &PtxFunction, at: usize) -> bool {
    let name = &module.shared[at].name;
    let in_name = |c: char| c.is_ascii_alphanumeric() || "_$%".contains(c);
    let names = |line: &String| line.split(|c| !in_name(c)).any(|word| word == name);
    find(module, function, name) == Some(at) && function.lines.iter().any(names)
}
