! The Fortran interface: module veloc, which is veloc_2003 (in this file, too, by its `include`) with
! arrays and scalars of any type and rank.
!
! These need Fortran 2018 (TS 29113 before that) and descriptor.c. If everything is compiled with -std=f2008 or older,
! add -std=f2018 after it for this file; the program that uses it does not need that.
include 'veloc_2003.f90'

module veloc
  use, intrinsic :: iso_c_binding, only: c_char, c_int, c_int64_t
  use veloc_2003
  implicit none

  private :: c_char, c_int, c_int64_t

  ! Protects an array or scalar of any type and rank: (id, array, err). It must have the attribute target, or live as
  ! long as it is protected. The library refuses a section with gaps. The compiler refuses what is no variable or may
  ! not be changed, because a restart changes it. Another form takes a number of elements at an address: see
  ! veloc_2003.
  interface VELOC_Mem_protect
    procedure veloc_fortran_protect_array, veloc_fortran_protect_array_long
  end interface

  ! The same for the checkpoints of one name alone. The name stands before err.
  interface VELOC_Region_protect
    procedure veloc_fortran_protect_own_array, veloc_fortran_protect_own_array_long
  end interface

  ! The same for the state or the adjoint of an adjoint computation: (what, id, array, err).
  interface VELOC_Adjoint_protect
    procedure veloc_fortran_protect_part, veloc_fortran_protect_part_long
  end interface

  interface
    ! These are in descriptor.c. Arrays are intent(inout), because later calls read and write them: so a compiler does
    ! not keep them in registers, and refuses an expression, whose value is gone after the call. There is one of each
    ! for default integers of 32 and of 64 bits.
    subroutine veloc_fortran_protect_array(id, array, err) bind(c)
      import :: c_int
      integer(c_int), intent(in) :: id
      type(*), dimension(..), target, intent(inout) :: array
      integer(c_int), intent(out) :: err
    end subroutine
    subroutine veloc_fortran_protect_own_array(id, array, name, err) bind(c)
      import :: c_int, c_char
      integer(c_int), intent(in) :: id
      type(*), dimension(..), target, intent(inout) :: array
      character(kind=c_char, len=*), intent(in) :: name
      integer(c_int), intent(out) :: err
    end subroutine
    subroutine veloc_fortran_protect_array_long(id, array, err) bind(c)
      import :: c_int64_t
      integer(c_int64_t), intent(in) :: id
      type(*), dimension(..), target, intent(inout) :: array
      integer(c_int64_t), intent(out) :: err
    end subroutine
    subroutine veloc_fortran_protect_own_array_long(id, array, name, err) bind(c)
      import :: c_int64_t, c_char
      integer(c_int64_t), intent(in) :: id
      type(*), dimension(..), target, intent(inout) :: array
      character(kind=c_char, len=*), intent(in) :: name
      integer(c_int64_t), intent(out) :: err
    end subroutine
    subroutine veloc_fortran_protect_part(what, id, array, err) bind(c)
      import :: c_int
      integer(c_int), intent(in) :: what, id
      type(*), dimension(..), target, intent(inout) :: array
      integer(c_int), intent(out) :: err
    end subroutine
    subroutine veloc_fortran_protect_part_long(what, id, array, err) bind(c)
      import :: c_int64_t
      integer(c_int64_t), intent(in) :: what, id
      type(*), dimension(..), target, intent(inout) :: array
      integer(c_int64_t), intent(out) :: err
    end subroutine
  end interface

end module
