/*
 * Checkpoints for adjoint computations on GPUs, behind the C++ interface of VELOC 1.8. Needs C++17.
 *
 * Programs that were compiled against VELOC's own header run with this library without being compiled again. So the
 * order of the virtual functions must stay as it is.
 *
 * Every function that returns a bool gives false where the C function gives VELOC_FAILURE. Do not compare it with
 * VELOC_SUCCESS, which is 0; write if (!client->restart(...)). VELOC_Last_error() of veloc.h has the reason. Only
 * get_client throws.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#ifndef VELOC_HPP
#define VELOC_HPP

#include "veloc/defs.h"

#include <cstddef>
#include <functional>
#include <iostream>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

/* As in veloc.h: define VELOC_NO_MPI to do without. */
#ifndef VELOC_NO_MPI
#if !__has_include(<mpi.h>)
#define VELOC_NO_MPI
#endif
#endif

#ifndef VELOC_NO_MPI
#include <mpi.h>
#endif

/* A program that ignores the result goes on with memory that may not have been restored. (GCC ignores
 * [[nodiscard]] on virtual functions.) */
#if defined(__GNUC__)
#define VELOC_NODISCARD __attribute__((warn_unused_result))
#elif __cplusplus >= 201703L
#define VELOC_NODISCARD [[nodiscard]]
#else
#define VELOC_NODISCARD
#endif

namespace veloc {

/** One process's part of a job. A process has one, which get_client gives. */
class client_t {
protected:
    /** The group of regions for checkpoints whose name has no regions of its own. */
    static constexpr char default_mem_group[] = "default";
    using serializer_t = std::function<void(std::ostream &)>;
    using deserializer_t = std::function<bool(std::istream &)>;
    using observer_t = std::function<void(const std::string &name, int version)>;

public:
    /**
     * Protects `count` elements of `base_size` bytes at `ptr`, on the host or the device: for any checkpoint, or for
     * those of one name alone. If the id is protected already, the new region replaces the old one. As
     * VELOC_Mem_protect and VELOC_Region_protect.
     */
    virtual bool mem_protect(int id, void *ptr, size_t count, size_t base_size,
                             const std::string &name = default_mem_group) = 0;
    /**
     * Protects an object that is no range of memory. `s` writes it to a stream in every checkpoint; `d` reads it from
     * one in every restart, and says whether that went well. The checkpoint or restart fails and names the region if
     * `s` or `d` throws, if `d` returns false, or if the stream has failed afterwards (there was no room, or `d` has
     * read past the end of what `s` wrote). Bytes that `d` leaves unread cause a warning. Neither may call the
     * library.
     */
    virtual bool mem_protect(int id, const serializer_t &s, const deserializer_t &d,
                             const std::string &name = default_mem_group) = 0;
    /** Ends the protection of a region. False if it is not protected. */
    virtual bool mem_unprotect(int id, const std::string &name = default_mem_group) = 0;
    /** Ends the protection of all regions of a group. */
    virtual void mem_clear(const std::string &name = default_mem_group) = 0;
    /**
     * Has `obs` called for every checkpoint that has ended well; `type` is VELOC_OBSERVE_CKPT_END. The thread that
     * ends the checkpoint calls it, before its own call returns; with `mode = async` the files may not be written
     * yet. `obs` may call the library. The library reports what it throws, and passes no exception on. A second
     * observer replaces the first; an empty one ends the observation.
     */
    virtual bool register_observer(int type, const observer_t &obs) = 0;

    /** As VELOC_Route_file. Empty if it failed. */
    virtual std::string route_file(const std::string &original) = 0;
    /** As VELOC_Cleanup. */
    virtual bool cleanup(const std::string &name) = 0;

    /** As VELOC_Checkpoint. */
    virtual bool checkpoint(const std::string &name, int version) = 0;
    /** As VELOC_Checkpoint_begin. */
    virtual bool checkpoint_begin(const std::string &name, int version) = 0;
    /** As VELOC_Checkpoint_selective: VELOC_CKPT_ALL, _SOME (`ids`) or _REST (all but `ids`). */
    virtual bool checkpoint_mem(int mode, const std::set<int> &ids) = 0;
    /** As VELOC_Checkpoint_end. */
    virtual bool checkpoint_end(bool success) = 0;
    /** As VELOC_Checkpoint_wait. */
    virtual bool checkpoint_wait() = 0;
    /** As VELOC_Checkpoint_finished; false also where that reports a failure. */
    virtual bool checkpoint_finished() = 0;

    /**
     * As VELOC_Restart_test; negative if there is no version. With a `target_rank` of 0 or more it looks for that
     * rank's checkpoints in scratch or persistent, and is not collective.
     */
    virtual int restart_test(const std::string &name, int version, int target_rank = -1) = 0;
    /** As VELOC_Restart. With a `target_rank`, of that rank's checkpoint, from its files. */
    VELOC_NODISCARD virtual bool restart(const std::string &name, int version,
                                         int target_rank = -1) = 0;
    /** As VELOC_Restart_begin. With a `target_rank` as restart; collective all the same. */
    virtual bool restart_begin(const std::string &name, int version, int target_rank = -1) = 0;
    /** Bytes of a region in the open checkpoint; 0 if the checkpoint lacks the region. */
    virtual size_t recover_size(int id) = 0;
    /** As VELOC_Recover_selective: VELOC_RECOVER_ALL, _SOME (`ids`) or _REST (all but `ids`). */
    VELOC_NODISCARD virtual bool recover_mem(int mode, const std::set<int> &ids) = 0;
    /** As VELOC_Restart_end. */
    virtual bool restart_end(bool success) = 0;

    /** Ends the job as VELOC_Finalize(0), unless it has ended. */
    virtual ~client_t() = 0;
};

/**
 * Keys of the configuration and their values, as they would stand in the file:
 * {{"mode", "async"}, {"scratch", "/local/scratch"}}. A map m gives options_t(m.begin(), m.end()).
 */
using options_t = std::vector<std::pair<std::string, std::string>>;

/**
 * Gives the client of this process. The first call starts a job, unless VELOC_Init has; later calls give the same
 * client, whatever their arguments.
 *
 * @throw std::runtime_error if the job could not be started, with the reason
 */
client_t *get_client(unsigned int id, const std::string &cfg_file);
/** The same with options in place of a file; as VELOC_Init_single_options. */
client_t *get_client(unsigned int id, const options_t &options);

#ifndef VELOC_NO_MPI
/** The same over an MPI communicator. Collective. */
client_t *get_client(MPI_Comm comm, const std::string &cfg_file);
client_t *get_client(MPI_Comm comm, const options_t &options);
#endif

} // namespace veloc

#undef VELOC_NODISCARD

#endif /* VELOC_HPP */
