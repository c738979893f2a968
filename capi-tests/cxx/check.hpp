/*
 * What the C++ programs of these tests share: checks that say where they failed and why.
 */
#ifndef CHECK_HPP
#define CHECK_HPP

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>

#include "veloc.h"

/* The program ends at once, without finalizing: a test that failed has nothing to clean up. */
[[noreturn]] inline void check_failed(const char *file, int line, const std::string &what)
{
    std::cout << file << ":" << line << ": " << what << "\n  VELOC_Last_error: "
              << VELOC_Last_error() << std::endl;
    std::_Exit(1);
}

#define CHECK(expression) \
    ((expression) ? (void)0 : check_failed(__FILE__, __LINE__, #expression " is not so"))

template <typename Got, typename Wanted>
void check_equal(const char *file, int line, const char *what, const Got &got, const Wanted &wanted)
{
    if (!(got == static_cast<Got>(wanted))) {
        std::cout << what << ": " << got << ", not " << wanted << "\n";
        check_failed(file, line, what);
    }
}

#define EQUAL(got, wanted) check_equal(__FILE__, __LINE__, #got, (got), (wanted))

/* `words`: parts that the error text must have, separated by '|'. */
inline void check_refused(const char *file, int line, const char *what, bool done,
                          const std::string &words)
{
    if (done)
        check_failed(file, line, std::string(what) + " succeeded");
    const std::string said = VELOC_Last_error();
    for (size_t from = 0; from <= words.size();) {
        const size_t to = std::min(words.find('|', from), words.size());
        const std::string word = words.substr(from, to - from);
        if (said.find(word) == std::string::npos)
            check_failed(file, line, std::string(what) + " failed without \"" + word + "\"");
        from = to + 1;
    }
}

#define REFUSED(call, words) check_refused(__FILE__, __LINE__, #call, (call), (words))

/* The value of the argument `key=value`, or `otherwise`. */
inline std::string option(int argc, char **argv, const std::string &key,
                          const std::string &otherwise = "")
{
    for (int i = 1; i < argc; i++)
        if (std::string(argv[i]).rfind(key + "=", 0) == 0)
            return argv[i] + key.size() + 1;
    return otherwise;
}

#endif
