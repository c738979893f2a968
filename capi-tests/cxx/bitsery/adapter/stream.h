/* The streams of the stand-in: what is not flushed is lost. */
#ifndef STANDIN_BITSERY_STREAM_H
#define STANDIN_BITSERY_STREAM_H

#include <istream>
#include <ostream>
#include <string>

namespace bitsery {

class OutputBufferedStreamAdapter {
public:
    OutputBufferedStreamAdapter(std::ostream &stream) : stream_(stream) {}
    void write(const void *bytes, size_t count)
    {
        buffer_.append(static_cast<const char *>(bytes), count);
    }
    void flush()
    {
        stream_ << buffer_;
        buffer_.clear();
    }

private:
    std::ostream &stream_;
    std::string buffer_;
};

class InputStreamAdapter {
public:
    InputStreamAdapter(std::istream &stream) : stream_(stream) {}
    bool read(void *bytes, size_t count)
    {
        stream_.read(static_cast<char *>(bytes), static_cast<std::streamsize>(count));
        return static_cast<bool>(stream_);
    }

private:
    std::istream &stream_;
};

} // namespace bitsery

#endif
