! A plate that conducts heat the better the hotter it is: u_t = div(k(u) grad u), k(u) = 1 + u**2,
! with insulated edges. One explicit step in time, and the adjoint of exactly this step.
!
! The plate is cut into strips of rows u(:, j), one strip for each process. Around its own rows,
! 1 to `rows`, a process has a halo: rows 0 and `rows` + 1 are copies of its neighbours'.
module plate
  use, intrinsic :: iso_fortran_env, only: real64
  use mpi_f08
  implicit none
  private

  ! Cells of the plate, a square with sides of length 1.
  integer, parameter, public :: CELLS = 48
  real(real64), parameter, public :: WIDTH = 1 / real(CELLS, real64)
  ! Seconds of a step. For temperatures up to 1.5 the limit of stability is WIDTH**2 / 13.
  real(real64), parameter :: STEP_LENGTH = 3e-5_real64
  real(real64), parameter :: C = STEP_LENGTH / WIDTH**2

  ! The rows of this process, and how many rows there are before them.
  integer, public, protected :: rows, rows_before
  type(MPI_Comm) :: comm
  ! The processes with the rows before and after; MPI_PROC_NULL: there are none.
  integer :: before, after

  public :: share_plate, step, step_adjoint, total

contains

  ! Gives each process of the communicator its rows.
  subroutine share_plate(over)
    type(MPI_Comm), intent(in) :: over
    integer :: rank, ranks
    comm = over
    call MPI_Comm_rank(comm, rank)
    call MPI_Comm_size(comm, ranks)
    if (ranks > CELLS) error stop 'more processes than rows'
    rows_before = CELLS * rank / ranks
    rows = CELLS * (rank + 1) / ranks - rows_before
    before = merge(rank - 1, MPI_PROC_NULL, rank > 0)
    after = merge(rank + 1, MPI_PROC_NULL, rank < ranks - 1)
  end subroutine

  ! The next temperatures. The halo need not be up to date, and is not afterwards.
  subroutine step(u)
    real(real64), intent(inout) :: u(CELLS, 0:rows + 1)
    real(real64) :: gain(CELLS, 0:rows + 1), flow
    integer :: i, j
    call fetch_halo(u)
    gain = 0
    do j = 1, rows
      do i = 1, CELLS - 1
        flow = flow_between(u(i, j), u(i + 1, j))
        gain(i, j) = gain(i, j) - flow
        gain(i + 1, j) = gain(i + 1, j) + flow
      end do
    end do
    do j = first_face(), last_face()
      do i = 1, CELLS
        flow = flow_between(u(i, j), u(i, j + 1))
        gain(i, j) = gain(i, j) - flow
        gain(i, j + 1) = gain(i, j + 1) + flow
      end do
    end do
    u(:, 1:rows) = u(:, 1:rows) + gain(:, 1:rows)
  end subroutine

  ! The adjoint of the step from the temperatures `u`: `lambda` has the derivatives of the cost by
  ! the temperatures after the step, and gets those by `u`.
  subroutine step_adjoint(u, lambda)
    real(real64), intent(inout) :: u(CELLS, 0:rows + 1)
    real(real64), intent(inout) :: lambda(CELLS, rows)
    ! A process computes what its own cells gain and nothing else, so those of the halo have no part
    ! in the cost.
    real(real64) :: after_step(CELLS, 0:rows + 1), by_u(CELLS, 0:rows + 1)
    integer :: i, j
    call fetch_halo(u)
    after_step = 0
    after_step(:, 1:rows) = lambda
    by_u = 0
    do j = 1, rows
      do i = 1, CELLS - 1
        call flow_adjoint(u(i, j), u(i + 1, j), after_step(i + 1, j) - after_step(i, j), &
            by_u(i, j), by_u(i + 1, j))
      end do
    end do
    do j = first_face(), last_face()
      do i = 1, CELLS
        call flow_adjoint(u(i, j), u(i, j + 1), after_step(i, j + 1) - after_step(i, j), &
            by_u(i, j), by_u(i, j + 1))
      end do
    end do
    call return_halo(by_u)
    lambda = lambda + by_u(:, 1:rows)
  end subroutine

  ! Sums up over all processes.
  real(real64) function total(own)
    real(real64), intent(in) :: own
    call MPI_Allreduce(own, total, 1, MPI_DOUBLE_PRECISION, MPI_SUM, comm)
  end function

  ! Faces between rows j and j + 1: those at the edge of the plate let nothing through.
  integer function first_face()
    first_face = merge(1, 0, before == MPI_PROC_NULL)
  end function

  integer function last_face()
    last_face = merge(rows - 1, rows, after == MPI_PROC_NULL)
  end function

  ! What flows in a step from a cell with temperature a to its neighbour with b.
  pure real(real64) function flow_between(a, b)
    real(real64), intent(in) :: a, b
    flow_between = C * (1 + ((a + b) / 2)**2) * (a - b)
  end function

  ! Its adjoint: `by_flow` is the derivative of the cost by the flow.
  pure subroutine flow_adjoint(a, b, by_flow, by_a, by_b)
    real(real64), intent(in) :: a, b, by_flow
    real(real64), intent(inout) :: by_a, by_b
    real(real64) :: through_k, through_difference
    through_k = C * (a + b) / 2 * (a - b)
    through_difference = C * (1 + ((a + b) / 2)**2)
    by_a = by_a + by_flow * (through_k + through_difference)
    by_b = by_b + by_flow * (through_k - through_difference)
  end subroutine

  ! Copies the neighbours' rows into the halo.
  subroutine fetch_halo(u)
    real(real64), intent(inout) :: u(CELLS, 0:rows + 1)
    call MPI_Sendrecv(u(:, 1), CELLS, MPI_DOUBLE_PRECISION, before, 0, &
        u(:, rows + 1), CELLS, MPI_DOUBLE_PRECISION, after, 0, comm, MPI_STATUS_IGNORE)
    call MPI_Sendrecv(u(:, rows), CELLS, MPI_DOUBLE_PRECISION, after, 1, &
        u(:, 0), CELLS, MPI_DOUBLE_PRECISION, before, 1, comm, MPI_STATUS_IGNORE)
  end subroutine

  ! The adjoint of that: a copy's derivatives are added to those of what was copied. Messages go the
  ! other way.
  subroutine return_halo(by_u)
    real(real64), intent(inout) :: by_u(CELLS, 0:rows + 1)
    real(real64) :: of_copy(CELLS)
    of_copy = 0
    call MPI_Sendrecv(by_u(:, rows + 1), CELLS, MPI_DOUBLE_PRECISION, after, 0, &
        of_copy, CELLS, MPI_DOUBLE_PRECISION, before, 0, comm, MPI_STATUS_IGNORE)
    by_u(:, 1) = by_u(:, 1) + of_copy
    of_copy = 0
    call MPI_Sendrecv(by_u(:, 0), CELLS, MPI_DOUBLE_PRECISION, before, 1, &
        of_copy, CELLS, MPI_DOUBLE_PRECISION, after, 1, comm, MPI_STATUS_IGNORE)
    by_u(:, rows) = by_u(:, rows) + of_copy
  end subroutine

end module
