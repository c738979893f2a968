# The Rust part: the target veloc-cargo, and in VELOC_CARGO_OUTPUT the folder with what it makes.
# Cargo itself sees what is out of date, so it runs in every build.

set(VELOC_CARGO_PROFILE release CACHE STRING "Profile that cargo builds with")
option(VELOC_CARGO_OFFLINE "Have cargo use no network (crates are vendored or downloaded)" OFF)
set(VELOC_CARGO_FLAGS "" CACHE STRING "Further arguments of cargo build, separated by semicolons")
# Cargo's own folder: what `cargo xtask` has built there is not built again.
set(target "${PROJECT_SOURCE_DIR}/target")
if(DEFINED ENV{CARGO_TARGET_DIR})
    set(target "$ENV{CARGO_TARGET_DIR}")
    cmake_path(ABSOLUTE_PATH target BASE_DIRECTORY "${PROJECT_SOURCE_DIR}"
        NORMALIZE)
endif()
set(VELOC_CARGO_TARGET_DIR "${target}" CACHE PATH "Folder that cargo builds in")

# As for cargo's own tools: the variables of the environment come first.
if(DEFINED ENV{CARGO})
    set(VELOC_CARGO "$ENV{CARGO}" CACHE FILEPATH "The program cargo")
endif()
find_program(VELOC_CARGO cargo HINTS ENV CARGO_HOME "$ENV{HOME}/.cargo" PATH_SUFFIXES bin
    DOC "The program cargo")
if(NOT VELOC_CARGO)
    message(FATAL_ERROR "cargo was not found: install a Rust toolchain (1.88 or newer), or set CARGO")
endif()
set(VELOC_RUSTC "$ENV{RUSTC}" CACHE STRING "The compiler rustc; empty: the one that cargo takes")
# The same, by its path.
set(VELOC_RUSTC_FOUND "${VELOC_RUSTC}")
if(NOT VELOC_RUSTC_FOUND)
    cmake_path(GET VELOC_CARGO PARENT_PATH folder)
    find_program(VELOC_RUSTC_BESIDE rustc HINTS "${folder}" REQUIRED)
    mark_as_advanced(VELOC_RUSTC_BESIDE)
    set(VELOC_RUSTC_FOUND "${VELOC_RUSTC_BESIDE}")
endif()

# What follows expects the output where cargo puts it when it builds for this machine.
set(environment --unset=CARGO_BUILD_TARGET "CARGO_TARGET_DIR=${VELOC_CARGO_TARGET_DIR}")
if(VELOC_RUSTC)
    list(APPEND environment "RUSTC=${VELOC_RUSTC}")
endif()

set(arguments --locked --profile "${VELOC_CARGO_PROFILE}")
if(VELOC_CARGO_OFFLINE)
    list(APPEND arguments --offline)
endif()
list(APPEND arguments ${VELOC_CARGO_FLAGS})

# Cargo has a folder for each profile, but for its own four.
set(folder "${VELOC_CARGO_PROFILE}")
if(folder MATCHES "^(dev|test)$")
    set(folder debug)
elseif(folder STREQUAL "bench")
    set(folder release)
endif()
set(VELOC_CARGO_OUTPUT "${VELOC_CARGO_TARGET_DIR}/${folder}")

set(VELOC_RUST_LIBRARY "${VELOC_CARGO_OUTPUT}/libveloc_client.a")
set(VELOC_MESSAGE_LOG "${VELOC_CARGO_OUTPUT}/libveloc_mpi.so")
set(VELOC_CRASH "${VELOC_CARGO_OUTPUT}/libveloc_crash.so")
set(VELOC_PROGRAMS "${VELOC_CARGO_OUTPUT}/veloc-backend" "${VELOC_CARGO_OUTPUT}/veloc")
# The demonstration, and the software device, on which it and the benches run without a GPU.
set(VELOC_RTM "${VELOC_CARGO_OUTPUT}/rtm")
set(VELOC_SOFTCUDA "${VELOC_CARGO_OUTPUT}/libsoftcuda.so")
set(VELOC_SOFTCUDART "${VELOC_CARGO_OUTPUT}/libsoftcudart.a")

# All packages at once: one after the other would each make a library of its own, as they ask for
# other features of what they share.
add_custom_target(veloc-cargo ALL
    COMMAND "${CMAKE_COMMAND}" -E env ${environment}
        "${VELOC_CARGO}" build ${arguments}
        --package veloc --package daemon --package veloc-cli --package veloc-mpi --package rtm
        --package softcuda --package softcudart --package veloc-crash
    BYPRODUCTS "${VELOC_RUST_LIBRARY}" "${VELOC_MESSAGE_LOG}" ${VELOC_PROGRAMS} "${VELOC_RTM}"
        "${VELOC_SOFTCUDA}" "${VELOC_SOFTCUDART}" "${VELOC_CRASH}"
    WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}"
    COMMENT "Building the Rust part (profile ${VELOC_CARGO_PROFILE})"
    USES_TERMINAL VERBATIM)
