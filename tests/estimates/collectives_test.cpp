#include "collectives.hpp"

#include <utility>

#include <catch2/catch.hpp>

namespace trimtab::estimates {
namespace {

Machine machine(const char* devices, const char* network) {
  return machine_by_name(devices, network).value();
}

// What nccl-tests call the bus bandwidth, in GB/s.
double gathered_bus(const Machine& on, double bytes) {
  const Constants constants;
  const Collectives collectives(on, constants);
  const Group all = collectives.group(on.devices, 1);
  return bytes * (all.devices - 1) / all.devices / collectives.all_gather(all, bytes) / 1e9;
}

TEST_CASE("a group is told by how many of its devices share a node") {
  const Machine four_nodes = machine("32xH100", "8x400G");
  const Constants constants;
  const Collectives collectives(four_nodes, constants);
  CHECK(collectives.group(8, 1).nodes() == 1);
  CHECK(collectives.group(4, 2).nodes() == 1);
  CHECK(collectives.group(8, 4).in_node == 2);
  CHECK(collectives.group(8, 4).nodes() == 4);
  CHECK(collectives.group(4, 8).nodes() == 4);
}

TEST_CASE("one device communicates with nobody") {
  const Machine one = machine("1xH100", "");
  const Constants constants;
  const Collectives collectives(one, constants);
  CHECK(collectives.all_reduce(collectives.group(1, 1), 1e9) == 0);
  CHECK(collectives.all_gather(collectives.group(1, 1), 1e9) == 0);
}

TEST_CASE("bus bandwidths of an EFA cluster are met within their spread") {
  // Medians of published measurements for 2 to 64 nodes of eight H100 (all-gather).
  const std::pair<const char*, double> measured[] = {{"16xH100", 184.6}, {"32xH100", 119.0}, {"64xH100", 69.0},
                                                     {"128xH100", 55.0}, {"256xH100", 28.0}, {"512xH100", 11.0}};
  for (const auto& [devices, bandwidth] : measured) {
    INFO(devices);
    const double estimated = gathered_bus(machine(devices, "8x400G EFA"), 145e6);
    CHECK(estimated > bandwidth / 1.6);
    CHECK(estimated < bandwidth * 1.6);
  }
}

TEST_CASE("more bytes, more nodes and a slower network take longer") {
  const Constants constants;
  const Machine fast = machine("64xH100", "8x400G");
  const Machine slow = machine("64xH100", "8x100G");
  const Collectives on_fast(fast, constants);
  const Collectives on_slow(slow, constants);
  const Group eight = on_fast.group(8, 1);
  const Group all = on_fast.group(64, 1);
  CHECK(on_fast.all_reduce(eight, 2e8) > on_fast.all_reduce(eight, 1e8));
  CHECK(on_fast.all_reduce(all, 1e8) > on_fast.all_reduce(eight, 1e8));
  CHECK(on_slow.all_gather(all, 1e8) > on_fast.all_gather(all, 1e8));
  CHECK(on_slow.all_gather(eight, 1e8) == on_fast.all_gather(eight, 1e8));
  CHECK(on_fast.transfer(8, 1e8) > on_fast.transfer(1, 1e8));
}

}  // namespace
}  // namespace trimtab::estimates
