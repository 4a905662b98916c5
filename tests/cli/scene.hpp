#pragma once

// A small model, a cluster of two devices and every cost that its plans need, as files.

#include <string>
#include <vector>

#include "program.hpp"
#include "schema/cluster.hpp"
#include "schema/fingerprint.hpp"
#include "schema/model.hpp"
#include "schema/plan.hpp"

trimtab::Model small_model();
trimtab::Cluster two_devices(trimtab::Bytes memory_bytes);
trimtab::Plan even_pipeline();
trimtab::Fingerprint fingerprint_of(const std::string& machine);

struct Scene {
  Scene();
  Scratch scratch;
  std::string model;
  std::string cluster;
  std::string plan;
  std::string costs;

  // The three flags that name model, cluster and costs.
  [[nodiscard]] std::vector<std::string> with(std::vector<std::string> arguments) const;
  // A database with the same costs, times `factor`, under this machine's fingerprint.
  std::string database(const std::string& name, const std::string& machine, double factor) const;
};
