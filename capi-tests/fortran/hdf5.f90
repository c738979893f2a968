! Files of HDF5 in Fortran: hdf5 <configuration> <file that is routed>
program hdf5_files
  use, intrinsic :: iso_c_binding
  use checks
  use veloc
  use hdf5
  implicit none
  integer, parameter :: count = 1000
  character(len=VELOC_MAX_NAME) :: configuration, original, routed
  real(c_double) :: u(count)
  integer(hid_t) :: file, space, set
  integer :: err, version, i

  call get_command_argument(1, configuration)
  call get_command_argument(2, original)
  call h5open_f(err); call check(err == 0, 'h5open_f')
  call VELOC_Init_single(0, configuration, err); call ok(err, 'VELOC_Init_single')
  do version = 1, 3
    u = [(real(version * i, c_double), i = 1, count)]
    call VELOC_Checkpoint_begin('h', version, err); call ok(err, 'VELOC_Checkpoint_begin')
    call VELOC_Route_file(original, routed, err); call ok(err, 'VELOC_Route_file')
    call h5fcreate_f(trim(routed), H5F_ACC_EXCL_F, file, err); call check(err == 0, 'h5fcreate_f')
    call h5screate_simple_f(1, [int(count, hsize_t)], space, err)
    call h5dcreate_f(file, 'u', H5T_NATIVE_DOUBLE, space, set, err)
    call h5dwrite_f(set, H5T_NATIVE_DOUBLE, u, [int(count, hsize_t)], err)
    call check(err == 0, 'h5dwrite_f')
    call h5dclose_f(set, err); call h5sclose_f(space, err); call h5fclose_f(file, err)
    call VELOC_Checkpoint_end(1, err); call ok(err, 'VELOC_Checkpoint_end')
  end do
  call VELOC_Checkpoint_wait(err); call ok(err, 'VELOC_Checkpoint_wait')
  do version = 3, 1, -1
    call VELOC_Restart_begin('h', version, err); call ok(err, 'VELOC_Restart_begin')
    call VELOC_Route_file(original, routed, err); call ok(err, 'VELOC_Route_file')
    u = 0
    call h5fopen_f(trim(routed), H5F_ACC_RDONLY_F, file, err); call check(err == 0, 'h5fopen_f')
    call h5dopen_f(file, 'u', set, err)
    call h5dread_f(set, H5T_NATIVE_DOUBLE, u, [int(count, hsize_t)], err)
    call check(err == 0, 'h5dread_f')
    call h5dclose_f(set, err); call h5fclose_f(file, err)
    call VELOC_Restart_end(1, err); call ok(err, 'VELOC_Restart_end')
    call check(all(nint(u) == [(version * i, i = 1, count)]), 'the data set')
  end do
  call VELOC_Finalize(1, err); call ok(err, 'VELOC_Finalize')
  call h5close_f(err)
  print '(a)', 'done'
end program
