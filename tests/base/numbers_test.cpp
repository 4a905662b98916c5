#include "base/numbers.hpp"

#include <catch2/catch.hpp>

using namespace trimtab;

TEST_CASE("numbers read the same on every machine") {
  CHECK(format_ms(0.1234) == "0.12 ms");
  CHECK(format_ms(51.23) == "51.2 ms");
  CHECK(format_ms(374.4) == "374 ms");
  CHECK(format_ms(51234) == "51.2 s");
  CHECK(format_ms(600'000) == "10.0 min");
  CHECK(format_number(1.50) == "1.5");
  CHECK(format_number(100) == "100");
  CHECK(format_fixed(-0.0001, 2) == "0.00");
  CHECK(format_fixed(1e300, 1).size() > 300);
  CHECK(format_percent(0.1234) == "12.3 %");
}
