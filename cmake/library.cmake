# libveloc-client.so: all of the Rust library and, where there is a C++ compiler, the C++ layer. The
# list cpp/exports.map says what of it others see.

set(VELOC_HAS_CXX OFF)
if(VELOC_CXX)
    include(CheckLanguage)
    check_language(CXX)
    if(CMAKE_CXX_COMPILER)
        enable_language(CXX)
        set(VELOC_HAS_CXX ON)
    else()
        message(WARNING "There is no C++ compiler: the library is built without its C++ interface "
            "(veloc.hpp). Set CMAKE_CXX_COMPILER, or VELOC_CXX=OFF to have it so.")
    endif()
endif()

set(exports "${PROJECT_SOURCE_DIR}/cpp/exports.map")
add_library(veloc-client SHARED "${exports}")
add_library(veloc::client ALIAS veloc-client)
add_dependencies(veloc-client veloc-cargo)
if(VELOC_HAS_CXX)
    target_sources(veloc-client PRIVATE cpp/src/cache.cpp cpp/src/client.cpp cpp/src/object.cpp)
    target_compile_features(veloc-client PRIVATE cxx_std_17)
else()
    set_target_properties(veloc-client PROPERTIES LINKER_LANGUAGE C)
endif()

target_include_directories(veloc-client PUBLIC
    "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>"
    "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")

# One item, so that nothing gets between the switches.
target_link_libraries(veloc-client PRIVATE
    "-Wl,--whole-archive,${VELOC_RUST_LIBRARY},--no-whole-archive"
    # What Rust's standard library needs.
    gcc_s pthread dl rt m)
target_link_options(veloc-client PRIVATE
    "LINKER:--version-script=${exports}"
    LINKER:--gc-sections
    LINKER:--no-undefined
    # Its threads and thread-local values run code in it: it stays loaded once it is.
    LINKER:-z,nodelete)
set_target_properties(veloc-client PROPERTIES
    EXPORT_NAME client
    LINK_DEPENDS "${VELOC_RUST_LIBRARY};${exports}")
