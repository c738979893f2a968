/*
 * Files that go to their place through scratch.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
// As client.cpp has it: abi.h declares for every MPI.
#define VELOC_NO_MPI
#include "veloc/cache.hpp"

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fcntl.h>
#include <mutex>
#include <stdexcept>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include "abi.h"
#include "veloc/defs.h"

namespace veloc {
namespace {

/* Writes that the queue holds at the most, if the environment does not say. */
constexpr size_t DEFAULT_WRITES = 1 << 16;
/* Bytes that are copied at a time. */
constexpr size_t BLOCK = 1 << 20;

std::runtime_error failed(const std::string &what)
{
    return std::runtime_error(what + ": " + std::strerror(errno));
}

/* The two descriptors of a file. Closed when neither the program nor the queue needs them. */
struct pair {
    std::string name;
    int cached = -1, file = -1;

    pair() = default;
    pair(const pair &) = delete;
    pair &operator=(const pair &) = delete;
    ~pair()
    {
        for (const int descriptor : {cached, file})
            if (descriptor != -1)
                ::close(descriptor);
    }
};

void read_all(int descriptor, char *to, size_t count, off_t offset, const std::string &name)
{
    while (count > 0) {
        const ssize_t got = ::pread(descriptor, to, count, offset);
        if (got == -1 && errno == EINTR)
            continue;
        if (got == -1)
            throw failed("reading " + name);
        if (got == 0)
            throw std::runtime_error("reading " + name + ": it ends at byte "
                                     + std::to_string(offset) + ", " + std::to_string(count)
                                     + " bytes before what is wanted");
        to += got;
        offset += got;
        count -= static_cast<size_t>(got);
    }
}

void write_all(int descriptor, const char *from, size_t count, off_t offset,
               const std::string &name)
{
    while (count > 0) {
        const ssize_t put = ::pwrite(descriptor, from, count, offset);
        if (put == -1 && errno == EINTR)
            continue;
        if (put == -1)
            throw failed("writing " + name);
        from += put;
        offset += put;
        count -= static_cast<size_t>(put);
    }
}

/* The writes that are still to be done, and the thread that does them. */
class queue {
public:
    static queue &own()
    {
        static queue found;
        return found;
    }

    /* The program ends: nobody asks any more what has failed. */
    ~queue()
    {
        end();
        if (!failure_.empty())
            VELOC_Cxx_report("cached_file_t", failure_.c_str());
    }

    void put(std::shared_ptr<pair> file, off_t offset, size_t size)
    {
        std::unique_lock<std::mutex> guard(lock_);
        changed_.wait(guard, [&] { return writes_.size() < limit_ && !ending_; });
        if (!thread_.joinable())
            thread_ = std::thread([this] { work(); });
        writes_.push_back({std::move(file), offset, size});
        changed_.notify_all();
    }

    /* Waits until no write of these bytes is left. */
    void wait_for(const pair *file, off_t offset, size_t size)
    {
        const auto end = [](off_t from, size_t bytes) { return from + static_cast<off_t>(bytes); };
        std::unique_lock<std::mutex> guard(lock_);
        changed_.wait(guard, [&] {
            return std::none_of(writes_.begin(), writes_.end(), [&](const write &one) {
                return one.file.get() == file && one.offset < end(offset, size)
                       && offset < end(one.offset, one.size);
            });
        });
    }

    /* Waits until no write is left. What the first one that failed said, if one has. */
    std::string drain()
    {
        std::unique_lock<std::mutex> guard(lock_);
        changed_.wait(guard, [&] { return writes_.empty(); });
        return std::exchange(failure_, std::string());
    }

    /* Does what is left, and ends the thread. */
    void end()
    {
        std::thread ended;
        {
            std::lock_guard<std::mutex> guard(lock_);
            ended = std::move(thread_);
            ending_ = ended.joinable();
            changed_.notify_all();
        }
        if (ended.joinable())
            ended.join();
    }

private:
    struct write {
        std::shared_ptr<pair> file;
        off_t offset;
        size_t size;
    };

    queue()
    {
        // Not that of who has started a set-user-id program.
        if (const char *given = secure_getenv("VELOC_POSIX_CACHE_SIZE")) {
            char *rest = nullptr;
            const unsigned long long writes = std::strtoull(given, &rest, 10);
            if (rest != given && *rest == '\0' && writes > 0)
                limit_ = writes;
            else
                VELOC_Cxx_report("cached_file_t", ("VELOC_POSIX_CACHE_SIZE is no number of writes: "
                                                   + std::string(given)).c_str());
        }
    }

    void work()
    {
        std::vector<char> block(BLOCK);
        std::unique_lock<std::mutex> guard(lock_);
        for (;;) {
            changed_.wait(guard, [&] { return !writes_.empty() || ending_; });
            if (writes_.empty())
                break;
            // It stays in the queue until it is done: whoever waits for it looks there.
            const write one = writes_.front();
            guard.unlock();
            std::string failure;
            try {
                copy(one, block);
            } catch (const std::exception &error) {
                failure = error.what();
            }
            guard.lock();
            if (!failure.empty() && failure_.empty())
                failure_ = failure;
            writes_.pop_front();
            changed_.notify_all();
        }
        ending_ = false;
        changed_.notify_all();
    }

    static void copy(const write &one, std::vector<char> &block)
    {
        for (size_t done = 0; done < one.size;) {
            const size_t count = std::min(one.size - done, block.size());
            const off_t at = one.offset + static_cast<off_t>(done);
            read_all(one.file->cached, block.data(), count, at,
                     "what scratch has of " + one.file->name);
            write_all(one.file->file, block.data(), count, at, one.file->name);
            done += count;
        }
    }

    std::mutex lock_;
    std::condition_variable changed_;
    std::deque<write> writes_;
    std::thread thread_;
    std::string failure_;
    size_t limit_ = DEFAULT_WRITES;
    bool ending_ = false;
};

/* Runs the body of a function; what it throws is reported. */
template <typename Body> bool succeeds(const char *function, Body body) noexcept
{
    try {
        body();
        return true;
    } catch (const std::exception &error) {
        VELOC_Cxx_report(function, error.what());
    }
    return false;
}

/* The directory that a path names, or the configuration there. */
std::string scratch_directory(const std::string &path)
{
    struct stat found;
    if (::stat(path.c_str(), &found) == 0 && !S_ISDIR(found.st_mode)) {
        char directory[VELOC_MAX_NAME];
        if (VELOC_Cxx_scratch(path.c_str(), directory, sizeof directory) != VELOC_SUCCESS)
            throw std::runtime_error("the configuration " + path + " gives no scratch");
        return directory;
    }
    return path;
}

/* A file in scratch without a name: nobody else's, and nothing is left of it. */
int unnamed_file(const std::string &directory)
{
    int descriptor = ::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (descriptor == -1 && (errno == EOPNOTSUPP || errno == EISDIR)) {
        std::string name = directory + "/.cached-XXXXXX";
        descriptor = ::mkostemp(&name[0], O_CLOEXEC);
        if (descriptor != -1)
            ::unlink(name.c_str());
    }
    if (descriptor == -1)
        throw failed("making a file in the directory " + directory);
    return descriptor;
}

} // namespace

struct cached_file_t::state_t {
    std::string scratch;
    std::shared_ptr<pair> open;

    pair &file() const
    {
        if (!open)
            throw std::runtime_error("no file is open");
        return *open;
    }
};

cached_file_t::cached_file_t(const std::string &scratch) : state(new state_t{scratch, nullptr})
{
    // It lives longer than every object that uses it.
    queue::own();
}

cached_file_t::~cached_file_t() = default;

bool cached_file_t::open(const std::string &fname, int flags, mode_t mode)
{
    return succeeds("cached_file_t::open", [&] {
        if (state->open)
            throw std::runtime_error(fname + ": " + state->open->name + " is open");
        auto made = std::make_shared<pair>();
        made->name = fname;
        if ((flags & O_ACCMODE) != O_RDONLY)
            made->cached = unnamed_file(scratch_directory(state->scratch));
        // Each write has its place, which O_APPEND would change.
        made->file = ::open(fname.c_str(), (flags & ~O_APPEND) | O_CLOEXEC, mode);
        if (made->file == -1)
            throw failed("opening " + fname);
        state->open = std::move(made);
    });
}

bool cached_file_t::pread(void *buf, size_t count, off_t offset)
{
    return succeeds("cached_file_t::pread", [&] {
        const pair &file = state->file();
        queue::own().wait_for(&file, offset, count);
        read_all(file.file, static_cast<char *>(buf), count, offset, file.name);
    });
}

bool cached_file_t::pwrite(const void *buf, size_t count, off_t offset)
{
    return succeeds("cached_file_t::pwrite", [&] {
        const pair &file = state->file();
        if (file.cached == -1)
            throw std::runtime_error(file.name + " was opened for reading only");
        write_all(file.cached, static_cast<const char *>(buf), count, offset,
                  "what scratch has of " + file.name);
        queue::own().put(state->open, offset, count);
    });
}

void cached_file_t::close()
{
    state->open.reset();
}

bool cached_file_t::flush()
{
    return succeeds("cached_file_t::flush", [] {
        const std::string failure = queue::own().drain();
        if (!failure.empty())
            throw std::runtime_error(failure);
    });
}

void cached_file_t::shutdown()
{
    queue::own().end();
}

} // namespace veloc
