! Messages of checkpointed parts, logged and replayed: module veloc_parts.
!
! Each procedure calls the C function of its name in veloc-mpi.h, and gives its result as the last argument (0 for
! success, as VELOC_SCES of the module veloc). VELOC_Part_error gives the reason of a failure. Calls of MPI are logged
! whether they are made with `use mpi_f08`, `use mpi` or mpif.h.
!
! Compile this file with the compiler of the program that uses it. It needs libveloc-mpi.so and nothing else.
module veloc_parts
  use, intrinsic :: iso_c_binding, only: c_char, c_f_pointer, c_int, c_int64_t, c_int8_t, c_null_char, &
      c_ptr, c_size_t
  implicit none
  private

  ! Messages of the part may be sent again instead of logged; see veloc-mpi.h.
  integer, parameter, public :: VELOC_PART_RESEND = 1
  ! The log stays after a replay, for further ones, until VELOC_Part_free.
  integer, parameter, public :: VELOC_PART_KEEP = 2

  ! What the log holds, as the C struct of that name: bytes that are logged now, the most at once, bytes dropped and
  ! bytes sent again; calls that are logged; runs of parts that are logged; logged bytes in this library's memory, and
  ! logged bytes in files.
  type, bind(c), public :: VELOC_Part_figures
    integer(c_int64_t) :: logged, peak, dropped, resent, events, parts, memory, stored
  end type

  public :: VELOC_Part_begin, VELOC_Part_end, VELOC_Part_replay_begin, VELOC_Part_replay_end
  public :: VELOC_Part_free, VELOC_Part_error, VELOC_Part_get_figures

  interface
    integer(c_int) function c_begin(id, flags) bind(c, name='VELOC_Part_begin')
      import :: c_int
      integer(c_int), value :: id, flags
    end function
    integer(c_int) function c_end(id) bind(c, name='VELOC_Part_end')
      import :: c_int
      integer(c_int), value :: id
    end function
    integer(c_int) function c_replay_begin(id) bind(c, name='VELOC_Part_replay_begin')
      import :: c_int
      integer(c_int), value :: id
    end function
    integer(c_int) function c_replay_end(id) bind(c, name='VELOC_Part_replay_end')
      import :: c_int
      integer(c_int), value :: id
    end function
    integer(c_int) function c_free(id) bind(c, name='VELOC_Part_free')
      import :: c_int
      integer(c_int), value :: id
    end function
    type(c_ptr) function c_error() bind(c, name='VELOC_Part_error')
      import :: c_ptr
    end function
    integer(c_int) function c_get_figures(figures, size) bind(c, name='VELOC_Part_get_figures')
      import :: c_int, c_size_t, VELOC_Part_figures
      type(VELOC_Part_figures), intent(inout) :: figures
      integer(c_size_t), value :: size
    end function
    ! Keeps the reason why a number is refused.
    integer(c_int) function c_refuse(call, number) bind(c, name='VELOC_Fortran_refuse_part')
      import :: c_char, c_int, c_int64_t
      character(kind=c_char), intent(in) :: call(*)
      integer(c_int64_t), value :: number
    end function
    integer(c_size_t) function c_strlen(text) bind(c, name='strlen')
      import :: c_ptr, c_size_t
      type(c_ptr), value :: text
    end function
  end interface

contains

  ! Begins to log a part of the program. `flags`: VELOC_PART_*, or 0.
  subroutine VELOC_Part_begin(id, flags, err)
    integer, intent(in) :: id, flags
    integer, intent(out) :: err
    if (.not. fits('VELOC_Part_begin', id, err)) return
    if (fits('VELOC_Part_begin', flags, err)) err = c_begin(int(id, c_int), int(flags, c_int))
  end subroutine

  ! Ends the logging of the innermost open part.
  subroutine VELOC_Part_end(id, err)
    integer, intent(in) :: id
    integer, intent(out) :: err
    if (fits('VELOC_Part_end', id, err)) err = c_end(int(id, c_int))
  end subroutine

  ! Begins to replay the last run of a part that was not replayed yet: calls of MPI return what they returned in that
  ! run.
  subroutine VELOC_Part_replay_begin(id, err)
    integer, intent(in) :: id
    integer, intent(out) :: err
    if (fits('VELOC_Part_replay_begin', id, err)) err = c_replay_begin(int(id, c_int))
  end subroutine

  ! Ends a replay. The log of that run is freed, unless the part has VELOC_PART_KEEP.
  subroutine VELOC_Part_replay_end(id, err)
    integer, intent(in) :: id
    integer, intent(out) :: err
    if (fits('VELOC_Part_replay_end', id, err)) err = c_replay_end(int(id, c_int))
  end subroutine

  ! Frees the log of all runs of a part.
  subroutine VELOC_Part_free(id, err)
    integer, intent(in) :: id
    integer, intent(out) :: err
    if (fits('VELOC_Part_free', id, err)) err = c_free(int(id, c_int))
  end subroutine

  ! Gives the reason why the last call on parts, or of MPI inside one, failed. The text is cut, or filled with blanks.
  subroutine VELOC_Part_error(text)
    character(len=*), intent(out) :: text
    type(c_ptr) :: reason
    character(kind=c_char), pointer :: letters(:)
    integer :: i
    text = ''
    reason = c_error()
    call c_f_pointer(reason, letters, [c_strlen(reason)])
    do i = 1, min(size(letters), len(text))
      text(i:i) = letters(i)
    end do
  end subroutine

  ! Reads what the log holds.
  subroutine VELOC_Part_get_figures(figures, err)
    type(VELOC_Part_figures), intent(out) :: figures
    integer, intent(out) :: err
    figures = VELOC_Part_figures(0, 0, 0, 0, 0, 0, 0, 0)
    err = c_get_figures(figures, size(transfer(figures, [0_c_int8_t]), kind=c_size_t))
  end subroutine

  ! Whether C's int can hold the number, where default integers have 64 bits. If not, the call that it
  ! was given to has failed.
  logical function fits(call, number, err)
    character(len=*), intent(in) :: call
    integer, intent(in) :: number
    integer, intent(out) :: err
    integer(c_int64_t), parameter :: MOST = huge(0_c_int)
    integer(c_int64_t) :: long
    character(kind=c_char) :: c_call(len(call) + 1)
    integer :: i
    err = 0
    long = number
    fits = -MOST - 1 <= long .and. long <= MOST
    if (fits) return
    do i = 1, len(call)
      c_call(i) = call(i:i)
    end do
    c_call(len(call) + 1) = c_null_char
    err = c_refuse(c_call, long)
  end function

end module
