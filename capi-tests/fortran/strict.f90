! The interface in Fortran 2003, with nothing newer in the program either: strict <configuration>
! Prints "done" if everything was as it should be, and stops where it was not.
module strict_adjoint
  use, intrinsic :: iso_c_binding
  use veloc_2003
  implicit none
  integer, parameter :: STEPS = 30
  integer(c_int64_t), target :: u(7), lambda(7)
contains
  subroutine protect(err)
    integer, intent(inout) :: err
    call VELOC_Adjoint_protect(VELOC_ADJOINT_STATE, 0, c_loc(u), size(u), VELOC_INTEGER8, err)
    if (err == VELOC_SCES) &
        call VELOC_Adjoint_protect(VELOC_ADJOINT_GRADIENT, 0, c_loc(lambda), size(lambda), VELOC_INTEGER8, err)
  end subroutine

  subroutine forward(from, to, err)
    integer(c_int64_t), intent(in) :: from, to
    integer, intent(inout) :: err
    if (any(u /= from)) err = 7
    u = to
  end subroutine

  ! Has state step - 1, and adds it up.
  subroutine reverse(step, err)
    integer(c_int64_t), intent(in) :: step
    integer, intent(inout) :: err
    if (any(u /= step - 1)) err = 8
    if (step == STEPS) lambda = 0
    lambda = lambda + u
  end subroutine
end module

program strict
  use, intrinsic :: iso_c_binding
  use strict_adjoint
  use veloc_2003
  use veloc_schedules
  implicit none
  real(c_float), target :: field(6, 5)
  integer(c_int), target :: step
  type(VELOC_Adjoint) :: run
  type(VELOC_Schedule) :: schedule, again
  type(VELOC_Cost) :: cost
  integer(c_int8_t), allocatable, target :: bytes(:)
  character(len=1000) :: config
  integer :: err, version

  call get_command_argument(1, config)
  call VELOC_Init_single(0, config, err); call ok('VELOC_Init_single')
  call VELOC_Mem_protect(1, c_loc(field), size(field), VELOC_REAL4, err); call ok('an address')
  call VELOC_Mem_protect_list([VELOC_Region(1, c_loc(field), size(field), VELOC_REAL4), &
      VELOC_Region(2, c_loc(step), 1, VELOC_INTEGER4)], err)
  call ok('a list')
  do version = 1, 3
    step = version
    field = real(version)
    call VELOC_Checkpoint('strict', version, err); call ok('VELOC_Checkpoint')
  end do
  call compressed()
  call VELOC_Restart_test('strict', 0, version)
  if (version /= 3) call fail('the newest version')
  do version = 3, 1, -1
    call VELOC_Restart('strict', version, err); call ok('VELOC_Restart')
    if (step /= version .or. any(nint(field) /= version)) call fail('the state')
  end do

  u = 0
  run = VELOC_Adjoint(name='reverse', steps=STEPS, slots=4, protect=protect, forward=forward, &
      adjoint=reverse)
  call VELOC_Adjoint_run(run, err); call ok('VELOC_Adjoint_run')
  if (any(lambda /= STEPS * (STEPS - 1) / 2)) call fail('the gradient')

  call VELOC_Schedule_create(100_VELOC_COUNT, 5_VELOC_COUNT, schedule, err); call ok('a schedule')
  call VELOC_Schedule_pack(schedule, bytes, err); call ok('VELOC_Schedule_pack')
  call VELOC_Schedule_unpack(bytes, again, err); call ok('VELOC_Schedule_unpack')
  call VELOC_Schedule_cost(again, cost, err); call ok('VELOC_Schedule_cost')
  if (cost%advances /= 316) call fail('the cost of the schedule')
  call VELOC_Schedule_free(schedule, err); call ok('VELOC_Schedule_free')
  call VELOC_Schedule_free(again, err); call ok('VELOC_Schedule_free')
  call VELOC_Finalize(1, err); call ok('VELOC_Finalize')
  print '(a)', 'done'

contains

  ! A region with fewer bits comes back within its bound, and one without loss with all bits.
  subroutine compressed()
    real(c_float), allocatable, target :: wave(:), was(:)
    integer :: i
    allocate (wave(20000), was(20000))
    was = [(sin(0.01 * real(i)), i = 1, size(was))]
    wave = was
    call VELOC_Mem_protect(9, c_loc(wave), size(wave), VELOC_REAL4, err); call ok('a region')
    call VELOC_Mem_compress(9, VELOC_COMPRESS_12 + VELOC_COMPRESS_RELATIVE, 1d-3, err)
    call ok('VELOC_Mem_compress')
    call VELOC_Checkpoint('wave', 1, err); call ok('VELOC_Checkpoint')
    wave = 7
    call VELOC_Restart('wave', 1, err); call ok('VELOC_Restart')
    if (maxval(abs(wave - was)) <= 0 .or. maxval(abs(wave - was)) > 1e-3) call fail('the bound')
    was(:9999) = 0
    wave = was
    call VELOC_Mem_compress(9, VELOC_COMPRESS_LOSSLESS, 0d0, err); call ok('VELOC_COMPRESS_LOSSLESS')
    call VELOC_Mem_decompose(9, [5, 4000], [0, 0], [5, 4000], VELOC_REAL4, err); call ok('a part of an array')
    call VELOC_Mem_decompose(9, [1], [0, 0], [1], VELOC_REAL4, err)
    if (err /= VELOC_NSCS) call fail('VELOC_Mem_decompose has taken lists of other lengths')
    call VELOC_Checkpoint('wave', 2, err); call ok('VELOC_Checkpoint')
    wave = 7
    call VELOC_Restart('wave', 2, err); call ok('VELOC_Restart')
    if (any(transfer(wave, [1_c_int32_t]) /= transfer(was, [1_c_int32_t]))) call fail('all bits')
    call VELOC_Mem_unprotect(9, err); call ok('VELOC_Mem_unprotect')
  end subroutine

  subroutine ok(what)
    character(len=*), intent(in) :: what
    if (err /= VELOC_SCES) call fail(what)
  end subroutine

  subroutine fail(what)
    character(len=*), intent(in) :: what
    character(len=400) :: why
    call VELOC_Last_error(why)
    print '(3a)', what, ': ', trim(why)
    stop 1
  end subroutine

end program
