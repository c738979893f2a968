# What comes with the program veloc: its other name, man pages and completions for shells.

# VELOC's name of the tool that looks into files.
file(CREATE_LINK veloc "${PROJECT_BINARY_DIR}/veloc-inspect" SYMBOLIC)
install(FILES "${PROJECT_BINARY_DIR}/veloc-inspect" DESTINATION "${CMAKE_INSTALL_BINDIR}")

# The program writes the rest itself.
set(share "${PROJECT_BINARY_DIR}/share")
add_custom_command(TARGET veloc-cargo POST_BUILD
    COMMAND "${CMAKE_COMMAND}" -E rm -rf "${share}"
    COMMAND "${VELOC_CARGO_OUTPUT}/veloc" share "${share}"
    COMMENT "Writing man pages and completions" VERBATIM)
install(DIRECTORY "${share}/" DESTINATION "${CMAKE_INSTALL_DATADIR}")
