//! The file levels: scratch on the node, persistent on the parallel file system.
//!
//! A checkpoint's file appears by a rename: it is seen whole or not at all. Its format is
//! upstream's (`format::header`).
//!
//! What there is to be done with files is in parts, each of which uses those before it alone:
//!
//! | | |
//! | --- | --- |
//! | **names** | [`Places`]: directories and paths · [`Warnings`]: what is said once · `age`: the order of versions · `companions`: notes and parities · [`Listing`]: which versions there are |
//! | **proofs** | `sums`: upstream's checksums · [`Proofs`]: what files get · [`Checks`]: what copies are compared with · [`Runs`]: who made them |
//! | **finding** | `routed`: files of the application's own · [`Copies`]: the nearest good one |
//! | **replacing** | [`Rights`]: what this job may change · `rebased`: what was taken from it |
//! | **publishing** | [`Scratch`] · [`Fetch`] · [`Attempts`], [`Aggregates`] and [`Rescue`]: one file for all processes · [`Persistent`] · [`Backlog`] |
//! | **removing** | [`Removal`] · `leftovers` of killed runs |
//!
//! [`Files`] has them all.

#![deny(clippy::disallowed_methods)]

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use config::{Compress, ProofPolicy};
use errors::Result;
use format::identity::Identity;
use os::sync::Mutex;

mod age;
mod aggregate;
mod aligned;
mod attempts;
mod backlog;
mod checksums;
mod companions;
mod directories;
mod expected;
mod fetch;
mod find;
mod hashing;
mod leftovers;
mod listing;
mod live;
mod naming;
mod note;
mod open;
mod opened;
#[cfg(test)]
mod other_users;
mod output;
mod persist;
mod places;
mod proofs;
mod proven;
mod publish;
mod rebased;
mod remove;
mod rescue;
mod rolls;
mod routed;
mod runs;
mod successor;
mod sums;
mod warnings;

use age::{Ages, LastTimes};
pub use aggregate::Aggregates;
pub use attempts::Attempts;
pub use backlog::Backlog;
use checksums::Checksums;
use companions::{Companions, SeenCompanions};
pub use directories::Inodes;
pub use expected::{refuse_holes, Checks};
pub use fetch::Fetch;
pub use find::{Copies, Target, Wanted};
pub use listing::Listing;
use live::Live;
pub use live::Rights;
pub use naming::{Names, Naming};
pub use note::read_note;
pub use opened::{Found, Opened};
pub use output::{Gathering, Output, Written};
pub use persist::Persistent;
pub use places::Places;
pub use proofs::Proofs;
use proven::Proven;
pub use publish::Scratch;
use rebased::{Bases, MadeWhole};
pub use remove::Removal;
pub use rescue::Rescue;
use routed::RoutedFiles;
pub use runs::Runs;
use sums::Sums;
pub use warnings::Warnings;

/// What all parts of [`Files`] stand on: whose files they are, and what this process knows of them.
#[derive(Clone, Debug)]
struct Ground {
    places: Arc<Places>,
    warnings: Arc<Warnings>,
    seen: Arc<SeenCompanions>,
    last: Arc<LastTimes>,
    checksums: Option<Arc<Checksums>>,
    /// Checkpoint names of which checksums of versions that are gone were looked for.
    tidied: Arc<Mutex<HashSet<String>>>,
    proven: Arc<Proven>,
    live: Arc<Live>,
    made_whole: Arc<MadeWhole>,
    settings: Settings,
    /// How many processes the job has; 0: not known.
    ranks: u32,
    /// Only copies that this run may have made are read.
    wanted: Identity,
    /// This process is the successor of another one.
    is_successor: bool,
}

/// What the configuration says of files.
#[derive(Clone, Copy, Debug)]
struct Settings {
    proof: ProofPolicy,
    compress: Compress,
    /// Files may have changes alone.
    incremental: bool,
}

/// The files of a process of a job, by what is done with them.
#[derive(Clone, Debug)]
pub struct Files {
    parts: Arc<Parts>,
}

/// The parts of [`Files`]. Those that others use, too, are shared with them.
#[derive(Debug)]
struct Parts {
    ground: Ground,
    listing: Arc<Listing>,
    proofs: Arc<Proofs>,
    checks: Arc<Checks>,
    runs: Arc<Runs>,
    copies: Arc<Copies>,
    rights: Arc<Rights>,
    scratch: Arc<Scratch>,
    fetch: Fetch,
    persistent: Persistent,
    backlog: Backlog,
    aggregates: Arc<Aggregates>,
    attempts: Arc<Attempts>,
    rescue: Rescue,
    removal: Removal,
}

impl Parts {
    /// The parts on this ground, from those that use none to those that use most.
    fn on(ground: Ground) -> Parts {
        let Settings { proof, compress, incremental } = ground.settings;
        let (ranks, live) = (ground.ranks, ground.live.clone());
        let warnings = || ground.warnings.clone();
        let places = || ground.places.clone();
        let listing = Arc::new(Listing::new(places(), warnings()));
        let companions = Arc::new(Companions::new(places(), ground.seen.clone()));
        let ages = Arc::new(Ages::new(places(), warnings(), ground.last.clone()));
        let (checksums, tidied) = (ground.checksums.clone(), ground.tidied.clone());
        let sums = Arc::new(Sums::new(places(), listing.clone(), checksums, tidied));
        let below = || (places(), warnings(), sums.clone());
        let proofs = Arc::new(Proofs::new(below(), ranks, (proof, compress, incremental)));
        let checks = Arc::new(Checks::new(below(), ground.proven.clone(), ranks, proof));
        let runs = Arc::new(Runs::new(places(), ground.wanted, proof));
        let routed = Arc::new(RoutedFiles::new(below(), checks.clone(), runs.clone()));
        let copies = Copies::new(below(), checks.clone(), runs.clone(), routed.clone());
        let copies = Arc::new(copies);
        let rights = (places(), warnings(), listing.clone());
        let rights = Arc::new(Rights::new(rights, live, ranks, proof));
        let bases = Arc::new(Bases::new(
            (places(), ages.clone(), companions.clone()),
            (listing.clone(), sums.clone(), rights.clone()),
            (proofs.clone(), checks.clone(), copies.clone()),
            ground.made_whole.clone(),
        ));
        let scratch = Arc::new(Scratch::new(
            (places(), ages.clone(), companions.clone()),
            (sums.clone(), proofs.clone()),
            bases.clone(),
        ));
        let fetch = (places(), warnings(), proofs.clone());
        let fetch = Fetch::new(fetch, runs.clone(), routed.clone(), scratch.clone());
        let attempts = Arc::new(Attempts::new(places(), listing.clone()));
        let aggregates = Arc::new(Aggregates::new(
            (places(), ages.clone(), listing.clone()),
            (sums.clone(), proofs.clone(), rights.clone()),
            bases.clone(),
            attempts.clone(),
        ));
        let persistent = Persistent::new(
            (places(), ages.clone()),
            (sums.clone(), proofs.clone()),
            bases.clone(),
            aggregates.clone(),
        );
        let backlog = Backlog::new(
            (places(), listing.clone()),
            (sums.clone(), proofs.clone(), checks.clone()),
            routed,
            bases,
        );
        let rescue = (places(), ages, listing.clone());
        let rescue = Rescue::new(rescue, proofs.clone(), attempts.clone(), ground.is_successor);
        let removal = Removal::new((places(), companions, listing.clone()), sums);
        Parts {
            ground,
            listing,
            proofs,
            checks,
            runs,
            copies,
            rights,
            scratch,
            fetch,
            persistent,
            backlog,
            aggregates,
            attempts,
            rescue,
            removal,
        }
    }
}

impl Files {
    fn on(ground: Ground) -> Files {
        Files { parts: Arc::new(Parts::on(ground)) }
    }

    /// These files, for a job of `ranks` processes.
    pub fn of_job(self, ranks: u32) -> Files {
        Files::on(Ground { ranks, ..self.parts.ground.clone() })
    }

    /// These directories as another rank of the job sees them.
    pub fn of_rank(&self, rank: u32) -> Files {
        let places = Arc::new(self.parts.ground.places.of_rank(rank));
        let seen = Arc::new(SeenCompanions::any());
        // What a job with another number of processes has left may be read on purpose.
        Files::on(Ground { places, seen, ranks: 0, ..self.parts.ground.clone() })
    }

    /// Persistent as a rank of a job of any number of processes sees it; nothing else is read.
    pub fn in_persistent(&self, rank: u32) -> Files {
        let places = Arc::new(self.parts.ground.places.of_rank(rank).without_scratch());
        let seen = Arc::new(SeenCompanions::any());
        Files::on(Ground { places, seen, ranks: 0, ..self.parts.ground.clone() })
    }

    /// These files, of which only copies that this run may have made are read.
    pub fn of_run(&self, identity: Identity) -> Files {
        match self.parts.ground.wanted == identity {
            true => self.clone(),
            false => Files::on(Ground { wanted: identity, ..self.parts.ground.clone() }),
        }
    }

    /// Whether these are of a process that has ended.
    pub fn goes_on_for_another(&self) -> bool {
        self.parts.ground.is_successor
    }

    /// From here on there may be parity files.
    pub fn expect_parities(&self) {
        self.parts.ground.seen.expect_parities();
    }

    /// The versions whose files in scratch have got everything since the last call, and have no parities; and whether
    /// they had some.
    pub fn take_made_whole(&self) -> Vec<(String, i32, bool)> {
        self.parts.ground.made_whole.take()
    }

    /// Checks that the file at `path` is that checkpoint of that rank.
    ///
    /// # Errors
    /// [`errors::ErrorKind::Corrupt`] if it is not; else the system's. Both name the path.
    pub fn check_foreign(&self, path: &Path, name: &str, version: i32, rank: u32) -> Result<()> {
        let of_other = self.of_rank(rank);
        of_other.checks().checked(Opened::read(path)?, name, version, || Ok(())).map(drop)
    }

    /// Where they are.
    pub fn places(&self) -> &Places {
        &self.parts.ground.places
    }

    /// What is said of them once.
    pub fn warnings(&self) -> &Warnings {
        &self.parts.ground.warnings
    }

    /// Which versions there are.
    pub fn listing(&self) -> &Listing {
        &self.parts.listing
    }

    /// What proves that they are what was written.
    pub fn proofs(&self) -> &Proofs {
        &self.parts.proofs
    }

    /// How they are compared with that.
    pub fn checks(&self) -> &Checks {
        &self.parts.checks
    }

    /// Which runs have made them.
    pub fn runs(&self) -> &Runs {
        &self.parts.runs
    }

    /// The copies of a version, to be read.
    pub fn copies(&self) -> &Copies {
        &self.parts.copies
    }

    /// What this job may change.
    pub fn rights(&self) -> &Rights {
        &self.parts.rights
    }

    /// How those in scratch get their names.
    pub fn scratch(&self) -> &Scratch {
        &self.parts.scratch
    }

    /// How the application's own come back to scratch.
    pub fn fetch(&self) -> &Fetch {
        &self.parts.fetch
    }

    /// How those in persistent come.
    pub fn persistent(&self) -> &Persistent {
        &self.parts.persistent
    }

    /// What an earlier job has not copied to persistent.
    pub fn backlog(&self) -> &Backlog {
        &self.parts.backlog
    }

    /// Those that all processes of a job share.
    pub fn aggregates(&self) -> &Aggregates {
        &self.parts.aggregates
    }

    /// What is left of such that were not completed.
    pub fn attempts(&self) -> &Attempts {
        &self.parts.attempts
    }

    /// How the parts of those become files of their own.
    pub fn rescue(&self) -> &Rescue {
        &self.parts.rescue
    }

    /// How they go.
    pub fn removal(&self) -> &Removal {
        &self.parts.removal
    }
}
