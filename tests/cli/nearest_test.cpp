#include "arguments.hpp"

#include <catch2/catch.hpp>

using namespace trimtab::cli;

TEST_CASE("the nearest word is offered and a far one is not") {
  const std::vector<std::string> verbs{"search", "evaluate", "status", "up"};
  CHECK(nearest("serach", verbs) == "search");
  CHECK(nearest("eval", verbs) == "evaluate");
  CHECK_FALSE(nearest("banana", verbs).has_value());
  CHECK_FALSE(nearest("xy", verbs).has_value());
  CHECK(did_you_mean("statsu", verbs) == "; did you mean 'status'?");
  CHECK(did_you_mean("banana", verbs).empty());
}
