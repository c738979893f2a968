//! The map of tests, `docs/test-map.md`: which tests call each function of the C interface and set each configuration
//! key. `cargo xtask docs` makes it; one without a test is an error.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result, While};
use crate::files::{read, write};
use crate::project::root;

/// How many tests a line names.
const MOST: usize = 3;

/// Where tests are.
const FOLDERS: [&str; 7] =
    ["capi-tests", "crates", "examples", "packaging/consumers", "python/tests", "src", "tools"];

/// Names, and how often each is there.
type Counts = BTreeMap<String, usize>;

/// A file of tests.
struct TestFile {
    path: String,
    calls: Counts,
    keys: Counts,
}

fn path() -> PathBuf {
    root().join("docs/test-map.md")
}

/// Writes the map.
pub fn update() -> Result<()> {
    write(&path(), &map()?)
}

/// Fails if the map is not what the tests say, or something has no test.
pub fn check() -> Result<()> {
    match read(&path())? == map()? {
        true => Ok(()),
        false => {
            Err(Error::new("docs/test-map.md is not what the tests say; run cargo xtask docs"))
        }
    }
}

fn map() -> Result<String> {
    let mut tests = Vec::new();
    for folder in FOLDERS {
        find(Path::new(folder), &mut tests)?;
    }
    tests.sort_by(|a, b| a.path.cmp(&b.path));
    let keys = keys(&read(&root().join("crates/config/src/keys.rs"))?);
    let mut text = String::from(
        "# The map of tests\n\nMade by `cargo xtask docs`: the tests that call a function of the C interface or set a \
         configuration key, at most\nthree, those that do it most often first. To run one: [CONTRIBUTING.md](../CONTRIBUTING.md).\n",
    );
    text += &table("Function", &functions()?, &tests, |test| &test.calls)?;
    text += &table("Key", &keys, &tests, |test| &test.keys)?;
    Ok(text)
}

/// Reads the tests below a folder of the project.
fn find(folder: &Path, tests: &mut Vec<TestFile>) -> Result<()> {
    let listing = || format!("listing {}", folder.display());
    for entry in std::fs::read_dir(root().join(folder)).when(listing)? {
        let name = entry.when(listing)?.file_name();
        let path = folder.join(&name);
        if root().join(&path).is_dir() {
            if !name.to_string_lossy().starts_with('.') && name != "__pycache__" {
                find(&path, tests)?;
            }
        } else if let Some(path) = path.to_str().filter(|path| is_test(path)) {
            let text = read(&root().join(path))?;
            let text = code(path, &text);
            let mut keys = keys_in(&text, false);
            if path.ends_with(".py") {
                keys.extend(jobs(&text).flat_map(|job| keys_in(job, true)));
            }
            let (calls, keys) = (count(calls_in(&text)), count(keys));
            tests.push(TestFile { path: path.to_owned(), calls, keys });
        }
    }
    Ok(())
}

/// The functions that the headers of C declare.
fn functions() -> Result<Vec<String>> {
    let mut found = BTreeSet::new();
    for header in ["veloc.h", "veloc/adjoint.h", "veloc/metrics.h", "veloc/pmem.h", "veloc-mpi.h"] {
        let text = read(&root().join("include").join(header))?;
        let code = text.split("/*").filter_map(|part| part.split_once("*/")).map(|(_, code)| code);
        for code in code {
            let names = code.split('(').filter_map(|before| before.rsplit([' ', '*', '\n']).next());
            found.extend(names.filter(|name| is_function(name)).map(str::to_owned));
        }
    }
    Ok(found.into_iter().collect())
}

/// `VELOC_Checkpoint`, and not `VELOC_CKPT_ALL`.
fn is_function(name: &str) -> bool {
    name.strip_prefix("VELOC_").is_some_and(|rest| {
        rest.starts_with(|c: char| c.is_ascii_uppercase())
            && rest.contains(|c: char| c.is_ascii_lowercase())
            && rest.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    })
}

/// The keys that have an effect, from the text of their table.
fn keys(text: &str) -> Vec<String> {
    let entries = text.split("Key {\n").skip(1);
    let entries = entries.filter(|entry| !entry.contains("task: Task::Unused"));
    let name = |entry: &str| entry.split('"').nth(1).map(str::to_owned);
    entries.filter(|entry| entry.trim_start().starts_with("name:")).filter_map(name).collect()
}

/// Whether a file of this path has tests.
fn is_test(path: &str) -> bool {
    let folder = ["capi-tests/", "packaging/consumers/", "python/tests/"]
        .iter()
        .any(|f| path.starts_with(f));
    let of_rust = path.contains("/tests/") || path.ends_with("tests.rs");
    let ends = [".c", ".cpp", ".f90", ".F90", ".py", ".rs", ".list"];
    (folder || of_rust) && ends.iter().any(|end| path.ends_with(end))
}

/// A text without its comments, as far as they are lines or parts of lines.
fn code(path: &str, text: &str) -> String {
    let begins: &[&str] = match path.rsplit('.').next() {
        Some("py" | "list") => &["#"],
        Some("f90" | "F90") => &["!"],
        _ => &["//", "/*", "* "],
    };
    let is_code = |line: &&str| !begins.iter().any(|begin| line.trim_start().starts_with(begin));
    text.split_inclusive('\n').filter(is_code).collect()
}

/// The arguments of what makes a job in Python, with the parenthesis before them.
fn jobs(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices("Job(").map(|(at, name)| {
        let text = &text[at + name.len() - 1..];
        let mut open = 0;
        let end = text.find(|c| {
            open += i32::from(c == '(') - i32::from(c == ')');
            open == 0
        });
        &text[..end.unwrap_or(text.len())]
    })
}

fn count(names: Vec<String>) -> Counts {
    let mut counts = Counts::new();
    names.into_iter().for_each(|name| *counts.entry(name).or_default() += 1);
    counts
}

/// The words before an opening parenthesis: the text of an error names a function without one.
fn calls_in(text: &str) -> Vec<String> {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let called = text.split('(').filter_map(|before| before.rsplit(|c| !word(c)).next());
    called.filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// The words that stand as keys of a configuration do: in a text with `=` behind them, as an argument in `python`, or as
/// `VELOC_KEY` in the environment.
fn keys_in(text: &str, python: bool) -> Vec<String> {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut found = Vec::new();
    let mut rest = 0;
    while let Some(begin) = text[rest..].find(word).map(|at| rest + at) {
        let end = text[begin..].find(|c| !word(c)).map_or(text.len(), |at| begin + at);
        rest = end;
        let (before, behind) = (&text[..begin], &text[end..]);
        // "...\nkey = value": the letter of the escape is taken for the word's first one.
        let escaped = text[begin..end].strip_prefix('n').filter(|_| before.ends_with('\\'));
        let name = escaped.unwrap_or(&text[begin..end]);
        // A text that goes on in the next line: its backslash, and the spaces that do not belong to it.
        let goes_on = before.trim_end_matches([' ', '\t']).ends_with("\\\n");
        let begins = escaped.is_some()
            || goes_on
            || ["\"", "}", "| "].iter().any(|end| before.ends_with(end));
        let quoted = before.ends_with('"') && behind.starts_with('"');
        let argument = python
            && ["(", " "].iter().any(|end| before.ends_with(end))
            && behind.starts_with('=')
            && !behind.starts_with("==");
        if argument || begins && behind.trim_start_matches(' ').starts_with('=') {
            found.push(name.to_owned());
        }
        if let Some(key) = name.strip_prefix("VELOC_").filter(|_| quoted || argument || begins) {
            found.push(key.to_ascii_lowercase());
        }
    }
    found
}

fn table(
    what: &str,
    names: &[String],
    tests: &[TestFile],
    of: impl Fn(&TestFile) -> &Counts,
) -> Result<String> {
    let mut text = format!("\n| {what} | tests |\n| --- | --- |\n");
    let mut missing = Vec::new();
    for name in names {
        let mut by: Vec<_> =
            tests.iter().filter_map(|test| Some((of(test).get(name)?, &test.path))).collect();
        by.sort_by_key(|&(count, path)| (Reverse(count), path));
        if by.is_empty() {
            missing.push(name.as_str());
        }
        let by: Vec<String> = by.iter().take(MOST).map(|(_, path)| format!("`{path}`")).collect();
        let _ = writeln!(text, "| `{name}` | {} |", by.join(", "));
    }
    match &missing[..] {
        [] => Ok(text),
        _ => Err(Error::new(format!(
            "no test has the {} {}: a test calls a function, or sets a key in a text with KEY = VALUE",
            what.to_lowercase(),
            missing.join(", ")
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_keys_and_tests_are_told_from_others() {
        let found = functions().unwrap();
        assert!(found.len() > 80, "{found:?}");
        assert!(["VELOC_Init_single", "VELOC_Part_begin", "VELOC_Pmem_open"]
            .iter()
            .all(|f| found.contains(&(*f).into())));
        assert!(!found.iter().any(|name| name.contains("CKPT")), "{found:?}");
        let keys = keys("Key {\n name: \"a\",\n task: Task::Places,\n},\nKey {\n name: \"b\",\n task: Task::Unused,\n}");
        assert_eq!(keys, ["a"]);
        assert!(is_test("capi-tests/programs/host.c") && is_test("crates/config/src/tests.rs"));
        assert!(!is_test("src/capi/job.rs") && !is_test("docs/tools.md"));
    }

    /// Catches a word of the language that passes for a key.
    #[test]
    fn keys_are_told_from_words() {
        let text = "int mode = 3; \"a = 1\\nb=2\" {\"i\", 1} Job(d=1, e=2) env(\"VELOC_F\", x) \"{y}g = 3\" if h == 1 && k == \"i\" \
            \"l\\n\\\n   j = 4\"";
        assert_eq!(keys_in(text, true), ["a", "b", "d", "e", "f", "g", "j"]);
        assert!(keys_in("/* d=PATH */", false).is_empty());
        let jobs: Vec<&str> = jobs("run(a=1) Job(b=(2), c=3) run(d=4) Job(e=5").collect();
        assert_eq!(jobs, ["(b=(2), c=3", "(e=5"]);
    }

    /// Catches a comment that passes for a call.
    #[test]
    fn comments_are_left_out() {
        let text = " // a()\nb()\n/* c()\n * d()\n */\ne()\n";
        assert_eq!(calls_in(&code("t.c", text)), ["b", "e"]);
        assert_eq!(calls_in(&code("t.py", "# a()\nb()\n")), ["b"]);
        assert_eq!(calls_in(&code("t.f90", "! a()\nb()\n")), ["b"]);
    }

    /// Catches a map in which what has no test does not stand out, or which names others than those with the most calls.
    #[test]
    fn what_no_test_has_is_an_error() {
        let test = |path: &str, text: &str| TestFile {
            path: path.into(),
            calls: count(calls_in(text)),
            keys: Counts::new(),
        };
        let once = "f(VELOC_A(1), \"VELOC_B: failed\")";
        let tests = [test("s", once), test("t", once), test("u", &once.repeat(2)), test("v", once)];
        fn calls_of(test: &TestFile) -> &Counts {
            &test.calls
        }
        assert!(table("Function", &["VELOC_A".into()], &tests, calls_of)
            .unwrap()
            .contains("| `VELOC_A` | `u`, `s`, `t` |"));
        let error =
            table("Function", &["VELOC_A".into(), "VELOC_B".into()], &tests, calls_of).unwrap_err();
        assert!(error.to_string().contains("no test has the function VELOC_B"), "{error}");
    }
}
