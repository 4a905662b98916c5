#pragma once

// Plans and clusters as the coordinator hands them on: the text, which is stored and sent as it came, and beside it
// what it says. A text is read once, where it becomes one of these: as the state is loaded, and where a job's owner
// hands it in. Plain values. Copies share what was read.

#include <memory>
#include <string>
#include <utility>

#include "base/result.hpp"
#include "schema/cluster.hpp"
#include "schema/plan.hpp"

namespace trimtab::coordinator {

template <typename Document>
struct DocumentText {
  std::string json;

  [[nodiscard]] bool empty() const { return json.empty(); }
  // Null where the text says none: there is no text, or it is not right.
  [[nodiscard]] const Document* said() const { return read_ && read_->ok() ? &read_->value() : nullptr; }
  // Or what is wrong with it. `what` it was to be: "the incumbent".
  [[nodiscard]] Result<Document> needed(const std::string& what) const {
    if (!read_) return bad_input(what + ": there is none");
    return read_->ok() ? *read_ : wrap(what, read_->error());
  }

 protected:
  DocumentText() = default;
  DocumentText(std::string text, Result<Document> read)
      : json(std::move(text)),
        read_(json.empty() ? nullptr : std::make_shared<const Result<Document>>(std::move(read))) {}

 private:
  std::shared_ptr<const Result<Document>> read_;
};

struct PlanText : DocumentText<Plan> {
  PlanText() = default;
  PlanText(const std::string& text, std::string hash_of_plan);
  // `words`: of the job's target, for those who see the plan later.
  explicit PlanText(const Plan& plan, const std::string& words = "");

  std::string hash;  // semantic_hash
};

struct ClusterText : DocumentText<Cluster> {
  ClusterText() = default;
  explicit ClusterText(const std::string& text);
  ClusterText(const Cluster& cluster);  // implicit: it is the same thing
};

}  // namespace trimtab::coordinator
