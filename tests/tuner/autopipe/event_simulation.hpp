#pragma once

// A pipeline step as programs of stages that compute, send and receive, run until all have ended: the referee of the
// recurrences, with which it shares nothing. A blocking transfer needs both stages at the very same exchange; programs
// that do not match never end, which fails the test.

#include <catch2/catch.hpp>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

namespace trimtab::tuner::test {

struct StepInput {
  std::vector<double> forward, backward, transfer;
  std::int32_t microbatches = 1;
  bool blocking = true;
  std::int32_t sliced = 0;
  double half_slowdown = 1;

  [[nodiscard]] std::int32_t stages() const { return static_cast<std::int32_t>(forward.size()); }
};

class EventSimulation {
 public:
  explicit EventSimulation(const StepInput& input) : in_(input), free_(input.forward.size(), 0.0) {
    for (std::int32_t x = 0; x < in_.stages(); ++x) programs_.push_back(program(x));
  }

  double run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::int32_t x = 0; x < in_.stages(); ++x) {
        while (step(x)) moved = true;
      }
    }
    for (const auto& program : programs_) REQUIRE(program.empty());
    return free_[0];
  }

 private:
  struct Action {
    double work = 0;  // computing where there is no peer
    std::int32_t peer = -1;
    std::string sends;  // what goes out and comes in, empty for nothing
    std::string receives;
    double length = 0;  // of the transfer
  };
  using Program = std::deque<Action>;

  [[nodiscard]] std::int32_t warmup(std::int32_t x) const { return std::min(in_.microbatches, in_.stages() - 1 - x); }
  [[nodiscard]] bool halves(std::int32_t x, std::int32_t j) const { return j < in_.sliced && j <= warmup(x); }
  [[nodiscard]] bool sent_in_halves(std::int32_t x, std::int32_t j) const { return j < in_.sliced && j < warmup(x); }

  static std::string forward_name(std::int32_t j, int part) {
    return "F" + std::to_string(j) + "." + std::to_string(part);
  }
  static std::string backward_name(std::int32_t j) { return "B" + std::to_string(j); }

  [[nodiscard]] Action from_before(std::int32_t x, const std::string& what, double share) const {
    return {0, x - 1, "", what, in_.transfer[x - 1] * share};
  }
  [[nodiscard]] Action to_after(std::int32_t x, const std::string& what, double share) const {
    return {0, x + 1, what, "", in_.transfer[x] * share};
  }

  void warm_up(std::int32_t x, std::int32_t j, bool sends, Program& program) const {
    const int parts = halves(x, j) ? 2 : 1;
    for (int part = 0; part < parts; ++part) {
      if (x > 0) program.push_back(from_before(x, forward_name(j, part), 1.0 / parts));
      program.push_back({in_.forward[x] * (parts == 2 ? in_.half_slowdown / 2 : 1), -1, "", "", 0});
      if (!sends || x + 1 == in_.stages()) continue;
      REQUIRE(sent_in_halves(x, j) == (parts == 2));
      program.push_back(to_after(x, forward_name(j, part), 1.0 / parts));
    }
  }

  [[nodiscard]] Program program(std::int32_t x) const {
    Program all;
    const std::int32_t ahead = warmup(x);
    const bool last = x + 1 == in_.stages();
    for (std::int32_t j = 0; j < ahead; ++j) warm_up(x, j, true, all);
    if (ahead < in_.microbatches) warm_up(x, ahead, false, all);
    for (std::int32_t j = ahead; j < in_.microbatches; ++j) {
      const std::int32_t y = j - ahead;
      if (j > ahead) all.push_back({in_.forward[x], -1, "", "", 0});
      if (!last) all.push_back({0, x + 1, forward_name(j, 0), backward_name(y), in_.transfer[x]});
      all.push_back({in_.backward[x], -1, "", "", 0});
      const bool more = j + 1 < in_.microbatches;
      if (x > 0) all.push_back({0, x - 1, backward_name(y), more ? forward_name(j + 1, 0) : "", in_.transfer[x - 1]});
    }
    for (std::int32_t y = in_.microbatches - ahead; y < in_.microbatches; ++y) {
      if (!last) all.push_back({0, x + 1, "", backward_name(y), in_.transfer[x]});
      all.push_back({in_.backward[x], -1, "", "", 0});
      if (x > 0) all.push_back({0, x - 1, backward_name(y), "", in_.transfer[x - 1]});
    }
    return all;
  }

  bool step(std::int32_t x) {
    if (programs_[x].empty()) return false;
    Action& next = programs_[x].front();
    if (next.peer < 0) {
      free_[x] += next.work;
      programs_[x].pop_front();
      return true;
    }
    return in_.blocking ? meet(x, next) : pass(x, next);
  }

  bool meet(std::int32_t x, const Action& mine) {
    if (programs_[mine.peer].empty()) return false;
    const Action& theirs = programs_[mine.peer].front();
    if (theirs.peer != x || theirs.sends != mine.receives || theirs.receives != mine.sends) return false;
    REQUIRE(theirs.length == mine.length);
    const double end = std::max(free_[x], free_[mine.peer]) + mine.length;
    free_[x] = free_[mine.peer] = end;
    programs_[mine.peer].pop_front();
    programs_[x].pop_front();
    return true;
  }

  bool pass(std::int32_t x, Action& mine) {
    if (!mine.sends.empty()) {
      arrivals_[{mine.peer, mine.sends}] = free_[x] + mine.length;
      mine.sends.clear();
    }
    if (!mine.receives.empty()) {
      const auto found = arrivals_.find({x, mine.receives});
      if (found == arrivals_.end()) return false;
      free_[x] = std::max(free_[x], found->second);
    }
    programs_[x].pop_front();
    return true;
  }

  const StepInput& in_;
  std::vector<double> free_;
  std::vector<Program> programs_;
  std::map<std::pair<std::int32_t, std::string>, double> arrivals_;
};

}  // namespace trimtab::tuner::test
