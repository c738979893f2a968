! Logs what a part of the program receives, and replays it: parts-fortran <anything>
!
! Prints "done" if everything was as it should be, on every process.
!
! SPDX-License-Identifier: MIT OR Apache-2.0
program parts
  use mpi
  use veloc_parts
  implicit none
  integer :: rank, ranks, own, err

  call MPI_Init(err)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, err)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, err)
  own = 1000
  call VELOC_Part_begin(1, 0, err)
  call check(err == 0, 'VELOC_Part_begin')
  call check(from_left() == 1001, 'what was received')
  call VELOC_Part_end(1, err)
  call check(err == 0, 'VELOC_Part_end')
  call VELOC_Part_replay_begin(1, err)
  call check(err == 0, 'VELOC_Part_replay_begin')
  call check(from_left() == 1001, 'what the log gives')
  call VELOC_Part_replay_end(1, err)
  call check(err == 0, 'VELOC_Part_replay_end')
  call MPI_Finalize(err)
  if (rank == 0) print '(a)', 'done'

contains

  ! What the left neighbour has, which can be asked for once.
  integer function from_left()
    integer :: got
    got = -1
    own = own + 1
    call MPI_Sendrecv(own, 1, MPI_INTEGER, modulo(rank + 1, ranks), 1, got, 1, MPI_INTEGER, &
        modulo(rank - 1, ranks), 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE, err)
    from_left = got
  end function

  subroutine check(fine, what)
    logical, intent(in) :: fine
    character(len=*), intent(in) :: what
    character(len=400) :: why
    if (fine) return
    call VELOC_Part_error(why)
    print '(3a)', what, ': ', trim(why)
    call MPI_Abort(MPI_COMM_WORLD, 1, err)
    error stop
  end subroutine

end program
