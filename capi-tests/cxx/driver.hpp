/*
 * As much of the CUDA driver's interface as these programs use, found at run time.
 */
#ifndef DRIVER_HPP
#define DRIVER_HPP

#include <cstdint>
#include <dlfcn.h>

#include "check.hpp"

class cuda_driver {
public:
    /* Loads the driver and makes a context, once. */
    void start()
    {
        if (library_ != nullptr)
            return;
        library_ = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
        CHECK(library_ != nullptr);
        int device = -1;
        void *context = nullptr;
        call<int(unsigned)>("cuInit", 0u);
        call<int(int *, int)>("cuDeviceGet", &device, 0);
        call<int(void **, unsigned, int)>("cuCtxCreate_v2", &context, 0u, device);
    }

    std::uintptr_t allocate(size_t bytes)
    {
        unsigned long long address = 0;
        call<int(unsigned long long *, size_t)>("cuMemAlloc_v2", &address, bytes);
        return address;
    }

    void upload(std::uintptr_t to, const void *from, size_t bytes)
    {
        call<int(unsigned long long, const void *, size_t)>("cuMemcpyHtoD_v2", to, from, bytes);
    }

    void download(void *to, std::uintptr_t from, size_t bytes)
    {
        call<int(void *, unsigned long long, size_t)>("cuMemcpyDtoH_v2", to, from, bytes);
    }

private:
    template <typename Function, typename... Arguments>
    void call(const char *name, Arguments... arguments)
    {
        auto *function = reinterpret_cast<Function *>(dlsym(library_, name));
        CHECK(function != nullptr);
        EQUAL(function(arguments...), 0);
    }

    void *library_ = nullptr;
};

inline cuda_driver &driver()
{
    static cuda_driver found;
    return found;
}

#endif
