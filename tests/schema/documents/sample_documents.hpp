#pragma once

// A full and a small valid document of every kind, for the tests that need one to start from.

#include <string>
#include <vector>

namespace trimtab::test {

enum class DocumentKind { kPlan, kModel, kCluster, kPrediction, kJob, kJobToml, kFingerprint, kCostKey, kStatistics };

struct SampleDocument {
  DocumentKind kind;
  std::string text;
};

[[nodiscard]] const std::vector<SampleDocument>& sample_documents();
// The first sample of that kind: the full one.
[[nodiscard]] const std::string& sample(DocumentKind kind);

}  // namespace trimtab::test
