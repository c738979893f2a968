! Arrays in persistent memory in Fortran: module veloc_arrays.
!
! Each procedure calls the C function of its name (veloc/pmem.h), and gives its result as the last argument.
! VELOC_Last_error of the module veloc gives the reason of a failure. Iterations and sizes have 64 bits. A slot
! becomes an array of the program by c_f_pointer:
!
!   real(c_double), pointer :: p(:)
!   call c_f_pointer(VELOC_Pmem_at(array, iteration), p, [n])
!
! Compile this file with the compiler of the program that uses it.
module veloc_arrays
  use, intrinsic :: iso_c_binding, only: c_char, c_double, c_f_pointer, c_funloc, c_funptr, c_int, c_int64_t, &
      c_loc, c_null_char, c_null_ptr, c_ptr, c_size_t
  implicit none
  private

  ! A crash, as in veloc/defs.h: of the process; of the machine, with persistent memory; of the machine, with an
  ! ordinary file.
  integer, parameter, public :: VELOC_CRASH_PROCESS = 0, VELOC_CRASH_POWER = 1, VELOC_CRASH_PAGE = 2
  ! What an invariant answers.
  integer(c_int), parameter, public :: VELOC_INVARIANT_HOLDS = 1, VELOC_INVARIANT_FAILS = 0, &
      VELOC_INVARIANT_UNKNOWN = -1, VELOC_INVARIANT_CORRECTED = 2

  ! A file of arrays, and one of its arrays. A copy stands for the same file or array.
  type, public :: VELOC_Pmem
    private
    type(c_ptr) :: handle = c_null_ptr
  end type
  type, public :: VELOC_Array
    private
    type(c_ptr) :: handle = c_null_ptr
  end type

  ! An iteration that was tried, the answer, and the invariant that did not hold (empty if all held).
  type, public :: VELOC_Tried
    integer(c_int64_t) :: iteration
    integer :: answer
    character(len=:), allocatable :: invariant
  end type

  abstract interface
    ! Tells whether an iteration is consistent: VELOC_INVARIANT_HOLDS, _FAILS or _UNKNOWN.
    integer(c_int) function VELOC_Invariant(iteration, scalars, n, context) bind(c)
      import :: c_double, c_int, c_int64_t, c_ptr
      integer(c_int64_t), value :: iteration
      integer(c_int), value :: n
      real(c_double), intent(in) :: scalars(n)
      type(c_ptr), value :: context
    end function
  end interface
  public :: VELOC_Invariant

  public :: VELOC_Pmem_open, VELOC_Pmem_close, VELOC_Pmem_domain, VELOC_Pmem_array, VELOC_Pmem_at
  public :: VELOC_Pmem_mark, VELOC_Pmem_flush, VELOC_Pmem_drain, VELOC_Pmem_invariant
  public :: VELOC_Pmem_recover, VELOC_Pmem_scalars, VELOC_Pmem_report, VELOC_Pmem_forget, VELOC_Pmem_restart
  public :: VELOC_Pmem_block_sums, VELOC_Pmem_blocks_hold, VELOC_Pmem_matrix_sums, VELOC_Pmem_matrix_correct

  type, bind(c) :: found_domain
    integer(c_int) :: crash, granularity
    type(c_ptr) :: why
  end type

  type, bind(c) :: found_tried
    integer(c_int64_t) :: iteration
    integer(c_int) :: answer
    type(c_ptr) :: invariant
  end type

  interface
    integer(c_int) function c_open(path, bytes, crash, pmem) bind(c, name='VELOC_Pmem_open')
      import :: c_char, c_int, c_ptr, c_size_t
      character(kind=c_char), intent(in) :: path(*)
      integer(c_size_t), value :: bytes
      integer(c_int), value :: crash
      type(c_ptr), intent(inout) :: pmem
    end function
    integer(c_int) function c_close(pmem) bind(c, name='VELOC_Pmem_close')
      import :: c_int, c_ptr
      type(c_ptr), value :: pmem
    end function
    integer(c_int) function c_domain(pmem, domain) bind(c, name='VELOC_Pmem_domain')
      import :: c_int, c_ptr, found_domain
      type(c_ptr), value :: pmem
      type(found_domain), intent(inout) :: domain
    end function
    integer(c_int) function c_array(pmem, name, element_bytes, count, slots, array) &
        bind(c, name='VELOC_Pmem_array')
      import :: c_char, c_int, c_ptr, c_size_t
      type(c_ptr), value :: pmem
      character(kind=c_char), intent(in) :: name(*)
      integer(c_size_t), value :: element_bytes, count
      integer(c_int), value :: slots
      type(c_ptr), intent(inout) :: array
    end function
    type(c_ptr) function c_at(array, iteration) bind(c, name='VELOC_Pmem_at')
      import :: c_int64_t, c_ptr
      type(c_ptr), value :: array
      integer(c_int64_t), value :: iteration
    end function
    integer(c_int) function c_mark(pmem, iteration, scalars, n) bind(c, name='VELOC_Pmem_mark')
      import :: c_double, c_int, c_int64_t, c_ptr
      type(c_ptr), value :: pmem
      integer(c_int64_t), value :: iteration
      real(c_double), intent(in) :: scalars(*)
      integer(c_int), value :: n
    end function
    integer(c_int) function c_flush(pmem, address, bytes) bind(c, name='VELOC_Pmem_flush')
      import :: c_int, c_ptr, c_size_t
      type(c_ptr), value :: pmem, address
      integer(c_size_t), value :: bytes
    end function
    integer(c_int) function c_drain(pmem) bind(c, name='VELOC_Pmem_drain')
      import :: c_int, c_ptr
      type(c_ptr), value :: pmem
    end function
    integer(c_int) function c_invariant(pmem, name, function, context) bind(c, name='VELOC_Pmem_invariant')
      import :: c_char, c_funptr, c_int, c_ptr
      type(c_ptr), value :: pmem, context
      character(kind=c_char), intent(in) :: name(*)
      type(c_funptr), value :: function
    end function
    integer(c_int) function c_recover(pmem, iteration) bind(c, name='VELOC_Pmem_recover')
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: pmem
      integer(c_int64_t), intent(inout) :: iteration
    end function
    integer(c_int) function c_scalars(pmem, scalars, room) bind(c, name='VELOC_Pmem_scalars')
      import :: c_double, c_int, c_ptr
      type(c_ptr), value :: pmem
      real(c_double), intent(inout) :: scalars(*)
      integer(c_int), value :: room
    end function
    integer(c_int) function c_report(pmem, tried, room) bind(c, name='VELOC_Pmem_report')
      import :: c_int, c_ptr, found_tried
      type(c_ptr), value :: pmem
      type(found_tried), intent(inout) :: tried(*)
      integer(c_int), value :: room
    end function
    integer(c_int) function c_forget(pmem) bind(c, name='VELOC_Pmem_forget')
      import :: c_int, c_ptr
      type(c_ptr), value :: pmem
    end function
    integer(c_int) function c_restart(pmem, name, iteration, version) bind(c, name='VELOC_Pmem_restart')
      import :: c_char, c_int, c_int64_t, c_ptr
      type(c_ptr), value :: pmem
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int64_t), intent(inout) :: iteration
      integer(c_int), intent(inout) :: version
    end function
    integer(c_int) function VELOC_Pmem_block_sums(data, words, block, sums) bind(c, name='VELOC_Pmem_block_sums')
      import :: c_int, c_ptr, c_size_t
      type(c_ptr), value :: data, sums
      integer(c_size_t), value :: words, block
    end function
    integer(c_int) function VELOC_Pmem_blocks_hold(data, words, block, sums, wrong) &
        bind(c, name='VELOC_Pmem_blocks_hold')
      import :: c_int, c_int64_t, c_ptr, c_size_t
      type(c_ptr), value :: data, sums
      integer(c_size_t), value :: words, block
      integer(c_int64_t), intent(inout) :: wrong
    end function
    ! Rows are those of C: they are the columns of a Fortran array.
    integer(c_int) function VELOC_Pmem_matrix_sums(matrix, rows, columns, stride, row_sums, column_sums) &
        bind(c, name='VELOC_Pmem_matrix_sums')
      import :: c_int, c_ptr, c_size_t
      type(c_ptr), value :: matrix, row_sums, column_sums
      integer(c_size_t), value :: rows, columns, stride
    end function
    integer(c_int) function VELOC_Pmem_matrix_correct(matrix, rows, columns, stride, row_sums, column_sums, &
        row, column) bind(c, name='VELOC_Pmem_matrix_correct')
      import :: c_int, c_int64_t, c_ptr, c_size_t
      type(c_ptr), value :: matrix, row_sums, column_sums
      integer(c_size_t), value :: rows, columns, stride
      integer(c_int64_t), intent(inout) :: row, column
    end function
    integer(c_size_t) function c_strlen(text) bind(c, name='strlen')
      import :: c_ptr, c_size_t
      type(c_ptr), value :: text
    end function
  end interface

contains

  subroutine VELOC_Pmem_open(path, bytes, crash, pmem, err)
    character(len=*), intent(in) :: path
    integer(c_int64_t), intent(in) :: bytes
    integer, intent(in) :: crash
    type(VELOC_Pmem), intent(inout) :: pmem
    integer, intent(out) :: err
    err = c_open(with_nul(path), int(max(bytes, 0_c_int64_t), c_size_t), as_int(crash), pmem%handle)
  end subroutine

  subroutine VELOC_Pmem_close(pmem, err)
    type(VELOC_Pmem), intent(inout) :: pmem
    integer, intent(out) :: err
    err = c_close(pmem%handle)
    pmem%handle = c_null_ptr
  end subroutine

  ! Tells what a crash leaves of the file: the worst crash that it survives, one of VELOC_CRASH_*; the bytes that
  ! reach it together; and why it does not survive a worse crash.
  subroutine VELOC_Pmem_domain(pmem, crash, granularity, why, err)
    type(VELOC_Pmem), intent(in) :: pmem
    integer, intent(out) :: crash, granularity, err
    character(len=:), allocatable, intent(out) :: why
    type(found_domain) :: found
    found = found_domain(-1, -1, c_null_ptr)
    err = c_domain(pmem%handle, found)
    crash = found%crash
    granularity = found%granularity
    why = ''
    if (err == 0) why = text_of(found%why)
  end subroutine

  ! Finds an array by its name, or adds one. element_bytes: bytes of an element; count: elements of a slot.
  subroutine VELOC_Pmem_array(pmem, name, element_bytes, count, slots, array, err)
    type(VELOC_Pmem), intent(in) :: pmem
    character(len=*), intent(in) :: name
    integer, intent(in) :: element_bytes, slots
    integer(c_int64_t), intent(in) :: count
    type(VELOC_Array), intent(inout) :: array
    integer, intent(out) :: err
    err = c_array(pmem%handle, with_nul(name), int(max(element_bytes, 0), c_size_t), &
        int(max(count, 0_c_int64_t), c_size_t), as_int(slots), array%handle)
  end subroutine

  ! The slot of an iteration, for c_f_pointer; a null pointer for a negative iteration.
  type(c_ptr) function VELOC_Pmem_at(array, iteration)
    type(VELOC_Array), intent(in) :: array
    integer(c_int64_t), intent(in) :: iteration
    VELOC_Pmem_at = c_at(array%handle, iteration)
  end function

  ! Says that an iteration is done, with up to 5 scalars for the invariants.
  subroutine VELOC_Pmem_mark(pmem, iteration, scalars, err)
    type(VELOC_Pmem), intent(in) :: pmem
    integer(c_int64_t), intent(in) :: iteration
    real(c_double), intent(in) :: scalars(:)
    integer, intent(out) :: err
    err = c_mark(pmem%handle, iteration, scalars, size(scalars, kind=c_int))
  end subroutine

  ! Has bytes written back. The address is c_loc of the first element in a slot.
  subroutine VELOC_Pmem_flush(pmem, address, bytes, err)
    type(VELOC_Pmem), intent(in) :: pmem
    type(c_ptr), intent(in) :: address
    integer(c_int64_t), intent(in) :: bytes
    integer, intent(out) :: err
    err = c_flush(pmem%handle, address, int(bytes, c_size_t))
  end subroutine

  subroutine VELOC_Pmem_drain(pmem, err)
    type(VELOC_Pmem), intent(in) :: pmem
    integer, intent(out) :: err
    err = c_drain(pmem%handle)
  end subroutine

  ! Adds an invariant: what must hold. Without a context the function gets a null pointer.
  subroutine VELOC_Pmem_invariant(pmem, name, function, err, context)
    type(VELOC_Pmem), intent(in) :: pmem
    character(len=*), intent(in) :: name
    procedure(VELOC_Invariant) :: function
    integer, intent(out) :: err
    type(c_ptr), intent(in), optional :: context
    type(c_ptr) :: given
    given = c_null_ptr
    if (present(context)) given = context
    err = c_invariant(pmem%handle, with_nul(name), c_funloc(function), given)
  end subroutine

  ! Finds the newest iteration in which all invariants hold; -1: nothing was marked yet.
  subroutine VELOC_Pmem_recover(pmem, iteration, err)
    type(VELOC_Pmem), intent(in) :: pmem
    integer(c_int64_t), intent(out) :: iteration
    integer, intent(out) :: err
    iteration = -1
    err = c_recover(pmem%handle, iteration)
  end subroutine

  ! The scalars of the iteration that was found or marked last; none, if there is none.
  subroutine VELOC_Pmem_scalars(pmem, scalars, err)
    type(VELOC_Pmem), intent(in) :: pmem
    real(c_double), allocatable, intent(out) :: scalars(:)
    integer, intent(out) :: err
    integer, parameter :: most = 5
    real(c_double) :: found(most)
    integer :: number
    number = c_scalars(pmem%handle, found, int(most, c_int))
    err = min(number, 0)
    scalars = found(1:max(number, 0))
  end subroutine

  ! Gives the iterations that the last search has tried, the newest first.
  subroutine VELOC_Pmem_report(pmem, tried, err)
    type(VELOC_Pmem), intent(in) :: pmem
    type(VELOC_Tried), allocatable, intent(out) :: tried(:)
    integer, intent(out) :: err
    integer, parameter :: most = 64
    type(found_tried) :: found(most)
    integer :: number, i
    number = c_report(pmem%handle, found, int(most, c_int))
    err = min(number, 0)
    number = min(max(number, 0), most)
    allocate(tried(number))
    do i = 1, number
      tried(i)%iteration = found(i)%iteration
      tried(i)%answer = found(i)%answer
      tried(i)%invariant = text_of(found(i)%invariant)
    end do
  end subroutine

  ! Forgets all marks, so that iterations begin anew.
  subroutine VELOC_Pmem_forget(pmem, err)
    type(VELOC_Pmem), intent(in) :: pmem
    integer, intent(out) :: err
    err = c_forget(pmem%handle)
  end subroutine

  ! Finds the iteration after which to go on, and the version to restore for that; version is -1 if the arrays have
  ! the iteration.
  subroutine VELOC_Pmem_restart(pmem, name, iteration, version, err)
    type(VELOC_Pmem), intent(in) :: pmem
    character(len=*), intent(in) :: name
    integer(c_int64_t), intent(out) :: iteration
    integer, intent(out) :: version, err
    integer(c_int) :: found
    iteration = -1
    found = -1
    err = c_restart(pmem%handle, with_nul(name), iteration, found)
    version = found
  end subroutine

  ! Removes the blanks at the end, with which Fortran pads names and paths.
  function with_nul(text)
    character(len=*), intent(in) :: text
    character(kind=c_char, len=:), allocatable :: with_nul
    with_nul = trim(text)//c_null_char
  end function

  function text_of(from)
    type(c_ptr), intent(in) :: from
    character(len=:), allocatable :: text_of
    character(kind=c_char), pointer :: letters(:)
    integer :: i
    call c_f_pointer(from, letters, [c_strlen(from)])
    allocate(character(len=size(letters)) :: text_of)
    do i = 1, size(letters)
      text_of(i:i) = letters(i)
    end do
  end function

  ! Gives the nearest number that C's int can hold. If a number does not fit, that one is wrong, too.
  integer(c_int) function as_int(number)
    integer, intent(in) :: number
    integer(c_int64_t), parameter :: most = int(huge(0_c_int), c_int64_t)
    as_int = int(max(min(int(number, c_int64_t), most), -most), c_int)
  end function

end module
