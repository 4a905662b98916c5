#include "card/make_card.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "card/devices.hpp"
#include "card/findings/findings.hpp"
#include "card/job_look.hpp"
#include "card/peak_flops.hpp"

namespace trimtab::coordinator {

namespace {

// The step's time: of the steps that all ranks tell; where there are none, of the rank that tells most.
std::vector<double> step_times(const JobLook& job) {
  if (job.steps.count() > 0) return job.steps.series([&job](std::size_t row) { return job.steps.wall(row); });
  std::vector<double> walls;
  for (const auto& [number, rank] : job.evidence.ranks) {
    if (rank.steps.all().size() <= walls.size()) continue;
    walls.clear();
    for (const KeptStep& step : rank.steps.all()) walls.push_back(step.wall);
  }
  return walls;
}

// What one rank had in all steps together.
double whole_share(const Rows& rows, std::size_t place, double Cell::*member) {
  double part = 0;
  double whole = 0;
  for (std::size_t row = 0; row < rows.count(); ++row) {
    part += rows.at(row, place).*member;
    whole += rows.at(row, place).wall;
  }
  return whole > 0 ? part / whole : 0;
}

// The mean over ranks of what the middle step of each had. Of a trace's few steps no one stands for the others.
double share(const JobLook& job, const Rows& rows, double Cell::*member) {
  if (rows.count() == 0) return 0;
  double sum = 0;
  for (std::size_t place = 0; place < rows.ranks().size(); ++place) {
    if (job.evidence.traced) {
      sum += whole_share(rows, place, member);
      continue;
    }
    sum += median_of(rows.series([&](std::size_t row) {
      const Cell& cell = rows.at(row, place);
      return cell.wall > 0 ? cell.*member / cell.wall : 0;
    }));
  }
  return sum / static_cast<double>(rows.ranks().size());
}

api::CardShares shares_of(const JobLook& job, bool launch_bound) {
  const Rows& rows = job.work();
  api::CardShares shares;
  shares.computation = share(job, rows, &Cell::passes) + (job.on_device ? 0 : share(job, rows, &Cell::optimizer));
  shares.exposed_communication = share(job, rows, &Cell::communication);
  shares.data = share(job, job.steps, &Cell::data);
  if (job.on_device) {
    // What the host waits for counts as far as the device idles.
    const double idle = share(job, rows, &Cell::idle);
    shares.data = std::min(shares.data, idle);
    (launch_bound ? shares.launch_bound : shares.idle) = idle - shares.data;
  }
  const double told =
      shares.computation + shares.exposed_communication + shares.data + shares.launch_bound + shares.idle;
  shares.other = rows.count() > 0 ? std::max(1 - told, 0.0) : 0;
  return shares;
}

// A second, of all replicas together; `all` says whether every rank counts, or none. Of a replica's ranks some may not
// know: they count as the others.
std::optional<double> rate(const JobLook& job, double (*amount)(const KeptStep&), bool& all) {
  double sum = 0;
  std::size_t counting = 0;
  for (const auto& [number, rank] : job.evidence.ranks) {
    double amounts = 0;
    double ms = 0;
    for (const KeptStep& step : rank.steps.all()) {
      amounts += amount(step);
      ms += step.wall;
    }
    if (amounts <= 0 || ms <= 0) continue;
    ++counting;
    sum += amounts / ms * 1e3;
  }
  const std::int64_t sharing = job.ranks_of_replica();
  const std::size_t ranks = job.evidence.ranks.size();
  all = counting == 0 || counting == ranks || sharing > 1;
  if (counting == 0) return std::nullopt;
  if (sharing == 1) return sum;
  return sum / static_cast<double>(counting) * static_cast<double>(ranks) / static_cast<double>(sharing);
}

// Of the whole model, as many as a token passes. What tensor parallelism leaves whole (norms), and embeddings that two
// stages hold, count twice.
double parameters_of(const JobLook& job) {
  double sum = 0;
  double telling = 0;
  for (const auto& [number, rank] : job.evidence.ranks) {
    const std::int64_t active = rank.facts.active_parameters;
    const std::int64_t counting = active > 0 ? active : rank.facts.parameters;
    if (counting <= 0) continue;
    sum += static_cast<double>(counting);
    ++telling;
  }
  const auto sharing = job.ranks_of_replica() / std::max<std::int64_t>(job.facts.context_parallel, 1);
  return telling > 0 ? sum / telling * static_cast<double>(sharing) : 0;
}

void add_rates(const JobLook& job, api::Card& card) {
  bool all_samples = true;
  bool all_tokens = true;
  card.samples_per_s = rate(
      job, [](const KeptStep& step) { return static_cast<double>(step.count); }, all_samples);
  card.tokens_per_s = rate(
      job, [](const KeptStep& step) { return static_cast<double>(step.tokens); }, all_tokens);
  if (!all_samples || !all_tokens)
    card.notes.emplace_back("samples/s and tokens/s: only some ranks say what they take");
  const std::optional<double> peak = peak_flops(job.facts.device_name, job.facts.dtype);
  const double parameters = parameters_of(job);
  if (!peak || !card.tokens_per_s || parameters <= 0 || card.ranks == 0) return;
  card.peak_flops = *peak * static_cast<double>(std::max<std::int64_t>(job.evidence.world_size, card.ranks));
  card.mfu = 6 * parameters * *card.tokens_per_s / *card.peak_flops;
  const std::string passed = job.facts.active_parameters > 0 ? " (of experts those that a token passes)" : "";
  card.notes.emplace_back("MFU: 6 x parameters" + passed + " x tokens/s over the devices' dense peak in " +
                          job.facts.dtype);
}

void add_notes(const JobLook& job, api::Card& card) {
  const auto say = [&card](const std::string& note) { card.notes.push_back(note); };
  const std::int64_t world = job.evidence.world_size;
  if (card.ranks < world) {
    const std::string counts = std::to_string(card.ranks) + " of " + std::to_string(world);
    say(job.evidence.traced ? "traces of " + counts + " ranks" : counts + " ranks tell steps");
  }
  if (card.steps == 0) return;
  if (job.steps.count() == 0 && !job.on_device) {
    say("no rank tells where its steps go, so nothing can be said about what would make them shorter");
  } else if (job.on_device && !job.devices.are_enough()) {
    say("the device's kernels have not been seen for long enough to say where its steps go");
  } else if (!job.work().are_enough()) {
    say(std::to_string(card.steps) + " steps after warm-up are too few for findings: " + std::to_string(kLeastRows) +
        " are needed");
  }
  if (job.has_untold_stages() && job.work().ranks().size() > 1) {
    say("ranks send to each other as stages of a pipeline do, whose work differs: no rank is called slow");
  }
  if (job.evidence.traced && job.work().count() < kLeastRows) {
    say("of " + std::to_string(job.work().count()) + (job.work().count() == 1 ? " step" : " steps") +
        " the figures in brackets are the least and the largest, and no interval of 95 %");
  }
  if (job.work().are_enough() && !job.on_device && !job.work().undisturbed() && job.work().ranks().size() > 1) {
    say("what other processes take from the ranks is not known here, so a rank counts as slow only where it is clearly "
        "so");
  }
  constexpr double kCrowded = 0.15;
  const double crowding = job.crowding();
  if (crowding > kCrowded) {
    say("the ranks lack CPUs: " + std::to_string(std::lround(100 * crowding)) +
        " % of a step they could run and had none; fewer ranks or threads, or fewer other processes");
  }
}

}  // namespace

api::Card make_card(const JobEvidence& evidence) {
  const JobLook job = look_at(evidence);
  api::Card card;
  card.job = evidence.job;
  for (const auto& [number, rank] : evidence.ranks) card.ranks += rank.steps.told() > 0 ? 1 : 0;
  std::vector<double> walls = step_times(job);
  card.steps = static_cast<std::int64_t>(walls.size());
  if (!walls.empty()) card.step_ms = {median_of(walls), quantile_of(walls, 0.9)};
  card.findings = findings_of(job);
  const bool launch_bound = std::ranges::any_of(
      card.findings, [](const api::CardFinding& one) { return one.name == api::FindingName::kLaunchBound; });
  card.shares = shares_of(job, launch_bound);
  card.communication = evidence.communication;
  card.memory = job.memory;
  card.devices = devices_of(evidence);
  add_rates(job, card);
  add_notes(job, card);
  return card;
}

}  // namespace trimtab::coordinator
