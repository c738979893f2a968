/*
 * Arrays in persistent memory from C++17, on top of the C functions VELOC_Pmem_*:
 *
 *     veloc::pmem_t file("state.pm", 1 << 30);
 *     auto p = file.array<double>("p", n, 3);
 *     file.invariant("sum", [&](std::int64_t iteration, const std::vector<double> &scalars) {
 *         return std::accumulate(p.at(iteration), p.at(iteration) + n, 0.0) == scalars[0];
 *     });
 *     for (std::int64_t i = file.recover() + 1; i < last; i++) {
 *         compute(p.at(i - 1), p.at(i));
 *         file.mark(i, {sum});
 *     }
 *
 * Header only. A function that fails throws std::runtime_error with the reason.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#ifndef VELOC_PMEM_HPP
#define VELOC_PMEM_HPP

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <initializer_list>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "../veloc.h"

namespace veloc {

/** An array of a file of arrays. It ends with the file. A copy stands for the same array. */
template <typename T> class pmem_array_t {
    static_assert(std::is_trivially_copyable<T>::value, "what is stored is found again as bytes");

public:
    /** The elements of an iteration's slot. */
    T *at(std::int64_t iteration) const noexcept
    {
        return static_cast<T *>(VELOC_Pmem_at(array_, iteration));
    }

    /** The first slot, which is the only one of an array with one slot. */
    T *data() const noexcept { return at(0); }

    /** Elements of a slot. */
    std::size_t size() const noexcept { return count_; }

private:
    friend class pmem_t;
    pmem_array_t(VELOC_Array *array, std::size_t count) noexcept : array_(array), count_(count) {}

    VELOC_Array *array_;
    std::size_t count_;
};

/** A file of arrays, which its destructor closes. */
class pmem_t {
public:
    /**
     * Tells whether an iteration is consistent: true, false, or VELOC_INVARIANT_HOLDS, _FAILS or _UNKNOWN. If it
     * throws, recover or restart throws the same exception.
     */
    using invariant_t = std::function<int(std::int64_t iteration, const std::vector<double> &scalars)>;

    /** An iteration that was tried; `invariant` did not hold, and is empty if all did. */
    struct tried_t {
        std::int64_t iteration;
        int answer;
        std::string invariant;
    };

    /** As VELOC_Pmem_open. */
    pmem_t(const std::string &path, std::size_t bytes, int crash = VELOC_CRASH_PROCESS)
    {
        check(VELOC_Pmem_open(path.c_str(), bytes, crash, &handle_));
    }

    pmem_t(const pmem_t &) = delete;
    pmem_t &operator=(const pmem_t &) = delete;
    pmem_t(pmem_t &&other) noexcept
        : handle_(std::exchange(other.handle_, nullptr)), called_(std::move(other.called_))
    {
    }

    pmem_t &operator=(pmem_t &&other) noexcept
    {
        std::swap(handle_, other.handle_);
        std::swap(called_, other.called_);
        return *this;
    }

    ~pmem_t()
    {
        if (handle_ != nullptr)
            VELOC_Pmem_close(handle_);
    }

    /** As VELOC_Pmem_domain; `why` is valid until the file is closed. */
    VELOC_Domain domain() const
    {
        VELOC_Domain domain{};
        check(VELOC_Pmem_domain(handle_, &domain));
        return domain;
    }

    /** As VELOC_Pmem_array_of: an array that was added with numbers of another kind is refused. */
    template <typename T>
    pmem_array_t<T> array(const std::string &name, std::size_t count, int slots = 1)
    {
        VELOC_Array *array = nullptr;
        check(VELOC_Pmem_array_of(handle_, name.c_str(), kind<T>(), sizeof(T), count, slots, &array));
        return pmem_array_t<T>(array, count);
    }

    /** As VELOC_Pmem_mark. */
    void mark(std::int64_t iteration, std::initializer_list<double> scalars = {})
    {
        check(VELOC_Pmem_mark(handle_, iteration, scalars.begin(), static_cast<int>(scalars.size())));
    }

    /** As VELOC_Pmem_flush, for `count` elements. */
    template <typename T> void flush(const T *from, std::size_t count = 1)
    {
        check(VELOC_Pmem_flush(handle_, from, count * sizeof(T)));
    }

    /** As VELOC_Pmem_drain. */
    void drain() { check(VELOC_Pmem_drain(handle_)); }

    /** As VELOC_Pmem_invariant. */
    void invariant(const std::string &name, invariant_t function)
    {
        auto called = std::make_unique<called_t>(called_t{std::move(function), nullptr});
        check(VELOC_Pmem_invariant(handle_, name.c_str(), call, called.get()));
        called_.push_back(std::move(called));
    }

    /** As VELOC_Pmem_recover: the iteration after which to go on, or -1. */
    std::int64_t recover()
    {
        std::int64_t iteration = -1;
        checked([&] { return VELOC_Pmem_recover(handle_, &iteration); });
        return iteration;
    }

    /** As VELOC_Pmem_restart: the iteration, and the version of the checkpoint to restore for that, or -1. */
    std::pair<std::int64_t, int> restart(const std::string &name)
    {
        std::int64_t iteration = -1;
        int version = -1;
        checked([&] { return VELOC_Pmem_restart(handle_, name.c_str(), &iteration, &version); });
        return {iteration, version};
    }

    /** As VELOC_Pmem_scalars: those of the iteration that was found or marked last. */
    std::vector<double> scalars() const
    {
        const int number = VELOC_Pmem_scalars(handle_, nullptr, 0);
        check(number < 0 ? number : VELOC_SUCCESS);
        std::vector<double> scalars(static_cast<std::size_t>(number));
        VELOC_Pmem_scalars(handle_, scalars.data(), number);
        return scalars;
    }

    /** As VELOC_Pmem_report. */
    std::vector<tried_t> report() const
    {
        const int number = VELOC_Pmem_report(handle_, nullptr, 0);
        check(number < 0 ? number : VELOC_SUCCESS);
        std::vector<VELOC_Tried> tried(static_cast<std::size_t>(number));
        VELOC_Pmem_report(handle_, tried.data(), number);
        std::vector<tried_t> report;
        for (const VELOC_Tried &one : tried)
            report.push_back({one.iteration, one.answer, one.invariant});
        return report;
    }

    /** As VELOC_Pmem_forget. */
    void forget() { check(VELOC_Pmem_forget(handle_)); }

    /** For the C functions; still owned by this. */
    VELOC_Pmem *get() const noexcept { return handle_; }

private:
    /* The kind of an element; 0 of what is no number. */
    template <typename T> static constexpr char kind() noexcept
    {
        if (std::is_same<T, bool>::value)
            return 'b';
        if (std::is_floating_point<T>::value)
            return 'f';
        if (!std::is_integral<T>::value)
            return '\0';
        return std::is_signed<T>::value ? 'i' : 'u';
    }

    struct called_t {
        invariant_t function;
        std::exception_ptr thrown;
    };

    /* No exception goes through C. */
    static int call(std::int64_t iteration, const double *scalars, int n, void *context)
    {
        auto *called = static_cast<called_t *>(context);
        try {
            return called->function(iteration, std::vector<double>(scalars, scalars + n));
        } catch (...) {
            if (!called->thrown)
                called->thrown = std::current_exception();
            return VELOC_INVARIANT_UNKNOWN;
        }
    }

    /* The first exception of an invariant comes before an error of the call. */
    template <typename F> void checked(F function)
    {
        const int status = function();
        std::exception_ptr thrown;
        for (auto &called : called_) {
            std::exception_ptr one = std::exchange(called->thrown, nullptr);
            if (one && !thrown)
                thrown = one;
        }
        if (thrown)
            std::rethrow_exception(thrown);
        check(status);
    }

    static void check(int status)
    {
        if (status != VELOC_SUCCESS)
            throw std::runtime_error(VELOC_Last_error());
    }

    VELOC_Pmem *handle_ = nullptr;
    std::vector<std::unique_ptr<called_t>> called_;
};

}  // namespace veloc

#endif
