/*
 * The C++ interface of VELOC, on top of the C interface and of src/capi/cxx.rs.
 *
 * No exception leaves a method of the client: Rust's frames may be below it.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */

// Whichever MPI a program has, it finds its own function here: see the end of this file.
#define VELOC_NO_MPI
#include "veloc.hpp"

#include <cstdint>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <utility>
#include <vector>

#include "abi.h"
#include "object.hpp"
#include "veloc.h"

struct ompi_communicator_t;
struct MPI_ABI_Comm;

namespace veloc {
namespace {

class client : public client_t {
public:
    bool mem_protect(int id, void *ptr, size_t count, size_t base_size,
                     const std::string &name) override;
    bool mem_protect(int id, const serializer_t &s, const deserializer_t &d,
                     const std::string &name) override;
    bool mem_unprotect(int id, const std::string &name) override;
    void mem_clear(const std::string &name) override;
    bool register_observer(int type, const observer_t &obs) override;
    std::string route_file(const std::string &original) override;
    bool cleanup(const std::string &name) override;
    bool checkpoint(const std::string &name, int version) override;
    bool checkpoint_begin(const std::string &name, int version) override;
    bool checkpoint_mem(int mode, const std::set<int> &ids) override;
    bool checkpoint_end(bool success) override;
    bool checkpoint_wait() override;
    bool checkpoint_finished() override;
    int restart_test(const std::string &name, int version, int target_rank) override;
    bool restart(const std::string &name, int version, int target_rank) override;
    bool restart_begin(const std::string &name, int version, int target_rank) override;
    size_t recover_size(int id) override;
    bool recover_mem(int mode, const std::set<int> &ids) override;
    bool restart_end(bool success) override;
    ~client() override;
};

using observer = std::function<void(const std::string &, int)>;

/* What the process has of this layer. Never destroyed: a program's own ends may come later. */
struct process {
    std::mutex lock;
    client *the_client = nullptr;
    observer checkpoint_observer;
};

process &own()
{
    static process *const found = new process;
    return *found;
}

/* Runs the body of a method; an exception is an error like any other. */
template <typename Result, typename Body>
Result guarded(const char *method, Result failure, Body body) noexcept
{
    try {
        return body();
    } catch (const std::exception &error) {
        VELOC_Cxx_report(method, error.what());
    } catch (...) {
        VELOC_Cxx_report(method, "threw what is no std::exception");
    }
    return failure;
}

/* The same for a body that gives a status of the C interface. */
template <typename Body> bool succeeds(const char *method, Body body) noexcept
{
    return guarded(method, VELOC_FAILURE, body) == VELOC_SUCCESS;
}

/* A text as C has it. */
const char *text(const std::string &string)
{
    if (string.find('\0') != std::string::npos)
        throw std::runtime_error("a NUL character in \"" + std::string(string.c_str()) + "...\"");
    return string.c_str();
}

/* Options as C has them, valid as long as these. */
std::vector<VELOC_Option> list(const options_t &options)
{
    std::vector<VELOC_Option> list;
    for (const auto &[key, value] : options)
        list.push_back({text(key), text(value)});
    return list;
}

/* Called by the library for every checkpoint that has ended. */
void checkpoint_ended(const char *name, int version) noexcept
{
    guarded("the observer of checkpoints", 0, [=] {
        observer called;
        {
            std::lock_guard<std::mutex> guard(own().lock);
            called = own().checkpoint_observer;
        }
        if (called)
            called(name, version);
        return 0;
    });
}

bool client::mem_protect(int id, void *ptr, size_t count, size_t base_size, const std::string &name)
{
    return succeeds("mem_protect", [&] {
        return VELOC_Region_protect(id, ptr, count, base_size, text(name));
    });
}

bool client::mem_protect(int id, const serializer_t &s, const deserializer_t &d,
                         const std::string &name)
{
    return succeeds("mem_protect", [&] {
        if (!s || !d)
            throw std::invalid_argument("region " + std::to_string(id) + ": an empty "
                                        + (s ? "deserializer" : "serializer"));
        const char *group = text(name);
        const VELOC_Cxx_object object = make_object(s, d);
        return VELOC_Cxx_protect(id, &object, group);
    });
}

bool client::mem_unprotect(int id, const std::string &name)
{
    return succeeds("mem_unprotect", [&] { return VELOC_Region_unprotect(id, text(name)); });
}

void client::mem_clear(const std::string &name)
{
    succeeds("mem_clear", [&] { return VELOC_Region_clear(text(name)); });
}

bool client::register_observer(int type, const observer_t &obs)
{
    return succeeds("register_observer", [&] {
        if (type != VELOC_OBSERVE_CKPT_END)
            throw std::invalid_argument("there is no event " + std::to_string(type)
                                        + "; VELOC_OBSERVE_CKPT_END (0) exists");
        observer replaced = obs;
        std::lock_guard<std::mutex> guard(own().lock);
        // The one before is destroyed when the lock is free again.
        own().checkpoint_observer.swap(replaced);
        VELOC_Cxx_observe(checkpoint_ended);
        return VELOC_SUCCESS;
    });
}

std::string client::route_file(const std::string &original)
{
    char routed[VELOC_MAX_NAME];
    const bool found =
        succeeds("route_file", [&] { return VELOC_Route_file(text(original), routed); });
    return found ? routed : std::string();
}

bool client::cleanup(const std::string &name)
{
    return succeeds("cleanup", [&] { return VELOC_Cleanup(text(name)); });
}

bool client::checkpoint(const std::string &name, int version)
{
    return succeeds("checkpoint", [&] { return VELOC_Checkpoint(text(name), version); });
}

bool client::checkpoint_begin(const std::string &name, int version)
{
    return succeeds("checkpoint_begin",
                    [&] { return VELOC_Checkpoint_begin(text(name), version); });
}

bool client::checkpoint_mem(int mode, const std::set<int> &ids)
{
    return succeeds("checkpoint_mem", [&] {
        std::vector<int> list(ids.begin(), ids.end());
        return VELOC_Checkpoint_selective(mode, list.data(), static_cast<int>(list.size()));
    });
}

bool client::checkpoint_end(bool success)
{
    return VELOC_Checkpoint_end(success) == VELOC_SUCCESS;
}

bool client::checkpoint_wait()
{
    return VELOC_Checkpoint_wait() == VELOC_SUCCESS;
}

bool client::checkpoint_finished()
{
    return VELOC_Checkpoint_finished() == 1;
}

int client::restart_test(const std::string &name, int version, int target_rank)
{
    return guarded("restart_test", VELOC_FAILURE,
                   [&] { return VELOC_Cxx_restart_test(text(name), version, target_rank); });
}

bool client::restart(const std::string &name, int version, int target_rank)
{
    return succeeds("restart",
                    [&] { return VELOC_Cxx_restart(text(name), version, target_rank); });
}

bool client::restart_begin(const std::string &name, int version, int target_rank)
{
    return succeeds("restart_begin",
                    [&] { return VELOC_Cxx_restart_begin(text(name), version, target_rank); });
}

size_t client::recover_size(int id)
{
    return VELOC_Cxx_recover_size(id);
}

bool client::recover_mem(int mode, const std::set<int> &ids)
{
    return succeeds("recover_mem", [&] {
        std::vector<int> list(ids.begin(), ids.end());
        return VELOC_Recover_selective(mode, list.data(), static_cast<int>(list.size()));
    });
}

bool client::restart_end(bool success)
{
    return VELOC_Restart_end(success) == VELOC_SUCCESS;
}

client::~client()
{
    succeeds("~client_t", [&] {
        {
            std::lock_guard<std::mutex> guard(own().lock);
            own().the_client = nullptr;
        }
        return VELOC_Cxx_has_job() == 1 ? VELOC_Finalize(0) : VELOC_SUCCESS;
    });
}

/* The process's client. `start` starts its job, if there is none. */
template <typename Start> client_t *get(Start start)
{
    std::lock_guard<std::mutex> guard(own().lock);
    const int job = VELOC_Cxx_has_job();
    if (job < 0 || (job == 0 && start() != VELOC_SUCCESS))
        throw std::runtime_error(VELOC_Last_error());
    if (own().the_client == nullptr)
        own().the_client = new client;
    return own().the_client;
}

/* Over a communicator in whichever form. */
client_t *get_over(std::uintptr_t comm, const std::string &cfg_file)
{
    return get([&] { return VELOC_Init(reinterpret_cast<void *>(comm), text(cfg_file)); });
}

client_t *get_over(std::uintptr_t comm, const options_t &options)
{
    return get([&] {
        const std::vector<VELOC_Option> given = list(options);
        return VELOC_Init_options(reinterpret_cast<void *>(comm), given.data(), given.size());
    });
}

} // namespace

client_t::~client_t() = default;

client_t *get_client(unsigned int id, const std::string &cfg_file)
{
    return get([&] { return VELOC_Init_single(id, text(cfg_file)); });
}

client_t *get_client(unsigned int id, const options_t &options)
{
    return get([&] {
        const std::vector<VELOC_Option> given = list(options);
        return VELOC_Init_single_options(id, given.data(), given.size());
    });
}

// What an MPI_Comm is stands in each MPI's own mpi.h, and the name of a function says it. These are
// all forms that there are, so that one library serves programs of every MPI: Open MPI's, MPICH's
// and the standard ABI's of MPI 5.

client_t *get_client(ompi_communicator_t *comm, const std::string &cfg_file)
{
    return get_over(reinterpret_cast<std::uintptr_t>(comm), cfg_file);
}

client_t *get_client(int comm, const std::string &cfg_file)
{
    return get_over(static_cast<unsigned int>(comm), cfg_file);
}

client_t *get_client(MPI_ABI_Comm *comm, const std::string &cfg_file)
{
    return get_over(reinterpret_cast<std::uintptr_t>(comm), cfg_file);
}

client_t *get_client(ompi_communicator_t *comm, const options_t &options)
{
    return get_over(reinterpret_cast<std::uintptr_t>(comm), options);
}

client_t *get_client(int comm, const options_t &options)
{
    return get_over(static_cast<unsigned int>(comm), options);
}

client_t *get_client(MPI_ABI_Comm *comm, const options_t &options)
{
    return get_over(reinterpret_cast<std::uintptr_t>(comm), options);
}

} // namespace veloc
