//! Keys and values that a program gives in a call, in place of a file.
//!
//! A file may be edited by hand, and its last line counts. A program that gives a key twice has two
//! opinions, which is an error; so is an unknown key, which in a file may be another version's.

use std::collections::HashMap;

use errors::{Error, Result};

/// The keys in lower case and the values, without the blanks around them. Comments are not looked
/// for.
pub(super) fn read(options: &[(&str, &str)]) -> Result<Vec<(String, String)>> {
    let mut seen: HashMap<String, &str> = HashMap::new();
    let mut pairs = Vec::with_capacity(options.len());
    for (index, (key, value)) in options.iter().enumerate() {
        let (key, value) = (key.trim().to_ascii_lowercase(), value.trim());
        if key.is_empty() {
            return Err(Error::invalid(format!(
                "option {} has no key; its value is {value:?}",
                index + 1
            )));
        }
        if let Some(before) = seen.insert(key.clone(), value) {
            return Err(Error::invalid(format!(
                "option: {key} is given twice, as {before:?} and as {value:?}"
            )));
        }
        pairs.push((key, value.to_owned()));
    }
    Ok(pairs)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{Config, SourceValues};
    use super::*;

    fn config(options: &[(&str, &str)], env: &[(&str, &str)]) -> Result<(Config, Vec<String>)> {
        let variable = |name: &str| {
            env.iter().find(|(key, _)| *key == name).map(|(_, value)| value.to_string())
        };
        super::super::read(SourceValues::by_options(options)?, variable)
    }

    /// Catches an option that counts for less than the default, or for more than the environment.
    #[test]
    fn options_stand_between_the_defaults_and_the_environment() {
        let options = [("Mode", " async "), ("scratch", "/s #1 ;x"), ("max_versions", "2")];
        let env = [("VELOC_MAX_VERSIONS", "3")];
        let (read, warnings) = config(&options, &env).unwrap();
        assert_eq!(read.scratch, Some("/s #1 ;x".into()), "a value is no line with comments");
        assert_eq!((read.max_versions, read.scratch_versions), (3, 0));
        assert!(warnings.iter().all(|warning| warning.contains("white space")), "{warnings:?}");
    }

    #[test]
    fn what_is_wrong_is_named() {
        let base = [("mode", "async"), ("ephemeral", "true")];
        for (more, words) in [
            (("mode", "async"), "option: mode is given twice, as \"async\" and as \"async\""),
            (("MODE ", "sync"), "option: mode is given twice, as \"async\" and as \"sync\""),
            ((" ", "sync"), "option 3 has no key; its value is \"sync\""),
            (("scrath", "/x"), "option: unknown key scrath; was scratch meant?"),
            (("touch", "none"), "option: touch = \"none\" is not allowed; it takes auto"),
            (("chksum", "true"), "option"),
            (("axl_type", "x"), "option: axl_type = x is not supported"),
        ] {
            let all: Vec<_> = base.into_iter().chain([more]).collect();
            match config(&all, &[]) {
                Err(error) => assert!(error.to_string().contains(words), "{error}"),
                // Only a warning: nothing is written.
                Ok(_) => assert_eq!(more.0, "chksum"),
            }
        }
        let error = config(&[("mode", "async")], &[]).unwrap_err().to_string();
        assert!(error.contains("options: scratch is missing"), "{error}");
        let (_, warnings) = config(&[base[0], base[1], ("max_versions", "")], &[]).unwrap();
        assert!(warnings.is_empty(), "{warnings:?}");
    }

    proptest! {
        /// Catches a configuration that depends on how it was given.
        #[test]
        fn options_say_what_a_file_says(
            versions in 0..9u32, sync in any::<bool>(), size in 0..9u64, order in 0..3usize
        ) {
            let order = ["reverse", "same", "random"][order];
            let (versions, size) = (versions.to_string(), format!("{size}M"));
            let options = [
                ("mode", if sync { "sync" } else { "async" }), ("scratch", "/s"),
                ("restore_order", order), ("max_versions", &versions), ("host_cache_size", &size),
            ];
            let text: String = options.iter().map(|(key, value)| format!("{key} = {value}\n")).collect();
            let (of_file, _) = Config::from_text(&text, |_| None).unwrap();
            let (of_options, _) = config(&options, &[]).unwrap();
            prop_assert_eq!(of_options, of_file);
        }
    }
}
