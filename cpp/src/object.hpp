/*
 * An object with its serializer and deserializer, as the Rust library calls them.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#ifndef VELOC_CXX_OBJECT_HPP
#define VELOC_CXX_OBJECT_HPP

#include <functional>
#include <istream>
#include <ostream>

#include "abi.h"

namespace veloc {

/* The table of functions of an object. Whoever gets it destroys its context. */
VELOC_Cxx_object make_object(const std::function<void(std::ostream &)> &serializer,
                             const std::function<bool(std::istream &)> &deserializer);

} // namespace veloc

#endif /* VELOC_CXX_OBJECT_HPP */
