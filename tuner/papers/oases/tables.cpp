#include "papers/oases/tables.hpp"

#include <algorithm>
#include <numeric>

#include "base/check.hpp"

namespace trimtab::tuner::oases {

std::int32_t Tables::index_of(std::int32_t tp) const {
  const auto found = std::find(chain.degrees.begin(), chain.degrees.end(), tp);
  return found == chain.degrees.end() ? -1 : static_cast<std::int32_t>(found - chain.degrees.begin());
}

Schedule overlapped_schedule() {
  Schedule schedule;
  schedule.sub_batches = 2;
  schedule.cross_pass = true;
  schedule.recompute_after_communication = true;
  return schedule;
}

Plan plan_of(const Tables& tables, const Choice& choice) {
  Plan plan;
  plan.model = tables.model.name;
  plan.global_batch = plan.microbatch = tables.model.global_batch;
  plan.schedule = overlapped_schedule();
  Stage stage;
  stage.devices.resize(static_cast<std::size_t>(tables.cluster.devices()));
  std::iota(stage.devices.begin(), stage.devices.end(), 0);
  for (std::int32_t n = 0; n < tables.chain.nodes; ++n) {
    if (n == 0 || choice[n] != choice[n - 1]) {
      Segment segment;
      segment.operators = {n, n};
      segment.tp = tables.chain.degrees[choice[n]];
      segment.dp = tables.cluster.devices() / segment.tp;
      stage.segments.push_back(std::move(segment));
    }
    stage.segments.back().operators.end = n + 1;
    stage.segments.back().recompute = {stage.segments.back().operators};
  }
  plan.stages.push_back(std::move(stage));
  return plan;
}

std::optional<Choice> choice_of(const Tables& tables, const Plan& plan, std::int32_t& unusable) {
  Choice choice;
  for (const Segment& segment : plan.stages.front().segments) {
    const std::int32_t degree = tables.index_of(segment.tp);
    if (degree < 0) {
      unusable = segment.tp;
      return std::nullopt;
    }
    choice.resize(choice.size() + static_cast<std::size_t>(segment.operators.size()), degree);
  }
  return choice;
}

namespace {

// All that one node and degree have.
struct Costs {
  double d, q, c;
  [[nodiscard]] double w() const { return d + q; }
};

Costs costs_of(const Chain& chain, std::int32_t node, std::int32_t degree) {
  const std::size_t at = chain.at(node, degree);
  return {chain.forward[at], chain.backward[at], chain.communication[at]};
}

// Equation (3) without what neighbours share, forward and backward.
double paper_node(const Chain& chain, std::int32_t n, std::int32_t j) {
  const Costs own = costs_of(chain, n, j);
  double ms = overlapped(own.d, own.c, chain.slowdown) + overlapped(own.w(), own.c, chain.slowdown);
  if (n == 0) ms += own.d + own.c;
  if (n + 1 == chain.nodes) ms += own.w() + own.c;
  return ms;
}

// What neighbours share of equation (3), and equation (4): a pair that an all-gather blocks takes the sum.
double paper_edge(const Chain& chain, std::int32_t n, std::int32_t i, std::int32_t j) {
  const Costs left = costs_of(chain, n, i);
  const Costs right = costs_of(chain, n + 1, j);
  double forward = overlapped(right.d, left.c, chain.slowdown);
  double backward = overlapped(left.w(), right.c, chain.slowdown);
  if (i < j && left.c > 0) forward = right.d + left.c + chain.ratio(j, i) * left.c;
  if (i > j && right.c > 0) backward = left.w() + right.c + chain.ratio(i, j) * right.c;
  return forward + backward;
}

// As the published program has it: the first node's terms without communication and recompute, both neighbours of a
// pair by the first one's degree, the last node by the costs of the one before.
double published_node(const Chain& chain, std::int32_t n, std::int32_t j) {
  const Costs own = costs_of(chain, n, j);
  if (n == 0) return own.d + own.q;
  if (n + 1 == chain.nodes) {
    const Costs before = costs_of(chain, n - 1, j);
    return std::max(before.d, before.c) + own.c + std::max(before.w(), before.c) + own.c;
  }
  const Costs next = costs_of(chain, n + 1, j);
  return std::max(own.d, own.c) + std::max(next.d, own.c) + std::max(own.w(), own.c) + std::max(next.w(), own.c);
}

double published_edge(const Chain& chain, std::int32_t n, std::int32_t i, std::int32_t j) {
  const Costs left = costs_of(chain, n, i);
  const Costs right = costs_of(chain, n + 1, j);
  if (i < j) return chain.ratio(j, i) * left.c + std::min(left.c, right.d);
  if (i > j) return chain.ratio(i, j) * right.c + std::min(left.c, right.q);
  return 0;
}

double published_ms(const Chain& chain, const Choice& choice) {
  double ms = 0;
  for (std::int32_t n = 0; n < chain.nodes; ++n) {
    ms += published_node(chain, n, choice[n]);
    if (n + 1 < chain.nodes) ms += published_edge(chain, n, choice[n], choice[n + 1]);
  }
  return ms;
}

}  // namespace

std::vector<Block> blocks_of(const Chain& chain, const Choice& choice) {
  TRIMTAB_ASSERT(static_cast<std::int32_t>(choice.size()) == chain.nodes, "a degree for every node");
  std::vector<Block> blocks;
  for (std::int32_t n = 0; n < chain.nodes; ++n) {
    const Costs own = costs_of(chain, n, choice[n]);
    Block block{own.d, own.q, own.d, own.c, own.c};
    const std::int32_t before = n == 0 ? choice[n] : choice[n - 1];
    if (before < choice[n]) {
      block.gather_forward = chain.ratio(choice[n], before) * costs_of(chain, n - 1, before).c;
    } else if (before > choice[n]) {
      block.gather_backward = chain.ratio(before, choice[n]) * own.c;
    }
    blocks.push_back(block);
  }
  return blocks;
}

double step_ms(const Chain& chain, const Choice& choice, Objective objective) {
  if (objective == Objective::kPublished) return published_ms(chain, choice);
  const std::vector<Block> blocks = blocks_of(chain, choice);
  std::vector<Round> rounds;
  forward_rounds(blocks, rounds);
  const double forward = rounds_time(rounds, chain.slowdown);
  backward_rounds(blocks, SubBatchSchedule{}, rounds);
  return forward + rounds_time(rounds, chain.slowdown);
}

double memory_bytes(const Chain& chain, const Choice& choice) {
  double bytes = chain.buffer[choice.back()];
  for (std::int32_t n = 0; n < chain.nodes; ++n) bytes += chain.memory[chain.at(n, choice[n])];
  return bytes;
}

Terms terms_of(const Chain& chain, Objective objective) {
  const bool paper = objective == Objective::kPaper;
  const std::int32_t options = chain.options();
  Terms terms;
  for (std::int32_t n = 0; n < chain.nodes; ++n) {
    for (std::int32_t i = 0; i < options; ++i) {
      terms.node.push_back(paper ? paper_node(chain, n, i) : published_node(chain, n, i));
      for (std::int32_t j = 0; j < options && n + 1 < chain.nodes; ++j) {
        terms.edge.push_back(paper ? paper_edge(chain, n, i, j) : published_edge(chain, n, i, j));
      }
    }
  }
  return terms;
}

}  // namespace trimtab::tuner::oases
