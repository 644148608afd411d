#pragma once

#include "mica/op/function.h"
#include "mica/ops/linalg/linalg.h"

namespace mica {

template <>
struct Words<linalg::QrMode> {
  static constexpr std::pair<const char*, linalg::QrMode> all[] = {
      {"reduced", linalg::QrMode::reduced},
      {"complete", linalg::QrMode::complete},
      {"r", linalg::QrMode::r}};
};
template <>
struct Words<linalg::Uplo> {
  static constexpr std::pair<const char*, linalg::Uplo> all[] = {{"L", linalg::Uplo::lower},
                                                                 {"U", linalg::Uplo::upper},
                                                                 {"l", linalg::Uplo::lower},
                                                                 {"u", linalg::Uplo::upper}};
};
template <>
struct Words<linalg::LstsqDriver> {
  static constexpr std::pair<const char*, linalg::LstsqDriver> all[] = {
      {"gels", linalg::LstsqDriver::gels},
      {"gelsy", linalg::LstsqDriver::gelsy},
      {"gelsd", linalg::LstsqDriver::gelsd},
      {"gelss", linalg::LstsqDriver::gelss}};
};
template <>
struct Words<linalg::MatrixNorm> {
  static constexpr std::pair<const char*, linalg::MatrixNorm> all[] = {
      {"fro", linalg::MatrixNorm::fro}, {"nuc", linalg::MatrixNorm::nuc}};
};

}  // namespace mica
