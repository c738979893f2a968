//! One line of a kernel as a statement of C.

use std::collections::HashMap;
use std::fmt::Write as _;

use super::text::{bytes_of, integer, Entry, Module};

/// The registers of a kernel, and the names it may use.
pub(super) struct Scope<'a> {
    module: &'a Module,
    entry: &'a Entry,
    /// A class of registers by its prefix, as `%rd`: its type, and how many there are.
    classes: HashMap<String, (String, usize)>,
}

impl<'a> Scope<'a> {
    pub(super) fn new(module: &'a Module, entry: &'a Entry) -> Result<Scope<'a>, String> {
        let mut classes = HashMap::new();
        for line in entry.lines.iter().filter_map(|line| line.strip_prefix(".reg ")) {
            let not_known = || format!("{}: `.reg {line}`: not known", entry.name);
            let (kind, name) = line.split_once(' ').ok_or_else(not_known)?;
            let (prefix, count) = name.trim().split_once('<').ok_or_else(not_known)?;
            let count = count.trim_end_matches('>').parse().map_err(|_| not_known())?;
            classes.insert(prefix.to_owned(), (kind.trim_start_matches('.').to_owned(), count));
        }
        Ok(Scope { module, entry, classes })
    }

    /// The registers' declarations.
    pub(super) fn declarations(&self) -> String {
        let mut out = String::new();
        for (prefix, (kind, count)) in &self.classes {
            let (prefix, kind) = (prefix.trim_start_matches('%'), c_class(kind));
            for number in 0..*count {
                let _ = writeln!(out, "  {kind} r_{prefix}{number} = 0; (void)r_{prefix}{number};");
            }
        }
        out
    }

    /// The statement for a line.
    pub(super) fn statement(&self, line: &str) -> Result<String, String> {
        if line.starts_with(".reg ") || line.starts_with(".pragma") || line.starts_with(".loc") {
            return Ok(String::new());
        }
        if let Some(label) = line.strip_suffix(':') {
            return Ok(format!("{}: ;", label_of(label)));
        }
        let (condition, line) = match line.strip_prefix('@') {
            None => (None, line),
            Some(guarded) => {
                let (guard, line) = guarded.split_once(' ').ok_or("a guard of nothing")?;
                let (not, register) =
                    guard.strip_prefix('!').map_or(("", guard), |register| ("!", register));
                (Some(format!("if ({not}{})", self.register(register)?.0)), line)
            }
        };
        let (name, operands) = line.split_once(' ').unwrap_or((line, ""));
        let code = self.instruction(name, &operands_of(operands))?;
        Ok(condition.map_or(code.clone(), |condition| format!("{condition} {{ {code} }}")))
    }

    fn instruction(&self, name: &str, operands: &[&str]) -> Result<String, String> {
        let parts: Vec<&str> = name.split('.').collect();
        let kinds: Vec<&str> =
            parts.iter().copied().filter(|part| bytes_of(part).is_some()).collect();
        let kind = kinds.last().copied();
        let has = |part: &str| parts.contains(&part);
        let operand = |at: usize| operands.get(at).copied().ok_or("an operand is missing");
        let typed = || kind.ok_or("it has no type");
        let value = |at: usize| -> Result<String, String> { self.value(operand(at)?, typed()?) };
        let assign =
            |code: &str| -> Result<String, String> { self.assign(operand(0)?, typed()?, code) };
        match parts[0] {
            "ret" | "exit" => Ok("return 0;".into()),
            "bra" => Ok(format!("goto {};", label_of(operand(0)?))),
            "ld" | "ldu" => self.load(&parts, typed()?, operand(0)?, operand(1)?),
            "st" => self.store(&parts, typed()?, operand(0)?, operand(1)?),
            "atom" | "red" => self.atomic(&parts, typed()?, operands),
            // All spaces are one here.
            "cvta" | "mov" if kind.is_some() => assign(&value(1)?),
            "mov" if has("pred") => {
                Ok(format!("{} = {};", self.register(operand(0)?)?.0, self.predicate(operand(1)?)?))
            }
            "cvt" => self.convert(&parts, &kinds, operands),
            "add" | "sub" | "and" | "or" | "xor" if has("pred") => self.logic(parts[0], operands),
            "add" => assign(&format!("({}) + ({})", value(1)?, value(2)?)),
            "sub" => assign(&format!("({}) - ({})", value(1)?, value(2)?)),
            "mul" | "mad" => {
                let third = if parts[0] == "mad" { Some(operand(2 + 1)?) } else { None };
                self.multiply(&parts, typed()?, operands, third)
            }
            "div" | "rem" if !typed()?.starts_with('f') => {
                let (a, b) = (value(1)?, value(2)?);
                // A GPU gives all bits for a division by 0; here there is a fault less.
                let sign = if parts[0] == "div" { '/' } else { '%' };
                assign(&format!("({b}) == 0 ? ({}) -1 : ({a}) {sign} ({b})", c_type(typed()?)))
            }
            "div" => assign(&format!("({}) / ({})", value(1)?, value(2)?)),
            "fma" => {
                let function = if typed()? == "f64" { "fma" } else { "fmaf" };
                assign(&format!("{function}({}, {}, {})", value(1)?, value(2)?, value(3)?))
            }
            "min" | "max" => {
                let (a, b) = (value(1)?, value(2)?);
                match typed()? {
                    "f32" => assign(&format!("f{}f({a}, {b})", parts[0])),
                    "f64" => assign(&format!("f{}({a}, {b})", parts[0])),
                    _ => {
                        let sign = if parts[0] == "min" { '<' } else { '>' };
                        assign(&format!("({a}) {sign} ({b}) ? ({a}) : ({b})"))
                    }
                }
            }
            "abs" => match typed()? {
                "f32" => assign(&format!("fabsf({})", value(1)?)),
                "f64" => assign(&format!("fabs({})", value(1)?)),
                _ => {
                    let a = value(1)?;
                    assign(&format!("({a}) < 0 ? -({a}) : ({a})"))
                }
            },
            "neg" => assign(&format!("-({})", value(1)?)),
            "not" if has("pred") => Ok(format!(
                "{} = !{};",
                self.register(operand(0)?)?.0,
                self.predicate(operand(1)?)?
            )),
            "not" => assign(&format!("~({})", value(1)?)),
            "and" => assign(&format!("({}) & ({})", value(1)?, value(2)?)),
            "or" => assign(&format!("({}) | ({})", value(1)?, value(2)?)),
            "xor" => assign(&format!("({}) ^ ({})", value(1)?, value(2)?)),
            "shl" => {
                assign(&format!("shift_left({}, {})", value(1)?, self.value(operand(2)?, "u32")?))
            }
            "shr" => {
                let signed = typed()?.starts_with('s');
                let function = if signed { "shift_signed" } else { "shift_right" };
                assign(&format!("{function}({}, {})", value(1)?, self.value(operand(2)?, "u32")?))
            }
            "sqrt" | "rcp" | "rsqrt" => {
                let a = value(1)?;
                let root = if typed()? == "f64" { "sqrt" } else { "sqrtf" };
                assign(&match parts[0] {
                    "sqrt" => format!("{root}({a})"),
                    "rcp" => format!("1 / ({a})"),
                    _ => format!("1 / {root}({a})"),
                })
            }
            "setp" => self.compare(&parts, typed()?, operands),
            "selp" => {
                let which = self.predicate(operand(3)?)?;
                assign(&format!("{which} ? ({}) : ({})", value(1)?, value(2)?))
            }
            _ => Err("this instruction is not known to the software device".into()),
        }
    }

    fn logic(&self, name: &str, operands: &[&str]) -> Result<String, String> {
        let [to, a, b] = operands else { return Err("it has not three operands".into()) };
        let sign = match name {
            "and" => '&',
            "or" => '|',
            "xor" => '^',
            _ => return Err("not of predicates".into()),
        };
        let (a, b) = (self.predicate(a)?, self.predicate(b)?);
        Ok(format!("{} = {a} {sign} {b};", self.register(to)?.0))
    }

    fn multiply(
        &self,
        parts: &[&str],
        kind: &str,
        operands: &[&str],
        third: Option<&str>,
    ) -> Result<String, String> {
        let [to, a, b, ..] = operands else { return Err("an operand is missing".into()) };
        let (a, b) = (self.value(a, kind)?, self.value(b, kind)?);
        let bits = bytes_of(kind).unwrap_or(4) * 8;
        let (result, product) = if parts.contains(&"wide") {
            let wide = format!("{}{}", &kind[..1], 2 * bits);
            let product = format!("({0})({a}) * ({0})({b})", c_type(&wide));
            (wide, product)
        } else if parts.contains(&"hi") {
            let wide = match (kind.starts_with('s'), bits) {
                (true, 64) => "__int128".to_owned(),
                (false, 64) => "unsigned __int128".to_owned(),
                _ => c_type(&format!("{}{}", &kind[..1], 2 * bits)),
            };
            (kind.to_owned(), format!("(({wide})({a}) * ({wide})({b})) >> {bits}"))
        } else if kind.starts_with('f') {
            (kind.to_owned(), format!("({a}) * ({b})"))
        } else {
            // Without a sign, so that what is beyond wraps.
            (kind.to_owned(), format!("(uint64_t)({a}) * (uint64_t)({b})"))
        };
        let code = match third {
            None => product,
            Some(third) => format!("({product}) + ({})", self.value(third, &result)?),
        };
        self.assign(to, &result, &code)
    }

    fn compare(&self, parts: &[&str], kind: &str, operands: &[&str]) -> Result<String, String> {
        let [to, a, b, rest @ ..] = operands else { return Err("an operand is missing".into()) };
        let (a, b) = (self.value(a, kind)?, self.value(b, kind)?);
        let name = parts.get(1).copied().unwrap_or_default();
        let unordered = kind.starts_with('f') && name.len() == 3 && name.ends_with('u');
        let sign = match if unordered { &name[..2] } else { name } {
            "eq" => "==",
            "ne" => "!=",
            "lt" | "lo" => "<",
            "le" | "ls" => "<=",
            "gt" | "hi" => ">",
            "ge" | "hs" => ">=",
            _ => return Err("this comparison is not known to the software device".into()),
        };
        let mut code = format!("(({a}) {sign} ({b}))");
        if kind.starts_with('f') {
            let ordered = format!("(({a}) == ({a}) && ({b}) == ({b}))");
            let (join, not) = if unordered { ("||", "!") } else { ("&&", "") };
            code = format!("({code} {join} {not}{ordered})");
        }
        if let Some(other) = rest.first() {
            let sign = match parts.get(2).copied().unwrap_or_default() {
                "and" => '&',
                "or" => '|',
                "xor" => '^',
                _ => return Err("this comparison is not known to the software device".into()),
            };
            code = format!("{code} {sign} {}", self.predicate(other)?);
        }
        let mut code = format!("{{ int found = {code}; ");
        let mut targets = to.split('|');
        for (not, target) in ["", "!"].iter().zip(targets.by_ref()) {
            let _ = write!(code, "{} = {not}found; ", self.register(target)?.0);
        }
        Ok(code + "}")
    }

    fn convert(&self, parts: &[&str], kinds: &[&str], operands: &[&str]) -> Result<String, String> {
        let ([to, from], [to_kind, from_kind]) = (operands, kinds) else {
            return Err("this conversion is not known to the software device".into());
        };
        let value = self.value(from, from_kind)?;
        let (from_float, to_float) = (from_kind.starts_with('f'), to_kind.starts_with('f'));
        let rounded = |value: &str| -> Result<String, String> {
            let function = match parts.iter().find(|part| part.ends_with('i') && part.len() == 3) {
                None => return Ok(value.to_owned()),
                Some(&"rzi") => "trunc",
                Some(&"rni") => "nearbyint",
                Some(&"rmi") => "floor",
                Some(&"rpi") => "ceil",
                Some(_) => return Err("this rounding is not known to the software device".into()),
            };
            Ok(format!("{function}({value})"))
        };
        let code = match (from_float, to_float) {
            (false, _) => value,
            (true, true) => rounded(&value)?,
            (true, false) => {
                let value = rounded(&format!("(double)({value})"))?;
                let bits = 8 * bytes_of(to_kind).unwrap_or(4) as u32;
                match (to_kind.starts_with('s'), bits) {
                    (true, 64) => format!("clamped_s64({value})"),
                    (false, 64) => format!("clamped_u64({value})"),
                    (true, _) => {
                        let most = (1_u64 << (bits - 1)) as f64;
                        format!("clamped({value}, {:.1}, {:.1})", -most, most - 1.0)
                    }
                    (false, _) => {
                        format!("clamped({value}, 0.0, {:.1})", (1_u64 << bits) as f64 - 1.0)
                    }
                }
            }
        };
        if parts.contains(&"sat") {
            return Err("this conversion is not known to the software device".into());
        }
        self.assign(to, to_kind, &code)
    }

    fn load(&self, parts: &[&str], kind: &str, to: &str, from: &str) -> Result<String, String> {
        let size = bytes_of(kind).unwrap_or(4);
        let targets: Vec<&str> = elements(to);
        let all = size * targets.len();
        let (source, check) = self.place(parts, from, all, false)?;
        let mut code = format!("{{ const unsigned char *from = {source};{check} ");
        for (index, target) in targets.iter().enumerate() {
            let read = format!("loaded{index}");
            let _ = write!(
                code,
                "{0} {read}; memcpy(&{read}, from + {1}, {size}); ",
                c_type(kind),
                index * size
            );
            code += &self.assign(target, kind, &read)?;
        }
        Ok(code + " }")
    }

    fn store(&self, parts: &[&str], kind: &str, to: &str, from: &str) -> Result<String, String> {
        let size = bytes_of(kind).unwrap_or(4);
        let values: Vec<&str> = elements(from);
        let (target, check) = self.place(parts, to, size * values.len(), true)?;
        let mut code = format!("{{ unsigned char *to = {target};{check} ");
        for (index, value) in values.iter().enumerate() {
            let _ = write!(
                code,
                "{{ {0} stored = {1}; memcpy(to + {2}, &stored, {size}); }} ",
                c_type(kind),
                self.value(value, kind)?,
                index * size
            );
        }
        Ok(code + "}")
    }

    /// Threads run one after the other, so nothing has to be atomic.
    fn atomic(&self, parts: &[&str], kind: &str, operands: &[&str]) -> Result<String, String> {
        let returns = parts[0] == "atom";
        let (to, operands) = if returns {
            let [to, rest @ ..] = operands else { return Err("an operand is missing".into()) };
            (Some(*to), rest)
        } else {
            (None, operands)
        };
        let [address, a, rest @ ..] = operands else { return Err("an operand is missing".into()) };
        let size = bytes_of(kind).unwrap_or(4);
        let (place, check) = self.place(parts, address, size, true)?;
        let a = self.value(a, kind)?;
        let operation = parts
            .iter()
            .find(|part| ["add", "min", "max", "exch", "cas", "and", "or", "xor"].contains(part));
        let new = match operation.copied() {
            Some("add") => format!("old + ({a})"),
            Some("min") => format!("old < ({a}) ? old : ({a})"),
            Some("max") => format!("old > ({a}) ? old : ({a})"),
            Some("and") => format!("old & ({a})"),
            Some("or") => format!("old | ({a})"),
            Some("xor") => format!("old ^ ({a})"),
            Some("exch") => a,
            Some("cas") => {
                let b = rest.first().ok_or("an operand is missing")?;
                format!("old == ({a}) ? ({}) : old", self.value(b, kind)?)
            }
            _ => return Err("this instruction is not known to the software device".into()),
        };
        let kept = to.map_or(Ok(String::new()), |to| self.assign(to, kind, "old"))?;
        Ok(format!(
            "{{ unsigned char *to = {place};{check} {0} old, changed; memcpy(&old, to, {size}); \
             changed = {new}; memcpy(to, &changed, {size}); {kept} }}",
            c_type(kind)
        ))
    }

    /// Where the bytes behind an operand in brackets are, and what is to be done if they are nowhere.
    fn place(
        &self,
        parts: &[&str],
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
        let spaces = ["shared", "local"];
        if let Some(space) = spaces.iter().find(|space| parts.contains(*space)) {
            return Err(format!("the software device has no .{space} memory"));
        }
        if parts.contains(&"param") {
            let index = self.entry.params.iter().position(|param| param.name == base);
            let index = index.ok_or("this parameter is not known")?;
            return Ok((format!("(unsigned char *)params[{index}] + {offset}"), ""));
        }
        if self.module.variables.iter().any(|variable| variable.name == base) {
            return Ok((format!("g_{base} + {offset}"), ""));
        }
        let address = self.value(base, "u64")?;
        let place = format!("at(run, ({address}) + {offset}ULL, {bytes}, {})", i32::from(writes));
        Ok((place, if writes { " if (!to) return 1;" } else { " if (!from) return 1;" }))
    }

    /// A register's name in C, and its type.
    fn register(&self, name: &str) -> Result<(String, &str), String> {
        let name = name.trim();
        let digits = name.trim_end_matches(|c: char| c.is_ascii_digit());
        let (kind, count) =
            self.classes.get(digits).ok_or_else(|| format!("{name}: no such register"))?;
        let number = &name[digits.len()..];
        if number.parse::<usize>().is_ok_and(|number| number < *count) {
            return Ok((format!("r_{}{number}", digits.trim_start_matches('%')), kind));
        }
        Err(format!("{name}: no such register"))
    }

    fn predicate(&self, operand: &str) -> Result<String, String> {
        let (not, name) = operand.strip_prefix('!').map_or(("", operand), |name| ("!", name));
        match self.register(name)? {
            (register, "pred") => Ok(format!("{not}{register}")),
            _ => Err(format!("{name} is no predicate")),
        }
    }

    /// An operand, read as a type.
    fn value(&self, operand: &str, kind: &str) -> Result<String, String> {
        let operand = operand.trim();
        if let Some(special) = special(operand) {
            return Ok(special);
        }
        if operand.starts_with('%') {
            let (register, class) = self.register(operand)?;
            return Ok(match (class.starts_with('f'), kind.starts_with('f'), bytes_of(kind)) {
                (true, false, Some(4)) => format!("bits_of_f32({register})"),
                (true, false, _) => format!("bits_of_f64({register})"),
                (false, true, Some(4)) => format!("f32_of({register})"),
                (false, true, _) => format!("f64_of({register})"),
                _ => format!("({}){register}", c_type(kind)),
            });
        }
        if let Some(bits) = operand.strip_prefix("0f").or(operand.strip_prefix("0F")) {
            let code = format!("0x{bits}u");
            return Ok(if kind.starts_with('f') { format!("f32_of({code})") } else { code });
        }
        if let Some(bits) = operand.strip_prefix("0d").or(operand.strip_prefix("0D")) {
            let code = format!("0x{bits}ull");
            return Ok(if kind.starts_with('f') { format!("f64_of({code})") } else { code });
        }
        if let Some(number) = integer(operand) {
            return Ok(format!("({}){number}ull", c_type(kind)));
        }
        Err(format!("{operand}: not known"))
    }

    /// Gives a register a value of a type.
    fn assign(&self, to: &str, kind: &str, code: &str) -> Result<String, String> {
        if to.trim() == "_" {
            return Ok(String::new());
        }
        let (register, class) = self.register(to)?;
        // First to the instruction's type: that cuts, or extends the sign.
        let value = format!("({})({code})", c_type(kind));
        let value = match (class.starts_with('f'), kind.starts_with('f'), bytes_of(kind)) {
            (true, false, Some(4)) => format!("f32_of({value})"),
            (true, false, _) => format!("f64_of({value})"),
            (false, true, Some(4)) => format!("bits_of_f32({value})"),
            (false, true, _) => format!("bits_of_f64({value})"),
            _ => value,
        };
        Ok(format!("{register} = {value};"))
    }
}

/// `%tid.x` and its like.
fn special(operand: &str) -> Option<String> {
    let (name, side) = operand.strip_prefix('%')?.split_once('.')?;
    let side = ["x", "y", "z"].iter().position(|known| *known == side)?;
    ["tid", "ntid", "ctaid", "nctaid"].contains(&name).then(|| format!("place->{name}[{side}]"))
}

/// Operands, which commas part: none of those within braces or brackets.
fn operands_of(text: &str) -> Vec<&str> {
    let (mut operands, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, character) in text.char_indices() {
        match character {
            '{' | '[' => depth += 1,
            '}' | ']' => depth -= 1,
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
fn elements(operand: &str) -> Vec<&str> {
    let operand = operand.trim();
    match operand.strip_prefix('{').and_then(|inner| inner.strip_suffix('}')) {
        Some(inner) => inner.split(',').map(str::trim).collect(),
        None => vec![operand],
    }
}

fn label_of(label: &str) -> String {
    format!("l{}", label.trim().replace(['$', '%', '.'], "_"))
}

/// A type in C: bits have no sign.
fn c_type(kind: &str) -> String {
    match (&kind[..1], &kind[1..]) {
        ("f", "64") => "double".into(),
        ("f", _) => "float".into(),
        ("s", bits) => format!("int{bits}_t"),
        (_, bits) => format!("uint{bits}_t"),
    }
}

/// What a class of registers is in C.
fn c_class(kind: &str) -> String {
    match kind {
        "pred" => "int".into(),
        // A sign is a matter of the instructions.
        _ if kind.starts_with('s') => c_type(&kind.replace('s', "u")),
        _ => c_type(kind),
    }
}
