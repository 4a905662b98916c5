#include "metrics.hpp"

#include <catch2/catch.hpp>

using namespace trimtab::agent;

TEST_CASE("metrics are Prometheus text, the head of a name once") {
  const auto text = render_metrics({{"a_total", true, "As.", 3, ""},
                                    {"b", false, "Bs.", 0.5, "{rank=\"0\"}"},
                                    {"b", false, "Bs.", 1e12, "{rank=\"1\"}"}});
  CHECK(text ==
        "# HELP a_total As.\n# TYPE a_total counter\na_total 3\n"
        "# HELP b Bs.\n# TYPE b gauge\nb{rank=\"0\"} 0.5\nb{rank=\"1\"} 1000000000000\n");
}

TEST_CASE("a label's value cannot break out of its quotes") {
  CHECK(label_value("a\"b\\c\nd") == "a\\\"b\\\\c\\nd");
}
