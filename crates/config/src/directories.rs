//! Where a configuration has its files, for tools that only look at them, and whether proofs count.
//! Its other settings do not matter here, even if a job would be refused for them.

use std::path::{Path, PathBuf};

use super::settings::refused;
use super::{ini, value, ProofPolicy};
use errors::Result;

/// The directories with files of checkpoints.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Directories {
    /// The directory on the node.
    pub scratch: Option<PathBuf>,
    /// The directory on the parallel file system.
    pub persistent: Option<PathBuf>,
    /// The directory with checksums and with the tables of aggregated files.
    pub meta: Option<PathBuf>,
    /// Whether a file that does not fit its proof is restored.
    pub proof: ProofPolicy,
}

impl Directories {
    /// Reads the file at `path` and the environment, which overrides it.
    ///
    /// # Errors
    /// The file cannot be read or is no configuration; the message names it, and the line. A
    /// directory has a value that is not allowed.
    pub fn load(path: &Path) -> Result<Directories> {
        let text = super::read_text(path)?;
        let origin = format!("configuration file {}", path.display());
        Directories::read(&text, &origin, |name| os::environment::var(name).ok())
    }

    /// Reads `text`, which messages call `origin`, with `env` in place of the environment.
    fn read(text: &str, origin: &str, env: impl Fn(&str) -> Option<String>) -> Result<Directories> {
        let content = ini::read(text).map_err(|error| super::malformed(origin, &error))?;
        let given = |key: &str| {
            let variable = format!("VELOC_{}", key.to_ascii_uppercase());
            let given = super::variable(env(&variable))
                .map(|text| (text, format!("environment variable {variable}")));
            given.or_else(|| {
                let mut given = content.root.iter().rev();
                let (_, text) = given.find(|(name, text)| name == key && !text.is_empty())?;
                Some((text.clone(), origin.to_owned()))
            })
        };
        let directory = |key: &str| {
            given(key)
                .map(|(text, origin)| {
                    value::path(&text).map_err(|allowed| refused(&origin, key, &text, &allowed))
                })
                .transpose()
        };
        Ok(Directories {
            scratch: directory("scratch")?,
            persistent: directory("persistent")?,
            meta: directory("meta")?,
            proof: given("proof")
                .and_then(|(text, _)| value::proof(&text).ok())
                .unwrap_or_default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_directories_matter() {
        let text =
            "scratch = /a\nSCRATCH = /s # local\nscratch =\naxl_type = pthread\nmeta = /m\nnonsense = 1\n\
             proof = accept";
        let read = |text, env: &[(&str, &str)]| {
            Directories::read(text, "x.cfg", |name| {
                env.iter().find(|(known, _)| *known == name).map(|(_, value)| value.to_string())
            })
        };
        let found = read(text, &[("VELOC_META", "/other"), ("VELOC_SCRATCH", " ")]).unwrap();
        assert_eq!(
            found,
            Directories {
                scratch: Some("/s".into()),
                persistent: None,
                meta: Some("/other".into()),
                proof: ProofPolicy::Accept,
            }
        );
        assert_eq!(read("proof = yes", &[]).unwrap().proof, ProofPolicy::Check);
        assert_eq!(read(text, &[("VELOC_PROOF", "off")]).unwrap().proof, ProofPolicy::Off);
        let error = read("mode = sync\nnonsense", &[]).unwrap_err().to_string();
        assert!(error.contains("x.cfg, line 2"), "{error}");
        let error = read("meta = ~/m", &[]).unwrap_err().to_string();
        assert!(error.contains("x.cfg: meta = \"~/m\""), "{error}");
        let error = read("", &[("VELOC_SCRATCH", "'/s'")]).unwrap_err().to_string();
        assert!(error.contains("VELOC_SCRATCH: scratch = \"'/s'\""), "{error}");
        let missing = Directories::load(Path::new("/nonexistent/x.cfg")).unwrap_err();
        assert!(missing.to_string().contains("/nonexistent/x.cfg"), "{missing}");
    }
}
