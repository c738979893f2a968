! Arrays in persistent memory from Fortran: arrays <file> <last iteration> <iteration that is wrong>
!
! Prints the iteration that it goes on behind. An iteration is x(i) = i + iteration, and its sum the mark's scalar.
module arrays_parts
  use, intrinsic :: iso_c_binding
  use veloc_arrays
  implicit none
  integer(c_int64_t), parameter :: n = 1000
  type(VELOC_Array), target :: x

contains

  function slot(iteration)
    integer(c_int64_t), intent(in) :: iteration
    real(c_double), pointer :: slot(:)
    call c_f_pointer(VELOC_Pmem_at(x, iteration), slot, [n])
  end function

  integer(c_int) function sum_holds(iteration, scalars, count, context) bind(c)
    integer(c_int64_t), value :: iteration
    integer(c_int), value :: count
    real(c_double), intent(in) :: scalars(count)
    type(c_ptr), value :: context
    sum_holds = VELOC_INVARIANT_UNKNOWN
    if (count /= 1 .or. c_associated(context)) return
    sum_holds = merge(VELOC_INVARIANT_HOLDS, VELOC_INVARIANT_FAILS, abs(sum(slot(iteration)) - scalars(1)) < 1d-3)
  end function

end module

program arrays
  use arrays_parts
  use veloc, only: VELOC_Last_error
  implicit none
  type(VELOC_Pmem) :: pmem
  type(VELOC_Array) :: none
  type(VELOC_Tried), allocatable :: tried(:)
  real(c_double), allocatable :: scalars(:)
  character(len=500) :: path, number, reason
  character(len=:), allocatable :: why
  real(c_double), pointer :: p(:)
  integer(c_int64_t), target :: sums(10), wrong
  integer(c_int64_t) :: iteration, last, bad, i
  integer :: err, crash, granularity, nth

  call get_command_argument(1, path)
  call get_command_argument(2, number)
  read (number, *) last
  call get_command_argument(3, number)
  read (number, *) bad
  call VELOC_Pmem_open(path, 100000_c_int64_t, VELOC_CRASH_PROCESS, pmem, err)
  call check(err == 0)
  call VELOC_Pmem_domain(pmem, crash, granularity, why, err)
  call check(err == 0 .and. crash == VELOC_CRASH_PROCESS .and. granularity == 1 .and. index(why, 'process') > 0)
  call VELOC_Pmem_array(pmem, 'x', 8, n, 3, x, err)
  call check(err == 0)
  call VELOC_Pmem_array(pmem, 'x', 4, n, 3, none, err)
  call VELOC_Last_error(reason)
  call check(err == -1 .and. index(reason, '"x" has 1000 elements') > 0)
  call VELOC_Pmem_invariant(pmem, 'sum', sum_holds, err)
  call check(err == 0)
  if (bad >= 0) then
    p => slot(bad)
    p(7) = -1
  end if
  call VELOC_Pmem_recover(pmem, iteration, err)
  call check(err == 0)
  call VELOC_Pmem_scalars(pmem, scalars, err)
  call check(err == 0 .and. size(scalars) == merge(1, 0, iteration >= 0))
  if (iteration >= 0) call check(sum_holds(iteration, scalars, 1_c_int, c_null_ptr) == VELOC_INVARIANT_HOLDS)
  call VELOC_Pmem_report(pmem, tried, err)
  call check(err == 0)
  do nth = 1, size(tried)
    print '(a, i0, 1x, i0, 1x, a)', 'tried ', tried(nth)%iteration, tried(nth)%answer, tried(nth)%invariant
  end do
  print '(a, i0)', 'iteration ', iteration
  do while (iteration < last)
    iteration = iteration + 1
    p => slot(iteration)
    p = [(real(i + iteration, c_double), i=1, n)]
    call VELOC_Pmem_flush(pmem, c_loc(p(1)), 8 * n, err)
    call check(err == 0)
    call VELOC_Pmem_drain(pmem, err)
    call check(err == 0)
    call VELOC_Pmem_mark(pmem, iteration, [sum(p)], err)
    call check(err == 0)
  end do
  p => slot(iteration)
  call check(VELOC_Pmem_block_sums(c_loc(p(1)), int(n, c_size_t), 100_c_size_t, c_loc(sums)) == 0)
  p(250) = 0
  call check(VELOC_Pmem_blocks_hold(c_loc(p(1)), int(n, c_size_t), 100_c_size_t, c_loc(sums), wrong) == 0)
  call check(wrong == 2)
  p(250) = real(250 + iteration, c_double)
  call VELOC_Pmem_mark(pmem, iteration, [0d0], err)
  call check(err == -1)
  call VELOC_Pmem_close(pmem, err)
  call check(err == 0)
  print '(a)', 'done'

contains

  subroutine check(is_so)
    logical, intent(in) :: is_so
    if (is_so) return
    call VELOC_Last_error(reason)
    print '(a)', trim(reason)
    error stop 'a check has failed'
  end subroutine

end program
