/*
 * Files that are written to scratch at once, and from there to their place in the background.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#ifndef VELOC_CACHE_HPP
#define VELOC_CACHE_HPP

#include <memory>
#include <string>

#include <sys/types.h>

namespace veloc {

/**
 * One such file. All share one queue, which holds VELOC_POSIX_CACHE_SIZE writes (65536 unless the
 * environment says otherwise), and one thread. A program that ends by itself waits for what is in
 * it; if that fails, a message says so. An object is for one thread at a time.
 *
 * The functions that return a bool give false if they failed; VELOC_Last_error() of veloc.h has the
 * reason.
 */
class cached_file_t {
    struct state_t;
    std::unique_ptr<state_t> state;

public:
    /** `scratch` is a directory, or a configuration whose key `scratch` names it. */
    cached_file_t(const std::string &scratch);
    /** Closes the file. */
    ~cached_file_t();
    /** Opens a file, as open(2) does. False also if one is open already. */
    bool open(const std::string &fname, int flags, mode_t mode);
    /**
     * Reads `count` bytes, as the program has written them. Waits for writes of them that are in
     * the queue. False also if the file ends before.
     */
    bool pread(void *buf, size_t count, off_t offset);
    /** Writes to scratch, and queues the write to the file. Waits only while the queue is full. */
    bool pwrite(const void *buf, size_t count, off_t offset);
    /** Closes the file, once its writes are done. Does not wait for them. */
    void close();
    /** Waits for all writes of all files. False if one has failed since the last time. */
    static bool flush();
    /**
     * Waits as flush does, which still tells of failures afterwards, and ends the thread. A later
     * write starts another one.
     */
    static void shutdown();
};

} // namespace veloc

#endif /* VELOC_CACHE_HPP */
