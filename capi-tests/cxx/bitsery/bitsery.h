/*
 * A stand-in for bitsery: as much of its interface as veloc/bitsery.hpp uses, for objects without
 * pointers.
 */
#ifndef STANDIN_BITSERY_H
#define STANDIN_BITSERY_H

#include <type_traits>
#include <utility>

namespace bitsery {

enum class ReaderError { NoError, ReadingError, DataOverflow, InvalidData, InvalidPointer };

template <typename Adapter> class Serializer {
public:
    template <typename... Arguments>
    explicit Serializer(Arguments &&...arguments)
        : adapter_{std::forward<Arguments>(arguments)...}
    {
    }
    template <typename T> void object(const T &value)
    {
        static_assert(std::is_trivially_copyable<T>::value, "a stand-in");
        adapter_.write(&value, sizeof value);
    }
    Adapter &adapter() { return adapter_; }

private:
    Adapter adapter_;
};

template <typename Adapter, typename T>
std::pair<ReaderError, bool> quickDeserialization(Adapter adapter, T &value)
{
    T read;
    const bool whole = adapter.read(&read, sizeof read);
    if (whole)
        value = read;
    return {whole ? ReaderError::NoError : ReaderError::DataOverflow, whole};
}

} // namespace bitsery

#endif
