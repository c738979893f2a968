//! Man pages of the C functions, from the comments in the headers.

use roff::{bold, italic, roman, Roff};

/// The headers, and what a program includes for them.
const HEADERS: [(&str, &str); 4] = [
    ("veloc.h", include_str!("../../../include/veloc.h")),
    ("veloc/adjoint.h", include_str!("../../../include/veloc/adjoint.h")),
    ("veloc/metrics.h", include_str!("../../../include/veloc/metrics.h")),
    ("veloc/pmem.h", include_str!("../../../include/veloc/pmem.h")),
];

/// A function: its name, its comment without stars, its declaration, and its header.
#[derive(Debug)]
struct Function<'a> {
    name: &'a str,
    comment: String,
    declaration: String,
    header: &'a str,
}

/// The pages, each with the function's name.
pub(crate) fn pages() -> Vec<(String, String)> {
    let functions = HEADERS.iter().flat_map(|(header, text)| functions(header, text));
    functions.map(|function| (function.name.to_owned(), page(&function))).collect()
}

/// The functions that a header declares behind a comment.
fn functions<'a>(header: &'a str, text: &'a str) -> Vec<Function<'a>> {
    let mut found = Vec::new();
    for part in text.split("/**\n").skip(1) {
        let Some((comment, behind)) = part.split_once("*/\n") else { continue };
        let Some((declaration, _)) = behind.split_once(';') else { continue };
        let before = declaration.split('(').next().unwrap_or_default();
        let name = before.split([' ', '*']).next_back().unwrap_or_default();
        // A type, a constant or a member has no such name before a parenthesis.
        if name.len() == before.len() || !name.starts_with("VELOC_") || before.contains(['{', '#'])
        {
            continue;
        }
        let lines = comment.lines().map(|line| line.trim_start().trim_start_matches('*'));
        let comment = lines.map(|line| line.strip_prefix(' ').unwrap_or(line));
        found.push(Function {
            name,
            comment: comment.collect::<Vec<_>>().join("\n").trim().to_owned(),
            declaration: declaration.split_whitespace().collect::<Vec<_>>().join(" ") + ";",
            header,
        });
    }
    found
}

/// A man page in section 3.
fn page(function: &Function<'_>) -> String {
    let (text, tags) = match function.comment.split_once("\n@") {
        Some((text, tags)) => (text, tags),
        None => (&*function.comment, ""),
    };
    let (first, rest) = text.split_once("\n\n").unwrap_or((text, ""));
    let brief = first.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut page = Roff::new();
    page.control("TH", [function.name, "3", "", concat!("veloc ", env!("CARGO_PKG_VERSION"))]);
    page.control("SH", ["NAME"]);
    page.text([roman(format!("{} - {}", function.name, brief.trim_end_matches('.')))]);
    page.control("SH", ["SYNOPSIS"]);
    page.text([bold(format!("#include <{}>", function.header))]);
    page.control("PP", []);
    page.text([bold(&*function.declaration)]);
    if !rest.is_empty() {
        page.control("SH", ["DESCRIPTION"]);
        paragraphs(&mut page, rest);
    }
    let mut section = "";
    for tag in tags.split("\n@").filter(|tag| !tag.is_empty()) {
        let (kind, said) = tag.split_once(' ').unwrap_or((tag, ""));
        let heading = match kind {
            "param" => "ARGUMENTS",
            "return" => "RETURN VALUE",
            _ => "REQUIRES",
        };
        if heading != section {
            page.control("SH", [heading]);
            section = heading;
        }
        match said.trim_start().split_once(' ').filter(|_| kind == "param") {
            Some((argument, said)) => {
                page.control("TP", []);
                page.text([italic(argument)]);
                paragraphs(&mut page, said);
            }
            None => paragraphs(&mut page, said),
        }
    }
    page.render()
}

fn paragraphs(page: &mut Roff, text: &str) {
    for (nth, paragraph) in text.split("\n\n").map(str::trim).enumerate() {
        if nth > 0 {
            page.control("PP", []);
        }
        page.text([roman(paragraph.split_whitespace().collect::<Vec<_>>().join(" "))]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches a function without a page, a type that gets one, and an argument that is lost.
    #[test]
    fn each_function_has_a_page() {
        let pages = pages();
        let page = |name: &str| &pages.iter().find(|(known, _)| known == name).unwrap().1;
        for (_, text) in HEADERS {
            let declared = text.lines().filter(|line| !line.starts_with([' ', '#', '/', '}']));
            let names =
                declared.filter_map(|line| line.split_once('(')?.0.split([' ', '*']).next_back());
            for name in names.filter(|name| name.starts_with("VELOC_")) {
                assert!(page(name).contains("#include <"), "{name}");
            }
        }
        let init = page("VELOC_Init_single");
        for words in [
            "Initialises the library",
            "int VELOC_Init_single(unsigned int id, const char *cfg_file);",
        ] {
            assert!(init.contains(words), "{init}");
        }
        for words in [".SH ARGUMENTS", "cfg_file", ".SH \"RETURN VALUE\"", ".SH REQUIRES"] {
            assert!(init.contains(words), "{words}: {init}");
        }
        assert!(
            pages.len() > 80 && pages.iter().all(|(name, _)| name != "VELOC_Region"),
            "{}",
            pages.len()
        );
    }
}
