/*
 * Regions that cereal writes and reads, in its binary form:
 *
 *     client->mem_protect(1, veloc::cereal::serializer(data), veloc::cereal::deserializer(data));
 *
 * `data` must exist as long as it is protected.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#ifndef VELOC_CEREAL_HPP
#define VELOC_CEREAL_HPP

#include <functional>
#include <istream>
#include <ostream>
#include <utility>

#include <cereal/archives/binary.hpp>

namespace veloc::cereal {

template <typename T> std::function<void(std::ostream &)> serializer(T &data)
{
    return [&data](std::ostream &out) {
        ::cereal::BinaryOutputArchive archive(out);
        archive(std::as_const(data));
    };
}

/** If the bytes are not `data`'s, cereal throws, and the client reports that as the reason. */
template <typename T> std::function<bool(std::istream &)> deserializer(T &data)
{
    return [&data](std::istream &in) {
        ::cereal::BinaryInputArchive archive(in);
        archive(data);
        return true;
    };
}

} // namespace veloc::cereal

#endif /* VELOC_CEREAL_HPP */
