#pragma once

// What the handles of c.h are, and how exceptions become codes.
#include <exception>
#include <memory>
#include <string>
#include <utility>

#include "mica/c.h"
#include "mica/core/check.h"
#include "mica/core/tensor.h"

struct mica_tensor {
  mica::Tensor tensor;
};

namespace mica::c {

/// Keeps the reason, and gives the code, of what is being caught.
mica_status keep_error() noexcept;

/// Runs what may throw.
template <class F>
mica_status guarded(F&& f) noexcept {
  try {
    f();
    return MICA_OK;
  } catch (...) {
    return keep_error();
  }
}

template <class T>
T& checked(T* handle, const char* what) {
  check(handle != nullptr, "{} is NULL", what);
  return *handle;
}

inline std::string text_of(const char* text, const char* what) {
  check(text != nullptr, "{} is NULL", what);
  return text;
}
inline const Tensor& tensor_of(const mica_tensor* t, const char* what = "the tensor") {
  return checked(t, what).tensor;
}
inline mica_tensor* handle_of(Tensor t) { return new mica_tensor{std::move(t)}; }

Device device_of(mica_device device);
mica_device device_of(Device device);
DType dtype_of(mica_dtype dtype);
Shape shape_of(const int64_t* shape, int rank);

/// Puts tensors where the caller has room.
void give(const Tensors& tensors, mica_tensor** results, size_t* count);

}  // namespace mica::c
