#include "card/rows.hpp"

#include <algorithm>
#include <limits>

namespace trimtab::coordinator {

namespace {

constexpr double kLeastOwnMs = 1e-3;

Cell& operator+=(Cell& sum, const Cell& one) {
  for (double Cell::*member :
       {&Cell::wall, &Cell::data, &Cell::communication, &Cell::forward, &Cell::passes, &Cell::recompute,
        &Cell::optimizer, &Cell::own, &Cell::stolen, &Cell::idle, &Cell::copies}) {
    sum.*member += one.*member;
  }
  return sum;
}

Cell cell_of(const KeptStep& step) {
  Cell cell;
  cell.wall = step.wall;
  cell.data = step.data;
  cell.communication = step.communication;
  cell.forward = step.forward;
  cell.passes = step.forward + step.backward;
  cell.recompute = step.recompute;
  cell.optimizer = step.optimizer;
  cell.own = std::max(cell.wall - cell.data - cell.communication, kLeastOwnMs);
  cell.stolen = std::max(step.stolen, 0.0F);
  return cell;
}

Cell cell_of(const DeviceLook& look) {
  Cell cell;
  cell.wall = look.step_ms;
  cell.communication = look.step_ms * look.exposed_communication;
  cell.passes = look.step_ms * look.computation;
  cell.own = std::max(cell.passes, kLeastOwnMs);
  cell.idle = look.step_ms * look.idle;
  cell.copies = look.step_ms * look.exposed_copy;
  return cell;
}

// The place of the first step of this number or a later one.
std::size_t find(const std::deque<KeptStep>& steps, std::size_t from, std::int64_t number) {
  while (from < steps.size() && steps[from].step < number) ++from;
  return from;
}

std::size_t least_of(const JobEvidence& job) {
  return job.traced ? 1 : kLeastRows;
}

std::size_t usual_count(const std::map<std::int32_t, RankEvidence>& ranks) {
  std::vector<double> counts;
  for (const auto& [number, rank] : ranks) {
    if (!rank.steps.all().empty()) counts.push_back(static_cast<double>(rank.steps.all().size()));
  }
  return counts.empty() ? 0 : static_cast<std::size_t>(median_of(counts));
}

}  // namespace

Rows Rows::of_steps(const JobEvidence& job) {
  const std::map<std::int32_t, RankEvidence>& ranks = job.ranks;
  Rows rows;
  rows.least_ = least_of(job);
  std::vector<const std::deque<KeptStep>*> lists;
  const std::size_t usual = usual_count(ranks);
  for (const auto& [number, rank] : ranks) {
    const std::deque<KeptStep>& steps = rank.steps.all();
    if (steps.empty() || steps.size() * 2 < usual || !steps.back().has_parts) continue;
    rows.ranks_.push_back(number);
    lists.push_back(&steps);
  }
  if (lists.empty()) return rows;
  std::vector<std::size_t> places(lists.size(), 0);
  bool all_told = true;
  for (const KeptStep& first : *lists.front()) {
    std::vector<Cell> row;
    for (std::size_t i = 0; i < lists.size(); ++i) {
      places[i] = find(*lists[i], places[i], first.step);
      if (places[i] == lists[i]->size()) break;
      const KeptStep& step = (*lists[i])[places[i]];
      if (step.step != first.step || !step.has_parts) break;
      row.push_back(cell_of(step));
      all_told = all_told && step.stolen >= 0;
    }
    if (row.size() < lists.size()) continue;
    rows.add(row);
  }
  if (all_told) rows.take_stolen_out();
  return rows;
}

Rows Rows::of_devices(const JobEvidence& job) {
  const std::map<std::int32_t, RankEvidence>& ranks = job.ranks;
  Rows rows;
  rows.least_ = least_of(job);
  std::size_t looks = std::numeric_limits<std::size_t>::max();
  for (const auto& [number, rank] : ranks) {
    if (rank.looks.empty()) continue;
    rows.ranks_.push_back(number);
    looks = std::min(looks, rank.looks.size());
  }
  if (rows.ranks_.empty()) return rows;
  for (std::size_t i = looks; i > 0; --i) {
    std::vector<Cell> row;
    for (const std::int32_t number : rows.ranks_) {
      const std::deque<DeviceLook>& all = ranks.at(number).looks;
      row.push_back(cell_of(all[all.size() - i]));
    }
    rows.add(row);
  }
  return rows;
}

Rows Rows::of_places(const std::vector<std::size_t>& places) const {
  Rows rows;
  rows.undisturbed_ = undisturbed_;
  rows.least_ = least_;
  for (const std::size_t place : places) rows.ranks_.push_back(ranks_.at(place));
  for (std::size_t row = 0; row < count(); ++row) {
    for (const std::size_t place : places) rows.cells_.push_back(at(row, place));
  }
  return rows;
}

Rows Rows::merged() const {
  constexpr std::size_t kLeft = 20;
  const std::size_t by = std::max<std::size_t>(1, count() / kLeft);
  Rows rows;
  rows.ranks_ = ranks_;
  rows.undisturbed_ = undisturbed_;
  rows.least_ = least_;
  for (std::size_t first = 0; first + by <= count(); first += by) {
    std::vector<Cell> sums(ranks_.size());
    for (std::size_t row = first; row < first + by; ++row) {
      for (std::size_t place = 0; place < ranks_.size(); ++place) sums[place] += at(row, place);
    }
    rows.add(sums);
  }
  return rows;
}

void Rows::add(const std::vector<Cell>& row) {
  cells_.insert(cells_.end(), row.begin(), row.end());
}

void Rows::take_stolen_out() {
  undisturbed_ = true;
  for (Cell& cell : cells_) cell.own = std::max(cell.own - cell.stolen, kLeastOwnMs);
}

double Rows::largest(std::size_t row, double Cell::*member) const {
  double value = at(row, 0).*member;
  for (std::size_t i = 1; i < ranks_.size(); ++i) value = std::max(value, at(row, i).*member);
  return value;
}

double Rows::least(std::size_t row, double Cell::*member) const {
  double value = at(row, 0).*member;
  for (std::size_t i = 1; i < ranks_.size(); ++i) value = std::min(value, at(row, i).*member);
  return value;
}

double Rows::mean(std::size_t row, double Cell::*member) const {
  double sum = 0;
  for (std::size_t i = 0; i < ranks_.size(); ++i) sum += at(row, i).*member;
  return sum / static_cast<double>(ranks_.size());
}

std::vector<double> Rows::series(const std::function<double(std::size_t row)>& value) const {
  std::vector<double> all;
  for (std::size_t row = 0; row < count(); ++row) all.push_back(value(row));
  return all;
}

}  // namespace trimtab::coordinator
