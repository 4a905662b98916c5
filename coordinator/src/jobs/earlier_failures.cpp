#include "jobs/earlier_failures.hpp"

#include <nlohmann/json.hpp>

namespace trimtab::coordinator {

namespace {

using nlohmann::json;

constexpr const char* kCrash = "crash";
constexpr const char* kHang = "hang";        // no later job is told of it; earlier releases told them
constexpr const char* kCrashes = "crashes";  // after it had failed before

}  // namespace

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
