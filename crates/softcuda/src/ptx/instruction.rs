//! An instruction of a function, taken apart.

use super::text::bytes_of;

/// A statement, or why there is none.
pub(super) type Statement = Result<String, String>;

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
pub(super) struct PtxInstruction<'a> {
    parts: Vec<&'a str>,
    pub(super) operands: Vec<&'a str>,
}

impl<'a> PtxInstruction<'a> {
    pub(super) fn new(line: &'a str) -> Self {
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
    pub(super) fn kinds(&self) -> Vec<&'a str> {
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

    pub(super) fn check(&self) -> Result<(), String> {
        let known = |part: &str| bytes_of(part).is_some() || MODIFIERS.contains(&part);
        match self.modifiers().iter().find(|part| !known(part)) {
            Some(part) => Err(format!("`.{part}` is not known to the software device")),
            None => Ok(()),
        }
    }
}

/// Splits operands at the commas outside braces, brackets and parentheses.
pub(super) fn operands_of(text: &str) -> Vec<&str> {
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
