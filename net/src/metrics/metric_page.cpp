#include "metrics/metric_page.hpp"

#include <charconv>
#include <limits>

#include "base/check.hpp"

namespace trimtab::net {

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
