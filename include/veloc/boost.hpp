/*
 * Regions that Boost.Serialization writes and reads, in its binary form:
 *
 *     client->mem_protect(1, veloc::boost::serializer(data), veloc::boost::deserializer(data));
 *
 * `data` must exist as long as it is protected. The program is linked with boost_serialization.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#ifndef VELOC_BOOST_HPP
#define VELOC_BOOST_HPP

#include <functional>
#include <istream>
#include <ostream>
#include <utility>

#include <boost/archive/binary_iarchive.hpp>
#include <boost/archive/binary_oarchive.hpp>

namespace veloc::boost {

template <typename T> std::function<void(std::ostream &)> serializer(T &data)
{
    return [&data](std::ostream &out) {
        ::boost::archive::binary_oarchive archive(out);
        archive << std::as_const(data);
    };
}

/** If the bytes are not `data`'s, Boost throws, and the client reports that as the reason. */
template <typename T> std::function<bool(std::istream &)> deserializer(T &data)
{
    return [&data](std::istream &in) {
        ::boost::archive::binary_iarchive archive(in);
        archive >> data;
        return true;
    };
}

} // namespace veloc::boost

#endif /* VELOC_BOOST_HPP */
