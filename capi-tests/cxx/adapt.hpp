/*
 * What the programs of the adapters have in common: an object is written, spoilt and read back, and
 * bytes of something else's are refused.
 */
#ifndef ADAPT_HPP
#define ADAPT_HPP

#include <functional>

#define VELOC_NO_MPI
#include "check.hpp"
#include "veloc.hpp"

using serializer = std::function<void(std::ostream &)>;
using deserializer = std::function<bool(std::istream &)>;

/* `is_good`: the object is as it was; `spoil` makes it another. */
inline void adapt(const std::string &configuration, const serializer &s, const deserializer &d,
                  const std::function<bool()> &is_good, const std::function<void()> &spoil)
{
    veloc::client_t *c = veloc::get_client(0u, configuration);
    CHECK(is_good());
    CHECK(c->mem_protect(1, s, d));
    CHECK(c->checkpoint("adapted", 1));
    spoil();
    CHECK(!is_good());
    CHECK(c->restart("adapted", 1));
    CHECK(is_good());
    // Bytes that end too early.
    CHECK(c->mem_protect(
        1, [](std::ostream &out) { out << "xy"; }, d));
    CHECK(c->checkpoint("adapted", 2));
    REFUSED(c->restart("adapted", 2), "region 1|deserializer");
    EQUAL(VELOC_Finalize(1), VELOC_SUCCESS);
    puts("done");
}

#endif
