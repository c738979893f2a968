//! The application's communicators and types, and those that are freed and that replays still need.

use message_log_core::log::Call;
use message_log_core::memory::NoMemory;
use message_log_core::parts::CommOrigin;
use message_log_core::store::comms::Communicators;

use crate::comm_names::CommunicatorNames;
use crate::communicators;
use crate::deferred::{DeferredFrees, HandleKind};
use crate::mpi::MpiProperties;
use crate::stand_ins::StandIns;
use crate::types::RecentTypes;

/// Communicators and types.
#[derive(Debug, Default)]
pub(crate) struct MpiObjects {
    /// The datatypes in use.
    pub types: RecentTypes,
    /// Objects that are freed and that replays still need.
    pub deferred: DeferredFrees,
    /// Freed communicators that represent others in replays.
    pub stand_ins: StandIns,
    /// Descriptions of communicators for errors.
    pub names: CommunicatorNames,
    /// The communicators in the order in which they were made.
    pub comms: Communicators,
}

impl MpiObjects {
    /// None of the application's yet.
    pub(crate) fn new(mpi: &MpiProperties) -> MpiObjects {
        MpiObjects { types: RecentTypes::new(mpi), ..MpiObjects::default() }
    }

    /// Reserves room for one more communicator.
    ///
    /// # Errors
    /// Out of memory.
    pub(crate) fn reserve_comm(&mut self) -> Result<(), NoMemory> {
        self.names.reserve()?;
        self.stand_ins.reserve()?;
        self.comms.reserve()
    }

    /// `call` has made the communicator `handle` from `comm`. `origin` is `None` if nothing is logged.
    pub(crate) fn comm_made(
        &mut self,
        mpi: &MpiProperties,
        call: Call,
        comm: usize,
        handle: usize,
        origin: Option<CommOrigin>,
    ) {
        self.names.made(mpi, call, comm, handle);
        communicators::made(&mut self.comms, mpi, handle);
        self.stand_ins.made(handle, origin);
        self.stand_ins.forget(handle);
        if call.0.starts_with("MPI_Comm_dup") {
            self.stand_ins.duplicated(handle);
        }
    }

    /// A communicator is freed.
    pub(crate) fn forget_comm(&mut self, handle: usize) {
        self.names.forget(handle);
        self.comms.forget(handle);
        self.stand_ins.forget(handle);
    }

    /// Whether something may be freed if only instances from this number on are left.
    pub(crate) fn is_due(&self, first: Option<u64>) -> bool {
        self.deferred.is_due(first) || self.stand_ins.is_due(first)
    }

    /// Frees what no instance needs; `oldest` is the number of the oldest instance left. Returns what was
    /// freed.
    pub(crate) fn free(
        &mut self,
        mpi: &MpiProperties,
        oldest: Option<u64>,
    ) -> Vec<(HandleKind, usize)> {
        let stand_ins = self.stand_ins.free(mpi, oldest).into_iter();
        let mut freed: Vec<_> = stand_ins.map(|handle| (HandleKind::Comm, handle)).collect();
        freed.extend(self.deferred.free(mpi, oldest));
        freed
    }

    /// `MPI_Finalize` begins.
    pub(crate) fn close(&mut self, mpi: &MpiProperties) {
        self.types.clear();
        self.free(mpi, None);
    }
}
