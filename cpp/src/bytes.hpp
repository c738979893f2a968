/*
 * Streams over bytes in memory: one that grows, one that only reads.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#ifndef VELOC_CXX_BYTES_HPP
#define VELOC_CXX_BYTES_HPP

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstring>
#include <ios>
#include <streambuf>
#include <vector>

namespace veloc {

/* A stream is asked for its position in the same way whichever way it goes. Negative: there is none. */
inline std::streamoff position(std::streamoff offset, std::ios_base::seekdir from,
                               std::streamoff at, std::streamoff end)
{
    std::streamoff to = offset;
    if (from == std::ios_base::cur)
        to += at;
    else if (from == std::ios_base::end)
        to += end;
    return to < 0 ? -1 : to;
}

/* Bytes that are written one after the other, and at another place where a program seeks. What it
 * leaves out is zero, as in a file. */
class growing_buffer : public std::streambuf {
public:
    const std::vector<char> &bytes() const { return bytes_; }

protected:
    int_type overflow(int_type c) override
    {
        if (!traits_type::eq_int_type(c, traits_type::eof())) {
            const char byte = traits_type::to_char_type(c);
            put(&byte, 1);
        }
        return traits_type::not_eof(c);
    }

    std::streamsize xsputn(const char *from, std::streamsize count) override
    {
        put(from, static_cast<size_t>(count));
        return count;
    }

    pos_type seekoff(off_type offset, std::ios_base::seekdir from, std::ios_base::openmode) override
    {
        const auto end = static_cast<std::streamoff>(bytes_.size());
        const std::streamoff to = position(offset, from, static_cast<std::streamoff>(at_), end);
        if (to >= 0)
            at_ = static_cast<size_t>(to);
        return pos_type(to);
    }

    pos_type seekpos(pos_type to, std::ios_base::openmode which) override
    {
        return seekoff(off_type(to), std::ios_base::beg, which);
    }

private:
    void put(const char *from, size_t count)
    {
        if (at_ > bytes_.size())
            bytes_.resize(at_);
        const size_t over = std::min(count, bytes_.size() - at_);
        std::copy_n(from, over, bytes_.begin() + static_cast<std::ptrdiff_t>(at_));
        bytes_.insert(bytes_.end(), from + over, from + count);
        at_ += count;
    }

    std::vector<char> bytes_;
    size_t at_ = 0;
};

/* Bytes of somebody else's. */
class given_buffer : public std::streambuf {
public:
    given_buffer(const void *bytes, size_t len)
    {
        // Nothing is written through a get area.
        char *from = const_cast<char *>(static_cast<const char *>(bytes));
        setg(from, from, from + len);
    }

    /* Whether something is behind all that was read. What only ends or fills lines need not be read. */
    bool has_unread()
    {
        note();
        return std::any_of(eback() + read_to_, egptr(),
                           [](unsigned char byte) { return std::isspace(byte) == 0; });
    }

protected:
    pos_type seekoff(off_type offset, std::ios_base::seekdir from, std::ios_base::openmode) override
    {
        note();
        const std::streamoff end = egptr() - eback();
        const std::streamoff to = position(offset, from, gptr() - eback(), end);
        if (to < 0 || to > end)
            return pos_type(off_type(-1));
        setg(eback(), eback() + to, egptr());
        sought_ = to;
        return pos_type(to);
    }

    pos_type seekpos(pos_type to, std::ios_base::openmode which) override
    {
        return seekoff(off_type(to), std::ios_base::beg, which);
    }

private:
    /* Notes how far was read from where it was sought last: a place that was only sought was not read. */
    void note()
    {
        if (gptr() - eback() > sought_)
            read_to_ = std::max(read_to_, gptr() - eback());
    }

    std::ptrdiff_t read_to_ = 0, sought_ = 0;
};

} // namespace veloc

#endif /* VELOC_CXX_BYTES_HPP */
