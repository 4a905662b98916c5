// Many whole lives, of each of which only a digest is kept: noise by seed, a coordinator that ends at each transition.

#include <catch2/catch.hpp>
#include <string>

#include "canonical_text.hpp"
#include "story.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;

namespace {

constexpr int kRounds = 100'000;

std::string trials_of(const TuningState& state) {
  std::string text;
  for (const Trial& trial : state.trials) text += "; " + to_text(trial) + " x" + to_text(trial.ratio.ratio);
  return text;
}

std::string line_of(const std::string& name, const FakeWorld& world, Transcript& transcript) {
  const TuningState& state = world.state();
  const std::string digest = short_hash(transcript.end(state));
  return name + ": " + std::string(to_string(state.phase)) + " step " + std::to_string(state.step) + " launches " +
         std::to_string(world.launches()) + " incumbent " + state.incumbent.hash + trials_of(state) + " #" + digest +
         "\n";
}

void record(FakeWorld& world, Transcript& transcript) {
  world.on_handled = [&](const Handled& handled) { transcript.add(handled, world.tuning()); };
  world.begin();
}

// A life in which the coordinator ends at a transition; empty = there is no such transition.
std::string restarted_at(int transition, const Job& job, bool lose_actions) {
  FakeWorld world(job, {{"initial", 100, 110}, {"best", 70, 80}, {"bad", 60, 75}}, 11, 0.03);
  world.faults.crash = {"bad"};
  Transcript transcript(false);
  record(world, transcript);
  (void)world.run([&] { return world.transitions() >= transition; }, kRounds);
  if (is_final(world.state().phase)) return "";
  world.restart_coordinator(lose_actions);
  REQUIRE(world.run([] { return false; }, kRounds));
  return line_of(std::to_string(transition) + (lose_actions ? " lost" : " done"), world, transcript);
}

std::string restarted_everywhere(const Job& job, int every) {
  std::string text;
  for (int transition = 1;; transition += every) {
    const std::string line = restarted_at(transition, job, transition % 2 == 0);
    if (line.empty()) return text;
    text += line;
  }
}

}  // namespace

TEST_CASE("lives by the seed of their noise", "[transcripts]") {
  std::string text;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    FakeWorld world(training_job(600), {{"initial", 100, 110}, {"better", 94, 80}, {"slower", 103, 85}}, seed, 0.06);
    Transcript transcript(false);
    record(world, transcript);
    REQUIRE(world.run([] { return false; }, kRounds));
    text += line_of("seed " + std::to_string(seed), world, transcript);
  }
  check_golden("lives_by_seed", text);
}

TEST_CASE("lives by the transition at which the coordinator ends", "[transcripts]") {
  check_golden("lives_by_restart", restarted_everywhere(fake_job(), 1));
}

TEST_CASE("lives of restarted jobs by the transition at which the coordinator ends", "[transcripts]") {
  check_golden("lives_by_restart_of_restarted", restarted_everywhere(restarted_job(1500), 4));
}
