! The Fortran interface: whole <configuration> <path to route>
! Prints "done" if everything was as it should be, and stops where it was not.
program whole
  use, intrinsic :: iso_c_binding
  use checks
  use veloc
  implicit none

  type :: state
    integer :: step
    real(c_double) :: energy(3)
  end type

  real(c_double), allocatable, target :: field(:, :, :)
  real(c_float), pointer :: flux(:)
  complex(c_double), target :: modes(5)
  integer, target :: step
  character(len=12), target :: label
  type(state), target :: now
  real(c_double), target :: raw(10)
  character(len=1000) :: config, original, text
  character(len=VELOC_MAX_NAME) :: routed
  integer :: err, version, i, bytes, unit, beyond
  integer(c_int64_t) :: size_of_region
  logical :: prefetched

  call get_command_argument(1, config)
  call get_command_argument(2, original)

  call VELOC_Checkpoint('f', 1, err)
  call refused(err, 'VELOC_Init')
  call VELOC_Init_single(3, '/nowhere.cfg', err)
  call refused(err, '/nowhere.cfg')
  call VELOC_Init_single_options(3, [character(len=8) :: 'mode', 'mode'], ['sync ', 'async'], err)
  call refused(err, 'option: mode is given twice, as "sync" and as "async"')
  call VELOC_Init_single_options(3, ['mode     ', 'ephemeral'], ['sync'], err)
  call refused(err, 'the value of ephemeral is NULL')
  call VELOC_Init_single_options(3, ['mode'], ['sync', 'true'], err)
  call refused(err, 'the key of option 2 is NULL')
  call VELOC_Init_single_options(3, ['mode     ', 'ephemeral'], ['sync', 'true'], err)
  call ok(err, 'VELOC_Init_single_options')
  call VELOC_Finalize(1, err); call ok(err, 'VELOC_Finalize')
  call VELOC_Init_single(3, config, err)
  call ok(err, 'VELOC_Init_single')

  ! Lower bounds other than 1, any type and rank.
  allocate(field(0:3, -1:2, 5), flux(7))
  call VELOC_Mem_protect(1, field, err); call ok(err, 'an allocatable array')
  call VELOC_Mem_protect(2, flux, err); call ok(err, 'a pointer')
  call VELOC_Mem_protect(3, modes, err); call ok(err, 'a complex array')
  call VELOC_Mem_protect(4, step, err); call ok(err, 'a scalar')
  call VELOC_Mem_protect(5, label, err); call ok(err, 'a text')
  call VELOC_Mem_protect(6, now, err); call ok(err, 'a derived type')
  call VELOC_Mem_protect(7, c_loc(raw), size(raw), VELOC_REAL8, err); call ok(err, 'an address')
  ! Numbers of elements and bytes of either kind.
  call VELOC_Mem_protect(7, c_loc(raw), 10_c_int64_t, 8, err); call ok(err, 'a long count')
  call VELOC_Mem_protect(7, c_loc(raw), 10, 8_c_int64_t, err); call ok(err, 'a long size')
  call VELOC_Mem_protect(7, c_loc(raw), 10_c_int, 8_c_int, err); call ok(err, 'numbers of C')
  call VELOC_Mem_protect(7, c_loc(raw), 10_c_size_t, c_sizeof(raw(1)), err)
  call ok(err, 'sizes of C')
  ! A part without gaps is a range of memory; one with gaps is none.
  call VELOC_Mem_protect(8, field(:, :, 2:3), err); call ok(err, 'a section without gaps')
  call VELOC_Mem_unprotect(8, err); call ok(err, 'VELOC_Mem_unprotect')
  call VELOC_Mem_protect(8, field(1, :, :), err); call refused(err, 'region 8')
  call VELOC_Mem_protect(8, raw(1:9:2), err); call refused(err, 'gaps')
  call protect_assumed_size(raw)
  call VELOC_Mem_protect(8, c_loc(raw), -1, 8, err); call refused(err, 'count is -1')
  call VELOC_Mem_unprotect(8, err); call refused(err, 'region 8')

  ! All of a list or nothing.
  call VELOC_Mem_protect_list([VELOC_Region(7, c_loc(raw), 5, 8), VELOC_Region(8, c_loc(raw), -1, 8)], err)
  call refused(err, 'list(2): region 8: count is -1')
  call VELOC_Mem_protect_list([VELOC_Region(2_c_int64_t**32, c_loc(raw), 1, 8)], err)
  call refused(err, 'list(1): id is 4294967296')
  call VELOC_Mem_protect_list([VELOC_Region(7, c_loc(raw), 5, 8), VELOC_Region(7, c_loc(step), 1, 4)], err)
  call refused(err, 'list(2): region 7 is also list(1)')
  call VELOC_Mem_unprotect(8, err); call refused(err, 'region 8')
  call VELOC_Mem_protect_list([VELOC_Region(7, c_loc(raw), size(raw), VELOC_REAL8), &
      VELOC_Region(4, c_loc(step), 1, storage_size(step) / 8)], err)
  call ok(err, 'VELOC_Mem_protect_list')

  do version = 1, 3
    call fill(version)
    call VELOC_Checkpoint('f', version, err); call ok(err, 'VELOC_Checkpoint')
  end do
  call VELOC_Recover_ckpt_size('f', 2, 1, size_of_region)
  call check(size_of_region == 4 * 4 * 5 * 8, 'the size of the array')
  call VELOC_Recover_ckpt_size('f', 2, 5, size_of_region)
  call check(size_of_region == 12, 'the size of the text')
  call VELOC_Recover_ckpt_size('f', 2, 6, size_of_region)
  call check(size_of_region == c_sizeof_state(), 'the size of the derived type')
  call VELOC_Prefetch_enqueue('f', 1, err); call ok(err, 'VELOC_Prefetch_enqueue')
  call VELOC_Prefetch_start(err); call ok(err, 'VELOC_Prefetch_start')
  call VELOC_Next_prefetched('f', 1, 1, prefetched)
  call check(.not. prefetched, 'there is no device')
  do version = 3, 1, -1
    call fill(0)
    call VELOC_Restart('f', version, err); call ok(err, 'VELOC_Restart')
    call is_of(version)
  end do
  call VELOC_Restart_test('f', 0, version); call check(version == 3, 'the newest version')
  call VELOC_Restart_test('f', 2, version); call check(version == 2, 'the newest up to 2')
  call VELOC_Restart_test('nothing', 0, version); call check(version < 0, 'no version')
  call refused(version, '"nothing", any version, of rank 3 in memory, in ')

  ! Piece by piece, and only some regions.
  call fill(9)
  call VELOC_Checkpoint_begin('p', 9, err); call ok(err, 'VELOC_Checkpoint_begin')
  call VELOC_Checkpoint_selective(VELOC_CKPT_SOME, [4, 3], err); call ok(err, 'SOME')
  call VELOC_Checkpoint_end(1, err); call ok(err, 'VELOC_Checkpoint_end')
  call VELOC_Checkpoint_wait(err); call ok(err, 'VELOC_Checkpoint_wait')
  call VELOC_Checkpoint_finished(i); call check(i == 1, 'finished')
  call fill(0)
  call VELOC_Restart_begin('p', 9, err); call ok(err, 'VELOC_Restart_begin')
  call VELOC_Recover_size(4, bytes)
  call check(bytes == storage_size(step) / 8, 'the size of an integer')
  call VELOC_Recover_size(1, bytes); call check(bytes < 0, 'no such region')
  call VELOC_Recover_selective(VELOC_RECOVER_REST, [3], err); call ok(err, 'REST')
  call VELOC_Restart_end(1, err); call ok(err, 'VELOC_Restart_end')
  call check(step == 9 .and. modes(1) == (0, 0), 'the one and not the other')

  ! Regions of a name's own.
  call VELOC_Region_protect(1, raw, 'own', err); call ok(err, 'VELOC_Region_protect')
  call VELOC_Checkpoint('own', 1, err); call ok(err, 'a checkpoint of its own')
  call VELOC_Recover_ckpt_size('own', 1, 1, size_of_region)
  call check(size_of_region == 80, 'the size of its own region')
  call VELOC_Region_protect(1, raw, ' ', err)
  call refused(err, 'VELOC_Region_protect: checkpoint name "" ')
  call VELOC_Region_protect(1, raw(1::2), 'own', err); call refused(err, 'VELOC_Region_protect: region 1')
  call VELOC_Region_protect(1, c_loc(raw), -5, 8, 'own', err)
  call refused(err, 'VELOC_Region_protect: region 1: count is -5')
  call VELOC_Region_protect(1, c_loc(raw), 5_c_size_t, c_sizeof(raw(1)), 'own', err)
  call ok(err, 'an address of its own')
  call VELOC_Region_protect(1, c_loc(raw), 5, 8, 'own', err); call ok(err, 'in default integers')
  call VELOC_Region_unprotect(1, 'own', err); call ok(err, 'VELOC_Region_unprotect')
  call VELOC_Region_clear('own', err); call ok(err, 'VELOC_Region_clear')

  ! A file of the program's own.
  call VELOC_Checkpoint_begin('file', 1, err); call ok(err, 'VELOC_Checkpoint_begin')
  call VELOC_Route_file(original, text(1:4), err); call refused(err, 'routed has 4 characters')
  call check(text(1:4) == '', 'half a path')
  call VELOC_Route_file(original, routed, err); call ok(err, 'VELOC_Route_file')
  open(newunit=unit, file=trim(routed), action='write', status='new'); write(unit, '(a)') 'content'; close(unit)
  call VELOC_Checkpoint_end(1, err); call ok(err, 'VELOC_Checkpoint_end')
  call VELOC_Checkpoint_wait(err); call ok(err, 'VELOC_Checkpoint_wait')
  open(newunit=unit, file=trim(original), action='read', status='old')
  read(unit, '(a)') text; close(unit)
  call check(text == 'content', 'the file that was routed')

  ! What no int of C can hold, where default integers have 64 bits.
  if (huge(0) > huge(0_c_int)) then
    size_of_region = 2_c_int64_t**32 + 1
    beyond = int(size_of_region)
    call VELOC_Checkpoint('f', beyond, err); call refused(err, 'version is 4294967297')
    call VELOC_Restart_test('f', beyond, version); call check(version < 0, 'no such version')
    call VELOC_Mem_protect(beyond, raw, err); call refused(err, 'id is 4294967297')
    call VELOC_Mem_protect(beyond, c_loc(raw), 10, 8, err); call refused(err, 'id is 4294967297')
    call VELOC_Mem_unprotect(-beyond, err); call refused(err, 'id is -4294967297')
    call VELOC_Checkpoint_begin('p', 10, err); call ok(err, 'VELOC_Checkpoint_begin')
    call VELOC_Checkpoint_selective(VELOC_CKPT_SOME, [3, beyond], err)
    call refused(err, 'id is 4294967297')
    call VELOC_Checkpoint_end(0, err); call ok(err, 'VELOC_Checkpoint_end')
  end if

  call VELOC_Cleanup('f', err); call ok(err, 'VELOC_Cleanup')
  call VELOC_Mem_clear(err); call ok(err, 'VELOC_Mem_clear')
  call VELOC_Checkpoint('f', 4, err); call refused(err, 'no region is protected')
  call VELOC_Finalize(1, err); call ok(err, 'VELOC_Finalize')
  call VELOC_Finalize(1, err); call refused(err, 'no job')
  print '(a)', 'done'

contains

  ! As old programs hand their arrays on.
  subroutine protect_assumed_size(array)
    real(c_double), target :: array(*)
    call VELOC_Mem_protect(8, array, err); call refused(err, 'region 8: an array with an assumed size')
    call VELOC_Mem_protect(8, array(1:10), err); call ok(err, 'a section up to its end')
    call VELOC_Mem_unprotect(8, err); call ok(err, 'VELOC_Mem_unprotect')
  end subroutine

  subroutine fill(version)
    integer, intent(in) :: version
    field = version
    flux = 2 * version
    modes = cmplx(version, -version, c_double)
    step = version
    write(label, '(a, i4)') 'version ', version
    now = state(version, [1, 2, 3] * real(version, c_double))
    raw = 0.5 * version
  end subroutine

  subroutine is_of(version)
    integer, intent(in) :: version
    character(len=12) :: expected
    write(expected, '(a, i4)') 'version ', version
    call check(all(field == version), 'the array')
    call check(all(flux == 2 * version), 'the pointer')
    call check(all(modes == cmplx(version, -version, c_double)), 'the complex array')
    call check(step == version, 'the scalar')
    call check(label == expected, 'the text')
    call check(now%step == version .and. all(now%energy == [1, 2, 3] * version), 'the derived type')
    call check(all(raw == 0.5 * version), 'the address')
  end subroutine

  integer(c_int64_t) function c_sizeof_state()
    c_sizeof_state = storage_size(now) / 8
  end function

end program
