// Galvatron's published settings: what its programs found and how long they searched, what `galvatron` finds under the
// same cost model; its partitions; and what of it is proven. Prints Markdown. Usage: galvatron_table
// [searches|partitions|proofs]. Needs ../shared/peers (or $TRIMTAB_PEERS).

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <set>

#include "../../tests/tuner/galvatron/peer.hpp"
#include "../thread_seconds.hpp"
#include "papers/cost_models.hpp"
#include "papers/galvatron/layerwise_search.hpp"
#include "plan/plan_space.hpp"
#include "skipping.hpp"
#include "tuner/search.hpp"

using namespace trimtab;         // NOLINT
using namespace trimtab::tuner;  // NOLINT
namespace peer = trimtab::tuner::galvatron::peer;
using galvatron::LayerwiseSearch;
using galvatron::LayerwiseSpace;

namespace {

struct Priced {
  std::unique_ptr<CostModel> model;
  const galvatron::Formulas* formulas = nullptr;
};

Priced priced(const std::string& version, const Model& model, const Cluster& cluster) {
  Priced result{peer::cost_model_of("galvatron:" + version, model, cluster), nullptr};
  result.formulas = &static_cast<const GalvatronCostModel&>(*result.model).formulas();
  return result;
}

// What the peer's own search may vary, at another batch.
LayerwiseSpace peer_space(const peer::Answer& answer, const Model& model) {
  LayerwiseSpace space;
  space.batch = model.global_batch;
  space.microbatches = allowed_microbatches(model);
  for (std::int32_t cut = 1; cut < static_cast<std::int32_t>(model.operators.size()); ++cut) space.cuts.push_back(cut);
  space.stages_max = answer.devices();
  space.tensor_parallel = {1, 2, 4, 8, 16};
  const bool pipelines = answer.options.find("dp+pp") != std::string::npos;
  const bool tensors = answer.options.find("dp+tp") != std::string::npos;
  space.recompute = answer.options.find("disable_ckpt") == std::string::npos;
  if (pipelines) space.tensor_parallel = {1};
  if (tensors) space.stages_max = 1;
  space.sharded = !pipelines && !tensors;
  return space;
}

std::string text_of(const galvatron::LayeredPlan& plan) {
  const auto stages = static_cast<std::int32_t>(plan.stages.size());
  std::string text;
  for (const galvatron::StageLayers& stage : plan.stages) {
    if (!text.empty()) text += " / ";
    std::size_t at = 0;
    while (at < stage.strategies.size()) {
      std::size_t end = at;
      while (end < stage.strategies.size() && stage.strategies[end] == stage.strategies[at]) ++end;
      text += (at > 0 ? ", " : "") + stage.strategies[at].text(stages) + " x" + std::to_string(end - at);
      at = end;
    }
  }
  return text;
}

struct Sweep {
  double seconds = 0;
  double rate = 0;
  std::int32_t batch = 0;
  std::string plan;
};

// Algorithm 1: the batches that the peer tried, each only where it may beat the best rate so far.
Sweep sweep(const peer::Answer& answer, const galvatron::Formulas& formulas) {
  Sweep result;
  const double begin = bench::thread_seconds();
  for (const auto& [batch, rate] : answer.rates) {
    Model model = peer::model_of(answer.model, batch);
    LayerwiseSearch search(formulas, peer_space(answer, model), nullptr, [] { return false; });
    const auto plan = result.rate > 0 ? search.run(batch / result.rate * 1000) : search.run();
    if (!plan) continue;
    result.rate = batch / search.best_ms() * 1000;
    result.batch = batch;
    result.plan = text_of(*plan);
    // v1 counts microbatches in a way of its own.
    if (answer.version != "v1") result.plan += "; " + std::to_string(plan->microbatches) + " microbatches";
  }
  result.seconds = bench::thread_seconds() - begin;
  return result;
}

// Every batch by itself, against what the peer found for it.
void compare_batches(const peer::Answer& answer, const galvatron::Formulas& formulas, int& better, int& equal,
                     int& behind) {
  for (const auto& [batch, rate] : answer.rates) {
    const Model model = peer::model_of(answer.model, batch);
    LayerwiseSearch search(formulas, peer_space(answer, model), nullptr, [] { return false; });
    const bool found = search.run().has_value();
    const double ours = found ? batch / search.best_ms() * 1000 : 0;
    constexpr double kDigits = 1e-4;  // of the published rates
    if (ours > rate + kDigits) ++better;
    if (std::abs(ours - rate) <= kDigits) ++equal;
    if (ours < rate - kDigits) {
      ++behind;
      std::fprintf(stderr, "behind: %s, batch %d: %.4f samples/s, the peer %.4f\n", answer.name().c_str(), batch, ours,
                   rate);
    }
  }
}

std::string gain_text(double rate, double peer_rate) {
  if (peer_rate <= 0) return "-";
  if (std::abs(rate / peer_rate - 1) < 1e-6) return "same";
  char text[32];
  std::snprintf(text, sizeof text, "%+.2f %%", (rate / peer_rate - 1) * 100);
  return text;
}

void searches() {
  std::printf(
      "| setting | peer: batch, samples/s | its CPU s | ours: batch, samples/s | thread s | gain | batches better, "
      "equal, behind | our plan |\n");
  std::printf("|---|---|---|---|---|---|---|---|\n");
  int all_better = 0;
  int all_equal = 0;
  int all_behind = 0;
  double slowest = 0;
  for (const peer::Answer& answer : peer::answers()) {
    if (answer.rates.empty()) continue;
    const Model model = peer::model_of(answer.model, answer.rates.front().first);
    const Cluster cluster = peer::cluster_of(model, answer.nodes, answer.devices_per_node, answer.gib);
    const Priced with = priced(answer.version, model, cluster);
    const Sweep found = sweep(answer, *with.formulas);
    int better = 0;
    int equal = 0;
    int behind = 0;
    compare_batches(answer, *with.formulas, better, equal, behind);
    all_better += better;
    all_equal += equal;
    all_behind += behind;
    slowest = std::max(slowest, found.seconds);
    const double peer_rate = answer.seconds > 0 ? answer.batch / answer.seconds : 0;
    std::printf("| %s | %d, %.2f | %.1f | %d, %.2f | %.3f | %s | %d, %d, %d | %s |\n", answer.name().c_str(),
                answer.batch, peer_rate, answer.cpu_seconds, found.batch, found.rate, found.seconds,
                gain_text(found.rate, peer_rate).c_str(), better, equal, behind,
                found.plan.empty() ? "nothing fits" : found.plan.c_str());
  }
  std::printf("\nBatches of all settings: %d better, %d equal, %d behind. Slowest sweep %.3f s.\n\n", all_better,
              all_equal, all_behind, slowest);
}

void partitions() {
  std::printf(
      "| setting | stages | peer, even (s) | best by the peer's formulas (s) | ours, same stages (s) | ours, any (s) | "
      "plan |\n");
  std::printf("|---|---|---|---|---|---|---|\n");
  for (const peer::PartitionAnswer& answer : peer::partition_answers()) {
    const Model model = peer::model_of(answer.model, answer.batch);
    const Cluster cluster = peer::cluster_of(model, 1, 8, answer.gib);
    const Priced with = priced("v2", model, cluster);
    peer::Answer any;
    any.version = "v2";
    LayerwiseSpace space = peer_space(any, model);
    LayerwiseSearch all(*with.formulas, space, nullptr, [] { return false; });
    all.run();
    space.stages_min = space.stages_max = static_cast<std::int32_t>(answer.even.size());
    LayerwiseSearch same(*with.formulas, space, nullptr, [] { return false; });
    const auto plan = same.run();
    std::printf(
        "| %s, %d GiB, batch %d | %zu | %.4f | %.4f | %.4f | %.4f | %s |\n", answer.model.c_str(), answer.gib,
        answer.batch, answer.even.size(), answer.even_seconds, answer.best_seconds, same.best_ms() / 1000,
        all.best_ms() / 1000,
        plan ? (text_of(*plan) + "; " + std::to_string(plan->microbatches) + " microbatches").c_str() : "nothing fits");
  }
  std::printf("\n");
}

// Searches as the program runs them, advice on the batch and what to say where nothing fits included.
struct Proofs {
  int searches = 0, nothing = 0, proven = 0, better = 0;
  double widest = 0;   // gap
  double slowest = 0;  // thread seconds
  double sum = 0;
  double most = 0;  // gained
  std::string slowest_name, widest_name;
};

SearchOutcome searched(const CostModel& cost_model, const char* space) {
  SearchOptions options;
  options.strategy = "galvatron";
  options.space = space;
  auto outcome = search(cost_model, Knobs{}, options);
  return std::move(outcome).value();
}

void add_search(const peer::Answer& answer, const char* version, const char* space, std::int32_t batch,
                Proofs& proofs) {
  const Model model = peer::model_of(answer.model, batch);
  const Cluster cluster = peer::cluster_of(model, answer.nodes, answer.devices_per_node, answer.gib);
  const auto built = make_cost_model(std::string("galvatron:") + version, model, cluster, peer::costs_of(cluster), {});
  if (!built.ok()) return;  // v1 is for float32 on 8 or 2 x 8 devices
  const double begin = bench::thread_seconds();
  const SearchOutcome outcome = searched(*built.value(), space);
  const double seconds = bench::thread_seconds() - begin;
  ++proofs.searches;
  proofs.sum += seconds;
  const std::string name = answer.name() + ", batch " + std::to_string(batch);
  if (seconds > proofs.slowest) {
    proofs.slowest = seconds;
    proofs.slowest_name = name;
  }
  if (outcome.result.plans.empty()) {
    ++proofs.nothing;
    return;
  }
  const double ms = outcome.result.plans.front().prediction.iteration_ms;
  const double gap = outcome.result.proven ? 0 : 1 - outcome.result.lower_bound_ms / ms;
  if (outcome.result.proven) ++proofs.proven;
  if (gap > proofs.widest) {
    proofs.widest = gap;
    proofs.widest_name = name;
  }
  if (std::strcmp(space, "galvatron-mixed") != 0) return;
  const double narrow = searched(*built.value(), "galvatron").result.plans.front().prediction.iteration_ms;
  if (ms < narrow * (1 - 1e-9)) ++proofs.better;
  proofs.most = std::max(proofs.most, 1 - ms / narrow);
}

// Every setting under every cost model, at the peer's smallest, best and largest batch.
void proofs() {
  std::printf(
      "| cost model, space | searches | nothing fits | proven | widest gap | mean s | slowest s | quicker than "
      "`galvatron` |\n|---|---|---|---|---|---|---|---|\n");
  constexpr std::pair<const char*, const char*> kKinds[] = {
      {"v1", "galvatron"}, {"v2", "galvatron"}, {"paper", "galvatron"}, {"paper", "galvatron-mixed"}};
  for (const auto& [version, space] : kKinds) {
    Proofs all;
    for (const peer::Answer& answer : peer::answers()) {
      if (answer.rates.empty() || !answer.options.empty()) continue;
      const std::set<std::int32_t> batches{answer.rates.front().first, answer.rates.back().first,
                                           answer.batch > 0 ? answer.batch : answer.rates.front().first};
      for (const std::int32_t batch : batches) add_search(answer, version, space, batch, all);
    }
    char gain[64] = "-";
    if (std::strcmp(space, "galvatron-mixed") == 0) {
      std::snprintf(gain, sizeof gain, "%d, by up to %.2f %%", all.better, all.most * 100);
    }
    std::printf("| galvatron:%s, %s | %d | %d | %d | %.2f %%%s | %.3f | %.3f: %s | %s |\n", version, space,
                all.searches, all.nothing, all.proven, all.widest * 100,
                all.widest_name.empty() ? "" : (": " + all.widest_name).c_str(), all.sum / all.searches, all.slowest,
                all.slowest_name.c_str(), gain);
  }
  std::printf("\n");
}

}  // namespace

int main(int argc, char** argv) {
  if (peer::published() == nullptr) return trimtab::test::say_skipped();
  const char* const part = argc > 1 ? argv[1] : "";
  const auto wanted = [part](const char* name) { return part[0] == 0 || std::strcmp(part, name) == 0; };
  if (wanted("searches")) searches();
  if (wanted("partitions")) partitions();
  if (wanted("proofs")) proofs();
  return 0;
}
