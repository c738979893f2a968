//! Licence expressions as packages have them (SPDX), and what the text of a licence is known by.

use crate::error::{Error, Result};

/// A licence that may be chosen.
struct Licence {
    id: &'static str,
    /// What its text has, in small letters and with single spaces.
    has: &'static str,
    /// What its text has not, as a longer licence has it, too.
    lacks: Option<&'static str>,
}

const fn known(id: &'static str, has: &'static str) -> Licence {
    Licence { id, has, lacks: None }
}

const BSD: &str = "redistribution and use in source and binary forms, with or without";
const NO_ENDORSEMENT: &str = "used to endorse or promote products";

/// Those that deny.toml accepts, the ones that ask for least first.
const KNOWN: [Licence; 10] = [
    known("MIT", "permission is hereby granted, free of charge, to any person"),
    known("ISC", "permission to use, copy, modify, and/or distribute this software for any"),
    known("Zlib", "this software is provided 'as-is', without any express or implied"),
    Licence { id: "BSD-2-Clause", has: BSD, lacks: Some(NO_ENDORSEMENT) },
    known("BSD-3-Clause", NO_ENDORSEMENT),
    known("CC0-1.0", "cc0 1.0 universal"),
    known("Apache-2.0", "apache license version 2.0"),
    known("Unicode-3.0", "unicode license v3"),
    known("OFL-1.1", "sil open font license version 1.1"),
    known("Ubuntu-font-1.0", "ubuntu font licence version 1.0"),
];

/// The text in small letters, its words with one space between them.
fn plain(text: &str) -> String {
    text.split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .to_lowercase()
        .replace(", version", " version")
}

/// Whether two texts say the same.
pub fn same(one: &str, other: &str) -> bool {
    plain(one) == plain(other)
}

/// Whether this is the text of the licence.
pub fn is(id: &str, text: &str) -> bool {
    let text = plain(text);
    KNOWN.iter().any(|licence| {
        licence.id == id
            && text.contains(licence.has)
            && !licence.lacks.is_some_and(|lacks| text.contains(lacks))
    })
}

/// Whether a text has to go with a crate that is used under these licences: their texts, and what is
/// the text of none, as a notice or a list of authors.
pub fn is_notice(text: &str, licences: &[&str]) -> bool {
    let of_another = |licence: &Licence| is(licence.id, text);
    licences.iter().any(|licence| is(licence, text)) || !KNOWN.iter().any(of_another)
}

/// The licences to use a crate under: of each choice the one that asks for least of those that it
/// `has` a text of. `None`: there is no choice with all its texts.
pub fn choose(expression: &str, has: &dyn Fn(&str) -> bool) -> Result<Option<Vec<&'static str>>> {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut parser = Parser { words: &words, has };
    match (parser.any(), parser.words) {
        (Some(chosen), []) => Ok(chosen.map(names)),
        _ => Err(Error::new(format!("licence {expression:?}: cannot be read"))),
    }
}

fn names(mut ranks: Vec<usize>) -> Vec<&'static str> {
    ranks.sort_unstable();
    ranks.dedup();
    ranks.into_iter().map(|rank| KNOWN[rank].id).collect()
}

/// What is chosen of a part of an expression, as places in [`KNOWN`]; `None` if no text is there.
type Chosen = Option<Vec<usize>>;

/// What is left of an expression. Each method takes a part; `None`: it is none.
struct Parser<'a> {
    words: &'a [&'a str],
    has: &'a dyn Fn(&str) -> bool,
}

impl Parser<'_> {
    fn take(&mut self, word: &str) -> bool {
        match self.words.split_first() {
            Some((first, rest)) if *first == word => {
                self.words = rest;
                true
            }
            _ => false,
        }
    }

    /// One of several.
    fn any(&mut self) -> Option<Chosen> {
        let mut best = self.all()?;
        while self.take("OR") {
            let other = self.all()?;
            let worst = |chosen: &Vec<usize>| chosen.iter().max().copied();
            best = best.into_iter().chain(other).min_by_key(worst);
        }
        Some(best)
    }

    /// All of several.
    fn all(&mut self) -> Option<Chosen> {
        let mut all = self.one()?;
        while self.take("AND") {
            let other = self.one()?;
            all = all.zip(other).map(|(some, more)| [some, more].concat());
        }
        Some(all)
    }

    fn one(&mut self) -> Option<Chosen> {
        if self.take("(") {
            let inner = self.any()?;
            return self.take(")").then_some(inner);
        }
        let (&id, rest) = self.words.split_first()?;
        if matches!(id, "OR" | "AND" | "WITH" | ")") {
            return None;
        }
        self.words = rest;
        if self.take("WITH") {
            // Nobody has needed one with an exception yet.
            self.words = self.words.split_first()?.1;
            return Some(None);
        }
        let rank = KNOWN.iter().position(|licence| licence.id == id);
        Some(rank.filter(|_| (self.has)(id)).map(|rank| vec![rank]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches a choice of a licence without a text, half of what is needed together, and an
    /// expression that is read in part.
    #[test]
    fn of_a_choice_one_is_taken_whose_texts_are_there() {
        let chosen = |expression: &str, there: &[&str]| {
            choose(expression, &|id| there.contains(&id)).unwrap()
        };
        let (mit, apache) = (Some(vec!["MIT"]), Some(vec!["Apache-2.0"]));
        assert_eq!(chosen("Apache-2.0 OR MIT", &["MIT", "Apache-2.0"]), mit);
        assert_eq!(chosen("MIT/Apache-2.0", &["Apache-2.0"]), apache);
        assert_eq!(chosen("MIT AND BSD-3-Clause", &["MIT"]), None);
        assert_eq!(chosen("Apache-2.0 WITH LLVM-exception OR MIT", &["MIT"]), mit);
        assert_eq!(chosen("Apache-2.0 WITH LLVM-exception", &["Apache-2.0"]), None);
        assert_eq!(chosen("GPL-3.0-only", &["GPL-3.0-only"]), None);
        assert_eq!(
            chosen("(MIT OR Apache-2.0) AND OFL-1.1", &["Apache-2.0", "OFL-1.1"]),
            Some(vec!["Apache-2.0", "OFL-1.1"])
        );
        for wrong in ["", "MIT OR", "(MIT", "MIT MIT", "AND MIT", "MIT)", "Apache-2.0 WITH"] {
            let error = choose(wrong, &|_| true).unwrap_err().to_string();
            assert!(error.contains(&format!("{wrong:?}")), "{error}");
        }
    }

    #[test]
    fn texts_are_known_however_their_lines_are_broken() {
        let text = "Redistribution and use in source and\n  binary forms, with or without ...";
        assert!(is("BSD-2-Clause", text) && !is("BSD-3-Clause", text));
        let longer = format!("{text} may not be\nused to endorse or promote products");
        assert!(!is("BSD-2-Clause", &longer) && is("BSD-3-Clause", &longer));
        assert!(is("Apache-2.0", "   Apache License\n    Version 2.0, January 2004"));
        assert!(is_notice("written by somebody", &["MIT"]) && !is_notice(text, &["MIT"]));
    }
}
