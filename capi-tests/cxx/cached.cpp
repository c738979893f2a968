/*
 * Files that go to their place through scratch: cached <directory or configuration> <path>
 */
#include <algorithm>
#include <fcntl.h>
#include <fstream>
#include <sstream>
#include <vector>

#define VELOC_NO_MPI
#include "check.hpp"
#include "veloc/cache.hpp"

static std::string content(const std::string &path)
{
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
}

int main(int, char **argv)
{
    const std::string scratch = argv[1], path = argv[2];
    const int flags = O_RDWR | O_CREAT | O_TRUNC;
    {
        veloc::cached_file_t file(scratch);
        char byte;
        REFUSED(file.pread(&byte, 1, 0), "no file is open");
        REFUSED(file.pwrite(&byte, 1, 0), "no file is open");
        REFUSED(file.open("/there/is/no/such", O_RDWR, 0), "/there/is/no/such");
        CHECK(file.open(path, flags, 0600));
        REFUSED(file.open(path, flags, 0600), "is open");

        // Pieces in no order, some more than once, larger than any block, with a hole between.
        const size_t size = 3500000;
        std::string wanted(size, '\0');
        uint64_t random = 1;
        for (int i = 0; i < 40; i++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            const size_t at = (random >> 33) % (size - 100);
            const size_t most = std::min<size_t>(90000, size - at);
            const size_t count = i == 7 ? size - at : (random >> 20) % most;
            std::string piece(count, static_cast<char>('a' + i % 26));
            std::copy(piece.begin(), piece.end(), wanted.begin() + static_cast<long>(at));
            CHECK(file.pwrite(piece.data(), count, static_cast<off_t>(at)));
            // What the program has written may change, and is read as it was.
            piece.assign(count, '!');
            CHECK(file.pread(&piece[0], count, static_cast<off_t>(at)));
            CHECK(piece == wanted.substr(at, count));
        }
        CHECK(file.pwrite("end", 3, static_cast<off_t>(size)));
        CHECK(veloc::cached_file_t::flush());
        CHECK(content(path) == wanted + "end");
        REFUSED(file.pread(&wanted[0], 10, static_cast<off_t>(size)), "ends at byte");
        file.close();
        file.close();
        REFUSED(file.pread(&byte, 1, 0), "no file is open");

        // Closing does not lose what is queued; another file, and reading only.
        CHECK(file.open(path + ".second", flags, 0600));
        for (off_t at = 0; at < 1000; at++)
            CHECK(file.pwrite("x", 1, at));
        file.close();
        CHECK(file.open(path, O_RDONLY, 0));
        char text[3];
        CHECK(file.pread(text, 3, static_cast<off_t>(size)));
        EQUAL(std::string(text, 3), "end");
        REFUSED(file.pwrite("x", 1, 0), "reading only");
        veloc::cached_file_t::shutdown();
        EQUAL(content(path + ".second"), std::string(1000, 'x'));
        file.close();

        // A failure in the background is told once. The thread was ended: this starts another.
        CHECK(file.open("/dev/full", O_RDWR, 0));
        CHECK(file.pwrite("x", 1, 0));
        REFUSED(veloc::cached_file_t::flush(), "/dev/full");
        CHECK(veloc::cached_file_t::flush());
    }
    {
        veloc::cached_file_t file(path + ".no.such.directory");
        REFUSED(file.open(path, flags, 0600), "no.such.directory");
    }
    // A program that just ends.
    static veloc::cached_file_t left(scratch);
    CHECK(left.open(path + ".left", flags, 0600));
    CHECK(left.pwrite("left to the end", 15, 0));
    // What it is not told by a call stands in its errors.
    static veloc::cached_file_t lost(scratch);
    CHECK(lost.open("/dev/full", O_RDWR, 0));
    CHECK(lost.pwrite("x", 1, 0));
    puts("done");
    return 0;
}
