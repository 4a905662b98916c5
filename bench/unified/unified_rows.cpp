#include "unified_rows.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <utility>

namespace trimtab::bench {
namespace {

constexpr double kDigits = 1e-9;
constexpr double kNoticed = 1e-4;  // of a step: what a family of knobs must bring

std::string number(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

std::string pairs(const std::map<std::string, double>& values) {
  std::string text;
  for (const auto& [name, value] : values) text += "," + name + "=" + number(value);
  return text;
}

[[noreturn]] void refuse(const std::string& path, const std::string& line) {
  std::fprintf(stderr, "%s: needs rows of unified_table, found '%s'\n", path.c_str(), line.c_str());
  std::exit(2);
}

double best_of(const std::map<std::string, double>& values) {
  double best = INFINITY;
  for (const auto& [name, value] : values) best = std::min(best, value);
  return best;
}

struct Group {
  int settings = 0, feasible = 0, better = 0, equal = 0, worse = 0, proven = 0;
  int gains = 0;  // of those that are better, where another strategy found a plan at all
  double gain = 0, most_gain = 0, slowest = 0;
  std::vector<double> gap_values;
  std::map<std::string, int> best_single;

  void add(const Comparison& row) {
    ++settings;
    slowest = std::max(slowest, row.seconds);
    const double best = best_of(row.single);
    if (std::isinf(best) && std::isinf(row.ms)) return;
    ++feasible;
    for (const auto& [strategy, ms] : row.single) best_single[strategy] += ms <= best * (1 + kDigits) ? 1 : 0;
    proven += row.proven ? 1 : 0;
    if (row.bound_ms > 0 && !std::isinf(row.ms)) gap_values.push_back(row.ms / row.bound_ms - 1);
    add_gain(best / row.ms - 1);
  }

  void add_gain(double of) {
    if (std::abs(of) <= kDigits) {
      ++equal;
    } else if (of < 0) {
      ++worse;
    } else {
      ++better;
      if (std::isinf(of)) return;
      ++gains;
      gain += of;
      most_gain = std::max(most_gain, of);
    }
  }

  [[nodiscard]] double median_gap() const {
    if (gap_values.empty()) return 0;
    std::vector<double> sorted = gap_values;
    std::sort(sorted.begin(), sorted.end());
    return sorted[sorted.size() / 2];
  }
  [[nodiscard]] double mean_gap() const {
    double sum = 0;
    for (const double value : gap_values) sum += value;
    return gap_values.empty() ? 0 : sum / static_cast<double>(gap_values.size());
  }
};

void print(const std::string& profile, const std::string& cost_model, const Group& group) {
  std::string best;
  for (const auto& [strategy, times] : group.best_single) {
    best += (best.empty() ? "" : ", ") + strategy + " " + std::to_string(times);
  }
  std::printf("| %s | %s | %d | %d | %d | %.2f %% | %.2f %% | %d | %d | %d | %.2f %% | %.2f %% | %.2f | %s |\n",
              profile.c_str(), cost_model.c_str(), group.settings, group.feasible, group.better,
              group.gains > 0 ? 100 * group.gain / group.gains : 0, 100 * group.most_gain, group.equal, group.worse,
              group.proven, 100 * group.median_gap(), 100 * group.mean_gap(), group.slowest, best.c_str());
}

void print_comparisons(const std::vector<Comparison>& rows) {
  std::printf(
      "| profile | cost model | settings | feasible | better | mean gain | most | equal | worse | proven | median gap "
      "| "
      "mean gap | slowest s | best single (times) |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- "
      "| --- | --- | --- |\n");
  std::vector<std::pair<std::string, std::string>> order;
  std::map<std::pair<std::string, std::string>, Group> groups;
  Group all;
  for (const Comparison& row : rows) {
    const std::pair key(row.profile, row.cost_model);
    if (groups.find(key) == groups.end()) order.push_back(key);
    groups[key].add(row);
    all.add(row);
  }
  for (const auto& key : order) print(key.first, key.second, groups[key]);
  all.best_single.clear();
  print("all", "", all);
  for (const Comparison& row : rows) {
    const double best = best_of(row.single);
    if (row.ms <= best * (1 + kDigits) || std::isinf(best)) continue;
    std::printf("\nWorse: %s under %s: unified %.6f ms, the best single strategy %.6f ms.\n", row.setting.c_str(),
                row.cost_model.c_str(), row.ms, best);
  }
}

struct Loss {
  int infeasible = 0, slower = 0, faster = 0;
  double sum = 0, most = 0;
};

void print_ablations(const std::vector<Ablation>& rows) {
  std::map<std::string, Loss> losses;
  int feasible = 0;
  for (const Ablation& row : rows) {
    if (std::isinf(row.ms)) continue;
    ++feasible;
    for (const auto& [family, ms] : row.without) {
      Loss& loss = losses[family];
      if (std::isinf(ms)) {
        ++loss.infeasible;
        continue;
      }
      const double share = ms / row.ms - 1;
      loss.slower += share > kNoticed ? 1 : 0;
      loss.faster += share < -kNoticed ? 1 : 0;
      loss.sum += share;
      loss.most = std::max(loss.most, share);
    }
  }
  std::printf("%d of %zu worlds have a plan that fits.\n\n| without | nothing fits | slower | mean | most | faster |\n",
              feasible, rows.size());
  std::printf("| --- | --- | --- | --- | --- | --- |\n");
  for (const auto& [family, loss] : losses) {
    const int left = feasible - loss.infeasible;
    std::printf("| %s | %d | %d | %.2f %% | %.2f %% | %d |\n", family.c_str(), loss.infeasible, loss.slower,
                left > 0 ? 100 * loss.sum / left : 0, 100 * loss.most, loss.faster);
  }
}

}  // namespace

Rows::Rows(std::string path) : path_(std::move(path)) {
  std::ifstream in(path_);
  for (std::string line; std::getline(in, line);) read(line);
}

void Rows::read(const std::string& line) {
  std::vector<std::string> fields;
  std::istringstream in(line);
  for (std::string field; std::getline(in, field, ',');) fields.push_back(field);
  const auto values = [&](std::size_t from) {
    std::map<std::string, double> of;
    for (std::size_t i = from; i < fields.size(); ++i) {
      const std::size_t equals = fields[i].find('=');
      if (equals == std::string::npos) refuse(path_, line);
      of[fields[i].substr(0, equals)] = std::atof(fields[i].c_str() + equals + 1);
    }
    return of;
  };
  if (fields.size() >= 8 && fields[0] == "compared") {
    comparisons_.push_back({fields[1], fields[2], fields[3], std::atof(fields[4].c_str()), std::atof(fields[5].c_str()),
                            fields[6] == "proven", std::atof(fields[7].c_str()), values(8)});
  } else if (fields.size() >= 3 && fields[0] == "ablated") {
    ablations_.push_back({fields[1], std::atof(fields[2].c_str()), values(3)});
  } else {
    refuse(path_, line);
  }
}

bool Rows::has(const std::string& profile, const std::string& cost_model, const std::string& setting) const {
  return std::any_of(comparisons_.begin(), comparisons_.end(), [&](const Comparison& row) {
    return row.profile == profile && row.cost_model == cost_model && row.setting == setting;
  });
}

bool Rows::has_ablation(const std::string& world) const {
  return std::any_of(ablations_.begin(), ablations_.end(), [&](const Ablation& row) { return row.world == world; });
}

void Rows::append(const std::string& line) const {
  std::ofstream out(path_, std::ios::app);
  out << line << "\n";
  if (out.flush()) return;
  std::fprintf(stderr, "%s: cannot be written\n", path_.c_str());
  std::exit(3);
}

void Rows::add(const Comparison& row) {
  append("compared," + row.profile + "," + row.cost_model + "," + row.setting + "," + number(row.ms) + "," +
         number(row.bound_ms) + "," + (row.proven ? "proven" : "open") + "," + number(row.seconds) + pairs(row.single));
  comparisons_.push_back(row);
}

void Rows::add(const Ablation& row) {
  append("ablated," + row.world + "," + number(row.ms) + pairs(row.without));
  ablations_.push_back(row);
}

void Rows::print() const {
  if (!comparisons_.empty()) print_comparisons(comparisons_);
  if (!comparisons_.empty() && !ablations_.empty()) std::printf("\n");
  if (!ablations_.empty()) print_ablations(ablations_);
}

}  // namespace trimtab::bench
