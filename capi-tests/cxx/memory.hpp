/*
 * Memory of the host or the device, with contents that tell where a byte belongs.
 */
#ifndef MEMORY_HPP
#define MEMORY_HPP

#include <cstdint>
#include <vector>

#include "check.hpp"
#include "driver.hpp"

class memory {
public:
    memory(bool device, size_t size) : bytes_(size)
    {
        if (device) {
            driver().start();
            address_ = driver().allocate(size);
        }
    }

    void *address() { return address_ == 0 ? bytes_.data() : reinterpret_cast<void *>(address_); }

    void fill(int seed)
    {
        make(bytes_, seed);
        if (address_ != 0)
            driver().upload(address_, bytes_.data(), bytes_.size());
    }

    /* Changes the last byte alone. */
    void spoil_end()
    {
        unsigned char &last = bytes_.back();
        last ^= 0xff;
        if (address_ != 0)
            driver().upload(address_ + bytes_.size() - 1, &last, 1);
    }

    bool is(int seed)
    {
        std::vector<unsigned char> wanted(bytes_.size());
        make(wanted, seed);
        if (address_ != 0)
            driver().download(bytes_.data(), address_, bytes_.size());
        return bytes_ == wanted;
    }

private:
    static void make(std::vector<unsigned char> &bytes, int seed)
    {
        for (size_t at = 0; at < bytes.size(); at++)
            bytes[at] = static_cast<unsigned char>(at * 7 + at / 509
                                                   + static_cast<size_t>(seed) * 13);
    }

    std::vector<unsigned char> bytes_;
    std::uintptr_t address_ = 0;
};

#endif
