! Conjugate gradients in Fortran whose vectors survive a crash in persistent memory: cg FILE [N] [CRASH]
!
! As cg.c, for the Laplace equation on a square of N by N points, without a matrix. CRASH: process, power or page. A run that
! was interrupted goes on from the newest state in which the equations of the method hold, and prints the same.
module laplace
  use, intrinsic :: iso_c_binding
  use veloc_arrays
  implicit none

  ! How much rounding may leave of what ought to be 0, by the size of what it is the difference of.
  real(c_double), parameter :: tolerance = 1d-11
  ! What a mark says of its state: r.r, r.r before, and the sum of the bits of z.
  integer, parameter :: rr = 1, before = 2, bits = 3
  integer :: n = 64
  type(VELOC_Pmem) :: pmem
  type(VELOC_Array) :: p, q, r, z

contains

  ! The slot of a state, with the points around the square, which are 0.
  function state(array, k) result(slot)
    type(VELOC_Array), intent(in) :: array
    integer(c_int64_t), intent(in) :: k
    real(c_double), pointer :: slot(:, :)
    real(c_double), pointer :: all(:, :)
    call c_f_pointer(VELOC_Pmem_at(array, k), all, [n + 2, n + 2])
    slot(0:, 0:) => all
  end function

  ! The sum of all products, of the points in the square.
  real(c_double) function dot(x, y)
    real(c_double), intent(in) :: x(0:, 0:), y(0:, 0:)
    dot = sum(x(1:n, 1:n) * y(1:n, 1:n))
  end function

  ! y = A x
  subroutine multiply(x, y)
    real(c_double), intent(in) :: x(0:, 0:)
    real(c_double), intent(inout) :: y(0:, 0:)
    integer :: i, j
    do j = 1, n
      do i = 1, n
        y(i, j) = 4 * x(i, j) - x(i - 1, j) - x(i + 1, j) - x(i, j - 1) - x(i, j + 1)
      end do
    end do
  end subroutine

  ! The sum of the words of z in 52 bits, which a double has: it tells the last bits, which no norm does.
  real(c_double) function bits_of(x)
    real(c_double), intent(in), target, contiguous :: x(0:, 0:)
    integer(c_int64_t), target :: total(1)
    integer(c_size_t) :: words
    words = size(x, kind=c_size_t)
    if (VELOC_Pmem_block_sums(c_loc(x), words, words, c_loc(total)) /= 0) error stop 'no sum'
    bits_of = real(iand(total(1), 2_c_int64_t**52 - 1), c_double)
  end function

  ! The right-hand side is 1 in each point: r(k) = b - A z(k), and z has the bits of the mark.
  integer(c_int) function is_residual(k, said, count, context) bind(c)
    integer(c_int64_t), value :: k
    integer(c_int), value :: count
    real(c_double), intent(in) :: said(count)
    type(c_ptr), value :: context
    real(c_double), pointer :: r_k(:, :), z_k(:, :)
    real(c_double), allocatable :: left(:, :)
    is_residual = VELOC_INVARIANT_UNKNOWN
    if (count /= 3 .or. c_associated(context)) return
    r_k => state(r, k)
    z_k => state(z, k)
    is_residual = VELOC_INVARIANT_FAILS
    if (abs(bits_of(z_k) - said(bits)) > 0) return
    allocate(left(0:n + 1, 0:n + 1), source=0d0)
    call multiply(z_k, left)
    left(1:n, 1:n) = 1 - left(1:n, 1:n) - r_k(1:n, 1:n)
    ! Written so that a number that is none fails.
    if (sqrt(dot(left, left)) <= tolerance * (n + 8 * sqrt(dot(z_k, z_k)))) is_residual = VELOC_INVARIANT_HOLDS
  end function

  ! p(k) follows r(k) and p(k - 1): p.q = 0 and p.r = r.r, which is that of the mark. Vectors that were never written satisfy
  ! all of it but p > 0.
  integer(c_int) function is_orthogonal(k, said, count, context) bind(c)
    integer(c_int64_t), value :: k
    integer(c_int), value :: count
    real(c_double), intent(in) :: said(count)
    type(c_ptr), value :: context
    real(c_double), pointer :: p_k(:, :), q_k(:, :), r_k(:, :)
    real(c_double) :: pp, qq, r_r
    is_orthogonal = VELOC_INVARIANT_UNKNOWN
    if (count /= 3 .or. c_associated(context)) return
    p_k => state(p, k)
    q_k => state(q, k)
    r_k => state(r, k)
    is_orthogonal = VELOC_INVARIANT_FAILS
    pp = dot(p_k, p_k)
    r_r = dot(r_k, r_k)
    if (abs(r_r - said(rr)) > 0 .or. .not. pp > 0) return
    if (.not. abs(dot(p_k, r_k) - r_r) <= tolerance * sqrt(pp * r_r)) return
    if (k > 0) then
      qq = dot(q_k, q_k)
      if (.not. qq > 0) return
      if (.not. abs(dot(p_k, q_k)) <= tolerance * sqrt(max(pp, said(before)) * qq)) return
    end if
    is_orthogonal = VELOC_INVARIANT_HOLDS
  end function

end module

program cg
  use laplace
  use veloc, only: VELOC_Last_error
  use, intrinsic :: iso_fortran_env, only: error_unit
  implicit none
  real(c_double), parameter :: stop_at = 1d-10
  integer, parameter :: slots = 4
  type(VELOC_Tried), allocatable :: tried(:)
  real(c_double), pointer :: p_k(:, :), r_k(:, :), z_k(:, :), p_next(:, :), q_next(:, :), r_next(:, :), z_next(:, :)
  character(len=500) :: path, word, crash_name
  real(c_double), allocatable :: said(:)
  real(c_double) :: rho, rho_next, alpha
  integer(c_int64_t) :: k, count
  integer :: err, crash

  path = 'cg.pmem'
  if (command_argument_count() > 0) call get_command_argument(1, path)
  if (command_argument_count() > 1) then
    call get_command_argument(2, word)
    read (word, *) n
  end if
  crash_name = 'process'
  if (command_argument_count() > 2) call get_command_argument(3, crash_name)
  crash = VELOC_CRASH_PROCESS
  if (crash_name == 'power') crash = VELOC_CRASH_POWER
  if (crash_name == 'page') crash = VELOC_CRASH_PAGE

  count = int(n + 2, c_int64_t)**2
  call VELOC_Pmem_open(path, 4 * slots * (8 * count + 4096), crash, pmem, err)
  call check(err)
  call VELOC_Pmem_array(pmem, 'p', 8, count, slots, p, err)
  call check(err)
  call VELOC_Pmem_array(pmem, 'q', 8, count, slots, q, err)
  call check(err)
  call VELOC_Pmem_array(pmem, 'r', 8, count, slots, r, err)
  call check(err)
  call VELOC_Pmem_array(pmem, 'z', 8, count, slots, z, err)
  call check(err)
  call VELOC_Pmem_invariant(pmem, 'orthogonal', is_orthogonal, err)
  call check(err)
  call VELOC_Pmem_invariant(pmem, 'residual', is_residual, err)
  call check(err)

  call VELOC_Pmem_recover(pmem, k, err)
  if (err /= 0) then
    ! None is consistent, or the call has failed: the report of the first is not empty.
    call VELOC_Pmem_report(pmem, tried, err)
    if (size(tried) == 0) call check(-1)
    write (error_unit, '(a)') 'no state is consistent: begins anew'
    call VELOC_Pmem_forget(pmem, err)
    call check(err)
    k = -1
  end if
  if (k >= 0) write (error_unit, '(a, i0)') 'goes on behind state ', k

  if (k < 0) then
    k = 0
    p_k => state(p, k)
    r_k => state(r, k)
    z_k => state(z, k)
    ! The points around the square stay as the file has them: 0.
    p_k(1:n, 1:n) = 1
    r_k(1:n, 1:n) = 1
    z_k(1:n, 1:n) = 0
    rho = dot(r_k, r_k)
    call VELOC_Pmem_mark(pmem, k, [rho, rho, bits_of(z_k)], err)
    call check(err)
  end if
  call VELOC_Pmem_scalars(pmem, said, err)
  call check(err)
  rho = said(rr)
  do while (rho > stop_at**2 * n * n)
    p_k => state(p, k)
    r_k => state(r, k)
    z_k => state(z, k)
    p_next => state(p, k + 1)
    q_next => state(q, k + 1)
    r_next => state(r, k + 1)
    z_next => state(z, k + 1)
    call multiply(p_k, q_next)
    alpha = rho / dot(p_k, q_next)
    z_next(1:n, 1:n) = z_k(1:n, 1:n) + alpha * p_k(1:n, 1:n)
    r_next(1:n, 1:n) = r_k(1:n, 1:n) - alpha * q_next(1:n, 1:n)
    rho_next = dot(r_next, r_next)
    p_next(1:n, 1:n) = r_next(1:n, 1:n) + (rho_next / rho) * p_k(1:n, 1:n)
    k = k + 1
    call VELOC_Pmem_mark(pmem, k, [rho_next, rho, bits_of(z_next)], err)
    call check(err)
    rho = rho_next
  end do
  z_k => state(z, k)
  print '(a, i0)', 'iterations ', k
  print '(a, es22.14)', 'norm of the solution ', sqrt(dot(z_k, z_k))
  call VELOC_Pmem_close(pmem, err)
  call check(err)

contains

  subroutine check(err)
    integer, intent(in) :: err
    character(len=1000) :: reason
    if (err == 0) return
    call VELOC_Last_error(reason)
    write (error_unit, '(a)') trim(reason)
    error stop
  end subroutine

end program
