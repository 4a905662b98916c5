#include "text_table.hpp"

#include <catch2/catch.hpp>

#include "numbers.hpp"

using namespace trimtab::cli;

TEST_CASE("columns are as wide as their widest cell and numbers stand to the right") {
  TextTable table({{"name"}, {"n", true}});
  table.add({"a", "1"});
  table.add({"longer", "100"});
  CHECK(table.str() == "name      n\na         1\nlonger  100\n");
}

TEST_CASE("letters beyond ASCII take one column") {
  TextTable table({{"x"}, {"y"}});
  table.add({"± 1", "b"});
  CHECK(table.str(1) == " x    y\n ± 1  b\n");
  CHECK(display_width("±1") == 2);
}

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
