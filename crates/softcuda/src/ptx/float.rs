//! Floating-point instructions. For approximate ones (`.approx`) the C library's functions are used, which
//! are more accurate.

use super::instruction::{PtxInstruction, Statement};
use super::scope::{c_type, FunctionScope};

/// The code of an instruction with operands `a`, `b` and `c`; `@` becomes the suffix of the type.
fn formula(name: &str) -> Option<(usize, &'static str)> {
    Some(match name {
        "add" => (2, "a + b"),
        "sub" => (2, "a - b"),
        "mul" => (2, "a * b"),
        "fma" | "mad" => (3, "fma@(a, b, c)"),
        "div" => (2, "a / b"),
        "min" => (2, "fmin@(a, b)"),
        "max" => (2, "fmax@(a, b)"),
        "abs" => (1, "fabs@(a)"),
        "neg" => (1, "-a"),
        "copysign" => (2, "copysign@(b, a)"),
        "sqrt" => (1, "sqrt@(a)"),
        "rcp" => (1, "1 / a"),
        "rsqrt" => (1, "1 / sqrt@(a)"),
        "ex2" => (1, "exp2@(a)"),
        "lg2" => (1, "log2@(a)"),
        "sin" => (1, "sin@(a)"),
        "cos" => (1, "cos@(a)"),
        "tanh" => (1, "tanh@(a)"),
        _ => return None,
    })
}

/// Arithmetic and functions.
pub(super) fn arithmetic(scope: &FunctionScope, it: &PtxInstruction) -> Statement {
    let kind = it.kind()?;
    let (count, code) = formula(it.name()).ok_or("it is not known for this type")?;
    let code = code.replace('@', if kind == "f64" { "" } else { "f" });
    let mut operands = Vec::new();
    for at in 1..=count {
        operands.push(flushed(it, kind, scope.value(it.operand(at)?, kind)?));
    }
    computed(scope, it, kind, &operands, &[kind; 3], &code)
}

/// `cvt` to floating point, from that or from an integer.
pub(super) fn convert(
    scope: &FunctionScope,
    it: &PtxInstruction,
    from: &str,
    to: &str,
) -> Statement {
    let value = flushed(it, from, scope.value(it.operand(1)?, from)?);
    let code = match it.whole() {
        Some(function) if from.starts_with('f') => format!("{function}(a)"),
        _ => "a".to_owned(),
    };
    computed(scope, it, to, &[value], &[from], &code)
}

/// The result of `code`, rounded as the instruction says.
fn computed(
    scope: &FunctionScope,
    it: &PtxInstruction,
    kind: &str,
    operands: &[String],
    kinds: &[&str],
    code: &str,
) -> Statement {
    let modes = [("rz", "FE_TOWARDZERO"), ("rm", "FE_DOWNWARD"), ("rp", "FE_UPWARD")];
    let mode = modes.iter().find(|(name, _)| it.has(name));
    // The compiler moves nothing that is volatile across a change of the mode.
    let volatile = if mode.is_some() { "volatile " } else { "" };
    let mut out = String::from("{ ");
    for ((name, value), kind) in ["a", "b", "c"].iter().zip(operands).zip(kinds) {
        out += &format!("{volatile}{} {name} = {value}; ", c_type(kind));
    }
    out += &format!("{volatile}{} result; ", c_type(kind));
    out += &match mode {
        None => format!("result = {code}; "),
        Some((_, mode)) => {
            format!("fesetround({mode}); result = {code}; fesetround(FE_TONEAREST); ")
        }
    };
    let result = flushed(it, kind, "result".to_owned());
    let result = if it.has("sat") { format!("saturated({result})") } else { result };
    Ok(out + &scope.assign(it.operand(0)?, kind, &result)? + " }")
}

/// With `.ftz`, numbers too small to be normal are 0.
pub(super) fn flushed(it: &PtxInstruction, kind: &str, value: String) -> String {
    if it.has("ftz") && kind == "f32" {
        format!("flushed({value})")
    } else {
        value
    }
}
