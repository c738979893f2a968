/*
 * Regions that bitsery writes and reads:
 *
 *     client->mem_protect(1, veloc::bitsery::serializer(data), veloc::bitsery::deserializer(data));
 *
 * `data` must exist as long as it is protected.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#ifndef VELOC_BITSERY_HPP
#define VELOC_BITSERY_HPP

#include <cstdint>
#include <functional>
#include <istream>
#include <ostream>

#include <bitsery/adapter/stream.h>
#include <bitsery/bitsery.h>

namespace veloc::bitsery {

template <typename T> std::function<void(std::ostream &)> serializer(T &data)
{
    return [&data](std::ostream &out) {
        ::bitsery::Serializer<::bitsery::OutputBufferedStreamAdapter> archive{out};
        archive.object(data);
        archive.adapter().flush();
    };
}

/** False if the bytes are not `data`'s. */
template <typename T> std::function<bool(std::istream &)> deserializer(T &data)
{
    return [&data](std::istream &in) {
        const auto state = ::bitsery::quickDeserialization<::bitsery::InputStreamAdapter>(in, data);
        return state.first == ::bitsery::ReaderError::NoError;
    };
}

} // namespace veloc::bitsery

#endif /* VELOC_BITSERY_HPP */
