! Requests, waited for and tested in every way; those that begin before a part and end behind it;
! persistent ones.
#include "flavour.h"
module bodies
  USE_MPI
  use support
  implicit none
  HANDLE(MPI_Request) :: crossing(3), kept(2)
  ! What the interface calls the first of several requests, less 1 (MPICH 4.0's mpi_f08 counts from 0),
  ! and none of them (the same, where MPI_UNDEFINED is meant).
  integer :: base, none

contains

  ! Learns both, with messages of this process to itself.
  subroutine learn()
    HANDLE(MPI_Request) :: requests(1)
    call MPI_Irecv(from, 1, MPI_INTEGER, 0, 1, MPI_COMM_SELF, requests(1) IERR)
    call MPI_Send(to, 1, MPI_INTEGER, 0, 1, MPI_COMM_SELF IERR)
    call MPI_Waitany(1, requests, base, MPI_STATUS_IGNORE IERR)
    base = base - 1
    call MPI_Waitany(1, requests, none, MPI_STATUS_IGNORE IERR)
  end subroutine

  ! Four receives from the left, and what they wait for.
  subroutine begin_four(receives, sends, salt)
    HANDLE(MPI_Request), intent(out) :: receives(4), sends(4)
    integer, intent(in) :: salt
    integer :: i
    call prepare(salt)
    do i = 1, 4
      call MPI_Irecv(from(4 * i - 3), 4, MPI_INTEGER, MPI_ANY_SOURCE, i, MPI_COMM_WORLD, &
          receives(i) IERR)
    end do
    do i = 1, 4
      call MPI_Isend(to(i), i - 1, MPI_INTEGER, right, i, MPI_COMM_WORLD, sends(i) IERR)
    end do
  end subroutine

  subroutine waits()
    HANDLE(MPI_Request) :: receives(4), sends(4)
    STATUS(status)
    STATUSES(statuses, 4)
    integer :: indices(4), done, count, i, index
    call begin_four(receives, sends, 1)
    call MPI_Wait(receives(2), status IERR)
    call saw_status(status)
    call equal(from(5), 1000 * left + 102, 'an element that was waited for')
    call check(receives(2) == MPI_REQUEST_NULL, 'a request that is done')
    call MPI_Waitall(4, receives, statuses IERR)
    do i = 1, 4
      call saw_status(NTH(statuses, i))
    end do
    call equal(NTH_SOURCE(statuses, 3), left, 'the source of the third')
    call MPI_Waitall(4, sends, MPI_STATUSES_IGNORE IERR)

    call saw_from()
    call begin_four(receives, sends, 2)
    done = 0
    do while (done < 4)
      call MPI_Waitsome(4, receives, count, indices, statuses IERR)
      do i = 1, count
        call equal(indices(i), NTH_TAG(statuses, i) + base, 'the index of what is done')
        call saw(indices(i))
        call saw_status(NTH(statuses, i))
      end do
      done = done + count
    end do
    call MPI_Waitsome(4, receives, count, indices, statuses IERR)
    call equal(count, MPI_UNDEFINED, 'how many of none are done')
    do i = 1, 4
      call MPI_Waitany(4, sends, index, status IERR)
      call saw(index)
    end do
    call MPI_Waitany(4, sends, index, MPI_STATUS_IGNORE IERR)
    call equal(index, none, 'the index of none')
    call saw_from()
  end subroutine

  subroutine tests()
    HANDLE(MPI_Request) :: receives(4), sends(4)
    STATUS(status)
    STATUSES(statuses, 4)
    integer :: indices(4), done, count, i, index
    logical :: flag
    call begin_four(receives, sends, 3)
    flag = .false.
    do while (.not. flag)
      call MPI_Test(receives(3), flag, status IERR)
    end do
    call saw(transfer(flag, 1))
    call saw_status(status)
    call equal(from(10), 1000 * left + 304, 'an element that was tested for')
    do i = 1, 3
      flag = .false.
      do while (.not. flag)
        call MPI_Testany(4, receives, index, flag, status IERR)
      end do
      call equal(index, TAG_OF(status) + base, 'the index of what is done')
      call saw(index)
      call saw_status(status)
    end do
    call MPI_Testany(4, receives, index, flag, status IERR)
    call check(flag, 'a test of none')
    call saw(index)
    flag = .false.
    do while (.not. flag)
      call MPI_Testall(4, sends, flag, MPI_STATUSES_IGNORE IERR)
    end do

    call saw_from()
    call begin_four(receives, sends, 4)
    flag = .false.
    do while (.not. flag)
      call MPI_Request_get_status(receives(1), flag, status IERR)
    end do
    call saw_status(status)
    done = 0
    do while (done < 4)
      call MPI_Testsome(4, receives, count, indices, statuses IERR)
      do i = 1, count
        call saw(indices(i))
        call saw_status(NTH(statuses, i))
      end do
      done = done + count
    end do
    call MPI_Waitall(4, sends, MPI_STATUSES_IGNORE IERR)
    call saw_from()
  end subroutine

  subroutine others()
    HANDLE(MPI_Request) :: request, other
    HANDLE(MPI_Datatype) :: vector
    STATUS(status)
    logical :: flag
    call prepare(5)
    call MPI_Irecv(from, 1, MPI_INTEGER, left, 1, MPI_COMM_WORLD, request IERR)
    call MPI_Cancel(request IERR)
    call MPI_Wait(request, status IERR)
    call MPI_Test_cancelled(status, flag IERR)
    call check(flag, 'a request that was cancelled')
    call MPI_Isend(to, 1, MPI_INTEGER, right, 2, MPI_COMM_WORLD, request IERR)
    call MPI_Request_free(request IERR)
    call MPI_Recv(from, 1, MPI_INTEGER, left, 2, MPI_COMM_WORLD, status IERR)
    ! A type that is freed before it is used.
    call MPI_Type_vector(2, 1, 3, MPI_INTEGER, vector IERR)
    call MPI_Type_commit(vector IERR)
    call MPI_Irecv(from(3), 1, vector, left, 3, MPI_COMM_WORLD, request IERR)
    call MPI_Type_free(vector IERR)
    call MPI_Send(to, 2, MPI_INTEGER, right, 3, MPI_COMM_WORLD IERR)
    call MPI_Wait(request, MPI_STATUS_IGNORE IERR)
    call equal(from(6), 1000 * left + 502, 'an element of a type that was freed')
    ! A section with gaps, where the interface has a type for it, which it frees as well.
    if (MPI_SUBARRAYS_SUPPORTED) then
      call MPI_Irecv(from(8:14:3), 3, MPI_INTEGER, left, 4, MPI_COMM_WORLD, request IERR)
      call MPI_Isend(to(2:10:4), 3, MPI_INTEGER, right, 4, MPI_COMM_WORLD, other IERR)
      call MPI_Wait(other, MPI_STATUS_IGNORE IERR)
      call MPI_Wait(request, MPI_STATUS_IGNORE IERR)
      call equal(from(11), 1000 * left + 506, 'an element of a section')
      call equal(from(12), -1, 'a gap of a section')
    end if
    call saw_from()
  end subroutine

  ! The first two begin before the part, the last one ends behind it.
  subroutine begin_crossing()
    call prepare(6)
    call MPI_Irecv(from, 2, MPI_INTEGER, left, 1, MPI_COMM_WORLD, crossing(1) IERR)
    call MPI_Irecv(from(4), 2, MPI_INTEGER, left, 2, MPI_COMM_WORLD, crossing(2) IERR)
  end subroutine

  subroutine cross()
    STATUS(status)
    integer :: index, i
    call MPI_Send(to(4), 2, MPI_INTEGER, right, 2, MPI_COMM_WORLD IERR)
    call MPI_Send(to, 2, MPI_INTEGER, right, 1, MPI_COMM_WORLD IERR)
    do i = 1, 2
      call MPI_Waitany(2, crossing, index, status IERR)
      call equal(index, TAG_OF(status) + base, 'the index of what began before')
      call saw(index)
      call saw_status(status)
    end do
    call equal(from(5), 1000 * left + 605, 'an element of what began before')
    call MPI_Irecv(from(7), 1, MPI_INTEGER, left, 3, MPI_COMM_WORLD, crossing(3) IERR)
    do i = 1, 5
      call saw(from(i))
    end do
  end subroutine

  subroutine borders()
    call begin_crossing()
    count_seen = 0
    call part_begin(1)
    call cross()
    call part(VELOC_Part_end, 1)
    call MPI_Send(to(7), 1, MPI_INTEGER, right, 3, MPI_COMM_WORLD IERR)
    call MPI_Wait(crossing(3), MPI_STATUS_IGNORE IERR)
    call equal(from(7), 1000 * left + 607, 'an element behind the part')
    call replay_in_turns(cross)
  end subroutine

  ! With requests that were made before the part, and others made in it.
  subroutine persistent()
    HANDLE(MPI_Request) :: own(2)
    STATUSES(statuses, 2)
    integer :: i
    call prepare(7)
    call MPI_Recv_init(from(9), 4, MPI_INTEGER, MPI_ANY_SOURCE, 2, MPI_COMM_WORLD, own(1) IERR)
    call MPI_Send_init(to(5), 3, MPI_INTEGER, right, 2, MPI_COMM_WORLD, own(2) IERR)
    do i = 1, 3
      call prepare(7 + i)
      call MPI_Startall(2, kept IERR)
      call MPI_Start(own(1) IERR)
      call MPI_Start(own(2) IERR)
      call MPI_Waitall(2, kept, statuses IERR)
      call saw_status(NTH(statuses, 1))
      call MPI_Waitall(2, own, statuses IERR)
      call saw_status(NTH(statuses, 1))
      call equal(from(2), 1000 * left + 702 + 100 * i, 'an element of a persistent request')
      call check(kept(1) /= MPI_REQUEST_NULL .and. own(2) /= MPI_REQUEST_NULL, 'they stay')
      call saw_from()
    end do
    do i = 1, 2
      call MPI_Request_free(own(i) IERR)
    end do
  end subroutine

end module

program requests
  use bodies
  implicit none
  integer :: i
  call begin_program()
  call learn()
  call run_and_replay(waits)
  call run_and_replay(tests)
  call run_and_replay(others)
  call borders()
  call MPI_Recv_init(from, 4, MPI_INTEGER, left, 1, MPI_COMM_WORLD, kept(1) IERR)
  call MPI_Send_init(to, 4, MPI_INTEGER, right, 1, MPI_COMM_WORLD, kept(2) IERR)
  call run_and_replay(persistent)
  do i = 1, 2
    call MPI_Request_free(kept(i) IERR)
  end do
  call end_program()
end program
