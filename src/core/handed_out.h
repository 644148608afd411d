#pragma once

#include "mica/core/storage.h"

namespace mica {

// Storages whose memory somebody holds a pointer to: a NumPy or DLPack view, data_as. Whoever has
// it may write at any time, and no version counts that.

/// Marks a storage, for as long as it lives.
void hand_out(const Storage& storage);
bool is_handed_out(const Storage& storage);
/// The end of a storage.
void forget_handed_out(const Storage& storage);

}  // namespace mica
