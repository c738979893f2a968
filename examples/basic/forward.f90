! Checkpoints of each state of a forward pass, and the states in reverse.
program forward
  use veloc
  implicit none
  integer, parameter :: steps = 100, cells = 100000
  real(8), target :: state(cells)
  real(8) :: total
  integer :: step, i, err

  state = 0
  total = 0
  call VELOC_Init_single(0, 'veloc.cfg', err)
  if (err /= VELOC_SCES) stop 1
  call VELOC_Mem_protect(0, state, err)
  if (err /= VELOC_SCES) stop 1
  do step = 1, steps
    do i = 1, cells
      state(i) = state(i) + mod(i - 1, 3)
    end do
    call VELOC_Checkpoint('forward', step, err)
    if (err /= VELOC_SCES) stop 1
  end do
  do step = steps, 1, -1
    call VELOC_Restart('forward', step, err)
    if (err /= VELOC_SCES) stop 1
    total = total + state(3)
  end do
  print '(a, i0)', 'sum ', nint(total)
  call VELOC_Finalize(0, err)
end program
