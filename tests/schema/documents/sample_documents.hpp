#pragma once

// A full and a small valid document of every kind, for the tests that need one to start from.

#include <string>
#include <vector>

#include "schema/prediction.hpp"

namespace trimtab::test {

enum class DocumentKind { kPlan, kModel, kCluster, kJob, kJobToml, kFingerprint, kCostKey, kStatistics };

struct SampleDocument {
  DocumentKind kind;
  std::string text;
};

[[nodiscard]] const std::vector<SampleDocument>& sample_documents();
// The first sample of that kind: the full one.
[[nodiscard]] const std::string& sample(DocumentKind kind);
// Of a prediction with every field, and that.
[[nodiscard]] const std::string& sample_prediction_json();
[[nodiscard]] Prediction sample_prediction();

}  // namespace trimtab::test
