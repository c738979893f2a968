//! Instructions that read and write memory.

use std::fmt::Write as _;

use super::instruction::{elements, PtxInstruction, Statement, NOT_KNOWN};
use super::scope::{c_type, FunctionScope};
use super::text::{bytes_of, integer};

pub(super) fn load(scope: &FunctionScope, it: &PtxInstruction) -> Statement {
    let kind = it.kind()?;
    let size = bytes_of(kind).unwrap_or(4);
    let targets: Vec<&str> = elements(it.operand(0)?);
    let (source, check) = place(scope, it, it.operand(1)?, size * targets.len(), false)?;
    let mut code = format!("{{ const unsigned char *from = {source};{check} ");
    for (index, target) in targets.iter().enumerate() {
        let (c, at) = (c_type(kind), index * size);
        let _ = write!(code, "{c} loaded{index}; memcpy(&loaded{index}, from + {at}, {size}); ");
        code += &scope.assign(target, kind, &format!("loaded{index}"))?;
    }
    Ok(code + " }")
}

pub(super) fn store(scope: &FunctionScope, it: &PtxInstruction) -> Statement {
    let kind = it.kind()?;
    let size = bytes_of(kind).unwrap_or(4);
    let values: Vec<&str> = elements(it.operand(1)?);
    let (target, check) = place(scope, it, it.operand(0)?, size * values.len(), true)?;
    let mut code = format!("{{ unsigned char *to = {target};{check} ");
    for (index, value) in values.iter().enumerate() {
        let (c, value, at) = (c_type(kind), scope.value(value, kind)?, index * size);
        let _ = write!(code, "{{ {c} stored = {value}; memcpy(to + {at}, &stored, {size}); }} ");
    }
    Ok(code + "}")
}

/// Threads run one after the other, so nothing has to be atomic.
pub(super) fn atomic(scope: &FunctionScope, it: &PtxInstruction) -> Statement {
    let kind = it.kind()?;
    let (to, operands) = match it.operands.as_slice() {
        [to, rest @ ..] if it.name() == "atom" => (Some(*to), rest),
        all => (None, all),
    };
    let [address, a, rest @ ..] = operands else { return Err("an operand is missing".into()) };
    let size = bytes_of(kind).unwrap_or(4);
    let (place, check) = place(scope, it, address, size, true)?;
    let a = scope.value(a, kind)?;
    let operations = ["add", "min", "max", "exch", "cas", "and", "or", "xor", "inc", "dec"];
    let new = match it.modifiers().iter().find(|part| operations.contains(*part)).copied() {
        Some("add") => format!("old + ({a})"),
        Some("min") => format!("old < ({a}) ? old : ({a})"),
        Some("max") => format!("old > ({a}) ? old : ({a})"),
        Some("and") => format!("old & ({a})"),
        Some("or") => format!("old | ({a})"),
        Some("xor") => format!("old ^ ({a})"),
        Some("inc") => format!("old >= ({a}) ? 0 : old + 1"),
        Some("dec") => format!("old == 0 || old > ({a}) ? ({a}) : old - 1"),
        Some("exch") => a,
        Some("cas") => {
            let b = rest.first().ok_or("an operand is missing")?;
            format!("old == ({a}) ? ({}) : old", scope.value(b, kind)?)
        }
        _ => return Err(NOT_KNOWN.into()),
    };
    let kept = to.map_or(Ok(String::new()), |to| scope.assign(to, kind, "old"))?;
    Ok(format!(
        "{{ unsigned char *to = {place};{check} {0} old, changed; memcpy(&old, to, {size}); \
         changed = {new}; memcpy(to, &changed, {size}); {kept} }}",
        c_type(kind)
    ))
}

/// Where the bytes behind an operand in brackets are, and what is to be done if they are nowhere.
fn place(
    scope: &FunctionScope,
    it: &PtxInstruction,
    operand: &str,
    bytes: usize,
    writes: bool,
) -> Result<(String, &'static str), String> {
    let inner = operand.trim().strip_prefix('[').and_then(|inner| inner.strip_suffix(']'));
    let inner = inner.ok_or("an address is not in brackets")?.trim();
    let (base, offset) = match inner.split_once('+') {
        None => (inner, 0),
        Some((base, offset)) => {
            (base.trim(), integer(offset.trim()).ok_or("an offset is no number")?)
        }
    };
    if it.has("param") {
        if let Some(bytes) = scope.bytes(base) {
            return Ok((format!("{bytes} + {offset}"), ""));
        }
        let index = scope.function.params.iter().position(|param| param.name == base);
        let index = index.ok_or("this parameter is not known")?;
        return Ok((format!("(unsigned char *)params[{index}] + {offset}"), ""));
    }
    let address = format!("({}) + {offset}ULL", scope.value(base, "u64")?);
    let place = if it.is_shared() {
        // Shared memory has small addresses: sums of narrow ones wrap.
        let narrow = scope.register(base).is_ok_and(|(_, class)| class.ends_with("32"));
        let address = if narrow { format!("(uint32_t)({address})") } else { address };
        format!("shared(run, {address}, {bytes})")
    } else if it.modifiers().iter().any(|part| part.starts_with("shared")) {
        return Err(NOT_KNOWN.into());
    } else {
        format!("at(run, {address}, {bytes}, {})", i32::from(writes))
    };
    Ok((place, if writes { " if (!to) return 1;" } else { " if (!from) return 1;" }))
}

/// `cvta`: all address spaces but that of shared memory are one here.
pub(super) fn convert_address(scope: &FunctionScope, it: &PtxInstruction) -> Statement {
    let (kind, from) = (it.kind()?, it.operand(1)?);
    let address = scope.value(from, kind)?;
    let sign = if it.has("to") { '-' } else { '+' };
    let base = format!("{sign} (uint64_t)(uintptr_t)run->windows[SHARED].at");
    let address = format!("({address}) {}", if it.is_shared() { &base } else { "" });
    scope.assign(it.operand(0)?, kind, &address)
}
