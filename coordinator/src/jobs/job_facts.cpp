#include "jobs/job_facts.hpp"

#include <spdlog/spdlog.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "net/tokens.hpp"
#include "schema/hash64.hpp"
#include "schema/model.hpp"
#include "tuner/calibration.hpp"

namespace trimtab::coordinator {
namespace {

using nlohmann::json;

// The fact of a fingerprint that holds what the latest of its jobs has taught those of other names.
constexpr const char* kFactors = "factors";
// Why plans failed earlier jobs.
constexpr const char* kCrash = "crash";
constexpr const char* kHang = "hang";        // no later job is told of it; earlier releases told them
constexpr const char* kCrashes = "crashes";  // after it had failed before

}  // namespace

std::string JobFacts::fact(const std::string& fingerprint, const std::string& name) const {
  const auto found = costs_.fact(fingerprint, name);
  return found.ok() ? found->value_or("") : "";
}

// A name may be another tenant's once its runs are forgotten; who takes it learns nothing of theirs.
std::string JobFacts::tenant_prefix() const {
  return state_.tenant == net::kEveryTenant ? "" : "tenant/" + state_.tenant + "/";
}

std::string JobFacts::name(const std::string& what) const {
  return tenant_prefix() + what + "/" + state_.job.name;
}

// What does not fit into one limit may fit into another, and a plan of the same words is another one for another model.
std::string JobFacts::failures_name() const {
  const auto known = parse_model(state_.model_json, "the job's model");
  const std::string of = hash64_hex(known.ok() ? to_json(*known) : state_.model_json);
  return name("failures") + "/" + std::to_string(state_.job.memory_limit) + "/" + of;
}

// Another command may tell them.
std::string JobFacts::untold_name() const {
  return tenant_prefix() + "launches_untold/" + hash64_hex(json(state_.job.benchmark).dump());
}

void JobFacts::remember(const std::string& name, const std::string& json) {
  const Status stored = costs_.put_fact(state_.fingerprint, name, json);
  if (!stored.ok()) spdlog::warn("job {}: cannot remember {}: {}", state_.job.name, name, stored.error().message);
}

std::string JobFacts::fingerprint_on(const std::string& hardware) const {
  const auto own = json::parse(fact(hardware, name("job_fingerprint")), nullptr, false);
  return own.is_string() ? own.get<std::string>() : hardware;
}

Status JobFacts::remember_fingerprint(const std::string& hardware, const std::string& fingerprint) {
  return costs_.put_fact(hardware, name("job_fingerprint"), json(fingerprint).dump());
}

std::string JobFacts::calibration() const {
  const auto own = json::parse(fact(state_.fingerprint, name("calibration")), nullptr, false);
  return own.is_object() ? own.dump() : factors_of_others();
}

std::string JobFacts::factors_of_others() const {
  std::string found = fact(state_.fingerprint, tenant_prefix() + kFactors);
  return tuner::parse_calibration(found).ok() ? found : "";
}

void JobFacts::remember_calibration(const std::string& json, bool machines_shared) {
  auto learnt = tuner::parse_calibration(json);
  if (machines_shared && learnt.ok()) {
    spdlog::info("job {}: others use its machines, so what its trials teach of times is not kept for later jobs",
                 state_.job.name);
    const auto earlier = tuner::parse_calibration(state_.earlier_calibration_json);
    learnt = tuner::times_of(earlier.ok() ? *earlier : tuner::Calibration{}, *learnt);
    remember(name("calibration"), tuner::to_json(*learnt));
  } else {
    remember(name("calibration"), json);
  }
  if (!learnt.ok() || learnt->observations == 0) return;
  remember(tenant_prefix() + kFactors, tuner::to_json(tuner::of_another_job(*learnt)));
}

std::optional<std::vector<Probe>> JobFacts::probes() const {
  const auto stored = json::parse(fact(state_.fingerprint, name("probes")), nullptr, false);
  auto known = parse_probes(stored.dump());
  if (!stored.is_array() || !known.ok()) return std::nullopt;
  return std::move(known).value();
}

std::vector<std::string> JobFacts::ruled_out() const {
  return ruled_out_by(fact(state_.fingerprint, failures_name()));
}

void JobFacts::remember_failure(const std::string& plan_hash, const std::string& reason) {
  const auto add = [&](const std::string* known) { return with_failure(known, plan_hash, reason); };
  const Status stored = costs_.change_fact(state_.fingerprint, failures_name(), add);
  if (!stored.ok()) spdlog::warn("job {}: cannot remember a failure: {}", state_.job.name, stored.error().message);
}

std::string with_failure(const std::string* known, const std::string& plan_hash, const std::string& reason) {
  json failures = known == nullptr ? json::object() : json::parse(*known, nullptr, false);
  if (!failures.is_object()) failures = json::object();
  const bool crashed_again = reason == kCrash && failures.contains(plan_hash);
  failures[plan_hash] = crashed_again ? kCrashes : reason;
  return failures.dump();
}

std::vector<std::string> ruled_out_by(const std::string& fact) {
  std::vector<std::string> hashes;
  const json failures = json::parse(fact, nullptr, false);
  if (!failures.is_object()) return hashes;
  for (const auto& [hash, reason] : failures.items()) {
    if (reason != kHang && reason != kCrash) hashes.push_back(hash);
  }
  return hashes;
}

}  // namespace trimtab::coordinator
