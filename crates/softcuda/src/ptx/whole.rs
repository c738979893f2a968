//! Integer instructions.

use super::instruction::{PtxInstruction, Statement, NOT_KNOWN};
use super::scope::{c_type, FunctionScope};
use super::text::bytes_of;

/// Arithmetic, logic and bits.
pub(super) fn arithmetic(scope: &FunctionScope, it: &PtxInstruction) -> Statement {
    let kind = it.kind()?;
    if it.has("sat") {
        return Err(NOT_KNOWN.into());
    }
    let bits = bytes_of(kind).unwrap_or(4) * 8;
    let value = |at: usize| -> Statement { scope.value(it.operand(at)?, kind) };
    let number = |at: usize| -> Statement { scope.value(it.operand(at)?, "u32") };
    let assign = |code: &str| -> Statement { scope.assign(it.operand(0)?, kind, code) };
    match it.name() {
        "add" | "addc" | "sub" | "subc" | "mad" | "madc"
            if it.has("cc") || it.name().ends_with('c') =>
        {
            carried(scope, it)
        }
        "add" => assign(&format!("({}) + ({})", value(1)?, value(2)?)),
        "sub" => assign(&format!("({}) - ({})", value(1)?, value(2)?)),
        "mul" | "mad" => multiply(scope, it),
        "div" | "rem" => {
            let (a, b) = (value(1)?, value(2)?);
            // A GPU gives all bits for a division by 0; here it must not fault.
            let sign = if it.name() == "div" { '/' } else { '%' };
            assign(&format!("({b}) == 0 ? ({}) -1 : ({a}) {sign} ({b})", c_type(kind)))
        }
        "min" | "max" => {
            let (a, b) = (value(1)?, value(2)?);
            let sign = if it.name() == "min" { '<' } else { '>' };
            assign(&format!("({a}) {sign} ({b}) ? ({a}) : ({b})"))
        }
        "abs" => {
            let a = value(1)?;
            assign(&format!("({a}) < 0 ? -({a}) : ({a})"))
        }
        "neg" => assign(&format!("-({})", value(1)?)),
        "not" => assign(&format!("~({})", value(1)?)),
        "and" => assign(&format!("({}) & ({})", value(1)?, value(2)?)),
        "or" => assign(&format!("({}) | ({})", value(1)?, value(2)?)),
        "xor" => assign(&format!("({}) ^ ({})", value(1)?, value(2)?)),
        "shl" => assign(&format!("shift_left({}, {})", value(1)?, number(2)?)),
        "shr" => {
            let function = if kind.starts_with('s') { "shift_signed" } else { "shift_right" };
            assign(&format!("{function}({}, {})", value(1)?, number(2)?))
        }
        "bfi" => {
            let (part, into) = (value(1)?, value(2)?);
            assign(&format!("bits_into({part}, {into}, {}, {})", number(3)?, number(4)?))
        }
        "bfe" => {
            let function = if kind.starts_with('s') { "signed_bits_from" } else { "bits_from" };
            assign(&format!("{function}({}, {}, {}, {bits})", value(1)?, number(2)?, number(3)?))
        }
        "brev" => assign(&format!("reversed({}, {bits})", value(1)?)),
        // The result has 32 bits in any case.
        "popc" => {
            scope.assign(it.operand(0)?, "u32", &format!("__builtin_popcountll({})", value(1)?))
        }
        "clz" => {
            scope.assign(it.operand(0)?, "u32", &format!("{} - 1 - highest({})", bits, value(1)?))
        }
        "bfind" if !kind.starts_with('s') => {
            let a = value(1)?;
            let found = if it.has("shiftamt") {
                format!("({a}) == 0 ? -1 : {} - highest({a})", bits - 1)
            } else {
                format!("highest({a})")
            };
            scope.assign(it.operand(0)?, "u32", &found)
        }
        "sad" => {
            let (a, b) = (value(1)?, value(2)?);
            assign(&format!("(({a}) < ({b}) ? ({b}) - ({a}) : ({a}) - ({b})) + ({})", value(3)?))
        }
        "prmt" => assign(&format!("permuted({}, {}, {})", value(1)?, value(2)?, value(3)?)),
        "lop3" => {
            let (a, b, c) = (value(1)?, value(2)?, value(3)?);
            assign(&format!("logic_of_three({a}, {b}, {c}, {})", number(4)?))
        }
        "shf" => {
            let most = if it.has("wrap") { "& 31" } else { "> 31 ? 32 : by" };
            let both = format!("(uint64_t)({}) << 32 | ({})", value(2)?, value(1)?);
            let shifted = if it.has("l") { "(both << by) >> 32" } else { "both >> by" };
            let code = assign(shifted)?;
            Ok(format!(
                "{{ uint64_t both = {both}; uint32_t by = {}; by = by {most}; {code} }}",
                number(3)?
            ))
        }
        _ => Err(NOT_KNOWN.into()),
    }
}

/// The type and the code of a product.
fn product(scope: &FunctionScope, it: &PtxInstruction) -> Result<(String, String), String> {
    let kind = it.kind()?;
    let (a, b) = (scope.value(it.operand(1)?, kind)?, scope.value(it.operand(2)?, kind)?);
    let bits = bytes_of(kind).unwrap_or(4) * 8;
    if it.has("wide") {
        let wide = format!("{}{}", &kind[..1], 2 * bits);
        let code = format!("({0})({a}) * ({0})({b})", c_type(&wide));
        return Ok((wide, code));
    }
    if it.has("hi") {
        let wide = match (kind.starts_with('s'), bits) {
            (true, 64) => "__int128".to_owned(),
            (false, 64) => "unsigned __int128".to_owned(),
            _ => c_type(&format!("{}{}", &kind[..1], 2 * bits)),
        };
        return Ok((kind.to_owned(), format!("(({wide})({a}) * ({wide})({b})) >> {bits}")));
    }
    // Unsigned, so that overflow wraps.
    Ok((kind.to_owned(), format!("(uint64_t)({a}) * (uint64_t)({b})")))
}

fn multiply(scope: &FunctionScope, it: &PtxInstruction) -> Statement {
    let (result, product) = product(scope, it)?;
    let code = if it.name() == "mul" {
        product
    } else {
        format!("({product}) + ({})", scope.value(it.operand(3)?, &result)?)
    };
    scope.assign(it.operand(0)?, &result, &code)
}

/// Sums of more than one word: `.cc` writes the carry, and `addc` and the like read it.
fn carried(scope: &FunctionScope, it: &PtxInstruction) -> Statement {
    let kind = it.kind()?.replace('s', "u");
    let bits = bytes_of(&kind).unwrap_or(4) * 8;
    let is_product = it.name().starts_with("mad");
    let (a, b) = if is_product {
        (product(scope, it)?.1, it.operand(3)?)
    } else {
        (scope.value(it.operand(1)?, &kind)?, it.operand(2)?)
    };
    let b = scope.value(b, &kind)?;
    let sign = if it.name().starts_with("sub") { '-' } else { '+' };
    let carry = if it.name().ends_with('c') { format!(" {sign} carry") } else { String::new() };
    let kept = if it.has("cc") { format!("carry = sum >> {bits} & 1;") } else { String::new() };
    let c = c_type(&kind);
    Ok(format!(
        "{{ unsigned __int128 sum = (unsigned __int128)({c})({a}) {sign} ({c})({b}){carry}; {kept} {} }}",
        scope.assign(it.operand(0)?, &kind, "sum")?
    ))
}
