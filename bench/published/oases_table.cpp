// Oases' published settings and random chains: the exact planner beside the integer program (CBC, where the program
// `cbc` is there) and beside what the published planner deploys; what each part of the overlapped schedule gains.
// Usage: oases_table > bench/results/oases.md

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include "../../tests/tuner/oases/cbc.hpp"
#include "../../tests/tuner/oases/chains.hpp"
#include "../../tests/tuner/oases/published.hpp"
#include "../thread_seconds.hpp"
#include "papers/oases/tables.hpp"

using namespace trimtab;                // NOLINT
using namespace trimtab::tuner;         // NOLINT
using namespace trimtab::tuner::oases;  // NOLINT

namespace {

// "36 x tp 2, 12 x tp 1": runs of operators.
std::string text_of(const Chain& chain, const Choice& choice) {
  std::string text;
  for (std::size_t n = 0, run = 0; n < choice.size(); ++n) {
    ++run;
    if (n + 1 < choice.size() && choice[n + 1] == choice[n]) continue;
    text += (text.empty() ? "" : ", ") + std::to_string(run) + " x tp " + std::to_string(chain.degrees[choice[n]]);
    run = 0;
  }
  return text;
}

constexpr int kRepeats = 201;

struct Timed {
  ChainAnswer answer;
  double median_us = 0, most_us = 0;  // of the thread, tables of terms included
};

Timed timed(const Chain& chain, Objective objective, std::int32_t most = 0) {
  Timed result;
  std::vector<double> seconds;
  for (int i = 0; i < kRepeats; ++i) {
    const double begin = bench::thread_seconds();
    result.answer = test::solve(chain, objective, most);
    seconds.push_back(bench::thread_seconds() - begin);
  }
  std::sort(seconds.begin(), seconds.end());
  result.median_us = seconds[seconds.size() / 2] * 1e6;
  result.most_us = seconds.back() * 1e6;
  return result;
}

// "-" where cbc is not here.
std::string cbc_text(const Chain& chain, Objective objective, double ours) {
  if (!test::cbc_is_there()) return "- | -";
  const auto answer = test::solve_with_cbc(chain, objective);
  if (!answer || !answer->found) return "none | -";
  const double referee = step_ms(chain, answer->choice, objective);
  char text[64];
  std::snprintf(text, sizeof text, "%s | %.0f", std::fabs(referee / ours - 1) < 1e-9 ? "same" : "OTHER",
                answer->seconds * 1e3);
  return text;
}

void planner_row(const test::Setting& setting, OasesVariant variant) {
  const auto model = test::cost_model(setting, variant);
  const char* const name = variant == OasesVariant::kPaper ? "paper" : "published";
  if (!model) {
    std::printf("| %s | %d | %s | no degree is priced | | | | | | | |\n", setting.name.c_str(), setting.devices, name);
    return;
  }
  const Chain& chain = model->tables().chain;
  const Objective objective = model->tables().variant;
  const Timed any = timed(chain, objective);
  if (!any.answer.found) {
    std::printf("| %s | %d | %s | nothing fits: at least %.2f of %.2f GB | | 0 | %.1f | %.1f | | %s |\n",
                setting.name.c_str(), setting.devices, name, any.answer.memory / 1e9, chain.limit / 1e9, any.median_us,
                any.most_us, cbc_text(chain, objective, 0).c_str());
    return;
  }
  const Timed two = timed(chain, objective, 2);
  std::printf("| %s | %d | %s | %s | %.2f | %llu | %.1f | %.1f | %.2f | %s |\n", setting.name.c_str(), setting.devices,
              name, text_of(chain, any.answer.choice).c_str(), any.answer.cost,
              static_cast<unsigned long long>(any.answer.labels), any.median_us, any.most_us, two.answer.cost,
              cbc_text(chain, objective, any.answer.cost).c_str());
}

void deployed_row(const test::Setting& setting) {
  const auto model = test::cost_model(setting, OasesVariant::kPaper);
  if (!model) return;
  const Chain& chain = model->tables().chain;
  const ChainAnswer coded = test::solve(chain, Objective::kPublished);
  const ChainAnswer ours = test::solve(chain, Objective::kPaper);
  if (!ours.found) return;
  const Choice run = test::deployed(chain, coded.choice);
  const double memory = memory_bytes(chain, run);
  const double program = step_ms(chain, coded.choice, Objective::kPaper);
  const double runs = step_ms(chain, run, Objective::kPaper);
  std::printf("| %s | %d | %s | %.2f | %s | %.2f | %.2f%s | %s | %.2f | %+.2f %% |\n", setting.name.c_str(),
              setting.devices, text_of(chain, coded.choice).c_str(), program, text_of(chain, run).c_str(), runs,
              memory / 1e9, memory > chain.limit ? " over" : "", text_of(chain, ours.choice).c_str(), ours.cost,
              std::max(0.0, 100 * (runs / ours.cost - 1)));
}

double scheduled(const Chain& chain, const Choice& choice, const SubBatchSchedule& schedule, std::int32_t sub_batches) {
  std::vector<Block> blocks = blocks_of(chain, choice);
  for (std::size_t n = 0; n < blocks.size(); ++n) blocks[n].begins_unit = n % 2 == 0;
  std::vector<Round> rounds;
  double ms = 0;
  for (const bool backward : {false, true}) {
    if (backward) {
      backward_rounds(blocks, schedule, rounds);
    } else {
      forward_rounds(blocks, rounds);
    }
    for (Round& round : rounds) {
      if (sub_batches > 1) continue;
      round.computation *= 2;
      round.communication *= 2;
    }
    const StreamActions built = stream_actions(rounds, sub_batches);
    std::vector<StreamSpan> spans(built.actions.size());
    ms += run_two_streams(built.actions, chain.slowdown, spans);
  }
  return ms;
}

void schedule_row(const test::Setting& setting) {
  const auto model = test::cost_model(setting, OasesVariant::kPaper);
  if (!model) return;
  const Chain& chain = model->tables().chain;
  const ChainAnswer ours = test::solve(chain, Objective::kPaper);
  if (!ours.found) return;
  const double blocked = scheduled(chain, ours.choice, {false, false}, 1);
  const double halves = scheduled(chain, ours.choice, {false, false}, 2);
  const double crossing = scheduled(chain, ours.choice, {true, false}, 2);
  const double all = scheduled(chain, ours.choice, {true, true}, 2);
  std::printf("| %s | %d | %.2f | %.2f (%.2fx) | %.2f (%.2fx) | %.2f (%.2fx) |\n", setting.name.c_str(),
              setting.devices, blocked, halves, blocked / halves, crossing, blocked / crossing, all, blocked / all);
}

struct Spread {
  double sum = 0, most = 0;
  int count = 0;
  void add(double value) {
    sum += value;
    most = std::max(most, value);
    ++count;
  }
  [[nodiscard]] double mean() const { return count > 0 ? sum / count : 0; }
};

void random_row(std::int32_t nodes, std::int32_t degrees, bool uneven) {
  constexpr std::uint64_t kSeed = 4242;
  constexpr int kChains = 200;
  Spread time, labels, program, runs;
  int over = 0;
  for (std::uint64_t seed = kSeed; seed < kSeed + kChains; ++seed) {
    Random random(seed);
    const Chain chain = test::random_chain(random, {nodes, degrees, false, uneven});
    const double begin = bench::thread_seconds();
    const ChainAnswer ours = test::solve(chain, Objective::kPaper);
    const double seconds = bench::thread_seconds() - begin;
    if (!ours.found) continue;
    time.add(seconds * 1e6);
    labels.add(static_cast<double>(ours.labels));
    const ChainAnswer coded = test::solve(chain, Objective::kPublished);
    program.add(100 * (step_ms(chain, coded.choice, Objective::kPaper) / ours.cost - 1));
    const Choice run = test::deployed(chain, coded.choice);
    if (memory_bytes(chain, run) > chain.limit) {
      ++over;
    } else {
      runs.add(100 * (step_ms(chain, run, Objective::kPaper) / ours.cost - 1));
    }
  }
  std::printf("| %d x %d, %s | %d | %.0f / %.0f | %.0f / %.0f | %.2f / %.2f %% | %.2f / %.2f %% | %d |\n", nodes,
              degrees, uneven ? "uneven" : "layers", time.count, time.mean(), time.most, labels.mean(), labels.most,
              program.mean(), program.most, runs.mean(), runs.most, over);
}

}  // namespace

int main() {
  std::printf(
      "# Oases' planner\n\nMade by `build/release/bin/oases_table > bench/results/oases.md`. The profile is the "
      "published "
      "one (32 RTX 3090,\n`tests/tuner/oases`), every step time is a model's, in ms. Microseconds are of the thread, "
      "terms included, median and\nmost of %d solves; CBC's milliseconds are of its whole process.\n\n"
      "## Exact planner and integer program\n\n"
      "| setting | GPUs | model | plan (operators x degree) | ms | labels | us | most us | ms, 2 degrees in a row | "
      "CBC "
      "finds | CBC ms |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n",
      kRepeats);
  for (const test::Setting& setting : test::settings()) {
    for (const OasesVariant variant : {OasesVariant::kPaper, OasesVariant::kPublished}) planner_row(setting, variant);
  }
  std::printf(
      "\n## What the published planner runs of its answer, by equations (3) to (5)\n\n"
      "It keeps the two degrees that most operators have, the smaller on whole layers in front, and does not check the "
      "memory again.\n\n"
      "| setting | GPUs | its program's plan | ms | what it runs | ms | GB | ours | ms | it takes more |\n"
      "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n");
  for (const test::Setting& setting : test::settings()) deployed_row(setting);
  std::printf(
      "\n## What the schedule gains, our plan under each\n\n"
      "One batch, nothing overlapped; two sub-batches with recompute of whole layers in passes of its own; across "
      "passes; with\nrecompute begun after communications too. Sub-batches are taken to compute at half a batch's "
      "measured speed throughout.\n\n"
      "| setting | GPUs | blocked ms | sub-batches | + cross-pass | + after communication |\n"
      "| --- | --- | --- | --- | --- | --- |\n");
  for (const test::Setting& setting : test::settings()) schedule_row(setting);
  std::printf(
      "\n## Random chains (seeds 4242 to 4441), mean / most\n\n"
      "The published program's plan and what is run of it, above the optimum of equations (3) to (6).\n\n"
      "| nodes x degrees | that fit | us | labels | program | run | run is over memory |\n"
      "| --- | --- | --- | --- | --- | --- | --- |\n");
  for (const bool uneven : {false, true}) {
    random_row(24, 4, uneven);
    random_row(48, 5, uneven);
    random_row(192, 6, uneven);
  }
  return 0;
}
