! VELOC_Adjoint_run from Fortran: reverse <configuration>
! Prints "done" if everything was as it should be, and stops where it was not.
module pendulum
  use, intrinsic :: iso_c_binding
  use checks
  use veloc
  implicit none

  integer(c_int64_t), parameter :: STEPS = 50
  real(c_double), parameter :: DT = 0.1_c_double

  type :: body
    real(c_double) :: angle, speed
  end type

  ! The state in several types, and its adjoint.
  type(body), target :: now
  real(c_double), allocatable, target :: trail(:, :)
  integer, target :: step_number
  real(c_double), pointer :: lambda(:)
  ! What the procedures are to do beside.
  integer(c_int64_t) :: fails_behind = -1, stops_behind = -1, errs_at = -1
  integer :: fails_with = 0, computed = 0, hashed = 0

contains

  subroutine begin()
    now = body(angle=1.5_c_double, speed=0)
    trail = 0
    step_number = 0
    lambda = 99
    computed = 0
  end subroutine

  subroutine next()
    now%speed = now%speed - DT * sin(now%angle)
    now%angle = now%angle + DT * now%speed
    step_number = step_number + 1
    trail(:, mod(step_number, 3)) = [now%angle, now%speed]
  end subroutine

  ! From the adjoint of the state behind the step from `angle` to that before.
  subroutine back(angle, by)
    real(c_double), intent(in) :: angle
    real(c_double), intent(inout) :: by(2)
    by(2) = by(2) + DT * by(1)
    by(1) = by(1) - DT * cos(angle) * by(2)
  end subroutine

  subroutine protect(err)
    integer, intent(inout) :: err
    call VELOC_Adjoint_protect(VELOC_ADJOINT_STATE, 0, now, err)
    if (err /= VELOC_SCES) return
    call VELOC_Adjoint_protect(VELOC_ADJOINT_STATE, 1, trail, err)
    if (err /= VELOC_SCES) return
    call VELOC_Adjoint_protect(VELOC_ADJOINT_STATE, 2, step_number, err)
    if (err /= VELOC_SCES) return
    ! So few values do not become smaller, and are stored as they are.
    call VELOC_Adjoint_compress(1, VELOC_COMPRESS_16, 1d-6, err)
    if (err /= VELOC_SCES) return
    ! The same id as that of a part of the state.
    call VELOC_Adjoint_protect(VELOC_ADJOINT_GRADIENT, 0, lambda, err)
  end subroutine

  ! The same by addresses, in all kinds of numbers, after what is refused.
  subroutine protect_addresses(err)
    integer, intent(inout) :: err
    real(c_double), target :: raw(10)
    call VELOC_Adjoint_protect(VELOC_ADJOINT_STATE, 7, raw(1:10:3), err)
    call refused(err, 'VELOC_Adjoint_protect: region 7: a section')
    call VELOC_Adjoint_compress(7, VELOC_COMPRESS_8, 1d0, err)
    call refused(err, 'VELOC_Adjoint_compress: region 7 is not protected')
    call VELOC_Adjoint_protect(2, 7, raw, err)
    call refused(err, 'what = 2')
    call VELOC_Adjoint_protect(VELOC_ADJOINT_STATE, 7, c_loc(raw), -1, VELOC_REAL8, err)
    call refused(err, 'count is -1')
    call VELOC_Adjoint_protect(VELOC_ADJOINT_STATE, 0, c_loc(now), 2, VELOC_REAL8, err)
    call ok(err, 'an address')
    call VELOC_Adjoint_protect(VELOC_ADJOINT_STATE, 1, c_loc(trail), 6, 8_c_int64_t, err)
    call ok(err, 'a long size')
    call VELOC_Adjoint_protect(VELOC_ADJOINT_STATE, 2, c_loc(step_number), 1_c_int64_t, &
        storage_size(step_number) / 8, err)
    call ok(err, 'a long count')
    call VELOC_Adjoint_protect(VELOC_ADJOINT_GRADIENT, 0, c_loc(lambda), 2_c_int64_t, &
        8_c_int64_t, err)
    call ok(err, 'both')
  end subroutine

  subroutine forward(from, to, err)
    integer(c_int64_t), intent(in) :: from, to
    integer, intent(inout) :: err
    integer(c_int64_t) :: at
    call check(step_number == from, 'the state that forward goes from')
    do at = from + 1, to
      call next()
      computed = computed + 1
      if (computed == errs_at) now%angle = now%angle + 1e-9_c_double
      if (at == fails_behind) err = fails_with
      if (at == stops_behind) call VELOC_Adjoint_stop(err)
    end do
  end subroutine

  subroutine adjoint(step, err)
    integer(c_int64_t), intent(in) :: step
    integer, intent(inout) :: err
    call check(step_number == step - 1, 'the state that the adjoint goes from')
    call check(err == VELOC_SCES, 'err at the call')
    if (step == STEPS) lambda = [1.0_c_double, 0.0_c_double]
    call back(now%angle, lambda)
  end subroutine

  subroutine hash(value, err)
    integer(c_int64_t), intent(out) :: value
    integer, intent(inout) :: err
    hashed = hashed + 1
    value = transfer(now%angle, value)
    if (err /= VELOC_SCES) value = 0
  end subroutine

  ! The adjoint, with all states kept.
  function expected() result(by)
    real(c_double) :: by(2), angles(0:STEPS - 1)
    integer :: i
    call begin()
    do i = 0, int(STEPS) - 1
      angles(i) = now%angle
      call next()
    end do
    by = [1, 0]
    do i = int(STEPS) - 1, 0, -1
      call back(angles(i), by)
    end do
  end function

end module

program reverse
  use pendulum
  implicit none
  type(VELOC_Adjoint) :: plain, what
  real(c_double) :: right(2)
  character(len=1000) :: config
  integer :: err, beyond

  call get_command_argument(1, config)
  allocate(trail(2, 0:2), lambda(2))
  right = expected()
  plain = VELOC_Adjoint(name='swing', steps=STEPS, slots=4, resilience_distance=15, &
      adjoint_distance=7, protect=protect, forward=forward, adjoint=adjoint)

  call VELOC_Adjoint_run(plain, err)
  call refused(err, 'VELOC_Init')
  call VELOC_Init_single(0, config, err)
  call ok(err, 'VELOC_Init_single')
  call VELOC_Adjoint_protect(VELOC_ADJOINT_STATE, 0, trail, err)
  call refused(err, 'no adjoint computation is under way')

  ! From beginning to end, by either way to protect memory.
  call begin()
  call VELOC_Adjoint_run(plain, err)
  call ok(err, 'VELOC_Adjoint_run')
  call check(all(abs(lambda - right) <= 0), 'the adjoint')
  call check(computed > STEPS - 1, 'that states were computed again')
  what = plain
  what%protect => protect_addresses
  call begin()
  call VELOC_Adjoint_run(what, err)
  call ok(err, 'VELOC_Adjoint_run by addresses')
  call check(all(abs(lambda - right) <= 0), 'the adjoint by addresses')

  ! What cannot be.
  what = plain
  nullify(what%forward)
  call VELOC_Adjoint_run(what, err)
  call refused(err, 'the callback forward is NULL')
  what = VELOC_Adjoint(name='swing', slots=4, protect=protect, forward=forward, adjoint=adjoint)
  call VELOC_Adjoint_run(what, err)
  call refused(err, 'steps = 0')
  what = plain
  what%slots = -1
  call VELOC_Adjoint_run(what, err)
  call refused(err, 'slots = -1')
  what%slots = 3
  call VELOC_Adjoint_run(what, err)
  call refused(err, '45 of the 50 steps')
  what = plain
  what%adjoint_distance = 0
  what%mtbf = 40
  call VELOC_Adjoint_run(what, err)
  call refused(err, 'write_cost = 0')
  what%write_cost = 1.5
  what%turn_cost = 3
  call begin()
  call VELOC_Adjoint_run(what, err)
  call ok(err, 'VELOC_Adjoint_run with failures')
  call check(all(abs(lambda - right) <= 0), 'the adjoint with failures')
  what%adjoint_distance = 3
  call VELOC_Adjoint_run(what, err)
  call refused(err, 'mtbf = 40')
  what = plain
  what%name = ''
  call VELOC_Adjoint_run(what, err)
  call refused(err, 'VELOC_Adjoint_run: ')
  what = plain
  what%rule = 5
  call VELOC_Adjoint_run(what, err)
  call refused(err, 'rule 5')
  if (bit_size(err) > 32) then
    beyond = huge(0_c_int)
    beyond = beyond + 1
    what%rule = beyond
    call VELOC_Adjoint_run(what, err)
    call refused(err, 'rule is 2147483648')
    call VELOC_Adjoint_protect(VELOC_ADJOINT_STATE, beyond, trail, err)
    call refused(err, 'id is 2147483648')
  end if

  ! A procedure that fails ends the run; the next goes on from what is stored.
  fails_behind = 42
  fails_with = huge(fails_with)
  call begin()
  call VELOC_Adjoint_run(plain, err)
  call refused(err, 'returned 2147483647')
  fails_with = 7
  call begin()
  call VELOC_Adjoint_run(plain, err)
  call refused(err, 'returned 7')
  call check(computed < 42, 'that it went on')
  fails_behind = -1
  what = plain
  what%tag = 5
  call begin()
  call VELOC_Adjoint_run(what, err)
  call refused(err, 'of another computation')
  call VELOC_Adjoint_discard('not there', err)
  call refused(err, 'not there')

  ! A stop, and the rest, with the program's hash.
  plain%flags = VELOC_VERIFY_REPLAY
  plain%hash => hash
  call VELOC_Adjoint_stop(err)
  call ok(err, 'VELOC_Adjoint_stop')
  call begin()
  call VELOC_Adjoint_run(plain, err)
  call check(err == VELOC_STOPPED, 'that it stops at once')
  stops_behind = 45
  call begin()
  call VELOC_Adjoint_run(plain, err)
  call check(err == VELOC_STOPPED, 'that it stops when asked to')
  stops_behind = -1
  call begin()
  call VELOC_Adjoint_run(plain, err)
  call ok(err, 'VELOC_Adjoint_run after a stop')
  call check(all(abs(lambda - right) <= 0), 'the adjoint after a stop')
  call check(hashed > 0, 'that states are hashed by the program')

  ! A replay that differs.
  errs_at = STEPS + 3
  call begin()
  call VELOC_Adjoint_run(plain, err)
  call refused(err, 'is not what it was the first time')

  ! What is left is of no use to another computation before it is removed.
  errs_at = -1
  plain%tag = 6
  call begin()
  call VELOC_Adjoint_run(plain, err)
  call refused(err, 'VELOC_Adjoint_discard removes')
  call VELOC_Adjoint_discard('swing', err)
  call ok(err, 'VELOC_Adjoint_discard')
  call begin()
  call VELOC_Adjoint_run(plain, err)
  call ok(err, 'VELOC_Adjoint_run after a discard')
  call VELOC_Finalize(1, err)
  call ok(err, 'VELOC_Finalize')
  print '(a)', 'done'
end program
