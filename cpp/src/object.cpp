/*
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#include "object.hpp"

#include <cstdio>
#include <exception>
#include <memory>

#include "bytes.hpp"

namespace veloc {
namespace {

struct functions {
    std::function<void(std::ostream &)> serializer;
    std::function<bool(std::istream &)> deserializer;
};

/* Runs what the application gave, and says why it failed. */
template <typename Body> int guarded(char *reason, size_t room, Body body) noexcept
{
    try {
        return body();
    } catch (const std::exception &error) {
        std::snprintf(reason, room, "threw: %s", error.what());
    } catch (...) {
        std::snprintf(reason, room, "threw what is no std::exception");
    }
    return -1;
}

int write_object(void *context, VELOC_Cxx_written *written, char *reason, size_t room) noexcept
{
    return guarded(reason, room, [=] {
        auto buffer = std::make_unique<growing_buffer>();
        std::ostream stream(buffer.get());
        static_cast<functions *>(context)->serializer(stream);
        stream.flush();
        if (stream.fail()) {
            // What is written to a stream that has failed is lost. It also catches what its buffer throws, where
            // there is no memory.
            std::snprintf(reason, room, "could not write to the stream any further than %zu bytes",
                          buffer->bytes().size());
            return -1;
        }
        written->bytes = buffer->bytes().data();
        written->len = buffer->bytes().size();
        written->buffer = buffer.release();
        return 0;
    });
}

void forget_bytes(void *buffer) noexcept
{
    delete static_cast<growing_buffer *>(buffer);
}

int read_object(void *context, const void *bytes, size_t len, char *reason, size_t room) noexcept
{
    return guarded(reason, room, [=] {
        given_buffer buffer(bytes, len);
        std::istream stream(&buffer);
        if (!static_cast<functions *>(context)->deserializer(stream)) {
            std::snprintf(reason, room, "refused its %zu bytes", len);
            return -1;
        }
        // VELOC's streams throw then.
        if (stream.fail()) {
            std::snprintf(reason, room,
                          "%s its %zu bytes and returned true; where that is meant, clear() the stream",
                          stream.eof() ? "read past the end of" : "made the stream fail on", len);
            return -1;
        }
        if (buffer.has_unread())
            std::snprintf(reason, room,
                          "leaves bytes unread that the serializer wrote: what they say is not restored");
        return 0;
    });
}

void destroy_object(void *context) noexcept
{
    delete static_cast<functions *>(context);
}

} // namespace

VELOC_Cxx_object make_object(const std::function<void(std::ostream &)> &serializer,
                             const std::function<bool(std::istream &)> &deserializer)
{
    return {new functions{serializer, deserializer}, write_object, forget_bytes, read_object,
            destroy_object};
}

} // namespace veloc
