! Heat spreads over a plate, as in plate.c, whose checkpoints this program takes up and which takes up those of this one:
! a column here is a row there. The processes share the columns.
!
!   mpirun -n 4 plate [<configuration> [<steps>]]
program plate_of_heat
  use, intrinsic :: iso_fortran_env, only: real64
  use mpi
  use veloc
  implicit none
  integer, parameter :: ROWS = 44, COLUMNS = 60, EACH = 20
  real(real64), allocatable, target :: u(:, :)
  real(real64) :: part(ROWS, COLUMNS), whole(ROWS, COLUMNS)
  integer, target :: now
  integer :: rank, ranks, before, own, steps, version, err, i, j
  character(len=1000) :: configuration, text

  call MPI_Init(err)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, err)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, err)
  configuration = 'veloc.cfg'
  if (command_argument_count() > 0) call get_command_argument(1, configuration)
  steps = 200
  if (command_argument_count() > 1) then
    call get_command_argument(2, text)
    read(text, *) steps
  end if
  call VELOC_Init(MPI_COMM_WORLD, configuration, err); call check('VELOC_Init')
  before = COLUMNS * rank / ranks
  own = COLUMNS * (rank + 1) / ranks - before
  allocate(u(ROWS, own))

  now = 0
  call VELOC_Mem_protect(0, now, err); call check('VELOC_Mem_protect')
  call VELOC_Mem_protect(1, u, err); call check('VELOC_Mem_protect')
  call VELOC_Mem_decompose(1, [ROWS, COLUMNS], [0, before], [ROWS, own], VELOC_REAL8, err)
  call check('VELOC_Mem_decompose')
  call VELOC_Restart_test('plate', 0, version)
  if (version > 0) then
    call VELOC_Restart('plate', version, err); call check('VELOC_Restart')
    if (rank == 0) print '(a, i0)', 'goes on at step ', now
  else
    do j = 1, own
      do i = 1, ROWS
        u(i, j) = mod((before + j - 1) * 7, 11) * mod((i - 1) * 5, 13)
      end do
    end do
  end if
  do while (now < steps)
    call step()
    now = now + 1
    if (mod(now, EACH) == 0) then
      call VELOC_Checkpoint('plate', now, err); call check('VELOC_Checkpoint')
    end if
  end do
  part = 0
  part(:, before + 1:before + own) = u
  call MPI_Reduce(part, whole, size(part), MPI_DOUBLE_PRECISION, MPI_SUM, 0, MPI_COMM_WORLD, err)
  if (rank == 0) then
    open(newunit=i, file='plate.bin', form='unformatted', access='stream', status='replace')
    write(i) whole
    close(i)
  end if
  call VELOC_Finalize(1, err); call check('VELOC_Finalize')
  call MPI_Finalize(err)
  if (rank == 0) print '(a)', 'done'

contains

  subroutine step()
    real(real64) :: wide(0:ROWS + 1, 0:own + 1)
    integer :: left, right, status(MPI_STATUS_SIZE)
    left = merge(rank - 1, MPI_PROC_NULL, rank > 0)
    right = merge(rank + 1, MPI_PROC_NULL, rank < ranks - 1)
    wide = 0
    wide(1:ROWS, 1:own) = u
    call MPI_Sendrecv(wide(1, 1), ROWS, MPI_DOUBLE_PRECISION, left, 0, wide(1, own + 1), ROWS, &
        MPI_DOUBLE_PRECISION, right, 0, MPI_COMM_WORLD, status, err)
    call MPI_Sendrecv(wide(1, own), ROWS, MPI_DOUBLE_PRECISION, right, 1, wide(1, 0), ROWS, &
        MPI_DOUBLE_PRECISION, left, 1, MPI_COMM_WORLD, status, err)
    do j = 1, own
      do i = 1, ROWS
        u(i, j) = wide(i, j) + 0.2_real64 * (wide(i - 1, j) + wide(i + 1, j) &
            + wide(i, j - 1) + wide(i, j + 1) - 4 * wide(i, j))
      end do
    end do
  end subroutine

  subroutine check(call)
    character(len=*), intent(in) :: call
    integer :: ignored
    if (err == VELOC_SCES) return
    call VELOC_Last_error(text)
    print '(3a)', call, ': ', trim(text)
    call MPI_Abort(MPI_COMM_WORLD, 1, ignored)
  end subroutine

end program
