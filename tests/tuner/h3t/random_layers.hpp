#pragma once

// Random layers, whole-numbered so that ties and exact fits occur.

#include <vector>

#include "base/random.hpp"
#include "solvers/h3t/problem.hpp"

namespace trimtab::tuner::h3t::test {

// Equal layers where `equal`; else each for itself.
[[nodiscard]] std::vector<LayerProfile> random_layers(Random& random, std::int32_t count, bool equal);

// Whether a layer can be (solvers/h3t/layer_profile.hpp): the solvers require that.
[[nodiscard]] bool can_be(const LayerProfile& layer);

// Between the lowest peak of all-on, less a little, and the peak of nothing on.
[[nodiscard]] Bytes random_limit(Random& random, std::span<const LayerProfile> layers, Fabric fabric);

// Either fabric, up to three microbatches, up to so many in flight; every other one has a host limit too.
[[nodiscard]] Problem random_problem(Random& random, std::span<const LayerProfile> layers);

}  // namespace trimtab::tuner::h3t::test
