program guide
! BLOCK 3
  field = 1
  u = 2
  call VELOC_Checkpoint('x', step, err)
  if (err == VELOC_SCES) print '(a)', 'done'
  call VELOC_Finalize(0, err)
end program
