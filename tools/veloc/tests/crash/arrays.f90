! Whole arrays, as Fortran copies them.
program arrays
  use, intrinsic :: iso_c_binding
  implicit none
  interface
    integer(c_int) function pm_open(path, bytes, crash, pm) bind(c, name='VELOC_Pmem_open')
      import; character(c_char), intent(in) :: path(*); integer(c_size_t), value :: bytes
      integer(c_int), value :: crash; type(c_ptr), intent(out) :: pm
    end function
    integer(c_int) function pm_array(pm, name, element, count, slots, array) bind(c, name='VELOC_Pmem_array')
      import; type(c_ptr), value :: pm; character(c_char), intent(in) :: name(*)
      integer(c_size_t), value :: element, count; integer(c_int), value :: slots; type(c_ptr), intent(out) :: array
    end function
    type(c_ptr) function pm_at(array, iteration) bind(c, name='VELOC_Pmem_at')
      import; type(c_ptr), value :: array; integer(c_int64_t), value :: iteration
    end function
    integer(c_int) function pm_mark(pm, iteration, scalars, n) bind(c, name='VELOC_Pmem_mark')
      import; type(c_ptr), value :: pm, scalars; integer(c_int64_t), value :: iteration; integer(c_int), value :: n
    end function
    integer(c_int) function pm_flush(pm, at, bytes) bind(c, name='VELOC_Pmem_flush')
      import; type(c_ptr), value :: pm, at; integer(c_size_t), value :: bytes
    end function
    integer(c_int) function pm_recover(pm, iteration) bind(c, name='VELOC_Pmem_recover')
      import; type(c_ptr), value :: pm; integer(c_int64_t), intent(out) :: iteration
    end function
  end interface
  integer, parameter :: words = 64
  integer(c_int64_t) :: i, iteration
  type(c_ptr) :: pm, array, at
  real(c_double), pointer :: old(:), new(:)
  real(c_double) :: work(words)
  if (pm_open('arrays' // c_null_char, 65536_c_size_t, 1, pm) /= 0) stop 3
  if (pm_array(pm, 'u' // c_null_char, 8_c_size_t, int(words, c_size_t), 2, array) /= 0) stop 3
  if (pm_recover(pm, iteration) /= 0) stop 4
  if (iteration < 0) then
    call c_f_pointer(pm_at(array, 0_c_int64_t), old, [words])
    old = 1
    iteration = 0
  end if
  do i = iteration + 1, 30
    call c_f_pointer(pm_at(array, i - 1), old, [words])
    at = pm_at(array, i)
    call c_f_pointer(at, new, [words])
    work = cshift(old, 3) * 0.5d0 + old + i
    new = work
    if (pm_flush(pm, at, int(8 * words, c_size_t)) /= 0) stop 5
    if (pm_mark(pm, i, c_null_ptr, 0) /= 0) stop 6
  end do
  call c_f_pointer(pm_at(array, 30_c_int64_t), new, [words])
  print '(es24.16)', sum(new)
end program
