#include "host/fingerprint_watch.hpp"

#include <mutex>
#include <utility>

#include "host/fingerprint_probe.hpp"

namespace trimtab::host {

// What the source's thread has found and the owner has not taken.
struct FingerprintWatch::Seen {
  std::mutex mutex;
  std::optional<Fingerprint> fingerprint;
};

namespace {

constexpr unsigned kReadsBetweenProbes = 12;

class FingerprintSource final : public Source {
 public:
  FingerprintSource(FingerprintWatch::Probe probe, std::function<void(Fingerprint)> found)
      : probe_(std::move(probe)), found_(std::move(found)) {}
  [[nodiscard]] std::string_view name() const override { return "fingerprint"; }

  [[nodiscard]] Result<Samples> read() override {
    if (++reads_ % kReadsBetweenProbes != 0) return Samples{};
    TRIMTAB_TRY(Fingerprint fingerprint, probe_());
    found_(std::move(fingerprint));
    return Samples{};
  }

 private:
  const FingerprintWatch::Probe probe_;
  const std::function<void(Fingerprint)> found_;
  unsigned reads_ = 0;
};

}  // namespace

FingerprintWatch::FingerprintWatch(Fingerprint first, Probe probe)
    : last_(std::move(first)), probe_(std::move(probe)), seen_(std::make_shared<Seen>()) {}

std::unique_ptr<Source> FingerprintWatch::source() const {
  const auto keep = [seen = seen_](Fingerprint fingerprint) {
    const std::scoped_lock lock(seen->mutex);
    seen->fingerprint = std::move(fingerprint);
  };
  return std::make_unique<FingerprintSource>(probe_, keep);
}

std::optional<Fingerprint> FingerprintWatch::take() {
  std::optional<Fingerprint> now;
  {
    const std::scoped_lock lock(seen_->mutex);
    now = std::exchange(seen_->fingerprint, std::nullopt);
  }
  if (!now || *now == last_) return std::nullopt;
  last_ = *now;
  return now;
}

FingerprintWatch::Probe gpu_node_probe(const std::string& nvml) {
  return [nvml]() -> Result<Fingerprint> {
    ProbeInput input = probe_input(await_gpu_inventory(nvml));
    if (input.gpus.access != GpuAccess::kReadable) return unavailable(input.gpus.reason);
    return probe_fingerprint(input);
  };
}

}  // namespace trimtab::host
