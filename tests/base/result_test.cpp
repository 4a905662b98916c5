#include "base/result.hpp"

#include <memory>
#include <string>

#include <catch2/catch.hpp>

using namespace trimtab;

namespace {

Result<int> half(int value) {
  if (value % 2 != 0) return bad_input("expected an even number, found " + std::to_string(value));
  return value / 2;
}

Result<int> quarter(int value) {
  TRIMTAB_TRY(const int first, half(value));
  TRIMTAB_TRY(const int second, half(first));
  return second;
}

Status check_even(int value) {
  TRIMTAB_TRY(const int ignored, half(value));
  return ignored < 0 ? Status(no("negative")) : Status();
}

Result<std::string> described(int value) {
  TRIMTAB_TRY_STATUS(check_even(value));
  return std::string("even");
}

}  // namespace

TEST_CASE("a failure passes through the functions that try it") {
  CHECK(*quarter(12) == 3);
  REQUIRE_FALSE(quarter(6).ok());
  CHECK(quarter(6).error().message == "expected an even number, found 3");
  CHECK(quarter(6).error().kind == ErrorKind::kBadInput);
}

TEST_CASE("a failed status becomes the failure of a result") {
  CHECK(*described(2) == "even");
  CHECK(described(1).error().message == "expected an even number, found 1");
  CHECK_FALSE(check_even(-2).ok());
}

TEST_CASE("wrapping keeps the kind and the cause of a failure") {
  const Error error = wrap("couldn't open the spool", unavailable("the disk is full"));
  CHECK(error.kind == ErrorKind::kUnavailable);
  CHECK(error.message == "couldn't open the spool: the disk is full");
}

TEST_CASE("kinds of failure are the documented exit codes") {
  CHECK(exit_code(ErrorKind::kNo) == 1);
  CHECK(exit_code(ErrorKind::kBadInput) == 2);
  CHECK(exit_code(ErrorKind::kUnavailable) == 3);
}

TEST_CASE("a result can hold what cannot be copied") {
  Result<std::unique_ptr<int>> result(std::make_unique<int>(5));
  const std::unique_ptr<int> value = std::move(result).value();
  CHECK(*value == 5);
}

TEST_CASE("a result of an error value still tells value from failure") {
  const Result<std::string> value(std::string("text"));
  const Result<std::string> failure(no("text"));
  CHECK(value.ok());
  CHECK_FALSE(failure.ok());
}
