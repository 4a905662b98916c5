// Steps as graphs: against the recurrences where those hold, against programs that meet, and against a table of the
// interleaved schedule played through event by event.

#include "solvers/step_graph.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <deque>
#include <map>
#include <tuple>

#include "../autopipe/event_simulation.hpp"
#include "base/random.hpp"

namespace trimtab::tuner {
namespace {

std::vector<PipelineStage> random_stages(Random& random, std::int32_t count) {
  std::vector<PipelineStage> stages;
  for (std::int32_t s = 0; s < count; ++s) {
    PipelineStage stage;
    stage.forward = 1 + random.uniform();
    stage.backward = 2 + 2 * random.uniform();
    stage.last_backward = stage.backward * (1 + random.uniform());
    stage.tail = stage.last_backward + random.uniform();
    stage.transfer = s + 1 < count ? random.uniform() * static_cast<double>(random.below(3)) / 2 : 0;
    stages.push_back(stage);
  }
  return stages;
}

double end_of_passes(const StepGraph& graph) {
  double end = 0;
  for (const StepNode& node : graph.nodes) end = std::max(end, node.end);
  return end;
}

TEST_CASE("1F1B and GPipe as a graph run as the recurrences say") {
  const std::uint64_t seed = 20261121;
  INFO("seed " << seed);
  Random random(seed);
  PipelineScratch scratch;
  NoRecord record;
  for (int i = 0; i < 2000; ++i) {
    const auto count = static_cast<std::int32_t>(random.between(1, 7));
    const auto microbatches = static_cast<std::int32_t>(random.between(1, 20));
    const ScheduleKind kind = random.below(2) == 0 ? ScheduleKind::k1F1B : ScheduleKind::kGPipe;
    const std::vector<PipelineStage> stages = random_stages(random, count);
    const StepGraph graph = step_graph(stages, {kind, count, microbatches, false});
    Simulation<NoRecord> simulation(stages.data(), count, microbatches, kind, scratch, record);
    const double* const ends = simulation.run();
    for (std::int32_t s = 0; s < count; ++s) {
      const StepNode& last = graph.nodes[graph.backwards[static_cast<std::size_t>((s + 1) * microbatches - 1)]];
      INFO("case " << i << ", stage " << s << " of " << count << ", " << microbatches << " microbatches");
      REQUIRE(last.end == Approx(ends[s]).epsilon(1e-9));
    }
  }
}

TEST_CASE("transfers that meet take what stages that send and receive in turn take") {
  const std::uint64_t seed = 20261122;
  INFO("seed " << seed);
  Random random(seed);
  for (int i = 0; i < 3000; ++i) {
    const auto count = static_cast<std::int32_t>(random.between(1, 7));
    std::vector<PipelineStage> stages = random_stages(random, count);
    test::StepInput input;
    input.microbatches = static_cast<std::int32_t>(random.between(1, 20));
    for (PipelineStage& stage : stages) {
      stage.last_backward = stage.backward;
      input.forward.push_back(stage.forward);
      input.backward.push_back(stage.backward);
      input.transfer.push_back(stage.transfer);
    }
    input.transfer.pop_back();
    const StepGraph graph = step_graph(stages, {ScheduleKind::k1F1B, count, input.microbatches, true});
    INFO("case " << i << ", " << count << " stages, " << input.microbatches << " microbatches");
    const StepNode& last = graph.nodes[graph.backwards[static_cast<std::size_t>(input.microbatches - 1)]];
    REQUIRE(last.end == Approx(test::EventSimulation(input).run()).epsilon(1e-9));
    const StepGraph eager = step_graph(stages, {ScheduleKind::k1F1B, count, input.microbatches, false});
    REQUIRE(end_of_passes(graph) >= end_of_passes(eager) * (1 - 1e-12));
  }
}

// The interleaved schedule as its paper's figure has it: a table of (stage, microbatch) for each seat, and every pass
// as soon as its seat and its input are free.
class InterleavedTable {
 public:
  InterleavedTable(const std::vector<PipelineStage>& stages, int seats, int microbatches)
      : stages_(stages), seats_(seats), microbatches_(microbatches) {
    const int chunks = static_cast<int>(stages.size()) / seats;
    for (int seat = 0; seat < seats; ++seat) {
      std::deque<std::pair<int, int>> forwards;
      std::deque<std::pair<int, int>> backwards;
      for (int group = 0; group < microbatches; group += seats) {
        for (int chunk = 0; chunk < chunks; ++chunk) {
          for (int k = group; k < group + seats; ++k) {
            forwards.emplace_back(chunk * seats + seat, k);
            backwards.emplace_back((chunks - 1 - chunk) * seats + seat, k);
          }
        }
      }
      const std::size_t ahead = std::min(forwards.size(), static_cast<std::size_t>(2 * (seats - seat - 1)) +
                                                              static_cast<std::size_t>((chunks - 1) * seats));
      std::vector<std::tuple<bool, int, int>>& rows = rows_.emplace_back();
      const auto take = [&rows](bool forward, std::deque<std::pair<int, int>>& from) {
        rows.emplace_back(forward, from.front().first, from.front().second);
        from.pop_front();
      };
      for (std::size_t k = 0; k < ahead; ++k) take(true, forwards);
      while (!backwards.empty()) {
        if (!forwards.empty()) take(true, forwards);
        take(false, backwards);
      }
    }
  }

  double run() {
    std::vector<double> free(static_cast<std::size_t>(seats_), 0.0);
    std::vector<std::size_t> row(static_cast<std::size_t>(seats_), 0);
    double end = 0;
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t seat = 0; seat < rows_.size(); ++seat) {
        if (row[seat] == rows_[seat].size()) continue;
        const auto [forward, stage, k] = rows_[seat][row[seat]];
        const double input = arrival(forward, stage, k);
        if (input < 0) continue;
        const PipelineStage& of = stages_[static_cast<std::size_t>(stage)];
        const double length = forward ? of.forward : k + 1 == microbatches_ ? of.last_backward : of.backward;
        free[seat] = std::max(free[seat], input) + length;
        ended_[{forward, stage, k}] = free[seat];
        end = std::max(end, free[seat]);
        ++row[seat];
        moved = true;
      }
    }
    for (std::size_t seat = 0; seat < rows_.size(); ++seat) REQUIRE(row[seat] == rows_[seat].size());
    return end;
  }

 private:
  // Negative: not there yet.
  double arrival(bool forward, int stage, int k) {
    if (forward && stage == 0) return 0;
    const bool turns = !forward && stage + 1 == static_cast<int>(stages_.size());
    const int from = forward ? stage - 1 : turns ? stage : stage + 1;
    const auto found = ended_.find({forward || turns, from, k});
    if (found == ended_.end()) return -1;
    if (turns) return found->second;
    return found->second + stages_[static_cast<std::size_t>(forward ? stage - 1 : stage)].transfer;
  }

  const std::vector<PipelineStage>& stages_;
  int seats_;
  int microbatches_;
  std::vector<std::vector<std::tuple<bool, int, int>>> rows_;
  std::map<std::tuple<bool, int, int>, double> ended_;
};

TEST_CASE("the interleaved schedule takes what its table takes, event by event") {
  const std::uint64_t seed = 20261123;
  INFO("seed " << seed);
  Random random(seed);
  for (int i = 0; i < 2000; ++i) {
    const auto seats = static_cast<std::int32_t>(random.between(1, 5));
    const auto chunks = static_cast<std::int32_t>(random.between(2, 4));
    const auto microbatches = seats * static_cast<std::int32_t>(random.between(1, 5));
    const std::vector<PipelineStage> stages = random_stages(random, seats * chunks);
    const StepGraph graph = step_graph(stages, {ScheduleKind::kInterleaved, seats, microbatches, false});
    INFO("case " << i << ", " << seats << " seats of " << chunks << ", " << microbatches << " microbatches");
    REQUIRE(end_of_passes(graph) == Approx(InterleavedTable(stages, seats, microbatches).run()).epsilon(1e-9));
    // Each pass begins when what it waited for last has ended.
    for (const StepNode& node : graph.nodes) {
      REQUIRE(node.begin == (node.cause < 0 ? 0.0 : graph.nodes[static_cast<std::size_t>(node.cause)].end));
    }
  }
}

TEST_CASE("interleaving divides the bubble by the stages of a seat, and holds more microbatches") {
  for (const std::int32_t chunks : {2, 4}) {
    const std::int32_t seats = 4;
    const std::int32_t microbatches = 16;
    PipelineStage stage;
    stage.forward = 1;
    stage.backward = stage.last_backward = 2;
    const std::vector<PipelineStage> stages(static_cast<std::size_t>(seats * chunks), stage);
    const StepGraph graph = step_graph(stages, {ScheduleKind::kInterleaved, seats, microbatches, false});
    // Narayanan et al. 2021, section 2.2: (p - 1)(f + b) / v of bubble, where f and b are a microbatch's on a seat.
    CHECK(end_of_passes(graph) == Approx(microbatches * chunks * 3 + (seats - 1) * 3));
    for (std::int32_t seat = 0; seat < seats; ++seat) {
      const std::vector<SeatPass> passes =
          seat_passes(ScheduleKind::kInterleaved, seats * chunks, seats, seat, microbatches);
      const std::vector<double> bytes(static_cast<std::size_t>(seats * chunks), 1.0);
      const std::vector<std::int32_t> held = held_at_once(passes, bytes);
      std::int32_t all = 0;
      for (const std::int32_t one : held) all += one;
      CHECK(all == 2 * (seats - seat - 1) + (chunks - 1) * seats + 1);
    }
  }
}

TEST_CASE("what a seat holds at once is the most of any moment, by bytes") {
  const std::uint64_t seed = 20261124;
  INFO("seed " << seed);
  Random random(seed);
  for (int i = 0; i < 300; ++i) {
    const auto seats = static_cast<std::int32_t>(random.between(1, 4));
    const auto chunks = static_cast<std::int32_t>(random.between(2, 4));
    const auto microbatches = seats * static_cast<std::int32_t>(random.between(1, 4));
    const std::vector<SeatPass> passes =
        seat_passes(ScheduleKind::kInterleaved, seats * chunks, seats, seats - 1, microbatches);
    std::vector<double> bytes;
    for (std::int32_t s = 0; s < seats * chunks; ++s) bytes.push_back(static_cast<double>(random.between(1, 9)));
    const std::vector<std::int32_t> held = held_at_once(passes, bytes);
    double claimed = 0;
    for (std::size_t s = 0; s < bytes.size(); ++s) claimed += held[s] * bytes[s];
    double most = 0;
    for (std::size_t end = 1; end <= passes.size(); ++end) {
      double now = 0;
      for (std::size_t p = 0; p < end; ++p) {
        const double of = bytes[static_cast<std::size_t>(passes[p].stage)];
        now += passes[p].forward ? of : -of;
      }
      most = std::max(most, now);
    }
    REQUIRE(claimed == Approx(most));
  }
}

}  // namespace
}  // namespace trimtab::tuner
