#include <map>
#include <vector>

#include <cereal/types/map.hpp>
#include <cereal/types/string.hpp>
#include <cereal/types/vector.hpp>

#include "adapt.hpp"
#include "veloc/cereal.hpp"

int main(int, char **argv)
{
    const std::map<std::string, std::vector<double>> wanted = {{"a", {1, 2.5}}, {"b", {}}};
    auto data = wanted;
    adapt(
        argv[1], veloc::cereal::serializer(data), veloc::cereal::deserializer(data),
        [&] { return data == wanted; }, [&] { data = {{"c", {3}}}; });
}
