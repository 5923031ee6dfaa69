// Arguments from Python, checked and turned into spans without a copy.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstdint>
#include <span>
#include <string>

namespace salient {

namespace py = pybind11;

inline std::string type_name(const py::handle& object) {
  return py::str(py::type::handle_of(object).attr("__name__"));
}

inline py::array require_array(const py::object& object, const char* name) {
  if (!py::isinstance<py::array>(object)) {
    throw py::type_error(std::string(name) + ": expected a NumPy array, got " + type_name(object));
  }
  return py::reinterpret_borrow<py::array>(object);
}

// A one-dimensional contiguous array of exactly this element type, not copied.
template <class T>
py::array require_vector(const py::object& object, const char* name) {
  py::array array = require_array(object, name);
  if (!array.dtype().equal(py::dtype::of<T>())) {
    throw py::type_error(std::string(name) + ": expected dtype " +
                         std::string(py::str(py::dtype::of<T>())) + ", got " +
                         std::string(py::str(array.dtype())));
  }
  if (array.ndim() != 1) {
    throw py::value_error(std::string(name) + ": expected one dimension, got shape " +
                          std::string(py::str(array.attr("shape"))));
  }
  const bool aligned = reinterpret_cast<std::uintptr_t>(array.data()) % alignof(T) == 0;
  if ((array.flags() & py::array::c_style) == 0 || !aligned) {
    throw py::value_error(std::string(name) +
                          ": expected a contiguous and aligned array; "
                          "numpy.require(array, requirements='CA') makes one");
  }
  return array;
}

template <class T>
std::span<const T> as_span(const py::array& array) {
  return {static_cast<const T*>(array.data()), static_cast<std::size_t>(array.size())};
}

// A writable array as require_vector takes it, of at least so many entries.
template <class T>
T* require_output(const py::object& object, const char* name, std::int64_t at_least) {
  py::array array = require_vector<T>(object, name);
  if (!array.writeable()) throw py::value_error(std::string(name) + ": is read-only");
  if (array.size() < at_least) {
    throw py::value_error(std::string(name) + ": has " + std::to_string(array.size()) +
                          " entries, needs " + std::to_string(at_least));
  }
  return static_cast<T*>(array.mutable_data());
}

inline std::uint64_t require_in_range(std::uint64_t value, std::uint64_t largest,
                                      const char* name) {
  if (value > largest) {
    throw py::value_error(std::string(name) + ": " + std::to_string(value) +
                          " is above the largest possible, " + std::to_string(largest));
  }
  return value;
}

}  // namespace salient
