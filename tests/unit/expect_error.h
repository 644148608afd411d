#pragma once

#include <gtest/gtest.h>

#include <string>
#include <typeinfo>

#include "mica/core/error.h"

namespace mica {

/// `f` must throw just this type, with `fragment` in the message.
template <class E, class F>
void expect_error(const std::string& fragment, F&& f) {
  try {
    f();
    ADD_FAILURE() << "nothing was thrown; expected '" << fragment << "'";
  } catch (const Error& e) {
    EXPECT_STREQ(typeid(e).name(), typeid(E).name()) << e.what();
    EXPECT_NE(std::string(e.what()).find(fragment), std::string::npos)
        << "expected '" << fragment << "' in: " << e.what();
  }
}

}  // namespace mica
