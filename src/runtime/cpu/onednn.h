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

inline bool has_bf16_products() {
  static const bool has = [] {
    const auto isa = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
    const auto needed = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_bf16);
    return (isa & needed) == needed;
  }();
  return has;
}

}  // namespace mica::onednn
