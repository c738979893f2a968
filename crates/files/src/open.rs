//! Opening the directories of a job.

use std::cell::RefCell;
use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;

use super::checksums::Checksums;
use super::companions::SeenCompanions;
use super::directories::Known;
use super::leftovers::Leftovers;
use super::places::Places;
use super::{Files, Ground, Settings};
use config::Config;
use errors::{Error, Result};
use format::identity::Identity;
use os::files;

impl Files {
    /// Makes the directories of a configuration if they are missing, and removes what a killed run
    /// of this rank has left half written. An ephemeral job has scratch alone. Persistent and meta
    /// need only be readable: then the first process warns that nothing new is written there, and
    /// each try is an error.
    ///
    /// # Errors
    /// A directory cannot be made, or read; scratch cannot be written to; scratch and persistent are the same.
    pub fn open(config: &Config, rank: u32) -> Result<Files> {
        Files::open_or(config, rank, |_, error| Err(error))
    }

    /// Opens the directories as [`Files::open`] does. If scratch can only be read, `may` says
    /// whether the job can do without writing to it; then the error of scratch is returned, too.
    ///
    /// # Errors
    /// As [`Files::open`]; those of `may`.
    pub fn open_past_scratch(
        config: &Config,
        rank: u32,
        may: impl Fn(Error) -> Result<()>,
    ) -> Result<(Files, Option<Error>)> {
        let refused = RefCell::new(None);
        let can_be_read =
            || config.scratch.as_ref().is_some_and(|scratch| fs::read_dir(scratch).is_ok());
        let files = Files::open_or(config, rank, |key, error| {
            if key == "scratch" && can_be_read() {
                may(error.clone())?;
                refused.replace(Some(error));
                return Ok(());
            }
            // This error is of interest only because scratch can take nothing either.
            Err(match refused.take() {
                Some(refused) => refused.followed_by(error),
                None => error,
            })
        })?;
        Ok((files, refused.into_inner()))
    }

    /// Opens the directories; `lacks` says whether the job can do without the directory of a key.
    pub(super) fn open_or(
        config: &Config,
        rank: u32,
        lacks: impl Fn(&str, Error) -> Result<()>,
    ) -> Result<Files> {
        // The application may change its working directory.
        let absolute = |directory: &Option<PathBuf>| {
            let directory = directory.as_ref()?;
            Some(std::path::absolute(directory).unwrap_or_else(|_| directory.clone()))
        };
        let of_lasting =
            |directory: &Option<PathBuf>| absolute(directory).filter(|_| !config.ephemeral);
        let scratch = absolute(&config.scratch);
        let persistent = of_lasting(&config.persistent);
        let meta = of_lasting(&config.meta);
        let used = meta.clone().filter(|_| config.chksum || config.aggregated);
        let directories = [("scratch", &scratch), ("persistent", &persistent), ("meta", &used)];
        let mut past_scratch = false;
        for (key, directory) in directories {
            let Some(directory) = directory else { continue };
            let made = fs::create_dir_all(directory).map_err(|error| {
                let path = directory.display();
                match error.kind() {
                    ErrorKind::AlreadyExists => {
                        Error::invalid(format!("{key}: {path} is a file, and no directory"))
                    }
                    _ => Error::system(format!("making the {key} directory {path}"), &error),
                }
            });
            let ready = made
                .and_then(|()| files::check_writable(directory).map_err(|error| error.within(key)));
            // Beside a scratch that can be written to, a directory need only be readable.
            let serves_restarts =
                || key != "scratch" && !past_scratch && fs::read_dir(directory).is_ok();
            match ready {
                Err(error) if serves_restarts() => {
                    if os::logging::speaks_for_all() {
                        log::warn!(
                            "{error}: what is there can be restored, and nothing new is written there"
                        );
                    }
                }
                Err(error) => {
                    lacks(key, error)?;
                    past_scratch = true;
                }
                Ok(()) => {}
            }
        }
        if let (Some(scratch), Some(persistent)) = (&scratch, &persistent) {
            let same = fs::canonicalize(scratch).ok().zip(fs::canonicalize(persistent).ok());
            if same.is_some_and(|(scratch, persistent)| scratch == persistent) {
                return Err(Error::invalid(format!(
                    "scratch and persistent are the same directory, {}: to clean up the one would \
                     empty the other",
                    scratch.display()
                )));
            }
        }
        let known =
            directories.iter().filter_map(|(_, directory)| Known::now(directory.as_deref()?));
        let checksums = meta.clone().map(|meta| Arc::new(Checksums::new(meta, config.chksum)));
        let (known, others) = (known.collect(), [persistent.clone(), used]);
        let directories = [scratch, persistent, meta];
        let places = Places::new(directories, known, rank, (config.ephemeral, config.sync_files));
        let seen = SeenCompanions::none();
        let leftovers = Leftovers::new(&places, &seen);
        let looked = places.scratch().map(|scratch| leftovers.look_through_scratch(scratch));
        let others = others.iter().flatten();
        let removed = others.map(|directory| leftovers.remove_leftovers(directory));
        for error in looked.into_iter().chain(removed).filter_map(Result::err) {
            log::warn!("{error}");
        }
        let Config { proof, compress, incremental, .. } = *config;
        Ok(Files::on(Ground {
            places: Arc::new(places),
            warnings: Arc::default(),
            seen: Arc::new(seen),
            last: Arc::default(),
            checksums,
            tidied: Arc::default(),
            proven: Arc::default(),
            live: Arc::default(),
            made_whole: Arc::default(),
            settings: Settings { proof, compress, incremental },
            ranks: 0,
            wanted: Identity::UNKNOWN,
            is_successor: false,
        }))
    }
}
