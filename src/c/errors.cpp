#include <new>

#include "mica/c/handles.h"
#include "mica/core/version.h"

namespace mica::c {
namespace {

thread_local std::string t_error;

template <class E>
bool is(const std::exception& e) {
  return dynamic_cast<const E*>(&e) != nullptr;
}

mica_status code_of(const std::exception& e) {
  if (is<ShapeError>(e)) return MICA_SHAPE_ERROR;
  if (is<DTypeError>(e)) return MICA_DTYPE_ERROR;
  if (is<DeviceError>(e)) return MICA_DEVICE_ERROR;
  if (is<OutOfMemory>(e) || is<std::bad_alloc>(e)) return MICA_OUT_OF_MEMORY;
  if (is<IoError>(e)) return MICA_IO_ERROR;
  if (is<IndexError>(e)) return MICA_INDEX_ERROR;
  if (is<Unsupported>(e)) return MICA_UNSUPPORTED;
  return MICA_ERROR;
}

}  // namespace

mica_status keep_error() noexcept {
  try {
    throw;
  } catch (const std::exception& e) {
    try {
      t_error = e.what();
    } catch (...) {
      t_error.clear();
    }
    return code_of(e);
  } catch (...) {
    t_error = "unknown";
    return MICA_ERROR;
  }
}

}  // namespace mica::c

extern "C" {

int mica_c_version() { return MICA_C_VERSION; }
const char* mica_library_version() { return mica::version(); }
const char* mica_last_error() { return mica::c::t_error.c_str(); }

const char* mica_status_name(mica_status status) {
  switch (status) {
    case MICA_OK:
      return "ok";
    case MICA_SHAPE_ERROR:
      return "shape error";
    case MICA_DTYPE_ERROR:
      return "dtype error";
    case MICA_DEVICE_ERROR:
      return "device error";
    case MICA_OUT_OF_MEMORY:
      return "out of memory";
    case MICA_IO_ERROR:
      return "io error";
    case MICA_INDEX_ERROR:
      return "index error";
    case MICA_UNSUPPORTED:
      return "unsupported";
    case MICA_ERROR:
      break;
  }
  return "error";
}

}  // extern "C"
