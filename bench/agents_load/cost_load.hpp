#pragma once

// What the agents of one made-up job measure. Three of four keys are the same on all nodes (the operators of one
// model), the others a node's own. A batch is a function of its agent and number, so one that is sent again is the
// same.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "schema/cost.hpp"
#include "wire/agent.pb.h"

namespace trimtab::load {

class CostLoad {
 public:
  // `run` keeps the keys apart from those of other runs on the same database. Each batch has so many costs, each of
  // them so many measured values. REQUIRES: all above 0.
  CostLoad(std::string run, std::uint32_t agents, std::uint32_t costs, std::uint32_t values);

  [[nodiscard]] std::string instance(std::uint32_t agent) const;
  [[nodiscard]] const std::string& fingerprint_json() const { return fingerprint_json_; }
  // A batch for the wire. `count_it`: it is one of those that expected() tells of.
  void fill(wire::CostBatch& batch, std::uint32_t agent, std::uint64_t number, bool count_it);
  // By key: what the database must have when it has each counted batch once.
  [[nodiscard]] std::map<CostKey, Statistics> expected() const;
  [[nodiscard]] bool owns(const CostKey& key) const { return key.subject.starts_with(run_ + "/"); }

 private:
  struct Place {
    CostKey key;
    std::string json;
    Statistics counted;
  };
  [[nodiscard]] Place place(CostKind kind, const std::string& subject) const;
  Place& place_of(std::uint32_t agent, std::uint32_t cost);

  std::string run_;
  std::uint32_t costs_;
  std::uint32_t values_;
  std::uint32_t shared_count_;
  std::string fingerprint_json_;
  std::vector<Place> shared_;
  std::vector<Place> own_;  // of agent 0, of agent 1, ...
};

}  // namespace trimtab::load
