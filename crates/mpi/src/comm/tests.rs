//! The calls against a stand-in MPI of two processes, of which this is rank 1, with both kinds of
//! handles.

use super::super::calls::MPI_SUCCESS;
use super::super::nonblocking::CollectiveQueue;
use super::*;
use std::cell::Cell;

thread_local! {
    /// The results of `MPI_Initialized` and `MPI_Finalized`.
    static STATE: Cell<(c_int, c_int)> = const { Cell::new((1, 0)) };
    /// The result of every other call.
    static CODE: Cell<c_int> = const { Cell::new(MPI_SUCCESS) };
}

const WORLD: usize = 0x4400_0000;
const COPY: usize = 0x8400_0001;
const NULL: usize = 0x0400_0000;

unsafe extern "C" fn initialized(flag: *mut c_int) -> c_int {
    // SAFETY: the caller hands in an integer of its own, here and below.
    unsafe { *flag = STATE.get().0 };
    MPI_SUCCESS
}

unsafe extern "C" fn finalized(flag: *mut c_int) -> c_int {
    // SAFETY: as above.
    unsafe { *flag = STATE.get().1 };
    MPI_SUCCESS
}

unsafe extern "C" fn rank<H: Handle>(comm: H, rank: *mut c_int) -> c_int {
    assert!([WORLD, COPY].contains(&comm.bits()));
    // SAFETY: as above.
    unsafe { *rank = 1 };
    CODE.get()
}

unsafe extern "C" fn size<H: Handle>(comm: H, size: *mut c_int) -> c_int {
    assert!([WORLD, COPY].contains(&comm.bits()));
    // SAFETY: as above.
    unsafe { *size = 2 };
    CODE.get()
}

unsafe extern "C" fn dup<H: Handle>(comm: H, copy: *mut H) -> c_int {
    assert_eq!(comm.bits(), WORLD);
    // SAFETY: as above.
    unsafe { *copy = H::from_bits(COPY) };
    CODE.get()
}

unsafe extern "C" fn free<H: Handle>(comm: *mut H) -> c_int {
    // SAFETY: as above.
    unsafe {
        assert_eq!((*comm).bits(), COPY);
        *comm = H::from_bits(NULL);
    }
    CODE.get()
}

unsafe extern "C" fn barrier<H: Handle>(comm: H) -> c_int {
    assert_eq!(comm.bits(), COPY);
    CODE.get()
}

/// The other process has 5.
unsafe extern "C" fn allreduce<H: Handle>(
    from: *const c_void,
    to: *mut c_void,
    count: c_int,
    kind: H,
    operation: H,
    comm: H,
) -> c_int {
    assert_eq!((kind.bits(), operation.bits(), comm.bits()), (11, 12, COPY));
    for at in 0..count as usize {
        // SAFETY: so many 64-bit integers each.
        unsafe { *to.cast::<i64>().add(at) = (*from.cast::<i64>().add(at)).min(5) };
    }
    CODE.get()
}

/// Rank 0 passes one byte less, all of them 7.
unsafe extern "C" fn allgather<H: Handle>(
    from: *const c_void,
    count: c_int,
    kind: H,
    to: *mut c_void,
    each: c_int,
    other_kind: H,
    comm: H,
) -> c_int {
    assert_eq!((count, kind.bits(), other_kind.bits(), comm.bits()), (each, 14, 14, COPY));
    let len = count as usize;
    // SAFETY: the caller hands in `count` bytes, and room for twice as many.
    let (own, all) = unsafe {
        let all = std::slice::from_raw_parts_mut(to.cast::<u8>(), 2 * len);
        (std::slice::from_raw_parts(from.cast::<u8>(), len), all)
    };
    all.fill(7);
    all[..4].copy_from_slice(&(len as u32 - 5).to_le_bytes());
    all[len..].copy_from_slice(own);
    CODE.get()
}

const REQUEST: usize = 0x2c00_0007;

/// The other process has 5 at each place.
unsafe extern "C" fn iallreduce<H: Handle>(
    from: *const c_void,
    to: *mut c_void,
    count: c_int,
    kind: H,
    operation: H,
    comm: H,
    request: *mut H,
) -> c_int {
    assert_eq!((kind.bits(), operation.bits(), comm.bits()), (11, 12, COPY));
    for place in 0..count as usize {
        // SAFETY: as many integers each.
        unsafe {
            *to.cast::<i64>().add(place) = (*from.cast::<i64>().add(place)).min(5);
        }
    }
    // SAFETY: as above.
    unsafe { *request = H::from_bits(REQUEST) };
    CODE.get()
}

/// Rank 0 passes 5.
#[allow(clippy::too_many_arguments)] // As MPI has it.
unsafe extern "C" fn iallgather<H: Handle>(
    from: *const c_void,
    one: c_int,
    kind: H,
    to: *mut c_void,
    each: c_int,
    other_kind: H,
    comm: H,
    request: *mut H,
) -> c_int {
    assert_eq!((one, each, kind.bits(), other_kind.bits(), comm.bits()), (1, 1, 11, 11, COPY));
    // SAFETY: one integer to read, two to write, and a request.
    unsafe {
        *to.cast::<i64>() = 5;
        *to.cast::<i64>().add(1) = *from.cast::<i64>();
        *request = H::from_bits(REQUEST);
    }
    CODE.get()
}

thread_local! {
    /// How often a request is tested before it is complete.
    static PATIENCE: Cell<u32> = const { Cell::new(0) };
}

unsafe extern "C" fn test<H: Handle>(
    request: *mut H,
    done: *mut c_int,
    status: *mut c_void,
) -> c_int {
    assert_eq!(status as usize, 13);
    // SAFETY: a request and an integer.
    unsafe {
        assert_eq!((*request).bits(), REQUEST);
        *done = c_int::from(PATIENCE.get() == 0);
    }
    PATIENCE.set(PATIENCE.get().saturating_sub(1));
    CODE.get()
}

unsafe extern "C" fn wait<H: Handle>(request: *mut H, status: *mut c_void) -> c_int {
    assert_eq!(status as usize, 13);
    // SAFETY: as above.
    unsafe { assert_eq!((*request).bits(), REQUEST) };
    CODE.get()
}

fn calls<H: Handle>() -> Calls<H> {
    Calls {
        comm_rank: rank::<H>,
        comm_size: size::<H>,
        comm_dup: dup::<H>,
        comm_free: free::<H>,
        barrier: barrier::<H>,
        allreduce: allreduce::<H>,
        allgather: allgather::<H>,
        iallreduce: iallreduce::<H>,
        iallgather: iallgather::<H>,
        test: test::<H>,
        wait: wait::<H>,
    }
}

fn stand_ins() -> [Mpi; 2] {
    [(Abi::Mpich, Table::Narrow(calls())), (Abi::Standard, Table::Wide(calls()))].map(
        |(abi, table)| Mpi {
            abi,
            table,
            initialized,
            finalized,
            comm_world: WORLD,
            comm_null: NULL,
            int64: 11,
            byte: 14,
            min: 12,
            status_ignore: 13,
        },
    )
}

fn world(mpi: &Mpi) -> Comm {
    // The upper half of a narrow handle is arbitrary.
    let dirt = if mpi.abi() == Abi::Mpich { 0xdead_beef << 32 } else { 0 };
    // SAFETY: the stand-in follows no pointer.
    unsafe { mpi.comm(WORLD | dirt) }.unwrap()
}

#[test]
fn there_is_none_in_this_process() {
    assert!(Mpi::find().is_none());
}

#[test]
fn calls_go_through_with_either_width() {
    for mpi in stand_ins() {
        let world = world(&mpi);
        assert_eq!((world.rank().unwrap(), world.size().unwrap()), (1, 2));
        let copy = world.dup().unwrap();
        copy.barrier().unwrap();
        assert_eq!(copy.allreduce_min_i64(7).unwrap(), 5);
        assert_eq!(copy.allreduce_min_i64(-7).unwrap(), -7);
        assert_eq!(copy.allreduce_min([7, -7, 5]).unwrap(), [5, -7, 5]);
        assert_eq!(copy.allgather(&[1, 2, 3]).unwrap(), [vec![7, 7], vec![1, 2, 3]]);
        copy.free().unwrap();
    }
}

/// Catches a result that is returned too early, or twice.
#[test]
fn calls_that_nobody_waits_for() {
    for mpi in stand_ins() {
        let copy = world(&mpi).dup().unwrap();
        PATIENCE.set(2);
        let mut least = copy.start_allreduce_min(&[7, -7, 5]).unwrap();
        assert_eq!(least.poll().unwrap(), None);
        assert_eq!(least.poll().unwrap(), None);
        assert_eq!(least.poll().unwrap().as_deref(), Some(&[5, -7, 5][..]));
        assert_eq!(least.poll().unwrap(), None);
        assert_eq!(least.wait().unwrap(), None);
        let mut all = copy.start_allgather(&[9]).unwrap();
        assert_eq!(all.wait().unwrap().as_deref(), Some(&[5, 9][..]));
        // Dropped without a wait: its buffers remain MPI's.
        drop(copy.start_allreduce_min(&[1]).unwrap());
        copy.free().unwrap();
    }
}

/// Catches results in the wrong order, a result that is returned twice, and a failed start that counts
/// as a call.
#[test]
fn a_queue_gives_results_in_order() {
    for mpi in stand_ins() {
        let mut queue = CollectiveQueue::over(world(&mpi).dup().unwrap());
        for value in 1..=3 {
            queue.begin(|comm| comm.start_allreduce_min(&[value])).unwrap();
        }
        CODE.set(13);
        assert!(queue.begin(|comm| comm.start_allreduce_min(&[4])).is_err());
        assert!(queue.poll().is_err());
        CODE.set(MPI_SUCCESS);
        assert_eq!(queue.begun(), 3);
        PATIENCE.set(1);
        assert_eq!(queue.poll().unwrap(), None);
        for value in 1..=3 {
            assert!(queue.is_pending());
            let next = if value == 2 { queue.wait() } else { queue.poll() };
            assert_eq!(next.unwrap().as_deref(), Some(&[value][..]));
        }
        assert!(!queue.is_pending());
        assert_eq!((queue.poll().unwrap(), queue.wait().unwrap()), (None, None));
    }
}

#[test]
fn no_communicator_is_an_error() {
    for mpi in stand_ins() {
        for handle in [0, NULL] {
            // SAFETY: the stand-in follows no pointer.
            assert!(unsafe { mpi.comm(handle) }.is_err());
        }
    }
}

#[test]
fn errors_name_the_function_and_the_code() {
    for mpi in stand_ins() {
        let world = world(&mpi);
        let copy = world.dup().unwrap();
        CODE.set(13);
        for (result, name) in [
            (world.rank().map(drop), "MPI_Comm_rank"),
            (world.size().map(drop), "MPI_Comm_size"),
            (world.dup().map(drop), "MPI_Comm_dup"),
            (copy.barrier(), "MPI_Barrier"),
            (copy.allreduce_min_i64(0).map(drop), "MPI_Allreduce"),
            (copy.allgather(&[1]).map(drop), "MPI_Allreduce"),
            (copy.start_allreduce_min(&[0]).map(drop), "MPI_Iallreduce"),
            (copy.free(), "MPI_Comm_free"),
        ] {
            let message = result.unwrap_err().to_string();
            assert_eq!(message, format!("{name} failed with code 13"));
        }
        CODE.set(MPI_SUCCESS);
    }
}

#[test]
fn nothing_is_called_unless_mpi_runs() {
    for mpi in stand_ins() {
        let world = world(&mpi);
        let copy = world.dup().unwrap();
        for (state, part) in [((0, 0), "before MPI_Init"), ((1, 1), "after MPI_Finalize")] {
            STATE.set(state);
            CODE.set(99);
            for result in [
                world.rank().map(drop),
                world.size().map(drop),
                world.dup().map(drop),
                copy.barrier(),
                copy.allreduce_min_i64(0).map(drop),
                copy.allgather(&[1]).map(drop),
            ] {
                let message = result.unwrap_err().to_string();
                assert!(message.contains(part), "{message}");
            }
        }
        copy.free().unwrap();
        STATE.set((1, 0));
        CODE.set(MPI_SUCCESS);
    }
}
