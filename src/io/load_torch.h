#pragma once

#include "mica/io/file.h"
#include "mica/io/tree.h"

namespace mica::io {

/// What torch.save wrote (io/torch_file.h), with the tensors' values.
Tree load_torch(const File& file);

}  // namespace mica::io
