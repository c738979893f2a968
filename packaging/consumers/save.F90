! Saves and restores: save-fortran <configuration>, with `use mpi` or, as save-f08, `use mpi_f08`; as
! save-2003 with the module for Fortran 2003
!
! Prints "done" if everything was as it should be, on every process.
program save_state
#if defined(WITH_F08)
  use mpi_f08
  use veloc_f08
#elif defined(WITH_MPI)
  use mpi
#endif
#if defined(WITH_2003)
  use, intrinsic :: iso_c_binding, only: c_loc
  use veloc_2003
#elif !defined(WITH_F08)
  use veloc
#endif
  use veloc_schedules
  implicit none
  double precision, target :: state(100, 100)
  character(len=1000) :: config
  type(VELOC_Schedule) :: schedule
  type(VELOC_Cost) :: cost
  integer :: err, rank, version

  call get_command_argument(1, config)
  rank = 0
#ifdef WITH_MPI
  call MPI_Init(err)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, err)
  call VELOC_Init(MPI_COMM_WORLD, config, err)
  call check(err == VELOC_SCES, 'VELOC_Init')
#else
  call VELOC_Init_single(0, config, err)
  call check(err == VELOC_SCES, 'VELOC_Init_single')
#endif
#ifdef WITH_2003
  call VELOC_Mem_protect(0, c_loc(state), size(state), VELOC_REAL8, err)
#else
  call VELOC_Mem_protect(0, state, err)
#endif
  call check(err == VELOC_SCES, 'VELOC_Mem_protect')
  do version = 1, 3
    state = 100 * rank + version
    call VELOC_Checkpoint('save', version, err)
    call check(err == VELOC_SCES, 'VELOC_Checkpoint')
  end do
  call VELOC_Restart_test('save', 0, version)
  call check(version == 3, 'VELOC_Restart_test')
  call VELOC_Restart('save', 2, err)
  call check(err == VELOC_SCES, 'VELOC_Restart')
  call check(all(nint(state) == 100 * rank + 2), 'the restored state')
  call VELOC_Schedule_create(100_VELOC_COUNT, 5_VELOC_COUNT, schedule, err)
  call check(err == VELOC_SCES, 'VELOC_Schedule_create')
  call VELOC_Schedule_cost(schedule, cost, err)
  call check(cost%advances == 316, 'the cost of the schedule')
  call VELOC_Schedule_free(schedule, err)
  call VELOC_Finalize(1, err)
  call check(err == VELOC_SCES, 'VELOC_Finalize')
#ifdef WITH_MPI
  call MPI_Finalize(err)
#endif
  if (rank == 0) print '(a)', 'done'

contains

  subroutine check(fine, what)
    logical, intent(in) :: fine
    character(len=*), intent(in) :: what
    character(len=400) :: why
    if (fine) return
    call VELOC_Last_error(why)
    print '(3a)', what, ': ', trim(why)
#ifdef WITH_MPI
    call MPI_Abort(MPI_COMM_WORLD, 1, err)
#endif
    error stop
  end subroutine

end program
