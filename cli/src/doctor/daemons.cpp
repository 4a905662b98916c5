#include "doctor/daemons.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <sstream>

#include "base/numbers.hpp"

namespace trimtab::cli {

namespace {

constexpr double kLateLoop = 1.0;
constexpr double kFewPosts = 0.1;
constexpr const char* kSinceStart = " (since the daemon's start)";

void append(std::string& list, const std::string& one) {
  list += (list.empty() ? "" : ", ") + one;
}

// Posts of one result each, and what the failed ones are called.
struct Posts {
  Counter all;
  Counter failed;
  std::string how;
};

Posts posts_of(const Pages& pages) {
  Posts posts;
  for (const MetricSample& one : pages.now) {
    if (one.name != "trimtab_otlp_exports_total") continue;
    const double grown = pages.grown(one);
    posts.all = {posts.all.total + one.value, posts.all.grown + grown};
    const std::string result = label_of(one, "result");
    if (result == "ok" || one.value == 0) continue;
    posts.failed = {posts.failed.total + one.value, posts.failed.grown + grown};
    append(posts.how, result);
  }
  return posts;
}

}  // namespace

std::vector<MetricSample> parse_metric_page(std::string_view text) {
  std::vector<MetricSample> page;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    const std::size_t space = line.rfind(' ');
    if (line.empty() || line[0] == '#' || space == std::string::npos) continue;
    MetricSample sample;
    std::string head = line.substr(0, space);
    if (const std::size_t brace = head.find('{'); brace != std::string::npos && head.back() == '}') {
      sample.labels = head.substr(brace + 1, head.size() - brace - 2);
      head.resize(brace);
    }
    sample.name = head;
    char* end = nullptr;
    sample.value = std::strtod(line.c_str() + space + 1, &end);
    if (end != nullptr && *end == '\0' && end != line.c_str() + space + 1) page.push_back(std::move(sample));
  }
  return page;
}

double sum_of(const std::vector<MetricSample>& page, std::string_view name) {
  double sum = 0;
  for (const MetricSample& sample : page) sum += sample.name == name ? sample.value : 0;
  return sum;
}

std::optional<double> value_of(const std::vector<MetricSample>& page, std::string_view name, std::string_view labels) {
  const auto found =
      std::ranges::find_if(page, [&](const MetricSample& one) { return one.name == name && one.labels == labels; });
  return found == page.end() ? std::nullopt : std::optional(found->value);
}

Counter Pages::counter(std::string_view name) const {
  Counter counter;
  for (const MetricSample& sample : now) {
    if (sample.name == name) counter = {counter.total + sample.value, counter.grown + grown(sample)};
  }
  return counter;
}

Counter Pages::counter(std::string_view name, std::string_view labels) const {
  const auto found = value_of(now, name, labels);
  if (!found) return {};
  return {*found, grown({std::string(name), std::string(labels), *found})};
}

double Pages::grown(const MetricSample& sample) const {
  if (!earlier) return 0;
  const double before = value_of(earlier->page, sample.name, sample.labels).value_or(0);
  // A daemon that was started anew meanwhile counts from 0.
  return sample.value < before ? sample.value : sample.value - before;
}

std::string Pages::where(std::string_view name, const std::string& label, double most, bool only_growing) const {
  std::string text;
  for (const MetricSample& sample : now) {
    const double value = only_growing ? sample.value : std::abs(sample.value);
    if (sample.name == name && value > most && (!only_growing || grown(sample) > 0))
      append(text, label_of(sample, label));
  }
  return text;
}

void Findings::add(bool wrong, const char* what, Health health, const std::string& found, const std::string& remedy) {
  if (wrong) wrong_.push_back({daemon_ + ": " + what, health, found, remedy});
}

void Findings::add_growing(const Counter& counter, const char* what, Health health, const std::string& found,
                           const std::string& remedy) {
  add(counter.grown > 0, what, health, counted(counter.total) + found, remedy);
}

void Findings::add_growing_or_past(const Counter& counter, const char* what, Health health, const std::string& found,
                                   const std::string& remedy) {
  add_growing(counter, what, health, found, remedy);
  add_past(counter, what, counted(counter.total) + found);
}

void Findings::add_ever(const Counter& counter, const char* what, const std::string& found, const std::string& remedy) {
  add(counter.total > 0, what, Health::kWarn, counted(counter.total) + found + since_start(counter), remedy);
}

void Findings::add_past(const Counter& counter, const char* what, const std::string& found) {
  if (counter.total > 0 && counter.grown == 0) {
    past_.push_back({daemon_ + ": " + what, Health::kOk, found + kSinceStart, ""});
  }
}

std::vector<Check> Findings::checks(const std::string& well) && {
  if (wrong_.empty()) wrong_.push_back({daemon_, Health::kOk, well, ""});
  append(wrong_, std::move(past_));
  return std::move(wrong_);
}

std::string label_of(const MetricSample& sample, const std::string& label) {
  const std::string begin = label + "=\"";
  const std::size_t found = sample.labels.find(begin);
  if (found == std::string::npos) return "";
  const std::size_t from = found + begin.size();
  return sample.labels.substr(from, sample.labels.find('"', from) - from);
}

std::string counted(double value) {
  return format_number(value, 0);
}

std::string since_start(const Counter& counter) {
  return counter.grown > 0 ? "" : kSinceStart;
}

// Posts that failed now and then are no finding. Where none has ever come through somebody must see why, whether or not
// one was due between two looks.
void add_posts(const Pages& pages, Findings& findings) {
  constexpr const char* kRemedy = "see otlp_endpoint and its collector; the log says what it answers";
  const Posts posts = posts_of(pages);
  const std::string found =
      counted(posts.failed.total) + " of " + counted(posts.all.total) + " posts of metrics failed: " + posts.how;
  const bool none_came = posts.failed.total > 0 && posts.failed.total == posts.all.total;
  const bool many_fail = posts.failed.grown > kFewPosts * posts.all.grown;
  findings.add(none_came || many_fail, "posts", Health::kWarn, found + since_start(posts.failed), kRemedy);
  if (!none_came && posts.failed.total > kFewPosts * posts.all.total) findings.add_past(posts.failed, "posts", found);
}

void add_loop(double lag_seconds, Findings& findings) {
  findings.add(lag_seconds > kLateLoop, "loop", Health::kWarn, format_number(lag_seconds, 1) + " s late",
               "its disk or its CPU is too slow: see its state directory's device and who shares its cores");
}

}  // namespace trimtab::cli
