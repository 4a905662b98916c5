// AutoPipe's planner on chains like a GPT's: time, what each of its steps reaches, and the gap; then what slicing
// gains. Prints bench/results/autopipe.txt.

#include <cstdio>
#include <string>

#include "../../tests/tuner/autopipe/block_chains.hpp"
#include "../thread_seconds.hpp"
#include "solvers/autopipe/partition.hpp"
#include "solvers/autopipe/planner.hpp"

namespace {

using namespace trimtab;
using namespace trimtab::tuner;

constexpr std::uint64_t kSeed = 5901;

struct Row {
  std::int32_t layers, stages, rounds;  // microbatches = rounds x stages
  double transfer;
  Transfers transfers;
  double memory;  // of what an even pipeline needs; 0 = unlimited
};

// What the paper's search answers where it takes m for twice the stages.
autopipe::Ends ends_at_published_m(autopipe::Blocks blocks) {
  const std::int32_t microbatches = blocks.microbatches;
  blocks.microbatches = 2 * blocks.stages;
  if (microbatches != blocks.microbatches) blocks.reach.clear();
  const autopipe::Partitions partitions(blocks);
  autopipe::Simulator simulator(partitions);
  return shift_master(partitions, autopipe::Balanced(partitions), simulator, autopipe::PlannerOptions{}.effort).ends;
}

void print_plan(const Row& row) {
  Random random(kSeed + static_cast<std::uint64_t>(row.layers * 100 + row.stages));
  autopipe::Blocks blocks = test::gpt_blocks(random, row.layers, 0.1, row.transfer);
  blocks.stages = row.stages;
  blocks.microbatches = row.rounds * row.stages;
  blocks.transfers = row.transfers;
  if (row.memory > 0) test::limit_memory(random, row.memory, blocks);
  const double begin = bench::thread_seconds();
  const autopipe::Partitions partitions(blocks);
  const autopipe::PartitionPlan plan = plan_partition(partitions);
  const double seconds = bench::thread_seconds() - begin;
  if (plan.best.time == autopipe::kNever) {
    std::printf("%6d %6d %5d %6.0f %8s %6.2f   nothing fits\n", blocks.count(), row.stages, blocks.microbatches,
                row.transfer, row.transfers == Transfers::kEager ? "eager" : "blocking", row.memory);
    return;
  }
  const double published = autopipe::Simulator(partitions).time(ends_at_published_m(blocks));
  const auto above = [&](double time) { return 100 * (time / plan.best.time - 1); };
  std::printf("%6d %6d %5d %6.0f %8s %6.2f %9.2f %9.2f %9.2f %10.3f %8.3f %8.1f\n", blocks.count(), row.stages,
              blocks.microbatches, row.transfer, row.transfers == Transfers::kEager ? "eager" : "blocking", row.memory,
              above(plan.balanced.time), above(plan.shifted.time), above(published), plan.best.time / 1000,
              100 * (1 - plan.lower_bound / plan.best.time), seconds * 1000);
}

void print_slicing(std::int32_t stages, std::int32_t rounds, double transfer, double slowdown, Transfers transfers) {
  Random random(kSeed + static_cast<std::uint64_t>(stages));
  autopipe::Blocks blocks = test::gpt_blocks(random, 6 * stages, 0.1, transfer);
  blocks.stages = stages;
  blocks.microbatches = rounds * stages;
  blocks.transfers = transfers;
  const autopipe::Partitions partitions(blocks);
  const autopipe::PartitionPlan plan = plan_partition(partitions);
  autopipe::StagePipeline pipeline(partitions, plan.best.ends);
  autopipe::Pipeline view = pipeline.view();
  view.half_slowdown = slowdown;
  autopipe::PipelineTimes scratch;
  const autopipe::SlicingGain gain = best_slicing(view, scratch);
  view.sliced = algorithm_2(view);
  const double of_algorithm_2 = step_time(view, scratch);
  std::printf("%6d %5d %6.0f %8s %6.2f %7d %9.2f %12d %9.2f\n", stages, blocks.microbatches, transfer,
              transfers == Transfers::kEager ? "eager" : "blocking", slowdown, gain.sliced,
              100 * (1 - gain.best / gain.plain), view.sliced, 100 * (1 - of_algorithm_2 / gain.plain));
}

std::string ends_text(const autopipe::Ends& ends) {
  std::string text;
  for (const std::int32_t end : ends) text += (text.empty() ? "" : ", ") + std::to_string(end);
  return "[" + text + "]";
}

// Eight blocks, each heavier than the one before, in three stages.
void print_example() {
  autopipe::Blocks blocks;
  for (int i = 1; i <= 8; ++i) {
    blocks.forward.push_back(10 * i);
    blocks.backward.push_back(20 * i);
    blocks.transfer.push_back(0);
  }
  blocks.stages = 3;
  blocks.microbatches = 6;
  const autopipe::Partitions partitions(blocks);
  autopipe::Simulator simulator(partitions);
  const autopipe::PartitionPlan plan = plan_partition(partitions);
  const auto print = [&](const char* what, const autopipe::Ends& ends) {
    const autopipe::Simulator::Step step = simulator.step(ends);
    std::string work;
    for (std::size_t x = 0; x < ends.size(); ++x) {
      work +=
          (x > 0 ? " + " : "") + std::to_string(static_cast<int>(partitions.work(x > 0 ? ends[x - 1] : 0, ends[x])));
    }
    std::printf("%-30s ends %-10s work of a stage %-16s master stage %d  step %.0f\n", what, ends_text(ends).c_str(),
                work.c_str(), step.master, step.time);
  };
  std::printf("An example: blocks of 10, 20, ..., 80 forward, backward twice that, 3 stages, 6 microbatches.\n");
  print("Algorithm 1, lightest heaviest", plan.balanced.ends);
  print("the paper's search", plan.shifted.ends);
  print(plan.exact() ? "the optimum, proven" : "the answer", plan.best.ends);
  autopipe::StagePipeline pipeline(partitions, plan.best.ends);
  autopipe::PipelineTimes scratch;
  const autopipe::SlicingGain gain = best_slicing(pipeline.view(), scratch);
  std::printf("sliced microbatches: %d, step %.0f, %.1f %% less\n\n", gain.sliced, gain.best,
              100 * (1 - gain.best / gain.plain));
}

}  // namespace

int main() {
  print_example();
  std::printf(
      "Chains like a GPT's: attention and feedforward blocks within 10 %% of 460 and 540 us, backward 3 times\n"
      "forward, an embedding and a head; seed %llu. One thread, at most %.0f million simulated actions.\n"
      "alg1, paper: percent above the answer, of Algorithm 1 alone and of the paper's search. gap: percent that\n"
      "the proven bound lies below the answer; 0 = optimal. memory: share of an even pipeline's need.\n\n",
      static_cast<unsigned long long>(kSeed), static_cast<double>(autopipe::PlannerOptions{}.effort) / 1e6);
  std::printf("blocks stages     m   comm transfer memory      alg1     paper published  answer ms      gap  cpu ms\n");
  for (const std::int32_t rounds : {1, 2, 16}) {
    for (const Transfers transfers : {Transfers::kEager, Transfers::kBlocking}) {
      for (const double memory : {0.0, 1.05}) {
        for (const auto& [layers, stages] : {std::pair{12, 4}, {24, 8}, {48, 16}, {96, 64}}) {
          print_plan({layers, stages, rounds, 25, transfers, memory});
        }
      }
    }
  }
  std::printf(
      "\nSlicing the answer's warm-up, 6 layers a stage. alpha: what two halves take beside the whole. exact: the\n"
      "best number by simulating each; 0 = slicing is refused. alg2: the number by Algorithm 2, which takes alpha\n"
      "for 1. gain: percent of the step's time.\n\n");
  std::printf("stages     m   comm transfer  alpha   exact    gain %%         alg2    gain %%\n");
  for (const Transfers transfers : {Transfers::kEager, Transfers::kBlocking}) {
    for (const std::int32_t stages : {2, 4, 8, 16}) {
      for (const double slowdown : {1.0, 1.2, 1.4, 1.8}) print_slicing(stages, 2, 25, slowdown, transfers);
    }
    for (const std::int32_t rounds : {1, 16}) print_slicing(8, rounds, 25, 1.0, transfers);
  }
}
