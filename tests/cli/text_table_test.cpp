#include "terminal_text.hpp"

#include <catch2/catch.hpp>

using namespace trimtab::cli;

TEST_CASE("columns are as wide as their widest cell and numbers stand to the right") {
  TextTable table({"name", ">n"});
  table.add({"a", "1"});
  table.add({"longer", "100"});
  CHECK(table.str() == "name      n\na         1\nlonger  100\n");
}

TEST_CASE("letters beyond ASCII take one column") {
  TextTable table({"x", "y"});
  table.add({"± 1", "b"});
  CHECK(table.str(1) == " x    y\n ± 1  b\n");
  CHECK(display_width("±1") == 2);
}
