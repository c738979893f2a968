! The gradient of a heat equation with a source, over MPI, computed so that it survives: kill a process
! at any moment, start the job again by the same line, and it goes on to the same bits.
!
!     heat [<configuration> [<steps> <cells of a process>]]
!
! u' = u_xx + u (1 - u) on a rod whose ends are held at zero, cut among the processes; the objective is
! half the sum of u^2 in the end, and the gradient that with respect to the state at the beginning.
! It is checked by Taylor's theorem: what the gradient leaves of a change of the objective falls with
! the square of the change of the state.
module rod
  use, intrinsic :: iso_c_binding, only: c_int64_t
  use mpi
  use veloc
  use veloc_adjoints
  implicit none
  integer, parameter :: real8 = kind(1d0)
  ! dt / dx^2, and dt.
  real(real8), parameter :: k = 0.2_real8, dt = 1e-3_real8
  ! The state and the adjoint, with a cell of each neighbour, or of the ends.
  real(real8), allocatable, target :: u(:), lambda(:)
  integer :: left, right, cells = 200, steps = 4000

contains

  subroutine protect(err)
    integer, intent(out) :: err
    call VELOC_Adjoint_protect(VELOC_ADJOINT_STATE, 0, u, err)
    if (err == VELOC_SCES) call VELOC_Adjoint_protect(VELOC_ADJOINT_GRADIENT, 0, lambda, err)
  end subroutine

  ! Computes the states from `from`, which u is, to `to`.
  subroutine forward(from, to, err)
    integer(c_int64_t), intent(in) :: from, to
    integer, intent(out) :: err
    integer(c_int64_t) :: step
    do step = from + 1, to
      call exchange(u)
      u(1:cells) = u(1:cells) + k * (u(:cells - 1) - 2 * u(1:cells) + u(2:)) &
          + dt * u(1:cells) * (1 - u(1:cells))
    end do
    err = VELOC_SCES
  end subroutine

  ! Takes the adjoint's step from state `step` to state `step - 1`, which u is.
  subroutine adjoint(step, err)
    integer(c_int64_t), intent(in) :: step
    integer, intent(out) :: err
    real(real8) :: before(1:cells)
    before = u(1:cells)
    if (step == steps) then
      call forward(step - 1, step, err)
      lambda = 0
      lambda(1:cells) = u(1:cells)
    end if
    call exchange(lambda)
    lambda(1:cells) = lambda(1:cells) &
        + k * (lambda(:cells - 1) - 2 * lambda(1:cells) + lambda(2:)) &
        + dt * lambda(1:cells) * (1 - 2 * before)
    err = VELOC_SCES
  end subroutine

  ! The outermost cells of the neighbours.
  subroutine exchange(of)
    real(real8), intent(inout) :: of(0:)
    integer :: ierror
    call MPI_Sendrecv(of(cells), 1, MPI_DOUBLE_PRECISION, right, 1, of(0), 1, &
        MPI_DOUBLE_PRECISION, left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierror)
    call MPI_Sendrecv(of(1), 1, MPI_DOUBLE_PRECISION, left, 2, of(cells + 1), 1, &
        MPI_DOUBLE_PRECISION, right, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierror)
  end subroutine

  real(real8) function objective_from(start)
    real(real8), intent(in) :: start(0:)
    integer :: err
    u = start
    call forward(0_c_int64_t, int(steps, c_int64_t), err)
    objective_from = 0.5_real8 * total(sum(u(1:cells)**2))
  end function

  real(real8) function total(part)
    real(real8), intent(in) :: part
    integer :: ierror
    call MPI_Allreduce(part, total, 1, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, ierror)
  end function

end module

program heat
  use, intrinsic :: iso_fortran_env, only: output_unit
  use rod
  implicit none
  real(real8), allocatable :: first(:), direction(:)
  type(VELOC_Adjoint) :: what
  character(len=256) :: argument
  real(real8) :: slope, change, change_half, remainder(2), objective
  integer :: rank, ranks, err, ierror, i, place

  call MPI_Init(ierror)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierror)
  left = merge(rank - 1, MPI_PROC_NULL, rank > 0)
  right = merge(rank + 1, MPI_PROC_NULL, rank < ranks - 1)
  if (command_argument_count() > 1) call read_number(2, steps)
  if (command_argument_count() > 2) call read_number(3, cells)

  allocate(u(0:cells + 1), lambda(0:cells + 1), first(0:cells + 1), direction(0:cells + 1))
  do i = 1, cells
    place = rank * cells + i
    first(i) = 0.5_real8 * sin(acos(-1._real8) * place / (ranks * cells + 1))
    direction(i) = cos(0.7_real8 * place)
  end do
  first([0, cells + 1]) = 0
  direction([0, cells + 1]) = 0

  argument = 'veloc.cfg'
  if (command_argument_count() > 0) call get_command_argument(1, argument)
  call VELOC_Init(MPI_COMM_WORLD, argument, err)
  call need(err)
  if (rank == 0) print '(a, i0, a)', 'a rod of ', ranks * cells, ' cells'
  flush (output_unit)

  what%name = 'heat'
  what%steps = steps
  what%slots = 20
  what%resilience_distance = (steps + 9) / 10
  what%adjoint_distance = (steps + 39) / 40
  u = first
  call VELOC_Adjoint_run(what, protect, forward, adjoint, err)
  call need(err)

  ! J(u + e d) - J(u) - e <gradient, d> for two e.
  slope = total(sum(lambda(1:cells) * direction(1:cells)))
  objective = objective_from(first)
  change = objective_from(first + 1e-3_real8 * direction) - objective
  change_half = objective_from(first + 5e-4_real8 * direction) - objective
  remainder = abs([change - 1e-3_real8 * slope, change_half - 5e-4_real8 * slope])
  if (rank == 0) then
    print '(a, z16.16)', 'slope ', transfer(slope, 0_c_int64_t)
    print '(a, f6.3)', 'order ', log(remainder(1) / remainder(2)) / log(2._real8)
  end if
  call VELOC_Finalize(1, err)
  call need(err)
  call MPI_Finalize(ierror)

contains

  ! Ends the job on all processes if a call has failed.
  subroutine need(err)
    integer, intent(in) :: err
    character(len=400) :: why
    if (err == VELOC_SCES) return
    call VELOC_Last_error(why)
    print '(a)', trim(why)
    call MPI_Abort(MPI_COMM_WORLD, 1, ierror)
  end subroutine

  subroutine read_number(place, number)
    integer, intent(in) :: place
    integer, intent(inout) :: number
    character(len=32) :: text
    call get_command_argument(place, text)
    read (text, *) number
  end subroutine

end program
