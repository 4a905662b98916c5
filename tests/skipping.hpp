#pragma once

// For a test case that lacks its data, program or rights: it says so, and is reported as skipped, not as passed. Call
// it in the test case, then return. A case that has checked something all the same stays passed. What a program's cases
// all skip, CTest reports as skipped (catch_main.cpp, layer_test).

#include <iostream>
#include <string>
#include <utility>

namespace trimtab::test {

// Of the test case that runs; empty = it was not skipped.
inline std::string& skip_reason() {
  static std::string reason;
  return reason;
}

inline void skip(std::string reason) {
  skip_reason() = std::move(reason);
}

// For a program that is no test: says why it ends, with the exit code of one that did what it could.
inline int say_skipped() {
  std::cout << "skipped: " << skip_reason() << "\n";
  return 0;
}

}  // namespace trimtab::test
