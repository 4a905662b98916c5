#pragma once

// Which microbatches, data-parallel degrees and cuts a job's plans may use. Plain values, built once; any thread.

#include <cstdint>
#include <vector>

#include "schema/cluster.hpp"
#include "schema/job.hpp"
#include "schema/model.hpp"

namespace trimtab::tuner {

// Divisors of the global batch that the model allows, ascending.
[[nodiscard]] std::vector<std::int32_t> allowed_microbatches(const Model& model);

// Whether `dp` replicas may share a microbatch: a whole number of samples each, of an allowed size.
[[nodiscard]] bool divides_well(const Model& model, std::int32_t microbatch, std::int32_t dp);

// First operators that a stage other than the first may begin with, ascending.
[[nodiscard]] std::vector<std::int32_t> allowed_cuts(const Model& model);

// Begins of stages 1 to stages - 1 that cut the model evenly by count of layers (by operators where there are fewer
// layers than stages), moved to the nearest allowed cut. REQUIRES: 1 <= stages <= allowed_cuts(model).size() + 1.
[[nodiscard]] std::vector<std::int32_t> even_cuts(const Model& model, std::int32_t stages);

// Samples per replica that some plan may use, ascending; and data-parallel degrees above 1 that may occur.
[[nodiscard]] std::vector<std::int32_t> possible_samples(const Model& model, const std::vector<std::int32_t>& degrees);
[[nodiscard]] std::vector<std::int32_t> possible_degrees(const Model& model, const Cluster& cluster,
                                                         const Knobs& knobs);

struct PlanSpace {
  Knobs knobs;
  std::int32_t devices = 1;
  std::int32_t operators = 1;
  std::vector<std::int32_t> microbatches;
  std::vector<std::int32_t> cuts;
  std::int32_t stages_min = 1;
  std::int32_t stages_max = 0;  // below stages_min where no plan uses every device

  // Every way to give all devices to `stages` stages, in lexicographic order, that this microbatch allows; at most
  // `limit` of them.
  [[nodiscard]] std::vector<std::vector<std::int32_t>> device_splits(const Model& model, std::int32_t microbatch,
                                                                     std::int32_t stages, std::size_t limit) const;
  // The split whose parts are nearest to equal; empty where there is none.
  [[nodiscard]] std::vector<std::int32_t> even_split(const Model& model, std::int32_t microbatch,
                                                     std::int32_t stages) const;

 private:
  // Numbers of devices that a stage may have.
  [[nodiscard]] std::vector<std::int32_t> degrees(const Model& model, std::int32_t microbatch,
                                                  std::int32_t stages) const;
};

// `fixed_microbatch` is what a job that does not honour the microbatch knob runs with.
[[nodiscard]] PlanSpace plan_space(const Model& model, const Cluster& cluster, const Knobs& knobs,
                                   std::int32_t fixed_microbatch);

}  // namespace trimtab::tuner
