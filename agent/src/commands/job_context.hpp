#pragma once

// What the agent knows of a job: the fingerprint its costs belong to, its model and through that what a rank's ranges
// mean. From the scratch directory, where a launch has written it, so that an agent that was restarted knows it again.
// Loop thread only.

#include "commands/scratch.hpp"
#include "records/range_fold.hpp"
#include "schema/documents/document_text.hpp"
#include "schema/fingerprint.hpp"
#include "schema/job.hpp"
#include "schema/target.hpp"

namespace trimtab::agent {

class JobContext {
 public:
  JobContext(std::string state, Fingerprint node) : state_(std::move(state)), node_(std::move(node)) {}

  // What is measured from now on belongs to this node; ranks that run keep the fingerprint that they began under.
  void node_changed(Fingerprint node);

  [[nodiscard]] Status remember_job(const Job& job);
  // The node's fingerprint with what the job's environment and software change in it; the node's own for a job that
  // nobody knows.
  [[nodiscard]] std::string fingerprint_json(const std::string& job);
  [[nodiscard]] std::string fingerprint_json(const Job& job) const;

  // Until its files are read again.
  void forget(const std::string& job);
  void forget_all_but(const std::function<bool(const std::string& job)>& is_kept);

  // The job's model, where somebody knows it: from the job itself or from its describe command.
  [[nodiscard]] Status remember_model(const std::string& job, std::string_view model_json);

  // Read once for all ranks of a launch or a change. Valid until another plan of the job is asked for.
  [[nodiscard]] Result<const Plan*> plan(const std::string& job, std::string_view plan_json);

  // The plan as the job's target reads it. REQUIRES: the job names a target.
  [[nodiscard]] Result<ExportedPlan> exported(const Job& job, std::string_view plan_json);
  // For ranks that change their plan as they run: the JSON file that the job's target reads; empty where it reads none,
  // or plan.json.
  [[nodiscard]] Result<std::string> target_config(const std::string& job, std::string_view plan_json);

  // For a rank under a plan; nothing when the model is not known or one of them does not parse.
  [[nodiscard]] std::optional<FoldContext> context(const std::string& job, std::uint32_t rank,
                                                   std::string_view plan_json);
  // The plan that a launch wrote for `epoch`.
  [[nodiscard]] std::optional<FoldContext> launched_context(const Scratch& scratch, const std::string& job,
                                                            std::uint32_t rank, std::uint64_t epoch);

 private:
  [[nodiscard]] Result<Job> known_job(const std::string& name) const;
  [[nodiscard]] const Model* model(const std::string& job);

  std::string state_;
  Fingerprint node_;
  std::map<std::string, Model> models_;
  std::map<std::string, DocumentText<Plan>> plans_;
  std::map<std::string, std::string> fingerprints_;
};

}  // namespace trimtab::agent
