! What the programs in Fortran have in common: each stops where something is not as it should be.
module checks
  use veloc
  implicit none
contains
  subroutine ok(err, what)
    integer, intent(in) :: err
    character(len=*), intent(in) :: what
    character(len=400) :: why
    if (err == VELOC_SCES) return
    call VELOC_Last_error(why)
    print '(4a)', what, ': ', trim(why)
    stop 1
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

  subroutine check(holds, what)
    logical, intent(in) :: holds
    character(len=*), intent(in) :: what
    if (holds) return
    print '(2a)', what, ' is not so'
    stop 1
  end subroutine
end module
