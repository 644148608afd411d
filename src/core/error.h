#pragma once

#include <stdexcept>
#include <string>

namespace mica {

/// Base of everything the library throws. The message names the op or file, what was expected and
/// what came.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class ShapeError : public Error {
 public:
  using Error::Error;
};

class DTypeError : public Error {
 public:
  using Error::Error;
};

class DeviceError : public Error {
 public:
  using Error::Error;
};

class OutOfMemory : public Error {
 public:
  using Error::Error;
};

class IoError : public Error {
 public:
  using Error::Error;
};

class IndexError : public Error {
 public:
  using Error::Error;
};

/// A call that can never work as written: a missing kernel, a missing gradient, a host read in
/// capture.
class Unsupported : public Error {
 public:
  using Error::Error;
};

}  // namespace mica
