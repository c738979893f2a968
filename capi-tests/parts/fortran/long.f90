! Default integers of 64 bits, and a process without MPI: numbers that C's int cannot hold are refused,
! and so is everything else, with the reason.
program long
  use veloc_parts
  implicit none
  integer, parameter :: TOO_LARGE = 2_8**32 + 1
  type(VELOC_Part_figures) :: figures
  integer :: err

  call VELOC_Part_begin(TOO_LARGE, 0, err)
  call failed('VELOC_Part_begin: 4294967297')
  call VELOC_Part_begin(1, TOO_LARGE, err)
  call failed('VELOC_Part_begin: 4294967297')
  call VELOC_Part_end(TOO_LARGE, err)
  call failed('VELOC_Part_end: 4294967297')
  call VELOC_Part_replay_begin(-TOO_LARGE, err)
  call failed('VELOC_Part_replay_begin: -4294967297')
  call VELOC_Part_replay_end(TOO_LARGE, err)
  call failed('VELOC_Part_replay_end: 4294967297')
  call VELOC_Part_free(TOO_LARGE, err)
  call failed('VELOC_Part_free: 4294967297')
  call VELOC_Part_begin(1, 0, err)
  call failed('VELOC_Part_begin: there is no MPI')
  call VELOC_Part_get_figures(figures, err)
  call failed('VELOC_Part_get_figures: there is no MPI')
  print '(a)', 'done'

contains

  subroutine failed(text)
    character(len=*), intent(in) :: text
    character(len=200) :: why
    call VELOC_Part_error(why)
    if (err == -1 .and. index(why, text) == 1) return
    print '(i0, 4a)', err, ' ', trim(why), ', not ', text
    error stop
  end subroutine

end program
