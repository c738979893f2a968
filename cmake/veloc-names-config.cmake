# find_package(veloc-client) and find_package(veloc-modules), the packages of VELOC's GPU prototype: targets of
# these names, without a namespace, that stand for veloc::client.
include(CMakeFindDependencyMacro)
find_dependency(veloc PATHS "${CMAKE_CURRENT_LIST_DIR}/../../veloc/cmake" NO_DEFAULT_PATH)
if(NOT TARGET ${CMAKE_FIND_PACKAGE_NAME})
    add_library(${CMAKE_FIND_PACKAGE_NAME} INTERFACE IMPORTED)
    set_target_properties(${CMAKE_FIND_PACKAGE_NAME} PROPERTIES INTERFACE_LINK_LIBRARIES veloc::client)
endif()
