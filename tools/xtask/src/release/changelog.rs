//! The section of a version in the changelog.

use crate::error::{Error, Result};

/// The date of this version, `2026-11-29` of `## 0.2.0, 2026-11-29`. Fails if there is no such section, or nothing
/// in it.
pub(super) fn date<'a>(changelog: &'a str, version: &str) -> Result<&'a str> {
    let wanted = format!("## {version}, ");
    let mut lines = changelog.lines();
    let Some(date) = lines.find_map(|line| line.strip_prefix(&wanted)) else {
        let found = changelog.lines().find_map(|line| line.strip_prefix("## "));
        let found = found.map_or("no section".to_owned(), |found| format!("\"{found}\" first"));
        return Err(Error::new(format!(
            "CHANGELOG.md: no section \"{wanted}YEAR-MONTH-DAY\", but {found}"
        )));
    };
    if !is_date(date) {
        return Err(Error::new(format!(
            "CHANGELOG.md: the date of {version} is \"{date}\", and not YEAR-MONTH-DAY"
        )));
    }
    if !lines.take_while(|line| !line.starts_with("## ")).any(|line| line.starts_with("- ")) {
        return Err(Error::new(format!("CHANGELOG.md: the section of {version} has no entry")));
    }
    Ok(date)
}

fn is_date(text: &str) -> bool {
    let is_number = |(part, digits): (&str, usize)| {
        part.len() == digits && part.bytes().all(|byte| byte.is_ascii_digit())
    };
    let parts: Vec<&str> = text.split('-').collect();
    parts.len() == 3 && parts.into_iter().zip([4, 2, 2]).all(is_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches a version that is taken for another one, and a release of what is not yet dated or described.
    #[test]
    fn a_version_has_a_section_with_a_date_and_entries() {
        let text = "# Changes\n\n## 0.2.10, 2026-12-01\n\n- b\n\n## 0.2.1, 2026-11-29\n\n- a\n";
        assert_eq!(date(text, "0.2.1").unwrap(), "2026-11-29");
        assert_eq!(date(text, "0.2.10").unwrap(), "2026-12-01");
        let says = |text: &str, version: &str, wanted: &str| {
            let error = date(text, version).unwrap_err().to_string();
            assert!(error.contains(wanted), "{error}");
        };
        says(
            text,
            "0.2.0",
            "no section \"## 0.2.0, YEAR-MONTH-DAY\", but \"0.2.10, 2026-12-01\" first",
        );
        says("## Unreleased\n\n- a\n", "0.2.0", "but \"Unreleased\" first");
        says("", "0.2.0", "but no section");
        for wrong in ["unreleased", "2026-11", "29-11-2026", "2026-11-29 ", "2026-nn-29"] {
            let text = format!("## 0.2.0, {wrong}\n\n- a\n");
            says(&text, "0.2.0", &format!("the date of 0.2.0 is \"{wrong}\""));
        }
        says("## 0.2.0, 2026-11-29\n\n## 0.1.0, 2026-11-21\n\n- a\n", "0.2.0", "has no entry");
    }
}
