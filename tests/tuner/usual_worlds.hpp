// How many of a large sample of random worlds every run tries; scripts/test --full tries all.

#pragma once

#include <cstdlib>
#include <string_view>

namespace trimtab::tuner::test {

// TRIMTAB_TEST_LONG=1.
[[nodiscard]] inline bool all_worlds() {
  const char* const value = std::getenv("TRIMTAB_TEST_LONG");  // NOLINT(concurrency-mt-unsafe)
  return value != nullptr && std::string_view(value) == "1";
}

// The first twelfth of a sample's worlds, or all of them. Of what must be met so often among them, the same share.
[[nodiscard]] inline int usual(int worlds) {
  return all_worlds() ? worlds : (worlds + 11) / 12;
}

// The same of samples of some tens or hundreds, whose worlds take long: the first quarter.
[[nodiscard]] inline int usual_few(int worlds) {
  return all_worlds() ? worlds : (worlds + 3) / 4;
}

}  // namespace trimtab::tuner::test
