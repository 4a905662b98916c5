#pragma once

// The worlds of the golden files: seeded, the same on every machine, one maker for each kind of published model.

#include <memory>
#include <string>
#include <vector>

#include "../world.hpp"
#include "tuner/cost_model.hpp"

namespace trimtab::tuner::golden {

struct NamedWorld {
  std::string name;  // for headings: the maker, its seed and the number
  test::World world;

  // Estimates are allowed.
  [[nodiscard]] std::unique_ptr<CostModel> model(const std::string& cost_model) const;
};

using Worlds = std::vector<NamedWorld>;

[[nodiscard]] inline Worlds first(std::size_t count, Worlds worlds) {
  worlds.resize(count);
  return worlds;
}

// random_world() of tests/tuner/world.hpp.
[[nodiscard]] Worlds random_worlds(std::uint64_t seed, int count, const test::RandomWorldOptions& options = {});
// random_split_world(), every other one with copies to the host.
[[nodiscard]] Worlds split_worlds(std::uint64_t seed, int count, const test::RandomWorldOptions& options);
// The same with copies to the host and so little memory that switches of memory are worth their while. Every operator
// is a layer.
[[nodiscard]] Worlds tight_worlds(std::uint64_t seed, int count, const test::RandomWorldOptions& options);
// Random worlds of at least three operators and a batch of 12.
[[nodiscard]] Worlds pipeline_worlds(std::uint64_t seed, int count,
                                     const test::RandomWorldOptions& options = {9, 4, 3});
// A GPT of six layers on four devices with tensor-parallel ranks measured: one that every target runs.
[[nodiscard]] Worlds gpt_worlds(std::uint64_t seed, int count);
// Operators as Aceso's published profile has them.
[[nodiscard]] Worlds aceso_worlds(std::uint64_t seed, int count, std::int64_t operators_max = 8);
// MiB of a device that Galvatron's v1 and v2 count beside layers; and so little that some layers' states are sharded.
inline constexpr std::int64_t kGalvatronContext = 1150;
inline constexpr std::int64_t kTightGalvatronContext = 900;
// Layers of two kinds on 8 devices, as Galvatron's published profiles have them.
[[nodiscard]] Worlds galvatron_worlds(std::uint64_t seed, int count, std::int64_t context_mib = 0);
// Equal layers by arithmetic, with memory for a share of what they take without switches.
[[nodiscard]] Worlds h3t_worlds();
// The first operators of Oases' published settings, with as much less memory.
[[nodiscard]] Worlds oases_worlds();

}  // namespace trimtab::tuner::golden
