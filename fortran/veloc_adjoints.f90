! The Fortran interface of adjoint computations: module veloc_adjoints.
!
! The program fills a type(VELOC_Adjoint) and passes its procedures, which may be internal ones; each
! gets err as its last argument, and sets it to VELOC_SCES or VELOC_NSCS. What they do and when is said
! in veloc.h. To be compiled with the module veloc.
module veloc_adjoints
  use, intrinsic :: iso_c_binding, only: c_char, c_double, c_f_pointer, c_f_procpointer, c_funloc, &
      c_funptr, c_int, c_int64_t, c_loc, c_null_char, c_null_funptr, c_ptr, c_sizeof, c_size_t
  use veloc
  implicit none
  private

  ! The run stopped as it was asked to; the same call goes on, also in a later job.
  integer, parameter, public :: VELOC_STOPPED = 1
  ! What VELOC_Adjoint_protect protects: the state of the forward steps, or that of the adjoint.
  integer, parameter, public :: VELOC_ADJOINT_STATE = 0, VELOC_ADJOINT_GRADIENT = 1

  ! An adjoint computation. What is left as it is has the meaning that veloc.h says of zero.
  type, public :: VELOC_Adjoint
    character(len=128) :: name = ''
    integer(c_int64_t) :: steps = 0, slots = 0, resilience_distance = 0, adjoint_distance = 0
    ! 0 to 3: optimal, resilient, monotone, shortest.
    integer :: rule = 0
    logical :: verify_replay = .false.
    ! In seconds.
    real(c_double) :: time_limit = 0
    integer(c_int64_t) :: tag = 0
  end type

  abstract interface
    subroutine protect_procedure(err)
      integer, intent(out) :: err
    end subroutine
    subroutine forward_procedure(from, to, err)
      import :: c_int64_t
      integer(c_int64_t), intent(in) :: from, to
      integer, intent(out) :: err
    end subroutine
    subroutine adjoint_procedure(step, err)
      import :: c_int64_t
      integer(c_int64_t), intent(in) :: step
      integer, intent(out) :: err
    end subroutine
    subroutine hash_procedure(hash, err)
      import :: c_int64_t
      integer(c_int64_t), intent(out) :: hash
      integer, intent(out) :: err
    end subroutine
  end interface

  public :: VELOC_Adjoint_run, VELOC_Adjoint_protect, VELOC_Adjoint_stop

  ! Protects an array or scalar of any type and rank, in a callback: (what, id, array, err). It must have
  ! the attribute target or live as long as the run; a section with gaps is refused.
  interface VELOC_Adjoint_protect
    procedure adjoint_array, adjoint_array_long
  end interface

  ! The structure of veloc.h.
  type, bind(c) :: c_adjoint
    integer(c_size_t) :: size
    type(c_ptr) :: name
    integer(c_int64_t) :: steps, slots, resilience_distance, adjoint_distance
    integer(c_int) :: rule, flags
    real(c_double) :: time_limit
    integer(c_int64_t) :: tag
    type(c_ptr) :: user
    type(c_funptr) :: protect, forward, adjoint, hash
  end type

  interface
    integer(c_int) function c_run(what) bind(c, name='VELOC_Adjoint_run')
      import :: c_int, c_adjoint
      type(c_adjoint), intent(in) :: what
    end function
    integer(c_int) function c_stop() bind(c, name='VELOC_Adjoint_stop')
      import :: c_int
    end function
    ! In descriptor.c, for default integers of 32 and of 64 bits.
    subroutine adjoint_array(what, id, array, err) bind(c, name='veloc_fortran_protect_adjoint_array')
      import :: c_int
      integer(c_int), intent(in) :: what, id
      type(*), dimension(..), target :: array
      integer(c_int), intent(out) :: err
    end subroutine
    subroutine adjoint_array_long(what, id, array, err) &
        bind(c, name='veloc_fortran_protect_adjoint_array_long')
      import :: c_int64_t
      integer(c_int64_t), intent(in) :: what, id
      type(*), dimension(..), target :: array
      integer(c_int64_t), intent(out) :: err
    end subroutine
    ! Keeps the reason why a number is refused.
    integer(c_int) function c_refuse_number(what, number) bind(c, name='VELOC_Fortran_refuse_number')
      import :: c_int, c_char, c_int64_t
      character(kind=c_char), intent(in) :: what(*)
      integer(c_int64_t), value :: number
    end function
  end interface

  ! What the library calls by way of the procedures below.
  type, bind(c) :: procedures
    type(c_funptr) :: protect, forward, adjoint, hash
  end type

contains

  ! Computes an adjoint. err: VELOC_SCES, VELOC_STOPPED or VELOC_NSCS.
  subroutine VELOC_Adjoint_run(what, protect, forward, adjoint, err, hash)
    type(VELOC_Adjoint), intent(in) :: what
    procedure(protect_procedure) :: protect
    procedure(forward_procedure) :: forward
    procedure(adjoint_procedure) :: adjoint
    integer, intent(out) :: err
    procedure(hash_procedure), optional :: hash
    character(kind=c_char), target :: name(len(what%name) + 1)
    type(c_adjoint) :: c
    type(procedures), target :: of_run
    integer :: i, length
    if (what%rule < 0 .or. what%rule > 3) then
      err = c_refuse_number(['r', 'u', 'l', 'e', c_null_char], int(what%rule, c_int64_t))
      return
    end if
    length = len_trim(what%name)
    do i = 1, length
      name(i) = what%name(i:i)
    end do
    name(length + 1) = c_null_char
    c = c_adjoint(size=0, name=c_loc(name), steps=what%steps, slots=what%slots, &
        resilience_distance=what%resilience_distance, adjoint_distance=what%adjoint_distance, &
        rule=int(what%rule, c_int), flags=merge(1_c_int, 0_c_int, what%verify_replay), &
        time_limit=what%time_limit, tag=what%tag, user=c_loc(of_run), protect=c_funloc(on_protect), &
        forward=c_funloc(on_forward), adjoint=c_funloc(on_adjoint), hash=c_null_funptr)
    c%size = c_sizeof(c)
    if (present(hash)) c%hash = c_funloc(on_hash)
    of_run = procedures(c_funloc(protect), c_funloc(forward), c_funloc(adjoint), c_null_funptr)
    if (present(hash)) of_run%hash = c_funloc(hash)
    err = c_run(c)
  end subroutine

  ! Asks the run under way, or the next one, to stop as soon as a later one can go on from there.
  subroutine VELOC_Adjoint_stop(err)
    integer, intent(out) :: err
    err = c_stop()
  end subroutine

  integer(c_int) function on_protect(user) bind(c, name='')
    type(c_ptr), value :: user
    type(procedures), pointer :: of_run
    procedure(protect_procedure), pointer :: own
    integer :: err
    call c_f_pointer(user, of_run)
    call c_f_procpointer(of_run%protect, own)
    call own(err)
    on_protect = int(err, c_int)
  end function

  integer(c_int) function on_forward(user, from, to) bind(c, name='')
    type(c_ptr), value :: user
    type(procedures), pointer :: of_run
    procedure(forward_procedure), pointer :: own
    integer(c_int64_t), value :: from, to
    integer :: err
    call c_f_pointer(user, of_run)
    call c_f_procpointer(of_run%forward, own)
    call own(from, to, err)
    on_forward = int(err, c_int)
  end function

  integer(c_int) function on_adjoint(user, step) bind(c, name='')
    type(c_ptr), value :: user
    type(procedures), pointer :: of_run
    procedure(adjoint_procedure), pointer :: own
    integer(c_int64_t), value :: step
    integer :: err
    call c_f_pointer(user, of_run)
    call c_f_procpointer(of_run%adjoint, own)
    call own(step, err)
    on_adjoint = int(err, c_int)
  end function

  integer(c_int) function on_hash(user, hash) bind(c, name='')
    type(c_ptr), value :: user
    type(procedures), pointer :: of_run
    procedure(hash_procedure), pointer :: own
    integer(c_int64_t), intent(out) :: hash
    integer :: err
    call c_f_pointer(user, of_run)
    call c_f_procpointer(of_run%hash, own)
    call own(hash, err)
    on_hash = int(err, c_int)
  end function

end module
