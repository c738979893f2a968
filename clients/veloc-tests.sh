# VELOC's own tests, its `ctest`; SOURCE is ECP-VeloC/VELOC, and BITSERY in the environment is fraillt/bitsery.
program="VELOC's own tests"
what='`ctest`'

run_client() {
    checkout
    if [ -n "${BITSERY:-}" ]; then
        unpack "$BITSERY" bitsery HEAD
        build bitsery bitsery-build || return
    fi
    # The folder of tests in a project of ours: that of VELOC builds its own library. They include "include/veloc.h".
    mkdir "$work/tests" "$work/bin"
    ln -s "$prefix/include" "$work/tests/include"
    cat > "$work/tests/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.20)
project(tests LANGUAGES C CXX)
include(GNUInstallDirs)
set(CMAKE_CXX_STANDARD 17)
find_package(veloc 1.8 REQUIRED)
find_package(cereal)
find_package(Bitsery CONFIG)
find_package(Boost CONFIG COMPONENTS serialization)
if(cereal_FOUND AND Bitsery_FOUND AND Boost_FOUND)
    set(SERIALIZATION_LIBRARIES Bitsery::bitsery Boost::serialization)
endif()
include_directories("\${PROJECT_SOURCE_DIR}")
enable_testing()
add_subdirectory("$work/source/test" test)
END
    build tests tests-build -DCMAKE_INSTALL_BINDIR="$prefix/bin" -DCMAKE_INSTALL_LIBDIR="$prefix/lib" \
        -DCMAKE_TEST_SCRATCH="$work/scratch" -DCMAKE_TEST_PERSISTENT="$work/persistent" \
        -DCMAKE_TEST_META="$work/meta" || return
    # Its scripts end all daemons of the machine by killall: here only that of their configuration.
    printf '#!/bin/bash\npkill -f "$1 %s/"\n' "$work" > "$work/bin/killall"
    chmod +x "$work/bin/killall"
    PATH=$work/bin:$PATH
    if [ -x "$work/tests-build/test/cpp_test" ]; then
        count_tests tests-build
        # Its program returns 0 even if the data differ.
        check "cpp: the restored data" grep -q "C++ test passed" "$work/tests-build/Testing/Temporary/LastTest.log"
    else
        skip cpp "cereal, bitsery or boost_serialization is missing"
        count_tests tests-build -E '^cpp$'
    fi
    # Of a script that was ended by its time limit.
    killall veloc-backend
    check "async: the restart" grep -q "Restart from iteration 200" "$work/tests-build/Testing/Temporary/LastTest.log"
}
