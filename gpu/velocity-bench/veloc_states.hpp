// Forward wavefields of a migration as checkpoints: a ring of frames on the device, stored each time it is full, and
// restored in reverse.
//
// The configuration is the file that VELOC_CFG names, veloc.cfg without it. With VELOC_FIGURES set, what the library
// has done is printed at the end.

#ifndef VELOC_STATES_HPP
#define VELOC_STATES_HPP

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>

#include <veloc.h>
#include <veloc/metrics.h>

namespace veloc_states {

inline int shots = 0;

inline std::string name() { return "shot_" + std::to_string(shots); }

/// The library has printed why; an image without this state would be wrong.
inline void must(int result, const char *call)
{
    if (result != VELOC_SUCCESS) {
        std::fprintf(stderr, "%s failed\n", call);
        std::_Exit(3);
    }
}

inline void init()
{
    const char *config = std::getenv("VELOC_CFG");
    must(VELOC_Init_single(0, config ? config : "veloc.cfg"), "VELOC_Init_single");
}

/// A shot begins, whose ring becomes full `full` times: the last one is read first.
inline void begin(void *ring, std::size_t bytes, int full)
{
    shots++;
    must(VELOC_Mem_protect(0, ring, bytes, 1), "VELOC_Mem_protect");
    for (int index = full - 1; index >= 0; index--)
        must(VELOC_Prefetch_enqueue(name().c_str(), index), "VELOC_Prefetch_enqueue");
}

inline void store(int index) { must(VELOC_Checkpoint(name().c_str(), index), "VELOC_Checkpoint"); }

/// The forward pass is over.
inline void backward() { must(VELOC_Prefetch_start(), "VELOC_Prefetch_start"); }

inline void restore(int index)
{
    must(VELOC_Restart(name().c_str(), index), "VELOC_Restart");
    if (index == 0) // it was the last of this shot
        must(VELOC_Cleanup(name().c_str()), "VELOC_Cleanup");
}

inline void figures()
{
    static const char *const causes[VELOC_WAITS] = {"copy", "order", "map", "device_room", "host_room", "fetch",
                                                    "file", "drain"};
    static const char *const names[VELOC_HOPS] = {"AtoD", "AtoH", "AtoF", "DtoH", "DtoF", "HtoF", "FtoP",
                                                  "PtoF", "FtoH", "HtoD", "DtoA", "HtoA", "FtoA"};
    VELOC_Metrics metrics;
    char hops[1024];
    if (VELOC_Get_metrics(&metrics, sizeof metrics) != VELOC_SUCCESS)
        return;
    VELOC_Get_trf_metrics(hops);
    std::printf("\nveloc: %s\n", hops);
    for (int hop = 0; hop < VELOC_HOPS; hop++)
        if (metrics.hops[hop].bytes && metrics.hops[hop].nanoseconds)
            std::printf("veloc: %s %.0f MiB, %.2f GB/s\n", names[hop], metrics.hops[hop].bytes / 1048576.0,
                        (double)metrics.hops[hop].bytes / metrics.hops[hop].nanoseconds);
    for (int cause = 0; cause < VELOC_WAITS; cause++)
        if (metrics.blocked[cause].count)
            std::printf("veloc: waited %s %.6f s, %llu times\n", causes[cause],
                        metrics.blocked[cause].nanoseconds * 1e-9, (unsigned long long)metrics.blocked[cause].count);
    std::printf("veloc: init %.6f s, calls checkpoint %.6f s, restart %.6f s\n", metrics.init.nanoseconds * 1e-9,
                metrics.checkpoint_calls.nanoseconds * 1e-9, metrics.restart_calls.nanoseconds * 1e-9);
    std::printf("veloc: checkpoints %llu, restores %llu, spills %llu, discards %llu, fetches %llu, device hits %llu, "
                "device misses %llu, device %llu MiB, host %llu MiB, registered %llu MiB, software %llu\n",
                (unsigned long long)metrics.checkpoints, (unsigned long long)metrics.restores,
                (unsigned long long)metrics.spills, (unsigned long long)metrics.discards,
                (unsigned long long)metrics.fetches, (unsigned long long)metrics.device_hits,
                (unsigned long long)metrics.device_misses, (unsigned long long)metrics.device_capacity >> 20,
                (unsigned long long)metrics.host_capacity >> 20, (unsigned long long)metrics.host_registered >> 20,
                (unsigned long long)metrics.software_device);
    std::fflush(stdout);
}

inline void end()
{
    if (std::getenv("VELOC_FIGURES"))
        figures();
    must(VELOC_Finalize(0), "VELOC_Finalize");
}

} // namespace veloc_states

#endif
