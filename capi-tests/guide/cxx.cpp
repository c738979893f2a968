#include <cereal/archives/binary.hpp>
#include <cereal/types/map.hpp>
#include <cereal/types/string.hpp>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#define VELOC_NO_MPI
#include <veloc/cereal.hpp>
/* BLOCK 1 */

static int go_on(std::vector<double> &field, std::map<std::string, int> &tree, int step)
{
    /* BLOCK 2 */
    return 0;
}

int main()
{
    std::vector<double> field(100, 1.0);
    std::map<std::string, int> tree{{"a", 1}};
    if (go_on(field, tree, 7) != 0)
        return 1;
    std::cout << "done\n";
    return 0;
}
