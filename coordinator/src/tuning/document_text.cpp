#include "tuning/document_text.hpp"

#include "schema/plan_words.hpp"

namespace trimtab::coordinator {

PlanText::PlanText(const Plan& plan, const std::string& words)
    : DocumentText(to_json(plan, words), plan), hash(semantic_hash(plan)) {}

ClusterText::ClusterText(const Cluster& cluster) : DocumentText(to_json(cluster), cluster) {}

}  // namespace trimtab::coordinator
