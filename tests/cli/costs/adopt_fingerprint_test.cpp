#include "costs/import_costs.hpp"

#include <catch2/catch.hpp>

using namespace trimtab;
using namespace trimtab::cli;

namespace {

Fingerprint measured() {
  Fingerprint fingerprint;
  fingerprint.device = {{"kind", "gpu"}, {"model", "NVIDIA H100"}};
  fingerprint.software = {{"nccl", "2.28.9"}};
  fingerprint.environment = {{"NCCL_ALGO", "Ring"}, {"measured_by", "nccl-tests"}};
  return fingerprint;
}

Fingerprint node() {
  Fingerprint fingerprint = measured();
  fingerprint.device["power_limit_w"] = "700";
  fingerprint.software = {{"driver", "550.54.15"}, {"kernel", "6.1"}};
  fingerprint.environment = {{"NCCL_ALGO", "Ring"}, {"OMP_NUM_THREADS", "1"}};
  return fingerprint;
}

}  // namespace

TEST_CASE("costs join a node's fingerprint where what both say agrees") {
  CHECK(disagreement(measured(), node()).empty());
  Fingerprint told = node();
  told.software["nccl"] = "2.28.9";
  CHECK(disagreement(measured(), told).empty());
}

TEST_CASE("another GPU, NCCL or NCCL variable is named with both values") {
  Fingerprint other = node();
  other.device["model"] = "NVIDIA A100";
  CHECK(disagreement(measured(), other) == "the GPU was 'NVIDIA H100' there and is 'NVIDIA A100' here");
  other = node();
  other.software["nccl"] = "2.27.3";
  CHECK(disagreement(measured(), other) == "NCCL was '2.28.9' there and is '2.27.3' here");
  other = node();
  other.environment.erase("NCCL_ALGO");
  CHECK(disagreement(measured(), other) == "NCCL_ALGO was 'Ring' there and is unset here");
  other = node();
  other.environment["NCCL_PROTO"] = "LL";
  CHECK(disagreement(measured(), other) == "NCCL_PROTO was unset there and is 'LL' here");
  other = node();
  other.device.erase("model");  // a CPU node
  CHECK_FALSE(disagreement(measured(), other).empty());
}

TEST_CASE("a record that does not tell all of its machine contradicts only what it says") {
  Fingerprint told;
  told.device = {{"kind", "gpu"}};
  told.environment = {{"measured_by", "nccl-inspector"}};
  CHECK(disagreement(told, node(), false).empty());
  told.device["model"] = "NVIDIA A100";
  CHECK(disagreement(told, node(), false) == "the GPU was 'NVIDIA A100' there and is 'NVIDIA H100' here");
  Fingerprint other = node();
  other.software["nccl"] = "2.28.9";
  told.device.erase("model");
  told.software["nccl"] = "2.21.5";
  CHECK(disagreement(told, other, false) == "NCCL was '2.21.5' there and is '2.28.9' here");
  told.device["kind"] = "cpu";
  CHECK(disagreement(told, node(), false) == "the device was 'cpu' there and is 'gpu' here");
}
