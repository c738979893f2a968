# The software device, on which programs run without a GPU: a CUDA driver, and the CUDA runtime that
# programs of nvcc ask for. It is in lib, wherever libraries are: veloc-rtm looks for it there.

set(softcuda lib/veloc/softcuda)
install(FILES "${VELOC_SOFTCUDA}" DESTINATION "${softcuda}" RENAME libcuda.so.1)
# One file under both names: a process that opens both must not get two drivers.
file(CREATE_LINK libcuda.so.1 "${PROJECT_BINARY_DIR}/libcuda.so" SYMBOLIC)
install(FILES "${PROJECT_BINARY_DIR}/libcuda.so" DESTINATION "${softcuda}")

# A runtime for each of CUDA 11, 12 and 13: functions carry a version, which is the library's name.
foreach(release 11.0 12 13)
    set(name "libcudart.so.${release}")
    set(versions "${PROJECT_BINARY_DIR}/${name}.versions")
    file(CONFIGURE OUTPUT "${versions}"
        CONTENT "@name@ { global: cuda*; __cuda*; softcudart_is_software; local: *; };\n" @ONLY)
    add_library(cudart-${release} SHARED "${versions}")
    add_dependencies(cudart-${release} veloc-cargo)
    target_link_libraries(cudart-${release} PRIVATE
        "-Wl,--whole-archive,${VELOC_SOFTCUDART},--no-whole-archive" gcc_s pthread dl m)
    target_link_options(cudart-${release} PRIVATE
        "LINKER:--version-script=${versions}" LINKER:--gc-sections LINKER:--no-undefined)
    set_target_properties(cudart-${release} PROPERTIES
        LINKER_LANGUAGE C PREFIX "" OUTPUT_NAME libcudart SUFFIX ".so.${release}"
        LINK_DEPENDS "${VELOC_SOFTCUDART};${versions}")
    install(TARGETS cudart-${release} LIBRARY DESTINATION "${softcuda}")
endforeach()
