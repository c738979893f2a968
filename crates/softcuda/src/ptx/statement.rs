//! One line of a function as a statement of C.

use std::fmt::Write as _;

use super::instruction::{elements, PtxInstruction, Statement, NOT_KNOWN};
use super::scope::{c_type, label_of, FunctionScope};
use super::text::{bytes_of, integer};
use super::{call, float, memory, whole};

/// The statement for a line.
pub(super) fn statement(scope: &mut FunctionScope, line: &str) -> Statement {
    match line.split_once(' ') {
        Some((".reg", registers)) => return scope.declare_registers(registers),
        Some((".local" | ".param", _)) => return scope.declare_bytes(line),
        Some((".pragma", _)) => return Ok(String::new()),
        _ => {}
    }
    if line == "{" || line == "}" {
        scope.brace(line);
        return Ok(line.to_owned());
    }
    if let Some(label) = line.strip_suffix(':') {
        return scope.label(label);
    }
    let (condition, line) = match line.strip_prefix('@') {
        None => (None, line),
        Some(guarded) => {
            let (guard, line) = guarded.split_once(' ').ok_or("a guard of nothing")?;
            (Some(format!("if ({})", scope.predicate(guard)?)), line.trim())
        }
    };
    let code = instruction(scope, &PtxInstruction::new(line))?;
    Ok(condition.map_or(code.clone(), |condition| format!("{condition} {{ {code} }}")))
}

fn instruction(scope: &mut FunctionScope, it: &PtxInstruction) -> Statement {
    match it.name() {
        "ld" | "ldu" => return memory::load(scope, it),
        "st" => return memory::store(scope, it),
        "atom" | "red" => return memory::atomic(scope, it),
        // Threads run one after the other.
        "membar" | "fence" => return Ok(String::new()),
        "call" => return call::call(scope, it),
        "bar" | "barrier" => return barrier(scope, it),
        _ => it.check()?,
    }
    match it.name() {
        "ret" => Ok("return 0;".into()),
        "exit" => Ok("return 2;".into()),
        "bra" => Ok(format!("goto {};", label_of(it.operand(0)?))),
        "mov" | "not" | "and" | "or" | "xor" if it.has("pred") => logic(scope, it),
        "mov" => movement(scope, it),
        "cvta" => memory::convert_address(scope, it),
        "cvt" => convert(scope, it),
        "setp" => compare(scope, it),
        "selp" => {
            let (kind, which) = (it.kind()?, scope.predicate(it.operand(3)?)?);
            let (a, b) = (scope.value(it.operand(1)?, kind)?, scope.value(it.operand(2)?, kind)?);
            scope.assign(it.operand(0)?, kind, &format!("{which} ? ({a}) : ({b})"))
        }
        _ if it.kind()?.starts_with('f') => float::arithmetic(scope, it),
        _ => whole::arithmetic(scope, it),
    }
}

/// `bar.sync 0`, and `bar.sync 0, n` if a block has that many threads.
fn barrier(scope: &mut FunctionScope, it: &PtxInstruction) -> Statement {
    let known = |part: &&str| ["sync", "cta", "aligned"].contains(part);
    if !it.has("sync") || !it.modifiers().iter().all(known) {
        return Err(NOT_KNOWN.into());
    }
    if integer(it.operand(0)?) != Some(0) {
        return Err("the software device has one barrier, 0".into());
    }
    if let Ok(threads) = it.operand(1) {
        let threads = integer(threads).ok_or("the number of threads is in a register")?;
        if scope.threads.replace(threads).is_some_and(|other| other != threads) {
            return Err("another barrier is for another number of threads".into());
        }
    }
    scope.barrier()
}

/// Instructions of predicates.
fn logic(scope: &FunctionScope, it: &PtxInstruction) -> Statement {
    let operand = |at: usize| -> Statement { scope.predicate(it.operand(at)?) };
    let code = match it.name() {
        "mov" => operand(1)?,
        "not" => format!("!{}", operand(1)?),
        "and" => format!("{} & {}", operand(1)?, operand(2)?),
        "or" => format!("{} | {}", operand(1)?, operand(2)?),
        _ => format!("{} ^ {}", operand(1)?, operand(2)?),
    };
    Ok(format!("{} = {code};", scope.register(it.operand(0)?)?.0))
}

/// `mov`, also between one register and the parts of a vector.
fn movement(scope: &FunctionScope, it: &PtxInstruction) -> Statement {
    let (to, from, kind) = (it.operand(0)?, it.operand(1)?, it.kind()?);
    let bits = 8 * bytes_of(kind).unwrap_or(4);
    let (targets, sources) = (elements(to), elements(from));
    let part = |count: usize| (bits / count, format!("b{}", bits / count));
    match (targets.len(), sources.len()) {
        (1, 1) => scope.assign(to, kind, &scope.value(from, kind)?),
        (1, count) => {
            let (width, part) = part(count);
            let mut whole = String::from("0ull");
            for (at, source) in sources.iter().enumerate() {
                let _ = write!(
                    whole,
                    " | (uint64_t)({}) << {}",
                    scope.value(source, &part)?,
                    at * width
                );
            }
            scope.assign(to, kind, &whole)
        }
        (count, 1) => {
            let (width, part) = part(count);
            let mut code = format!("{{ {} whole = {}; ", c_type(kind), scope.value(from, kind)?);
            for (at, target) in targets.iter().enumerate() {
                code += &scope.assign(target, &part, &format!("whole >> {}", at * width))?;
            }
            Ok(code + " }")
        }
        _ => Err("vectors on both sides".into()),
    }
}

fn compare(scope: &FunctionScope, it: &PtxInstruction) -> Statement {
    let kind = it.kind()?;
    let (to, a, b) = (it.operand(0)?, it.operand(1)?, it.operand(2)?);
    let value =
        |operand| -> Statement { Ok(float::flushed(it, kind, scope.value(operand, kind)?)) };
    let (a, b) = (value(a)?, value(b)?);
    let is_float = kind.starts_with('f');
    let name = it.modifiers().first().copied().unwrap_or_default();
    let ordered = format!("(({a}) == ({a}) && ({b}) == ({b}))");
    let unordered = is_float && name.len() == 3 && name.ends_with('u');
    let sign = match if unordered { &name[..2] } else { name } {
        "eq" => "==",
        "ne" => "!=",
        "lt" | "lo" => "<",
        "le" | "ls" => "<=",
        "gt" | "hi" => ">",
        "ge" | "hs" => ">=",
        "num" | "nan" if is_float => "",
        _ => return Err(NOT_KNOWN.into()),
    };
    let mut code = match (name, is_float) {
        ("num", _) => ordered,
        ("nan", _) => format!("(!{ordered})"),
        (_, false) => format!("(({a}) {sign} ({b}))"),
        _ if unordered => format!("(({a}) {sign} ({b}) || !{ordered})"),
        _ => format!("(({a}) {sign} ({b}) && {ordered})"),
    };
    if let Ok(other) = it.operand(3) {
        let sign = match it.modifiers().get(1).copied().unwrap_or_default() {
            "and" => '&',
            "or" => '|',
            "xor" => '^',
            _ => return Err(NOT_KNOWN.into()),
        };
        code = format!("{code} {sign} {}", scope.predicate(other)?);
    }
    let mut code = format!("{{ int found = {code}; ");
    for (not, target) in ["", "!"].iter().zip(to.split('|')) {
        let _ = write!(code, "{} = {not}found; ", scope.register(target)?.0);
    }
    Ok(code + "}")
}

fn convert(scope: &FunctionScope, it: &PtxInstruction) -> Statement {
    let kinds = it.kinds();
    let [to, from] = kinds.as_slice() else {
        return Err(NOT_KNOWN.into());
    };
    if to.starts_with('f') {
        return float::convert(scope, it, from, to);
    }
    if it.has("sat") {
        return Err(NOT_KNOWN.into());
    }
    let mut value = scope.value(it.operand(1)?, from)?;
    if from.starts_with('f') {
        value = format!("(double){}", float::flushed(it, from, format!("({value})")));
        if let Some(function) = it.whole() {
            value = format!("{function}({value})");
        }
        let bits = 8 * bytes_of(to).unwrap_or(4) as u32;
        let most = |bits: u32| (1_u64 << bits) as f64;
        value = match (to.starts_with('s'), bits) {
            (true, 64) => format!("clamped_s64({value})"),
            (false, 64) => format!("clamped_u64({value})"),
            (true, _) => {
                format!("clamped({value}, {:.1}, {:.1})", -most(bits - 1), most(bits - 1) - 1.0)
            }
            (false, _) => format!("clamped({value}, 0.0, {:.1})", most(bits) - 1.0),
        };
    }
    scope.assign(it.operand(0)?, to, &value)
}
