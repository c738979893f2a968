//! What is open, and what may be done then.

use super::distributed::Pieces;
use super::routed::RoutedFile;
use engine::restore::Restoring;
use engine::{Engine, Open};
use errors::{Error, Result};
use trace::{Activity, Recorder, Span};

/// What is open: a checkpoint or a restart between its begin and its end.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "a client has one, in its own memory")]
pub(super) enum Phase {
    /// Nothing.
    Idle,
    /// A checkpoint; `routed`: of a file of the application's own, `failed`: regions that were asked for could not be captured.
    Checkpoint { open: Open, routed: Option<RoutedFile>, failed: bool },
    /// A restart; with `pieces` from the files of several ranks.
    Restart { restoring: Restoring, pieces: Option<Pieces> },
}

impl Phase {
    /// Leaves what was open: nothing is from here on.
    pub(super) fn take(&mut self) -> Phase {
        std::mem::replace(self, Phase::Idle)
    }

    /// # Errors
    /// Something is open.
    pub(super) fn must_be_idle(&self) -> Result<()> {
        match self {
            Phase::Idle => Ok(()),
            Phase::Checkpoint { open, .. } => Err(Error::invalid(format!(
                "checkpoint \"{}\" version {} is open: end it first (VELOC_Checkpoint_end)",
                open.name, open.version
            ))),
            Phase::Restart { restoring, .. } => Err(Error::invalid(format!(
                "the restart of \"{}\" version {} is open: end it first (VELOC_Restart_end)",
                restoring.name, restoring.version
            ))),
        }
    }

    /// The checkpoint that is open.
    pub(super) fn checkpoint(&self) -> Result<&Open> {
        match self {
            Phase::Checkpoint { open, .. } => Ok(open),
            _ => Err(Error::invalid("there is no open checkpoint (VELOC_Checkpoint_begin)")),
        }
    }

    /// Whether a checkpoint that is ended with 0 is kept: one of memory whose regions were captured, as VELOC keeps
    /// it. Of a file nobody knows whether it is whole: a torn one must not be offered.
    pub(super) fn is_kept_at_zero(&self, engine: &Engine) -> bool {
        match self {
            Phase::Checkpoint { open, routed: Some(routed), .. } => {
                engine.files().warnings().once(format!(
                    "checkpoint \"{}\" version {}, the file {}, is given up: VELOC_Checkpoint_end(0) says that it \
                     was not written; pass 1 to keep it (VELOC_SUCCESS is 0)",
                    open.name, open.version, routed.original
                ));
                false
            }
            Phase::Checkpoint { open, failed: false, .. } if !open.regions.is_empty() => {
                engine.telemetry().degrade(
                    "checkpoint_end",
                    format!(
                        "VELOC_Checkpoint_end(0): checkpoint \"{}\" version {} has its regions and is kept, as \
                         upstream keeps it; pass VELOC_FAILURE to give one up",
                        open.name, open.version
                    ),
                );
                true
            }
            _ => false,
        }
    }

    /// The restart that is open.
    pub(super) fn restoring(&self) -> Result<&Restoring> {
        match self {
            Phase::Restart { restoring, .. } => Ok(restoring),
            _ => Err(Error::invalid("there is no open restart (VELOC_Restart_begin)")),
        }
    }

    /// The files of several ranks that the open restart reads, if it does.
    pub(super) fn pieces(&self) -> Option<&Pieces> {
        match self {
            Phase::Restart { pieces, .. } => pieces.as_ref(),
            _ => None,
        }
    }

    /// A span about the checkpoint or restart that is open.
    pub(super) fn span<'a>(&self, trace: &'a Recorder, activity: Activity) -> Span<'a> {
        let span = trace.span(activity);
        match self {
            Phase::Idle => span,
            Phase::Checkpoint { open, .. } => span.of(&open.name, open.version),
            Phase::Restart { restoring, .. } => span.of(&restoring.name, restoring.version),
        }
    }
}
