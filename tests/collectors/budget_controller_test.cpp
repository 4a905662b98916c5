// When samples are recorded, and the window that they have to fit in.

#include "cupti/budget_controller.hpp"

#include <catch2/catch.hpp>

using namespace trimtab::inject::cupti;

namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;
constexpr std::uint64_t kAny = ~std::uint64_t{0};

}  // namespace

TEST_CASE("the window forgets what is older than ten seconds") {
  CostWindow window;
  window.add(100 * kSecond, 5);
  window.add(105 * kSecond, 7);
  CHECK(window.spent_ns(105 * kSecond) == 12);
  CHECK(window.spent_ns(110 * kSecond) == 12);  // the slice counts whole
  CHECK(window.spent_ns(110 * kSecond + kSecond / 5) == 7);
  CHECK(window.spent_ns(200 * kSecond) == 0);
}

TEST_CASE("what was charged too much is taken back, the latest first") {
  CostWindow window;
  window.add(100 * kSecond, 5);
  window.add(101 * kSecond, 7);
  window.refund(101 * kSecond, 8);
  CHECK(window.spent_ns(101 * kSecond) == 4);
  window.refund(102 * kSecond, 100);
  CHECK(window.spent_ns(102 * kSecond) == 0);
}

TEST_CASE("sampling records whole steps") {
  StepSampler sampler;
  std::uint64_t now = 5 * kSecond;
  CHECK(sampler.update({0.1, kAny, kAny}, now, 100));
  CHECK(sampler.update({0.1, kAny, kAny}, now += kSecond / 5, 101));  // ended, but began before us
  CHECK_FALSE(sampler.update({0.1, kAny, kAny}, now += kSecond / 5, 102));
  // Recorded for 0.4 s, so not for 3.6 s.
  CHECK_FALSE(sampler.update({0.1, kAny, kAny}, now + 36 * kSecond / 10 - 1, 120));
  CHECK(sampler.next_ns() == now + 36 * kSecond / 10);
  CHECK(sampler.update({0.1, kAny, kAny}, now += 36 * kSecond / 10, 120));
}

TEST_CASE("sampling records many short steps") {
  StepSampler sampler;
  CHECK(sampler.update({0.1, kAny, kAny}, kSecond, 100));
  CHECK(sampler.update({0.1, kAny, kAny}, kSecond + 199'000'000, 119));
  CHECK_FALSE(sampler.update({0.1, kAny, kAny}, kSecond + 200'000'000, 120));
}

TEST_CASE("sampling without steps records a part of each cycle") {
  StepSampler sampler;
  std::uint64_t now = 5 * kSecond;
  CHECK(sampler.update({0.125, kAny, kAny}, now, 0));
  CHECK(sampler.update({0.125, kAny, kAny}, now + 249'000'000, 0));
  CHECK_FALSE(sampler.update({0.125, kAny, kAny}, now += 250'000'000, 0));
  CHECK_FALSE(sampler.update({0.125, kAny, kAny}, now + 1'749'000'000, 0));
  CHECK(sampler.update({0.125, kAny, kAny}, now + 1'750'000'000, 0));
}

TEST_CASE("a step that never ends does not keep recording on") {
  StepSampler sampler;
  CHECK(sampler.update({0.5, kAny, kAny}, 1, 7));
  CHECK(sampler.update({0.5, kAny, kAny}, 4 * kSecond, 7));
  CHECK_FALSE(sampler.update({0.5, kAny, kAny}, 5 * kSecond + 1, 7));
}

TEST_CASE("a phase ends when it has used what it was allowed") {
  StepSampler sampler;
  CHECK(sampler.update({0.5, kSecond / 10, kSecond}, 1, 0));
  CHECK(sampler.update({0.5, kSecond / 20, kSecond}, kSecond / 20, 0));
  CHECK_FALSE(sampler.update({0.5, 0, kSecond}, kSecond / 10, 0));
}

TEST_CASE("a phase waits until it may last two steps, where that can be") {
  StepSampler sampler;
  std::uint64_t now = kSecond;
  CHECK(sampler.update({0.1, kSecond, kSecond}, now, 10));
  CHECK_FALSE(sampler.update({0.1, kSecond, kSecond}, now += kSecond / 5, 12));
  // Two steps take 0.2 s.
  CHECK_FALSE(sampler.update({0.1, kSecond / 10, kSecond}, now += 2 * kSecond, 32));
  CHECK(sampler.update({0.1, kSecond / 4, kSecond}, now += kSecond, 42));
  CHECK_FALSE(sampler.update({0.1, kSecond / 4, kSecond}, now += kSecond / 5, 44));
  // Not even an empty window affords them: it takes what it gets.
  CHECK(sampler.update({0.1, kSecond / 10, kSecond / 8}, now += 2 * kSecond, 64));
}
