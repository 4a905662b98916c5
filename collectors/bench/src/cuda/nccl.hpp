#pragma once

// NCCL, opened at run time and declared here, and the ranks of a benchmark that it connects. Ranks find each other by
// files beside the rendezvous file that they share.

#include <cuda_runtime_api.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "base/result.hpp"
#include "cuda_call.hpp"
#include "device.hpp"

namespace trimtab::bench::cuda {

struct NcclUniqueId {
  char internal[128];
};
struct NcclCommunicator;  // ncclComm_t's target

struct RankPlace {
  std::int32_t rank = 0;
  std::int32_t world_size = 1;
  std::string rendezvous;  // file:///path
};

class NcclRanks final : public Ranks {
 public:
  // Meets the other ranks; waits for them up to two minutes.
  [[nodiscard]] static Result<std::unique_ptr<NcclRanks>> connect(const RankPlace& place);
  ~NcclRanks() override;
  NcclRanks(const NcclRanks&) = delete;
  NcclRanks& operator=(const NcclRanks&) = delete;

  [[nodiscard]] std::int32_t rank() const override { return place_.rank; }
  [[nodiscard]] std::int32_t size() const override { return place_.world_size; }
  [[nodiscard]] std::string no_collectives() const override { return ""; }
  [[nodiscard]] Result<bool> all(bool mine) override;
  [[nodiscard]] Result<std::int64_t> largest(std::int64_t mine) override;

  // This rank's part of the collective; nothing for a rank left over by whole groups. The group must be joined.
  [[nodiscard]] Status launch(const Collective& collective, const void* input, void* output, cudaStream_t stream);
  // Makes the group of this rank among blocks of `size` neighbours; all ranks call it alike.
  [[nodiscard]] Status join(std::int32_t size);

 private:
  struct Functions;

  NcclRanks(DynamicLibrary library, RankPlace place);
  [[nodiscard]] Status load();
  [[nodiscard]] Result<NcclCommunicator*> communicator(const std::string& name, std::int32_t size, std::int32_t rank);
  [[nodiscard]] Result<NcclUniqueId> meet(const std::string& path, bool first);
  [[nodiscard]] Status checked(int result, const std::string& action) const;
  [[nodiscard]] Status exchange(NcclCommunicator* group, std::int32_t size, const Collective& collective,
                                const void* input, void* output, cudaStream_t stream) const;

  DynamicLibrary library_;
  RankPlace place_;
  std::unique_ptr<Functions> call_;
  NcclCommunicator* world_ = nullptr;
  std::map<std::int32_t, NcclCommunicator*> groups_;  // by size; null for a rank left over
  std::int64_t* agreed_ = nullptr;                    // on the device
};

}  // namespace trimtab::bench::cuda
