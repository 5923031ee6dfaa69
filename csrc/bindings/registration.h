// One function per binding file; module.cpp calls them all.
#pragma once

#include <pybind11/pybind11.h>

namespace salient {

void register_conversion(pybind11::module_& m);
void register_twins(pybind11::module_& m);

}  // namespace salient
