! The Fortran interface over MPI, with `use mpi_f08`: together_f08 <configuration>
! Rank 0 prints "done" if everything was as it should be on all ranks.
! MPI's integers need not be of the program's default kind.
program together_f08
  use mpi_f08
  use veloc_f08
  implicit none
  integer, parameter :: MPI_KIND = kind(MPI_COMM_WORLD%MPI_VAL)
  integer :: err, version
  integer(MPI_KIND) :: rank, total
  integer, target :: state(1000)
  character(len=1000) :: config

  call get_command_argument(1, config)
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call VELOC_Init(MPI_COMM_WORLD, config, err)
  if (err /= VELOC_SCES) call fail('VELOC_Init')
  call VELOC_Mem_protect(0, state, err)
  do version = 1, 3
    state = 100 * rank + version
    call VELOC_Checkpoint('t', version, err)
    if (err /= VELOC_SCES) call fail('VELOC_Checkpoint')
  end do
  call VELOC_Restart_test('t', 0, version)
  if (version /= 3) call fail('VELOC_Restart_test')
  state = 0
  call VELOC_Restart('t', 2, err)
  if (err /= VELOC_SCES .or. any(state /= 100 * rank + 2)) call fail('VELOC_Restart')
  call VELOC_Finalize(1, err)
  if (err /= VELOC_SCES) call fail('VELOC_Finalize')
  ! The communicator was duplicated: it is still the program's.
  call MPI_Allreduce(1_MPI_KIND, total, 1_MPI_KIND, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
  call MPI_Finalize()
  if (rank == 0 .and. total == 3) print '(a)', 'done'

contains

  subroutine fail(what)
    character(len=*), intent(in) :: what
    character(len=400) :: why
    call VELOC_Last_error(why)
    print '(3a)', what, ': ', trim(why)
    call MPI_Abort(MPI_COMM_WORLD, 1_MPI_KIND)
  end subroutine

end program
