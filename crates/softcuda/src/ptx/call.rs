//! Calls of the module's functions.

use super::instruction::{PtxInstruction, Statement};
use super::scope::FunctionScope;

/// `call (returned), function, (parameters)`: the first and the last may be missing.
pub(super) fn call(scope: &mut FunctionScope, it: &PtxInstruction) -> Statement {
    let at = usize::from(it.operand(0)?.starts_with('('));
    let name = it.operand(at)?;
    let returned = if at == 1 { it.operand(0)? } else { "" };
    let lists = [returned, it.operand(at + 1).unwrap_or_default()];
    let mut pointers = Vec::new();
    for list in lists {
        let list = list.trim_start_matches('(').trim_end_matches(')');
        for argument in list.split(',').map(str::trim).filter(|argument| !argument.is_empty()) {
            let bytes = scope.bytes(argument);
            pointers.push(bytes.ok_or_else(|| format!("{argument}: not a parameter of a call"))?);
        }
    }
    let function = scope.module.functions.iter().find(|function| function.name == name);
    let function = function.filter(|function| !function.is_kernel);
    let function = function.ok_or_else(|| format!("{name}: there is no such function"))?;
    if function.params.len() != pointers.len() {
        return Err(format!("{name} has {} parameters", function.params.len()));
    }
    scope.calls.push(name.to_owned());
    Ok(format!(
        "{{ void *all[] = {{{}}}; int ended = call(run, place, all, t_{name}); if (ended) return ended; }}",
        // C has no empty arrays.
        if pointers.is_empty() { "0".to_owned() } else { pointers.join(", ") }
    ))
}
