! Arrays that are protected as they should be: temporaries <configuration>
!
! Prints "done" if they come back, and the one that cannot be protected is refused. The test puts wrong calls in place
! of the marked line, and the compiler has to refuse each.
module temporaries_parts
  use veloc
  implicit none

  type :: state
    real(8), allocatable :: u(:)
  end type

contains

  ! An array of assumed shape comes as it is: one with gaps is refused. For one of explicit shape, array(n), the caller
  ! would make a copy without gaps, which is gone behind this call.
  subroutine protect(id, array, err)
    integer, intent(in) :: id
    real(8), target, intent(inout) :: array(:)
    integer, intent(out) :: err
    call VELOC_Mem_protect(id, array, err)
  end subroutine

  function twice(u)
    real(8), intent(in) :: u(:)
    real(8) :: twice(size(u))
    twice = 2 * u
  end function

  ! Not called: what the wrong calls have.
  subroutine protect_none(u, only_read, err)
    real(8), target, intent(inout) :: u(:)
    real(8), target, intent(in) :: only_read(:)
    integer, intent(out) :: err
    real(8), parameter :: constant(2) = [1, 2]
    integer :: order(2)
    err = VELOC_SCES
    order = [2, 1]
    if (order(1) > size(only_read)) u = constant(1)
    ! WRONG
  end subroutine

end module

program temporaries
  use checks
  use temporaries_parts
  implicit none
  type(state), target :: now
  real(8), target :: a(10)
  character(len=1000) :: config
  integer :: err

  call get_command_argument(1, config)
  call VELOC_Init_single(0, config, err); call ok(err, 'VELOC_Init_single')
  allocate(now%u(10))
  now%u = 1
  a = 1
  call VELOC_Mem_protect(0, now%u, err); call ok(err, 'a component')
  call protect(1, a(3:6), err); call ok(err, 'a section without gaps')
  call protect(2, a(1:9:2), err); call refused(err, 'gaps')
  call VELOC_Checkpoint('t', 1, err); call ok(err, 'VELOC_Checkpoint')
  now%u = 0
  a = 0
  call VELOC_Restart('t', 1, err); call ok(err, 'VELOC_Restart')
  call check(all(now%u == 1) .and. all(a(3:6) == 1) .and. all(a(7:) == 0), 'what was restored')
  call VELOC_Finalize(1, err); call ok(err, 'VELOC_Finalize')
  print '(a)', 'done'
end program
