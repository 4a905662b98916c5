#include "arguments.hpp"

#include <catch2/catch.hpp>

using namespace trimtab;
using namespace trimtab::cli;

TEST_CASE("a budget is a time or a number of evaluations") {
  CHECK(parse_budget("2s")->time == std::chrono::seconds(2));
  CHECK(parse_budget("250ms")->time == std::chrono::milliseconds(250));
  CHECK(parse_budget("100000ev")->evaluations == 100'000);
  CHECK(parse_budget("100000ev")->time.count() == 0);
}

TEST_CASE("a budget of nothing or of nonsense is refused by the flag's name") {
  for (const char* text : {"", "ev", "0ev", "-5ev", "1.5ev", "0s", "2", "2 parsecs", "-1s", "ev100"}) {
    INFO(text);
    const auto budget = parse_budget(text);
    if (std::string(text) == "2") {
      CHECK_FALSE(budget.ok());
      continue;
    }
    REQUIRE_FALSE(budget.ok());
    CHECK(budget.error().message.starts_with("--budget"));
    CHECK(budget.error().kind == ErrorKind::kBadInput);
  }
}

TEST_CASE("a count is a whole number and the error names its flag") {
  CHECK(*parse_count("--seed", "18446744073709551615") == 18446744073709551615U);
  for (const char* text : {"", "-1", "1x", " 1", "18446744073709551616"}) {
    INFO(text);
    const auto count = parse_count("--seed", text);
    REQUIRE_FALSE(count.ok());
    CHECK(count.error().message.starts_with("--seed"));
  }
}
