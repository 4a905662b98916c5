// Catch2's main for all unit tests. Catch2 2 cannot skip: a listener names the cases that said so (skipping.hpp), and a
// run of nothing else ends with the code that CTest knows as skipped (layer_test).

#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#include <iostream>

#include "skipping.hpp"

namespace {

constexpr int kSkippedCode = 77;  // SKIP_RETURN_CODE in cmake/Layers.cmake

std::size_t cases_run = 0;
std::size_t cases_skipped = 0;

struct SkipListener : Catch::TestEventListenerBase {
  using TestEventListenerBase::TestEventListenerBase;

  void testCaseStarting(const Catch::TestCaseInfo& info) override {
    TestEventListenerBase::testCaseStarting(info);
    trimtab::test::skip_reason().clear();
  }

  void testCaseEnded(const Catch::TestCaseStats& stats) override {
    ++cases_run;
    const std::string& reason = trimtab::test::skip_reason();
    if (!reason.empty() && stats.totals.assertions.total() == 0) {
      ++cases_skipped;
      std::cout << "skipped: " << stats.testInfo.name << ": " << reason << std::endl;
    }
    TestEventListenerBase::testCaseEnded(stats);
  }
};
CATCH_REGISTER_LISTENER(SkipListener)

}  // namespace

int main(int argc, char** argv) {
  const int code = Catch::Session().run(argc, argv);
  if (cases_skipped > 0) std::cout << cases_skipped << " of " << cases_run << " test cases skipped" << std::endl;
  return code == 0 && cases_run > 0 && cases_skipped == cases_run ? kSkippedCode : code;
}
