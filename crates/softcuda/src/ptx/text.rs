//! The text of a PTX module: its variables and functions, and the lines of these.

use crate::kernels::SHARED_MEMORY;

/// A module.
#[derive(Debug, Default)]
pub(super) struct PtxModule {
    pub(super) variables: Vec<Variable>,
    /// The variables in shared memory, those of functions among them.
    pub(super) shared: Vec<SharedVariable>,
    pub(super) functions: Vec<PtxFunction>,
    /// Parts that cannot be translated: the name or the first line of each, and why. Only their
    /// users are refused.
    pub(super) refused: Vec<(String, String)>,
}

/// A variable in constant or global memory.
#[derive(Debug)]
pub(super) struct Variable {
    pub(super) name: String,
    pub(super) size: usize,
    pub(super) bytes: Vec<u8>,
}

/// A variable in shared memory.
#[derive(Debug)]
pub(super) struct SharedVariable {
    pub(super) name: String,
    /// Bytes; of the variables whose size a launch decides, none.
    pub(super) size: Option<usize>,
    pub(super) align: usize,
    /// The function that alone knows it.
    pub(super) owner: Option<String>,
}

/// A kernel, or a function that kernels call.
#[derive(Debug)]
pub(super) struct PtxFunction {
    pub(super) name: String,
    pub(super) is_kernel: bool,
    /// The parameters, after the variable that the function returns.
    pub(super) params: Vec<Param>,
    /// Instructions, declarations, labels and the braces of blocks, without `;`.
    pub(super) lines: Vec<String>,
}

/// A parameter.
#[derive(Debug)]
pub(super) struct Param {
    pub(super) name: String,
    pub(super) size: usize,
}

impl PtxModule {
    /// Reads a module.
    pub(super) fn parse(ptx: &str) -> Result<PtxModule, String> {
        let text = without_comments(ptx);
        let mut module = PtxModule::default();
        let mut rest = text.as_str();
        loop {
            rest = rest.trim_start();
            if rest.is_empty() {
                return Ok(module);
            }
            let words = rest.find(['(', ';', '=', '\n']).map_or(rest, |end| &rest[..end]);
            let has = |word: &str| words.split_whitespace().any(|found| found == word);
            if has(".entry") || has(".func") {
                rest = module.function(rest, has(".entry"))?;
            } else if [".version", ".target", ".address_size"].iter().any(|word| has(word)) {
                rest = rest.find('\n').map_or("", |end| &rest[end..]);
            } else if has(".section") {
                let open = rest.find('{').ok_or("a section without an end")?;
                let end = end_of_body(&rest[open..]).ok_or("a section without an end")?;
                rest = &rest[open + end + 1..];
            } else {
                let end = rest.find(';').ok_or_else(|| format!("not known: {words}"))?;
                module.declaration(&rest[..end], None, &has);
                rest = &rest[end + 1..];
            }
        }
    }

    fn declaration(&mut self, text: &str, owner: Option<&str>, has: &impl Fn(&str) -> bool) {
        let added = if has(".shared") {
            shared(text, owner).map(|variable| self.shared.push(variable))
        } else if has(".const") || has(".global") {
            variable(text).map(|variable| self.variables.push(variable))
        } else {
            Err(format!("not known: `{}`", text.lines().next().unwrap_or_default()))
        };
        let Err(why) = added else { return };
        let declaration = text.split('=').next().unwrap_or_default();
        let name = declaration.split_whitespace().last().unwrap_or_default();
        let name = name.split('[').next().unwrap_or_default();
        self.refused.push((name.to_owned(), why));
    }

    /// Reads a kernel or a function; returns the text behind it.
    fn function<'a>(&mut self, text: &'a str, is_kernel: bool) -> Result<&'a str, String> {
        let missing = || "a function without an end".to_owned();
        // `.entry NAME (PARAMETERS) {`, `.func (RETURNED) NAME (PARAMETERS) {`; each list may be missing.
        let end = text.find(['{', ';']).ok_or_else(missing)?;
        let mut lists = Vec::new();
        let mut name = None;
        let mut head = &text[..end];
        while let Some(open) = head.find('(') {
            let close = head.find(')').ok_or_else(missing)?;
            name = name.or(name_in(&head[..open]));
            lists.push(&head[open + 1..close]);
            head = &head[close + 1..];
        }
        let name = name.or(name_in(head)).ok_or_else(missing)?.to_owned();
        if text[end..].starts_with(';') {
            // The function is defined later, or calls of it find nothing.
            return Ok(&text[end + 1..]);
        }
        let behind = end_of_body(&text[end..]).ok_or_else(missing)? + end;
        let params = lists.iter().flat_map(|list| list.split(',')).map(str::trim);
        match params.filter(|param| !param.is_empty()).map(param).collect() {
            Ok(params) => {
                let lines = lines_of(&text[end + 1..behind]).into_iter();
                let (shared, lines): (Vec<_>, _) =
                    lines.partition(|line| line.split_whitespace().next() == Some(".shared"));
                for line in &shared {
                    self.declaration(line, Some(&name), &|word| word == ".shared");
                }
                self.functions.push(PtxFunction { name, is_kernel, params, lines });
            }
            Err(why) => self.refused.push((name, why)),
        }
        Ok(&text[behind + 1..])
    }
}

/// The name among the directives before a list of parameters.
fn name_in(text: &str) -> Option<&str> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let keyword = words.iter().position(|word| [".entry", ".func"].contains(word));
    words.get(keyword.map_or(0, |at| at + 1)).copied().filter(|word| !word.starts_with('.'))
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
        // Labels, which end with a colon, and the braces of blocks stand before an instruction.
        loop {
            if let Some(brace) = part.get(..1).filter(|brace| ["{", "}"].contains(brace)) {
                lines.push(brace.to_owned());
                part = part[1..].trim();
                continue;
            }
            match part.split_once(':') {
                Some((label, behind))
                    if !label.contains(char::is_whitespace) && !behind.starts_with(':') =>
                {
                    lines.push(format!("{label}:"));
                    part = behind.trim();
                }
                _ => break,
            }
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
    // Lines of the source, which end without `;`.
    let lines = lines.filter(|line| {
        !line.split_whitespace().next().is_some_and(|word| [".loc", ".file"].contains(&word))
    });
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

/// `.shared .align 4 .b8 NAME[544]`, or, with the size left to the launch, `.extern .shared .align 16 .b8 NAME[]`.
fn shared(text: &str, owner: Option<&str>) -> Result<SharedVariable, String> {
    let dynamic = text.strip_suffix("[]");
    let (name, size, width) = declared(dynamic.unwrap_or(text))?;
    let mut words = text.split_whitespace();
    let align =
        words.find(|word| *word == ".align").and_then(|_| words.next()?.parse::<u16>().ok());
    let align = align.map_or(width, usize::from).max(1);
    if size > SHARED_MEMORY {
        return Err(format!("a block has {SHARED_MEMORY} bytes of .shared memory, not {size}"));
    }
    Ok(SharedVariable {
        name,
        size: dynamic.is_none().then_some(size),
        align,
        owner: owner.map(str::to_owned),
    })
}

/// A declaration's name, its bytes in all, and those of an element.
pub(super) fn declared(text: &str) -> Result<(String, usize, usize), String> {
    let not_known = || format!("not known: {text}");
    let mut width = None;
    for word in text.split_whitespace().filter(|word| word.starts_with('.')) {
        if [".v2", ".v4"].contains(&word) {
            return Err(not_known());
        }
        width = bytes_of(&word[1..]).or(width);
    }
    let last = text.split_whitespace().last().ok_or_else(not_known)?;
    let width = width.ok_or_else(not_known)?;
    match last.split_once('[') {
        None => Ok((last.to_owned(), width, width)),
        Some((name, count)) => {
            let count: usize = count.trim_end_matches(']').parse().map_err(|_| not_known())?;
            Ok((name.to_owned(), count.checked_mul(width).ok_or_else(not_known)?, width))
        }
    }
}

/// Bytes of a type, as `u32`.
pub(super) fn bytes_of(kind: &str) -> Option<usize> {
    let bits: usize = kind.get(1..)?.parse().ok()?;
    let least = if kind.starts_with('f') { 32 } else { 8 };
    let known = matches!(kind.as_bytes()[0], b'u' | b's' | b'b' | b'f');
    (known && [8, 16, 32, 64].contains(&bits) && bits >= least).then_some(bits / 8)
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
