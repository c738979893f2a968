/*
 * Files of HDF5, which locks what it opens, and of programs that make their files themselves:
 *
 *   hdf5 <configuration> <file that is routed>
 */
#include "check.h"

#include <fcntl.h>
#include <hdf5.h>
#include <unistd.h>

enum { COUNT = 1000 };

static double data[COUNT];

static const char *routed(const char *original)
{
    static char path[VELOC_MAX_NAME];
    OK(VELOC_Route_file(original, path));
    return path;
}

/* Writes or reads a data set, and says whether the file could be opened. */
static int dataset(hid_t file, int write)
{
    hsize_t count = COUNT;
    hid_t space, set;
    if (file < 0)
        return 0;
    if (write) {
        space = H5Screate_simple(1, &count, NULL);
        set = H5Dcreate2(file, "u", H5T_NATIVE_DOUBLE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
        CHECK(H5Dwrite(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) >= 0);
        CHECK(H5Sclose(space) >= 0);
    } else {
        set = H5Dopen2(file, "u", H5P_DEFAULT);
        CHECK(H5Dread(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) >= 0);
    }
    CHECK(H5Dclose(set) >= 0);
    CHECK(H5Fclose(file) >= 0);
    return 1;
}

int main(int argc, char **argv)
{
    const unsigned ways[] = {H5F_ACC_EXCL, H5F_ACC_TRUNC};
    int version, file;
    CHECK(argc == 3);
    OK(VELOC_Init_single(0, argv[1]));
    for (version = 1; version <= 4; version++) {
        fill(data, sizeof data, 1, version);
        OK(VELOC_Checkpoint_begin("h", version));
        CHECK(dataset(H5Fcreate(routed(argv[2]), ways[version % 2], H5P_DEFAULT, H5P_DEFAULT), 1));
        OK(VELOC_Checkpoint_end(1));
    }
    /* Not routed for HDF5, but the same habit. */
    OK(VELOC_Checkpoint_begin("plain", 1));
    file = open(routed(argv[2]), O_WRONLY | O_CREAT | O_EXCL, 0600);
    CHECK(file >= 0 && write(file, data, sizeof data) == sizeof data && close(file) == 0);
    OK(VELOC_Checkpoint_end(1));
    OK(VELOC_Checkpoint_wait());
    for (version = 4; version >= 1; version--) {
        OK(VELOC_Restart_begin("h", version));
        memset(data, 0, sizeof data);
        CHECK(dataset(H5Fopen(routed(argv[2]), H5F_ACC_RDONLY, H5P_DEFAULT), 0));
        OK(VELOC_Restart_end(1));
        CONTENT(data, sizeof data, 1, version);
    }
    OK(VELOC_Finalize(1));
    puts("done");
    return 0;
}
