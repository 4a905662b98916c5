#pragma once

// Notices that a node's hardware fingerprint has changed while its agent runs: GPUs were divided (MIG), a daemon shares
// them (MPS), a power cap was set. Costs measured before and after must not mix.

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/result.hpp"
#include "host/source.hpp"
#include "schema/fingerprint.hpp"

namespace trimtab::host {

class FingerprintWatch final {
 public:
  using Probe = std::function<Result<Fingerprint>()>;

  // `probe` takes the fingerprint anew; it runs on the thread that reads the source and must own what it uses.
  FingerprintWatch(Fingerprint first, Probe probe);

  // To be read with the others; probes at every twelfth read, and gives no samples. It may outlive the watch.
  [[nodiscard]] std::unique_ptr<Source> source() const;

  // The fingerprint that the node has now, where it is another than the last that was given. Never waits.
  [[nodiscard]] std::optional<Fingerprint> take();

 private:
  struct Seen;
  Fingerprint last_;
  Probe probe_;
  std::shared_ptr<Seen> seen_;
};

// Takes this node's fingerprint with the GPUs that the library `nvml` tells. Fails while it does not work: that NVML is
// out of order is no change of the hardware.
[[nodiscard]] FingerprintWatch::Probe gpu_node_probe(const std::string& nvml);

}  // namespace trimtab::host
