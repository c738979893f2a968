/*
 * Files that a program writes to scratch, and that the library copies to their place in the background.
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
 * One such file. All files share one thread and one queue, which holds VELOC_POSIX_CACHE_SIZE writes (a variable of
 * the environment; 65536 without it). A program that ends by itself waits for the writes in the queue; if one fails,
 * a message says so. Only one thread at a time may use an object.
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
     * Reads `count` bytes, as the program has written them. It waits for writes of these bytes that are in the queue.
     * False also if the file ends before that.
     */
    bool pread(void *buf, size_t count, off_t offset);
    /** Writes to scratch, and queues the write to the file. Waits only while the queue is full. */
    bool pwrite(const void *buf, size_t count, off_t offset);
    /** Closes the file once its writes are done. The call does not wait for them. */
    void close();
    /** Waits for all writes of all files. False if one has failed since the last flush. */
    static bool flush();
    /**
     * Waits as flush does, and ends the thread. A flush after that still reports failures. A later write starts
     * another thread.
     */
    static void shutdown();
};

} // namespace veloc

#endif /* VELOC_CACHE_HPP */
