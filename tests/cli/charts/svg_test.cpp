#include "charts/svg.hpp"

#include <catch2/catch.hpp>

using namespace trimtab::cli;

TEST_CASE("markup in a text stays text") {
  CHECK(escape("<script>&\"'") == "&lt;script&gt;&amp;&quot;&#39;");
  CHECK(escape(std::string("a\x01\x1b") + "b") ==
        "a\xEF\xBF\xBD\xEF\xBF\xBD"
        "b");
  Svg svg(10, 10, "<t>", "\"d\"");
  svg.rectangle(0, 0, 1, 1, "a\" onload=\"x", "<b>");
  const std::string text = svg.str();
  CHECK(text.find("<t>") == std::string::npos);
  CHECK(text.find("onload=\"x\"") == std::string::npos);
  CHECK(text.find("<b>") == std::string::npos);
}

TEST_CASE("a drawing carries a title and a description for screen readers") {
  const std::string text = Svg(10, 20, "Title", "What it shows").str();
  CHECK(text.find("role=\"img\"") != std::string::npos);
  CHECK(text.find(">Title</title>") != std::string::npos);
  CHECK(text.find(">What it shows</desc>") != std::string::npos);
}

TEST_CASE("ticks are round, inside the range and not many") {
  CHECK(ticks(0, 100, 5) == std::vector<double>{0, 20, 40, 60, 80, 100});
  CHECK(ticks(0.93, 1.17, 5).front() >= 0.93);
  CHECK(ticks(0.93, 1.17, 5).back() <= 1.17);
  CHECK(ticks(5, 5, 5) == std::vector<double>{5});
  for (const double high : {1e-9, 0.3, 7.0, 12345.0, 1e12}) {
    INFO(high);
    const auto values = ticks(0, high, 8);
    CHECK(values.size() >= 4);
    CHECK(values.size() <= 11);
  }
}

TEST_CASE("a tick's label has the decimals that tell it from its neighbours") {
  CHECK(tick_label(0.25, 0.05) == "0.25");
  CHECK(tick_label(200, 50) == "200");
  CHECK(tick_label(0.3, 0.1) == "0.3");
}
