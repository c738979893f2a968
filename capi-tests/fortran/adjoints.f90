! The Fortran interface of adjoint computations: adjoints <configuration>
! Prints "done" if everything was as it should be, and stops where it was not.
module numbers
  use, intrinsic :: iso_c_binding, only: c_int64_t
  use veloc
  use veloc_adjoints
  implicit none
  real(8), target :: state, sensitivity
  integer :: hashed = 0, fail_at = -1, stop_at = -1
  logical :: nests = .false.
  type(VELOC_Adjoint) :: what
contains

  subroutine protect(err)
    integer, intent(out) :: err
    real(8), target :: gaps(4, 4)
    call VELOC_Adjoint_protect(2, 0, state, err)
    call refused(err, 'what = 2')
    call VELOC_Adjoint_protect(VELOC_ADJOINT_STATE, 0, gaps(1:4:2, :), err)
    call refused(err, 'gaps')
    call VELOC_Adjoint_protect(VELOC_ADJOINT_STATE, 0, state, err)
    if (err == VELOC_SCES) call VELOC_Adjoint_protect(VELOC_ADJOINT_GRADIENT, 0, sensitivity, err)
  end subroutine

  subroutine forward(from, to, err)
    integer(c_int64_t), intent(in) :: from, to
    integer, intent(out) :: err
    integer(c_int64_t) :: step
    if (nests) then
      call VELOC_Adjoint_run(what, protect, forward, adjoint, err)
      call refused(err, 'under way')
    end if
    err = VELOC_SCES
    do step = from + 1, to
      state = state + 1d-2 * sin(state)
      if (step == fail_at) err = VELOC_NSCS
    end do
  end subroutine

  subroutine adjoint(step, err)
    integer(c_int64_t), intent(in) :: step
    integer, intent(out) :: err
    err = VELOC_SCES
    if (step == what%steps) sensitivity = 1
    sensitivity = sensitivity * (1 + 1d-2 * cos(state))
    if (step == stop_at) call VELOC_Adjoint_stop(err)
  end subroutine

  subroutine hash(word, err)
    integer(c_int64_t), intent(out) :: word
    integer, intent(out) :: err
    hashed = hashed + 1
    word = transfer(state, word)
    err = VELOC_SCES
  end subroutine

  ! The call must have failed, with these words in its reason.
  subroutine refused(err, words)
    integer, intent(in) :: err
    character(len=*), intent(in) :: words
    character(len=400) :: why
    call VELOC_Last_error(why)
    if (err == VELOC_NSCS .and. index(why, words) > 0) return
    print '(a, i0, 4a)', 'returned ', err, ' without "', words, '": ', trim(why)
    stop 1
  end subroutine

  subroutine check(holds, text)
    logical, intent(in) :: holds
    character(len=*), intent(in) :: text
    character(len=400) :: why
    if (holds) return
    call VELOC_Last_error(why)
    print '(4a)', text, ' is not so: ', trim(why)
    stop 1
  end subroutine
end module

program adjoints
  use numbers
  implicit none
  character(len=256) :: configuration
  integer :: err, step
  real(8) :: x, wanted

  x = 0.5d0
  wanted = 1
  do step = 1, 300
    wanted = wanted * (1 + 1d-2 * cos(x))
    x = x + 1d-2 * sin(x)
  end do
  call get_command_argument(1, configuration)
  call VELOC_Init_single(0, configuration, err)
  call check(err == VELOC_SCES, 'VELOC_Init_single')
  what%name = 'numbers'
  what%steps = 300
  what%slots = 7
  what%resilience_distance = 60
  what%adjoint_distance = 20

  what%rule = 9
  call VELOC_Adjoint_run(what, protect, forward, adjoint, err)
  call refused(err, 'rule')
  what%rule = 2
  state = 0.5d0
  fail_at = 177
  call VELOC_Adjoint_run(what, protect, forward, adjoint, err)
  call refused(err, 'forward')
  fail_at = -1
  state = 0.5d0
  stop_at = 100
  what%verify_replay = .true.
  call VELOC_Adjoint_run(what, protect, forward, adjoint, err, hash)
  call check(err == VELOC_STOPPED, 'VELOC_STOPPED')
  call check(hashed > 300, 'that each state was hashed')
  stop_at = -1
  nests = .true.
  state = 0.5d0
  call VELOC_Adjoint_run(what, protect, forward, adjoint, err, hash)
  call check(err == VELOC_SCES, 'VELOC_Adjoint_run')
  call check(abs(sensitivity / wanted - 1) < 1d-12, 'the adjoint')
  call VELOC_Finalize(1, err)
  call check(err == VELOC_SCES, 'VELOC_Finalize')
  print '(a)', 'done'
end program
