// A link that carries what the job sends over it more slowly than other links carry as much, by the kernel's counters
// of the ranks' own connections.

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/numbers.hpp"
#include "card/findings/findings.hpp"

namespace trimtab::coordinator {

namespace {

constexpr double kClearlyBelow = 0.75;  // of the others
constexpr double kLikeAmount = 3;       // times as many bytes, or as few
constexpr double kLeastBytes = 4e6;     // less says nothing of bandwidth
constexpr double kLeastGain = 0.03;
constexpr double kSpread = 0.15;  // of such rates, where nothing is wrong

struct UsedLink {
  std::int32_t rank = 0;  // that names it as its own
  std::string from;
  std::string to;
  double bytes = 0;
  double busy_s = 0;
  double trained_s = 0;

  [[nodiscard]] double rate() const { return bytes / busy_s; }
};

std::vector<UsedLink> used_links(const JobEvidence& job) {
  std::map<std::pair<std::string, std::string>, UsedLink> links;
  for (const auto& [number, rank] : job.ranks) {
    for (const api::FactLink& told : rank.facts.links) {
      UsedLink& link = links.try_emplace({told.from, told.to}, UsedLink{number, told.from, told.to}).first->second;
      link.bytes += static_cast<double>(told.bytes);
      link.busy_s += static_cast<double>(told.busy_ns) / 1e9;
      link.trained_s = std::max(link.trained_s, rank.trained_s);
    }
  }
  std::vector<UsedLink> all;
  for (const auto& [ends, link] : links) {
    if (link.bytes >= kLeastBytes && link.busy_s > 0 && link.trained_s > 0) all.push_back(link);
  }
  return all;
}

// What other links give that carry about as much: of several the upper middle one, since a slow node has two slow
// directions. 0: there is none.
double usual_rate(const std::vector<UsedLink>& links, const UsedLink& one) {
  std::vector<double> rates;
  for (const UsedLink& other : links) {
    if (&other == &one || other.bytes > kLikeAmount * one.bytes || one.bytes > kLikeAmount * other.bytes) continue;
    rates.push_back(other.rate());
  }
  if (rates.empty()) return 0;
  std::ranges::sort(rates);
  return rates[rates.size() / 2];
}

std::string rate_text(double bytes_per_s) {
  const double megabits = bytes_per_s * 8 / 1e6;
  return megabits < 1e4 ? format_number(megabits, 0) + " Mbit/s" : format_number(megabits / 1e3, 1) + " Gbit/s";
}

std::string end_text(const std::vector<UsedLink>& links, const std::string& address) {
  for (const UsedLink& link : links) {
    if (link.from == address) return "rank " + std::to_string(link.rank) + " (" + address + ")";
  }
  return address;
}

}  // namespace

Found find_slow_link_in_use(const JobLook& job) {
  const std::vector<UsedLink> links = used_links(job.evidence);
  if (links.size() < 2 || !job.work().are_enough() || job.work().ranks().size() < 2) return {};
  const auto slow = std::ranges::min_element(links, {}, &UsedLink::rate);
  const double usual = usual_rate(links, *slow);
  if (usual <= 0 || slow->rate() > kClearlyBelow * usual) return {};
  // What the link would be busy less, as far as the ranks wait for communication at all.
  const Estimate waiting = pure_communication(job);
  const double busy = slow->busy_s / slow->trained_s;
  const auto gain_at = [&](double wait, double spread) {
    return std::min(wait, busy) * std::max(1 - slow->rate() / usual * spread, 0.0);
  };
  const Estimate gain{gain_at(waiting.value, 1), gain_at(waiting.low, 1 + kSpread), gain_at(waiting.high, 1 - kSpread)};
  if (gain.value < kLeastGain) return {};
  api::CardFinding finding = new_finding(api::FindingName::kSlowLink, gain, slow->rank);
  const std::string link = "the link from " + end_text(links, slow->from) + " to " + end_text(links, slow->to);
  finding.why = link + " carries " + rate_text(slow->rate()) + " while it is used, others that carry as much " +
                rate_text(usual) + "; it is busy " + format_percent(busy) +
                " of the time, and every rank waits at least " + format_percent(waiting.value) +
                " of a step for communication";
  finding.advice =
      "check " + link + ": its negotiated rate (ethtool), a limit (tc qdisc), other traffic, its cable and switch port";
  return finding;
}

}  // namespace trimtab::coordinator
