# The Fortran modules, compiled in the project that uses them: what one compiler makes of a module
# no other can read. Their sources are in VELOC_FORTRAN_DIR.

# The target veloc::<name> with the module `module`, and others of these sources.
function(_veloc_fortran_module name module)
    set(target veloc_${name})
    add_library(${target} STATIC EXCLUDE_FROM_ALL ${ARGN})
    add_library(veloc::${name} ALIAS ${target})
    set(modules "${CMAKE_CURRENT_BINARY_DIR}/CMakeFiles/${module}_modules")
    set_target_properties(${target} PROPERTIES
        Fortran_MODULE_DIRECTORY "${modules}"
        # For programs and for shared libraries.
        POSITION_INDEPENDENT_CODE ON)
    target_include_directories(${target} PUBLIC "${modules}")
endfunction()

get_property(_veloc_languages GLOBAL PROPERTY ENABLED_LANGUAGES)
if("C" IN_LIST _veloc_languages AND "Fortran" IN_LIST _veloc_languages)
    if(NOT TARGET veloc_fortran)
        set(_veloc_descriptor "${VELOC_FORTRAN_DIR}/descriptor.c")
        _veloc_fortran_module(fortran veloc
            "${VELOC_FORTRAN_DIR}/veloc.f90" "${VELOC_FORTRAN_DIR}/veloc_arrays.f90"
            "${VELOC_FORTRAN_DIR}/veloc_schedules.f90"
            "${_veloc_descriptor}")
        target_link_libraries(veloc_fortran PUBLIC veloc::client)
        # A project that is strict with its own sources need not be less so for arrays of any type.
        if(CMAKE_Fortran_COMPILER_ID STREQUAL "GNU")
            target_compile_options(veloc_fortran PRIVATE
                "$<$<COMPILE_LANGUAGE:Fortran>:-std=f2018>")
        endif()
        # It includes a header of the Fortran compiler's, which a C compiler of another make lacks.
        if(CMAKE_Fortran_COMPILER_ID STREQUAL "GNU" AND NOT CMAKE_C_COMPILER_ID STREQUAL "GNU")
            execute_process(
                COMMAND "${CMAKE_Fortran_COMPILER}" -print-file-name=include
                OUTPUT_VARIABLE _veloc_include OUTPUT_STRIP_TRAILING_WHITESPACE)
            set_property(SOURCE "${_veloc_descriptor}" APPEND PROPERTY
                COMPILE_OPTIONS -idirafter "${_veloc_include}")
            unset(_veloc_include)
        elseif(CMAKE_Fortran_COMPILER_ID STREQUAL "LLVMFlang")
            file(REAL_PATH "${CMAKE_Fortran_COMPILER}" _veloc_include)
            cmake_path(GET _veloc_include PARENT_PATH _veloc_include)
            cmake_path(APPEND _veloc_include "../include/flang")
            set_property(SOURCE "${_veloc_descriptor}" APPEND PROPERTY
                COMPILE_OPTIONS "-I${_veloc_include}")
            unset(_veloc_include)
        endif()
        unset(_veloc_descriptor)
    endif()
    # Where no MPI was found the target is there as well, and empty.
    if(TARGET MPI::MPI_Fortran AND NOT TARGET veloc_fortran_f08
       AND (MPI_Fortran_FOUND OR NOT DEFINED MPI_Fortran_FOUND))
        _veloc_fortran_module(fortran_f08 veloc_f08 "${VELOC_FORTRAN_DIR}/veloc_f08.f90")
        target_link_libraries(veloc_fortran_f08 PUBLIC veloc_fortran MPI::MPI_Fortran)
    endif()
endif()
if("Fortran" IN_LIST _veloc_languages AND NOT TARGET veloc_fortran_mpi)
    _veloc_fortran_module(fortran_2003 veloc_2003
        "${VELOC_FORTRAN_DIR}/veloc_2003.f90" "${VELOC_FORTRAN_DIR}/veloc_arrays.f90"
        "${VELOC_FORTRAN_DIR}/veloc_schedules.f90")
    target_link_libraries(veloc_fortran_2003 PUBLIC veloc::client)
    _veloc_fortran_module(fortran_mpi veloc_parts "${VELOC_FORTRAN_DIR}/veloc_parts.f90")
    target_link_libraries(veloc_fortran_mpi PUBLIC veloc::mpi)
endif()
unset(_veloc_languages)
