! Blocking messages: of any source, probed for, of derived types, at MPI_BOTTOM, in sections of arrays.
#include "flavour.h"
module bodies
  USE_MPI
  use support
  implicit none

contains

  subroutine exchanges()
    STATUS(status)
    character(len=8) :: word, words(2)
    real(kind(0d0)) :: number
    call prepare(1)
    call MPI_Sendrecv(to, 3, MPI_INTEGER, right, 1, from, 5, MPI_INTEGER, left, 1, MPI_COMM_WORLD, &
        status IERR)
    call saw_status(status)
    call equal(from(3), 1000 * left + 103, 'an element that was received')
    call equal(SOURCE_OF(status), left, 'the source')
    call MPI_Sendrecv_replace(to, 4, MPI_INTEGER, left, 2, right, 2, MPI_COMM_WORLD, status IERR)
    call saw(to(4))
    call MPI_Ssend(to, 0, MPI_INTEGER, MPI_PROC_NULL, 1, MPI_COMM_WORLD IERR)
    call MPI_Recv(from, 2, MPI_INTEGER, MPI_PROC_NULL, 1, MPI_COMM_WORLD, status IERR)
    call saw_status(status)
    call equal(SOURCE_OF(status), MPI_PROC_NULL, 'the source of nothing')
    ! Without a status, and of other types.
    write (word, '(i0)') rank
    words = ' '
    call MPI_Send(word, 8, MPI_CHARACTER, right, 3, MPI_COMM_WORLD IERR)
    call MPI_Send([1d0 / (rank + 2)], 1, MPI_DOUBLE_PRECISION, right, 4, MPI_COMM_WORLD IERR)
    call MPI_Recv(words(2), 8, MPI_CHARACTER, left, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE IERR)
    number = 0
    call MPI_Recv(number, 1, MPI_DOUBLE_PRECISION, left, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE IERR)
    call saw(ichar(words(2)(1:1)))
    call saw(nint(number * 1000000))
    call saw_from()
  end subroutine

  ! In an order that nobody knows.
  subroutine wildcards()
    STATUS(status)
    integer :: i
    call prepare(2)
    if (rank > 0) then
      call MPI_Send(to, rank, MPI_INTEGER, 0, 10 + rank, MPI_COMM_WORLD IERR)
    else
      do i = 1, ranks - 1
        call MPI_Recv(from(4 * i), 4, MPI_INTEGER, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &
            status IERR)
        call saw_status(status)
        call equal(TAG_OF(status), 10 + SOURCE_OF(status), 'the tag')
        call equal(from(4 * i), 1000 * SOURCE_OF(status) + 201, 'an element of any source')
      end do
    end if
    call saw_from()
  end subroutine

  subroutine probes()
    STATUS(status)
    HANDLE(MPI_Message) :: message
    logical :: found
    integer :: number
    call prepare(3)
    call MPI_Send(to, 2 + rank, MPI_INTEGER, right, 1, MPI_COMM_WORLD IERR)
    found = .false.
    do while (.not. found)
      call MPI_Iprobe(left, 1, MPI_COMM_WORLD, found, status IERR)
    end do
    call saw(transfer(found, 1))
    call saw_status(status)
    call MPI_Get_count(status, MPI_INTEGER, number IERR)
    call equal(number, 2 + left, 'the length that was probed')
    call MPI_Recv(from, number, MPI_INTEGER, left, 1, MPI_COMM_WORLD, status IERR)
    call MPI_Send(to(5), 3, MPI_INTEGER, right, 2, MPI_COMM_WORLD IERR)
    call MPI_Send(to(9), 2, MPI_INTEGER, right, 3, MPI_COMM_WORLD IERR)
    call MPI_Probe(MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, status IERR)
    call saw_status(status)
    call MPI_Mprobe(MPI_ANY_SOURCE, 2, MPI_COMM_WORLD, message, status IERR)
    call saw_status(status)
    call MPI_Mrecv(from(6), 4, MPI_INTEGER, message, status IERR)
    call saw(merge(1, 0, message == MPI_MESSAGE_NULL))
    call saw_status(status)
    call MPI_Recv(from(12), 2, MPI_INTEGER, left, 3, MPI_COMM_WORLD, status IERR)
    call equal(from(8), 1000 * left + 307, 'an element that was probed for')
    call saw_from()
  end subroutine

  subroutine types()
    HANDLE(MPI_Datatype) :: vector, far
    integer(MPI_ADDRESS_KIND) :: place(1)
    call prepare(4)
    call MPI_Type_vector(3, 1, 2, MPI_INTEGER, vector IERR)
    call MPI_Type_commit(vector IERR)
    call MPI_Sendrecv(to, 3, MPI_INTEGER, right, 1, from, 1, vector, left, 1, MPI_COMM_WORLD, &
        MPI_STATUS_IGNORE IERR)
    call MPI_Type_free(vector IERR)
    call equal(from(5), 1000 * left + 403, 'the last element of a vector')
    call equal(from(4), -1, 'a gap of a vector')
    call MPI_Get_address(from(8), place(1) IERR)
    call MPI_Type_create_hindexed(1, [2], place, MPI_INTEGER, far IERR)
    call MPI_Type_commit(far IERR)
    call MPI_Send(to(3), 2, MPI_INTEGER, right, 2, MPI_COMM_WORLD IERR)
    call MPI_Recv(MPI_BOTTOM, 1, far, left, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE IERR)
    call MPI_Type_free(far IERR)
    call equal(from(9), 1000 * left + 404, 'an element at MPI_BOTTOM')
    ! A section with gaps: by a copy, or by a type that the interface makes.
    call MPI_Send(to(1:9:4), 3, MPI_INTEGER, right, 3, MPI_COMM_WORLD IERR)
    call MPI_Recv(from(10:16:3), 3, MPI_INTEGER, left, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE IERR)
    call equal(from(13), 1000 * left + 405, 'an element of a section')
    call saw_from()
  end subroutine

end module

program messages
  use bodies
  implicit none
  call begin_program()
  call run_and_replay(exchanges)
  call run_and_replay(wildcards)
  call run_and_replay(probes)
  call run_and_replay(types)
  call end_program()
end program
