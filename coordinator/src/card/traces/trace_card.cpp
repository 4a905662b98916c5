#include "coordinator/trace_card.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <set>

#include "base/check.hpp"
#include "base/numbers.hpp"
#include "card/evidence.hpp"
#include "card/make_card.hpp"
#include "card/traces/step_windows.hpp"
#include "card/traces/work_sweep.hpp"

namespace trimtab::coordinator {

namespace {

constexpr std::size_t kMostSteps = 65'536;  // of a rank

// What a rank did in one step.
struct TracedShares {
  StepWindow window;
  WorkShares shares;
  std::int64_t data_ns = 0;  // waiting for data, on the host
};

std::vector<TracedShares> shares_of_steps(const TracedRank& rank) {
  std::vector<TracedShares> all;
  WorkSweep sweep(rank);
  for (const StepWindow& window : step_windows(rank)) {
    if (all.size() == kMostSteps) break;
    const WorkShares shares = sweep.between(window.begin_ns, window.end_ns);
    const std::int64_t data_ns =
        rank.on_device ? covered_ns(rank.data, window.host_begin_ns, window.host_end_ns) : shares.data_ns;
    all.push_back({window, shares, data_ns});
  }
  return all;
}

DeviceLook look_of(const TracedShares& step) {
  const WorkShares& shares = step.shares;
  const auto length = static_cast<double>(std::max<std::int64_t>(step.window.end_ns - step.window.begin_ns, 1));
  const auto share = [length](std::int64_t ns) { return static_cast<double>(ns) / length; };
  DeviceLook look;
  look.step_ms = length / 1e6;
  look.computation = share(shares.of(TracedKind::kComputation));
  look.exposed_communication = share(shares.communication_ns());
  look.exposed_copy = share(shares.of(TracedKind::kCopy));
  look.idle = share(shares.idle_ns);
  look.kernels_per_step = static_cast<double>(shares.kernels);
  if (shares.kernels > 0) {
    look.kernel_us = static_cast<double>(shares.kernels_ns) / 1e3 / static_cast<double>(shares.kernels);
  }
  return look;
}

CardStep card_step(const TracedRank& rank, const TracedShares& step) {
  CardStep told;
  told.step = step.window.number;
  told.wall_ns = step.window.wall_ns;
  told.parts = CardParts{};
  told.parts->data_ns = step.data_ns;
  if (rank.on_device) return told;
  told.parts->forward_ns = step.shares.of(TracedKind::kComputation);
  told.parts->communication_ns = step.shares.communication_ns();
  return told;
}

RankEvidence evidence_of(const TracedRank& rank, const std::vector<TracedShares>& steps) {
  RankEvidence evidence(kMostSteps, 0);
  evidence.node = rank.node;
  evidence.facts = rank.facts;
  for (const TracedShares& step : steps) {
    evidence.steps.add(card_step(rank, step));
    if (rank.on_device) evidence.looks.push_back(look_of(step));
  }
  evidence.trained_s = evidence.steps.trained_s();
  return evidence;
}

std::string first_and_last(const std::vector<TracedShares>& steps) {
  return std::to_string(steps.front().window.number) + " to " + std::to_string(steps.back().window.number);
}

// Ranks are compared step by step: only those that all traces have are kept.
Status keep_common(const std::vector<TracedRank>& ranks, const std::vector<std::int32_t>& numbers,
                   std::vector<std::vector<TracedShares>>& steps) {
  std::map<std::int64_t, std::size_t> told;
  for (const std::vector<TracedShares>& of_rank : steps) {
    for (const TracedShares& step : of_rank) ++told[step.window.number];
  }
  const auto is_alone = [&](const TracedShares& step) { return told[step.window.number] < ranks.size(); };
  const auto has = [&](std::size_t i) {
    return "rank " + std::to_string(numbers[i]) + " has " + first_and_last(steps[i]);
  };
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (!std::ranges::all_of(steps[i], is_alone)) continue;
    const std::size_t other = i == 0 ? ranks.size() - 1 : 0;
    return bad_input(ranks[i].file + ": none of its steps is in all traces: " + has(i) + ", " + has(other) + " (" +
                     ranks[other].file + "); record the same steps on all ranks, or give one trace alone");
  }
  for (std::vector<TracedShares>& of_rank : steps) std::erase_if(of_rank, is_alone);
  return {};
}

// By kind, the largest first: shares of all the ranks' time.
std::vector<api::CardCommunication> kinds_of(const std::vector<std::vector<TracedShares>>& steps) {
  std::array<api::CardCommunication, kTracedKinds> all;
  for (const std::vector<TracedShares>& of_rank : steps) {
    double length = 0;
    for (const TracedShares& step : of_rank) {
      length += static_cast<double>(step.window.end_ns - step.window.begin_ns);
    }
    const double part = length > 0 ? 1 / length / static_cast<double>(steps.size()) : 0;
    for (const TracedShares& step : of_rank) {
      for (std::size_t kind = 0; kind < kTracedKinds; ++kind) {
        all[kind].exposed += part * static_cast<double>(step.shares.exposed_ns[kind]);
        all[kind].hidden += part * static_cast<double>(step.shares.hidden_ns[kind]);
      }
    }
  }
  std::vector<api::CardCommunication> kinds;
  for (std::size_t kind = 0; kind < kTracedKinds; ++kind) {
    const auto one = static_cast<TracedKind>(kind);
    all[kind].kind = to_string(one);
    if (communicates(one) && all[kind].exposed + all[kind].hidden > 0) kinds.push_back(all[kind]);
  }
  std::ranges::stable_sort(kinds, std::greater(), &api::CardCommunication::exposed);
  return kinds;
}

// Of all the ranks' time.
double waiting_for_host(const std::vector<std::vector<TracedShares>>& steps) {
  double waiting = 0;
  double length = 0;
  for (const std::vector<TracedShares>& of_rank : steps) {
    for (const TracedShares& step : of_rank) {
      waiting += static_cast<double>(step.shares.for_host_ns);
      length += static_cast<double>(step.window.end_ns - step.window.begin_ns);
    }
  }
  return length > 0 ? waiting / length : 0;
}

void add_notes(const std::vector<TracedRank>& ranks, bool counted, const std::vector<bool>& marked, api::Card& card) {
  constexpr double kMuch = 0.15;
  if (ranks.size() == 1 && card.shares.exposed_communication >= kMuch) {
    card.notes.emplace_back(
        "one rank's trace does not tell waiting for slower ranks from what a transfer takes: give the traces of all "
        "ranks");
  }
  if (counted && ranks.size() > 1) {
    card.notes.emplace_back("not all traces say their rank: ranks are numbered in the order of the files");
  }
  if (!std::ranges::all_of(marked, std::identity())) {
    card.notes.emplace_back(
        "no steps are marked (by the profiler's step(), or by NVTX ranges \"step N\"), so all of the trace counts as "
        "one");
  }
  std::set<std::string> said;
  for (const TracedRank& rank : ranks) {
    for (const std::string& remark : rank.remarks) {
      if (said.insert(remark).second) card.notes.push_back(remark);
    }
  }
}

}  // namespace

struct TraceCard::Kept {
  std::vector<TracedRank> ranks;  // without what they did
  std::vector<std::vector<TracedShares>> steps;
  std::vector<bool> marked;  // their traces mark steps
};

TraceCard::TraceCard() : kept_(std::make_unique<Kept>()) {}
TraceCard::~TraceCard() = default;

void TraceCard::add(TracedRank rank) {
  kept_->steps.push_back(shares_of_steps(rank));
  kept_->marked.push_back(!rank.steps.empty());
  rank.work = {};
  rank.steps = {};
  rank.data = {};
  kept_->ranks.push_back(std::move(rank));
}

Result<api::Card> TraceCard::card(const std::string& job) const {
  const std::vector<TracedRank>& ranks = kept_->ranks;
  TRIMTAB_ASSERT(!ranks.empty(), "a card is of some rank");
  TRIMTAB_TRY(const RankNumbers numbers, number_ranks(ranks));
  std::vector<std::vector<TracedShares>> steps = kept_->steps;
  TRIMTAB_TRY_STATUS(keep_common(ranks, numbers.numbers, steps));
  std::map<std::int32_t, RankEvidence> evidence;
  std::int64_t world_size = 0;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    evidence.emplace(numbers.numbers[i], evidence_of(ranks[i], steps[i]));
    world_size = std::max({world_size, ranks[i].world_size, std::int64_t{numbers.numbers[i]} + 1});
  }
  constexpr std::int64_t kMostRanks = 1'000'000;
  const auto world = static_cast<std::int32_t>(std::min(world_size, kMostRanks));
  const std::vector<CardLink> no_links;
  api::Card card = make_card({job, world, evidence, no_links, true, kinds_of(steps)});
  card.recorded_by = std::string(to_string(ranks.front().profiler));
  constexpr double kMuch = 0.10;
  if (const double host = waiting_for_host(steps); ranks.front().on_device && host >= kMuch) {
    card.notes.push_back("for " + format_percent(host) +
                         " of a step the device idles because the host has not handed out its next kernel yet");
  }
  add_notes(ranks, numbers.counted, kept_->marked, card);
  return card;
}

}  // namespace trimtab::coordinator
