! Mishaps, to see what becomes of a run: with HEAT_MISHAP="1 250 9" in the environment, process 1 gets
! the signal 9 (SIGKILL) after it has computed 250 steps, forward or reverse. A program of yours needs
! no such thing.
module mishap
  use, intrinsic :: iso_c_binding, only: c_int, c_int64_t
  implicit none
  private

  interface
    integer(c_int) function c_raise(signal) bind(c, name='raise')
      import :: c_int
      integer(c_int), value :: signal
    end function
  end interface

  ! Steps until it happens; 0: it does not, or has.
  integer(c_int64_t) :: left = 0
  integer(c_int) :: signal = 0

  public :: expect_mishap, one_step

contains

  ! To be called once, with this process's number.
  subroutine expect_mishap(rank)
    integer, intent(in) :: rank
    character(len=100) :: text
    integer :: whose, status
    integer(c_int64_t) :: after
    call get_environment_variable('HEAT_MISHAP', text, status=status)
    if (status /= 0) return
    read(text, *, iostat=status) whose, after, signal
    if (status /= 0) error stop 'HEAT_MISHAP: a process, a number of steps, a signal'
    if (whose == rank) left = after
  end subroutine

  ! A step was computed.
  subroutine one_step()
    integer(c_int) :: failed
    if (left == 0) return
    left = left - 1
    if (left == 0) failed = c_raise(signal)
  end subroutine

end module
