! What every Fortran program of the message log's tests shares; see parts.h of the C programs. Run
! without the library, with an empty one in its place, a replay runs the calls again.
#include "flavour.h"
#if defined(WITH_MPIF)
module mpif
  implicit none
  include 'mpif.h'
end module
#endif

module support
  use, intrinsic :: iso_c_binding, only: c_int
  USE_MPI
  use veloc_parts
  implicit none
  private :: c_int, replay

  integer, parameter :: LENGTH = 16
  integer :: rank, ranks, left, right, ierr
  integer, asynchronous, target :: to(LENGTH), from(LENGTH)
  HANDLE(MPI_Comm) :: apart

  ! Everything that a run has seen, in order, and what the first run has.
  integer :: seen(2000), seen_first(2000), count_seen, count_first

  interface
    integer(c_int) function alarm(seconds) bind(c, name='alarm')
      import :: c_int
      integer(c_int), value :: seconds
    end function
    subroutine body_of_part()
    end subroutine
  end interface

contains

  ! ---- the program ----

  ! `<program> [seconds]`: a run that is expected to hang is ended after so many.
  subroutine begin_program()
    character(len=20) :: argument
    integer :: seconds
    integer(c_int) :: before
    call MPI_Init(ierr)
    call MPI_Comm_rank(MPI_COMM_WORLD, rank IERR)
    call MPI_Comm_size(MPI_COMM_WORLD, ranks IERR)
    left = modulo(rank - 1, ranks)
    right = modulo(rank + 1, ranks)
    call MPI_Comm_dup(MPI_COMM_WORLD, apart IERR)
    call get_command_argument(1, argument)
    if (argument == '') return
    read (argument, *) seconds
    before = alarm(int(seconds, c_int))
  end subroutine

  subroutine end_program()
    call MPI_Comm_free(apart IERR)
    call MPI_Finalize(ierr)
    if (rank == 0) print '(a)', 'done'
  end subroutine

  ! ---- checks ----

  subroutine check(fine, what)
    logical, intent(in) :: fine
    character(len=*), intent(in) :: what
    character(len=400) :: why
    if (fine) return
    call VELOC_Part_error(why)
    print '(a, i0, 4a)', 'rank ', rank, ': wrong: ', what, '; VELOC_Part_error: ', trim(why)
    call MPI_Abort(MPI_COMM_WORLD, 1 IERR)
  end subroutine

  subroutine equal(got, wanted, what)
    integer, intent(in) :: got, wanted
    character(len=*), intent(in) :: what
    character(len=200) :: text
    write (text, '(2a, i0, a, i0)') what, ': ', got, ', not ', wanted
    call check(got == wanted, trim(text))
  end subroutine

  ! The text of the library's last error must have this.
  subroutine error_has(text)
    character(len=*), intent(in) :: text
    character(len=400) :: why
    call VELOC_Part_error(why)
    call check(index(why, text) > 0, 'the error is without "' // text // '"')
  end subroutine

  ! ---- what was seen ----

  subroutine saw(number)
    integer, intent(in) :: number
    count_seen = count_seen + 1
    seen(count_seen) = number
  end subroutine

  subroutine saw_from()
    integer :: i
    do i = 1, LENGTH
      call saw(from(i))
    end do
  end subroutine

  subroutine saw_status(status)
#if defined(WITH_F08)
    type(MPI_Status), intent(in) :: status
#else
    integer, intent(in) :: status(MPI_STATUS_SIZE)
#endif
    integer :: number
    logical :: cancelled
    call saw(SOURCE_OF(status))
    call saw(TAG_OF(status))
    call MPI_Get_count(status, MPI_BYTE, number IERR)
    call saw(number)
    call MPI_Test_cancelled(status, cancelled IERR)
    call saw(merge(1, 0, cancelled))
  end subroutine

  ! Both buffers as a snapshot has them.
  subroutine prepare(salt)
    integer, intent(in) :: salt
    integer :: i
    to = [(1000 * rank + 100 * salt + i, i = 1, LENGTH)]
    from = -1
  end subroutine

  ! ---- parts ----

  subroutine part(what, id)
    interface
      subroutine what(id, err)
        integer, intent(in) :: id
        integer, intent(out) :: err
      end subroutine
    end interface
    integer, intent(in) :: id
    integer :: err
    call what(id, err)
    call equal(err, 0, 'a call of VELOC_Part_*')
  end subroutine

  subroutine part_begin(id)
    integer, intent(in) :: id
    integer :: err
    call VELOC_Part_begin(id, 0, err)
    call equal(err, 0, 'VELOC_Part_begin')
  end subroutine

  ! Runs `body` as a part and replays it, each process alone: whoever communicates in its turn with
  ! another process waits for ever. The replay must see what the first run has seen.
  subroutine run_and_replay(body)
    procedure(body_of_part) :: body
    count_seen = 0
    call part_begin(1)
    call body()
    call part(VELOC_Part_end, 1)
    call replay_in_turns(body)
  end subroutine

  subroutine replay_in_turns(body)
    procedure(body_of_part) :: body
    type(VELOC_Part_figures) :: figures
    integer :: process, err
    seen_first = seen
    count_first = count_seen
    do process = 0, ranks - 1
      call MPI_Barrier(apart IERR)
      if (process == rank) call replay(body)
    end do
    call MPI_Barrier(apart IERR)
    call VELOC_Part_get_figures(figures, err)
    call equal(err, 0, 'VELOC_Part_get_figures')
    call check(figures%logged == 0 .and. figures%events == 0 .and. figures%parts == 0, 'the log')
  end subroutine

  subroutine replay(body)
    procedure(body_of_part) :: body
    integer :: i
    count_seen = 0
    from = -1
    call part(VELOC_Part_replay_begin, 1)
    call body()
    call part(VELOC_Part_replay_end, 1)
    call equal(count_seen, count_first, 'how much the replay saw')
    do i = 1, count_seen
      call equal(seen(i), seen_first(i), 'what the replay saw')
    end do
  end subroutine

end module
