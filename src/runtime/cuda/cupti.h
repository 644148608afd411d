#pragma once

#include <cupti.h>

#include <string>

namespace mica::cuda {

/// CUPTI's functions. The library is opened when they are first asked for: nobody else pays for it.
struct Cupti {
  std::string missing;  ///< why it cannot be used, in a sentence; empty when it can

  decltype(&cuptiGetVersion) get_version = nullptr;
  decltype(&cuptiGetResultString) get_result_string = nullptr;
  decltype(&cuptiSubscribe) subscribe = nullptr;
  decltype(&cuptiUnsubscribe) unsubscribe = nullptr;
  decltype(&cuptiEnableCallback) enable_callback = nullptr;
  decltype(&cuptiActivityRegisterTimestampCallback) register_timestamp_callback = nullptr;
  decltype(&cuptiActivityRegisterCallbacks) register_callbacks = nullptr;
  decltype(&cuptiActivityEnable) enable = nullptr;
  decltype(&cuptiActivityDisable) disable = nullptr;
  decltype(&cuptiActivityFlushAll) flush_all = nullptr;
  decltype(&cuptiActivityGetNextRecord) get_next_record = nullptr;
  decltype(&cuptiActivityGetNumDroppedRecords) get_dropped = nullptr;
  decltype(&cuptiActivityPushExternalCorrelationId) push_external = nullptr;
  decltype(&cuptiActivityPopExternalCorrelationId) pop_external = nullptr;
  decltype(&cuptiGetGraphNodeId) get_node_id = nullptr;

  static const Cupti& get();

  /// A result in CUPTI's words.
  std::string words(CUptiResult result) const;

 private:
  Cupti();
};

}  // namespace mica::cuda
