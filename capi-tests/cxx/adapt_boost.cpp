// Boost 1.74's own set.hpp needs an archive's header in front of it.
#include "veloc/boost.hpp"

#include <set>
#include <string>

#include <boost/serialization/set.hpp>
#include <boost/serialization/string.hpp>

#include "adapt.hpp"

int main(int, char **argv)
{
    const std::set<std::string> wanted = {"one", "two", ""};
    auto data = wanted;
    adapt(
        argv[1], veloc::boost::serializer(data), veloc::boost::deserializer(data),
        [&] { return data == wanted; }, [&] { data = {"three"}; });
}
