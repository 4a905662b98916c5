#include "metrics/otlp_document.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/check.hpp"

// Written as text: trees of a large coordinator's page, some ten thousand points, would hold up its loop.
namespace trimtab::net {

namespace {

constexpr std::pair<std::string_view, std::string_view> kUnits[] = {{"_bytes_per_second", "By/s"},
                                                                    {"_seconds", "s"},
                                                                    {"_bytes", "By"},
                                                                    {"_hertz", "Hz"},
                                                                    {"_watts", "W"},
                                                                    {"_joules", "J"},
                                                                    {"_celsius", "Cel"},
                                                                    {"_ratio", "1"}};

// 2: AGGREGATION_TEMPORALITY_CUMULATIVE.
constexpr std::string_view kSum = R"("sum":{"aggregationTemporality":2,"isMonotonic":true,"dataPoints":[)";
constexpr std::string_view kHistogram = R"("histogram":{"aggregationTemporality":2,"dataPoints":[)";
constexpr std::string_view kGauge = R"("gauge":{"dataPoints":[)";

std::string json_text(std::string_view text) {
  const auto plain = [](char one) { return one >= ' ' && one <= '~' && one != '"' && one != '\\'; };
  if (std::ranges::all_of(text, plain)) return "\"" + std::string(text) + "\"";
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Protobuf's JSON has words for what JSON's numbers lack.
std::string number(double value) {
  if (std::isfinite(value)) return metric_number(value);
  return std::isnan(value) ? R"("NaN")" : value > 0 ? R"("Infinity")" : R"("-Infinity")";
}

// 64-bit integers are texts.
std::string integer(std::uint64_t value) {
  return "\"" + std::to_string(value) + "\"";
}

// Between the elements of an array.
void separate(std::string& out) {
  if (out.back() != '[') out += ',';
}

void add_attribute(std::string& out, std::string_view key, std::string_view value) {
  separate(out);
  out += R"({"key":)" + json_text(key) + R"(,"value":{"stringValue":)" + json_text(value) + "}}";
}

struct Times {
  std::string start;  // "startTimeUnixNano":...,"timeUnixNano":...
  std::string now;    // "timeUnixNano":...
};

// Begins a data point, whose values come next.
void begin_point(std::string& out, const PageSample& sample, const std::string& times) {
  separate(out);
  out += R"({"attributes":[)";
  for (const auto& [name, value] : sample.labels) {
    if (name != "le") add_attribute(out, name == "job" ? "trimtab.job" : name, value);
  }
  out += "]," + times;
}

void add_numbers(std::string& out, const PageFamily& family, const std::string& times) {
  for (const PageSample& sample : family.samples) {
    begin_point(out, sample, times);
    out += R"(,"asDouble":)" + number(sample.value) + "}";
  }
}

double bound_of(const PageSample& bucket) {
  const auto found = std::ranges::find(bucket.labels, "le", [](const auto& label) { return label.first; });
  TRIMTAB_ASSERT(found != bucket.labels.end(), "a bucket has a bound");
  return read_metric_number(found->second);
}

// Prometheus counts what is at most the bound, OTLP what lies between it and the one before.
struct HistogramPoint {
  std::string counts = "[";
  std::string bounds = "[";
  double below = 0;
  double sum = 0;

  void add_bucket(const PageSample& bucket) {
    separate(counts);
    counts += integer(static_cast<std::uint64_t>(bucket.value - below));
    below = bucket.value;
    const double bound = bound_of(bucket);
    if (!std::isfinite(bound)) return;
    separate(bounds);
    bounds += number(bound);
  }

  void close(std::string& out, const PageSample& count, const Times& times) const {
    begin_point(out, count, times.start);
    out += R"(,"count":)" + integer(static_cast<std::uint64_t>(count.value)) + R"(,"sum":)" + number(sum) +
           R"(,"bucketCounts":)" + counts + R"(],"explicitBounds":)" + bounds + "]}";
  }
};

// Of each set of labels the page has all buckets, then the sum, then the count.
void add_histograms(std::string& out, const PageFamily& family, const Times& times) {
  HistogramPoint open;
  for (const PageSample& sample : family.samples) {
    if (sample.part == "_bucket") {
      open.add_bucket(sample);
    } else if (sample.part == "_sum") {
      open.sum = sample.value;
    } else {
      open.close(out, sample, times);
      open = {};
    }
  }
}

void add_metric(std::string& out, const PageFamily& family, const Times& times) {
  separate(out);
  out += R"({"name":)" + json_text(family.name) + R"(,"description":)" + json_text(family.help) + ",";
  if (const auto unit = otlp_unit(family.name); !unit.empty()) out += R"("unit":)" + json_text(unit) + ",";
  if (family.type == "histogram") {
    out += kHistogram;
    add_histograms(out, family, times);
  } else if (family.type == "counter") {
    out += kSum;
    add_numbers(out, family, times.start);
  } else {
    out += kGauge;
    add_numbers(out, family, times.now);
  }
  out += "]}}";
}

void add_resource(std::string& out, const OtlpResource& resource) {
  out += R"({"attributes":[)";
  add_attribute(out, "service.name", resource.service);
  add_attribute(out, "service.instance.id", resource.instance);
  add_attribute(out, "service.version", resource.version);
  if (!resource.host.empty()) add_attribute(out, "host.name", resource.host);
  if (!resource.node.empty()) add_attribute(out, "trimtab.node", resource.node);
  out += "]}";
}

}  // namespace

std::string_view otlp_unit(std::string_view name) {
  constexpr std::string_view kTotal = "_total";
  if (name.ends_with(kTotal)) name.remove_suffix(kTotal.size());
  const auto* found = std::ranges::find_if(kUnits, [&](const auto& unit) { return name.ends_with(unit.first); });
  return found == std::end(kUnits) ? "" : found->second;
}

std::string otlp_document(const OtlpResource& resource, std::string_view page, Nanoseconds start, Nanoseconds now) {
  const auto nanoseconds = [](Nanoseconds time) { return integer(static_cast<std::uint64_t>(time.count())); };
  Times times;
  times.now = R"("timeUnixNano":)" + nanoseconds(now);
  // The wall clock may have been put back.
  times.start = R"("startTimeUnixNano":)" + nanoseconds(std::min(start, now)) + "," + times.now;
  std::string out = R"({"resourceMetrics":[{"resource":)";
  add_resource(out, resource);
  out += R"(,"scopeMetrics":[{"scope":{"name":"trimtab","version":)" + json_text(resource.version) + R"(},"metrics":[)";
  for (const PageFamily& family : read_metric_page(page)) {
    if (!family.samples.empty()) add_metric(out, family, times);
  }
  return out + "]}]}]}";
}

namespace {

// Up to `end`, which is taken, too.
std::string_view take_until(std::string_view& text, char end) {
  const auto place = text.find(end);
  TRIMTAB_ASSERT(place != std::string_view::npos, "a line of the own page of metrics is whole");
  const std::string_view taken = text.substr(0, place);
  text.remove_prefix(place + 1);
  return taken;
}

// Behind the opening quote; takes the closing one.
std::string take_label_value(std::string_view& text) {
  std::string value;
  while (true) {
    TRIMTAB_ASSERT(!text.empty(), "a label's value ends with a quote");
    const char one = text.front();
    text.remove_prefix(1);
    if (one == '"') return value;
    if (one != '\\') {
      value.push_back(one);
      continue;
    }
    TRIMTAB_ASSERT(!text.empty(), "something follows a backslash");
    value.push_back(text.front() == 'n' ? '\n' : text.front());
    text.remove_prefix(1);
  }
}

// Behind the opening brace; takes the closing one.
std::vector<std::pair<std::string, std::string>> take_labels(std::string_view& text) {
  std::vector<std::pair<std::string, std::string>> labels;
  while (!text.starts_with('}')) {
    std::string name(take_until(text, '='));
    take_until(text, '"');
    labels.emplace_back(std::move(name), take_label_value(text));
    if (text.starts_with(',')) text.remove_prefix(1);
  }
  text.remove_prefix(1);
  return labels;
}

PageSample read_sample(std::string_view line, std::string_view family) {
  TRIMTAB_ASSERT(line.starts_with(family), "a sample stands under its family");
  PageSample sample;
  line.remove_prefix(family.size());
  sample.part = line.substr(0, line.find_first_of("{ "));
  line.remove_prefix(sample.part.size());
  if (line.starts_with('{')) {
    line.remove_prefix(1);
    sample.labels = take_labels(line);
  }
  TRIMTAB_ASSERT(line.starts_with(' '), "a sample has a value");
  sample.value = read_metric_number(line.substr(1));
  return sample;
}

}  // namespace

double read_metric_number(std::string_view text) {
  if (text == "NaN") return std::numeric_limits<double>::quiet_NaN();
  if (text == "+Inf") return std::numeric_limits<double>::infinity();
  if (text == "-Inf") return -std::numeric_limits<double>::infinity();
  double value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  TRIMTAB_ASSERT(failure == std::errc() && end == text.data() + text.size(), "a metric's value is a number");
  return value;
}

std::vector<PageFamily> read_metric_page(std::string_view page) {
  constexpr std::string_view kHelp = "# HELP ";
  constexpr std::string_view kType = "# TYPE ";
  std::vector<PageFamily> families;
  while (!page.empty()) {
    std::string_view line = take_until(page, '\n');
    if (line.starts_with(kHelp)) {
      line.remove_prefix(kHelp.size());
      const std::string_view name = take_until(line, ' ');
      families.push_back({name, line, "", {}});
      continue;
    }
    TRIMTAB_ASSERT(!families.empty(), "a page of metrics begins with a family");
    PageFamily& family = families.back();
    if (line.starts_with(kType)) {
      family.type = line.substr(kType.size() + family.name.size() + 1);
    } else {
      family.samples.push_back(read_sample(line, family.name));
    }
  }
  return families;
}

}  // namespace trimtab::net
