program guide
! BLOCK 1
  if (err == 0) print '(a)', 'done'
  call VELOC_Schedule_free(schedule, err)
end program
