# The package for Debian, which CPack makes of a build whose prefix is /usr:
#
#     cpack --config <build>/CPackConfig.cmake -B <folder>
#
# It has this library's own version; project() has VELOC's.

set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS Cargo.toml)
file(STRINGS Cargo.toml line REGEX "^version = " LIMIT_COUNT 1)
string(REGEX MATCH "[0-9.]+" CPACK_PACKAGE_VERSION "${line}")

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME veloc)
set(CPACK_PACKAGE_CONTACT "The authors of veloc" CACHE STRING "Maintainer of the package for Debian, with an address")
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION libs)
# By dpkg-shlibdeps. MPI and the driver are looked for at run time.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
include(CPack)
