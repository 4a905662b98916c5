#include "net/metric_text.hpp"

#include <catch2/catch.hpp>
#include <limits>

using namespace trimtab::net;

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

TEST_CASE("a number of a metric loses nothing") {
  CHECK(metric_number(123456789) == "123456789");
  CHECK(metric_number(0.1) == "0.1");
  CHECK(metric_number(-2) == "-2");
  CHECK(std::stod(metric_number(1.0 / 3)) == 1.0 / 3);
  CHECK(std::stod(metric_number(1e300)) == 1e300);
  CHECK(metric_number(std::numeric_limits<double>::infinity()) == "+Inf");
  CHECK(metric_number(std::numeric_limits<double>::quiet_NaN()) == "NaN");
}

TEST_CASE("a histogram counts what is at most each bound, and everything") {
  static constexpr double kBounds[] = {0.5, 2};
  Histogram histogram(kBounds);
  for (const double value : {0.25, 0.5, 1.0, 4.0, std::numeric_limits<double>::quiet_NaN()}) histogram.observe(value);
  CHECK(histogram.count() == 4);
  std::vector<Metric> metrics;
  histogram.append(metrics, "s_seconds", "Some.", "{job=\"a\"}");
  Histogram(kBounds).append(metrics, "s_seconds", "Some.");
  CHECK(render_metrics(metrics) ==
        "# HELP s_seconds Some.\n# TYPE s_seconds histogram\n"
        "s_seconds_bucket{job=\"a\",le=\"0.5\"} 2\ns_seconds_bucket{job=\"a\",le=\"2\"} 3\n"
        "s_seconds_bucket{job=\"a\",le=\"+Inf\"} 4\ns_seconds_sum{job=\"a\"} 5.75\ns_seconds_count{job=\"a\"} 4\n"
        "s_seconds_bucket{le=\"0.5\"} 0\ns_seconds_bucket{le=\"2\"} 0\ns_seconds_bucket{le=\"+Inf\"} 0\n"
        "s_seconds_sum 0\ns_seconds_count 0\n");
}
