#include "jobs/job_card.hpp"

#include "tuning/hardware/hardware_state.hpp"

namespace trimtab::coordinator {

void JobCard::connected(std::int32_t rank, const std::string& node, std::uint64_t launch,
                        const std::string& fingerprint_json) {
  fold_.connected(rank, node, static_cast<std::int64_t>(launch));
  auto fingerprint = parse_fingerprint(fingerprint_json, "node " + node);
  if (fingerprint.ok()) fold_.on_node(node, std::move(fingerprint).value());
}

void JobCard::step(std::int32_t rank, const CardStep& step) {
  fold_.step(rank, step);
  told_ = has_any_ = true;
}

Status JobCard::facts(std::int32_t rank, const std::string& facts_json) {
  TRIMTAB_TRY(api::RankFacts facts, api::parse<api::RankFacts>(facts_json, "facts"));
  fold_.facts(rank, std::move(facts));
  return {};
}

void JobCard::probed(const std::vector<Probe>& probes, const std::vector<Probe>& first) {
  const auto speed = [](const Probe& probe) { return probe.ms > 0 ? kProbedLinkBytes / probe.ms * 1e3 : 0; };
  std::vector<CardLink> links;
  for (const Probe& probe : probes) {
    if (probe.device >= 0 || probe.peer.empty()) continue;
    const Probe* const earlier = find(first, probe);
    links.push_back({probe.node, probe.peer, speed(probe), probe.spread, earlier == nullptr ? 0 : speed(*earlier)});
  }
  if (!links.empty()) fold_.links(std::move(links));
}

std::string JobCard::json() const {
  if (!has_any_) return kept_;
  const api::Card card = fold_.card();
  return goes_on_ && card.steps < kEnough ? kept_ : api::to_json(card);
}

std::optional<std::string> JobCard::next_to_keep(Nanoseconds now, bool is_over) {
  const bool is_time = is_over || !stored_at_ || now - *stored_at_ >= kPeriod;
  if (!told_ || !is_time) return std::nullopt;
  told_ = false;
  stored_at_ = now;
  std::string card = json();
  if (card == kept_) return std::nullopt;
  kept_ = card;
  return card;
}

}  // namespace trimtab::coordinator
