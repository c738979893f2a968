#include "bitsery/adapter/stream.h"
#include "bitsery/bitsery.h"

#include "adapt.hpp"
#include "veloc/bitsery.hpp"

struct numbers {
    int i;
    double f;
};

int main(int, char **argv)
{
    numbers data = {7, 0.5};
    adapt(
        argv[1], veloc::bitsery::serializer(data), veloc::bitsery::deserializer(data),
        [&] { return data.i == 7 && data.f == 0.5; }, [&] { data = {1, 2}; });
}
