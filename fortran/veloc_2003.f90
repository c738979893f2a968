! The Fortran interface in Fortran 2003: module veloc_2003.
!
! Names and argument orders are those of VELOC's own module of 2018. A procedure that VELOC lacks has the name of the
! C function that it calls, and gives its result as the last argument. Every text is trimmed. VELOC_Last_error gives
! the reason of a failure.
!
! Memory is protected by its address: VELOC_Mem_protect(id, c_loc(array), size(array), VELOC_REAL8, err). The module
! veloc (veloc.f90, Fortran 2018) has all of this, and takes arrays themselves.
!
! This file needs no MPI: VELOC_Init takes the communicator as an integer, as `use mpi` has it; with `use mpi_f08`
! pass comm%MPI_VAL.
!
! Compile this file with the compiler of the program that uses it, and with the same kind of default integers
! (gfortran and flang: -fdefault-integer-8). If these have 64 bits, the library refuses a number that C's int cannot
! hold.
module veloc_2003
  use, intrinsic :: iso_c_binding, only: c_bool, c_char, c_double, c_f_pointer, c_funloc, &
      c_funptr, c_int, c_int64_t, c_int8_t, c_loc, c_null_char, c_null_funptr, &
      c_null_ptr, c_ptr, c_size_t
  implicit none
  private

  ! The call did what it says.
  integer, parameter, public :: VELOC_SCES = 0
  ! The call failed. It changed nothing, unless its description says so.
  integer, parameter, public :: VELOC_NSCS = -1
  ! Characters of a variable for what VELOC_Route_file gives.
  integer, parameter, public :: VELOC_MAX_NAME = 1024
  ! Which regions a selective call is about: all, those listed, those not listed.
  integer, parameter, public :: VELOC_CKPT_ALL = 0, VELOC_CKPT_SOME = 1, VELOC_CKPT_REST = 2
  integer, parameter, public :: VELOC_RECOVER_ALL = 0, VELOC_RECOVER_SOME = 1, &
      VELOC_RECOVER_REST = 2
  ! How VELOC_Checkpoint takes a region in host memory: as the key host_capture says; ...
  integer, parameter, public :: VELOC_CAPTURE_AUTO = 0, VELOC_CAPTURE_COPY = 1, &
      VELOC_CAPTURE_PROTECT = 2, VELOC_CAPTURE_FORK = 3
  ! How a region is compressed: not at all, without loss, or to 8, 12 or 16 bits for each value.
  ! VELOC_COMPRESS_RELATIVE is added to one of the last three: the bound is relative.
  integer, parameter, public :: VELOC_COMPRESS_NONE = 0, VELOC_COMPRESS_8 = 8, &
      VELOC_COMPRESS_12 = 12, VELOC_COMPRESS_16 = 16, VELOC_COMPRESS_RELATIVE = 256, &
      VELOC_COMPRESS_LOSSLESS = 64
  ! Bytes of an element, for the form of VELOC_Mem_protect that takes an address.
  integer, parameter, public :: VELOC_CHARACTER1 = 1, VELOC_COMPLEX4 = 8, VELOC_COMPLEX8 = 16, &
      VELOC_INTEGER1 = 1, VELOC_INTEGER2 = 2, VELOC_INTEGER4 = 4, VELOC_INTEGER8 = 8, &
      VELOC_LOGICAL1 = 1, VELOC_REAL4 = 4, VELOC_REAL8 = 8

  public :: VELOC_Init, VELOC_Init_options, VELOC_Init_single, VELOC_Init_single_options
  public :: VELOC_Finalize, VELOC_Last_error, VELOC_Set_stream
  public :: VELOC_Mem_protect, VELOC_Mem_protect_list, VELOC_Mem_unprotect, VELOC_Mem_clear
  public :: VELOC_Mem_capture, VELOC_Mem_compress, VELOC_Mem_decompose
  public :: VELOC_Region_protect, VELOC_Region_unprotect, VELOC_Region_clear
  public :: VELOC_Route_file, VELOC_Cleanup
  public :: VELOC_Checkpoint, VELOC_Checkpoint_begin, VELOC_Checkpoint_mem, &
      VELOC_Checkpoint_selective, VELOC_Checkpoint_end, VELOC_Checkpoint_wait, &
      VELOC_Checkpoint_finished
  public :: VELOC_Restart_test, VELOC_Restart, VELOC_Restart_begin, VELOC_Recover_size, &
      VELOC_Recover_mem, VELOC_Recover_selective, VELOC_Restart_end
  public :: VELOC_Prefetch_enqueue, VELOC_Prefetch_start, VELOC_Next_prefetched, &
      VELOC_Recover_ckpt_size

  ! Joins a job: (comm, config_file, err). A communicator has the kind of MPI's integers, which may differ from the
  ! program's.
  interface VELOC_Init
    procedure init_int, init_long
  end interface

  ! The same with options in place of a file: (comm, keys, values, err), two arrays of text.
  interface VELOC_Init_options
    procedure init_options_int, init_options_long
  end interface

  ! VELOC_Option of C.
  type, bind(c) :: option
    type(c_ptr) :: key, value
  end type

  ! Protects `count` elements of `size` bytes at an address on the host or the device: (id, c_ptr, count, size, err).
  ! count and size may have 32 or 64 bits each, so that c_sizeof() and c_size_t will do.
  interface VELOC_Mem_protect
    procedure protect_address, protect_address_size, protect_address_count, protect_address_both
  end interface

  ! A region of VELOC_Mem_protect_list: `count` elements of `base_size` bytes at `ptr`.
  type, bind(c), public :: VELOC_Region
    integer(c_int64_t) :: id
    type(c_ptr) :: ptr
    integer(c_int64_t) :: count, base_size
  end type

  ! Says which part of an array that the processes share a region is: (id, global_sizes, offsets, sizes, element_size,
  ! err), with one number for each dimension, all of 32 or all of 64 bits. As in Fortran, the first dimension changes
  ! fastest; offsets are the numbers of elements before the part.
  interface VELOC_Mem_decompose
    procedure decompose_int, decompose_long
  end interface

  ! The same for the checkpoints of one name alone. The name stands before err.
  interface VELOC_Region_protect
    procedure protect_own_address, protect_own_address_size, protect_own_address_count, &
        protect_own_address_both
  end interface

  interface
    integer(c_int) function c_init(comm, config) bind(c, name='VELOC_Init_fortran')
      import :: c_int, c_char
      integer(c_int), value :: comm
      character(kind=c_char), intent(in) :: config(*)
    end function
    integer(c_int) function c_init_single(id, config) bind(c, name='VELOC_Init_single')
      import :: c_int, c_char
      integer(c_int), value :: id
      character(kind=c_char), intent(in) :: config(*)
    end function
    integer(c_int) function c_init_options(comm, options, n) &
        bind(c, name='VELOC_Init_options_fortran')
      import :: c_int, c_size_t, option
      integer(c_int), value :: comm
      type(option), intent(in) :: options(*)
      integer(c_size_t), value :: n
    end function
    integer(c_int) function c_init_single_options(id, options, n) &
        bind(c, name='VELOC_Init_single_options')
      import :: c_int, c_size_t, option
      integer(c_int), value :: id
      type(option), intent(in) :: options(*)
      integer(c_size_t), value :: n
    end function
    integer(c_int) function c_finalize(drain) bind(c, name='VELOC_Finalize')
      import :: c_int
      integer(c_int), value :: drain
    end function
    type(c_ptr) function c_last_error() bind(c, name='VELOC_Last_error')
      import :: c_ptr
    end function
    integer(c_int) function c_set_stream(stream) bind(c, name='VELOC_Set_stream')
      import :: c_int, c_ptr
      type(c_ptr), value :: stream
    end function
    integer(c_int) function c_protect(id, address, count, size, name) &
        bind(c, name='VELOC_Fortran_protect')
      import :: c_int, c_ptr, c_int64_t, c_char
      integer(c_int), value :: id
      type(c_ptr), value :: address
      integer(c_int64_t), value :: count, size
      character(kind=c_char), intent(in) :: name(*)
    end function
    ! Fails a call for this reason.
    integer(c_int) function c_refuse(call, reason) bind(c, name='VELOC_Fortran_refuse')
      import :: c_int, c_char
      character(kind=c_char), intent(in) :: call(*), reason(*)
    end function
    ! Keeps the reason why a number is refused.
    integer(c_int) function c_refuse_number(what, number) bind(c, name='VELOC_Fortran_refuse_number')
      import :: c_int, c_char, c_int64_t
      character(kind=c_char), intent(in) :: what(*)
      integer(c_int64_t), value :: number
    end function
    integer(c_int) function c_protect_list(list, n) bind(c, name='VELOC_Fortran_protect_list')
      import :: c_int, c_size_t, VELOC_Region
      type(VELOC_Region), intent(in) :: list(*)
      integer(c_size_t), value :: n
    end function
    integer(c_int) function c_unprotect(id) bind(c, name='VELOC_Mem_unprotect')
      import :: c_int
      integer(c_int), value :: id
    end function
    integer(c_int) function c_clear() bind(c, name='VELOC_Mem_clear')
      import :: c_int
    end function
    integer(c_int) function c_region_unprotect(id, name) bind(c, name='VELOC_Region_unprotect')
      import :: c_int, c_char
      integer(c_int), value :: id
      character(kind=c_char), intent(in) :: name(*)
    end function
    integer(c_int) function c_region_clear(name) bind(c, name='VELOC_Region_clear')
      import :: c_int, c_char
      character(kind=c_char), intent(in) :: name(*)
    end function
    integer(c_int) function c_route_file(original, routed) bind(c, name='VELOC_Route_file')
      import :: c_int, c_char
      character(kind=c_char), intent(in) :: original(*)
      character(kind=c_char), intent(out) :: routed(*)
    end function
    integer(c_int) function c_cleanup(name) bind(c, name='VELOC_Cleanup')
      import :: c_int, c_char
      character(kind=c_char), intent(in) :: name(*)
    end function
    integer(c_int) function c_checkpoint(name, version) bind(c, name='VELOC_Checkpoint')
      import :: c_int, c_char
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int), value :: version
    end function
    integer(c_int) function c_checkpoint_begin(name, version) bind(c, name='VELOC_Checkpoint_begin')
      import :: c_int, c_char
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int), value :: version
    end function
    integer(c_int) function c_checkpoint_mem() bind(c, name='VELOC_Checkpoint_mem')
      import :: c_int
    end function
    integer(c_int) function c_checkpoint_selective(mode, ids, count) &
        bind(c, name='VELOC_Checkpoint_selective')
      import :: c_int
      integer(c_int), value :: mode, count
      integer(c_int), intent(in) :: ids(*)
    end function
    integer(c_int) function c_checkpoint_end(success) bind(c, name='VELOC_Checkpoint_end')
      import :: c_int
      integer(c_int), value :: success
    end function
    integer(c_int) function c_checkpoint_wait() bind(c, name='VELOC_Checkpoint_wait')
      import :: c_int
    end function
    integer(c_int) function c_checkpoint_finished() bind(c, name='VELOC_Checkpoint_finished')
      import :: c_int
    end function
    integer(c_int) function c_mem_capture(id, mode) bind(c, name='VELOC_Mem_capture')
      import :: c_int
      integer(c_int), value :: id, mode
    end function
    integer(c_int) function c_mem_compress(id, mode, bound) bind(c, name='VELOC_Mem_compress')
      import :: c_int, c_double
      integer(c_int), value :: id, mode
      real(c_double), value :: bound
    end function
    integer(c_int) function c_mem_decompose(id, dimensions, global_sizes, offsets, sizes, &
        element_size) bind(c, name='VELOC_Mem_decompose')
      import :: c_int, c_size_t
      integer(c_int), value :: id, dimensions
      integer(c_size_t), intent(in) :: global_sizes(*), offsets(*), sizes(*)
      integer(c_size_t), value :: element_size
    end function
    integer(c_int) function c_restart_test(name, version) bind(c, name='VELOC_Restart_test')
      import :: c_int, c_char
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int), value :: version
    end function
    integer(c_int) function c_restart(name, version) bind(c, name='VELOC_Restart')
      import :: c_int, c_char
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int), value :: version
    end function
    integer(c_int) function c_restart_begin(name, version) bind(c, name='VELOC_Restart_begin')
      import :: c_int, c_char
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int), value :: version
    end function
    integer(c_int) function c_recover_size(id) bind(c, name='VELOC_Recover_size')
      import :: c_int
      integer(c_int), value :: id
    end function
    integer(c_int) function c_recover_mem() bind(c, name='VELOC_Recover_mem')
      import :: c_int
    end function
    integer(c_int) function c_recover_selective(mode, ids, count) &
        bind(c, name='VELOC_Recover_selective')
      import :: c_int
      integer(c_int), value :: mode, count
      integer(c_int), intent(in) :: ids(*)
    end function
    integer(c_int) function c_restart_end(success) bind(c, name='VELOC_Restart_end')
      import :: c_int
      integer(c_int), value :: success
    end function
    integer(c_int) function c_prefetch_enqueue(name, version) bind(c, name='VELOC_Prefetch_enqueue')
      import :: c_int, c_char
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int), value :: version
    end function
    integer(c_int) function c_prefetch_start() bind(c, name='VELOC_Prefetch_start')
      import :: c_int
    end function
    logical(c_bool) function c_next_prefetched(name, version, id) &
        bind(c, name='VELOC_Next_prefetched')
      import :: c_int, c_char, c_bool
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int), value :: version, id
    end function
    integer(c_size_t) function c_recover_ckpt_size(name, version, id) &
        bind(c, name='VELOC_Recover_ckpt_size')
      import :: c_int, c_char, c_size_t
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int), value :: version, id
    end function
    integer(c_size_t) function c_strlen(text) bind(c, name='strlen')
      import :: c_ptr, c_size_t
      type(c_ptr), value :: text
    end function
  end interface

  ! No name of a checkpoint: it stands for the regions of all names.
  character(kind=c_char), parameter :: ANY_NAME(1) = [c_null_char]

  ! --- adjoint computations -------------------------------------------------------------------

  ! The run stopped as it was asked to. The same call goes on with it, also in a later job.
  integer, parameter, public :: VELOC_STOPPED = 1
  ! What memory is part of: each stored state, or each stored adjoint.
  integer, parameter, public :: VELOC_ADJOINT_STATE = 0, VELOC_ADJOINT_GRADIENT = 1
  ! Flags: none, or compare each state that is computed again with what it was.
  integer, parameter, public :: VELOC_DEFAULT = 0, VELOC_VERIFY_REPLAY = 1

  public :: VELOC_Adjoint, VELOC_Adjoint_protects, VELOC_Adjoint_forwards, &
      VELOC_Adjoint_reverses, VELOC_Adjoint_hashes
  public :: VELOC_Adjoint_run, VELOC_Adjoint_protect, VELOC_Adjoint_compress, VELOC_Adjoint_stop
  public :: VELOC_Adjoint_discard

  ! The program's procedures. `err` is VELOC_SCES when they are called; any other number ends the run.
  abstract interface
    ! Protects the memory of the state and of the adjoint, by VELOC_Adjoint_protect. Called first.
    subroutine VELOC_Adjoint_protects(err)
      integer, intent(inout) :: err
    end subroutine
    ! Computes the states from `from` to `to`, without recording. The program has state `from` before and state `to`
    ! after. It must compute the same states each time.
    subroutine VELOC_Adjoint_forwards(from, to, err)
      import :: c_int64_t
      integer(c_int64_t), intent(in) :: from, to
      integer, intent(inout) :: err
    end subroutine
    ! Computes step `step` from state `step - 1`, which the program has, recording it, and takes the adjoint's step
    ! from state `step` to state `step - 1`. The last step of all begins the adjoint before that. The state may be
    ! anything after that.
    subroutine VELOC_Adjoint_reverses(step, err)
      import :: c_int64_t
      integer(c_int64_t), intent(in) :: step
      integer, intent(inout) :: err
    end subroutine
    ! Gives a hash of the state that the program has.
    subroutine VELOC_Adjoint_hashes(hash, err)
      import :: c_int64_t
      integer(c_int64_t), intent(out) :: hash
      integer, intent(inout) :: err
    end subroutine
  end interface

  ! An adjoint computation: what veloc/adjoint.h says of VELOC_Adjoint. States are numbered from 0 to `steps`, and
  ! step i goes from state i - 1 to state i. A member that is not given counts as zero. The procedures are those of a
  ! module, or external.
  type :: VELOC_Adjoint
    ! The name of the stored states, of at most 119 bytes. Stored adjoints have the name <name>.adjoint, hashes of
    ! states <name>.hashes.
    character(len=256) :: name = ''
    ! Steps, and states that are stored at a time; both 1 or more.
    integer(c_int64_t) :: steps = 0, slots = 0
    ! How many steps stored states may be apart; 0: any number.
    integer(c_int64_t) :: resilience_distance = 0
    ! After how many of its steps the adjoint is stored; 0: as the resilience distance.
    integer(c_int64_t) :: adjoint_distance = 0
    ! Where states are stored: one of VELOC_RULE_* of the module veloc_schedules, 0 for the least number of
    ! steps.
    integer :: rule = 0
    ! VELOC_DEFAULT or VELOC_VERIFY_REPLAY.
    integer :: flags = VELOC_DEFAULT
    ! After so many seconds the run stops, so that a later one can go on; 0: no limit.
    real(c_double) :: time_limit = 0
    ! Tells this computation from others of the same name: the iteration of an optimisation, say.
    integer(c_int64_t) :: tag = 0
    procedure(VELOC_Adjoint_protects), pointer, nopass :: protect => null()
    procedure(VELOC_Adjoint_forwards), pointer, nopass :: forward => null()
    procedure(VELOC_Adjoint_reverses), pointer, nopass :: adjoint => null()
    ! Used for VELOC_VERIFY_REPLAY, and to compare state 0 when a run goes on. Without it the library hashes or
    ! compares the memory of the state.
    procedure(VELOC_Adjoint_hashes), pointer, nopass :: hash => null()
    ! The mean time between failures, how long it takes to store the adjoint, and how long it takes to record and
    ! reverse a step; all in forward steps. If they are given, the adjoint is stored where a failure would cost more
    ! work than the write, instead of every adjoint_distance steps.
    real(c_double) :: mtbf = 0, write_cost = 0, turn_cost = 0
  end type

  ! Protects `count` elements of `size` bytes at an address: (what, id, c_ptr, count, size, err); see
  ! VELOC_Mem_protect. `what` is VELOC_ADJOINT_STATE or VELOC_ADJOINT_GRADIENT, each with ids of its own.
  interface VELOC_Adjoint_protect
    procedure protect_part_address, protect_part_address_size, protect_part_address_count, &
        protect_part_address_both
  end interface

  ! VELOC_Adjoint of veloc/adjoint.h.
  type, bind(c) :: c_adjoint
    integer(c_size_t) :: size
    type(c_ptr) :: name
    integer(c_int64_t) :: steps, slots, resilience_distance, adjoint_distance
    integer(c_int) :: rule, flags
    real(c_double) :: time_limit
    integer(c_int64_t) :: tag
    type(c_ptr) :: user
    type(c_funptr) :: protect, forward, adjoint, hash
    real(c_double) :: mtbf, write_cost, turn_cost
  end type

  interface
    integer(c_int) function c_adjoint_run(what) bind(c, name='VELOC_Adjoint_run')
      import :: c_int, c_adjoint
      type(c_adjoint), intent(in) :: what
    end function
    integer(c_int) function c_adjoint_protect(what, id, address, count, size) &
        bind(c, name='VELOC_Fortran_adjoint_protect')
      import :: c_int, c_ptr, c_int64_t
      integer(c_int), value :: what, id
      type(c_ptr), value :: address
      integer(c_int64_t), value :: count, size
    end function
    integer(c_int) function c_adjoint_compress(id, mode, bound) bind(c, name='VELOC_Adjoint_compress')
      import :: c_int, c_double
      integer(c_int), value :: id, mode
      real(c_double), value :: bound
    end function
    integer(c_int) function c_adjoint_stop() bind(c, name='VELOC_Adjoint_stop')
      import :: c_int
    end function
    integer(c_int) function c_adjoint_discard(name) bind(c, name='VELOC_Adjoint_discard')
      import :: c_int, c_char
      character(kind=c_char), intent(in) :: name(*)
    end function
  end interface

contains

  ! A text as C has it.
  pure function c_text(text)
    character(len=*), intent(in) :: text
    character(kind=c_char) :: c_text(len_trim(text) + 1)
    integer :: i
    do i = 1, len_trim(text)
      c_text(i) = text(i:i)
    end do
    c_text(len_trim(text) + 1) = c_null_char
  end function

  ! Whether C's int can hold the number. If not, the call that it was given to has failed.
  logical function fits(what, number, err)
    character(len=*), intent(in) :: what
    integer, intent(in) :: number
    integer, intent(out) :: err
    fits = long_fits(what, int(number, c_int64_t), err)
  end function

  logical function long_fits(what, number, err)
    character(len=*), intent(in) :: what
    integer(c_int64_t), intent(in) :: number
    integer, intent(out) :: err
    integer(c_int64_t), parameter :: MOST = huge(0_c_int)
    err = VELOC_SCES
    long_fits = -MOST - 1 <= number .and. number <= MOST
    if (.not. long_fits) err = c_refuse_number(c_text(what), number)
  end function

  ! The same of several.
  logical function all_fit(what, numbers, err)
    character(len=*), intent(in) :: what
    integer, intent(in) :: numbers(:)
    integer, intent(out) :: err
    integer :: i
    all_fit = .true.
    err = VELOC_SCES
    do i = 1, size(numbers)
      all_fit = fits(what, numbers(i), err)
      if (.not. all_fit) return
    end do
  end function

  ! --- the job --------------------------------------------------------------------------------

  subroutine init_int(comm, config_file, err)
    integer(c_int), intent(in) :: comm
    character(len=*), intent(in) :: config_file
    integer, intent(out) :: err
    err = c_init(comm, c_text(config_file))
  end subroutine

  subroutine init_long(comm, config_file, err)
    integer(c_int64_t), intent(in) :: comm
    character(len=*), intent(in) :: config_file
    integer, intent(out) :: err
    if (long_fits('comm', comm, err)) err = c_init(int(comm, c_int), c_text(config_file))
  end subroutine

  subroutine VELOC_Init_single(id, config_file, err)
    integer, intent(in) :: id
    character(len=*), intent(in) :: config_file
    integer, intent(out) :: err
    if (fits('id', id, err)) err = c_init_single(int(id, c_int), c_text(config_file))
  end subroutine

  subroutine init_options_int(comm, keys, values, err)
    integer(c_int), intent(in) :: comm
    character(len=*), intent(in) :: keys(:), values(:)
    integer, intent(out) :: err
    call start(.true., comm, keys, values, err)
  end subroutine

  subroutine init_options_long(comm, keys, values, err)
    integer(c_int64_t), intent(in) :: comm
    character(len=*), intent(in) :: keys(:), values(:)
    integer, intent(out) :: err
    if (long_fits('comm', comm, err)) call start(.true., int(comm, c_int), keys, values, err)
  end subroutine

  subroutine VELOC_Init_single_options(id, keys, values, err)
    integer, intent(in) :: id
    character(len=*), intent(in) :: keys(:), values(:)
    integer, intent(out) :: err
    if (fits('id', id, err)) call start(.false., int(id, c_int), keys, values, err)
  end subroutine

  ! Starts a job by options, over a communicator or with the number of a single process. Another number of
  ! values than of keys goes on as one option without a value, so that all processes of a job hear of it.
  subroutine start(over_comm, number, keys, values, err)
    logical, intent(in) :: over_comm
    integer(c_int), intent(in) :: number
    character(len=*), intent(in) :: keys(:), values(:)
    integer, intent(out) :: err
    character(kind=c_char), allocatable, target :: texts(:, :)
    type(option) :: options(max(size(keys), size(values)))
    integer :: i
    allocate(texts(max(len(keys), len(values)) + 1, 2 * size(options)))
    do i = 1, size(options)
      options(i)%key = c_null_ptr
      options(i)%value = c_null_ptr
      if (i <= size(keys)) call put(2 * i - 1, keys(i), options(i)%key)
      if (i <= size(values)) call put(2 * i, values(i), options(i)%value)
    end do
    if (over_comm) then
      err = c_init_options(number, options, int(size(options), c_size_t))
    else
      err = c_init_single_options(number, options, int(size(options), c_size_t))
    end if

  contains

    subroutine put(at, text, address)
      integer, intent(in) :: at
      character(len=*), intent(in) :: text
      type(c_ptr), intent(out) :: address
      texts(:len_trim(text) + 1, at) = c_text(text)
      address = c_loc(texts(1, at))
    end subroutine

  end subroutine

  subroutine VELOC_Finalize(drain, err)
    integer, intent(in) :: drain
    integer, intent(out) :: err
    err = c_finalize(merge(1_c_int, 0_c_int, drain /= 0))
  end subroutine

  ! Gives the reason of this thread's last failure. The text is cut, or filled with blanks.
  subroutine VELOC_Last_error(text)
    character(len=*), intent(out) :: text
    type(c_ptr) :: reason
    character(kind=c_char), pointer :: letters(:)
    integer :: i
    text = ''
    reason = c_last_error()
    call c_f_pointer(reason, letters, [c_strlen(reason)])
    do i = 1, min(size(letters), len(text))
      text(i:i) = letters(i)
    end do
  end subroutine

  ! Tells the library in which stream the program computes, a cudaStream_t or CUstream.
  subroutine VELOC_Set_stream(stream, err)
    type(c_ptr), intent(in) :: stream
    integer, intent(out) :: err
    err = c_set_stream(stream)
  end subroutine

  ! --- regions --------------------------------------------------------------------------------

  subroutine protect_address(id, address, count, base_size, err)
    integer, intent(in) :: id
    type(c_ptr), value :: address
    integer(c_int), intent(in) :: count
    integer(c_int), intent(in) :: base_size
    integer, intent(out) :: err
    call protect(id, address, int(count, c_int64_t), int(base_size, c_int64_t), ANY_NAME, err)
  end subroutine

  subroutine protect_address_size(id, address, count, base_size, err)
    integer, intent(in) :: id
    type(c_ptr), value :: address
    integer(c_int), intent(in) :: count
    integer(c_int64_t), intent(in) :: base_size
    integer, intent(out) :: err
    call protect(id, address, int(count, c_int64_t), base_size, ANY_NAME, err)
  end subroutine

  subroutine protect_address_count(id, address, count, base_size, err)
    integer, intent(in) :: id
    type(c_ptr), value :: address
    integer(c_int64_t), intent(in) :: count
    integer(c_int), intent(in) :: base_size
    integer, intent(out) :: err
    call protect(id, address, count, int(base_size, c_int64_t), ANY_NAME, err)
  end subroutine

  subroutine protect_address_both(id, address, count, base_size, err)
    integer, intent(in) :: id
    type(c_ptr), value :: address
    integer(c_int64_t), intent(in) :: count
    integer(c_int64_t), intent(in) :: base_size
    integer, intent(out) :: err
    call protect(id, address, count, base_size, ANY_NAME, err)
  end subroutine

  subroutine protect_own_address(id, address, count, base_size, name, err)
    integer, intent(in) :: id
    type(c_ptr), value :: address
    integer(c_int), intent(in) :: count
    integer(c_int), intent(in) :: base_size
    character(len=*), intent(in) :: name
    integer, intent(out) :: err
    call protect(id, address, int(count, c_int64_t), int(base_size, c_int64_t), own_name(name), err)
  end subroutine

  subroutine protect_own_address_size(id, address, count, base_size, name, err)
    integer, intent(in) :: id
    type(c_ptr), value :: address
    integer(c_int), intent(in) :: count
    integer(c_int64_t), intent(in) :: base_size
    character(len=*), intent(in) :: name
    integer, intent(out) :: err
    call protect(id, address, int(count, c_int64_t), base_size, own_name(name), err)
  end subroutine

  subroutine protect_own_address_count(id, address, count, base_size, name, err)
    integer, intent(in) :: id
    type(c_ptr), value :: address
    integer(c_int64_t), intent(in) :: count
    integer(c_int), intent(in) :: base_size
    character(len=*), intent(in) :: name
    integer, intent(out) :: err
    call protect(id, address, count, int(base_size, c_int64_t), own_name(name), err)
  end subroutine

  subroutine protect_own_address_both(id, address, count, base_size, name, err)
    integer, intent(in) :: id
    type(c_ptr), value :: address
    integer(c_int64_t), intent(in) :: count
    integer(c_int64_t), intent(in) :: base_size
    character(len=*), intent(in) :: name
    integer, intent(out) :: err
    call protect(id, address, count, base_size, own_name(name), err)
  end subroutine

  subroutine protect(id, address, count, base_size, name, err)
    integer, intent(in) :: id
    type(c_ptr), value :: address
    integer(c_int64_t), intent(in) :: count, base_size
    character(kind=c_char), intent(in) :: name(:)
    integer, intent(out) :: err
    if (fits('id', id, err)) err = c_protect(int(id, c_int), address, count, base_size, name)
  end subroutine

  ! A name as C has it; one of blanks alone is no name, and must not stand for any.
  pure function own_name(name)
    character(len=*), intent(in) :: name
    character(kind=c_char) :: own_name(max(len_trim(name), 1) + 1)
    own_name = ' '
    own_name(1:len_trim(name) + 1) = c_text(name)
    if (len_trim(name) == 0) own_name = [character(kind=c_char) :: ' ', c_null_char]
  end function

  ! Protects all regions of a list, each with an id of its own, or none of them.
  subroutine VELOC_Mem_protect_list(list, err)
    type(VELOC_Region), intent(in) :: list(:)
    integer, intent(out) :: err
    err = c_protect_list(list, size(list, kind=c_size_t))
  end subroutine

  ! Sets how VELOC_Checkpoint takes a region in host memory: VELOC_CAPTURE_COPY, ...
  subroutine VELOC_Mem_capture(id, mode, err)
    integer, intent(in) :: id, mode
    integer, intent(out) :: err
    if (fits('id', id, err)) err = c_mem_capture(int(id, c_int), int(mode, c_int))
  end subroutine

  ! Has checkpoints compress a region of reals: within a bound (VELOC_COMPRESS_8, ...), or without loss
  ! (VELOC_COMPRESS_LOSSLESS, with a bound of 0).
  subroutine VELOC_Mem_compress(id, mode, bound, err)
    integer, intent(in) :: id, mode
    double precision, intent(in) :: bound
    integer, intent(out) :: err
    if (fits('id', id, err)) err = c_mem_compress(int(id, c_int), int(mode, c_int), real(bound, c_double))
  end subroutine

  subroutine decompose_int(id, global_sizes, offsets, sizes, element_size, err)
    integer, intent(in) :: id, element_size
    integer(c_int), intent(in) :: global_sizes(:), offsets(:), sizes(:)
    integer, intent(out) :: err
    call decompose_long(id, int(global_sizes, c_int64_t), int(offsets, c_int64_t), &
        int(sizes, c_int64_t), element_size, err)
  end subroutine

  subroutine decompose_long(id, global_sizes, offsets, sizes, element_size, err)
    integer, intent(in) :: id, element_size
    integer(c_int64_t), intent(in) :: global_sizes(:), offsets(:), sizes(:)
    integer, intent(out) :: err
    integer :: n
    n = size(global_sizes)
    if (.not. fits('id', id, err)) return
    if (size(offsets) /= n .or. size(sizes) /= n) then
      err = c_refuse(c_text('VELOC_Mem_decompose'), &
          c_text('global_sizes, offsets and sizes have not the same number of elements'))
      return
    end if
    ! C counts the dimensions from the other end.
    err = c_mem_decompose(int(id, c_int), int(n, c_int), int(global_sizes(n:1:-1), c_size_t), &
        int(offsets(n:1:-1), c_size_t), int(sizes(n:1:-1), c_size_t), &
        int(element_size, c_size_t))
  end subroutine

  subroutine VELOC_Mem_unprotect(id, err)
    integer, intent(in) :: id
    integer, intent(out) :: err
    if (fits('id', id, err)) err = c_unprotect(int(id, c_int))
  end subroutine

  subroutine VELOC_Mem_clear(err)
    integer, intent(out) :: err
    err = c_clear()
  end subroutine

  subroutine VELOC_Region_unprotect(id, name, err)
    integer, intent(in) :: id
    character(len=*), intent(in) :: name
    integer, intent(out) :: err
    if (fits('id', id, err)) err = c_region_unprotect(int(id, c_int), c_text(name))
  end subroutine

  subroutine VELOC_Region_clear(name, err)
    character(len=*), intent(in) :: name
    integer, intent(out) :: err
    err = c_region_clear(c_text(name))
  end subroutine

  ! --- files ----------------------------------------------------------------------------------

  ! Gives the path to write to or read from in place of `original`, filled with blanks. The call fails if the variable
  ! is too short for the path: half a path would be the path of something else.
  subroutine VELOC_Route_file(original, routed, err)
    character(len=*), intent(in) :: original
    character(len=*), intent(out) :: routed
    integer, intent(out) :: err
    character(kind=c_char) :: path(VELOC_MAX_NAME)
    character(len=120) :: reason
    integer :: i, length
    routed = ''
    path = c_null_char
    err = c_route_file(c_text(original), path)
    if (err /= VELOC_SCES) return
    length = count(path /= c_null_char)
    if (length > len(routed)) then
      write(reason, '(a, i0, a, i0, a)') 'routed has ', len(routed), ' characters, the path has ', &
          length, '; VELOC_MAX_NAME are enough for any'
      err = c_refuse(c_text('VELOC_Route_file'), c_text(reason))
      return
    end if
    do i = 1, length
      routed(i:i) = path(i)
    end do
  end subroutine

  subroutine VELOC_Cleanup(name, err)
    character(len=*), intent(in) :: name
    integer, intent(out) :: err
    err = c_cleanup(c_text(name))
  end subroutine

  ! --- checkpoints ----------------------------------------------------------------------------

  subroutine VELOC_Checkpoint(name, version, err)
    character(len=*), intent(in) :: name
    integer, intent(in) :: version
    integer, intent(out) :: err
    if (fits('version', version, err)) err = c_checkpoint(c_text(name), int(version, c_int))
  end subroutine

  subroutine VELOC_Checkpoint_begin(name, version, err)
    character(len=*), intent(in) :: name
    integer, intent(in) :: version
    integer, intent(out) :: err
    if (fits('version', version, err)) err = c_checkpoint_begin(c_text(name), int(version, c_int))
  end subroutine

  subroutine VELOC_Checkpoint_mem(err)
    integer, intent(out) :: err
    err = c_checkpoint_mem()
  end subroutine

  subroutine VELOC_Checkpoint_selective(mode, ids, err)
    integer, intent(in) :: mode, ids(:)
    integer, intent(out) :: err
    if (.not. fits('mode', mode, err)) return
    if (.not. all_fit('id', ids, err)) return
    err = c_checkpoint_selective(int(mode, c_int), int(ids, c_int), size(ids, kind=c_int))
  end subroutine

  subroutine VELOC_Checkpoint_end(success, err)
    integer, intent(in) :: success
    integer, intent(out) :: err
    err = c_checkpoint_end(int(success, c_int))
  end subroutine

  subroutine VELOC_Checkpoint_wait(err)
    integer, intent(out) :: err
    err = c_checkpoint_wait()
  end subroutine

  ! 1: every checkpoint is done; 0: not yet; VELOC_NSCS: something failed in the background.
  subroutine VELOC_Checkpoint_finished(finished)
    integer, intent(out) :: finished
    finished = c_checkpoint_finished()
  end subroutine

  ! --- restarts -------------------------------------------------------------------------------

  ! The newest version up to `needed_version` (0: of all) that can be restored; negative: none.
  subroutine VELOC_Restart_test(name, needed_version, version)
    character(len=*), intent(in) :: name
    integer, intent(in) :: needed_version
    integer, intent(out) :: version
    if (fits('needed_version', needed_version, version)) &
        version = c_restart_test(c_text(name), int(needed_version, c_int))
  end subroutine

  subroutine VELOC_Restart(name, version, err)
    character(len=*), intent(in) :: name
    integer, intent(in) :: version
    integer, intent(out) :: err
    if (fits('version', version, err)) err = c_restart(c_text(name), int(version, c_int))
  end subroutine

  subroutine VELOC_Restart_begin(name, version, err)
    character(len=*), intent(in) :: name
    integer, intent(in) :: version
    integer, intent(out) :: err
    if (fits('version', version, err)) err = c_restart_begin(c_text(name), int(version, c_int))
  end subroutine

  ! Bytes of a region in the checkpoint that is open for recovery; negative: it has no such region.
  subroutine VELOC_Recover_size(id, bytes)
    integer, intent(in) :: id
    integer, intent(out) :: bytes
    if (fits('id', id, bytes)) bytes = c_recover_size(int(id, c_int))
  end subroutine

  subroutine VELOC_Recover_mem(err)
    integer, intent(out) :: err
    err = c_recover_mem()
  end subroutine

  subroutine VELOC_Recover_selective(mode, ids, err)
    integer, intent(in) :: mode, ids(:)
    integer, intent(out) :: err
    if (.not. fits('mode', mode, err)) return
    if (.not. all_fit('id', ids, err)) return
    err = c_recover_selective(int(mode, c_int), int(ids, c_int), size(ids, kind=c_int))
  end subroutine

  subroutine VELOC_Restart_end(success, err)
    integer, intent(in) :: success
    integer, intent(out) :: err
    err = c_restart_end(merge(1_c_int, 0_c_int, success /= 0))
  end subroutine

  ! --- hints ----------------------------------------------------------------------------------

  subroutine VELOC_Prefetch_enqueue(name, version, err)
    character(len=*), intent(in) :: name
    integer, intent(in) :: version
    integer, intent(out) :: err
    if (fits('version', version, err)) err = c_prefetch_enqueue(c_text(name), int(version, c_int))
  end subroutine

  subroutine VELOC_Prefetch_start(err)
    integer, intent(out) :: err
    err = c_prefetch_start()
  end subroutine

  ! Tells whether a region is wholly in the device cache.
  subroutine VELOC_Next_prefetched(name, version, id, prefetched)
    character(len=*), intent(in) :: name
    integer, intent(in) :: version, id
    logical, intent(out) :: prefetched
    integer :: err
    prefetched = .false.
    if (.not. fits('version', version, err)) return
    if (.not. fits('id', id, err)) return
    prefetched = c_next_prefetched(c_text(name), int(version, c_int), int(id, c_int))
  end subroutine

  ! Bytes of a region in any checkpoint; 0: there is none.
  subroutine VELOC_Recover_ckpt_size(name, version, id, bytes)
    character(len=*), intent(in) :: name
    integer, intent(in) :: version, id
    integer(c_int64_t), intent(out) :: bytes
    integer :: err
    bytes = 0
    if (.not. fits('version', version, err)) return
    if (.not. fits('id', id, err)) return
    bytes = int(c_recover_ckpt_size(c_text(name), int(version, c_int), int(id, c_int)), c_int64_t)
  end subroutine

  ! --- adjoint computations -------------------------------------------------------------------

  ! Computes an adjoint from beginning to end, or goes on from what is left of it. `err` is
  ! VELOC_SCES: it is finished; VELOC_STOPPED: the same call goes on, also in a later job; else it
  ! failed. Collective under MPI. The program has state 0 when it calls this.
  subroutine VELOC_Adjoint_run(what, err)
    type(VELOC_Adjoint), intent(in), target :: what
    integer, intent(out) :: err
    character(kind=c_char), allocatable, target :: name(:)
    type(c_adjoint) :: as_c
    if (.not. fits('rule', what%rule, err)) return
    if (.not. fits('flags', what%flags, err)) return
    name = c_text(what%name)
    as_c = c_adjoint(size=0, name=c_loc(name), steps=what%steps, slots=what%slots, &
        resilience_distance=what%resilience_distance, adjoint_distance=what%adjoint_distance, &
        rule=int(what%rule, c_int), flags=int(what%flags, c_int), time_limit=what%time_limit, &
        tag=what%tag, user=c_loc(what), protect=c_null_funptr, forward=c_null_funptr, &
        adjoint=c_null_funptr, hash=c_null_funptr, mtbf=what%mtbf, write_cost=what%write_cost, &
        turn_cost=what%turn_cost)
    as_c%size = size(transfer(as_c, [0_c_int8_t]), kind=c_size_t)
    if (associated(what%protect)) as_c%protect = c_funloc(run_protect)
    if (associated(what%forward)) as_c%forward = c_funloc(run_forward)
    if (associated(what%adjoint)) as_c%adjoint = c_funloc(run_adjoint)
    if (associated(what%hash)) as_c%hash = c_funloc(run_hash)
    err = c_adjoint_run(as_c)
  end subroutine

  ! Compresses a region of reals in stored states, within a bound: VELOC_COMPRESS_8, ... Call it in `protect`, after
  ! the region is protected. More states have room then.
  subroutine VELOC_Adjoint_compress(id, mode, bound, err)
    integer, intent(in) :: id, mode
    double precision, intent(in) :: bound
    integer, intent(out) :: err
    if (fits('id', id, err)) err = c_adjoint_compress(int(id, c_int), int(mode, c_int), real(bound, c_double))
  end subroutine

  ! Asks the run under way, or the next one, to stop as soon as a later one can go on from there. One of several
  ! processes is enough to ask. It may be called from anywhere, also from a signal handler.
  subroutine VELOC_Adjoint_stop(err)
    integer, intent(out) :: err
    err = c_adjoint_stop()
  end subroutine

  ! Removes what VELOC_Adjoint_run has left under a name, also in persistent, so that the next run of that name begins
  ! anew. Each process removes its own.
  subroutine VELOC_Adjoint_discard(name, err)
    character(len=*), intent(in) :: name
    integer, intent(out) :: err
    err = c_adjoint_discard(c_text(name))
  end subroutine

  ! What the library calls: the same with Fortran's arguments.

  integer(c_int) function run_protect(user) bind(c, name='veloc_fortran_run_protect')
    type(c_ptr), value :: user
    type(VELOC_Adjoint), pointer :: what
    integer :: err
    call c_f_pointer(user, what)
    err = VELOC_SCES
    call what%protect(err)
    run_protect = code(err)
  end function

  integer(c_int) function run_forward(user, from, to) bind(c, name='veloc_fortran_run_forward')
    type(c_ptr), value :: user
    integer(c_int64_t), value :: from, to
    type(VELOC_Adjoint), pointer :: what
    integer :: err
    call c_f_pointer(user, what)
    err = VELOC_SCES
    call what%forward(from, to, err)
    run_forward = code(err)
  end function

  integer(c_int) function run_adjoint(user, step) bind(c, name='veloc_fortran_run_adjoint')
    type(c_ptr), value :: user
    integer(c_int64_t), value :: step
    type(VELOC_Adjoint), pointer :: what
    integer :: err
    call c_f_pointer(user, what)
    err = VELOC_SCES
    call what%adjoint(step, err)
    run_adjoint = code(err)
  end function

  integer(c_int) function run_hash(user, hash) bind(c, name='veloc_fortran_run_hash')
    type(c_ptr), value :: user
    integer(c_int64_t), intent(out) :: hash
    type(VELOC_Adjoint), pointer :: what
    integer :: err
    call c_f_pointer(user, what)
    err = VELOC_SCES
    call what%hash(hash, err)
    run_hash = code(err)
  end function

  ! What C's int has of a number of the program's that says what failed.
  pure integer(c_int) function code(err)
    integer, intent(in) :: err
    integer, parameter :: MOST = int(huge(0_c_int))
    code = int(max(-MOST, min(MOST, err)), c_int)
  end function

  subroutine protect_part_address(what, id, address, count, base_size, err)
    integer, intent(in) :: what, id
    type(c_ptr), value :: address
    integer(c_int), intent(in) :: count
    integer(c_int), intent(in) :: base_size
    integer, intent(out) :: err
    call protect_at(what, id, address, int(count, c_int64_t), int(base_size, c_int64_t), err)
  end subroutine

  subroutine protect_part_address_size(what, id, address, count, base_size, err)
    integer, intent(in) :: what, id
    type(c_ptr), value :: address
    integer(c_int), intent(in) :: count
    integer(c_int64_t), intent(in) :: base_size
    integer, intent(out) :: err
    call protect_at(what, id, address, int(count, c_int64_t), base_size, err)
  end subroutine

  subroutine protect_part_address_count(what, id, address, count, base_size, err)
    integer, intent(in) :: what, id
    type(c_ptr), value :: address
    integer(c_int64_t), intent(in) :: count
    integer(c_int), intent(in) :: base_size
    integer, intent(out) :: err
    call protect_at(what, id, address, count, int(base_size, c_int64_t), err)
  end subroutine

  subroutine protect_part_address_both(what, id, address, count, base_size, err)
    integer, intent(in) :: what, id
    type(c_ptr), value :: address
    integer(c_int64_t), intent(in) :: count
    integer(c_int64_t), intent(in) :: base_size
    integer, intent(out) :: err
    call protect_at(what, id, address, count, base_size, err)
  end subroutine

  subroutine protect_at(what, id, address, count, base_size, err)
    integer, intent(in) :: what, id
    type(c_ptr), value :: address
    integer(c_int64_t), intent(in) :: count, base_size
    integer, intent(out) :: err
    if (.not. fits('what', what, err)) return
    if (.not. fits('id', id, err)) return
    err = c_adjoint_protect(int(what, c_int), int(id, c_int), address, count, base_size)
  end subroutine

end module
