// Structures, copies of the library and an atomic, as C++ has them.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <vector>
#include "veloc.h"

struct Cell {
    std::uint64_t words[5];
};

int main()
{
    constexpr int count = 40, iterations = 20;
    VELOC_Pmem *pmem;
    VELOC_Array *array;
    std::int64_t iteration;
    if (VELOC_Pmem_open("arrays", 1 << 16, VELOC_CRASH_POWER, &pmem)
        || VELOC_Pmem_array(pmem, "cells", sizeof(Cell), count, 2, &array) || VELOC_Pmem_recover(pmem, &iteration))
        return 3;
    for (std::int64_t i = std::max<std::int64_t>(iteration, 0) + 1; i <= iterations; i++) {
        auto *old = static_cast<const Cell *>(VELOC_Pmem_at(array, i - 1));
        auto *now = static_cast<Cell *>(VELOC_Pmem_at(array, i));
        std::vector<Cell> next(count);
        for (int n = 0; n < count; n++)
            for (int k = 0; k < 5; k++)
                next[n].words[k] = old[(n + 1) % count].words[k] * 3 + i + k;
        std::copy(next.begin(), next.end(), now);
        now[3] = next[4];
        reinterpret_cast<std::atomic<std::uint64_t> *>(&now[0].words[0])->fetch_add(7);
#ifndef NO_FLUSH
        VELOC_Pmem_flush(pmem, now, count * sizeof(Cell));
#endif
        VELOC_Pmem_mark(pmem, i, nullptr, 0);
    }
    auto *last = static_cast<const Cell *>(VELOC_Pmem_at(array, iterations));
    std::uint64_t sum = 0;
    for (int n = 0; n < count; n++)
        for (auto word : last[n].words)
            sum = sum * 5 + word;
    std::printf("%llu\n", static_cast<unsigned long long>(sum));
}
