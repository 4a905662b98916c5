#include "made_job.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace trimtab::test {

namespace {

using namespace coordinator;

constexpr std::int64_t kSamples = 16;

std::int64_t ns(double ms) {
  return static_cast<std::int64_t>(ms * 1e6);
}

// What a rank's own work takes of what it should: mostly a few percent, at times twice as long.
class Noise {
 public:
  explicit Noise(Random& random) : random_(random), sigma_(0.01 + 0.05 * random.uniform()) {}
  double next() {
    const double tail = random_.uniform() < 0.04 ? 1 + random_.uniform() : 1;
    return std::exp(sigma_ * random_.normal()) * tail;
  }

 private:
  Random& random_;
  double sigma_;
};

// Other processes take a CPU from a rank for some steps: it waits, and its caches are colder.
class Neighbour {
 public:
  Neighbour(Random& random, double chance) : random_(random), chance_(chance) {}
  void step() {
    if (left_ > 0) {
      --left_;
    } else if (random_.uniform() < chance_) {
      left_ = random_.between(3, 20);
      takes_ = 0.2 + random_.uniform();
    }
  }
  [[nodiscard]] double stolen() const { return left_ > 0 ? takes_ : 0; }
  [[nodiscard]] double colder() const { return left_ > 0 ? 1.04 : 1; }

 private:
  Random& random_;
  double chance_;
  std::int64_t left_ = 0;
  double takes_ = 0;
};

struct RankStep {
  double own = 0;
  double stolen = 0;
  double data = 0;
};

api::RankFacts facts_of(const MadeJob& job) {
  api::RankFacts facts;
  facts.framework = job.framework;
  facts.device = "cpu";
  facts.workers = 0;
  facts.layers = 4;
  facts.checkpointed_layers = job.fault == Fault::kRecomputed ? 4 : 0;
  facts.memory_used_bytes = 500'000'000;
  facts.memory_total_bytes = 16'000'000'000;
  facts.parameters = 1'000'000;
  const bool small = job.fault == Fault::kSmallMicrobatch;
  facts.batch_size = small ? 1 : kSamples;
  facts.accumulation = small ? kSamples : 1;
  facts.shapes = {{"linear", small ? 64 : 64 * kSamples, 512, 128, 8},
                  {"linear", small ? 64 : 64 * kSamples, 128, 128, 8}};
  return facts;
}

// Four hosts in a ring, one direction of which gives half.
std::vector<api::FactLink> links_of(const MadeJob& job, std::int32_t rank, double busy_s, Random& random) {
  const std::int32_t next = (rank + 1) % job.ranks;
  const double usual = 5e7 * (0.92 + 0.16 * random.uniform());
  const double rate = job.fault == Fault::kSlowLink && rank == job.faulty ? usual / 2 : usual;
  const double busy = job.fault == Fault::kSlowLink && rank != job.faulty ? busy_s / 2 : busy_s;
  return {{"10.0.0." + std::to_string(rank + 1), "10.0.0." + std::to_string(next + 1),
           static_cast<std::int64_t>(rate * busy), ns(busy * 1e3)}};
}

CardStep told(const MadeJob& job, std::int64_t number, const RankStep& one, double wall) {
  CardStep step;
  step.step = number;
  step.wall_ns = ns(wall);
  step.microbatches = job.fault == Fault::kSmallMicrobatch ? kSamples : 1;
  step.count = kSamples;
  const double computing = one.own + one.stolen;
  const double again = job.fault == Fault::kRecomputed ? 0.22 * computing : 0;
  CardParts parts;
  parts.data_ns = ns(one.data);
  parts.forward_ns = ns(0.3 * (computing - again));
  parts.recompute_ns = ns(again);
  parts.backward_ns = ns(0.6 * (computing - again) + again);
  parts.optimizer_ns = ns(0.06 * (computing - again));
  parts.communication_ns = ns(wall - computing - one.data);
  if (job.tells_stolen) parts.stolen_ns = ns(one.stolen);
  step.parts = parts;
  return step;
}

}  // namespace

MadeJob random_job(std::uint64_t seed, Fault fault) {
  Random random(seed);
  MadeJob job;
  job.seed = seed;
  job.fault = fault;
  job.ranks = static_cast<std::int32_t>(random.between(fault == Fault::kSlowLink ? 3 : 2, 4));
  job.steps = random.between(30, 400);
  job.faulty = static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(job.ranks)));
  job.busy = random.uniform() < 0.5 ? 0 : 0.04 * random.uniform();
  return job;
}

CardFold folded(const MadeJob& job) {
  Random random(job.seed);
  CardFold fold("made", job.ranks);
  const double base = 15 + 200 * random.uniform();
  const bool small = job.fault == Fault::kSmallMicrobatch;
  const double communication =
      base * (job.fault == Fault::kSlowLink || small ? 0.25 + 0.2 * random.uniform() : 0.02 + 0.2 * random.uniform());
  std::vector<Noise> noise(static_cast<std::size_t>(job.ranks), Noise(random));
  std::vector<Neighbour> neighbours(noise.size(), Neighbour(random, job.busy));
  double drift = 0;
  double trained_s = 0;
  for (std::int64_t number = 0; number < job.steps; ++number) {
    drift = 0.98 * drift + 0.02 * random.normal();
    std::vector<RankStep> row;
    double longest = 0;
    for (std::size_t rank = 0; rank < noise.size(); ++rank) {
      neighbours[rank].step();
      const bool slow = job.fault == Fault::kSlowRank && rank == static_cast<std::size_t>(job.faulty);
      RankStep one;
      one.own = base * std::exp(drift) * noise[rank].next() * neighbours[rank].colder() * (slow ? 1 + job.slower : 1);
      one.own *= number < 3 ? 3 : 1;
      one.stolen = one.own * neighbours[rank].stolen();
      const double data =
          job.fault == Fault::kSlowData ? job.data_share / (1 - job.data_share) * (base + communication) : 0.01 * base;
      one.data = data * std::exp(0.1 * random.normal());
      longest = std::max(longest, one.own + one.stolen + one.data);
      row.push_back(one);
    }
    const double wall = longest + communication * std::exp(0.15 * random.normal());
    trained_s += wall / 1e3;
    for (std::size_t rank = 0; rank < row.size(); ++rank) {
      if (static_cast<std::int32_t>(rank) == job.missing) continue;
      fold.step(static_cast<std::int32_t>(rank), told(job, number, row[rank], wall));
    }
  }
  for (std::int32_t rank = 0; rank < job.ranks; ++rank) {
    api::RankFacts facts = facts_of(job);
    if (job.fault == Fault::kSlowLink) {
      facts.links = links_of(job, rank, trained_s * 0.9 * communication / (base + communication), random);
    }
    fold.facts(rank, facts);
  }
  return fold;
}

CardFold on_two_devices(const api::RankFacts& facts, const api::LiveRank& look) {
  CardFold fold("device", 2);
  for (std::int32_t rank = 0; rank < 2; ++rank) {
    fold.facts(rank, facts);
    for (std::int64_t step = 0; step < 30; ++step) {
      CardStep one;
      one.step = step;
      one.wall_ns = 100'000'000;
      one.count = 8;
      one.tokens = 8 * 1024;
      fold.step(rank, one);
    }
    for (int i = 0; i < 10; ++i) fold.activity(rank, look);
  }
  return fold;
}

api::Card card_of(const MadeJob& job) {
  return folded(job).card();
}

std::string first_finding(const api::Card& card) {
  if (card.findings.empty()) return "none";
  const api::CardFinding& first = card.findings.front();
  return first.name.text() +
         (first.rank && first.name == api::FindingName::kSlowRank ? " " + std::to_string(*first.rank) : "");
}

}  // namespace trimtab::test
