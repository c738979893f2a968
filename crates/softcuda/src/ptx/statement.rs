//! One line of a function as a statement of C.

use std::fmt::Write as _;

use super::scope::{c_type, label_of, Scope};
use super::text::{bytes_of, integer};
use super::{call, float, memory, whole};

/// A statement, or why there is none.
pub(super) type Code = Result<String, String>;

/// The usual reason to refuse an instruction.
pub(super) const NOT_KNOWN: &str = "this instruction is not known to the software device";

/// What may follow an instruction's name, beside types. Anything else is refused, so that no instruction
/// behaves differently from a GPU. (Instructions of memory have more, about caches.)
const MODIFIERS: &[&str] = &[
    "rn",
    "rz",
    "rm",
    "rp",
    "rni",
    "rzi",
    "rmi",
    "rpi",
    "approx",
    "full",
    "ftz",
    "sat",
    "lo",
    "hi",
    "wide",
    "cc",
    "pred",
    "to",
    "global",
    "local",
    "const",
    "shared",
    "shared::cta",
    "uni",
    "l",
    "r",
    "wrap",
    "clamp",
    "shiftamt",
    "and",
    "or",
    "xor",
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "ls",
    "hs",
    "equ",
    "neu",
    "ltu",
    "leu",
    "gtu",
    "geu",
    "num",
    "nan",
];

/// An instruction and its operands.
pub(super) struct Instruction<'a> {
    parts: Vec<&'a str>,
    pub(super) operands: Vec<&'a str>,
}

impl<'a> Instruction<'a> {
    fn new(line: &'a str) -> Self {
        let (name, operands) = line.split_once(' ').unwrap_or((line, ""));
        Self { parts: name.split('.').collect(), operands: operands_of(operands) }
    }

    /// `fma` of `fma.rn.f32`.
    pub(super) fn name(&self) -> &'a str {
        self.parts[0]
    }

    /// Whether it has this modifier.
    pub(super) fn has(&self, part: &str) -> bool {
        self.parts[1..].contains(&part)
    }

    /// The modifiers and types, in order.
    pub(super) fn modifiers(&self) -> &[&'a str] {
        &self.parts[1..]
    }

    /// The types of the instruction.
    fn kinds(&self) -> Vec<&'a str> {
        self.modifiers().iter().copied().filter(|part| bytes_of(part).is_some()).collect()
    }

    /// The last type of the instruction.
    pub(super) fn kind(&self) -> Result<&'a str, String> {
        self.kinds().last().copied().ok_or_else(|| NOT_KNOWN.to_owned())
    }

    pub(super) fn operand(&self, at: usize) -> Result<&'a str, String> {
        self.operands.get(at).copied().ok_or_else(|| "an operand is missing".to_owned())
    }

    /// Whether it is about shared memory.
    pub(super) fn is_shared(&self) -> bool {
        self.has("shared") || self.has("shared::cta")
    }

    /// How it rounds to a whole number, as a function of C.
    pub(super) fn whole(&self) -> Option<&'static str> {
        let ways = [("rzi", "trunc"), ("rni", "nearbyint"), ("rmi", "floor"), ("rpi", "ceil")];
        ways.iter().find(|(way, _)| self.has(way)).map(|(_, function)| *function)
    }

    fn check(&self) -> Result<(), String> {
        let known = |part: &str| bytes_of(part).is_some() || MODIFIERS.contains(&part);
        match self.modifiers().iter().find(|part| !known(part)) {
            Some(part) => Err(format!("`.{part}` is not known to the software device")),
            None => Ok(()),
        }
    }
}

/// The statement for a line.
pub(super) fn statement(scope: &mut Scope, line: &str) -> Code {
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
    let code = instruction(scope, &Instruction::new(line))?;
    Ok(condition.map_or(code.clone(), |condition| format!("{condition} {{ {code} }}")))
}

fn instruction(scope: &mut Scope, it: &Instruction) -> Code {
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
fn barrier(scope: &mut Scope, it: &Instruction) -> Code {
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
fn logic(scope: &Scope, it: &Instruction) -> Code {
    let operand = |at: usize| -> Code { scope.predicate(it.operand(at)?) };
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
fn movement(scope: &Scope, it: &Instruction) -> Code {
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

fn compare(scope: &Scope, it: &Instruction) -> Code {
    let kind = it.kind()?;
    let (to, a, b) = (it.operand(0)?, it.operand(1)?, it.operand(2)?);
    let value = |operand| -> Code { Ok(float::flushed(it, kind, scope.value(operand, kind)?)) };
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

fn convert(scope: &Scope, it: &Instruction) -> Code {
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

/// Splits operands at the commas outside braces, brackets and parentheses.
fn operands_of(text: &str) -> Vec<&str> {
    let (mut operands, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, character) in text.char_indices() {
        match character {
            '{' | '[' | '(' => depth += 1,
            '}' | ']' | ')' => depth -= 1,
            ',' if depth == 0 => {
                operands.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    if !text[start..].trim().is_empty() {
        operands.push(text[start..].trim());
    }
    operands
}

/// The registers of a vector, or the one.
pub(super) fn elements(operand: &str) -> Vec<&str> {
    let operand = operand.trim();
    match operand.strip_prefix('{').and_then(|inner| inner.strip_suffix('}')) {
        Some(inner) => inner.split(',').map(str::trim).collect(),
        None => vec![operand],
    }
}
