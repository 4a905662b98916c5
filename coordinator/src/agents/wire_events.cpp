#include "agents/wire_events.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "agents/peer_text.hpp"
#include "net/tokens.hpp"
#include "schema/job_name.hpp"
#include "schema/step_number.hpp"
#include "wire/agent.pb.h"

namespace trimtab::coordinator {
namespace {

using Body = wire::RankEvent::BodyCase;

constexpr std::uint32_t kMostWatchedRanks = 65'536;
constexpr std::uint64_t kMostWatchedLaunches = 1'000'000;
constexpr double kLongestCopy = 365 * 86'400.0;  // of a checkpoint, in seconds

// Of what a rank has measured again; more is not looked at.
constexpr int kMostItems = 64;
constexpr int kMostOfItem = 4;
constexpr int kMostValues = 16;

// In people's words; what this release does not know of is left out.
std::string not_finite(const std::string& told) {
  if (told == "gradient_norm") return "gradient norm";
  return told == "loss" ? told : "";
}

std::optional<RankNews> step_news(const wire::Step& step) {
  if (step.wall_ns() < 0 || step.peak_bytes() < 0 || step.preparations() < 0) return std::nullopt;
  if (step.samples().size() > kLongestSamples) return std::nullopt;
  return RankStep{step.step(),         step.epoch(),         static_cast<double>(step.wall_ns()) / 1e6,
                  step.loss(),         step.samples(),       step.peak_bytes(),
                  step.preparations(), step.gradient_norm(), not_finite(step.not_finite())};
}

std::optional<RankNews> submission_news(const wire::Submission& submission) {
  const auto state = submission_state_named(submission.state());
  return state ? std::optional<RankNews>(RankSubmission{*state, first_of(submission.message(), kLongestMessage)})
               : std::nullopt;
}

double phase_ms(std::int64_t told_ns) {
  return static_cast<double>(std::max<std::int64_t>(told_ns, 0)) / 1e6;
}

RankActive active_news(const wire::PlanActive& active) {
  return {active.epoch(),
          active.step(),
          Nanoseconds(std::max<std::int64_t>(active.switch_ns(), 0)),
          {{.save_ms = phase_ms(active.save_ns()),
            .move_ms = phase_ms(active.move_ns()),
            .groups_ms = phase_ms(active.groups_ns()),
            .build_ms = phase_ms(active.build_ns())}}};
}

double ms_of(std::uint64_t told_ns) {
  return static_cast<double>(told_ns) / 1e6;
}

// The number of a step that the event speaks of: it is counted on from, and a plan is committed for it. 0 = it has
// none.
std::int64_t step_of(const wire::RankEvent& event) {
  switch (event.body_case()) {
    case Body::kConnected:
      return event.connected().step();
    case Body::kStep:
      return event.step().step();
    case Body::kPlanAck:
      return event.plan_ack().step();
    case Body::kPlanActive:
      return event.plan_active().step();
    case Body::kPlanFailed:
      return event.plan_failed().step();
    case Body::kBye:
      return event.bye().step();
    case Body::kMeasured:
      return event.measured().step();
    default:
      return 0;
  }
}

// An agent of an earlier release tells of passes alone.
RankPasses passes_news(const wire::Passes& passes) {
  RankPasses news{passes.epoch(), ms_of(passes.busy_ns())};
  if (!passes.has_terms()) return news;
  const wire::StepTerms& terms = passes.terms();
  news.terms = {ms_of(terms.computation_ns()), ms_of(terms.collectives_ns()), ms_of(terms.gradients_ns()),
                ms_of(terms.transfers_ns()), ms_of(terms.idle_ns())};
  // A part is no more than what it is of.
  const auto part = [](bool told, std::uint64_t part_ns, std::uint64_t of_ns) {
    return told && part_ns <= of_ns ? std::optional(ms_of(part_ns)) : std::nullopt;
  };
  news.parts = {part(terms.has_own_ns(), terms.own_ns(), terms.computation_ns()),
                part(terms.has_bubble_ns(), terms.bubble_ns(), terms.transfers_ns()),
                part(terms.has_launch_bound_ns(), terms.launch_bound_ns(), terms.idle_ns()),
                part(terms.has_data_ns(), terms.data_ns(), terms.idle_ns())};
  return news;
}

std::vector<std::vector<std::int64_t>> values_of(const wire::MeasuredItem& item) {
  std::vector<std::vector<std::int64_t>> costs;
  for (int i = 0; i < std::min(item.costs_size(), kMostOfItem); ++i) {
    const auto& values = item.costs(i).values();
    costs.emplace_back(values.begin(), values.begin() + std::min(values.size(), kMostValues));
  }
  return costs;
}

RankMeasured measured_news(const wire::Measured& told) {
  RankMeasured news{told.number(),
                    told.step(),
                    Nanoseconds(std::max<std::int64_t>(told.took_ns(), 0)),
                    {},
                    first_of(told.error(), kLongestMessage)};
  for (int i = 0; i < std::min(told.items_size(), kMostItems); ++i) {
    const wire::MeasuredItem& item = told.items(i);
    news.items.push_back({item.item(), values_of(item), first_of(item.error(), kLongestReason)});
  }
  return news;
}

// Figures that nobody can have measured count as none.
RankSaved saved_news(const wire::Saved& saved) {
  RankSaved news{saved.whole(), std::nullopt, first_of(saved.restless(), kLongestReason)};
  if (!saved.has_copy()) return news;
  const wire::CopyPrice& copy = saved.copy();
  const bool is_time = std::isfinite(copy.seconds()) && copy.seconds() >= 0;
  news.copy = CopyPrice{std::max<std::int64_t>(copy.files(), 0),
                        std::max<Bytes>(copy.bytes(), 0),
                        is_time ? std::min(copy.seconds(), kLongestCopy) * 1e3 : 0,
                        copy.shared(),
                        first_of(copy.store(), kLongestReason),
                        first_of(copy.refused(), kLongestMessage)};
  return news;
}

std::optional<RankNews> news_of(const wire::RankEvent& event) {
  if (!is_step_number(step_of(event))) return std::nullopt;
  switch (event.body_case()) {
    case Body::kConnected:
      return RankConnected{event.connected().epoch(), event.connected().step(), phase_ms(event.connected().groups_ns()),
                           phase_ms(event.connected().build_ns())};
    case Body::kStep:
      return step_news(event.step());
    case Body::kPlanAck:
      return RankAcknowledged{event.plan_ack().epoch(), event.plan_ack().step()};
    case Body::kPlanRefuse:
      return RankRefused{event.plan_refuse().epoch(), first_of(event.plan_refuse().reason(), kLongestReason),
                         first_of(event.plan_refuse().message(), kLongestMessage)};
    case Body::kPlanActive:
      return active_news(event.plan_active());
    case Body::kPlanFailed:
      return RankFailed{event.plan_failed().epoch(), first_of(event.plan_failed().reason(), kLongestReason),
                        first_of(event.plan_failed().message(), kLongestMessage)};
    case Body::kExited:
      return RankExited{event.exited().exit_code(), event.exited().signal(),
                        last_of(event.exited().last_output(), kLongestOutput),
                        first_of(event.exited().log(), kLongestMessage)};
    case Body::kBye:
      return RankSaidBye{event.bye().step()};
    case Body::kSubmission:
      return submission_news(event.submission());
    case Body::kPasses:
      return passes_news(event.passes());
    case Body::kLives:
      return RankLives{event.lives().output(), event.lives().records(), event.lives().processor()};
    case Body::kSaved:
      return saved_news(event.saved());
    case Body::kMeasured:
      return measured_news(event.measured());
    case Body::kTimeline:  // no news: taken apart before
    case Body::kFacts:
    case Body::BODY_NOT_SET:
      return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

Introduction introduction(const wire::Hello& hello) {
  constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  const std::uint32_t oldest = hello.oldest_version() == 0 ? hello.protocol_version() : hello.oldest_version();
  return {{oldest, hello.protocol_version()},
          hello.release(),
          hello.node(),
          hello.instance(),
          hello.devices(),
          static_cast<std::int64_t>(std::min<std::uint64_t>(hello.memory_bytes(), kMost)),
          hello.fingerprint_json(),
          hello.tenant() == net::kEveryTenant ? "" : hello.tenant(),
          hello.address(),
          "",
          hello.tenant()};
}

NodeBack node_back(const wire::Hello& hello, const std::string& job_name, std::uint64_t believed) {
  NodeBack back{hello.node(), {}};
  for (int i = 0; i < std::min(hello.running_size(), kMostRunning); ++i) {
    const wire::RunningRank& rank = hello.running(i);
    if (rank.job() != job_name) continue;
    const bool of_job = rank.has_variant() && rank.variant().empty();
    back.ranks.push_back(
        {static_cast<std::int32_t>(std::min(rank.rank(), 1U << 30)), rank.launch(), rank.epoch(), of_job});
    if (!rank.watched() && rank.launch() <= believed) back.launch = std::max(back.launch, rank.launch());
  }
  for (const wire::JobLaunch& one : hello.launches()) {
    if (one.job() == job_name && one.launch() <= believed) back.launch = std::max(back.launch, one.launch());
  }
  return back;
}

std::optional<FromRank> from_rank(const wire::RankEvent& event) {
  const auto news = news_of(event);
  if (!news) return std::nullopt;
  return FromRank{static_cast<std::int32_t>(std::min(event.rank(), 1U << 30)), event.launch(), *news};
}

std::optional<RankWatched> rank_watched(const wire::RankEvent& event, const Member& member) {
  if (!event.has_connected() || event.connected().watched_world_size() == 0) return std::nullopt;
  const std::uint32_t world_size = event.connected().watched_world_size();
  const bool possible = world_size <= kMostWatchedRanks && event.rank() < world_size && event.launch() >= 1 &&
                        event.launch() <= kMostWatchedLaunches && event.variant().empty() && is_job_name(event.job());
  if (!possible) return std::nullopt;
  return RankWatched{member.node, member.fingerprint, static_cast<std::int32_t>(event.rank()), event.launch(),
                     static_cast<std::int32_t>(world_size)};
}

CardStep card_step(const wire::Step& told) {
  CardStep step;
  step.step = told.step();
  step.wall_ns = told.wall_ns();
  step.cpu_ns = told.cpu_ns();
  step.microbatches = told.microbatches();
  step.count = told.count();
  step.tokens = told.tokens();
  step.preparations = told.preparations();
  step.peak_bytes = told.peak_bytes();
  if (!told.has_parts()) return step;
  const wire::StepParts& parts = told.parts();
  step.parts = CardParts{.data_ns = parts.data_ns(),
                         .forward_ns = parts.forward_ns(),
                         .backward_ns = parts.backward_ns(),
                         .recompute_ns = parts.recompute_ns(),
                         .optimizer_ns = parts.optimizer_ns(),
                         .communication_ns = parts.communication_ns(),
                         .aside_ns = parts.aside_ns(),
                         .stolen_ns = parts.has_stolen_ns() ? parts.stolen_ns() : -1};
  return step;
}

bool holds_rank(const TuningState& job, const std::string& node, std::uint32_t rank) {
  return std::ranges::any_of(job.nodes, [&](const NodeShare& share) {
    return share.node == node && std::cmp_greater_equal(rank, share.first_rank) &&
           std::cmp_less(rank, std::int64_t{share.first_rank} + share.ranks);
  });
}

bool has_ranks_on(const TuningState& job, const std::string& node) {
  return std::ranges::any_of(job.nodes, [&](const NodeShare& share) { return share.node == node; });
}

bool is_foreign_rank(const TuningState& job, const std::string& node, std::uint32_t rank) {
  if (holds_rank(job, node, rank)) return false;
  if (job.watched) {
    return std::ranges::any_of(job.nodes, [&](const NodeShare& one) { return holds_rank(job, one.node, rank); });
  }
  return job.launch_epoch != 0 && job.doing != Doing::kKilling;
}

}  // namespace trimtab::coordinator
