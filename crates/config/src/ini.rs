//! From the text of a configuration file to its keys and values.
//!
//! The file is read the way upstream's parser (inih) reads it where that differs from `rust-ini`: a
//! comment may be indented or follow a value (` ;`), nothing is quoted or escaped, names are not
//! sensitive to case. Two things differ from inih: an indented line is a key of its own, where inih
//! appends it to the value before it; and ` #` begins a comment, too. Upstream takes the first word
//! of a value alone, so that nothing behind it matters there.

use ini::{Ini, ParseOption};

/// The content of a configuration file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct IniContent {
    /// The keys (lower case) and values of the root section, in the order of the file. A key that
    /// is given twice is here twice.
    pub root: Vec<(String, String)>,
    /// The names of the other sections, which have no meaning.
    pub sections: Vec<String>,
}

/// A line that is neither a comment, a section nor `key = value`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Malformed {
    /// The line's number, from 1.
    pub line: usize,
    /// What is wrong with the line.
    pub reason: String,
}

/// Reads `text`.
pub(crate) fn read(text: &str) -> Result<IniContent, Malformed> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut plain = String::with_capacity(text.len());
    for (index, line) in text.lines().enumerate() {
        plain.push_str(check(strip(line)).map_err(|reason| Malformed { line: index + 1, reason })?);
        plain.push('\n');
    }
    let options =
        ParseOption { enabled_quote: false, enabled_escape: false, ..ParseOption::default() };
    let parsed = Ini::load_from_str_opt(&plain, options)
        .map_err(|e| Malformed { line: e.line, reason: e.msg.into_owned() })?;

    let mut content = IniContent::default();
    for (section, properties) in &parsed {
        match section {
            None => content.root.extend(
                properties.iter().map(|(key, value)| (key.to_ascii_lowercase(), value.to_string())),
            ),
            Some(name) => content.sections.push(name.to_string()),
        }
    }
    Ok(content)
}

/// The line without its comment and without the space around it.
fn strip(line: &str) -> &str {
    let line = line.trim();
    if line.starts_with([';', '#']) {
        return "";
    }
    let comment = line
        .char_indices()
        .zip(line.chars().skip(1))
        .find(|((_, before), after)| before.is_whitespace() && matches!(after, ';' | '#'))
        .map(|((at, _), _)| at);
    line[..comment.unwrap_or(line.len())].trim_end()
}

/// The line itself, if it can stand in a configuration file. `rust-ini` would take a line without
/// a separator for the beginning of the next line's key.
fn check(line: &str) -> Result<&str, String> {
    let separator = line.find(['=', ':']);
    match line.chars().next() {
        None => Ok(line),
        Some('[') if line.ends_with(']') => Ok(line),
        Some('[') => Err(format!("section without a closing bracket: {line}")),
        Some(_) if separator.is_none() => Err(format!("neither key = value nor [section]: {line}")),
        Some('=' | ':') => Err(format!("value without a key: {line}")),
        Some(_) => Ok(line),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn root(text: &str) -> Vec<(String, String)> {
        read(text).unwrap().root
    }

    fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
        expected.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect()
    }

    #[test]
    fn keys_and_values() {
        assert_eq!(root(""), pairs(&[]));
        assert_eq!(root("a = b"), pairs(&[("a", "b")]));
        assert_eq!(root("a=b\r\nc:d\r\n"), pairs(&[("a", "b"), ("c", "d")]));
        assert_eq!(root("\u{feff}Mode = Sync\n"), pairs(&[("mode", "Sync")]));
        assert_eq!(root("a = b = c"), pairs(&[("a", "b = c")]));
        assert_eq!(root("a ="), pairs(&[("a", "")]));
        assert_eq!(root("a =\nb = c"), pairs(&[("a", ""), ("b", "c")]));
        assert_eq!(root("  a = b\n\tc = d"), pairs(&[("a", "b"), ("c", "d")]));
        assert_eq!(root("a = 1\na = 2"), pairs(&[("a", "1"), ("a", "2")]));
    }

    #[test]
    fn comments() {
        assert_eq!(root("; c = d\n# e\n  ; f = g\na = b ; why\n"), pairs(&[("a", "b")]));
        assert_eq!(root("a = /x;y"), pairs(&[("a", "/x;y")]));
        assert_eq!(root("a = b # c"), pairs(&[("a", "b")]), "upstream takes the first word");
        assert_eq!(root("a = /x   # y ; z\nb = 1\t#"), pairs(&[("a", "/x"), ("b", "1")]));
        assert_eq!(root("a = /x#y"), pairs(&[("a", "/x#y")]));
        assert_eq!(root("a = ; nothing"), pairs(&[("a", "")]));
    }

    #[test]
    fn nothing_is_quoted_or_escaped() {
        assert_eq!(root(r"a = C:\new"), pairs(&[("a", r"C:\new")]));
        assert_eq!(root(r#"a = "b c""#), pairs(&[("a", r#""b c""#)]));
    }

    #[test]
    fn other_sections_are_told_apart() {
        let content = read("a = 1\n[gpu]\nb = 2\n [io]\nc = 3\n").unwrap();
        assert_eq!(content.root, pairs(&[("a", "1")]));
        assert_eq!(content.sections, ["gpu", "io"]);
    }

    #[test]
    fn malformed_lines_are_numbered() {
        for (text, line) in [
            ("mode sync\nscratch = /tmp", 1),
            ("a = b\n\n[gpu\n", 3),
            ("; c\n= b", 2),
            ("a = b\nlast", 2),
            ("a = b\n] ", 2),
        ] {
            assert_eq!(read(text).unwrap_err().line, line, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_answered(text in "[\\PC\n\t]{0,80}") {
            let _ = read(&text);
        }

        #[test]
        fn what_was_written_is_read(
            expected in prop::collection::vec(("[a-z_]{1,9}", "[a-zA-Z0-9/._=-]{0,12}"), 0..8)
        ) {
            let text: String = expected.iter().map(|(k, v)| format!("{k} = {v}\n")).collect();
            prop_assert_eq!(root(&text), expected);
        }
    }
}
