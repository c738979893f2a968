! Collective calls, blocking and not, also in place; communicators that are made and freed in a part.
#include "flavour.h"
module bodies
  USE_MPI
  use support
  implicit none
  integer, parameter :: MOST = 8

contains

  subroutine blocking()
    integer :: i, counts(MOST), places(MOST), sum
    integer, target :: all(4 * MOST)
    HANDLE(MPI_Op) :: op
    call prepare(1)
    all = -1
    counts = 0
    places = 0
    do i = 1, ranks
      counts(i) = i
      places(i) = 4 * (i - 1)
    end do
    if (rank == 1) from(:3) = to(:3)
    call MPI_Bcast(from, 3, MPI_INTEGER, 1, MPI_COMM_WORLD IERR)
    call equal(from(3), 1103, 'an element of everybody')
    from(4:5) = to(4:5)
    call MPI_Allreduce(MPI_IN_PLACE, from(4), 2, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD IERR)
    sum = 500 * ranks * (ranks - 1) + 104 * ranks
    call equal(from(4), sum, 'a sum in place')
    from(6) = to(6)
    if (rank == 0) then
      call MPI_Reduce(MPI_IN_PLACE, from(6), 1, MPI_INTEGER, MPI_MAX, 0, MPI_COMM_WORLD IERR)
      call equal(from(6), 1000 * (ranks - 1) + 106, 'a maximum in place')
    else
      call MPI_Reduce(to(6), from(6), 1, MPI_INTEGER, MPI_MAX, 0, MPI_COMM_WORLD IERR)
    end if
    call MPI_Gatherv(to, rank + 1, MPI_INTEGER, all, counts, places, MPI_INTEGER, 0, &
        MPI_COMM_WORLD IERR)
    if (rank == 0) call equal(all(4 * ranks - 4 + ranks), 1000 * (ranks - 1) + 100 + ranks, &
        'the last element of the last process')
    call saw_all(all)
    all = -1
    all(2 * rank + 1:2 * rank + 2) = to(:2)
    call MPI_Allgather(MPI_IN_PLACE, 2, MPI_INTEGER, all, 2, MPI_INTEGER, MPI_COMM_WORLD IERR)
    call equal(all(2 * left + 2), 1000 * left + 102, 'an element gathered in place')
    call saw_all(all)
    call MPI_Alltoall(to, 1, MPI_INTEGER, all, 1, MPI_INTEGER, MPI_COMM_WORLD IERR)
    call saw_all(all)
    call MPI_Scatterv(all, counts, places, MPI_INTEGER, from(7), rank + 1, MPI_INTEGER, 0, &
        MPI_COMM_WORLD IERR)
    call MPI_Scan(to, from(11), 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD IERR)
    call MPI_Exscan(to, from(12), 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD IERR)
    call MPI_Reduce_scatter_block(to, from(13), 1, MPI_INTEGER, MPI_MIN, MPI_COMM_WORLD IERR)
    call equal(from(13), 101 + rank, 'a minimum')
    ! An operation of the program's own.
    call MPI_Op_create(farther, .true., op IERR)
    call MPI_Allreduce(to(14), from(14), 2, MPI_INTEGER, op, MPI_COMM_WORLD IERR)
    call MPI_Op_free(op IERR)
    call equal(from(15), 1000 * (ranks - 1) + 115, 'the result of an own operation')
    call MPI_Barrier(MPI_COMM_WORLD IERR)
    call saw_from()
  end subroutine

  subroutine saw_all(all)
    integer, intent(in) :: all(:)
    integer :: i
    do i = 1, 4 * ranks
      call saw(all(i))
    end do
  end subroutine

#if defined(WITH_F08)
  subroutine farther(one, other, length, datatype)
    use, intrinsic :: iso_c_binding, only: c_f_pointer, c_ptr
    type(c_ptr), value :: one, other
    integer :: length
    type(MPI_Datatype) :: datatype
    integer, pointer :: a(:), b(:)
    call c_f_pointer(one, a, [length])
    call c_f_pointer(other, b, [length])
    if (datatype == MPI_INTEGER) b = max(a, b)
  end subroutine
#else
  subroutine farther(a, b, length, datatype)
    integer :: length, datatype
    integer :: a(length), b(length)
    if (datatype == MPI_INTEGER) b = max(a, b)
  end subroutine
#endif

  subroutine nonblocking()
    HANDLE(MPI_Request) :: requests(4)
    HANDLE(MPI_Datatype) :: types(MOST)
    integer, asynchronous :: all(MOST), ones(MOST), places(MOST), own(MOST)
    integer :: index, i
    logical :: flag
    call prepare(2)
    all = -1
    ones = 1
    own = [(to(1) + i, i = 1, MOST)]
    places = [(4 * (i - 1), i = 1, MOST)]
    types = MPI_INTEGER
    from(1) = to(1)
    call MPI_Iallreduce(MPI_IN_PLACE, from, 1, MPI_INTEGER, MPI_MAX, MPI_COMM_WORLD, &
        requests(1) IERR)
    if (rank == 0) from(3:4) = to(3:4)
    call MPI_Ibcast(from(3), 2, MPI_INTEGER, 0, MPI_COMM_WORLD, requests(2) IERR)
    call MPI_Ialltoallw(own, ones, places, types, all, ones, places, types, MPI_COMM_WORLD, &
        requests(3) IERR)
    call MPI_Ibarrier(MPI_COMM_WORLD, requests(4) IERR)
    call MPI_Wait(requests(1), MPI_STATUS_IGNORE IERR)
    call equal(from(1), 1000 * (ranks - 1) + 201, 'a maximum in place')
    do i = 2, 4
      flag = .false.
      do while (.not. flag)
        call MPI_Testany(4, requests, index, flag, MPI_STATUS_IGNORE IERR)
      end do
      call saw(index)
    end do
    call equal(all(left + 1), 1000 * left + 202 + rank, 'an element of the left')
    do i = 1, ranks
      call saw(all(i))
    end do
    call saw_from()
  end subroutine

  subroutine communicators()
    HANDLE(MPI_Comm) :: copy, half, ring
    HANDLE(MPI_Request) :: request
    integer :: own, size, source, dest
    call prepare(3)
    call MPI_Comm_dup(MPI_COMM_WORLD, copy IERR)
    call MPI_Comm_split(copy, modulo(rank, 2), -rank, half IERR)
    call MPI_Comm_rank(half, own IERR)
    call MPI_Comm_size(half, size IERR)
    call saw(own)
    call saw(size)
    call MPI_Irecv(from, 1, MPI_INTEGER, left, 1, copy, request IERR)
    call MPI_Send(to, 1, MPI_INTEGER, right, 1, copy IERR)
    call MPI_Wait(request, MPI_STATUS_IGNORE IERR)
    call MPI_Allreduce(to(2), from(2), 1, MPI_INTEGER, MPI_SUM, half IERR)
    call MPI_Cart_create(copy, 1, [ranks], [.true.], .false., ring IERR)
    call MPI_Cart_shift(ring, 0, 1, source, dest IERR)
    call equal(source, left, 'the neighbour of a ring')
    call MPI_Neighbor_allgather(to(3), 1, MPI_INTEGER, from(3), 1, MPI_INTEGER, ring IERR)
    call equal(from(3), 1000 * left + 303, 'an element of the neighbour')
    call MPI_Comm_free(ring IERR)
    call MPI_Comm_free(half IERR)
    call MPI_Comm_free(copy IERR)
    call check(copy == MPI_COMM_NULL, 'a communicator that was freed')
    call saw_from()
  end subroutine

end module

program collectives
  use bodies
  implicit none
  call begin_program()
  call run_and_replay(blocking)
  call run_and_replay(nonblocking)
  call run_and_replay(communicators)
  call end_program()
end program
