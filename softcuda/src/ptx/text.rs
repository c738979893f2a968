//! The text of a PTX module: its variables and kernels, and the lines of these.

/// A module.
#[derive(Debug, Default)]
pub(super) struct Module {
    pub(super) variables: Vec<Variable>,
    pub(super) entries: Vec<Entry>,
}

/// A variable in constant or global memory.
#[derive(Debug)]
pub(super) struct Variable {
    pub(super) name: String,
    pub(super) size: usize,
    pub(super) bytes: Vec<u8>,
}

/// A kernel.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) params: Vec<Param>,
    /// Instructions, declarations of registers and labels, without `;`.
    pub(super) lines: Vec<String>,
}

/// A kernel's parameter.
#[derive(Debug)]
pub(super) struct Param {
    pub(super) name: String,
    pub(super) size: usize,
}

impl Module {
    /// Reads a module.
    pub(super) fn parse(ptx: &str) -> Result<Module, String> {
        let text = without_comments(ptx);
        let mut module = Module::default();
        let mut rest = text.as_str();
        loop {
            rest = rest.trim_start();
            if rest.is_empty() {
                return Ok(module);
            }
            let words = rest.find(['(', ';', '=', '\n']).map_or(rest, |end| &rest[..end]);
            if words.split_whitespace().any(|word| word == ".entry") {
                rest = module.entry(rest)?;
            } else if [".version", ".target", ".address_size", ".file"]
                .iter()
                .any(|word| rest.starts_with(word))
            {
                rest = rest.find('\n').map_or("", |end| &rest[end..]);
            } else if words.split_whitespace().any(|word| word == ".const" || word == ".global") {
                let end = rest.find(';').ok_or("a variable without an end")?;
                let variable = variable(&rest[..end])?;
                module.variables.push(variable);
                rest = &rest[end + 1..];
            } else {
                return Err(format!("not known: {}", rest.lines().next().unwrap_or_default()));
            }
        }
    }

    /// Reads a kernel. What comes behind it.
    fn entry<'a>(&mut self, text: &'a str) -> Result<&'a str, String> {
        let missing = || "a kernel without an end".to_owned();
        let open = text.find('(').ok_or_else(missing)?;
        let name = text[..open].split_whitespace().last().ok_or_else(missing)?.to_owned();
        let close = text.find(')').ok_or_else(missing)?;
        let params = text[open + 1..close]
            .split(',')
            .map(str::trim)
            .filter(|param| !param.is_empty())
            .map(param)
            .collect::<Result<_, _>>()?;
        let body = close + text[close..].find('{').ok_or_else(missing)?;
        let end = end_of_body(&text[body..]).ok_or_else(missing)? + body;
        let lines = lines_of(&text[body + 1..end]);
        self.entries.push(Entry { name, params, lines });
        Ok(&text[end + 1..])
    }
}

/// Where a body that begins with a brace ends: vectors have braces, too.
fn end_of_body(text: &str) -> Option<usize> {
    let mut depth = 0;
    text.char_indices().find_map(|(at, character)| {
        depth += match character {
            '{' => 1,
            '}' => -1,
            _ => 0,
        };
        (depth == 0).then_some(at)
    })
}

fn lines_of(body: &str) -> Vec<String> {
    let mut lines = Vec::new();
    for part in body.split(';') {
        let mut part = part.trim();
        // A label ends with a colon, and stands before an instruction.
        while let Some((label, behind)) = part.split_once(':') {
            if label.contains(char::is_whitespace) {
                break;
            }
            lines.push(format!("{label}:"));
            part = behind.trim();
        }
        if !part.is_empty() {
            lines.push(part.split_whitespace().collect::<Vec<_>>().join(" "));
        }
    }
    lines
}

fn without_comments(ptx: &str) -> String {
    let mut out = String::new();
    let mut rest = ptx;
    while let Some(start) = rest.find("/*") {
        out.push_str(&rest[..start]);
        rest = rest[start..].find("*/").map_or("", |end| &rest[start + end + 2..]);
    }
    out.push_str(rest);
    let lines = out.lines().map(|line| line.split("//").next().unwrap_or_default());
    lines.collect::<Vec<_>>().join("\n")
}

/// `.param .u64 name`, or `.param .align 8 .b8 name[24]`.
fn param(text: &str) -> Result<Param, String> {
    let (name, size, _) = declared(text)?;
    Ok(Param { name, size })
}

/// `.const .align 4 .b8 NAME[20] = {1, 2, ...}`.
fn variable(text: &str) -> Result<Variable, String> {
    let (declaration, values) = text.split_once('=').unwrap_or((text, ""));
    let (name, size, width) = declared(declaration)?;
    let values = values.trim().trim_start_matches('{').trim_end_matches('}');
    let mut bytes = Vec::new();
    for value in values.split(',').map(str::trim).filter(|value| !value.is_empty()) {
        let value = integer(value).ok_or_else(|| format!("{name}: not a number: {value}"))?;
        bytes.extend_from_slice(&value.to_le_bytes()[..width.min(8)]);
    }
    Ok(Variable { name, size, bytes })
}

/// A declaration's name, its bytes in all, and those of an element.
fn declared(text: &str) -> Result<(String, usize, usize), String> {
    let not_known = || format!("not known: {text}");
    let mut width = None;
    for word in text.split_whitespace().filter(|word| word.starts_with('.')) {
        width = bytes_of(&word[1..]).or(width);
    }
    let last = text.split_whitespace().last().ok_or_else(not_known)?;
    let width = width.ok_or_else(not_known)?;
    match last.split_once('[') {
        None => Ok((last.to_owned(), width, width)),
        Some((name, count)) => {
            let count: usize = count.trim_end_matches(']').parse().map_err(|_| not_known())?;
            Ok((name.to_owned(), count * width, width))
        }
    }
}

/// Bytes of a type, as `u32`.
pub(super) fn bytes_of(kind: &str) -> Option<usize> {
    let bits: usize = kind.get(1..)?.parse().ok()?;
    (matches!(kind.as_bytes()[0], b'u' | b's' | b'b' | b'f') && [8, 16, 32, 64].contains(&bits))
        .then_some(bits / 8)
}

/// A whole number as PTX writes it.
pub(super) fn integer(text: &str) -> Option<u64> {
    let (negative, digits) = text.strip_prefix('-').map_or((false, text), |digits| (true, digits));
    let digits = digits.trim_end_matches('U');
    let value = match digits.strip_prefix("0x").or(digits.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16).ok()?,
        None => digits.parse().ok()?,
    };
    Some(if negative { value.wrapping_neg() } else { value })
}
