! VELOC_Init and VELOC_Init_options for programs that `use mpi_f08`, whose communicators have a type of their own.
! This module also has everything that the module veloc has.
module veloc_f08
  use mpi_f08, only: MPI_Comm
  use veloc
  implicit none

  interface VELOC_Init
    module procedure init_comm
  end interface

  interface VELOC_Init_options
    module procedure init_options_comm
  end interface

  private :: init_comm, init_options_comm

contains

  subroutine init_comm(comm, config_file, err)
    type(MPI_Comm), intent(in) :: comm
    character(len=*), intent(in) :: config_file
    integer, intent(out) :: err
    call VELOC_Init(comm%MPI_VAL, config_file, err)
  end subroutine

  subroutine init_options_comm(comm, keys, values, err)
    type(MPI_Comm), intent(in) :: comm
    character(len=*), intent(in) :: keys(:), values(:)
    integer, intent(out) :: err
    call VELOC_Init_options(comm%MPI_VAL, keys, values, err)
  end subroutine

end module
