//! The names of a function: its registers, labels and bytes, and how operands are read and written in C.

use std::collections::{HashMap, HashSet};

use super::shared;
use super::text::{bytes_of, declared, integer, PtxFunction, PtxModule};

/// The names that a function may use, and what it calls.
pub(super) struct FunctionScope<'a> {
    pub(super) module: &'a PtxModule,
    pub(super) function: &'a PtxFunction,
    /// The innermost block's names come last.
    blocks: Vec<BlockNames>,
    labels: HashSet<String>,
    pub(super) calls: Vec<String>,
    /// The registers of all blocks: type and name in C.
    pub(super) registers: Vec<(String, String)>,
    /// Bytes of local memory.
    pub(super) local: usize,
    /// How many barriers it has.
    pub(super) barriers: usize,
    /// How many threads its barriers are for, where they say so.
    pub(super) threads: Option<u64>,
}

/// The names of a block.
#[derive(Default)]
struct BlockNames {
    /// What its names in C begin with.
    prefix: String,
    /// A class of registers by its prefix, as `%rd`: its type, and how many there are.
    classes: HashMap<String, (String, usize)>,
    /// The type of a register outside the classes.
    registers: HashMap<String, String>,
    /// Local memory, and parameters of calls, by the address in C.
    bytes: HashMap<String, String>,
    /// Whether parameters of calls are among them.
    has_params: bool,
}

impl<'a> FunctionScope<'a> {
    pub(super) fn new(module: &'a PtxModule, function: &'a PtxFunction) -> FunctionScope<'a> {
        let mut scope = FunctionScope {
            module,
            function,
            blocks: Vec::new(),
            labels: HashSet::new(),
            calls: Vec::new(),
            registers: vec![("unsigned".into(), "carry".into())],
            local: 0,
            barriers: 0,
            threads: None,
        };
        scope.brace("{");
        scope
    }

    /// A brace around a block.
    pub(super) fn brace(&mut self, brace: &str) {
        if brace == "{" {
            // Registers of different blocks have different names in C: all are declared in one place.
            let prefix = format!("n{}", self.registers.len());
            self.blocks.push(BlockNames { prefix, ..BlockNames::default() });
        } else {
            self.blocks.pop();
        }
    }

    /// A label that can be jumped to.
    pub(super) fn label(&mut self, label: &str) -> Result<String, String> {
        if !self.labels.insert(label.to_owned()) {
            return Err("this label is there twice".into());
        }
        Ok(format!("{}: ;", label_of(label)))
    }

    fn block(&mut self) -> Result<&mut BlockNames, String> {
        self.blocks.last_mut().ok_or_else(|| "a brace too many".to_owned())
    }

    /// `.reg .b32 %r<5>`, `.reg .b64 %SP`, `.reg .u32 a, b`.
    pub(super) fn declare_registers(&mut self, text: &str) -> Result<String, String> {
        let (kind, names) = text.split_once(' ').ok_or("not known")?;
        let kind = kind.trim_start_matches('.');
        if kind != "pred" && bytes_of(kind).is_none() {
            // Such registers can be declared; no instruction supports them.
            return Ok(String::new());
        }
        for name in names.split(',').map(str::trim) {
            let block = self.blocks.last_mut().ok_or("a brace too many")?;
            let mut all = vec![name.to_owned()];
            if let Some((prefix, count)) = name.split_once('<') {
                let count = count.trim_end_matches('>').parse().map_err(|_| "not known")?;
                all = (0..count).map(|number| format!("{prefix}{number}")).collect();
                block.classes.insert(prefix.to_owned(), (kind.to_owned(), count));
            } else {
                block.registers.insert(name.to_owned(), kind.to_owned());
            }
            let all = all.iter().map(|name| (c_class(kind), block.c_name(name)));
            self.registers.extend(all);
        }
        Ok(String::new())
    }

    /// `.local .align 4 .b8 NAME[28]`, and `.param .b32 NAME` in front of a call.
    pub(super) fn declare_bytes(&mut self, text: &str) -> Result<String, String> {
        let (name, size, _) = declared(text)?;
        let mut code = String::new();
        let is_local = text.starts_with(".local");
        let address = if is_local {
            let start = self.local.next_multiple_of(64);
            self.local = start.saturating_add(size.min(1 << 30));
            format!("(local + {start})")
        } else {
            let c = c_name(&name);
            code = format!("unsigned char {c}[{}] __attribute__((aligned(16)));", size.max(1));
            c
        };
        let block = self.block()?;
        block.has_params |= !is_local;
        block.bytes.insert(name, address);
        Ok(code)
    }

    /// A place where the thread waits until all have come there.
    pub(super) fn barrier(&mut self) -> Result<String, String> {
        if !self.function.is_kernel {
            return Err("only a kernel itself, not a function it calls, can have a barrier".into());
        }
        if self.blocks.iter().any(|block| block.has_params) {
            return Err("a barrier between the parameters of a call and the call".into());
        }
        self.barriers += 1;
        let number = self.barriers;
        Ok(format!("kept->kept.at = {number}; goto waits; at_{number}: ;"))
    }

    /// Where the bytes of this name are.
    pub(super) fn bytes(&self, name: &str) -> Option<String> {
        if let Some(found) = self.blocks.iter().rev().find_map(|block| block.bytes.get(name)) {
            return Some(found.clone());
        }
        let found = self.module.variables.iter().any(|variable| variable.name == name);
        found.then(|| format!("variables.{}", c_name(name)))
    }

    /// A register's name in C, and its type.
    pub(super) fn register(&self, name: &str) -> Result<(String, &str), String> {
        let name = name.trim();
        let prefix = name.trim_end_matches(|c: char| c.is_ascii_digit());
        let number = name[prefix.len()..].parse::<usize>();
        let found = self.blocks.iter().rev().find_map(|block| {
            let class = block.classes.get(prefix);
            let class = class.filter(|(_, count)| number.as_ref().is_ok_and(|at| at < count));
            let kind = block.registers.get(name).or(class.map(|(kind, _)| kind))?;
            Some((block.c_name(name), kind.as_str()))
        });
        found.ok_or_else(|| format!("{name}: no such register"))
    }

    pub(super) fn predicate(&self, operand: &str) -> Result<String, String> {
        let (not, name) = operand.strip_prefix('!').map_or(("", operand), |name| ("!", name));
        if let Some(number) = integer(name) {
            return Ok(format!("{not}{}", i32::from(number != 0)));
        }
        match self.register(name)? {
            (register, "pred") => Ok(format!("{not}{register}")),
            _ => Err(format!("{name} is no predicate")),
        }
    }

    /// An operand, read as a type.
    pub(super) fn value(&self, operand: &str, kind: &str) -> Result<String, String> {
        let operand = operand.trim();
        if let Some(special) = special(operand) {
            return Ok(special);
        }
        if let Ok((register, class)) = self.register(operand) {
            return Ok(match (class.starts_with('f'), kind.starts_with('f'), bytes_of(kind)) {
                (true, false, Some(4)) => format!("bits_of_f32({register})"),
                (true, false, _) => format!("bits_of_f64({register})"),
                (false, true, Some(4)) => format!("f32_of({register})"),
                (false, true, _) => format!("f64_of({register})"),
                _ => format!("({}){register}", c_type(kind)),
            });
        }
        if operand.starts_with('%') {
            return Err(format!("{operand}: no such register"));
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
        if let Some(number) = shared::find(self.module, self.function, operand) {
            return Ok(format!("({})run->shared_at[{number}]", c_type(kind)));
        }
        if let Some(bytes) = self.bytes(operand) {
            return Ok(format!("({})(uintptr_t)({bytes})", c_type(kind)));
        }
        if let Some((name, offset)) = operand.split_once('+') {
            let offset = integer(offset.trim()).ok_or("an offset is no number")?;
            return Ok(format!("({}) + {offset}ull", self.value(name, kind)?));
        }
        let refused = self.module.refused.iter().find(|(name, _)| name == operand);
        Err(refused.map_or(format!("{operand}: not known"), |(_, why)| why.clone()))
    }

    /// Gives a register a value of a type.
    pub(super) fn assign(&self, to: &str, kind: &str, code: &str) -> Result<String, String> {
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

impl BlockNames {
    /// A register's name in C.
    fn c_name(&self, name: &str) -> String {
        format!("{}_{}", self.prefix, name.replace('%', "_"))
    }
}

/// `%tid.x` and its like.
fn special(operand: &str) -> Option<String> {
    let (name, side) = operand.strip_prefix('%')?.split_once('.')?;
    let side = ["x", "y", "z"].iter().position(|known| *known == side)?;
    ["tid", "ntid", "ctaid", "nctaid"].contains(&name).then(|| format!("place->{name}[{side}]"))
}

/// A name that is no keyword of C.
pub(super) fn c_name(name: &str) -> String {
    format!("n_{}", name.trim().replace('%', "_"))
}

pub(super) fn label_of(label: &str) -> String {
    format!("l{}", label.trim().replace(['$', '%', '.'], "_"))
}

/// A type in C: bits have no sign.
pub(super) fn c_type(kind: &str) -> String {
    match (&kind[..1], &kind[1..]) {
        ("f", "64") => "double".into(),
        ("f", _) => "float".into(),
        ("s", bits) => format!("int{bits}_t"),
        (_, bits) => format!("uint{bits}_t"),
    }
}

/// The type in C of a class of registers.
fn c_class(kind: &str) -> String {
    match kind {
        "pred" => "int".into(),
        // Signedness is a matter of the instructions.
        _ if kind.starts_with('s') => c_type(&kind.replace('s', "u")),
        _ => c_type(kind),
    }
}
