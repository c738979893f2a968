! Which temperatures did a plate have, if so many steps later it has those that were measured? The
! gradient of the misfit by the temperatures at the beginning, computed so that it survives: kill it
! at any moment, start it again by the same line, and it goes on to the same bits.
!
!   mpirun -n 4 heat [<configuration> [<seconds>]]
!
! After so many seconds, or when it gets SIGUSR1, it stops of itself, to be started again.
module problem
  use, intrinsic :: iso_c_binding, only: c_int, c_int64_t
  use, intrinsic :: iso_fortran_env, only: real64
  use mishap, only: one_step
  use plate
  use veloc_f08
  implicit none

  integer(c_int64_t), parameter :: STEPS = 120
  ! The temperatures, with their halo; those that were measured; the derivatives of the misfit.
  real(real64), allocatable, target :: u(:, :), measured(:, :), lambda(:, :)

contains

  ! What is part of a state, and what of the adjoint. The halo is fetched anew in each step.
  subroutine protect(err)
    integer, intent(inout) :: err
    call VELOC_Adjoint_protect(VELOC_ADJOINT_STATE, 0, u(:, 1:rows), err)
    if (err == VELOC_SCES) call VELOC_Adjoint_protect(VELOC_ADJOINT_GRADIENT, 0, lambda, err)
  end subroutine

  ! From state `from` to state `to`.
  subroutine forward(from, to, err)
    integer(c_int64_t), intent(in) :: from, to
    integer, intent(inout) :: err
    integer(c_int64_t) :: i
    do i = from + 1, to
      call step(u)
      call one_step()
    end do
    ! Steps of this length are not stable for more.
    if (.not. all(u < 1.5_real64)) err = VELOC_NSCS
  end subroutine

  ! From state `at - 1`: its derivatives, from those of state `at`.
  subroutine reverse(at, err)
    integer(c_int64_t), intent(in) :: at
    integer, intent(inout) :: err
    real(real64) :: last(CELLS, 0:rows + 1)
    if (at == STEPS) then
      last = u
      call step(last)
      lambda = (last(:, 1:rows) - measured) * WIDTH**2
    end if
    call step_adjoint(u, lambda)
    call one_step()
    if (.not. all(abs(lambda) <= huge(lambda))) err = VELOC_NSCS
  end subroutine

  ! The misfit of the temperatures that follow from those at the beginning.
  real(real64) function misfit(beginning)
    real(real64), intent(in) :: beginning(CELLS, rows)
    real(real64) :: now(CELLS, 0:rows + 1)
    integer(c_int64_t) :: i
    now(:, 1:rows) = beginning
    do i = 1, STEPS
      call step(now)
    end do
    misfit = total(sum((now(:, 1:rows) - measured)**2)) * WIDTH**2 / 2
  end function

  ! A round spot of heat.
  function spot(x, y, radius)
    real(real64), intent(in) :: x, y, radius
    real(real64) :: spot(CELLS, rows)
    integer :: i, j
    do j = 1, rows
      do i = 1, CELLS
        spot(i, j) = exp(-(((i - 0.5_real64) * WIDTH - x)**2 &
            + ((rows_before + j - 0.5_real64) * WIDTH - y)**2) / radius**2)
      end do
    end do
  end function

  ! A batch system's warning that the time is nearly over.
  subroutine warned(signal) bind(c)
    integer(c_int), value :: signal
    integer :: err
    if (signal > 0) call VELOC_Adjoint_stop(err)
  end subroutine

end module

program heat
  use, intrinsic :: iso_c_binding, only: c_funloc, c_funptr, c_int
  use mishap, only: expect_mishap
  use mpi_f08
  use problem
  implicit none
  interface
    type(c_funptr) function c_signal(number, handler) bind(c, name='signal')
      import :: c_int, c_funptr
      integer(c_int), value :: number
      type(c_funptr), value :: handler
    end function
  end interface
  ! As Linux has it.
  integer(c_int), parameter :: SIGUSR1 = 10
  type(VELOC_Adjoint) :: what
  type(c_funptr) :: handler_before
  character(len=1000) :: configuration, text
  real(real64), allocatable :: guess(:, :)
  real(real64) :: seconds
  integer :: err, rank
  logical :: correct

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  configuration = 'veloc.cfg'
  if (command_argument_count() > 0) call get_command_argument(1, configuration)
  seconds = 0
  if (command_argument_count() > 1) then
    call get_command_argument(2, text)
    read(text, *) seconds
  end if
  call VELOC_Init(MPI_COMM_WORLD, configuration, err)
  if (err /= VELOC_SCES) call fail('VELOC_Init')

  ! What was measured, here made up, and what the beginning is believed to have been.
  call share_plate(MPI_COMM_WORLD)
  allocate(u(CELLS, 0:rows + 1), measured(CELLS, rows), lambda(CELLS, rows), guess(CELLS, rows))
  measured = 0.6_real64 * spot(0.4_real64, 0.3_real64, 0.3_real64)
  guess = 0.8_real64 * spot(0.5_real64, 0.55_real64, 0.25_real64)

  call expect_mishap(rank)
  handler_before = c_signal(SIGUSR1, c_funloc(warned))
  u = 0
  u(:, 1:rows) = guess
  what = VELOC_Adjoint(name='heat', steps=STEPS, slots=5, resilience_distance=30, &
      adjoint_distance=10, time_limit=seconds, protect=protect, forward=forward, adjoint=reverse)
  call VELOC_Adjoint_run(what, err)
  if (err /= VELOC_SCES .and. err /= VELOC_STOPPED) call fail('VELOC_Adjoint_run')
  if (err == VELOC_SCES) then
    call write_gradient()
    correct = taylor_test()
    if (rank == 0 .and. correct) print '(a)', 'done'
    if (rank == 0 .and. .not. correct) print '(a)', 'the gradient is wrong'
  else
    correct = .true.
    if (rank == 0) print '(a)', 'stopped; start it again'
  end if
  call VELOC_Finalize(1, err)
  if (err /= VELOC_SCES) call fail('VELOC_Finalize')
  call MPI_Finalize()
  if (.not. correct) error stop

contains

  ! A file of each process, in its rows' order.
  subroutine write_gradient()
    integer :: unit
    character(len=30) :: name
    write(name, '(a, i0, a)') 'gradient-', rank, '.bin'
    open(newunit=unit, file=name, form='unformatted', access='stream', status='replace')
    write(unit) lambda
    close(unit)
  end subroutine

  ! Whether the misfit a little beside the guess is what the gradient says, up to a remainder that
  ! is a fourth if that is half as far away.
  logical function taylor_test()
    real(real64) :: direction(CELLS, rows), at_guess, slope, distance, remainder, last
    integer :: i
    direction = spot(0.45_real64, 0.5_real64, 0.3_real64)
    slope = total(sum(lambda * direction))
    at_guess = misfit(guess)
    if (rank == 0) print '(2(a, es22.14))', 'misfit', at_guess, ', slope', slope
    if (rank == 0) print '(a)', ' distance   remainder  ratio'
    taylor_test = .true.
    last = 0
    do i = 0, 3
      distance = 0.1_real64 / 2**i
      remainder = abs(misfit(guess + distance * direction) - at_guess - distance * slope)
      if (rank == 0) print '(2es11.3, f7.2)', distance, remainder, last / remainder
      if (i > 0) taylor_test = taylor_test .and. abs(last / remainder - 4) < 0.2_real64
      last = remainder
    end do
  end function

  subroutine fail(call)
    character(len=*), intent(in) :: call
    call VELOC_Last_error(text)
    print '(3a)', call, ': ', trim(text)
    call MPI_Abort(MPI_COMM_WORLD, 1)
  end subroutine

end program
