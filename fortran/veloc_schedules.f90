! Schedules of adjoint computations in Fortran: module veloc_schedules.
!
! Each procedure calls the C function of its name, and gives its result as the last argument. VELOC_Last_error of the
! module veloc gives the reason of a failure. Numbers of steps, states and slots have the kind VELOC_COUNT, 64 bits;
! slots are counted from 0 on. No job is needed for a schedule.
!
! Compile this file with the compiler of the program that uses it.
module veloc_schedules
  use, intrinsic :: iso_c_binding, only: c_double, c_int, c_int64_t, c_int8_t, c_loc, c_null_ptr, &
      c_ptr, c_size_t
  implicit none
  private

  ! The kind of counts, and of the arguments of VELOC_Revolve.
  integer, parameter, public :: VELOC_COUNT = c_int64_t

  ! What the application does next, as in veloc/adjoint.h.
  integer(c_int), parameter, public :: VELOC_ACTION_ADVANCE = 0, VELOC_ACTION_TAKESHOT = 1, &
      VELOC_ACTION_RESTORE = 2, VELOC_ACTION_FIRSTURN = 3, VELOC_ACTION_YOUTURN = 4, &
      VELOC_ACTION_TERMINATE = 5, VELOC_ACTION_ERROR = 6, VELOC_ACTION_YOUTURN_WITH_CHECK = 7, &
      VELOC_ACTION_RECORD = 8, VELOC_ACTION_REVERSE = 9
  ! Where states are stored.
  integer, parameter, public :: VELOC_RULE_OPTIMAL = 0, VELOC_RULE_RESILIENT = 1, &
      VELOC_RULE_MONOTONE = 2, VELOC_RULE_SHORTEST = 3, VELOC_RULE_MIXED = 4

  ! A schedule. A copy of the variable stands for the same schedule; VELOC_Schedule_clone makes another one, and
  ! VELOC_Schedule_free frees it.
  type, public :: VELOC_Schedule
    private
    type(c_ptr) :: handle = c_null_ptr
  end type

  ! As the C struct of that name. read_again is 0 or 1.
  type, bind(c), public :: VELOC_Action
    integer(c_int) :: kind, read_again
    integer(c_int64_t) :: from, to, slot
  end type

  ! As the C struct of that name.
  type, bind(c), public :: VELOC_Cost
    integer(c_int64_t) :: advances, forward_evaluations, takeshots, repetition, max_gap
  end type

  public :: VELOC_Schedule_create, VELOC_Schedule_create_online, VELOC_Schedule_end, &
      VELOC_Schedule_end_after_next
  public :: VELOC_Schedule_set_disk, VELOC_Schedule_set_resilience_distance, &
      VELOC_Schedule_set_adjoint_distance, VELOC_Schedule_set_failures, VELOC_Schedule_set_rule
  public :: VELOC_Schedule_resume, VELOC_Schedule_next, VELOC_Schedule_cost, &
      VELOC_Schedule_least_distance
  public :: VELOC_Schedule_clone, VELOC_Schedule_pack, VELOC_Schedule_unpack, VELOC_Schedule_free
  public :: VELOC_Revolve, VELOC_Maxrange, VELOC_Numforw, VELOC_Expense, VELOC_Adjust

  ! The original revolve: check, capo and fine must be the same variables for the whole computation.
  interface
    integer(c_int) function VELOC_Revolve(check, capo, fine, snaps, info) &
        bind(c, name='VELOC_Revolve')
      import :: c_int, c_int64_t
      integer(c_int64_t), intent(inout) :: check, capo, fine
      integer(c_int64_t), value :: snaps
      integer(c_int), intent(inout) :: info
    end function
    integer(c_int64_t) function VELOC_Maxrange(ss, tt) bind(c, name='VELOC_Maxrange')
      import :: c_int64_t
      integer(c_int64_t), value :: ss, tt
    end function
    integer(c_int64_t) function VELOC_Numforw(steps, snaps) bind(c, name='VELOC_Numforw')
      import :: c_int64_t
      integer(c_int64_t), value :: steps, snaps
    end function
    real(c_double) function VELOC_Expense(steps, snaps) bind(c, name='VELOC_Expense')
      import :: c_double, c_int64_t
      integer(c_int64_t), value :: steps, snaps
    end function
    integer(c_int64_t) function VELOC_Adjust(steps) bind(c, name='VELOC_Adjust')
      import :: c_int64_t
      integer(c_int64_t), value :: steps
    end function
  end interface

  interface
    integer(c_int) function c_create(steps, slots, handle) bind(c, name='VELOC_Schedule_create')
      import :: c_int, c_int64_t, c_ptr
      integer(c_int64_t), value :: steps, slots
      type(c_ptr), intent(inout) :: handle
    end function
    integer(c_int) function c_create_online(slots, handle) &
        bind(c, name='VELOC_Schedule_create_online')
      import :: c_int, c_int64_t, c_ptr
      integer(c_int64_t), value :: slots
      type(c_ptr), intent(inout) :: handle
    end function
    integer(c_int) function c_end(handle) bind(c, name='VELOC_Schedule_end')
      import :: c_int, c_ptr
      type(c_ptr), value :: handle
    end function
    integer(c_int) function c_end_after_next(handle) &
        bind(c, name='VELOC_Schedule_end_after_next')
      import :: c_int, c_ptr
      type(c_ptr), value :: handle
    end function
    integer(c_int) function c_set_disk(handle, slots, write, read) &
        bind(c, name='VELOC_Schedule_set_disk')
      import :: c_double, c_int, c_int64_t, c_ptr
      type(c_ptr), value :: handle
      integer(c_int64_t), value :: slots
      real(c_double), value :: write, read
    end function
    integer(c_int) function c_set_resilience_distance(handle, distance) &
        bind(c, name='VELOC_Schedule_set_resilience_distance')
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: handle
      integer(c_int64_t), value :: distance
    end function
    integer(c_int) function c_set_adjoint_distance(handle, distance) &
        bind(c, name='VELOC_Schedule_set_adjoint_distance')
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: handle
      integer(c_int64_t), value :: distance
    end function
    integer(c_int) function c_set_failures(handle, mtbf, write_cost, turn_cost) &
        bind(c, name='VELOC_Schedule_set_failures')
      import :: c_double, c_int, c_ptr
      type(c_ptr), value :: handle
      real(c_double), value :: mtbf, write_cost, turn_cost
    end function
    integer(c_int) function c_set_rule(handle, rule) bind(c, name='VELOC_Schedule_set_rule')
      import :: c_int, c_ptr
      type(c_ptr), value :: handle
      integer(c_int), value :: rule
    end function
    integer(c_int) function c_least_distance(handle, distance) &
        bind(c, name='VELOC_Schedule_least_distance')
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: handle
      integer(c_int64_t), intent(inout) :: distance
    end function
    integer(c_int) function c_resume(handle, states, slots, adjoint) &
        bind(c, name='VELOC_Schedule_resume')
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: handle
      integer(c_int64_t), intent(in) :: states(*)
      integer(c_int64_t), value :: slots, adjoint
    end function
    integer(c_int) function c_next(handle, action) bind(c, name='VELOC_Schedule_next')
      import :: c_int, c_ptr, VELOC_Action
      type(c_ptr), value :: handle
      type(VELOC_Action), intent(out) :: action
    end function
    integer(c_int) function c_cost(handle, cost) bind(c, name='VELOC_Schedule_cost')
      import :: c_int, c_ptr, VELOC_Cost
      type(c_ptr), value :: handle
      type(VELOC_Cost), intent(inout) :: cost
    end function
    integer(c_int) function c_clone(handle, clone) bind(c, name='VELOC_Schedule_clone')
      import :: c_int, c_ptr
      type(c_ptr), value :: handle
      type(c_ptr), intent(inout) :: clone
    end function
    integer(c_int) function c_pack(handle, bytes, size) bind(c, name='VELOC_Schedule_pack')
      import :: c_int, c_ptr, c_size_t
      type(c_ptr), value :: handle, bytes
      integer(c_size_t), intent(inout) :: size
    end function
    integer(c_int) function c_unpack(bytes, size, handle) bind(c, name='VELOC_Schedule_unpack')
      import :: c_int, c_int8_t, c_ptr, c_size_t
      integer(c_int8_t), intent(in) :: bytes(*)
      integer(c_size_t), value :: size
      type(c_ptr), intent(inout) :: handle
    end function
    integer(c_int) function c_free(handle) bind(c, name='VELOC_Schedule_free')
      import :: c_int, c_ptr
      type(c_ptr), value :: handle
    end function
  end interface

contains

  subroutine VELOC_Schedule_create(steps, slots, schedule, err)
    integer(VELOC_COUNT), intent(in) :: steps, slots
    type(VELOC_Schedule), intent(inout) :: schedule
    integer, intent(out) :: err
    err = c_create(steps, slots, schedule%handle)
  end subroutine

  ! Makes a schedule whose number of steps is not known.
  subroutine VELOC_Schedule_create_online(slots, schedule, err)
    integer(VELOC_COUNT), intent(in) :: slots
    type(VELOC_Schedule), intent(inout) :: schedule
    integer, intent(out) :: err
    err = c_create_online(slots, schedule%handle)
  end subroutine

  ! Says that the state that was reached is the last one.
  subroutine VELOC_Schedule_end(schedule, err)
    type(VELOC_Schedule), intent(in) :: schedule
    integer, intent(out) :: err
    err = c_end(schedule%handle)
  end subroutine

  ! Says that the next step is the last one.
  subroutine VELOC_Schedule_end_after_next(schedule, err)
    type(VELOC_Schedule), intent(in) :: schedule
    integer, intent(out) :: err
    err = c_end_after_next(schedule%handle)
  end subroutine

  ! The times of a write and of a read are in forward steps.
  subroutine VELOC_Schedule_set_disk(schedule, disk_slots, write, read, err)
    type(VELOC_Schedule), intent(in) :: schedule
    integer(VELOC_COUNT), intent(in) :: disk_slots
    real(c_double), intent(in) :: write, read
    integer, intent(out) :: err
    err = c_set_disk(schedule%handle, disk_slots, write, read)
  end subroutine

  subroutine VELOC_Schedule_set_resilience_distance(schedule, distance, err)
    type(VELOC_Schedule), intent(in) :: schedule
    integer(VELOC_COUNT), intent(in) :: distance
    integer, intent(out) :: err
    err = c_set_resilience_distance(schedule%handle, distance)
  end subroutine

  subroutine VELOC_Schedule_set_adjoint_distance(schedule, distance, err)
    type(VELOC_Schedule), intent(in) :: schedule
    integer(VELOC_COUNT), intent(in) :: distance
    integer, intent(out) :: err
    err = c_set_adjoint_distance(schedule%handle, distance)
  end subroutine

  ! Times are in forward steps.
  subroutine VELOC_Schedule_set_failures(schedule, mtbf, write_cost, turn_cost, err)
    type(VELOC_Schedule), intent(in) :: schedule
    real(c_double), intent(in) :: mtbf, write_cost, turn_cost
    integer, intent(out) :: err
    err = c_set_failures(schedule%handle, mtbf, write_cost, turn_cost)
  end subroutine

  subroutine VELOC_Schedule_set_rule(schedule, rule, err)
    type(VELOC_Schedule), intent(in) :: schedule
    integer, intent(in) :: rule
    integer, intent(out) :: err
    ! A number that C's int cannot hold is no rule: the error names the nearest one that it can hold.
    integer(c_int64_t) :: nearest
    nearest = max(min(int(rule, c_int64_t), int(huge(0_c_int), c_int64_t)), -int(huge(0_c_int), c_int64_t))
    err = c_set_rule(schedule%handle, int(nearest, c_int))
  end subroutine

  subroutine VELOC_Schedule_least_distance(schedule, distance, err)
    type(VELOC_Schedule), intent(in) :: schedule
    integer(VELOC_COUNT), intent(out) :: distance
    integer, intent(out) :: err
    distance = -1
    err = c_least_distance(schedule%handle, distance)
  end subroutine

  ! states: the state that each slot has, from slot 0 on, or -1 for none. adjoint: the state of the stored adjoint, or
  ! -1.
  subroutine VELOC_Schedule_resume(schedule, states, adjoint, err)
    type(VELOC_Schedule), intent(in) :: schedule
    integer(VELOC_COUNT), intent(in) :: states(:), adjoint
    integer, intent(out) :: err
    err = c_resume(schedule%handle, states, size(states, kind=c_int64_t), adjoint)
  end subroutine

  subroutine VELOC_Schedule_next(schedule, action, err)
    type(VELOC_Schedule), intent(in) :: schedule
    type(VELOC_Action), intent(out) :: action
    integer, intent(out) :: err
    err = c_next(schedule%handle, action)
  end subroutine

  subroutine VELOC_Schedule_cost(schedule, cost, err)
    type(VELOC_Schedule), intent(in) :: schedule
    type(VELOC_Cost), intent(out) :: cost
    integer, intent(out) :: err
    cost = VELOC_Cost(-1, -1, -1, -1, -1)
    err = c_cost(schedule%handle, cost)
  end subroutine

  subroutine VELOC_Schedule_clone(schedule, clone, err)
    type(VELOC_Schedule), intent(in) :: schedule
    type(VELOC_Schedule), intent(inout) :: clone
    integer, intent(out) :: err
    err = c_clone(schedule%handle, clone%handle)
  end subroutine

  ! Gives where the schedule stands, as bytes. If the call fails, `bytes` does not change.
  subroutine VELOC_Schedule_pack(schedule, bytes, err)
    type(VELOC_Schedule), intent(in) :: schedule
    integer(c_int8_t), allocatable, target, intent(inout) :: bytes(:)
    integer, intent(out) :: err
    integer(c_size_t) :: size
    err = c_pack(schedule%handle, c_null_ptr, size)
    if (err /= 0) return
    if (allocated(bytes)) deallocate(bytes)
    allocate(bytes(size))
    err = c_pack(schedule%handle, c_loc(bytes), size)
  end subroutine

  subroutine VELOC_Schedule_unpack(bytes, schedule, err)
    integer(c_int8_t), intent(in) :: bytes(:)
    type(VELOC_Schedule), intent(inout) :: schedule
    integer, intent(out) :: err
    err = c_unpack(bytes, size(bytes, kind=c_size_t), schedule%handle)
  end subroutine

  ! Frees a schedule. It has no effect on a schedule that was not made or is freed already.
  subroutine VELOC_Schedule_free(schedule, err)
    type(VELOC_Schedule), intent(inout) :: schedule
    integer, intent(out) :: err
    err = c_free(schedule%handle)
    schedule%handle = c_null_ptr
  end subroutine

end module
