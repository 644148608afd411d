#pragma once

#include <dnnl.hpp>

// What every use of oneDNN needs; included only by files that are built with it.
namespace mica::onednn {

inline const dnnl::engine& engine() {
  static const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

inline dnnl::stream& stream() {
  thread_local dnnl::stream s(engine());
  return s;
}

}  // namespace mica::onednn
