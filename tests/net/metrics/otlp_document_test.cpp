#include "metrics/otlp_document.hpp"

#include <catch2/catch.hpp>
#include <limits>
#include <nlohmann/json.hpp>

using namespace trimtab;
using namespace trimtab::net;

namespace {

constexpr Nanoseconds kStart{1'700'000'000'000'000'001};
constexpr Nanoseconds kNow{1'700'000'015'000'000'002};
const OtlpResource kResource{"trimtab-agent", "0011223344556677", "0.9", "host7", "n0"};

std::string document(const std::vector<Metric>& metrics) {
  return otlp_document(kResource, render_metrics(metrics), kStart, kNow);
}

// The document's list of metrics, as it stands in the text.
std::string metrics_in(const std::string& document) {
  constexpr std::string_view kKey = R"("metrics":)";
  const auto begin = document.find(kKey) + kKey.size();
  return document.substr(begin, document.size() - begin - std::string_view("}]}]}").size());
}

}  // namespace

TEST_CASE("a gauge is one data point under the resource that posts it") {
  CHECK(document({{"b_bytes", false, "Bs.", 512, ""}}) ==
        R"({"resourceMetrics":[{"resource":{"attributes":[)"
        R"({"key":"service.name","value":{"stringValue":"trimtab-agent"}},)"
        R"({"key":"service.instance.id","value":{"stringValue":"0011223344556677"}},)"
        R"({"key":"service.version","value":{"stringValue":"0.9"}},)"
        R"({"key":"host.name","value":{"stringValue":"host7"}},)"
        R"({"key":"trimtab.node","value":{"stringValue":"n0"}}]},)"
        R"("scopeMetrics":[{"scope":{"name":"trimtab","version":"0.9"},"metrics":[)"
        R"({"name":"b_bytes","description":"Bs.","unit":"By","gauge":{"dataPoints":[)"
        R"({"attributes":[],"timeUnixNano":"1700000015000000002","asDouble":512}]}}]}]}]})");
}

TEST_CASE("a counter is a monotonic cumulative sum since the daemon began") {
  CHECK(metrics_in(document({{"a_total", true, "As.", 3, ""}})) ==
        R"([{"name":"a_total","description":"As.","sum":{"aggregationTemporality":2,"isMonotonic":true,"dataPoints":[)"
        R"({"attributes":[],"startTimeUnixNano":"1700000000000000001","timeUnixNano":"1700000015000000002",)"
        R"("asDouble":3}]}}])");
}

TEST_CASE("labels are attributes, with what their values say, and a job is not taken for Prometheus' own label") {
  const std::string labels = "{job=\"gpt\",name=\"" + label_value("a\"b\\c\nd,e=\"f\"}") + "\"}";
  CHECK(metrics_in(document({{"c", false, "Cs.", 0.5, labels}, {"c", false, "Cs.", 1, "{rank=\"1\"}"}})) ==
        R"([{"name":"c","description":"Cs.","gauge":{"dataPoints":[)"
        R"({"attributes":[{"key":"trimtab.job","value":{"stringValue":"gpt"}},)"
        R"({"key":"name","value":{"stringValue":"a\"b\\c\nd,e=\"f\"}"}}],)"
        R"("timeUnixNano":"1700000015000000002","asDouble":0.5},)"
        R"({"attributes":[{"key":"rank","value":{"stringValue":"1"}}],)"
        R"("timeUnixNano":"1700000015000000002","asDouble":1}]}}])");
}

TEST_CASE("a histogram's cumulative buckets become counts of each bucket, for each set of labels") {
  static constexpr double kBounds[] = {0.5, 2};
  Histogram histogram(kBounds);
  for (const double value : {0.25, 0.5, 1.0, 4.0}) histogram.observe(value);
  std::vector<Metric> metrics;
  histogram.append(metrics, "s_seconds", "Some.", "{rank=\"0\"}");
  Histogram(kBounds).append(metrics, "s_seconds", "Some.");
  CHECK(metrics_in(document(metrics)) ==
        R"([{"name":"s_seconds","description":"Some.","unit":"s","histogram":{"aggregationTemporality":2,)"
        R"("dataPoints":[{"attributes":[{"key":"rank","value":{"stringValue":"0"}}],)"
        R"("startTimeUnixNano":"1700000000000000001","timeUnixNano":"1700000015000000002",)"
        R"("count":"4","sum":5.75,"bucketCounts":["2","1","1"],"explicitBounds":[0.5,2]},)"
        R"({"attributes":[],"startTimeUnixNano":"1700000000000000001","timeUnixNano":"1700000015000000002",)"
        R"("count":"0","sum":0,"bucketCounts":["0","0","0"],"explicitBounds":[0.5,2]}]}}])");
}

TEST_CASE("what JSON has no number for is a word, as protobuf spells it") {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const std::string text = document({{"d", false, "Ds.", std::numeric_limits<double>::quiet_NaN(), ""},
                                     {"d", false, "Ds.", kInfinity, ""},
                                     {"d", false, "Ds.", -kInfinity, ""}});
  const auto points =
      nlohmann::json::parse(text)["/resourceMetrics/0/scopeMetrics/0/metrics/0/gauge/dataPoints"_json_pointer];
  REQUIRE(points.size() == 3);
  CHECK(points[0]["asDouble"] == "NaN");
  CHECK(points[1]["asDouble"] == "Infinity");
  CHECK(points[2]["asDouble"] == "-Infinity");
}

TEST_CASE("a family without samples is left out, and a name that is no UTF-8 does not spoil the document") {
  const std::string page = "# HELP a As.\n# TYPE a gauge\n# HELP b Bs.\n# TYPE b gauge\nb{name=\"\xff\"} 1\n";
  const auto metrics = nlohmann::json::parse(
      otlp_document(kResource, page, kStart, kNow))["/resourceMetrics/0/scopeMetrics/0/metrics"_json_pointer];
  REQUIRE(metrics.size() == 1);
  CHECK(metrics[0]["name"] == "b");
  CHECK(metrics[0]["gauge"]["dataPoints"][0]["attributes"][0]["value"]["stringValue"] == "\xef\xbf\xbd");
}

TEST_CASE("a wall clock that was put back does not begin a series after its end") {
  const std::string text =
      otlp_document(kResource, "# HELP a_total A.\n# TYPE a_total counter\na_total 1\n", kNow, kStart);
  CHECK(text.find(R"("startTimeUnixNano":"1700000000000000001","timeUnixNano":"1700000000000000001")") !=
        std::string::npos);
}

TEST_CASE("a unit is UCUM's by the name's suffix, and counts have none") {
  CHECK(otlp_unit("x_cpu_seconds_total") == "s");
  CHECK(otlp_unit("x_speed_bytes_per_second") == "By/s");
  CHECK(otlp_unit("x_energy_joules_total") == "J");
  CHECK(otlp_unit("x_temperature_celsius") == "Cel");
  CHECK(otlp_unit("x_busy_ratio") == "1");
  CHECK(otlp_unit("x_records_total").empty());
  CHECK(otlp_unit("x_seconds_left").empty());
}

TEST_CASE("a page of metrics is read as it was written") {
  static constexpr double kBounds[] = {0.1};
  Histogram histogram(kBounds);
  histogram.observe(1.0 / 3);
  std::vector<Metric> metrics{{"a_total", true, "All As.", 1e300, "{x=\"\",y=\"z\"}"}};
  histogram.append(metrics, "h_seconds", "H.");
  const std::string page = render_metrics(metrics);
  const auto families = read_metric_page(page);
  REQUIRE(families.size() == 2);
  CHECK(families[0].name == "a_total");
  CHECK(families[0].help == "All As.");
  CHECK(families[0].type == "counter");
  REQUIRE(families[0].samples.size() == 1);
  CHECK(families[0].samples[0].value == 1e300);
  CHECK(families[0].samples[0].labels == decltype(PageSample::labels){{"x", ""}, {"y", "z"}});
  CHECK(families[1].type == "histogram");
  REQUIRE(families[1].samples.size() == 4);
  CHECK(families[1].samples[1].part == "_bucket");
  CHECK(families[1].samples[1].labels == decltype(PageSample::labels){{"le", "+Inf"}});
  CHECK(families[1].samples[2].part == "_sum");
  CHECK(families[1].samples[2].value == 1.0 / 3);
  CHECK(families[1].samples[3].part == "_count");
}
