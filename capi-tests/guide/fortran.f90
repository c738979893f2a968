program guide
! BLOCK 1
  if (err == VELOC_SCES .and. version == 1 .and. all(field >= 0)) then
    call save_later(field(:, 1, 1))
    print '(a)', 'done'
  end if
contains
! BLOCK 2
end program
