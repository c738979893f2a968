! What fails, and with which words: calls that cannot be replayed, a replay that differs, calls of
! VELOC_Part_* out of order. And a log that is kept.
#include "flavour.h"
program faulty
  USE_MPI
  use support
  implicit none
  HANDLE(MPI_Win) :: window
  HANDLE(MPI_File) :: file
  HANDLE(MPI_Comm) :: copy
  HANDLE(MPI_Request) :: request
  STATUS(status)
  type(VELOC_Part_figures) :: figures
  integer, asynchronous :: memory(4)
  integer :: err, i
  integer(MPI_ADDRESS_KIND) :: place
#if defined(WITH_MPIX) && !defined(WITH_F08)
  external :: MPIX_Barrier_init
#endif

  call begin_program()
  call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN IERR)
  memory = -1
  place = 1
  call MPI_Win_create(memory, 4_MPI_ADDRESS_KIND * storage_size(memory) / 8, &
      storage_size(memory) / 8, MPI_INFO_NULL, MPI_COMM_WORLD, window IERR)
  call MPI_Win_set_errhandler(window, MPI_ERRORS_RETURN IERR)
  call MPI_Win_fence(0, window IERR)
  call MPI_Put([rank], 1, MPI_INTEGER, right, place, 1, MPI_INTEGER, window IERR)
  call MPI_Win_fence(0, window IERR)
  call equal(memory(2), left, 'an element that was put there outside a part')

  call part_begin(5)
  call MPI_Put([rank], 1, MPI_INTEGER, right, place, 1, MPI_INTEGER, window, ierr)
  call refused('MPI_Put')
  call MPI_Win_fence(0, window, ierr)
  call refused('MPI_Win_fence')
  call MPI_File_open(MPI_COMM_WORLD, '/dev/null', MPI_MODE_RDONLY, MPI_INFO_NULL, file, ierr)
  call refused('MPI_File_open')
  call MPI_Comm_idup(MPI_COMM_WORLD, copy, request, ierr)
  call refused('MPI_Comm_idup')
#if defined(WITH_MPIX) && !defined(WITH_F08)
  call MPIX_Barrier_init(MPI_COMM_WORLD, MPI_INFO_NULL, request, ierr)
  call refused('MPIX_Barrier_init')
#endif
  call part(VELOC_Part_end, 5)
  call part(VELOC_Part_free, 5)
  call MPI_Win_free(window IERR)

  ! Another tag in the replay.
  call prepare(1)
  call part_begin(6)
  call receive(1)
  call part(VELOC_Part_end, 6)
  call part(VELOC_Part_replay_begin, 6)
  call MPI_Send(to, 3, MPI_INTEGER, right, 1, MPI_COMM_WORLD, ierr)
  call MPI_Recv(from, 3, MPI_INTEGER, left, 2, MPI_COMM_WORLD, status, ierr)
  call check(ierr /= MPI_SUCCESS, 'a call that differs')
  call error_has('MPI_Recv')
  call error_has('tag 1')
  call error_has('tag 2')
  call error_has('part 6')
  call VELOC_Part_replay_end(6, err)
  call equal(err, -1, 'the end of a replay that differed')
  call part(VELOC_Part_free, 6)

  ! The parts themselves.
  call VELOC_Part_end(7, err)
  call equal(err, -1, 'the end of what has not begun')
  call error_has('VELOC_Part_end: ')
  call VELOC_Part_begin(7, 4, err)
  call equal(err, -1, 'unknown flags')
  call error_has('flags 4; VELOC_PART_RESEND (1) and')
  call VELOC_Part_replay_begin(7, err)
  call equal(err, -1, 'the replay of what is not logged')
  call error_has('VELOC_Part_replay_begin: ')
  call VELOC_Part_begin(7, VELOC_PART_KEEP, err)
  call equal(err, 0, 'VELOC_Part_begin')
  call receive(3)
  call part(VELOC_Part_end, 7)
  do i = 1, 2
    call part(VELOC_Part_replay_begin, 7)
    from = -1
    call receive(3)
    call part(VELOC_Part_replay_end, 7)
    call equal(from(3), 1000 * left + 103, 'an element of a log that is kept')
  end do
  call VELOC_Part_get_figures(figures, err)
  call check(figures%logged == 12 .and. figures%peak == 12, 'bytes logged')
  call check(figures%parts == 1 .and. figures%events == 2, 'calls logged')
  call part(VELOC_Part_free, 7)
  call end_program()

contains

  subroutine receive(tag)
    integer, intent(in) :: tag
    call MPI_Send(to, 3, MPI_INTEGER, right, tag, MPI_COMM_WORLD IERR)
    call MPI_Recv(from, 3, MPI_INTEGER, left, tag, MPI_COMM_WORLD, status IERR)
  end subroutine

  subroutine refused(name)
    character(len=*), intent(in) :: name
    call check(ierr /= MPI_SUCCESS, name // ' in a part')
    call error_has(name)
    call error_has('part 5')
  end subroutine

end program
