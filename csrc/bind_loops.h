// Makes the loops over rows known to Python.
#pragma once

#include <pybind11/pybind11.h>

namespace fastmcmd {

namespace py = pybind11;
struct loop_table;

void bind_loops(py::module_& m, const loop_table& loops);

}  // namespace fastmcmd
