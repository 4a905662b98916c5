#include "nccl.hpp"

#include <chrono>
#include <cstdio>
#include <fstream>
#include <thread>
#include <utility>

#include "cuda_call.hpp"

namespace trimtab::bench::cuda {

namespace {

// NCCL's numbers, the same in all releases.
constexpr int kSuccess = 0;
constexpr int kInt64 = 4;
constexpr int kFloat32 = 7;
constexpr int kSum = 0;
constexpr int kMaximum = 2;
constexpr std::chrono::seconds kLongestWait{120};

}  // namespace

struct NcclRanks::Functions {
  using Comm = NcclCommunicator*;
  using Stream = cudaStream_t;
  int (*unique_id)(NcclUniqueId*);
  int (*init)(Comm*, int size, NcclUniqueId, int rank);
  int (*destroy)(Comm);
  const char* (*error)(int);
  int (*all_reduce)(const void*, void*, std::size_t count, int type, int operation, Comm, Stream);
  int (*all_gather)(const void*, void*, std::size_t count, int type, Comm, Stream);
  int (*reduce_scatter)(const void*, void*, std::size_t count, int type, int operation, Comm, Stream);
  int (*broadcast)(const void*, void*, std::size_t count, int type, int root, Comm, Stream);
  int (*send)(const void*, std::size_t count, int type, int peer, Comm, Stream);
  int (*receive)(void*, std::size_t count, int type, int peer, Comm, Stream);
};

NcclRanks::NcclRanks(DynamicLibrary library, RankPlace place)
    : library_(library), place_(std::move(place)), call_(std::make_unique<Functions>()) {}

NcclRanks::~NcclRanks() {
  for (const auto& [size, group] : groups_) {
    if (group != nullptr && group != world_) call_->destroy(group);
  }
  if (world_ != nullptr) call_->destroy(world_);
  cudaFree(agreed_);
}

Result<std::unique_ptr<NcclRanks>> NcclRanks::connect(const RankPlace& place) {
  if (!place.rendezvous.starts_with("file:///")) {
    return bad_input("--rendezvous must be file:///path, found " + place.rendezvous);
  }
  TRIMTAB_TRY(const auto library,
              DynamicLibrary::open({"libnccl.so.2", std::string(TRIMTAB_CUDA_LIBRARIES) + "/libnccl.so.2"}));
  std::unique_ptr<NcclRanks> ranks(new NcclRanks(library, place));
  TRIMTAB_TRY_STATUS(ranks->load());
  TRIMTAB_TRY(ranks->world_, ranks->communicator("world", place.world_size, place.rank));
  void* memory = nullptr;
  TRIMTAB_TRY_STATUS(cuda::checked(cudaMalloc(&memory, sizeof(std::int64_t)), "the GPU gave no memory"));
  ranks->agreed_ = static_cast<std::int64_t*>(memory);
  return ranks;
}

Status NcclRanks::load() {
  std::string missing;
  const auto find = [&](auto*& function, const char* name) {
    if (!library_.find(function, name)) missing = name;
  };
  find(call_->unique_id, "ncclGetUniqueId");
  find(call_->init, "ncclCommInitRank");
  find(call_->destroy, "ncclCommDestroy");
  find(call_->error, "ncclGetErrorString");
  find(call_->all_reduce, "ncclAllReduce");
  find(call_->all_gather, "ncclAllGather");
  find(call_->reduce_scatter, "ncclReduceScatter");
  find(call_->broadcast, "ncclBroadcast");
  find(call_->send, "ncclSend");
  find(call_->receive, "ncclRecv");
  if (missing.empty()) return {};
  return unavailable("this libnccl lacks " + missing + ": version 2.7 or newer is needed");
}

Status NcclRanks::checked(int result, const std::string& action) const {
  if (result == kSuccess) return {};
  return unavailable(action + ": NCCL says " + call_->error(result));
}

// The first rank writes the id under another name and renames it, so that nobody reads half of it.
Result<NcclUniqueId> NcclRanks::meet(const std::string& path, bool first) {
  NcclUniqueId id{};
  if (first) {
    TRIMTAB_TRY_STATUS(checked(call_->unique_id(&id), "no communicator id"));
    std::ofstream(path + ".new", std::ios::binary).write(id.internal, sizeof(id.internal));
    if (std::rename((path + ".new").c_str(), path.c_str()) != 0) return unavailable("cannot write " + path);
    return id;
  }
  for (const auto end = std::chrono::steady_clock::now() + kLongestWait; std::chrono::steady_clock::now() < end;) {
    std::ifstream file(path, std::ios::binary);
    if (file && file.read(id.internal, sizeof(id.internal))) return id;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return unavailable("the first rank wrote no " + path + " within two minutes");
}

Result<NcclCommunicator*> NcclRanks::communicator(const std::string& name, std::int32_t size, std::int32_t rank) {
  const std::string path = place_.rendezvous.substr(std::string("file://").size()) + ".nccl-" + name;
  TRIMTAB_TRY(const NcclUniqueId id, meet(path, rank == 0));
  NcclCommunicator* made = nullptr;
  TRIMTAB_TRY_STATUS(checked(call_->init(&made, size, id, rank), "no communicator of " + std::to_string(size)));
  return made;
}

Result<std::int64_t> NcclRanks::largest(std::int64_t mine) {
  TRIMTAB_TRY_STATUS(cuda::checked(cudaMemcpy(agreed_, &mine, sizeof(mine), cudaMemcpyHostToDevice), "cannot agree"));
  TRIMTAB_TRY_STATUS(
      checked(call_->all_reduce(agreed_, agreed_, 1, kInt64, kMaximum, world_, nullptr), "cannot agree"));
  TRIMTAB_TRY_STATUS(cuda::checked(cudaMemcpy(&mine, agreed_, sizeof(mine), cudaMemcpyDeviceToHost), "cannot agree"));
  return mine;
}

Result<bool> NcclRanks::all(bool mine) {
  TRIMTAB_TRY(const std::int64_t refusals, largest(mine ? 0 : 1));
  return refusals == 0;
}

Status NcclRanks::join(std::int32_t size) {
  if (groups_.contains(size)) return {};
  const std::int32_t block = place_.rank / size;
  NcclCommunicator* group = nullptr;
  if (size == place_.world_size) {
    group = world_;
  } else if ((block + 1) * size <= place_.world_size) {
    const std::string name = std::to_string(size) + "-" + std::to_string(block);
    TRIMTAB_TRY(group, communicator(name, size, place_.rank % size));
  }
  groups_[size] = group;
  return {};
}

Status NcclRanks::launch(const Collective& collective, const void* input, void* output, cudaStream_t stream) {
  NcclCommunicator* const group = groups_.at(collective.group_size);
  if (group == nullptr) return {};
  const auto count = static_cast<std::size_t>(collective.bytes) / sizeof(float);
  const std::string& primitive = collective.primitive;
  if (primitive == "all_reduce") {
    return checked(call_->all_reduce(input, output, count, kFloat32, kSum, group, stream), primitive);
  }
  if (primitive == "all_gather") {
    return checked(call_->all_gather(input, output, count, kFloat32, group, stream), primitive);
  }
  if (primitive == "reduce_scatter") {
    const std::size_t share = count / static_cast<std::size_t>(collective.group_size);
    return checked(call_->reduce_scatter(input, output, share, kFloat32, kSum, group, stream), primitive);
  }
  if (primitive == "broadcast") {
    return checked(call_->broadcast(input, output, count, kFloat32, 0, group, stream), primitive);
  }
  return exchange(group, collective.group_size, collective, input, output, stream);
}

// Even ranks send to the next odd one, which receives: one direction, as between pipeline stages.
Status NcclRanks::exchange(NcclCommunicator* group, std::int32_t size, const Collective& collective, const void* input,
                           void* output, cudaStream_t stream) const {
  const std::int32_t me = place_.rank % size;
  const std::int32_t peer = me ^ 1;
  if (peer >= size) return {};
  const auto count = static_cast<std::size_t>(collective.bytes) / sizeof(float);
  if (me < peer) return checked(call_->send(input, count, kFloat32, peer, group, stream), "send");
  return checked(call_->receive(output, count, kFloat32, peer, group, stream), "receive");
}

}  // namespace trimtab::bench::cuda
