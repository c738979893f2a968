/*
 * The example in C is C++ as well.
 */
#include "../../examples/plate/plate.c"
