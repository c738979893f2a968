# What is installed where, and the files by which others find it. Nothing of it names the prefix, so
# that an installed package can be moved.

include(CMakePackageConfigHelpers)

set(data "${CMAKE_INSTALL_DATADIR}/veloc")
set(package "${data}/cmake")

install(TARGETS veloc-client EXPORT veloc-targets LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")

# VELOC's second library. Programs that were linked to it too find the first under its name.
file(CREATE_LINK libveloc-client.so "${PROJECT_BINARY_DIR}/libveloc-modules.so" SYMBOLIC)
install(FILES "${PROJECT_BINARY_DIR}/libveloc-modules.so" DESTINATION "${CMAKE_INSTALL_LIBDIR}")

# The log of messages. It has its name from cargo's build, and needs nothing but the C library.
install(FILES "${VELOC_MESSAGE_LOG}" DESTINATION "${CMAKE_INSTALL_LIBDIR}" RENAME libveloc-mpi.so)

# What programs are linked with for `veloc crash`.
install(FILES "${VELOC_CRASH}" DESTINATION "${CMAKE_INSTALL_LIBDIR}" RENAME libveloc-crash.so)

# The library looks for veloc-backend in bin, beside the folder it is in or the one above.
install(PROGRAMS ${VELOC_PROGRAMS} DESTINATION "${CMAKE_INSTALL_BINDIR}")

# `veloc rtm` is this program beside it.
install(PROGRAMS "${VELOC_RTM}" DESTINATION "${CMAKE_INSTALL_BINDIR}" RENAME veloc-rtm)
include(cmake/softcuda.cmake)
# CMake strips what it has built itself, cargo's programs are left to us.
set(files "${CMAKE_INSTALL_BINDIR}/veloc-rtm" "${softcuda}/libcuda.so.1"
    "${CMAKE_INSTALL_LIBDIR}/libveloc-mpi.so" "${CMAKE_INSTALL_LIBDIR}/libveloc-crash.so")
foreach(program IN LISTS VELOC_PROGRAMS)
    get_filename_component(name "${program}" NAME)
    list(APPEND files "${CMAKE_INSTALL_BINDIR}/${name}")
endforeach()
install(CODE "
    if(CMAKE_INSTALL_DO_STRIP)
        foreach(file IN ITEMS ${files})
            cmake_path(ABSOLUTE_PATH file BASE_DIRECTORY \"\${CMAKE_INSTALL_PREFIX}\")
            execute_process(COMMAND \"${CMAKE_STRIP}\" --strip-unneeded \"\$ENV{DESTDIR}\${file}\"
                COMMAND_ERROR_IS_FATAL ANY)
        endforeach()
    endif()")

set(headers PATTERN "*.h")
if(VELOC_HAS_CXX)
    list(APPEND headers PATTERN "*.hpp")
endif()
install(DIRECTORY include/ DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" FILES_MATCHING ${headers})

# The files of a Fortran module are of use to one compiler only: its sources are installed.
install(DIRECTORY fortran/ DESTINATION "${data}/fortran")

install(FILES LICENSE-APACHE LICENSE-MIT THIRD-PARTY-NOTICES
    DESTINATION "${CMAKE_INSTALL_DOCDIR}")
# Examples with a CMakeLists of their own.
install(DIRECTORY examples/basic/ DESTINATION "${data}/examples")

# What users read. What it links to and only the sources have stands there without the link, and with
# where it is.
file(GLOB guide CONFIGURE_DEPENDS RELATIVE "${PROJECT_SOURCE_DIR}/docs" docs/guide/*.md docs/tutorials/*.md)
foreach(document ${guide} configuration.md from-veloc.md mistakes.md existing-codes.md tools.md bench.md model.md)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "docs/${document}")
    file(READ "docs/${document}" text)
    get_filename_component(folder "${document}" DIRECTORY)
    set(elsewhere "\\.\\./|results/")
    if(folder)
        set(elsewhere "\\.\\./\\.\\./|\\.\\./results/")
    endif()
    string(REGEX REPLACE "\\[([^]]*)\\]\\((${elsewhere})[^)]*\\)" "\\1 of the sources" text "${text}")
    file(WRITE "${PROJECT_BINARY_DIR}/docs/${document}" "${text}")
    install(FILES "${PROJECT_BINARY_DIR}/docs/${document}" DESTINATION "${CMAKE_INSTALL_DOCDIR}/${folder}")
endforeach()
install(FILES docs/timeline.png docs/strategies.png DESTINATION "${CMAKE_INSTALL_DOCDIR}")
# What Rust's standard library is made of, if the toolchain says so.
execute_process(COMMAND "${VELOC_RUSTC_FOUND}" --print sysroot
    WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}"
    OUTPUT_VARIABLE sysroot OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
set(notices "${sysroot}/share/doc/rust/COPYRIGHT-library.html")
if(EXISTS "${notices}")
    install(FILES "${notices}" DESTINATION "${CMAKE_INSTALL_DOCDIR}"
        RENAME rust-standard-library.html)
else()
    message(STATUS "There is no ${notices} to install")
endif()

# find_package(veloc)
install(EXPORT veloc-targets NAMESPACE veloc:: DESTINATION "${package}")
set(VELOC_FORTRAN_DIR "${data}/fortran")
set(VELOC_LIB_DIR "${CMAKE_INSTALL_LIBDIR}")
set(VELOC_INCLUDE_DIR "${CMAKE_INSTALL_INCLUDEDIR}")
configure_package_config_file(cmake/veloc-config.cmake.in veloc-config.cmake
    INSTALL_DESTINATION "${package}" PATH_VARS VELOC_FORTRAN_DIR VELOC_LIB_DIR VELOC_INCLUDE_DIR)
write_basic_package_version_file(veloc-config-version.cmake COMPATIBILITY SameMajorVersion)
install(FILES
    "${PROJECT_BINARY_DIR}/veloc-config.cmake"
    "${PROJECT_BINARY_DIR}/veloc-config-version.cmake"
    cmake/veloc-fortran.cmake
    DESTINATION "${package}")
foreach(name veloc-client veloc-modules)
    set(named "${CMAKE_INSTALL_DATADIR}/${name}/cmake")
    install(FILES cmake/veloc-names-config.cmake DESTINATION "${named}" RENAME ${name}-config.cmake)
    install(FILES "${PROJECT_BINARY_DIR}/veloc-config-version.cmake" DESTINATION "${named}"
        RENAME ${name}-config-version.cmake)
endforeach()

# pkg-config veloc and veloc-mpi. The prefix is found from the place of the files.
set(pkgconfig "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
if(IS_ABSOLUTE "${pkgconfig}")
    set(VELOC_PC_PREFIX "${CMAKE_INSTALL_PREFIX}")
else()
    file(RELATIVE_PATH up "/${pkgconfig}" "/")
    string(REGEX REPLACE "/$" "" up "${up}")
    set(VELOC_PC_PREFIX "\${pcfiledir}/${up}")
endif()
foreach(name LIBDIR INCLUDEDIR BINDIR DATADIR)
    if(IS_ABSOLUTE "${CMAKE_INSTALL_${name}}")
        set(VELOC_PC_${name} "${CMAKE_INSTALL_${name}}")
    else()
        set(VELOC_PC_${name} "\${prefix}/${CMAKE_INSTALL_${name}}")
    endif()
endforeach()
foreach(name veloc veloc-mpi)
    configure_file(cmake/${name}.pc.in ${name}.pc @ONLY)
    install(FILES "${PROJECT_BINARY_DIR}/${name}.pc" DESTINATION "${pkgconfig}")
endforeach()
