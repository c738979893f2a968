/*
 * What the C++ programs here have in common: the frame round `save`, with MPI or without.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#ifndef PROGRAM_HPP
#define PROGRAM_HPP

#include <iostream>
#include <stdexcept>
#include <string>

#include <veloc.h>

inline void check(bool fine, const std::string &what)
{
    if (!fine)
        throw std::runtime_error(what + ": " + VELOC_Last_error());
}

/** Runs `save` with the configuration and the rank; the program's exit code. */
inline int run(int argc, char **argv, void (*save)(const char *config, int rank))
{
    const char *config = argc > 1 ? argv[1] : "";
    int rank = 0;
#ifdef WITH_MPI
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
#endif
    try {
        save(config, rank);
    } catch (const std::exception &error) {
        std::cerr << error.what() << '\n';
#ifdef WITH_MPI
        MPI_Abort(MPI_COMM_WORLD, 1);
#endif
        return 1;
    }
#ifdef WITH_MPI
    MPI_Finalize();
#endif
    if (rank == 0)
        std::cout << "done\n";
    return 0;
}

#endif /* PROGRAM_HPP */
