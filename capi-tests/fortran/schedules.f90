! Schedules in Fortran: schedules
! Prints "done" if everything was as it should be, and stops where it was not.
program schedules
  use, intrinsic :: iso_c_binding
  use checks
  use veloc
  use veloc_schedules
  implicit none
  integer, parameter :: n = VELOC_COUNT
  type(VELOC_Schedule) :: schedule, other
  type(VELOC_Cost) :: cost
  type(VELOC_Action) :: action
  integer(c_int8_t), allocatable :: bytes(:)
  integer(n) :: distance, advances
  integer :: err

  ! With distances, twice the same: one is a clone.
  call VELOC_Schedule_create(100_n, 5_n, schedule, err); call ok(err, 'create')
  call VELOC_Schedule_set_resilience_distance(schedule, 30_n, err); call ok(err, 'resilience')
  call VELOC_Schedule_set_adjoint_distance(schedule, 12_n, err); call ok(err, 'adjoint')
  call VELOC_Schedule_set_rule(schedule, VELOC_RULE_RESILIENT, err); call ok(err, 'rule')
  call VELOC_Schedule_cost(schedule, cost, err); call ok(err, 'cost')
  call check(cost%max_gap == 30 .and. cost%forward_evaluations == cost%advances + 100, 'the cost')
  call VELOC_Schedule_clone(schedule, other, err); call ok(err, 'clone')
  call check(adjoint_of(other, -1_n) == with_all_states(100), 'the adjoint of a clone')
  call VELOC_Schedule_next(other, action, err)
  call refused(err, 'ended')
  call check(action%kind == VELOC_ACTION_ERROR, 'the action after the last')
  call VELOC_Schedule_free(other, err); call ok(err, 'free')
  call VELOC_Schedule_free(other, err); call ok(err, 'free again')

  ! By way of bytes.
  call VELOC_Schedule_pack(schedule, bytes, err); call ok(err, 'pack')
  call VELOC_Schedule_unpack(bytes, other, err); call ok(err, 'unpack')
  call check(adjoint_of(other, -1_n) == with_all_states(100), 'the adjoint of one from bytes')
  call VELOC_Schedule_free(other, err)
  call VELOC_Schedule_unpack(bytes(:3), other, err)
  call refused(err, '3 bytes')
  call VELOC_Schedule_free(schedule, err)

  ! After a crash, as in section 3 of the paper.
  call VELOC_Schedule_create(100_n, 5_n, schedule, err)
  call VELOC_Schedule_set_failures(schedule, 500d0, 3d0, 2d0, err); call ok(err, 'failures')
  call VELOC_Schedule_resume(schedule, [0_n, 30_n, 44_n, 51_n, 56_n], 64_n, err)
  call ok(err, 'resume')
  call VELOC_Schedule_next(schedule, action, err); call ok(err, 'next')
  call check(action%kind == VELOC_ACTION_RESTORE .and. action%from == 56 .and. action%slot == 4, &
      'the first action after a crash')
  call VELOC_Schedule_least_distance(schedule, distance, err); call ok(err, 'least_distance')
  call check(20 <= distance .and. distance <= 45, 'the least distance')
  call VELOC_Schedule_free(schedule, err)

  ! With slots on disk, and with an end that is not known.
  call VELOC_Schedule_create(300_n, 3_n, schedule, err)
  call VELOC_Schedule_set_disk(schedule, 5_n, 2.5d0, 2.5d0, err); call ok(err, 'disk')
  call check(adjoint_of(schedule, -1_n) == with_all_states(300), 'the adjoint with disk')
  call VELOC_Schedule_free(schedule, err)
  call VELOC_Schedule_create_online(4_n, schedule, err); call ok(err, 'create_online')
  call VELOC_Schedule_end(schedule, err)
  call refused(err, 'not begun')
  call check(adjoint_of(schedule, 200_n) == with_all_states(200), 'the adjoint of a pass')
  call VELOC_Schedule_end_after_next(schedule, err)
  call refused(err, 'known: 200')
  call VELOC_Schedule_free(schedule, err)
  ! The last step is known before it: as many advances as with a known end, if none is repeated thrice.
  call VELOC_Schedule_create_online(4_n, schedule, err); call ok(err, 'create_online')
  call check(adjoint_of(schedule, 14_n, .true.) == with_all_states(15), 'the adjoint of a pass with a last step')
  call check(advances == VELOC_Numforw(15_n, 4_n), 'the advances of a pass with a last step')
  call VELOC_Schedule_free(schedule, err)
  ! Slots with states and records.
  call VELOC_Schedule_create(100_n, 5_n, schedule, err); call ok(err, 'create')
  call VELOC_Schedule_set_rule(schedule, VELOC_RULE_MIXED, err); call ok(err, 'mixed')
  call VELOC_Schedule_set_adjoint_distance(schedule, 9_n, err)
  call refused(err, 'the rule mixed and the adjoint distance 9')
  call VELOC_Schedule_cost(schedule, cost, err); call ok(err, 'cost')
  call check(adjoint_of(schedule, -1_n) == with_all_states(100), 'the adjoint of a mixed schedule')
  call check(cost%forward_evaluations == 352 .and. cost%advances == advances, 'the cost of a mixed schedule')
  call VELOC_Schedule_free(schedule, err)
  call VELOC_Schedule_create(0_n, 3_n, schedule, err)
  call refused(err, 'steps = 0')
  call VELOC_Schedule_create(10_n, -2_n, schedule, err)
  call refused(err, 'slots = -2')
  call VELOC_Schedule_set_rule(schedule, 7, err)
  call refused(err, 'rule 7')
  call VELOC_Schedule_set_rule(schedule, 2000000000, err)
  call refused(err, 'rule 2000000000')
  call VELOC_Schedule_create(100_n, 5_n, schedule, err); call ok(err, 'create')
  call VELOC_Schedule_set_resilience_distance(schedule, 19_n, err)
  call refused(err, '95 of the 100 steps')
  call VELOC_Schedule_free(schedule, err)

  call check(by_revolve(90_n, 6_n) == with_all_states(90), 'the adjoint by revolve')
  print '(a)', 'done'

contains

  ! States and adjoints are remainders that follow from each other.
  pure integer(n) function forward(state, step)
    integer(n), intent(in) :: state, step
    forward = modulo(state * 48271_n + step, 2147483647_n)
  end function

  pure integer(n) function backward(adjoint, state, step)
    integer(n), intent(in) :: adjoint, state, step
    backward = modulo(adjoint * 16807_n + state + step, 2147483647_n)
  end function

  integer(n) function with_all_states(steps) result(adjoint)
    integer, intent(in) :: steps
    integer(n) :: states(0:steps), step
    states(0) = 42
    do step = 1, steps
      states(step) = forward(states(step - 1), step)
    end do
    adjoint = 1
    do step = steps, 1, -1
      adjoint = backward(adjoint, states(step - 1), step)
    end do
  end function

  ! Does all actions, and counts the advances; the pass ends at state `end`, if that is not negative, or
  ! behind it.
  integer(n) function adjoint_of(schedule, end, behind) result(adjoint)
    type(VELOC_Schedule), intent(in) :: schedule
    integer(n), intent(in) :: end
    logical, intent(in), optional :: behind
    type(VELOC_Action) :: action
    integer(n) :: slots(0:99), state, step
    integer :: err
    logical :: ended
    state = 42
    adjoint = 1
    advances = 0
    ended = end < 0
    do
      call VELOC_Schedule_next(schedule, action, err)
      call ok(err, 'next')
      select case (action%kind)
      case (VELOC_ACTION_ADVANCE)
        do step = action%from + 1, action%to
          state = forward(state, step)
        end do
        advances = advances + action%to - action%from
        if (action%to == end .and. .not. ended) then
          if (present(behind)) then
            call VELOC_Schedule_end_after_next(schedule, err)
          else
            call VELOC_Schedule_end(schedule, err)
          end if
          call ok(err, 'end')
          ended = .true.
        end if
      case (VELOC_ACTION_TAKESHOT)
        slots(action%slot) = state
      case (VELOC_ACTION_RESTORE)
        state = slots(action%slot)
        ! It is not needed there any more.
        if (action%read_again == 0) slots(action%slot) = -1
      case (VELOC_ACTION_RECORD)
        ! The record of a step is the state from which it begins.
        slots(action%slot) = state
        state = forward(state, action%to)
      case (VELOC_ACTION_REVERSE)
        adjoint = backward(adjoint, slots(action%slot), action%to)
      case (VELOC_ACTION_FIRSTURN, VELOC_ACTION_YOUTURN, VELOC_ACTION_YOUTURN_WITH_CHECK)
        adjoint = backward(adjoint, state, action%to)
      case (VELOC_ACTION_TERMINATE)
        return
      case default
        call check(.false., 'the kind of an action')
      end select
    end do
  end function

  ! The loop of a program that used revolve.
  integer(n) function by_revolve(steps, snaps) result(adjoint)
    integer(n), intent(in) :: steps, snaps
    integer(n) :: check, capo, fine, before, slots(0:99), state
    integer(c_int) :: info, action
    check = -1; capo = 0; fine = steps; info = 0
    state = 42
    adjoint = 1
    do
      before = capo
      action = VELOC_Revolve(check, capo, fine, snaps, info)
      select case (action)
      case (VELOC_ACTION_ADVANCE)
        do while (before < capo)
          before = before + 1
          state = forward(state, before)
        end do
      case (VELOC_ACTION_TAKESHOT)
        slots(check) = state
      case (VELOC_ACTION_RESTORE)
        state = slots(check)
      case (VELOC_ACTION_FIRSTURN, VELOC_ACTION_YOUTURN)
        adjoint = backward(adjoint, state, fine + 1)
      case default
        exit
      end select
    end do
    if (action /= VELOC_ACTION_TERMINATE) adjoint = -1
  end function

end program
