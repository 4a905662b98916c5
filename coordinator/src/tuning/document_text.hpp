#pragma once

// Plans and clusters as the coordinator hands them on. Each is read as the state is loaded, or where a job's owner
// hands it in.

#include "schema/documents/document_text.hpp"

namespace trimtab::coordinator {

struct PlanText : DocumentText<Plan> {
  PlanText() = default;
  PlanText(std::string text, std::string hash_of_plan) : DocumentText(std::move(text)), hash(std::move(hash_of_plan)) {}
  // `words`: of the job's target, for those who see the plan later.
  explicit PlanText(const Plan& plan, const std::string& words = "");

  std::string hash;  // semantic_hash
};

struct ClusterText : DocumentText<Cluster> {
  using DocumentText::DocumentText;
  ClusterText() = default;
  ClusterText(const Cluster& cluster);  // implicit: it is the same thing
};

}  // namespace trimtab::coordinator
